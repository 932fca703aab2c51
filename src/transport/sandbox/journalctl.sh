#!/bin/sh
# A stand-in for journalctl in a forge sandbox: prints what a service wrote, and of the kernel its first line, or the log of
# hardware that is simulated. Of the options only -k, -u and -n count.
unit='' lines=1000 kernel=
while [ "$#" -gt 0 ]; do
  case $1 in
    -k | --dmesg) kernel=1 ;;
    -u | --unit) unit=$2; shift ;;
    --unit=*) unit=${1#*=} ;;
    -n | --lines) lines=$2; shift ;;
    -n*) lines=${1#-n} ;;
  esac
  shift
done
# A kernel's log begins with what /proc/version says.
case $kernel in 1) cat /run/forge-hardware/log 2>/dev/null || cat /proc/version; exit ;; esac
case $unit in '') echo 'forge sandbox: there is no journal, only `journalctl -u UNIT`' >&2; exit 1 ;; *.service) ;; *) unit=$unit.service ;; esac
[ ! -f "/run/forge-sandbox/log/$unit" ] || tail -n "$lines" "/run/forge-sandbox/log/$unit"
