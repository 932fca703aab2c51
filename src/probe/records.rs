//! Records of earlier applies: all files under `/var/lib/forge/applied`, the host's key, running units; and the account
//! that reads them.

use super::query::Probe;
use super::section::{NulFields, ProbeSection, SectionEnd, SectionOutput, parse_utf8};
use super::{GuardState, GuardTrace, HoldMark, Observation, ProbeReading, RecordsState, ScriptAccount, WriterTrace};
use crate::model::UntrustedText;
use crate::script::ShellFragment;
use std::collections::BTreeMap;

/// Prints fields: `account` and its name, empty for root, `/` for root with other mounts than process 1 (if /proc shows
/// those); `record` and a file's name for each file; `lines`, followed by repetitions of name, NUL and one line, as printed
/// by `grep`; `key` and hex; `units` and the output of `systemctl
/// show` for `forge-*`; `window` and the record of an open window, if there is one; `hold`, the mark of a hold and the
/// host's clock, if there is a hold; `writer`, the run that holds the writer lock, as it describes itself; `guard`, the
/// state, name, time and steps of each guard that no session confirmed. JSON text contains no NUL byte, so one process
/// prints the lines of all files. systemd keeps a file for each transient unit as long as it knows the unit, so without
/// such a file there is nothing to query. On a host without systemd, a long step holds a lock on `alive` in its folder. The
/// file of the writer lock begins with the token and the process of the holder, that of the act lock with those of the
/// shell of a script, which may go on after its run. Either may be left by a run that was killed or has ended; to try a lock would hold up a run that takes it at
/// this moment. The shell skips the NUL bytes between the arguments of a process.
const SNIPPETS: [&str; 3] = [HEAD, WRITER_SNIPPET, REST];

const HEAD: &str = r#"D=/var/lib/forge
a= me=
while read -r k v me v; do [ "$k" != Uid: ] || break; me=; done </proc/self/status
[ "${me:=$(id -u)}" = 0 ] || a=$(id -un 2>/dev/null) || a=$(id -u)
if [ -z "$a" ] && [ -e /proc/1/ns/mnt ] && [ ! /proc/self/ns/mnt -ef /proc/1/ns/mnt ]; then a=/; fi
printf 'account\0%s\0' "$a"
forge_fail() { printf '%s: Permission denied\n' "$1" >&2; exit 1; }
for d in $D $D/applied; do
[ ! -e "$d" ] || { [ -r "$d" ] && [ -x "$d" ]; } || forge_fail "$d"
done
k=
if [ -e $D/key ]; then
[ -r $D/key ] || forge_fail $D/key
read -r k <$D/key || k=
case $k in *[!0-9a-f]*) k= ;; esac
[ "${#k}" = 64 ] || { need od; k=$(od -An -v -tx1 $D/key); }
fi
printf 'key\0%s\0' "$k"
u=
set -- /run/systemd/transient/forge-*.service
if [ -e "$1" ]; then
u=$(systemctl show --no-pager -p Id,ActiveState,Transient,ExecMainStartTimestamp -- 'forge-*.service') || exit
fi
[ -d /run/systemd/system ] || ! command -v flock >/dev/null || for d in /run/forge/forge-*; do
[ -e "$d/alive" ] || continue
flock -n -s "$d/alive" true 2>/dev/null
[ "$?" != 1 ] || u="$u

Id=${d##*/}.service
Transient=yes
ActiveState=active"
done
printf 'units\0%s\0' "$u"
[ ! -f $D/window.json ] || printf 'window\0%s\0' "$(cat $D/window.json)"
"#;

/// Prints the field `writer` and the run that works on the host, if there is one. Starts no process.
pub(crate) const WRITER_SNIPPET: &str = r#"for f in /run/lock/forge /run/lock/forge.act; do
[ -s $f ] && [ -f $f ] && [ -O $f ] || continue
k= v= a=
{ read -r k; read -r v; } <$f
[ -n "$k" ] && [ -n "$v" ] && [ -r "/proc/$v/cmdline" ] || continue
{ IFS= read -r a </proc/$v/cmdline; } 2>/dev/null
case $a in *"$k"*)
printf 'writer\0'
{ read -r k; read -r k; while read -r k; do printf '%s\n' "$k"; done; } <$f
printf '\0'
break ;;
esac
done
"#;

const REST: &str = r#"[ ! -e $D/hold.json ] && [ ! -L $D/hold.json ] || printf 'hold\0%s\0%s\0' "$([ ! -f $D/hold.json ] || cat $D/hold.json)" "$(date +%s)"
for g in $D/guard/*/; do
g=${g%/} s=armed
[ ! -e "$g/restored" ] || s=restored
[ "$s" = restored ] || [ -e "$g/armed" ] || [ -e "$g/restoring" ] || continue
printf 'guard\0%s\0%s\0%s\0%s\0' "$s" "${g##*/}" "$(cat "$g/time")" "$(cat "$g/steps")"
done
set --
if cd $D/applied 2>/dev/null; then
for f in *.json; do
if [ -f "$f" ] && [ ! -L "$f" ]; then printf 'record\0%s\0' "$f"; set -- "$@" "./$f"; fi
done
fi
printf 'lines\0'
[ "$#" = 0 ] || { need grep; grep -aHZ '' -- "$@" || [ "$?" -le 1 ] || exit 2; }
"#;

pub(crate) fn build_section(probes: Vec<Probe>) -> Option<ProbeSection> {
    let mut section = ProbeSection::new("the records", probes, read_answers);
    section.body = SNIPPETS.into_iter().fold(section.body, ShellFragment::code);
    section.cap = 32 << 20;
    section.plain = true;
    (!section.probes.is_empty()).then_some(section)
}

fn read_answers(section: &ProbeSection, raw: &SectionOutput, out: &mut Observation) {
    let state = if raw.end == SectionEnd::Exited(0) && !raw.truncated { parse_state(&raw.stdout) } else { None };
    for probe in &section.probes {
        let reading = match probe {
            // It comes first, even if the rest is not readable.
            Probe::Account => parse_account(&raw.stdout).map(ProbeReading::Account),
            _ => state.clone().map(|state| ProbeReading::Records(Box::new(state))),
        };
        out.insert(probe.clone(), reading.ok_or_else(|| raw.explain_missing(section)));
    }
}

fn parse_account(stdout: &[u8]) -> Option<ScriptAccount> {
    let [b"account", name] = NulFields::new(stdout).next_row()? else { return None };
    Some(match name {
        b"" => ScriptAccount::Root,
        b"/" => ScriptAccount::Isolated,
        name => ScriptAccount::Other(UntrustedText::from_bytes(name)),
    })
}

fn parse_state(stdout: &[u8]) -> Option<RecordsState> {
    let mut state = RecordsState::default();
    let mut files: BTreeMap<String, Vec<u8>> = BTreeMap::new();
    let mut fields = NulFields::new(stdout);
    loop {
        match fields.next()? {
            b"account" => drop(fields.next()?),
            b"key" => {
                state.key = Some(parse_utf8(fields.next()?)?.split_whitespace().collect())
                    .filter(|key: &String| key.len() == 64 || key == super::KEY_LEFT_OUT)
            }
            b"units" => state.running = parse_running_units(parse_utf8(fields.next()?)?),
            b"window" => state.window = Some(UntrustedText::from_bytes(fields.next()?)),
            b"hold" => {
                let text = UntrustedText::from_bytes(fields.next()?);
                state.hold = Some(HoldMark { text, now: parse_utf8(fields.next()?)?.parse().ok() });
            }
            b"writer" => state.writer = parse_writer(parse_utf8(fields.next()?)?),
            b"guard" => state.guards.push(parse_guard(&mut fields)?),
            b"record" => drop(files.insert(parse_utf8(fields.next()?)?.to_owned(), Vec::new())),
            b"lines" => break,
            _ => return None,
        }
    }
    append_lines(fields.remaining_bytes(), &mut files)?;
    state.records = files.iter().map(|(name, body)| (name.clone(), UntrustedText::from_bytes(body))).collect();
    Some(state)
}

/// Parses the lines `key: value` of the run that holds the lock.
pub(crate) fn parse_writer(text: &str) -> Option<WriterTrace> {
    let of = |key: &str| Some(text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(": "))?.into());
    Some(WriterTrace { run: of("run")?, by: of("by")?, since: of("since")?, what: of("what")? })
}

/// Parses a guard: its state, its name `RUN-NUMBER`, its time, and a line for each step.
fn parse_guard(fields: &mut NulFields<'_>) -> Option<GuardTrace> {
    let state = match fields.next()? {
        b"armed" => GuardState::Armed,
        b"restored" => GuardState::Restored,
        _ => return None,
    };
    let name = parse_utf8(fields.next()?)?;
    let run = name.rsplit_once('-').map_or(name, |(run, _)| run).into();
    let time = UntrustedText::from_bytes(fields.next()?);
    let steps = parse_utf8(fields.next()?)?.lines().map(UntrustedText::from).collect();
    Some(GuardTrace { state, run, steps, time })
}

/// Appends each line to its file. The last line of a file always ends with a line break here.
fn append_lines(mut rest: &[u8], files: &mut BTreeMap<String, Vec<u8>>) -> Option<()> {
    while !rest.is_empty() {
        let mut parts = rest.splitn(2, |byte| *byte == 0);
        let name = parse_utf8(parts.next()?)?.strip_prefix("./")?;
        let after = parts.next()?;
        let end = after.iter().position(|byte| *byte == b'\n').map_or(after.len(), |at| at + 1);
        files.get_mut(name)?.extend_from_slice(&after[..end]);
        rest = &after[end..];
    }
    Some(())
}

/// Returns the units that are running or starting, with their start time as systemd prints it. Only transient ones: a
/// packaged service may be named `forge-something` too.
fn parse_running_units(shown: &str) -> Vec<(String, UntrustedText)> {
    let unit = |block: &str| {
        let of = |key: &str| block.lines().find_map(|l| l.strip_prefix(key)?.strip_prefix('='));
        let busy = of("Transient") == Some("yes") && !matches!(of("ActiveState")?, "inactive" | "failed");
        busy.then(|| Some((of("Id")?.to_owned(), of("ExecMainStartTimestamp").unwrap_or("").into())))?
    };
    shown.split("\n\n").filter_map(unit).collect()
}

#[cfg(test)]
mod tests;
