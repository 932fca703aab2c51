# A mirror as a site of Ubuntu servers has one: the CUDA repository, DOCA's and the archive, the first two signed with
# keys of their own. Sourced after `apt.sh`; `ubuntu.packages` holds their packages, except the driver's.
# shellcheck shell=bash

# Builds the mirror into $1. $2 is the folder `hardware`, $3 that of the samples. The repositories of both releases have
# the same names and versions; only the archive's driver differs, in its revision.
build_ubuntu_mirror() {
  local out=$1 common=$2 samples=$3 keys
  local cuda=$out/cuda/repos/ubuntu2204/x86_64 doca=$out/doca/3.2.0/ubuntu22.04/x86_64
  build_nvidia_world "$out/driver" "$common"
  mkdir -p "${cuda%/*}" "$doca" "$out/keys"
  mv "$out/driver/cuda" "$cuda"
  mv "$out/driver/ubuntu" "$out/archive"
  rmdir "$out/driver"
  mirror_packages "$common" "$samples" "$cuda" "$doca" "$out/archive"
  keys=$(mktemp -d)
  publish "$cuda" 'NVIDIA CUDA' "$keys" "$out/keys/cuda.gpg"
  publish "$doca" DOCA-HOST "$keys" "$out/keys/doca.gpg"
  gpgconf --homedir "$keys" --kill gpg-agent
  rm -rf "$keys"
  index_repo "$out/archive"
  ln -s ubuntu2204 "$out/cuda/repos/ubuntu2404"
  ln -s ubuntu22.04 "$out/doca/3.2.0/ubuntu24.04"
  chmod -R a+rX "$out"
}

# Packs the packages of the table. $1 and $2 are the folders of hardware and samples, then the three repositories.
mirror_packages() {
  local work
  work=$(mktemp -d)
  each_row mirror_package "$work" "$@" <"$WORLDS/ubuntu.packages"
  rm -rf "$work"
}

# Packs one row: repository $7, name $8, version $9, files, Depends.
mirror_package() {
  local work=$1 common=$2 samples=$3 into name=$8 kernel
  kernel=$(uname -r)
  case $7 in cuda) into=$4 ;; doca) into=$5 ;; archive) into=$6 ;; *) die "unknown repository \`$7\`" ;; esac
  begin "$work"
  [[ -z ${10} ]] || mirror_files "$work" "$common" "$samples" "${10}" "$kernel"
  pack_related "$work" "${name/%-K/-$kernel}" "$9" "${11}" ''
  mv "$work"/*.deb "$into/"
}

# Stages the files $4 of a package.
mirror_files() {
  local work=$1 common=$2 tree=$1/stack line path
  case $4 in
    dkms) put "$work" usr/sbin/dkms 755 <"$common/programs/dkms" && return ;;
    headers) headers_files "$work" "$5" && return ;;
    dcgm) dcgm_files "$work" "$common" && return ;;
    diags) put "$work" usr/sbin/sminfo 755 <"$common/programs/sminfo" && return ;;
  esac
  line=$(<"$3/ofed_info-doca.txt")
  [[ -d $tree ]] || stack "$tree" mlnx-ofed-kernel-25.10 "$common" "$line" "$(sed 's/^OFED-internal-//; s/:$//' <<<"$line")"
  case $4 in
    modules)
      mkdir -p "$work/pkg/usr" && cp -a "$tree/usr/src" "$work/pkg/usr/"
      dkms_build mlnx-ofed-kernel-25.10 | put "$work" DEBIAN/postinst 755
      printf '#!/bin/sh\ncd /lib/modules/%s/updates/dkms && rm -f mlx5*.ko ib_*.ko rdma_*.ko\ndepmod\n' "$5" | put "$work" DEBIAN/prerm 755
      ;;
    usr/*) for path in $4; do put "$work" "$path" 755 <"$tree/$path"; done ;;
    *) die "unknown files \`$4\`" ;;
  esac
}

# Indexes the repository $1 with the label $2, and signs it with a new key from the folder $3, which it writes to $4.
publish() (
  index_repo "$1"
  cd "$1" || return
  gpg --homedir "$3" --batch --quiet --passphrase '' --quick-generate-key "$2 (stand-in)" ed25519 sign never 2>/dev/null
  gpg --homedir "$3" --batch --export "=$2 (stand-in)" >"$4"
  sed -i "1s/.*/Origin: forge\nLabel: $2/" Release
  gpg --homedir "$3" --batch --local-user "=$2 (stand-in)" --clear-sign --output InRelease Release
  rm Release
)
