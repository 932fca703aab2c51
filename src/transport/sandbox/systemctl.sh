#!/bin/sh
# Stand-in for systemctl in a forge sandbox, where no systemd runs. It reads real unit files, really starts and stops
# their processes, and keeps its state under /run/forge-sandbox. It refuses what it cannot do.
# It rereads unit files each time, so a daemon-reload is never needed.
# A timer waits and never elapses: nothing here starts by itself.
# Not supported: dependencies, restarts after a failure, resource limits, sockets, mounts.
set -u
export LC_ALL=C
kept=/run/forge-sandbox/units
fixed=/usr/local/lib/forge-sandbox
logs=/run/forge-sandbox/log
folders='/etc/systemd/system /run/systemd/system /usr/local/lib/systemd/system /usr/lib/systemd/system /lib/systemd/system'
# Read-only callers may not write here.
mkdir -p "$kept" "$logs" 2>/dev/null

fail() { printf 'forge sandbox: %s\n' "$*" >&2; exit 1; }
full() {
  case $1 in
    *.service | *.socket | *.target | *.timer | *.mount | *.path | *.slice | *.scope | *.swap | *.automount | *.device) printf '%s' "$1" ;;
    *) printf '%s.service' "$1" ;;
  esac
}

# --- unit files ---
# Prints the path of a unit's file, for an instance that of its template.
fragment() {
  template=
  case $1 in *@*.*) template=${1%%@*}@.${1##*.} ;; esac
  for name in "$1" $template; do
    for folder in $folders; do
      if [ -e "$folder/$name" ] || [ -L "$folder/$name" ]; then printf '%s/%s' "$folder" "$name"; return; fi
    done
  done
}
# Prints a unit's drop-ins, one per line, by name; among files of one name, the first folder wins.
drop_ins() {
  for folder in $folders; do
    for file in "$folder/$1.d"/*.conf; do [ ! -f "$file" ] || printf '%s %s\n' "${file##*/}" "$file"; done
  done | sort -s -k1,1 -u | cut -d' ' -f2-
}
files() { file=$(fragment "$1"); [ ! -f "$file" ] || printf '%s\n' "$file"; drop_ins "$1"; }
# Prints the values of key $3 in section $2 of unit $1, one per line; an empty one resets the list.
values() {
  files "$1" | while read -r file; do cat "$file"; printf '\n'; done | awk -v section="[$2]" -v key="$3" '
    { while (sub(/\\$/, " ")) { if ((getline more) <= 0) break; $0 = $0 more } }
    /^[ \t]*[#;]/ { next }
    /^\[/ { here = ($1 == section); next }
    here { at = index($0, "="); if (!at) next
      name = substr($0, 1, at - 1); value = substr($0, at + 1)
      gsub(/^[ \t]+|[ \t]+$/, "", name); gsub(/^[ \t]+|[ \t]+$/, "", value)
      if (name != key) next
      if (value == "") count = 0; else list[++count] = value }
    END { for (i = 1; i <= count; i++) print list[i] }'
}
value() { values "$@" | tail -n 1; }
masked() { [ "$(readlink "/etc/systemd/system/$1")" = /dev/null ]; }
load_state() {
  if masked "$1"; then echo masked; elif [ -n "$(fragment "$1")" ]; then echo loaded; else echo not-found; fi
}
file_state() {
  if masked "$1"; then echo masked; return; fi
  file=$(fragment "$1")
  [ -n "$file" ] || return
  for link in /etc/systemd/system/*.wants/"$1" /etc/systemd/system/*.requires/"$1"; do
    if [ -L "$link" ]; then echo enabled; return; fi
  done
  if [ -n "$(values "$1" Install WantedBy)$(values "$1" Install RequiredBy)$(values "$1" Install Alias)" ]; then
    echo disabled
  else echo static; fi
}
service_type() {
  type=$(value "$1" Service Type)
  [ -n "$type" ] || case $(value "$1" Service ExecStart) in '') type=oneshot ;; *) type=simple ;; esac
  printf '%s' "$type"
}

# --- started units ---
# A unit's state is a folder: `main` (PID and its start), `ended` (status), and files written by start.
note() { printf '%s\n' "$3" >"$kept/$1/$2.new" && mv "$kept/$1/$2.new" "$kept/$1/$2"; }
noted() { cat "$kept/$1/$2" 2>/dev/null; }
born() { line=; read -r line 2>/dev/null <"/proc/$1/stat" || return 1; set -- ${line##*) }; case $1 in Z) return 1 ;; esac; printf '%s' "${20}"; }
main_pid() {
  pid='' since=''
  read -r pid since 2>/dev/null <"$kept/$1/main" || return 0
  [ "$(born "$pid")" != "$since" ] || printf '%s' "$pid"
}
# Prints ActiveState, SubState and Result.
state() {
  type=$(noted "$1" type)
  if [ -z "$type" ]; then echo inactive dead success; return; fi
  if [ -n "$(main_pid "$1")" ]; then echo active running success; return; fi
  ended=$(noted "$1" ended)
  case $type:$ended in
    *:stopped) echo inactive dead success ;;
    target:*) echo active active success ;;
    timer:*) echo active waiting success ;;
    oneshot:0 | forking:0) if [ "$(noted "$1" remain)" = yes ]; then echo active exited success; else echo inactive dead success; fi ;;
    *:0) echo inactive dead success ;;
    *:) echo activating start success ;;
    *) if [ "$ended" -gt 128 ]; then echo failed failed signal; else echo failed failed exit-code; fi ;;
  esac
}
is_up() { case $(state "$1") in active* | activating*) return 0 ;; *) return 1 ;; esac; }

# --- running programs ---
# Converts a line of a unit file for the shell: the same words, with special characters escaped.
command_line() {
  instance=${1#*@}
  case $1 in *@*) instance=${instance%.*} ;; *) instance= ;; esac
  printf '%s' "$2" | sed -e "s/%n/$1/g;s/%N/${1%.*}/g;s/%p/${1%%[@.]*}/g;s/%[iI]/$instance/g;s/%H/$(cat /proc/sys/kernel/hostname)/g;s/%t/\/run/g;s/%%/%/g" |
    awk '{ quote = ""
      for (i = 1; i <= length($0); i++) { c = substr($0, i, 1)
        if (c == "\\") { printf "%s", c substr($0, ++i, 1); continue }
        if (quote == "" && (c == "\"" || c == "\047")) { quote = c; printf "%s", c; continue }
        if (c == quote) { quote = ""; printf "%s", c; continue }
        if ((quote == "" && index(";&|<>*?()#~[]`", c)) || (quote == "\"" && c == "`")) printf "\\"
        printf "%s", c } }'
}
surroundings() {
  values "$1" Service Environment | while read -r line; do printf 'export %s; ' "$line"; done
  values "$1" Service EnvironmentFile | while read -r file; do
    case $file in -*) file=${file#-}; [ -r "$file" ] || continue ;; esac
    printf 'set -a; . %s; set +a; ' "$file"
  done
  folder=$(value "$1" Service WorkingDirectory)
  printf 'cd %s || exit 200; ' "${folder:-/}"
}
as_user() {
  user=$(value "$1" Service User)
  case $user in '' | root | 0) return ;; esac
  id -u "$user" >/dev/null 2>&1 || { echo "no such user: $user" >&2; exit 217; }
  group=$(value "$1" Service Group)
  setpriv --reuid "$user" --regid "${group:-$(id -g "$user")}" --init-groups true 2>/dev/null ||
    { echo "User=$user: a sandbox that was not started by root has one user only" >&2; exit 217; }
  printf 'setpriv --reuid %s --regid %s --init-groups ' "$user" "${group:-$(id -g "$user")}"
}
# Runs one line of a unit to its end; a leading `-` ignores its failure.
run_line() {
  line=$2 forgive=no
  while :; do case $line in -*) forgive=yes line=${line#-} ;; [@+!:]*) line=${line#?} ;; *) break ;; esac; done
  prefix=$(as_user "$1") || return 217
  sh -c "$(surroundings "$1")exec $prefix$(command_line "$1" "$line")" </dev/null >>"$logs/$1" 2>&1 9>&-
  status=$?
  if [ "$forgive" = yes ]; then status=0; fi
  return "$status"
}
run_lines() { values "$1" Service "$2" | { while read -r line; do run_line "$1" "$line" || exit; done; }; }

triggered() { unit=$(value "$1" Timer Unit); full "${unit:-${1%.timer}.service}"; }
startable_timer() {
  times=
  for key in OnCalendar OnActiveSec OnBootSec OnStartupSec OnUnitActiveSec OnUnitInactiveSec OnClockChange OnTimezoneChange; do
    times=$times$(values "$1" Timer "$key")
  done
  [ -n "$times" ] || fail "$1 has no time: its section [Timer] needs OnCalendar= or the like"
  [ "$(load_state "$(triggered "$1")")" = loaded ] || fail "$1 cannot start: there is no unit $(triggered "$1") to trigger"
}
start() {
  case $(load_state "$1") in
    masked) fail "unit $1 is masked" ;;
    not-found) fail "unit $1 not found" ;;
  esac
  if is_up "$1"; then return 0; fi
  type=${1##*.}
  case $type in service) type=$(service_type "$1") ;; target) ;; timer) startable_timer "$1" ;; *) fail "a $type is not simulated: $1" ;; esac
  case $type in simple | exec | idle | notify | notify-reload | oneshot | forking | target | timer) ;; *) fail "Type=$type is not simulated: $1" ;; esac
  rm -rf "${kept:?}/$1"
  mkdir -p "$kept/$1"
  note "$1" type "$type"
  note "$1" remain "$(value "$1" Service RemainAfterExit)"
  note "$1" invocation "$(tr -d - </proc/sys/kernel/random/uuid)"
  note "$1" at "$(date -u '+%a %Y-%m-%d %H:%M:%S.%6N')"
  case $type in target | timer) return 0 ;; esac
  for folder in $(value "$1" Service RuntimeDirectory); do mkdir -p "/run/$folder"; done
  run_lines "$1" ExecStartPre || { note "$1" ended "$?"; return 1; }
  case $type in
    oneshot) run_lines "$1" ExecStart; note "$1" ended "$?"; [ "$(noted "$1" ended)" = 0 ] ;;
    forking) start_forking "$1" ;;
    *) start_main "$1" ;;
  esac
}
# The program runs in its own session, so that stop reaches its children; a shell waits for its status.
start_main() {
  line=$(value "$1" Service ExecStart)
  case $line in [-@+!:]*) line=${line#?} ;; esac
  prefix=$(as_user "$1") || { note "$1" ended 217; return 1; }
  text="$(surroundings "$1")exec $prefix$(command_line "$1" "$line")"
  setsid sh -c '
    setsid sh -c "$2" </dev/null >>"$4" 2>&1 & pid=$!
    read -r l <"/proc/$pid/stat"; set -- "$@" ${l##*) }; shift 4
    printf "%s %s\n" "$pid" "${20}" >"$0/main.new"; mv "$0/main.new" "$0/main"
    wait "$pid"; s=$?
    [ -e "$0/ended" ] || printf "%s\n" "$s" >"$0/ended"' "$kept/$1" _ "$text" _ "$logs/$1" </dev/null >/dev/null 2>&1 9>&- &
  turns=0
  until [ -e "$kept/$1/main" ] || [ -e "$kept/$1/ended" ] || [ "$turns" -gt 50 ]; do turns=$((turns + 1)); sleep 0.1; done
  # A program that cannot be run is detected at once.
  sleep 0.1
  case $(noted "$1" ended) in 126 | 127 | 200) return 1 ;; esac
}
start_forking() {
  run_lines "$1" ExecStart || { note "$1" ended "$?"; return 1; }
  file=$(value "$1" Service PIDFile)
  [ -n "$file" ] || { note "$1" ended 1; fail "Type=forking without PIDFile= is not simulated: $1"; }
  turns=0
  until [ -s "$file" ] || [ "$turns" -gt 50 ]; do turns=$((turns + 1)); sleep 0.1; done
  pid=$(cat "$file") && note "$1" main "$pid $(born "$pid")"
}
stop() {
  pid=$(main_pid "$1")
  [ -n "$pid" ] || { [ ! -d "$kept/$1" ] || note "$1" ended stopped; return 0; }
  MAINPID=$pid; export MAINPID
  run_lines "$1" ExecStop
  note "$1" ended stopped
  signal=$(value "$1" Service KillSignal)
  kill -s "$(printf %s "${signal:-TERM}" | sed 's/^SIG//')" -- "-$pid" 2>/dev/null || kill "$pid" 2>/dev/null
  turns=0
  while [ -n "$(main_pid "$1")" ]; do
    turns=$((turns + 1))
    if [ "$turns" -gt 100 ]; then kill -9 -- "-$pid" 2>/dev/null || kill -9 "$pid" 2>/dev/null; fi
    [ "$turns" -lt 120 ] || fail "$1 does not end"
    sleep 0.1
  done
  for folder in $(value "$1" Service RuntimeDirectory); do rm -rf "/run/${folder:?}"; done
}
reload() {
  is_up "$1" || fail "$1 is not active"
  [ -n "$(value "$1" Service ExecReload)" ] || fail "$1 has no ExecReload="
  MAINPID=$(main_pid "$1"); export MAINPID
  run_lines "$1" ExecReload
}
links() { # $1 unit, $2 ln or rm
  for pair in WantedBy:wants RequiredBy:requires; do
    for target in $(values "$1" Install "${pair%:*}"); do
      link=/etc/systemd/system/$target.${pair#*:}/$1
      if [ "$2" = ln ]; then mkdir -p "${link%/*}" && ln -sfn "$(fragment "$1")" "$link" || exit 1; else rm -f "$link"; fi
    done
  done
  for alias in $(values "$1" Install Alias); do
    if [ "$2" = ln ]; then ln -sfn "$(fragment "$1")" "/etc/systemd/system/$alias"; else rm -f "/etc/systemd/system/$alias"; fi
  done
}
enable() {
  [ "$(load_state "$1")" = loaded ] || fail "unit $1 is $(load_state "$1")"
  links "$1" ln
}
disable() { links "$1" rm; }
mask() {
  if [ -e "/etc/systemd/system/$1" ] && ! masked "$1"; then fail "/etc/systemd/system/$1 already exists"; fi
  ln -sfn /dev/null "/etc/systemd/system/$1"
}
unmask() { ! masked "$1" || rm -f "/etc/systemd/system/$1"; }
# Starts enabled units in the order of names; units enabled on this machine before the sandbox was created only if they
# were started in it.
boot() {
  for link in /etc/systemd/system/*.wants/*; do
    [ -L "$link" ] || continue
    unit=${link##*/}
    case $unit in *.service | *.timer) ;; *) continue ;; esac
    if grep -qxF "$unit" "$fixed/enabled" && ! grep -qxF "$unit" "$fixed/started"; then continue; fi
    (start "$unit") || :
  done
}
reset_failed() { case $(state "$1") in failed*) note "$1" ended stopped ;; esac; }

# --- answers ---
stamp() {
  at=$(noted "$1" at)
  [ -n "$at" ] || return
  if [ "$fine" = yes ]; then printf '%s UTC' "$at"; else printf '%s UTC' "${at%.*}"; fi
}
property() {
  case $1:$2 in
    *.service:*) ;;
    # Only services have these.
    *:ExecMain* | *:Type | *:MainPID | *:RemainAfterExit | *:CanReload) return 1 ;;
  esac
  case $2 in
    Id | Names) printf '%s' "$1" ;;
    LoadState) load_state "$1" ;;
    ActiveState) state "$1" | cut -d' ' -f1 ;;
    SubState) state "$1" | cut -d' ' -f2 ;;
    Result) state "$1" | cut -d' ' -f3 ;;
    UnitFileState) file_state "$1" ;;
    NeedDaemonReload) echo no ;;
    InvocationID) noted "$1" invocation ;;
    FragmentPath) masked "$1" || fragment "$1" ;;
    DropInPaths) drop_ins "$1" | tr '\n' ' ' | sed 's/ $//' ;;
    MainPID) pid=$(main_pid "$1"); printf '%s' "${pid:-0}" ;;
    ActiveEnterTimestamp) stamp "$1" ;;
    ExecMainStartTimestamp) case $(noted "$1" type) in target | timer) ;; *) stamp "$1" ;; esac ;;
    ExecMainStatus) ended=$(noted "$1" ended); case $ended in '' | stopped) ended=0 ;; esac; printf '%s' "$ended" ;;
    Type) service_type "$1" ;;
    RemainAfterExit) case $(value "$1" Service RemainAfterExit) in yes | true | on | 1) echo yes ;; *) echo no ;; esac ;;
    CanReload) if [ -n "$(value "$1" Service ExecReload)" ]; then echo yes; else echo no; fi ;;
    Description) value "$1" Unit Description ;;
    Transient) echo no ;;
    *) return 1 ;;
  esac
}
every='Id Names LoadState ActiveState SubState Result UnitFileState NeedDaemonReload InvocationID FragmentPath DropInPaths MainPID ActiveEnterTimestamp ExecMainStartTimestamp ExecMainStatus Type RemainAfterExit CanReload Description Transient'
show() {
  first=yes
  for unit in "$@"; do
    case $unit in *'*'* | *'?'*) continue ;; esac
    [ "$first" = yes ] || printf '\n'
    first=no
    for name in $properties; do
      answer=$(property "$(full "$unit")" "$name") || continue
      if [ "$bare" = yes ]; then printf '%s\n' "$answer"; else printf '%s=%s\n' "$name" "$answer"; fi
    done
  done
}
status() {
  printf '%s - %s (forge sandbox: simulated)\n' "$1" "$(value "$1" Unit Description)"
  printf '     Loaded: %s (%s; %s)\n' "$(load_state "$1")" "$(fragment "$1")" "$(file_state "$1")"
  printf '     Active: %s (%s), status=%s\n' "$(property "$1" ActiveState)" "$(property "$1" Result)" "$(property "$1" ExecMainStatus || echo 0)"
  case $1 in *.timer) printf '    Trigger: never: nothing starts by itself in a sandbox\n' ;; esac
  is_up "$1" || return 3
}
known() {
  for folder in $folders; do for file in "$folder"/*.service; do [ ! -f "$file" ] || printf '%s\n' "${file##*/}"; done; done
  ls "$kept"
}
list_units() {
  known | sort -u | while read -r unit; do
    case $unit in *@.service) continue ;; esac
    word='inactive dead success'
    [ ! -d "$kept/$unit" ] || word=$(state "$unit")
    case $all$word in noinactive*) continue ;; esac
    printf '%s loaded %s (forge sandbox: simulated)\n' "$unit" "${word% *}"
  done
}
is_active() { word=$(property "$1" ActiveState); [ "$quiet" = yes ] || echo "$word"; [ "$word" = active ]; }
is_failed() { word=$(property "$1" ActiveState); [ "$quiet" = yes ] || echo "$word"; [ "$word" = failed ]; }
is_enabled() { word=$(file_state "$1"); [ "$quiet" = yes ] || echo "${word:-not-found}"; [ "$word" = enabled ] || [ "$word" = static ]; }
for_each() { act=$1 bad=0; shift; for unit in "$@"; do "$act" "$(full "$unit")" || bad=$?; done; return "$bad"; }
restart() { stop "$1"; start "$1"; }
try_restart() { ! is_up "$1" || restart "$1"; }
show_files() { files "$1" | while read -r file; do printf '# %s\n' "$file"; cat "$file"; done; }
signal_main() { pid=$(main_pid "$1"); [ -n "$pid" ] && kill -s "$signal" "$pid"; }

# --- the command line ---
properties=$every bare=no fine=no quiet=no now=no all=no signal=TERM verb='' units='' given=no
while [ "$#" -gt 0 ]; do
  case $1 in
    -p | --property) [ "$given" = yes ] || properties=; given=yes; properties="$properties $(printf %s "$2" | tr , ' ')"; shift ;;
    -p*) [ "$given" = yes ] || properties=; given=yes; properties="$properties $(printf %s "${1#-p}" | tr , ' ')" ;;
    --property=*) [ "$given" = yes ] || properties=; given=yes; properties="$properties $(printf %s "${1#*=}" | tr , ' ')" ;;
    --value) bare=yes ;;
    --timestamp=us+utc) fine=yes ;;
    -q | --quiet) quiet=yes ;;
    --now) now=yes ;;
    -a | --all) all=yes ;;
    -s) signal=$2; shift ;;
    --signal=*) signal=${1#*=} ;;
    --version) echo 'systemd 252 (forge sandbox: simulated)'; exit 0 ;;
    --) ;;
    -*) ;;
    *) if [ -z "$verb" ]; then verb=$1; else units="$units $1"; fi ;;
  esac
  shift
done
case $verb in start | stop | restart | try-restart | enable | disable | reload*) exec 9>"$kept/../lock" && flock -w 60 9 ;; esac
set -f
set -- $units
set +f
case $verb in
  show) show "$@" ;;
  start | stop | restart | reload | mask | unmask | status) for_each "$verb" "$@" ;;
  try-restart | condrestart) for_each try_restart "$@" ;;
  reload-or-restart) for_each restart "$@" ;;
  enable | disable) for_each "$verb" "$@" && if [ "$now" = yes ]; then
      case $verb in enable) for_each start "$@" ;; disable) for_each stop "$@" ;; esac; fi ;;
  reset-failed) for_each reset_failed "$@" ;;
  kill) for_each signal_main "$@" ;;
  daemon-reload | daemon-reexec) ;;
  is-active) for_each is_active "$@" ;;
  is-failed) for_each is_failed "$@" ;;
  is-enabled) for_each is_enabled "$@" ;;
  is-system-running) if [ -e /run/forge-sandbox/starting ]; then echo starting; exit 1; fi; echo running ;;
  cat) for_each show_files "$@" ;;
  list-units | '') list_units ;;
  preset) ;;
  reboot) sh "$fixed/reboot" ;;
  forge-boot) boot ;;
  poweroff | halt | kexec) fail "\`systemctl $verb\` is not simulated: \`forge sandbox reset\` ends a sandbox" ;;
  *) fail "\`systemctl $verb\` is not simulated" ;;
esac
