# Starts a view of this host for a rehearsal and keeps it: process 1 of the view reads the rest of stdin, and ends with
# it. Prints `ready PID ID KIB SYSTEMD`, or the failure's reason on stderr. Writes nothing on the host.
# $1 script of process 1, $2 shell code that writes the stand-ins below its working directory, $3 capabilities to drop,
# $4 seconds without a heartbeat after which the view ends.
set -u
umask 022
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C
fail() { printf '%s\n' "$*" >&2; exit 1; }
[ "$(id -u)" = 0 ] || fail "root is required
hint: set \`connect: { sudo: … }\` or log in as root"
for tool in unshare nsenter mount umount pivot_root setpriv timeout awk tar find readlink; do
  command -v "$tool" >/dev/null 2>&1 || fail "the host has no \`$tool\`
hint: install util-linux, coreutils, tar, findutils and awk on the host"
done
[ ! -e /run/forge-sandbox.kind ] || fail "the host is a view of another machine itself
hint: rehearse on a real host; in a sandbox, \`forge apply\` changes nothing outside of it"
why=$(unshare --mount --pid --uts --ipc --net --fork true 2>&1) || fail "namespaces cannot be made on the host: $why
hint: in a container, start it with --privileged"
# Half of the free memory, in KiB.
size=$(awk '$1 == "MemAvailable:" { print int($2 / 2) }' /proc/meminfo)
# Units that are up: in the view they count as up, although their processes are not there.
systemd=no units=
if [ -d /run/systemd/system ]; then
  systemd=yes
  set -f
  names=$(timeout 20 systemctl list-units --plain --no-legend --no-pager --type=service,timer,socket,path,target \
    --state=active,reloading,activating,failed | awk '{ print $1 }')
  # systemd before 248 has no --timestamp=us+utc.
  for option in --timestamp=us+utc --no-pager; do
    [ -n "$names" ] || break
    units=$(timeout 20 systemctl show --no-pager "$option" \
      -p Id,ActiveState,SubState,Result,InvocationID,ActiveEnterTimestamp -- $names 2>/dev/null)
    [ -z "$units" ] || break
  done
  set +f
fi
id=$(cat /proc/sys/kernel/random/uuid) || exit 1
exec unshare --mount --pid --uts --ipc --fork sh -c "$1" forge-view "$(uname -n)" "$id" "$2" no "$3" '' rehearsal \
  "${size:-1048576}" "$systemd" "$units" "$4"
