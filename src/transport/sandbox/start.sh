# Finds the process that keeps a sandbox, or starts it. Prints `ready PID ALONE ID`, or the failure's reason on stderr.
# $1 folder of the sandbox, $2 host, $3 script of process 1, $4 capabilities to drop, $5 name of a board or nothing, $6
# shell code that writes the stand-ins below its working directory.
forge_main() {
set -u
umask 022
dir=$1
fail() { printf '%s\n' "$*" >&2; exit 1; }
# Field 22 of /proc/PID/stat; the name in field 2 may contain anything.
started() {
  line=
  read -r line 2>/dev/null <"/proc/$1/stat" || return 1
  set -- ${line##*) }
  printf '%s\n' "${20}"
}
for tool in flock unshare nsenter mount umount pivot_root setsid setpriv awk tar find; do
  command -v "$tool" >/dev/null 2>&1 || fail "this machine has no \`$tool\`
hint: install util-linux, tar, findutils and awk"
done
(umask 077 && mkdir -p "$dir") && : >>"$dir/lock" || fail "cannot write to \`$dir\`
hint: name another folder with --state"
exec 9<"$dir/lock"
flock -w 120 9 || fail "another forge has been starting this sandbox for two minutes"
pid='' since='' alone='' id=''
if [ -f "$dir/holder" ]; then read -r pid since alone id <"$dir/holder"; fi
if [ -n "$pid" ] && [ "$(started "$pid")" = "$since" ]; then
  [ "$(cat "$dir/board" 2>/dev/null)" = "$5" ] || fail "it runs with other hardware than the inventory declares
hint: forge sandbox reset $2"
  [ -n "$id" ] || fail "it was created by an earlier version of forge
hint: forge sandbox reset $2"
  printf 'ready %s %s %s\n' "$pid" "$alone" "$id"
  exit 0
fi

switch() { [ "$(cat "/proc/sys/$1" 2>/dev/null)" = "$2" ]; }
missing() {
  if switch kernel/unprivileged_userns_clone 0; then set -- kernel.unprivileged_userns_clone=1
  elif switch kernel/apparmor_restrict_unprivileged_userns 1; then set -- kernel.apparmor_restrict_unprivileged_userns=0
  elif switch user/max_user_namespaces 0; then set -- user.max_user_namespaces=15000
  elif [ "$(id -u)" = 0 ]; then fail "root may not make namespaces here: $why
hint: in a container, start it with --privileged; in a chroot, first run \`mount --bind DIR DIR\` on its directory"
  else fail "user namespaces do not work here: $why
hint: run forge with sudo"; fi
  fail "user namespaces are switched off for users
hint: sudo sysctl -w $1, or run forge with sudo"
}
alone=no user=
if [ "$(id -u)" != 0 ] || ! unshare --mount true 2>/dev/null; then
  alone=yes user='--user --map-root-user'
  why=$(unshare $user --mount true 2>&1) || missing
fi

printf '%s\n' "$3" >"$dir/build.sh" && printf '%s\n' "$5" >"$dir/board" && printf '%s\n' "$6" >"$dir/stand-ins" ||
  fail "cannot write to \`$dir\`"
rm -f "$dir/holder"
boot=$(cat /proc/sys/kernel/random/uuid)
setsid unshare $user --mount --pid --net --uts --ipc --fork sh "$dir/build.sh" "$2" "$boot" "$dir" "$alone" "$4" "$5" \
  </dev/null >"$dir/log" 2>&1 9<&- &
turns=0
while [ "$turns" -lt 600 ]; do
  turns=$((turns + 1))
  pid=$(sed -n 's/^ready //p' "$dir/log")
  if [ -n "$pid" ] && since=$(started "$pid"); then
    printf '%s %s %s %s\n' "$pid" "$since" "$alone" "$boot" >"$dir/holder.new" && mv "$dir/holder.new" "$dir/holder" || exit 1
    printf 'ready %s %s %s\n' "$pid" "$alone" "$boot"
    exit 0
  fi
  kill -0 "$!" 2>/dev/null || fail "$(cat "$dir/log")"
  sleep 0.1
done
kill "$!"
fail "it did not come up within a minute: $(cat "$dir/log")"
}
forge_main "$@"
