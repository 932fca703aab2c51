#!/bin/sh
# A stand-in for journalctl in a forge sandbox: prints what a service wrote. Of the options only -u and -n count.
unit='' lines=1000
while [ "$#" -gt 0 ]; do
  case $1 in
    -u | --unit) unit=$2; shift ;;
    --unit=*) unit=${1#*=} ;;
    -n | --lines) lines=$2; shift ;;
    -n*) lines=${1#-n} ;;
  esac
  shift
done
case $unit in '') echo 'forge sandbox: there is no journal, only `journalctl -u UNIT`' >&2; exit 1 ;; *.service) ;; *) unit=$unit.service ;; esac
[ ! -f "/run/forge-sandbox/log/$unit" ] || tail -n "$lines" "/run/forge-sandbox/log/$unit"
