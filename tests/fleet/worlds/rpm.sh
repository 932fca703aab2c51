# A package world of dnf: repositories with the names, versions and relations of real ones, so that the real solver meets
# real conflicts. Sourced after `hardware/packages.sh`; `rocky-9.packages` holds what the world contains.
# shellcheck shell=bash disable=SC2016,SC2034

WORLDS=$(dirname "${BASH_SOURCE[0]}")
# The driver's versions, by the words of the table.
declare -rA DRIVER_VERSIONS=([V]='570.172.08 580.95.05 580.105.08' [V570]='570.172.08' [V580]='580.95.05 580.105.08')

# Builds the world of Rocky Linux 9 into $1, one folder with an index per repository. $2 is the folder `hardware`, $3 that
# of the samples.
build_rocky_world() {
  local out=$1 common=$2 samples=$3 of name epoch versions release files relations version work
  # dkms on RHEL and its derivatives, and their folder of libraries.
  DKMS_FOLDER=extra LIBRARY_FOLDER=usr/lib64
  work=$(mktemp -d)
  while IFS='|' read -r of name epoch versions release files relations; do
    case $of in '' | '#'*) continue ;; esac
    read -r of <<<"$of"
    read -r name <<<"$name"
    read -r epoch <<<"$epoch"
    read -r versions <<<"$versions"
    read -r release <<<"$release"
    read -r files <<<"$files"
    for version in ${DRIVER_VERSIONS[$versions]:-$versions}; do
      pack_rpm "$work" "$out/$of" "${name/-B/-${version%%.*}}" "$epoch" "$version" "$release" "$files" "$relations"
    done
  done <"$WORLDS/rocky-9.packages"
  for of in "$out"/*/; do createrepo_c -q "$of"; done
  driver_streams >"$work/modules.yaml"
  modifyrepo_c --mdtype=modules "$work/modules.yaml" "$out/cuda/repodata" >/dev/null
  rm -rf "$work"
  chmod -R a+rX "$out"
}

# Packs package $3 into the folder $2: epoch $4, version $5, release $6, files $7 and relations $8 of the table.
pack_rpm() {
  local work=$1 into=$2 name=$3 epoch=$4 version=$5 release=$6 files=$7 relation
  begin "$work"
  mkdir -p "$into"
  # Words of the table: `module open` has an argument.
  # shellcheck disable=SC2086
  [[ -z $files ]] || rpm_files "$work" "$common" "$samples" "$name" "$version" "$release" $files
  # A package of rpm names no folder that is a link.
  mkdir -p "$work/pkg/usr"
  [[ ! -d $work/pkg/lib ]] || { cp -a "$work/pkg/lib" "$work/pkg/usr/" && rm -r "$work/pkg/lib"; }
  find "$work/pkg" -path "$work/pkg/DEBIAN" -prune -o -exec touch --no-dereference --date=2001-02-03T04:05:06Z {} +
  {
    printf 'Name: %s\nVersion: %s\nRelease: %s\nSummary: a stand-in of forge\nLicense: none\n' "$name" "$version" "$release"
    ((epoch == 0)) || printf 'Epoch: %s\n' "$epoch"
    printf 'AutoReqProv: no\n'
    tr ';' '\n' <<<"$8" | sed "s/^ *//; s/= V\$/= $( ((epoch == 0)) || echo "$epoch:")$version/; /^\$/d"
    printf '%%description\nA stand-in of forge, no real software.\n%%install\ncp -a %s/pkg/. %%{buildroot}/\nrm -rf %%{buildroot}/DEBIAN\n' "$work"
    spec_script post "$work/pkg/DEBIAN/postinst"
    spec_script preun "$work/pkg/DEBIAN/prerm"
    printf '%%files\n'
    (cd "$work/pkg" && find . -path ./DEBIAN -prune -o \( -type f -o -type l \) -printf '"/%P"\n' | sed 's,^"/etc/,%config(noreplace) &,')
  } >"$work/spec"
  rpmbuild -bb --quiet --target x86_64-linux --dbpath "$work/db" --define "_topdir $work/rpm" --define "_rpmdir $into" \
    --define '_rpmfilename %{NAME}-%{VERSION}-%{RELEASE}.%{ARCH}.rpm' --define '_build_id_links none' --define 'debug_package %{nil}' \
    --define '__os_install_post %{nil}' --define '_binary_payload w1.gzdio' "$work/spec" >"$work/log" 2>&1 || { cat "$work/log" >&2; return 1; }
}

# Prints a script of a Debian package as the section $1.
spec_script() {
  [[ ! -e $2 ]] || { printf '%%%s\n' "$1" && sed 1d "$2" && echo 'exit 0'; }
}

# Stages the files $7 of package $4, version $5, release $6.
rpm_files() {
  local work=$1 common=$2 samples=$3 name=$4 version=$5
  case $7 in
    module)
      driver_modules "$work" "$version" "$([[ $8 == open ]] && echo 'Dual MIT/GPL' || echo NVIDIA)"
      # dkms removes the modules of a version that goes. In an upgrade, those of the next one are already there.
      printf '#!/bin/sh\n[ "$(modinfo -F version nvidia 2>/dev/null)" != %s ] || { rm -f /lib/modules/*/extra/nvidia*.ko; depmod; }\n' "$version" |
        put "$work" DEBIAN/prerm 755
      ;;
    library) driver_library "$work" libnvidia-ml 1 "$version" ;;
    nscq) driver_library "$work" libnvidia-nscq 2 "$version" ;;
    smi) put "$work" usr/bin/nvidia-smi 755 <"$common/programs/nvidia-smi" ;;
    persistenced)
      persistenced_files "$work"
      put "$work" DEBIAN/postinst 755 <<'POST'
#!/bin/sh
getent passwd nvidia-persistenced >/dev/null || useradd -r -d /var/run/nvidia-persistenced -s /sbin/nologin nvidia-persistenced
[ ! -d /run/systemd/system ] || systemctl daemon-reload
POST
      ;;
    fabricmanager) fm_files "$work" "$common" "$name" ;;
    imex) imex_files "$work" "$common" ;;
    dcgm) dcgm_files "$work" "$common" ;;
    ofed)
      local line
      line=$(cat "$samples/ofed_info-doca.txt")
      [[ $version == 3.2.0 ]] || line=${line%:}.1:
      stack "$work/pkg" "doca-ofed-$version-1" "$common" "$line" "$(sed 's/^OFED-internal-//; s/:$//' <<<"$line")"
      dkms_build "doca-ofed-$version-1" | put "$work" DEBIAN/postinst 755
      ;;
    sminfo) put "$work" usr/sbin/sminfo 755 <"$common/programs/sminfo" ;;
    dkms) put "$work" usr/sbin/dkms 755 <"$common/programs/dkms" ;;
    headers) kernel_headers "$work" "$version-$6.x86_64" ;;
    *) rpm_program_files "$@" ;;
  esac
}

# Stages the sources of a kernel of release $2 as RHEL's kernel-devel does.
kernel_headers() {
  put "$1" "usr/src/kernels/$2/Makefile" </dev/null
  mkdir -p "$1/pkg/lib/modules/$2"
  ln -s "/usr/src/kernels/$2" "$1/pkg/lib/modules/$2/build"
}

# Programs of packages around containers and CUDA, reduced to what recipes read of them.
rpm_program_files() {
  local work=$1 version=$5
  case $7 in
    nvcc)
      printf '#!/bin/sh\n[ "${1-}" != --version ] || echo "Cuda compilation tools, release %s, V%s.93"\n' "$8" "$8" |
        put "$work" "usr/local/cuda-$8/bin/nvcc" 755
      ;;
    nccl) put "$work" "usr/lib64/libnccl.so.$version" </dev/null ;;
    nccl-header) echo 'const char *ncclVersion(void);' | put "$work" usr/include/nccl.h ;;
    runtime)
      printf '#!/bin/sh\n[ "${1-}" != --version ] || echo "NVIDIA Container Runtime version %s"\nexec runc "$@"\n' "$version" |
        put "$work" usr/bin/nvidia-container-runtime 755
      ;;
    containerd)
      # Debian's program, which the proof leaves in /srv/containerd: the package brings links to it and a unit.
      local program
      for program in containerd ctr containerd-shim-runc-v2 runc; do
        mkdir -p "$work/pkg/usr/bin" && ln -s "/srv/containerd/$program" "$work/pkg/usr/bin/$program"
      done
      printf 'disabled_plugins = ["cri"]\n' | put "$work" etc/containerd/config.toml
      put "$work" usr/lib/systemd/system/containerd.service <<'UNIT'
[Unit]
Description=containerd container runtime
[Service]
Type=notify
ExecStart=/usr/bin/containerd
Delegate=yes
KillMode=process
[Install]
WantedBy=multi-user.target
UNIT
      ;;
    kubelet)
      printf '#!/bin/sh\ncase " $* " in *" --version "*) echo "Kubernetes v%s"; exit ;; esac\nexit 1\n' "$version" | put "$work" usr/bin/kubelet 755
      printf '[Unit]\nDescription=kubelet: The Kubernetes Node Agent\n[Service]\nExecStart=/usr/bin/kubelet\nRestart=always\nRestartSec=10\n[Install]\nWantedBy=multi-user.target\n' |
        put "$work" usr/lib/systemd/system/kubelet.service
      ;;
  esac
}

# Prints the module streams of the driver: only the packages of the enabled one are offered.
driver_streams() {
  local branch flavor kmod
  for branch in 570 580; do
    for flavor in open dkms; do
      kmod=kmod-nvidia-open-dkms
      [[ $flavor == open ]] || kmod=kmod-nvidia-latest-dkms
      printf -- '---\ndocument: modulemd\nversion: 2\ndata:\n  name: nvidia-driver\n  stream: "%s-%s"\n  version: 20251101000000\n  context: abcdef%s%s\n  arch: x86_64\n' "$branch" "$flavor" "$branch" "${#flavor}"
      printf '  summary: Nvidia driver\n  description: Nvidia driver\n  license: {module: [MIT]}\n  artifacts:\n    rpms:\n'
      stream_packages "$branch" | grep -v "^kmod-nvidia-.*-dkms-3" | sed 's/^/    - /'
      stream_packages "$branch" | grep "^$kmod-3" | sed 's/^/    - /'
      printf '...\n'
    done
  done
}

# Prints the packages of a branch that streams have: those with the driver's epoch, and nvidia-fabric-manager.
stream_packages() {
  local branch=$1 of name epoch versions release rest version
  while IFS='|' read -r of name epoch versions release rest; do
    [[ $of == 'cuda ' ]] || continue
    read -r name epoch versions release <<<"$name $epoch $versions $release"
    [[ $epoch == 3 || $name == nvidia-fabric-manager ]] || continue
    for version in ${DRIVER_VERSIONS[$versions]}; do
      [[ ${version%%.*} != "$branch" ]] || echo "$name-$epoch:$version-$release.x86_64"
    done
  done <"$WORLDS/rocky-9.packages"
}
