# The software for this board, as stand-ins: packages and an archive, sourced by `fleet`.
# shellcheck shell=bash disable=SC2016   # package scripts are written out unexpanded on purpose

readonly OFED=24.10-0.7.0.0

# Builds everything into the directory $1; $2 is the folder of the profile.
build_software() {
  local out=$1 profile=$2 work version
  command -v objcopy >/dev/null || die "objcopy is missing" "install binutils"
  work=$(mktemp -d "$out.XXXX")
  mkdir -p "$out/repo" "$out/inbox"
  # An Ubuntu kernel brings its own RDMA modules, an older build than the stack's.
  module "$out/inbox/mlx5_core.ko" 'license=Dual BSD/GPL' srcversion=1D0CBD0F2C0DDCDA0F0E55A
  for version in 560.35.03 560.35.05; do
    driver_package "$work" "$profile" "$version"
    fm_package "$work" "$profile" "$version"
  done
  mv "$work"/*.deb "$out/repo/"
  index_repo "$out/repo"
  ofed_archive "$work" "$out" "$profile"
  rm -rf "$work"
  chmod -R a+rX "$out"
}

# Writes a module with nothing but what modinfo tells: an object without code, which no kernel takes.
module() {
  local file=$1 info
  shift
  info=$(mktemp)
  printf '%s\0' "$@" >"$info"
  mkdir -p "$(dirname "$file")"
  as -o "$file" /dev/null
  objcopy --add-section .modinfo="$info" --set-section-flags .modinfo=alloc,readonly,data "$file"
  rm -f "$info"
}

# What dkms leaves behind: the modules beside the kernel's own, indexed, for the kernel that runs.
dkms_postinst() {
  printf '#!/bin/sh\nset -e\nd=/lib/modules/$(uname -r)/updates/dkms\nmkdir -p "$d"\ncp /usr/src/%s/*.ko "$d/"\ndepmod\n' "$1"
  printf '[ ! -d /run/systemd/system ] || systemctl daemon-reload\n'
}

driver_package() {
  local work=$1 version=$3 name
  begin "$work"
  module "$work/pkg/usr/src/nvidia-$version/nvidia.ko" license=NVIDIA "version=$version" "srcversion=5A6C3F0B7D0E4B1C9E2A7${version##*.}"
  for name in nvidia_uvm nvidia_peermem; do
    module "$work/pkg/usr/src/nvidia-$version/$name.ko" license=NVIDIA "version=$version" depends=nvidia,ib_core
  done
  put "$work" usr/bin/nvidia-smi 755 <"$2/programs/nvidia-smi"
  put "$work" "usr/lib/x86_64-linux-gnu/libnvidia-ml.so.$version" </dev/null
  ln -s "libnvidia-ml.so.$version" "$work/pkg/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1"
  printf '#!/bin/sh\nexec sleep infinity\n' | put "$work" usr/bin/nvidia-persistenced 755
  put "$work" lib/systemd/system/nvidia-persistenced.service <<'UNIT'
[Unit]
Description=NVIDIA Persistence Daemon (stand-in)
[Service]
ExecStart=/usr/bin/nvidia-persistenced
[Install]
WantedBy=multi-user.target
UNIT
  # As Debian's helpers do for a package that brings a daemon.
  { dkms_postinst "nvidia-$version" && echo 'systemctl -q enable nvidia-persistenced.service'; } | put "$work" DEBIAN/postinst 755
  finish "$work" cuda-drivers-560 "$version-1"
}

fm_package() {
  local work=$1
  begin "$work"
  put "$work" usr/bin/nv-fabricmanager 755 <"$2/programs/nv-fabricmanager"
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
  finish "$work" nvidia-fabricmanager-560 "$3-1"
}

# The archive of MLNX_OFED with an installer that leaves what the real one does: modules, tools and the service.
ofed_archive() {
  local root=$1/MLNX_OFED_LINUX-$OFED
  mkdir -p "$root/files/usr/bin" "$root/files/usr/sbin"
  module "$root/files/usr/src/mlnx-ofed-$OFED/mlx5_core.ko" 'license=Dual BSD/GPL' version=24.10-0.7.0 srcversion=9A3D5E0C1B7F2E8D6C4A0B1
  for name in mlx5_ib ib_core ib_uverbs; do
    module "$root/files/usr/src/mlnx-ofed-$OFED/$name.ko" 'license=Dual BSD/GPL' version=24.10-0.7.0
  done
  cp "$3/programs/ofed_info" "$3/programs/ibv_devinfo" "$root/files/usr/bin/"
  cp "$3/programs/sminfo" "$root/files/usr/sbin/"
  {
    printf '#!/bin/sh\nset -e\nhere=$(dirname "$(readlink -f "$0")")\ncp -a "$here/files/." /\n'
    dkms_postinst "mlnx-ofed-$OFED" | tail -n +3
  } >"$root/mlnxofedinstall"
  chmod 755 "$root/mlnxofedinstall"
  tar -C "$1" -czf "$2/mlnx-ofed.tgz" "MLNX_OFED_LINUX-$OFED"
}
