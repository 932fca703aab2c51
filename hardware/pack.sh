# Packs Debian packages and indexes a repository of them, sourced by the test fleet and by sandboxes with hardware.
# shellcheck shell=bash

# Begins a package in the folder $1.
begin() { rm -rf "$1/pkg" && mkdir -p "$1/pkg/DEBIAN"; }
# Writes standard input to the file $2 of the package in $1 with mode $3.
put() { install -Dm"${3:-644}" /dev/stdin "$1/pkg/$2"; }

# Packs what was staged in $1 as package $2, version $3, with dependencies $4. Every file is dated 2001, as dpkg
# keeps a package's build dates: only the ctime of an upgraded file is later than the start of its service.
finish() {
  {
    printf 'Package: %s\nVersion: %s\nArchitecture: all\nMaintainer: forge <forge@localhost>\n' "$2" "$3"
    [[ -z ${4:-} ]] || printf 'Depends: %s\n' "$4"
    printf 'Description: a stand-in of forge, no real software\n'
  } | put "$1" DEBIAN/control
  find "$1/pkg" -exec touch --no-dereference --date=2001-02-03T04:05:06Z {} +
  dpkg-deb --root-owner-group --build "$1/pkg" "$1/$2_$3_all.deb" >/dev/null
}

index_repo() (
  local deb
  cd "$1" || return
  for deb in *.deb; do
    dpkg-deb --field "$deb"
    printf 'Filename: ./%s\nSize: %s\nSHA256: %s\n\n' "$deb" "$(stat -c %s "$deb")" "$(sha256sum "$deb" | cut -d' ' -f1)"
  done >Packages
  printf 'Origin: forge\nDate: %s\nSHA256:\n %s %s Packages\n' "$(LC_ALL=C date -Ru)" \
    "$(sha256sum <Packages | cut -d' ' -f1)" "$(stat -c %s Packages)" >Release
)

# What debhelper would generate for a unit that is neither enabled nor started.
reload_postinst() { printf '#!/bin/sh\n[ ! -d /run/systemd/system ] || systemctl daemon-reload\n'; }
