#!/bin/sh
# Simulates a reboot: ends all processes of the sandbox, discards its memory, and begins another boot. Starts enabled
# units; those of this machine itself only if they were started here before. Process 1 stays.
set -u
export LC_ALL=C PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
kept=/usr/local/lib/forge-sandbox
if [ "${1-}" != now ]; then
  setsid sh "$0" now </dev/null >/dev/null 2>&1 &
  exit 0
fi
quiet() { "$@" 2>/dev/null; }

# What was up on the host and was neither stopped nor restarted in a rehearsal is up again, unless it was disabled.
for unit in "$kept/assumed"/*; do
  [ -d "$unit" ] || continue
  name=${unit##*/}
  now=/run/forge-sandbox/units/$name
  if [ "$(cat "$now/type" 2>/dev/null)" != assumed ] || [ -e "$now/ended" ]; then rm -rf "$unit"; continue; fi
  rm -rf "$now"
  ! grep -qxF "$name" "$kept/enabled" || ls "/etc/systemd/system/"*".wants/$name" >/dev/null 2>&1 || rm -rf "$unit"
done
ls /run/forge-sandbox/units >>"$kept/started" 2>/dev/null
quiet kill -TERM -1
sleep 0.3
quiet kill -KILL -1

# Unmounts what was mounted since the sandbox was created, the last first.
awk '{ print $5 }' /proc/self/mountinfo | grep -vxF -f "$kept/mounts" | sed '1!G;h;$!d' | while read -r point; do
  quiet umount "$point" || quiet umount -l "$point"
done
find /run /tmp /dev/shm -xdev -mindepth 1 -delete 2>/dev/null
rm -rf /dev/nvidia* /dev/infiniband
mkdir -p -m 1777 /run/lock
mkdir -p /run/forge-sandbox
: >/run/forge-sandbox/starting
if [ -e "$kept/journal" ]; then
  quiet cp -a "$kept/run/." /run/
  mkdir -p /run/forge-sandbox/units
  quiet cp -r "$kept/assumed/." /run/forge-sandbox/units/
  printf 'rehearsal\n' >/run/forge-sandbox.kind
else printf 'sandbox\n' >/run/forge-sandbox.kind; fi

quiet cp -r "$kept/kernel/." /proc/sys/
cat /proc/sys/kernel/random/uuid >/proc/sys/kernel/random/boot_id
sh "$kept/clock"
[ ! -e /srv/forge-hardware/boot ] || sh /srv/forge-hardware/boot >"$kept/boot.log" 2>&1

# Like systemd-sysctl: among files of one name, the first folder wins; files are read in the order of their names.
for folder in /etc/sysctl.d /run/sysctl.d /usr/local/lib/sysctl.d /usr/lib/sysctl.d; do
  for file in "$folder"/*.conf; do [ ! -f "$file" ] || printf '%s %s\n' "${file##*/}" "$file"; done
done | sort -s -k1,1 -u | cut -d' ' -f2- | while read -r file; do cat "$file"; printf '\n'; done |
  sed -n 's/^[[:space:]]*-\{0,1\}\([A-Za-z0-9_.\/]*\)[[:space:]]*=[[:space:]]*\(.*[^[:space:]]\)[[:space:]]*$/\1 \2/p' |
  while read -r key value; do
    file=/proc/sys/$(printf %s "$key" | tr . /)
    [ ! -f "$file" ] || printf '%s\n' "$value" >"$file"
  done 2>/dev/null
systemctl forge-boot >/dev/null 2>&1
rm -f /run/forge-sandbox/starting
