#!/bin/sh
# Stand-in for dnf and yum in a rehearsal: downloads with the host's network, and runs everything else without one.
# Scripts of packages run in the second part only.
real=/usr/bin/${0##*/}
net=/usr/local/lib/forge-sandbox/net
online() { nsenter --net="$net" -- setpriv --bounding-set -net_admin,-net_raw -- "$real" "$@"; }
verb='' cached=no
for word; do
  case $word in
    -C | --cacheonly) cached=yes ;;
    -*) ;;
    *) verb=$word; break ;;
  esac
done
case $cached:$verb in
  no:makecache | no:check-update | no:download | no:list | no:info | no:search | no:repoquery | no:provides | no:repolist | no:updateinfo)
    online "$@"; exit ;;
  no:install | no:localinstall | no:reinstall | no:update | no:upgrade | no:downgrade | no:swap | no:distro-sync | no:group | \
    no:groupinstall | no:module | no:shell | no:builddep)
    online -y --downloadonly "$@" </dev/null >&2 || exit
    exec "$real" -C "$@" ;;
esac
exec "$real" "$@"
