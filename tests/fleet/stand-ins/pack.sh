# Builds stand-ins for vendor packages on a node, with the functions of `base.sh`; the script that follows defines them.
# shellcheck shell=bash disable=SC2034

work=$(mktemp -d)
repo=/srv/forge-stand-ins

# Indexes the packages and adds them as an apt source.
packed() {
  mkdir -p "$repo"
  mv "$work"/*.deb "$repo/"
  rm -rf "$work"
  index_repo "$repo"
  chmod -R a+rX "$repo"
  echo "deb [trusted=yes] file:$repo ./" >/etc/apt/sources.list.d/stand-ins.list
  apt-get -qq update
}
