//! The guard of a change on its host: what it restores, the timer that does so, and its confirmation.
//!
//! Each guard has a directory `/var/lib/forge/guard/RUN-NUMBER` with copies of what the change replaces and two
//! programs: `files` restores files and records, `restore` also units and the packet filter. Its state is the name of
//! one file: `armed`, then `confirmed`, or `restoring` and `restored`. A rename decides between confirmation and
//! restoration, so that both never happen.

use super::record::STATE_DIR;
use super::undo_journal::{FormerRecord, build_former_records_script};
use crate::model::{GuardEffect, GuardedTables, GuardedUnit, StepId, UntrustedText, format_guard_time};
use crate::script::{ShellFragment, safe_path};
use std::collections::BTreeSet;

/// A guarded step of a script.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GuardedStep {
    /// What the guard restores.
    pub effect: GuardEffect,
    /// The commands that apply the restored files again.
    pub rerun: ShellFragment,
    /// Steps that put the change into effect later: their guards restore it too.
    pub until: Vec<StepId>,
    /// The records before the change.
    pub records: Vec<FormerRecord>,
}

/// The guard of one script.
#[derive(Clone, Debug, PartialEq)]
pub struct HostGuard {
    cluster: String,
    run: String,
    number: u64,
    seconds: u64,
    steps: Vec<(StepId, GuardedStep)>,
}

/// What a host answers when a guard is to be confirmed.
#[derive(Clone, Debug, PartialEq)]
pub enum GuardAnswer {
    /// The change stays.
    Confirmed,
    /// The script of the change is still running, or the host is restoring the state before.
    Busy,
    /// The host restored the state before.
    Restored(GuardOutcome),
    /// The guard was not armed.
    Missing,
}

/// What a guard did.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GuardOutcome {
    /// Steps of earlier scripts that it took back too: `recipe/step[key]`.
    pub also: BTreeSet<String>,
    /// What it could not restore, as its programs printed it.
    pub problems: UntrustedText,
}

impl HostGuard {
    /// Builds the guard of the script with that number in its run.
    pub fn new(cluster: &str, run: &str, number: u64, seconds: u64, steps: Vec<(StepId, GuardedStep)>) -> Self {
        Self { cluster: cluster.to_owned(), run: run.to_owned(), number, seconds, steps }
    }

    /// Returns the seconds after which it restores the state before.
    pub fn seconds(&self) -> u64 {
        self.seconds
    }

    /// Returns the guarded steps.
    pub fn steps(&self) -> impl Iterator<Item = &StepId> {
        self.steps.iter().map(|(step, _)| step)
    }

    fn folder(&self) -> String {
        format!("{STATE_DIR}/guard/{}-{:04}", self.run, self.number)
    }

    fn unit(&self) -> String {
        format!("forge-guard-{}-{:04}", self.run, self.number)
    }

    fn effects(&self) -> impl Iterator<Item = &GuardEffect> {
        self.steps.iter().map(|(_, step)| &step.effect)
    }

    /// Returns the paths of all steps, each once. Its position is the number of its copy.
    fn paths(&self) -> Vec<&str> {
        let mut paths: Vec<&str> = Vec::new();
        for path in self.effects().flat_map(|effect| &effect.paths) {
            if !paths.contains(&path.as_str()) {
                paths.push(path);
            }
        }
        paths
    }

    fn names(steps: impl Iterator<Item = impl ToString>) -> String {
        steps.map(|step| step.to_string() + "\n").collect()
    }

    /// Returns a subshell that keeps the state before and starts the timer. It exits with a non-zero status, before any
    /// change, if the host cannot do so.
    pub fn build_arm_script(&self) -> ShellFragment {
        let until: BTreeSet<&StepId> = self.steps.iter().flat_map(|(_, step)| &step.until).collect();
        let script = ShellFragment::new()
            .code("(\nset --")
            .word(self.folder())
            .word(self.unit())
            .number(self.seconds)
            .word(format_guard_time(self.seconds))
            .word(Self::names(self.steps()))
            .word(Self::names(until.into_iter()))
            .nested_word(self.build_files_program())
            .nested_word(self.build_restore_program())
            .code(OPEN_GUARD)
            .code(safe_path::ENTER_DIRECTORY)
            .code(KEEP_FUNCTIONS);
        let script = self
            .paths()
            .iter()
            .enumerate()
            .fold(script, |script, (at, path)| script.code("keep").word(*path).number(at as u64).code("\n"));
        let script = self.effects().fold(script, |script, effect| match &effect.tables {
            GuardedTables::None => script,
            GuardedTables::Named(table) => script.code("keep_table").word(table).code("\n"),
            GuardedTables::All => script.code("keep_all_tables\n"),
            GuardedTables::Iptables => script.code("keep_iptables\n"),
        });
        script.code(START_TIMER)
    }

    /// Returns the program that restores files and records.
    fn build_files_program(&self) -> ShellFragment {
        let start = ShellFragment::new().code("set --").word(self.folder()).code(OPEN_PROGRAM);
        let start = start.code(safe_path::ENTER_DIRECTORY).code(PUT_FUNCTION);
        let files = self
            .paths()
            .iter()
            .enumerate()
            .fold(start, |script, (at, path)| script.code("( put").word(*path).number(at as u64).code(" )\n"));
        let records: Vec<FormerRecord> = self.steps.iter().flat_map(|(_, step)| step.records.clone()).collect();
        files.code("(\n").append_fragment(build_former_records_script(&self.cluster, &records)).code(")\n")
    }

    fn build_restore_program(&self) -> ShellFragment {
        let start = ShellFragment::new().code("set --").word(self.folder()).code(OPEN_PROGRAM).code(CLAIM);
        let units = || self.effects().flat_map(|effect| &effect.units);
        // Only a unit whose file still exists can be disabled.
        let released = units().fold(start, |script, unit| name_unit(script.code("release_unit"), unit));
        let units =
            units().fold(released.code(RESTORE_FILES), |script, unit| name_unit(script.code("restore_unit"), unit));
        let tables = self.effects().fold(units.code(TABLE_FUNCTIONS), |script, effect| match &effect.tables {
            GuardedTables::None => script,
            GuardedTables::Named(table) => script.code("put_table").word(table).code("\n"),
            GuardedTables::All => script.code("put_all_tables\n"),
            GuardedTables::Iptables => script.code("put_iptables\n"),
        });
        let again =
            self.steps.iter().filter(|(_, step)| step.effect.reruns).fold(tables, |script, (_, step)| {
                script.code("(\n").append_fragment(step.rerun.clone()).code("\n) >&2\n")
            });
        again.code("mv -T -- \"$d/restoring\" \"$d/restored\"\n")
    }

    /// Returns the script that confirms the change over a new session, or prints what the guard did.
    pub fn build_confirm_script(&self) -> ShellFragment {
        ShellFragment::new().code("(\nset --").word(self.folder()).word(self.unit()).code(CONFIRM)
    }

    /// Returns the script that removes what a finished guard kept. A confirmed change that later steps put into effect
    /// keeps its copies until one of them is confirmed.
    pub fn build_forget_script(&self) -> ShellFragment {
        ShellFragment::new().code("(\nset --").word(self.folder()).code(FORGET)
    }
}

fn name_unit(script: ShellFragment, unit: &GuardedUnit) -> ShellFragment {
    let yes_or_no = |yes: bool| if yes { "yes" } else { "no" };
    let script = script.word(&unit.name).word(yes_or_no(unit.ran)).word(yes_or_no(unit.reloads));
    script.word(unit.enabled.map_or("same", yes_or_no)).code("\n")
}

/// Parses what [`HostGuard::build_confirm_script`] prints.
pub fn parse_guard_answer(printed: &str) -> Option<GuardAnswer> {
    let mut lines = printed.lines();
    Some(match lines.next()? {
        "confirmed" => GuardAnswer::Confirmed,
        "busy" => GuardAnswer::Busy,
        "missing" => GuardAnswer::Missing,
        "restored" => {
            let mut outcome = GuardOutcome::default();
            let mut problems = Vec::new();
            for line in lines {
                match line.split_once(' ')? {
                    ("also", step) => drop(outcome.also.insert(step.to_owned())),
                    ("problem", text) => problems.push(text),
                    _ => return None,
                }
            }
            outcome.problems = problems.join("\n").into();
            GuardAnswer::Restored(outcome)
        }
        _ => return None,
    })
}

/// `$1` folder, `$2` unit, `$3` seconds, `$4` their text, `$5` steps, `$6` steps that put the change into effect, `$7`
/// and `$8` the programs. A retried script keeps the guard of its first attempt.
const OPEN_GUARD: &str = r#"
fail() { printf 'forge: cannot guard the change: %s\n' "$*" >&2; exit 1; }
d=$1 unit=$2 seconds=$3
if [ -d "$d" ]; then
  [ ! -e "$d/armed" ] || exit 0
  [ ! -e "$d/restoring" ] && [ ! -e "$d/restored" ] || fail "the guard has ended"
  rm -rf -- "$d"
fi
umask 077
mkdir -p -- "${d%/*}" && mkdir -- "$d" || fail "cannot make $d"
printf '%s\n' "$4" >"$d/time" && printf %s "$5" >"$d/steps" && printf %s "$7" >"$d/files" &&
  printf %s "$8" >"$d/restore" && : >"$d/problems" || fail "cannot write to $d"
[ -z "$6" ] || printf %s "$6" >"$d/until" || fail "cannot write to $d"
"#;

/// `keep PATH NUMBER` copies a file or link, or notes owner and mode of a directory, or that there is nothing.
const KEEP_FUNCTIONS: &str = r#"
keep() {
  if [ -L "$1" ] || [ -f "$1" ]; then
    ( enter "${1%/*}" && cp -a -T -- "./${1##*/}" "$d/copy-$2" || fail "cannot copy $1" ) || exit 1
  elif [ -d "$1" ]; then stat -c '%a %u:%g' -- "$1" >"$d/folder-$2" || fail "cannot stat $1"
  elif [ -e "$1" ]; then fail "$1 is a special file"
  else : >"$d/none-$2" || fail "cannot write to $d"; fi
}
tables=0
keep_table() {
  command -v nft >/dev/null && nft list tables 2>/dev/null | grep -qxF "table $1" || return 0
  nft -s list table $1 >"$d/table-$tables" || fail "cannot list the table $1"
  printf '%s\n' "$1" >>"$d/tables" || fail "cannot write to $d"
  tables=$((tables + 1))
}
keep_all_tables() {
  command -v nft >/dev/null || return 0
  nft list tables >"$d/list" || fail "cannot list the tables"
  while read -r word table; do keep_table "$table"; done <"$d/list"
}
keep_iptables() {
  for tool in iptables ip6tables; do
    command -v "$tool-save" >/dev/null || continue
    "$tool-save" >"$d/$tool" || fail "cannot save the rules of $tool"
    # Without a rule yet, the table may be missing in that text.
    grep -qx '[*]filter' -- "$d/$tool" ||
      printf '*filter\n:INPUT ACCEPT [0:0]\n:FORWARD ACCEPT [0:0]\n:OUTPUT ACCEPT [0:0]\nCOMMIT\n' >>"$d/$tool" ||
      fail "cannot write to $d"
  done
}
"#;

/// Without a timer of systemd, a process of its own session waits. Its lock shows that a guard is armed.
const START_TIMER: &str = r#"
synced=
for file in "$d"/*; do [ -L "$file" ] || synced="$synced $file"; done
sync -- $synced "$d" || fail "cannot sync $d"
: >"$d/armed" || fail "cannot write to $d"
if [ -d /run/systemd/system ] && systemd-run --quiet --collect --unit="$unit" --on-active="$seconds" \
  --timer-property=AccuracySec=100ms --description='forge: restores the state before an unconfirmed change' \
  /bin/sh "$d/restore" >/dev/null 2>"$d/problems"; then exit 0; fi
: >"$d/problems"
lock=/run/forge/$unit
mkdir -p -- "$lock" && : >"$lock/alive" && exec 9<>"$lock/alive" && flock 9 || fail "cannot start its timer"
setsid sh -c 'echo "$$" >"$1/pid"; sleep "$2"; sh "$1/restore" 9>&-; rm -rf -- "$3"' sh "$d" "$seconds" "$lock" \
  </dev/null >/dev/null 2>&1 &
tries=0
while [ ! -s "$d/pid" ]; do
  tries=$((tries + 1))
  [ "$tries" -lt 100 ] || fail "cannot start its timer"
  sleep 0.1
done
) || exit 1
"#;

const OPEN_PROGRAM: &str = r#"
d=$1
exec </dev/null
umask 077
LC_ALL=C PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
export LC_ALL PATH
fail() { printf '%s\n' "$*" >&2; exit 1; }
"#;

/// `put PATH NUMBER` restores what `keep` noted. New content gets its name in one step, from a directory that only this
/// account can enter.
const PUT_FUNCTION: &str = r#"
put() {
  if [ -e "$d/folder-$2" ]; then
    enter "${1%/*}"
    read -r mode owner <"$d/folder-$2"
    [ -d "./${1##*/}" ] || mkdir -- "./${1##*/}" || fail "cannot make $1"
    [ ! -L "./${1##*/}" ] && chown -- "$owner" "./${1##*/}" && chmod -- "$mode" "./${1##*/}" || fail "cannot restore $1"
  elif [ -e "$d/none-$2" ]; then
    [ -e "$1" ] || [ -L "$1" ] || exit 0
    enter "${1%/*}"
    if [ -d "./${1##*/}" ] && [ ! -L "./${1##*/}" ]; then
      rmdir -- "./${1##*/}" || fail "cannot remove $1"
    else rm -f -- "./${1##*/}" || fail "cannot remove $1"; fi
  else
    enter "${1%/*}"
    box=$(mktemp -d "./.${1##*/}.forge-XXXXXX") && cd -P -- "$box" && [ -O . ] || fail "cannot make a directory next to $1"
    cp -a -T -- "$d/copy-$2" ./new && { [ -L ./new ] || sync -- ./new; } && mv -f -T -- ./new "../${1##*/}" ||
      fail "cannot restore $1"
    cd .. && rmdir -- "$box" || fail "cannot remove $box next to $1"
  fi
}
"#;

/// A script of the run may still act: the guard waits for it, but not longer than 30 seconds. The functions take the name of a unit,
/// whether it ran, whether it reloads, and whether it started at boot.
const CLAIM: &str = r#"
mv -T -- "$d/armed" "$d/restoring" 2>/dev/null || exit 0
[ ! -e /run/lock/forge.act ] || flock -w 30 /run/lock/forge.act true
exec 2>>"$d/problems"
has_systemctl() { command -v systemctl >/dev/null; }
release_unit() {
  has_systemctl || return 0
  [ "$4" != no ] || systemctl --quiet disable -- "$1"
  [ "$2" != no ] || systemctl stop -- "$1"
}
restore_unit() {
  has_systemctl || return 0
  [ "$4" != yes ] || systemctl --quiet enable -- "$1"
  [ "$2" = yes ] || return 0
  systemctl reset-failed -- "$1" 2>/dev/null
  if [ "$3" = yes ] && systemctl --quiet is-active -- "$1" && systemctl reload -- "$1"; then return; fi
  systemctl restart -- "$1"
}
"#;

/// Changes that an earlier guard confirmed and that the guarded steps put into effect are taken back too, the newest
/// first.
const RESTORE_FILES: &str = r#"
set --
for other in /var/lib/forge/guard/*/; do
  other=${other%/}
  [ -e "$other/confirmed" ] && [ -e "$other/until" ] && grep -qxF -f "$d/steps" -- "$other/until" || continue
  set -- "$other" "$@"
done
for one in "$d" "$@"; do sh "$one/files"; done
for one in "$@"; do cat -- "$one/steps" >>"$d/also"; rm -rf -- "$one"; done
! has_systemctl || systemctl daemon-reload
"#;

/// Only tables that differ are replaced: programs such as `iptables-nft` own tables that `nft` cannot load.
///
/// `iptables-restore` replaces the tables of its text, with their chains, and leaves other ones: a table that the
/// change made is emptied. Legacy tables cannot be deleted.
const TABLE_FUNCTIONS: &str = r#"
drop_table() { printf 'table %s\ndelete table %s\n' "$1" "$1" | nft -f -; }
put_table() {
  at=0 saved=
  if [ -e "$d/tables" ]; then
    while IFS= read -r table; do
      [ "$table" != "$1" ] || saved=$d/table-$at
      at=$((at + 1))
    done <"$d/tables"
  fi
  if [ -z "$saved" ]; then
    command -v nft >/dev/null && nft list tables | grep -qxF "table $1" || return 0
    drop_table "$1"
    return
  fi
  nft -s list table $1 2>/dev/null | cmp -s - "$saved" ||
    { printf 'table %s\ndelete table %s\n' "$1" "$1"; cat -- "$saved"; } | nft -f -
}
put_all_tables() {
  command -v nft >/dev/null || return 0
  [ -e "$d/tables" ] || : >"$d/tables"
  nft list tables | while read -r word table; do
    grep -qxF "$table" -- "$d/tables" || drop_table "$table"
  done
  while IFS= read -r name; do put_table "$name"; done <"$d/tables"
}
new_iptables() {
  "$1-save" | while read -r word policy rest; do
    case $word in
    '*'*)
      is_new=
      grep -qxF -e "$word" -- "$d/$1" || { is_new=yes && printf '%s\n' "$word"; } ;;
    :*) [ -z "$is_new" ] || [ "$policy" = - ] || printf '%s ACCEPT [0:0]\n' "$word" ;;
    COMMIT) [ -z "$is_new" ] || echo COMMIT ;;
    esac
  done
}
put_iptables() {
  for tool in iptables ip6tables; do
    [ -e "$d/$tool" ] || continue
    new=$(new_iptables "$tool")
    { cat -- "$d/$tool"; [ -z "$new" ] || printf "%s\n" "$new"; } | "$tool-restore"
  done
}
"#;

/// `$1` folder, `$2` unit.
const CONFIRM: &str = r#"
d=$1 unit=$2
if [ -e "$d/armed" ] && [ -e /run/lock/forge.act ] && ! flock -n /run/lock/forge.act true; then
  echo busy
  exit 0
fi
mv -T -- "$d/armed" "$d/confirmed" 2>/dev/null
if [ -e "$d/confirmed" ]; then
  if [ -s "$d/pid" ]; then
    read -r pid <"$d/pid"
    kill -- "-$pid" 2>/dev/null
    rm -rf -- "/run/forge/$unit"
  else systemctl --quiet stop "$unit.timer"; fi
  for other in /var/lib/forge/guard/*/; do
    other=${other%/}
    [ "$other" != "$d" ] && [ -e "$other/confirmed" ] && [ -e "$other/until" ] || continue
    ! grep -qxF -f "$d/steps" -- "$other/until" || rm -rf -- "$other"
  done
  echo confirmed
  exit 0
fi
tries=0
while [ -e "$d/restoring" ] && [ "$tries" -lt 100 ]; do tries=$((tries + 1)); sleep 0.2; done
if [ -e "$d/restored" ]; then
  echo restored
  [ ! -e "$d/also" ] || sed 's/^/also /' "$d/also"
  tail -n 5 -- "$d/problems" | sed 's/^/problem /'
elif [ -e "$d/restoring" ]; then echo busy
else echo missing; fi
)
"#;

const FORGET: &str = r#"
if [ -e "$1/confirmed" ] && [ -e "$1/until" ]; then rm -f -- "$1/restore" "$1/pid"
elif [ -e "$1/confirmed" ] || [ -e "$1/restored" ]; then rm -rf -- "$1"; fi
)
"#;

#[cfg(test)]
mod tests;
