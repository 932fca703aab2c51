#!/bin/sh
# Stand-in for systemd-run in a forge sandbox: starts a program that outlives its caller. As with --service-type=exec and
# --collect, its unit is active when this program returns, until the started one has ended.
units=/run/forge-sandbox/units name=
while [ "$#" -gt 0 ]; do
  case $1 in
    --) shift; break ;;
    --version) echo 'systemd 252 (forge sandbox: simulated)'; exit 0 ;;
    --quiet | -q | --collect | -G | --no-block | --description=* | --service-type=* | --property=* | -p?*) ;;
    --unit=*) name=${1#--unit=} ;;
    --unit | -u) name=$2; shift ;;
    -u?*) name=${1#-u} ;;
    --description | --property | -p) shift ;;
    -*) printf 'forge sandbox: `systemd-run %s` is not simulated\n' "$1" >&2; exit 1 ;;
    *) break ;;
  esac
  shift
done
[ "$#" -gt 0 ] || { echo 'forge sandbox: systemd-run needs a program' >&2; exit 1; }
command -v "$1" >/dev/null || { printf 'forge sandbox: no program %s\n' "$1" >&2; exit 1; }
name=${name:-run-$$}
unit=$units/${name%.service}.service
mkdir -p "$units" && mkdir "$unit" || { printf 'forge sandbox: the unit %s exists\n' "$name" >&2; exit 1; }
printf 'transient\n' >"$unit/type"
# The waiting shell removes the unit. Fields 22 of the process and of `main` are equal as long as it runs.
setsid sh -c '
  setsid "$@" & pid=$!
  read -r line <"/proc/$pid/stat"; set -- ${line##*) }
  printf "%s %s\n" "$pid" "${20}" >"$0/main.new"; mv "$0/main.new" "$0/main"
  wait "$pid"
  rm -rf "$0"' "$unit" "$@" </dev/null >/dev/null 2>&1 &
turns=0
until [ -e "$unit/main" ] || [ ! -d "$unit" ]; do
  turns=$((turns + 1))
  if [ "$turns" -gt 1500 ]; then echo "forge sandbox: the unit $name did not start within 30 seconds" >&2; exit 1; fi
  sleep 0.02
done
