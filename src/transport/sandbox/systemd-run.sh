#!/bin/sh
# Stand-in for systemd-run in a forge sandbox: starts a program that outlives its caller, nothing more.
while [ "$#" -gt 0 ]; do
  case $1 in
    --) shift; break ;;
    --version) echo 'systemd 252 (forge sandbox: simulated)'; exit 0 ;;
    --quiet | -q | --collect | -G | --no-block | --unit=* | -u?* | --description=* | --service-type=* | --property=* | -p?*) ;;
    --unit | -u | --description | --property | -p) shift ;;
    -*) printf 'forge sandbox: `systemd-run %s` is not simulated\n' "$1" >&2; exit 1 ;;
    *) break ;;
  esac
  shift
done
[ "$#" -gt 0 ] || { echo 'forge sandbox: systemd-run needs a program' >&2; exit 1; }
command -v "$1" >/dev/null || { printf 'forge sandbox: no program %s\n' "$1" >&2; exit 1; }
setsid "$@" </dev/null >/dev/null 2>&1 &
