//! Evidence of the cause of changes to a host: the ends of its logs, journal entries of sudo and of units, metadata of
//! files.
//!
//! Bounded on the host: in time by a start moment, in bytes by the tail of each log.

use super::query::Probe;
use super::section::{NulFields, ProbeSection, SectionEnd, SectionOutput, parse_utf8};
use super::{Observation, ProbeReading, unit};
use crate::model::UntrustedText;
use crate::script::ShellFragment;

use super::evidence_state::{EvidencePart, EvidenceState};
use std::collections::BTreeMap;

/// Maximum number of journal entries requested: the latest.
pub(crate) const JOURNAL_ENTRIES: usize = 4000;
/// Maximum bytes read of each log: its end.
const LOG_CAP: u64 = 131_072;
/// Maximum bytes read of the journal's output: its end.
pub(crate) const JOURNAL_CAP: u64 = 1_048_576;

/// The targets that end a boot.
const SHUTDOWN_TARGETS: [&str; 5] =
    ["reboot.target", "poweroff.target", "halt.target", "kexec.target", "soft-reboot.target"];

/// Prints triples of fields: the name of a part, its text, and why it could not be read.
///
/// Nothing here leaves a trace: `dnf history` would write to dnf's log, so the logs themselves are read. NUL bytes,
/// with which a crash pads logs, are dropped. The log before the last rotation is included if it was written to since
/// the start moment.
const SNIPPET: &str = r#"forge_lack() { printf '\0%s\0' "$1"; }
forge_log() {
printf '%s\0' "$1"
if [ ! -e "$2" ]; then forge_lack 'is missing'
elif [ ! -r "$2" ]; then forge_lack 'may not be read'
else
{ for z in "$2.1.gz" "$2.1"; do
[ -z "$(find "$z" -newermt "@$s" 2>/dev/null)" ] || case $z in *.gz) gzip -dc "$z" ;; *) cat "$z" ;; esac
done
cat "$2"; } 2>/dev/null | grep -aE "$3" | tr -d '\000' | tail -c "$l"
forge_lack ''
fi
}
forge_sign() {
f=$1; k=file
while [ ! -e "$f" ] && [ ! -L "$f" ] && [ "$f" != / ]; do
k=gone; f=${f%/*}; [ -n "$f" ] || f=/
done
printf '%s:%s\0%s' "$k" "$1" "$(stat -c '%Y %Z %u %U' -- "$f" 2>/dev/null)"; forge_lack ''
}
forge_j() {
journalctl -q --no-pager -o json --output-fields=_SOURCE_REALTIME_TIMESTAMP,_BOOT_ID,_PID,_UID,_COMM,_EXE,SYSLOG_IDENTIFIER,UNIT,JOB_TYPE,JOB_RESULT,MESSAGE "$@" 2>/dev/null
}
forge_journal() {
printf 'journal\0'
command -v journalctl >/dev/null || { forge_lack '`journalctl` is missing'; return; }
o=$(forge_j --system | head -n 1)
[ -n "$o" ] || { forge_lack 'is empty or may not be read'; return; }
e=$(forge_entries | tail -c "$c")
printf '%s' "$e"; forge_lack ''
printf 'oldest\0%s' "$o"; forge_lack ''
printf 'users\0'
for u in $(printf '%s\n' "$e" | grep -o '"_UID":"[0-9]*"' | sort -u | tr -dc '0-9\n' | head -n 200); do
timeout 2 getent passwd "$u" | cut -d: -f1,3
done
forge_lack ''
}
forge_evidence() {
s=$1 l=$2 c=$3 n=$4
printf 'now\0%s' "$(date +%s)"; forge_lack ''
a=
[ "$(id -u)" = 0 ] || a=$(id -un 2>/dev/null) || a=$(id -u)
printf 'account\0%s' "$a"; forge_lack ''
printf 'zone\0'
if [ -r /etc/localtime ] && command -v od >/dev/null; then
head -c 16384 /etc/localtime | od -An -v -tx1; forge_lack ''
else forge_lack 'is missing'
fi
forge_log apt /var/log/apt/history.log .
forge_log dpkg /var/log/dpkg.log '^[^ ]+ [^ ]+ (startup|install|upgrade|remove|purge) '
forge_log dnf /var/log/dnf.log ' Command: '
forge_log rpm /var/log/dnf.rpm.log ' (Install|Reinstall|Upgrade|Downgrade|Erase|Obsolete)'
forge_log unattended /var/log/unattended-upgrades/unattended-upgrades.log eboot
b=
IFS= read -r b 2>/dev/null </proc/sys/kernel/random/boot_id
printf 'boot\0%s' "$b"; forge_lack ''
printf 'units\0'
if command -v systemctl >/dev/null; then
systemctl show --no-pager -p UserspaceTimestamp 2>/dev/null
echo
forge_units 2>/dev/null
forge_lack ''
else forge_lack '`systemctl` is missing'
fi
forge_journal
forge_signs
}
"#;

const UNITS_SNIPPET: &str = "forge_units() {
systemctl show --no-pager -p Id,Names,ActiveState,InactiveEnterTimestamp,InactiveExitTimestamp,ActiveEnterTimestamp,Result --";

/// Programs that log changes of accounts, by the names that they give themselves.
const ACCOUNT_LOGGERS: [&str; 10] =
    ["chage", "chfn", "chsh", "gpasswd", "groupadd", "groupdel", "groupmod", "useradd", "userdel", "usermod"];

/// Journal entries of sudo, logind, systemd and programs for accounts since then. The journal does not know the program
/// of a sudo that ended before its message was read: such entries have only the name that the program gave itself.
///
/// systemd names a unit by its own name, also if a step names it by an alias.
const ENTRIES_SNIPPET: &str = r#"forge_entries() {
set --
for i in $(forge_units 2>/dev/null | sed -n 's/^Id=//p'); do set -- "$@" + _PID=1 "UNIT=$i"; done
forge_j --since "@$s" -n "$n" _COMM=sudo + SYSLOG_IDENTIFIER=sudo + _COMM=systemd-logind"#;

pub(crate) fn build_section(probe: &Probe) -> Option<ProbeSection> {
    let Probe::Evidence { since, units, paths } = probe else { return None };
    let mut section = ProbeSection::new("reading the logs", vec![probe.clone()], read_answers);
    let names: Vec<String> = units.iter().map(|name| unit::full_unit_name(name)).collect();
    let shown = match names.is_empty() {
        true => ShellFragment::new().code("forge_units() { :; }\n"),
        false => {
            names.iter().fold(ShellFragment::new().code(UNITS_SNIPPET), |code, name| code.word(name)).code("\n}\n")
        }
    };
    let watched = names.iter().map(String::as_str).chain(SHUTDOWN_TARGETS);
    let entries = watched.fold(ShellFragment::new().code(ENTRIES_SNIPPET), |code, name| {
        code.code(" + _PID=1").word(format!("UNIT={name}"))
    });
    let entries =
        ACCOUNT_LOGGERS.iter().fold(entries, |code, name| code.code(" +").word(format!("SYSLOG_IDENTIFIER={name}")));
    let signs = paths.iter().fold(ShellFragment::new().code("forge_signs() {\n:\n"), |code, path| {
        code.code("forge_sign").word(path).code("\n")
    });
    let call = ShellFragment::new().code("forge_evidence").number(*since).number(LOG_CAP).number(JOURNAL_CAP);
    section.body = ShellFragment::new()
        .code(SNIPPET)
        .append_fragment(shown)
        .append_fragment(entries.code(" \"$@\"\n}\n"))
        .append_fragment(signs.code("}\n"))
        .append_fragment(call.number(JOURNAL_ENTRIES as u64));
    section.cap = 4 << 20;
    Some(section)
}

/// Returns why the probe cannot be sent.
pub(super) fn refusal_reason(units: &[String], paths: &[String]) -> Option<&'static str> {
    if paths.iter().any(|path| path.contains('\0')) {
        return Some("the path contains a NUL byte");
    }
    units.iter().find_map(|name| unit::refusal_reason(name))
}

fn read_answers(section: &ProbeSection, raw: &SectionOutput, out: &mut Observation) {
    // Parts read before a log that hangs are kept.
    let whole = raw.end == SectionEnd::Exited(0) || raw.end == SectionEnd::TimedOut;
    let parts = parse_parts(&raw.stdout);
    let state = (whole && !parts.is_empty()).then_some(EvidenceState { parts });
    for probe in &section.probes {
        let answer = state.clone().map(|state| ProbeReading::Evidence(Box::new(state)));
        out.insert(probe.clone(), answer.ok_or_else(|| raw.explain_missing(section)));
    }
}

fn parse_parts(stdout: &[u8]) -> BTreeMap<String, EvidencePart> {
    let mut fields = NulFields::new(stdout);
    let mut parts = BTreeMap::new();
    while let Some([name, body, lack]) = fields.next_row() {
        let (Some(name), lack) = (parse_utf8(name), String::from_utf8_lossy(lack).into_owned()) else { continue };
        parts.insert(name.to_owned(), EvidencePart { text: UntrustedText::from_bytes(body), lack });
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::section::testing::{answers, printed};

    fn probe(units: &[&str], paths: &[&str]) -> Probe {
        let owned = |list: &[&str]| list.iter().map(|&text| text.to_owned()).collect();
        Probe::Evidence { since: 1, units: owned(units), paths: owned(paths) }
    }

    fn ask(stdout: &str) -> Result<EvidenceState, String> {
        let probe = probe(&[], &[]);
        match answers(&build_section(&probe).unwrap(), &printed(stdout)).get(&probe) {
            Ok(ProbeReading::Evidence(state)) => Ok(*state.clone()),
            Ok(other) => panic!("{other:?}"),
            Err(unknown) => Err(unknown.why),
        }
    }

    #[test]
    fn parts_are_separated_and_truncated_part_is_dropped() {
        let state = ask("now\x007\0\0apt\0\0is missing\0journal\0{\"a\"").unwrap();
        let names: Vec<_> = state.parts.iter().map(|(name, part)| (&**name, part.text.raw(), &*part.lack)).collect();
        assert_eq!(names, [("apt", "", "is missing"), ("now", "7", "")]);
        assert_eq!(ask(""), Err("reading the logs returned no answer".to_owned()));
    }

    #[test]
    fn invalid_unit_names_and_paths_are_rejected() {
        let owned = |text: &str| vec![text.to_owned()];
        assert_eq!(refusal_reason(&owned("-x"), &[]), Some("is not a unit name"));
        assert_eq!(refusal_reason(&[], &owned("/a\0b")), Some("the path contains a NUL byte"));
        assert_eq!(refusal_reason(&owned("nginx"), &owned("/etc/a 'b")), None);
    }
}
