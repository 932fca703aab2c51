# The parts of the toolkit and NCCL that a build needs: a compiler driver that passes C to gcc, and a library that knows
# its version. Output of `nvcc --version`: field, CUDA 12.6 as in public guides. nccl-tests is a program that prints the
# NCCL version that it runs with.
# shellcheck shell=bash disable=SC2154,SC2016

echo 'deb [trusted=yes] file:/srv/forge-repo/trade ./' >/etc/apt/sources.list.d/trade.list
apt-get -qq update
apt-get -qq install --no-install-recommends gcc libc6-dev make >/dev/null

begin "$work"
put "$work" usr/local/cuda-12.6/bin/nvcc 755 <<'END'
#!/bin/sh
[ "${1-}" != --version ] || { cat <<'SAID'
nvcc: NVIDIA (R) Cuda compiler driver
Copyright (c) 2005-2024 NVIDIA Corporation
Built on Tue_Oct_29_23:50:19_PDT_2024
Cuda compilation tools, release 12.6, V12.6.85
Build cuda_12.6.r12.6/compiler.35059454_0
SAID
exit; }
exec gcc "$@"
END
finish "$work" cuda-toolkit-12-6 12.6.3-1

for version in 2.22.3 2.23.4; do
  begin "$work"
  mkdir -p "$work/pkg/usr/lib/x86_64-linux-gnu"
  echo "const char *ncclVersion(void) { return \"$version\"; }" |
    gcc -shared -fPIC -Wl,-soname,libnccl.so.2 -x c -o "$work/pkg/usr/lib/x86_64-linux-gnu/libnccl.so.2" -
  printf '#!/bin/sh\nldconfig\n' | put "$work" DEBIAN/postinst 755
  finish "$work" libnccl2 "$version-1+cuda12.6"
  begin "$work"
  echo 'const char *ncclVersion(void);' | put "$work" usr/include/nccl.h
  mkdir -p "$work/pkg/usr/lib/x86_64-linux-gnu" && ln -s libnccl.so.2 "$work/pkg/usr/lib/x86_64-linux-gnu/libnccl.so"
  finish "$work" libnccl-dev "$version-1+cuda12.6" "libnccl2 (= $version-1+cuda12.6)"
done

# A reproducible archive: the recipe declares its digest.
source=$work/nccl-tests-2.13.11
mkdir -p "$source"
printf '%s\n' 'all: $(BUILDDIR)/all_reduce_perf' '$(BUILDDIR)/all_reduce_perf: all_reduce.c' \
  "$(printf '\t')mkdir -p \$(BUILDDIR) && \$(CUDA_HOME)/bin/nvcc -I\$(NCCL_HOME)/include -o \$@ all_reduce.c -lnccl" >"$source/Makefile"
printf '%s\n' '#include <nccl.h>' '#include <stdio.h>' 'int main(void) { return puts(ncclVersion()) < 0; }' >"$source/all_reduce.c"
tar -C "$work" --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner --mode=u=rwX,go=rX -c nccl-tests-2.13.11 | gzip -n >/srv/nccl-tests.tgz
rm -rf "$source"
