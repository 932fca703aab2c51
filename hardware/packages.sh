# The software of the boards, as stand-ins: packages and archives, sourced by the test fleet and by sandboxes.
# shellcheck shell=bash disable=SC2016   # package scripts are written out unexpanded on purpose

readonly DRIVERS='560.28.03 560.35.03 560.35.05' OPEN=580.105.08 STACKS='24.10-0.7.0.0 24.10-1.1.4.0' DOCAS='3.2.0-1 3.2.1-1'

# Where dkms leaves modules, and where libraries are: a distribution with other folders sets its own.
DKMS_FOLDER=updates/dkms LIBRARY_FOLDER=usr/lib/x86_64-linux-gnu

# Builds everything into the directory $1; $2 is the folder that has the programs, $3 that of the samples.
build_software() {
  local out=$1 common=$2 samples=$3 work version
  work=$(mktemp -d "$out.XXXX")
  mkdir -p "$out/repo" "$out/inbox"
  # An Ubuntu kernel brings its own RDMA modules, an older build than the stack's.
  module "$out/inbox/mlx5_core.ko" 'license=Dual BSD/GPL' srcversion=1D0CBD0F2C0DDCDA0F0E55A
  toolchain "$work" "$common"
  for version in $DRIVERS; do
    driver_package "$work" "$common" "$version" cuda-drivers-560 NVIDIA
    fm_package "$work" "$common" "$version" nvidia-fabricmanager-560
    switch_library "$work" "$version" libnvidia-nscq-560 libnvidia-nscq 2
  done
  driver_package "$work" "$common" "$OPEN" nvidia-open-580 'Dual MIT/GPL'
  fm_package "$work" "$common" "$OPEN" nvidia-fabricmanager
  switch_library "$work" "$OPEN" libnvidia-nscq libnvidia-nscq 2
  switch_library "$work" "$OPEN" libnvsdm libnvsdm 1
  imex_package "$work" "$common" "$OPEN"
  dcgm_package "$work" "$common" datacenter-gpu-manager-4-cuda12 4.1.1-1
  dcgm_package "$work" "$common" datacenter-gpu-manager-4-cuda13 4.4.2-1
  infiniband_diags "$work" "$common"
  for version in $STACKS; do ofed_archive "$work" "$out" "$common" "$samples" "$version"; done
  for version in $DOCAS; do doca_package "$work" "$common" "$samples" "$version"; done
  mv "$work"/*.deb "$out/repo/"
  index_repo "$out/repo"
  rm -rf "$work"
  chmod -R a+rX "$out"
}

# Writes a module with nothing but what modinfo tells: an object without code, which no kernel takes.
module() {
  local file=$1 info
  command -v objcopy >/dev/null || die "objcopy is missing" "install binutils"
  shift
  info=$(mktemp)
  printf '%s\0' "$@" >"$info"
  mkdir -p "$(dirname "$file")"
  as -o "$file" /dev/null
  objcopy --add-section .modinfo="$info" --set-section-flags .modinfo=alloc,readonly,data "$file"
  rm -f "$info"
}

# What dkms does with the source $1: it leaves the modules beside the kernel's own, indexed, for the kernel that runs.
# It may take its time, and it may fail, in the words of dkms. nvidia_peermem has the symbols of an RDMA stack only where
# one was there when it was compiled.
dkms_build() {
  printf '#!/bin/sh\nset -e\nsource=%s\nd=/lib/modules/$(uname -r)/%s\n' "$1" "$DKMS_FOLDER"
  cat <<'BUILD'
faults=/srv/forge-hardware/faults
[ ! -e "$faults/slow-build" ] || sleep 3
if [ -e "$faults/build-fails" ]; then
  echo "Error! Bad return status for module build on kernel: $(uname -r) ($(uname -m))" >&2
  exit 10
fi
mkdir -p "$d"
cp "/usr/src/$source"/*.ko "$d/"
[ -e "$d/ib_core.ko" ] || [ ! -d "/usr/src/$source/without-rdma" ] || cp "/usr/src/$source"/without-rdma/*.ko "$d/"
depmod
[ ! -d /run/systemd/system ] || systemctl daemon-reload
BUILD
}

# What builds modules, and the headers of the machine's own kernel: nodes run on that.
toolchain() {
  local work=$1 name kernel
  kernel=$(uname -r)
  for name in build-essential libelf-dev pkg-config nvlsm; do begin "$work" && finish "$work" "$name" 1.0; done
  begin "$work"
  put "$work" usr/sbin/dkms 755 <"$2/programs/dkms"
  finish "$work" dkms 3.0.10-8
  begin "$work"
  headers_files "$work" "$kernel"
  finish "$work" "linux-headers-$kernel" 1.0
}

# Stages the headers of kernel $2.
headers_files() {
  put "$1" "usr/src/linux-headers-$2/Makefile" </dev/null
  mkdir -p "$1/pkg/lib/modules/$2"
  ln -s "/usr/src/linux-headers-$2" "$1/pkg/lib/modules/$2/build"
}

# The driver of version $3 as package $4, its modules under licence $5.
driver_package() {
  local work=$1 version=$3
  begin "$work"
  driver_modules "$work" "$version" "$5"
  put "$work" usr/bin/nvidia-smi 755 <"$2/programs/nvidia-smi"
  driver_library "$work" libnvidia-ml 1 "$version"
  persistenced_files "$work"
  finish "$work" "$4" "$version-1" dkms
}

# Stages the sources of the modules of version $2 under licence $3, which the package builds when it is configured.
driver_modules() {
  local work=$1 version=$2 source=$1/pkg/usr/src/nvidia-$2
  module "$source/nvidia.ko" "license=$3" "version=$version" "srcversion=5A6C3F0B7D0E4B1C9${version//./}"
  module "$source/nvidia_uvm.ko" "license=$3" "version=$version" depends=nvidia
  module "$source/nvidia_peermem.ko" "license=$3" "version=$version" depends=nvidia,ib_core
  module "$source/without-rdma/nvidia_peermem.ko" "license=$3" "version=$version" depends=nvidia
  dkms_build "nvidia-$version" >"$source/build"
  printf '#!/bin/sh\nsh /usr/src/nvidia-%s/build\n' "$version" | put "$work" DEBIAN/postinst 755
}

# Stages the library $2 of version $4 with the link of its interface $3.
driver_library() {
  put "$1" "$LIBRARY_FOLDER/$2.so.$4" </dev/null
  ln -s "$2.so.$4" "$1/pkg/$LIBRARY_FOLDER/$2.so.$3"
}

# Stages the persistence daemon with its unit, as Ubuntu's: it is left to udev to start it, and nothing enables it.
persistenced_files() {
  printf '#!/bin/sh\nexec sleep infinity\n' | put "$1" usr/bin/nvidia-persistenced 755
  put "$1" lib/systemd/system/nvidia-persistenced.service <<'UNIT'
[Unit]
Description=NVIDIA Persistence Daemon (stand-in)
[Service]
ExecStart=/usr/bin/nvidia-persistenced
UNIT
}

# The library of version $2 through which DCGM sees switches, as package $3: $4 and the interface $5.
switch_library() {
  begin "$1"
  driver_library "$1" "$4" "$5" "$2"
  finish "$1" "$3" "$2-1"
}

# The fabric manager of version $3 as package $4.
fm_package() {
  begin "$1"
  fm_files "$1" "$2" "$4"
  finish "$1" "$4" "$3-1"
}

# Stages the fabric manager; it asks dpkg for the version of package $3.
fm_files() {
  local work=$1
  put "$work" usr/bin/nv-fabricmanager 755 < <(sed "s/^package=.*/package=$3/" "$2/programs/nv-fabricmanager")
  put "$work" lib/systemd/system/nvidia-fabricmanager.service <<'UNIT'
[Unit]
Description=NVIDIA fabric manager (stand-in)
[Service]
RuntimeDirectory=nvidia-fabricmanager
ExecStart=/usr/bin/nv-fabricmanager
[Install]
WantedBy=multi-user.target
UNIT
  reload_postinst | put "$work" DEBIAN/postinst 755
}

imex_package() {
  begin "$1"
  imex_files "$1" "$2"
  finish "$1" nvidia-imex "$3-1"
}

imex_files() {
  local work=$1 name
  for name in nvidia-imex nvidia-imex-ctl; do put "$work" "usr/bin/$name" 755 <"$2/programs/$name"; done
  put "$work" etc/nvidia-imex/config.cfg </dev/null
  put "$work" lib/systemd/system/nvidia-imex.service <<'UNIT'
[Unit]
Description=NVIDIA IMEX service (stand-in)
[Service]
ExecStart=/usr/bin/nvidia-imex
[Install]
WantedBy=multi-user.target
UNIT
  reload_postinst | put "$work" DEBIAN/postinst 755
}

dcgm_package() {
  begin "$1"
  dcgm_files "$1" "$2"
  finish "$1" "$3" "$4"
}

# Stages the manager: its engine, its unit and its client.
dcgm_files() {
  local work=$1
  put "$work" usr/bin/dcgmi 755 <"$2/programs/dcgmi"
  printf '#!/bin/sh\nexec sleep infinity\n' | put "$work" usr/bin/nv-hostengine 755
  put "$work" lib/systemd/system/nvidia-dcgm.service <<'UNIT'
[Unit]
Description=NVIDIA DCGM service (stand-in)
[Service]
ExecStart=/usr/bin/nv-hostengine -n
[Install]
WantedBy=multi-user.target
UNIT
  reload_postinst | put "$work" DEBIAN/postinst 755
}

# What asks the fabric. MLNX_OFED brings its own, DOCA takes this one.
infiniband_diags() {
  begin "$1"
  put "$1" usr/sbin/sminfo 755 <"$2/programs/sminfo"
  finish "$1" infiniband-diags 2501mlnx56-1
}

# Puts modules of version $5, tools and the line of `ofed_info` $4 of an RDMA stack into the tree $1, with sources named $2.
stack() {
  local root=$1 source=$2 common=$3 line=$4 version=$5 name needs
  mkdir -p "$root/usr/bin" "$root/usr/sbin"
  module "$root/usr/src/$source/mlx5_core.ko" 'license=Dual BSD/GPL' "version=$version" "srcversion=$(sha256sum <<<"$source" | cut -c1-23)"
  while read -r name needs; do
    module "$root/usr/src/$source/$name.ko" 'license=Dual BSD/GPL' "version=$version" "depends=$needs"
  done <<'MODULES'
ib_core
ib_uverbs ib_core
ib_umad ib_core
ib_ipoib ib_core
rdma_cm ib_core
rdma_ucm rdma_cm,ib_uverbs,ib_core
mlx5_ib mlx5_core,ib_uverbs,ib_core
MODULES
  for name in ibv_devinfo mlnx_qos; do cp "$common/programs/$name" "$root/usr/bin/"; done
  for name in cma_roce_mode cma_roce_tos; do cp "$common/programs/cma_roce" "$root/usr/sbin/$name"; done
  cp "$common/programs/ethtool" "$root/usr/sbin/"
  printf '#!/bin/sh\n# ofed_info: the stack that was installed with it.\necho %q\n' "$line" >"$root/usr/bin/ofed_info"
  chmod 755 "$root/usr/bin/ofed_info"
}

# The archive of MLNX_OFED, with an installer that removes what was there before it leaves anything, as the real one does.
ofed_archive() {
  local root=$1/MLNX_OFED_LINUX-$5 source=mlnx-ofed-$5
  stack "$root/files" "$source" "$3" "$(sed "s/${STACKS%% *}/$5/" "$4/ofed_info-mlnx.txt")" "${5%.*}"
  cp "$3/programs/sminfo" "$root/files/usr/sbin/"
  dkms_build "$source" >"$root/build"
  cat >"$root/mlnxofedinstall" <<'INSTALL'
#!/bin/sh
set -e
here=$(dirname "$(readlink -f "$0")")
for module in mlx5_core mlx5_ib ib_core ib_uverbs ib_umad ib_ipoib rdma_cm rdma_ucm; do rm -f "/lib/modules/$(uname -r)/updates/dkms/$module.ko"; done
rm -rf /usr/src/mlnx-ofed-* /usr/bin/ofed_info
depmod
cp -a "$here/files/." /
sh "$here/build" || exit 1
INSTALL
  chmod 755 "$root/mlnxofedinstall"
  # The same bytes every time: an inventory names their digest.
  tar -C "$1" --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner --mode=go=rX,u+rw -cf - "MLNX_OFED_LINUX-$5" |
    gzip -n >"$2/mlnx-ofed-$5.tgz"
}

# One package stands for those that `doca-ofed` pulls. Its first version has the line of the sample.
doca_package() {
  local work=$1 line
  line=$(cat "$3/ofed_info-doca.txt")
  [[ $4 == "${DOCAS%% *}" ]] || line=${line%:}.1:
  begin "$work"
  stack "$work/pkg" "doca-ofed-$4" "$2" "$line" "$(sed 's/^OFED-internal-//; s/:$//' <<<"$line")"
  dkms_build "doca-ofed-$4" | put "$work" DEBIAN/postinst 755
  finish "$work" doca-ofed "$4" infiniband-diags
}
