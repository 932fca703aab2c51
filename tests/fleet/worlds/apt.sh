# A package world of apt: repositories with the names, versions and relations of real ones, so that the real solver
# meets real conflicts. Sourced after `hardware/packages.sh`; the tables in this folder hold what a world contains.
# shellcheck shell=bash

WORLDS=$(dirname "${BASH_SOURCE[0]}")

# Builds the NVIDIA world into $1: `cuda/` and `ubuntu/`, one flat repository each. $2 is the folder `hardware`.
build_nvidia_world() {
  local out=$1 common=$2 repository branch version r m f
  while read -r repository branch version r m f; do
    case $repository in '' | '#'*) continue ;; esac
    mkdir -p "$out/$repository"
    world_release "$out" "$common" "$repository" "$branch" "$version" "$r" "$m" "$f"
  done <"$WORLDS/nvidia.releases"
  for repository in "$out"/*/; do index_repo "$repository"; done
  chmod -R a+rX "$out"
}

# Reads lines of a table from standard input whose columns are separated by `|`, and calls `$@` with the columns of each,
# without spaces around them.
each_row() {
  local line column columns
  while IFS= read -r line; do
    case $line in '' | '#'*) continue ;; esac
    columns=()
    while IFS= read -r -d '|' column; do
      read -r column <<<"$column"
      columns+=("$column")
    done <<<"$line|"
    "$@" "${columns[@]}"
  done
}

# Packs every package of one release.
world_release() {
  local out=$1 common=$2 of=$3 branch=$4 version=$5 r=$6 m=$7 f=$8 work where name at files needs virtual
  work=$(mktemp -d)
  while IFS='|' read -r where name at files needs virtual; do
    case $where in '' | '#'*) continue ;; esac
    read -r where from to <<<"${where//-/ }"
    if [[ $where != "$of" ]] || ((branch < from || branch > to)); then continue; fi
    read -r name <<<"$name"
    read -r at <<<"$at"
    read -r files <<<"$files"
    read -r needs <<<"$needs"
    read -r virtual <<<"$virtual"
    name=${name/-B/-$branch}
    at=${at/V/$version} at=${at/-R/-$r} at=${at/-M/-$m} at=${at/-F/-$f}
    needs=${needs//-B/-$branch} needs=${needs//V-R/$version-$r} needs=${needs//>= V/>= $version}
    begin "$work"
    # Words of the table: `module open` has an argument.
    # shellcheck disable=SC2086
    [[ -z $files ]] || world_files "$work" "$common" "$version" "$branch" $files
    pack_related "$work" "$name" "$at" "$needs" "$virtual"
  done <"$WORLDS/nvidia.packages"
  mv "$work"/*.deb "$out/$of/"
  rm -rf "$work"
}

# Packs what was staged in $1 as package $2, version $3, with dependencies $4, in place of every other package that
# provides the virtual package $5.
pack_related() {
  {
    printf 'Package: %s\nVersion: %s\nArchitecture: amd64\nMaintainer: forge <forge@localhost>\n' "$2" "$3"
    [[ -z $4 ]] || printf 'Depends: %s\n' "$4"
    [[ -z $5 ]] || printf 'Provides: %s\nConflicts: %s\nReplaces: %s\n' "$5" "$5" "$5"
    printf 'Description: a stand-in of forge, no real software\n'
  } | put "$1" DEBIAN/control
  # As in a pool: without the epoch.
  dpkg-deb --root-owner-group -Znone --build "$1/pkg" "$1/$2_${3#*:}_amd64.deb" >/dev/null
}

# Stages the files $5 of a package of driver version $3, branch $4.
world_files() {
  local work=$1 common=$2 version=$3 branch=$4
  case $5 in
    module)
      driver_modules "$work" "$version" "$([[ $6 == open ]] && echo 'Dual MIT/GPL' || echo NVIDIA)"
      # dkms removes the modules of a package that goes.
      printf '#!/bin/sh\nrm -f /lib/modules/*/updates/dkms/nvidia*.ko\ndepmod\n' | put "$work" DEBIAN/prerm 755
      ;;
    library) driver_library "$work" libnvidia-ml 1 "$version" ;;
    nscq) driver_library "$work" libnvidia-nscq 2 "$version" ;;
    smi) put "$work" usr/bin/nvidia-smi 755 <"$common/programs/nvidia-smi" ;;
    persistenced) packaged_daemon "$work" ;;
    fabricmanager) fm_files "$work" "$common" "$([[ $branch -ge 580 ]] && echo nvidia-fabricmanager || echo "nvidia-fabricmanager-$branch")" ;;
    imex) imex_files "$work" "$common" ;;
  esac
}

# The daemon as Ubuntu's package brings it: with its account, whose home does not exist, and with a unit that udev
# starts.
packaged_daemon() {
  persistenced_files "$1"
  put "$1" DEBIAN/postinst 755 <<'POSTINST'
#!/bin/sh
getent passwd nvidia-persistenced >/dev/null ||
  adduser --system --group --home /nonexistent --no-create-home --shell /usr/sbin/nologin --quiet nvidia-persistenced
[ ! -d /run/systemd/system ] || systemctl daemon-reload
POSTINST
}
