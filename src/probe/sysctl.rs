//! Kernel settings: the value of each key under `/proc/sys`, and all lines of `sysctl.d`.

use super::query::Probe;
use super::section::{NulFields, ProbeSection, SectionOutput, parse_utf8};
use super::{ConfLine, Observation, ProbeReading, SysctlState, SysctlValue, confd};
use std::collections::BTreeMap;

/// Prints the snippets, then fields: `key`, its path, and `none`, `ro` or `rw`; `values`, followed by repetitions of
/// path, NUL and one line, as printed by `grep`; `end`. Before `values`, `masked` means that systemd does not apply the
/// snippets at boot. Shells read single bytes, and for such reads these files return
/// only the first one. A read-only `/proc/sys` fails `-w` for root too; for other users the mode does, which says
/// nothing about root.
const SNIPPET: &str = r#"
forge_sysctls() {
n=$# u=
for k; do
f=/proc/sys/$k s=none
if [ -f "$f" ]; then
set -- "$@" "$f"
s=rw
if [ ! -w "$f" ] && [ "${u:=$(id -u)}" = 0 ]; then s=ro; fi
fi
printf 'key\0%s\0%s\0' "$k" "$s"
done
shift "$n"
[ ! /etc/systemd/system/systemd-sysctl.service -ef /dev/null ] || printf 'masked\0'
printf 'values\0'
[ "$#" = 0 ] || grep -aHZ '' -- "$@"
printf 'end\0'
}
forge_confd /etc/sysctl.d /run/sysctl.d /usr/local/lib/sysctl.d /usr/lib/sysctl.d /lib/sysctl.d
forge_sysctls"#;

/// Reports whether `key` is a path under `/proc/sys`: names with slashes, nothing that leads outside.
pub(crate) fn is_sysctl_key(key: &str) -> bool {
    let bad = |c: char| c.is_control() || c.is_whitespace() || "*?[]=".contains(c);
    !key.contains(bad) && key.contains('/') && key.split('/').all(|part| !matches!(part, "" | "." | ".."))
}

pub(crate) fn build_section(probes: Vec<Probe>) -> Option<ProbeSection> {
    let mut section = ProbeSection::new("reading `/proc/sys` and `sysctl.d`", probes, read_answers);
    let body = section.body.code(confd::SNIPPET).code(SNIPPET);
    section.body = section.probes.iter().filter_map(probe_key).fold(body, |body, key| body.word(key));
    (!section.probes.is_empty()).then_some(section)
}

fn probe_key(probe: &Probe) -> Option<&str> {
    match probe {
        Probe::Sysctl { key } => Some(key),
        _ => None,
    }
}

fn read_answers(section: &ProbeSection, raw: &SectionOutput, out: &mut Observation) {
    let seen = if raw.is_complete(&[0]) { parse_settings(&raw.stdout) } else { None };
    for probe in &section.probes {
        let state = seen.as_ref().zip(probe_key(probe)).and_then(|(seen, key)| {
            let value = seen.values.get(key)?.clone();
            Some(SysctlState { value, lines: seen.lines.clone(), is_masked: seen.is_masked })
        });
        out.insert(probe.clone(), state.map(ProbeReading::Sysctl).ok_or_else(|| raw.explain_missing(section)));
    }
}

/// What the snippet prints.
struct SysctlOutput<'a> {
    lines: Vec<ConfLine>,
    values: BTreeMap<&'a str, SysctlValue>,
    is_masked: bool,
}

/// Parses the whole output; `None` if it is incomplete.
fn parse_settings(stdout: &[u8]) -> Option<SysctlOutput<'_>> {
    let mut fields = NulFields::new(stdout);
    let lines = confd::read_conf_lines(&mut fields)?;
    let (mut values, mut is_masked) = (BTreeMap::new(), false);
    loop {
        match fields.next()? {
            b"key" => {
                let [key, state] = fields.next_row()?;
                let value =
                    if state == b"none" { SysctlValue::Absent } else { SysctlValue::Unread { fixed: state == b"ro" } };
                values.insert(parse_utf8(key)?, value);
            }
            b"masked" => is_masked = true,
            b"values" => break,
            _ => return None,
        }
    }
    loop {
        let path = parse_utf8(fields.next()?)?;
        if path == "end" {
            return Some(SysctlOutput { lines, values, is_masked });
        }
        let line = String::from_utf8_lossy(fields.next_line()?);
        values.get_mut(path.strip_prefix("/proc/sys/")?)?.push_line(&line);
    }
}

impl SysctlValue {
    /// Appends a line to the value.
    fn push_line(&mut self, line: &str) {
        match self {
            Self::Absent => {}
            Self::Unread { fixed } => *self = Self::Set { value: line.to_owned(), fixed: *fixed },
            Self::Set { value, .. } => {
                value.push('\n');
                value.push_str(line);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::section::testing::{answers, printed, recorded};

    fn ask(keys: &[&str], raw: &SectionOutput) -> Vec<Result<SysctlState, String>> {
        let probes: Vec<Probe> = keys.iter().map(|key| Probe::Sysctl { key: (*key).to_owned() }).collect();
        let seen = answers(&build_section(probes.clone()).expect("a section"), raw);
        let one = |probe| match seen.get(probe) {
            Ok(ProbeReading::Sysctl(state)) => Ok(state.clone()),
            Ok(other) => panic!("{other:?}"),
            Err(unknown) => Err(unknown.why),
        };
        probes.iter().map(one).collect()
    }

    #[test]
    fn values_and_configuration_lines_are_parsed() {
        let raw = recorded(include_str!("../../tests/fixtures/probe/sysctl.txt"));
        let seen = ask(&["net/ipv4/ip_forward", "net/ipv4/tcp_rmem", "kernel/osrelease", "net/nf/none"], &raw);
        let value = |at: usize| seen[at].as_ref().unwrap().value.clone();
        assert_eq!(value(0), SysctlValue::Set { value: "0".into(), fixed: false });
        assert_eq!(value(1), SysctlValue::Set { value: "4096\t131072\t6291456".into(), fixed: false });
        assert!(matches!(value(2), SysctlValue::Set { fixed: true, .. }));
        assert_eq!(value(3), SysctlValue::Absent);
        let lines = &seen[0].as_ref().unwrap().lines;
        assert!(lines.iter().any(|line| line.text == "-net.ipv4.conf.all.rp_filter"), "{lines:?}");
        let files: Vec<&str> = lines.iter().map(|line| line.file.rsplit('/').next().unwrap()).collect();
        assert!(files.is_sorted(), "{files:?}");
    }

    #[test]
    fn mask_of_the_unit_that_applies_snippets_is_parsed() {
        let is_masked = |tag: &str| {
            let text = format!("lines\0end\0key\0a/b\0rw\0{tag}values\0/proc/sys/a/b\x001\nend\0");
            ask(&["a/b"], &printed(&text)).remove(0).unwrap().is_masked
        };
        assert_eq!([is_masked("masked\0"), is_masked("")], [true, false]);
    }

    #[test]
    fn unanswered_key_is_unknown() {
        let seen = ask(&["a/b", "a/c"], &printed("lines\0end\0key\0a/b\0rw\0values\0/proc/sys/a/b\x001\nend\0"));
        assert!(seen[0].is_ok());
        assert_eq!(seen[1], Err("reading `/proc/sys` and `sysctl.d` returned no answer".into()));
        assert!(ask(&["a/b"], &printed("lines\0end\0key\0a/b\0rw\0values\0"))[0].is_err(), "it was truncated");
    }

    #[test]
    fn keys_outside_proc_sys_are_rejected() {
        assert!(is_sysctl_key("net/ipv4/conf/eth0.100/forwarding"));
        for bad in ["net", "net//ipv4", "../etc", "net/../x", "net/ipv4/*", "/net/ipv4", "net/a b"] {
            assert!(!is_sysctl_key(bad), "{bad}");
        }
    }
}
