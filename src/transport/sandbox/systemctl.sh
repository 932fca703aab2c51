#!/bin/sh
# Stand-in for systemctl in a forge sandbox, where no systemd runs. It reads real unit files, really starts and stops
# their processes, and keeps its state under /run/forge-sandbox. It refuses what it cannot do.
# It rereads unit files each time, so a daemon-reload is never needed.
# A timer waits and never elapses: nothing here starts by itself.
# Not supported: dependencies, restarts after a failure, resource limits, sockets, mounts.
# In a rehearsal it notes each change of a unit in `journal`, and a unit that is up on the host counts as up (`assumed`)
# until something stops or restarts it. What it cannot start then counts as started, with a note.
set -u
export LC_ALL=C
kept=/run/forge-sandbox/units
fixed=/usr/local/lib/forge-sandbox
journal=$fixed/journal
logs=/run/forge-sandbox/log
folders='/etc/systemd/system /run/systemd/system /usr/local/lib/systemd/system /usr/lib/systemd/system /lib/systemd/system'
# Read-only callers may not write here.
{ [ -d "$kept" ] && [ -d "$logs" ]; } || mkdir -p "$kept" "$logs" 2>/dev/null

fail() { printf 'forge sandbox: %s\n' "$*" >&2; exit 1; }

# Most functions answer in `out`: a query of a unit needs fifty answers, and a subshell for each takes most of the time.
out='' tab='	' newline='
'
full() {
  case $1 in
    *.service | *.socket | *.target | *.timer | *.mount | *.path | *.slice | *.scope | *.swap | *.automount | *.device) out=$1 ;;
    *) out=$1.service ;;
  esac
}

# --- unit files ---
# Answers with the path of a unit's file, for an instance that of its template.
fragment() {
  template=
  case $1 in *@*.*) template=${1%%@*}@.${1##*.} ;; esac
  for file_name in "$1" $template; do
    for place in $folders; do
      out=$place/$file_name
      if [ -e "$out" ] || [ -L "$out" ]; then return; fi
    done
  done
  out=
}
# Answers with the unit that a name means: an alias is a link to the file of another unit.
resolve() {
  out=$1 turns=0
  while [ "$turns" -lt 8 ]; do
    turns=$((turns + 1)) name=$out
    fragment "$name"
    [ -L "$out" ] || break
    aimed=$(readlink "$out") aimed=${aimed##*/}
    case $aimed in
      # A link to /dev/null masks its unit, and one to a file of the same name installs it.
      null | "${out##*/}") break ;;
      *@."${name##*.}") case $name in *@*.*) aimed=${aimed%%@*}@${name#*@} ;; esac ;;
      *."${name##*.}") ;;
      *) break ;;
    esac
    [ "$aimed" != "$name" ] || break
    out=$aimed
  done
  out=$name
}
is_alias() { resolve "$1"; [ "$out" != "$1" ]; }
# Answers with the name of a unit and those of its aliases.
alias_links=
names() {
  [ -n "$alias_links" ] || alias_links=$newline$(find $folders -maxdepth 1 -type l -printf '%f %l\n' 2>/dev/null |
    awk '{ sub(/.*\//, "", $2) } $1 != $2 { print $1 " " $2 }')$newline
  all_names=$1 rest=$alias_links
  while :; do
    case $rest in *" $1$newline"*) ;; *) break ;; esac
    alias=${rest%%" $1$newline"*} alias=${alias##*"$newline"} rest=$newline${rest#*" $1$newline"}
    case " $all_names " in *" $alias "*) continue ;; esac
    resolve "$alias"
    if [ "$out" = "$1" ]; then all_names="$all_names $alias"; fi
  done
  out=$all_names
}
# Prints a unit's drop-ins, one per line, by name; among files of one name, the first folder wins.
drop_ins() {
  for place in $folders; do
    for drop_in in "$place/$1.d"/*.conf; do
      [ -f "$drop_in" ] || continue
      list_drop_ins "$1"
      return
    done
  done
}
list_drop_ins() {
  for place in $folders; do
    for drop_in in "$place/$1.d"/*.conf; do [ ! -f "$drop_in" ] || printf '%s %s\n' "${drop_in##*/}" "$drop_in"; done
  done | sort -s -k1,1 -u | cut -d' ' -f2-
}
files() { fragment "$1"; [ ! -f "$out" ] || printf '%s\n' "$out"; drop_ins "$1"; }
# Reads the files of unit $1 into `parsed`: a line `SECTION TAB KEY TAB VALUE` for each value; an empty one resets the list.
parsed='' parsed_unit=
parse() {
  [ "$1" != "$parsed_unit" ] || return 0
  parsed_unit=$1 parsed=
  unit_files=$(files "$1")
  [ -n "$unit_files" ] || return 0
  set -f
  parsed=$newline$(awk '
    FNR == 1 { section = "" }
    { while (sub(/\\$/, " ")) { if ((getline more) <= 0) break; $0 = $0 more } }
    /^[ \t]*[#;]/ { next }
    /^\[/ { section = substr($1, 2, length($1) - 2); next }
    section != "" { at = index($0, "="); if (!at) next
      name = substr($0, 1, at - 1); value = substr($0, at + 1)
      gsub(/^[ \t]+|[ \t]+$/, "", name); gsub(/^[ \t]+|[ \t]+$/, "", value)
      key = section "\t" name
      if (value == "") first[key] = count + 1; else { keys[++count] = key; list[count] = value } }
    END { for (i = 1; i <= count; i++) if (i >= first[keys[i]]) print keys[i] "\t" list[i] }' $unit_files)$newline
  set +f
}
# Prints the values of key $3 in section $2 of unit $1, one per line.
values() {
  parse "$1"
  rest=$parsed
  while :; do
    case $rest in *"$newline$2$tab$3$tab"*) rest=${rest#*"$newline$2$tab$3$tab"} ;; *) return 0 ;; esac
    printf '%s\n' "${rest%%"$newline"*}"
    rest=$newline${rest#*"$newline"}
  done
}
# Answers with the last of these values.
value() {
  parse "$1"
  case $parsed in
    *"$newline$2$tab$3$tab"*) out=${parsed##*"$newline$2$tab$3$tab"} out=${out%%"$newline"*} ;;
    *) out= ;;
  esac
}
has_value() { value "$@"; [ -n "$out" ]; }
masked() { [ -L "/etc/systemd/system/$1" ] && [ "$(readlink "/etc/systemd/system/$1")" = /dev/null ]; }
load_state() {
  if masked "$1"; then out=masked; return; fi
  fragment "$1"
  if [ -n "$out" ]; then out=loaded; else out=not-found; fi
}
file_state() {
  if masked "$1"; then out=masked; return; fi
  fragment "$1"
  [ -n "$out" ] || return 0
  for link in /etc/systemd/system/*.wants/"$1" /etc/systemd/system/*.requires/"$1"; do
    if [ -L "$link" ]; then out=enabled; return; fi
  done
  if has_value "$1" Install WantedBy || has_value "$1" Install RequiredBy || has_value "$1" Install Alias; then
    out=disabled
  else out=static; fi
}
service_type() {
  # The real one prints nothing either: it does not read the file of a masked unit.
  if masked "$1"; then out=; return; fi
  value "$1" Service Type
  [ -z "$out" ] || return 0
  if has_value "$1" Service ExecStart; then out=simple; else out=oneshot; fi
}

# --- started units ---
# A unit's state is a folder: `main` (PID and its start), `ended` (status), and files written by start.
note() { printf '%s\n' "$3" >"$kept/$1/$2.new" && mv "$kept/$1/$2.new" "$kept/$1/$2"; }
noted() { out=; [ ! -e "$kept/$1/$2" ] || { IFS= read -r out <"$kept/$1/$2"; } 2>/dev/null || :; }
# Answers with the start of a process that runs.
born() {
  out=
  { read -r out <"/proc/$1/stat"; } 2>/dev/null || return 0
  set -- ${out##*) }
  case $1 in Z) out= ;; *) out=${20} ;; esac
}
main_pid() {
  pid='' since=''
  if [ -e "$kept/$1/main" ]; then { read -r pid since <"$kept/$1/main"; } 2>/dev/null || :; fi
  if [ -n "$pid" ]; then born "$pid"; else out=; fi
  if [ -n "$out" ] && [ "$out" = "$since" ]; then out=$pid; else out=; fi
}
# Answers with ActiveState, SubState and Result.
state() {
  noted "$1" type
  noted_type=$out
  if [ -z "$noted_type" ]; then out='inactive dead success'; return; fi
  main_pid "$1"
  if [ -n "$out" ]; then out='active running success'; return; fi
  if [ "$noted_type" = assumed ] && [ ! -e "$kept/$1/ended" ]; then noted "$1" state; return; fi
  noted "$1" ended
  ended=$out
  case $noted_type:$ended in
    # One of systemd-run: its folder is there before its process, and is removed after it.
    transient:) if [ -e "$kept/$1/main" ]; then out='inactive dead success'; else out='activating start success'; fi ;;
    *:stopped) out='inactive dead success' ;;
    target:*) out='active active success' ;;
    timer:*) out='active waiting success' ;;
    oneshot:0 | forking:0)
      noted "$1" remain
      if [ "$out" = yes ]; then out='active exited success'; else out='inactive dead success'; fi ;;
    *:0) out='inactive dead success' ;;
    *:) out='activating start success' ;;
    *) if [ "$ended" -gt 128 ]; then out='failed failed signal'; else out='failed failed exit-code'; fi ;;
  esac
}
is_up() { state "$1"; case $out in active* | activating*) return 0 ;; *) return 1 ;; esac; }

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
  value "$1" Service WorkingDirectory
  printf 'cd %s || exit 200; ' "${out:-/}"
}
as_user() {
  value "$1" Service User
  user=$out
  case $user in '' | root | 0) return ;; esac
  id -u "$user" >/dev/null 2>&1 || { echo "no such user: $user" >&2; exit 217; }
  value "$1" Service Group
  group=$out
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

triggered() { value "$1" Timer Unit; full "${out:-${1%.timer}.service}"; }
startable_timer() {
  times=
  for key in OnCalendar OnActiveSec OnBootSec OnStartupSec OnUnitActiveSec OnUnitInactiveSec OnClockChange OnTimezoneChange; do
    times=$times$(values "$1" Timer "$key")
  done
  [ -n "$times" ] || fail "$1 has no time: its section [Timer] needs OnCalendar= or the like"
  triggered "$1"
  trigger=$out
  load_state "$trigger"
  [ "$out" = loaded ] || fail "$1 cannot start: there is no unit $trigger to trigger"
}
start() {
  load_state "$1"
  case $out in
    masked) fail "unit $1 is masked" ;;
    not-found) fail "unit $1 not found" ;;
  esac
  if is_up "$1"; then return 0; fi
  type=${1##*.}
  case $type in
    service) service_type "$1"; type=$out ;;
    target) ;;
    timer) startable_timer "$1" ;;
    *) [ -e "$journal" ] || fail "a $type is not simulated: $1" ;;
  esac
  case $type in
    simple | exec | idle | notify | notify-reload | oneshot | forking | target | timer) ;;
    *) if [ -e "$journal" ]; then assume "$1" "$type"; return; fi ;;
  esac
  case $type in simple | exec | idle | notify | notify-reload | oneshot | forking | target | timer) ;; *) fail "Type=$type is not simulated: $1" ;; esac
  rm -rf "${kept:?}/$1"
  mkdir -p "$kept/$1"
  note "$1" type "$type"
  value "$1" Service RemainAfterExit
  note "$1" remain "$out"
  note "$1" invocation "$(tr -d - </proc/sys/kernel/random/uuid)"
  note "$1" at "$(date -u '+%a %Y-%m-%d %H:%M:%S.%6N')"
  case $type in target | timer) return 0 ;; esac
  value "$1" Service RuntimeDirectory
  for folder in $out; do mkdir -p "/run/$folder"; done
  run_lines "$1" ExecStartPre || { note "$1" ended "$?"; return 1; }
  case $type in
    oneshot) run_lines "$1" ExecStart; note "$1" ended "$?"; noted "$1" ended; [ "$out" = 0 ] ;;
    forking) start_forking "$1" ;;
    *) start_main "$1" ;;
  esac
}
# Notes a unit as started that cannot be started here.
assume() {
  rm -rf "${kept:?}/$1"
  mkdir -p "$kept/$1"
  note "$1" type assumed
  note "$1" state 'active running success'
  note "$1" invocation "$(tr -d - </proc/sys/kernel/random/uuid)"
  note "$1" at "$(date -u '+%a %Y-%m-%d %H:%M:%S.%6N')"
  note "$1" why "$2"
}
# The program runs in its own session, so that stop reaches its children; a shell waits for its status.
start_main() {
  value "$1" Service ExecStart
  line=$out
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
  until [ -e "$kept/$1/main" ] || [ -e "$kept/$1/ended" ] || [ "$turns" -gt 300 ]; do turns=$((turns + 1)); sleep 0.1; done
  # A program that cannot be run is detected at once.
  sleep 0.1
  noted "$1" ended
  case $out in 126 | 127 | 200) return 1 ;; esac
}
start_forking() {
  run_lines "$1" ExecStart || { note "$1" ended "$?"; return 1; }
  value "$1" Service PIDFile
  file=$out
  [ -n "$file" ] || { note "$1" ended 1; fail "Type=forking without PIDFile= is not simulated: $1"; }
  turns=0
  until [ -s "$file" ] || [ "$turns" -gt 300 ]; do turns=$((turns + 1)); sleep 0.1; done
  pid=$(cat "$file") && born "$pid" && note "$1" main "$pid $out"
}
stop() {
  main_pid "$1"
  pid=$out
  [ -n "$pid" ] || { [ ! -d "$kept/$1" ] || note "$1" ended stopped; return 0; }
  MAINPID=$pid; export MAINPID
  run_lines "$1" ExecStop
  note "$1" ended stopped
  value "$1" Service KillSignal
  signal=$out
  kill -s "$(printf %s "${signal:-TERM}" | sed 's/^SIG//')" -- "-$pid" 2>/dev/null || kill "$pid" 2>/dev/null
  turns=0
  while main_pid "$1" && [ -n "$out" ]; do
    turns=$((turns + 1))
    if [ "$turns" -gt 100 ]; then kill -9 -- "-$pid" 2>/dev/null || kill -9 "$pid" 2>/dev/null; fi
    [ "$turns" -lt 120 ] || fail "$1 does not end"
    sleep 0.1
  done
  value "$1" Service RuntimeDirectory
  for folder in $out; do rm -rf "/run/${folder:?}"; done
}
reload() {
  is_up "$1" || fail "$1 is not active"
  has_value "$1" Service ExecReload || fail "$1 has no ExecReload="
  main_pid "$1"
  MAINPID=$out; export MAINPID
  noted "$1" type
  if [ -z "$MAINPID" ] && [ "$out" = assumed ]; then
    # Its process is not here: only what needs no process is run, such as a check of the configuration.
    values "$1" Service ExecReload | { while read -r line; do
      case $line in *MAINPID*) ;; *) run_line "$1" "$line" || exit ;; esac
    done; }
    return
  fi
  run_lines "$1" ExecReload
}
links() { # $1 unit, $2 ln or rm
  for pair in WantedBy:wants RequiredBy:requires; do
    for target in $(values "$1" Install "${pair%:*}"); do
      link=/etc/systemd/system/$target.${pair#*:}/$1
      if [ "$2" = ln ]; then fragment "$1"; mkdir -p "${link%/*}" && ln -sfn "$out" "$link" || exit 1; else rm -f "$link"; fi
    done
  done
  for alias in $(values "$1" Install Alias); do
    if [ "$2" = ln ]; then fragment "$1"; ln -sfn "$out" "/etc/systemd/system/$alias"; else rm -f "/etc/systemd/system/$alias"; fi
  done
}
enable() {
  if is_alias "$1"; then fail "Refusing to operate on alias name or linked unit file: $1"; fi
  load_state "$1"
  [ "$out" = loaded ] || fail "unit $1 is $out"
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
reset_failed() { state "$1"; case $out in failed*) note "$1" ended stopped ;; esac; }

# --- answers ---
# Prints the answer of a function.
say() { "$@" && printf '%s' "$out"; }
stamp() {
  noted "$1" at
  [ -n "$out" ] || return 0
  if [ "$fine" = yes ]; then out="$out UTC"; else out="${out%.*} UTC"; fi
}
property() {
  out=
  case $1:$2 in
    *.service:*) ;;
    # Only services have these.
    *:ExecMain* | *:Type | *:MainPID | *:RemainAfterExit | *:CanReload) return 1 ;;
  esac
  case $2 in
    Id) out=$1 ;;
    Names) names "$1" ;;
    LoadState) load_state "$1" ;;
    ActiveState) state "$1"; out=${out%% *} ;;
    SubState) state "$1"; out=${out#* } out=${out% *} ;;
    Result) state "$1"; out=${out##* } ;;
    UnitFileState) file_state "$1" ;;
    NeedDaemonReload) out=no ;;
    InvocationID) noted "$1" invocation ;;
    FragmentPath) if ! masked "$1"; then fragment "$1"; fi ;;
    DropInPaths) out=$(drop_ins "$1" | tr '\n' ' '); out=${out% } ;;
    MainPID) main_pid "$1"; out=${out:-0} ;;
    ActiveEnterTimestamp) stamp "$1" ;;
    ExecMainStartTimestamp) noted "$1" type; case $out in target | timer) out= ;; *) stamp "$1" ;; esac ;;
    ExecMainStatus) noted "$1" ended; case $out in '' | stopped) out=0 ;; esac ;;
    Type) service_type "$1" ;;
    RemainAfterExit) value "$1" Service RemainAfterExit; case $out in yes | true | on | 1) out=yes ;; *) out=no ;; esac ;;
    CanReload) if has_value "$1" Service ExecReload; then out=yes; else out=no; fi ;;
    Description) value "$1" Unit Description ;;
    Transient) out=no ;;
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
    full "$unit"
    resolve "$out"
    unit=$out
    for key in $properties; do
      property "$unit" "$key" || continue
      if [ "$bare" = yes ]; then printf '%s\n' "$out"; else printf '%s=%s\n' "$key" "$out"; fi
    done
  done
}
status() {
  printf '%s - %s (forge sandbox: simulated)\n' "$1" "$(say value "$1" Unit Description)"
  printf '     Loaded: %s (%s; %s)\n' "$(say load_state "$1")" "$(say fragment "$1")" "$(say file_state "$1")"
  printf '     Active: %s (%s), status=%s\n' "$(say property "$1" ActiveState)" "$(say property "$1" Result)" "$(say property "$1" ExecMainStatus || echo 0)"
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
    out='inactive dead success'
    [ ! -d "$kept/$unit" ] || state "$unit"
    case $all$out in noinactive*) continue ;; esac
    printf '%s loaded %s (forge sandbox: simulated)\n' "$unit" "${out% *}"
  done
}
is_active() { property "$1" ActiveState; [ "$quiet" = yes ] || echo "$out"; [ "$out" = active ]; }
is_failed() { property "$1" ActiveState; [ "$quiet" = yes ] || echo "$out"; [ "$out" = failed ]; }
is_enabled() {
  if is_alias "$1"; then out=alias; else file_state "$1"; fi
  [ "$quiet" = yes ] || echo "${out:-not-found}"
  case $out in enabled | static | alias) ;; *) return 1 ;; esac
}
for_each() {
  act=$1 bad=0
  shift
  for unit in "$@"; do
    full "$unit"
    # These verbs act on the file of that name.
    case $verb in enable | disable | is-enabled | mask | unmask) ;; *) resolve "$out" ;; esac
    unit=$out
    case $verb in
      start | stop | restart | try-restart | condrestart | reload | reload-or-restart | enable | disable | mask | unmask | kill)
        if [ -e "$journal" ]; then noting "$act" "$unit" || bad=$?; continue; fi ;;
    esac
    "$act" "$unit" || bad=$?
  done
  return "$bad"
}
brief() { state "$1"; word=${out%% *}; file_state "$1"; printf '%s\t%s' "$word" "${out:-none}"; }
# Runs $1 for unit $2, and notes time, action, status, the states before and after, why it was not carried out, the step,
# the package and its script, and the calling program.
noting() (
  before=$(brief "$2")
  ("$1" "$2"); status=$?
  why=
  noted "$2" type
  if [ "$out" = assumed ]; then noted "$2" why; why=$out; fi
  caller=$(tr '\0\t\n' '   ' <"/proc/$PPID/cmdline" 2>/dev/null | cut -c1-160)
  case $1 in try_restart) action=try-restart ;; *) action=$1 ;; esac
  printf 'unit\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n' "$(date +%s.%N)" "$action" "$2" "$status" "$before" "$(brief "$2")" \
    "$why" "${FORGE_STEP-}" "${DPKG_MAINTSCRIPT_PACKAGE-}" "${DPKG_MAINTSCRIPT_NAME-}" "$caller" >>"$journal"
  exit "$status"
)
restart() { stop "$1"; start "$1"; }
try_restart() { ! is_up "$1" || restart "$1"; }
show_files() { files "$1" | while read -r file; do printf '# %s\n' "$file"; cat "$file"; done; }
signal_main() { main_pid "$1"; [ -n "$out" ] && kill -s "$signal" "$out"; }

# --- the command line ---
# Programs that are links to systemctl.
case ${0##*/} in reboot | poweroff | halt) set -- "${0##*/}" ;; shutdown | telinit | init | runlevel) fail "\`${0##*/}\` is not simulated" ;; esac
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
  reboot)
    [ ! -e "$journal" ] || printf 'reboot\t%s\t%s\n' "$(date +%s.%N)" "${FORGE_STEP-}" >>"$journal"
    sh "$fixed/reboot" ;;
  forge-boot) boot ;;
  poweroff | halt | kexec) fail "\`systemctl $verb\` is not simulated: \`forge sandbox reset\` ends a sandbox" ;;
  *) fail "\`systemctl $verb\` is not simulated" ;;
esac
