# Packs on a node what stands in for packages of vendors, with the functions of `base.sh`; the script that follows stages them.
# shellcheck shell=bash disable=SC2034

work=$(mktemp -d)
repo=/srv/forge-stand-ins

# Indexes what was packed and lets apt know it.
packed() {
  mkdir -p "$repo"
  mv "$work"/*.deb "$repo/"
  rm -rf "$work"
  index_repo "$repo"
  chmod -R a+rX "$repo"
  echo "deb [trusted=yes] file:$repo ./" >/etc/apt/sources.list.d/stand-ins.list
  apt-get -qq update
}
