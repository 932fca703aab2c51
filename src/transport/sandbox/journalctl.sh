#!/bin/sh
# Stand-in for journalctl in a forge sandbox: prints a service's output, and of the kernel its first line, or the log of
# simulated hardware. Only the options -k, -u and -n have an effect.
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
# A kernel's log begins with the text of /proc/version.
case $kernel in 1) cat /run/forge-hardware/log 2>/dev/null || cat /proc/version; exit ;; esac
case $unit in '') echo 'forge sandbox: there is no journal, only `journalctl -u UNIT`' >&2; exit 1 ;; *.service) ;; *) unit=$unit.service ;; esac
[ ! -f "/run/forge-sandbox/log/$unit" ] || tail -n "$lines" "/run/forge-sandbox/log/$unit"
