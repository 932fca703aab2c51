#!/bin/sh
# Stand-in for apt-get and apt in a rehearsal: downloads with the host's network, and runs everything else without one.
# Scripts of packages run in the second part only.
real=/usr/bin/${0##*/}
net=/usr/local/lib/forge-sandbox/net
online() { nsenter --net="$net" -- setpriv --bounding-set -net_admin,-net_raw -- "$real" "$@"; }
verb='' skip=no simulated=no
for word; do
  if [ "$skip" = yes ]; then skip=no; continue; fi
  case $word in
    -o | -c | -t | -a | --option | --config-file | --target-release | --default-release | --host-architecture) skip=yes ;;
    -s | --simulate | --just-print | --dry-run | --recon | --no-act | --print-uris | --no-download) simulated=yes ;;
    -*) ;;
    *) [ -n "$verb" ] || verb=$word ;;
  esac
done
case $simulated:$verb in
  no:update | no:download | no:source | no:changelog) online "$@"; exit ;;
  no:install | no:reinstall | no:upgrade | no:dist-upgrade | no:full-upgrade | no:build-dep | no:satisfy)
    online -y --download-only "$@" </dev/null >&2 || exit ;;
esac
exec "$real" "$@"
