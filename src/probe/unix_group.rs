//! Groups of accounts: one `getent group` for all names and the wanted numbers.

use super::query::Probe;
use super::section::{NulFields, ProbeSection, SectionOutput, parse_utf8};
use super::{GroupInfo, GroupState, Observation, ProbeReading};

/// Prints two fields: the status and the lines; and a third with the names of groups that have a password or administrators,
/// read from gshadow. Status 2 means that some name or number is unknown.
const SNIPPET: &str = r#"need getent
forge_groups() {
g=$(getent group -- "$@"); r=$? a=
if [ -r /etc/gshadow ]; then
while IFS=: read -r n p m l; do
case " $* " in *" $n "*) case $p:$m in :|'!:'|'*:'|'!!:') ;; *) a="$a $n" ;; esac ;; esac
done </etc/gshadow
fi
printf '%s\0%s\0%s\0' "$r" "$g" "$a"
}
forge_groups"#;

pub(crate) fn build_section(probes: Vec<Probe>) -> Option<ProbeSection> {
    let mut section = ProbeSection::new("`getent`", probes, read_answers);
    section.body =
        section.probes.iter().filter_map(group_query).fold(section.body.code(SNIPPET), |body, (name, gid)| {
            let body = body.word(name);
            if let Some(gid) = gid { body.number(gid.into()) } else { body }
        });
    section.cap = 262_144 + 65_536 * section.probes.len() as u64;
    (!section.probes.is_empty()).then_some(section)
}

fn group_query(probe: &Probe) -> Option<(&str, Option<u32>)> {
    match probe {
        Probe::Group { name, gid } => Some((name, *gid)),
        _ => None,
    }
}

/// One line of `group`.
struct GroupLine<'a> {
    name: &'a str,
    gid: u32,
    members: &'a str,
}

impl<'a> GroupLine<'a> {
    fn parse(line: &'a str) -> Option<Self> {
        let mut fields = line.split(':');
        let (name, gid) = (fields.next()?, fields.nth(1)?);
        Some(Self { name, gid: gid.parse().ok()?, members: fields.next()? })
    }

    fn to_group_info(&self) -> GroupInfo {
        let mut members: Vec<String> =
            self.members.split(',').filter(|member| !member.is_empty()).map(str::to_owned).collect();
        members.sort();
        members.dedup();
        GroupInfo { gid: self.gid, members, administered: false }
    }
}

fn read_answers(section: &ProbeSection, raw: &SectionOutput, out: &mut Observation) {
    let Some((lines, administered)) = parse_lines(&raw.stdout).filter(|_| raw.is_complete(&[0])) else {
        return section.answer_all_unknown(&raw.explain_missing(section), out);
    };
    for probe in &section.probes {
        let Some((name, gid)) = group_query(probe) else { continue };
        let own = lines.iter().find(|line| line.name == name);
        let other = lines.iter().find(|line| Some(line.gid) == gid && line.name != name);
        let administered = administered.contains(&name);
        let group = own.map(|line| GroupInfo { administered, ..line.to_group_info() });
        let state = GroupState { group, gid_of: other.map(|line| line.name.to_owned()) };
        out.insert(probe.clone(), Ok(ProbeReading::Group(state)));
    }
}

/// Parses all lines, and the names of groups with a password or administrators; `None` if any line is not a group's.
fn parse_lines(stdout: &[u8]) -> Option<(Vec<GroupLine<'_>>, Vec<&str>)> {
    let mut fields = NulFields::new(stdout);
    let [status, lines] = fields.next_row()?;
    matches!(status, b"0" | b"2").then_some(())?;
    // Recordings of older versions lack the names.
    let administered = fields.next().and_then(parse_utf8).unwrap_or_default();
    let lines = parse_utf8(lines)?.lines().map(GroupLine::parse).collect::<Option<_>>()?;
    Some((lines, administered.split_whitespace().collect()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::UnansweredReason;
    use crate::probe::section::testing::{answers, printed};

    fn one(name: &str, gid: Option<u32>, stdout: &str) -> Result<GroupState, UnansweredReason> {
        let probe = Probe::Group { name: name.to_owned(), gid };
        let seen = answers(&build_section(vec![probe.clone()]).expect("a section"), &printed(stdout));
        seen.get(&probe).map(|reading| match reading {
            ProbeReading::Group(state) => state.clone(),
            other => panic!("{other:?}"),
        })
    }

    // origin: field, Debian 12
    const LINES: &str = "2\0adm:x:4:syslog,alice\nsudo:x:27:\n\0";

    #[test]
    fn members_are_sorted_and_missing_group_is_absent() {
        let adm = GroupInfo { gid: 4, members: vec!["alice".into(), "syslog".into()], administered: false };
        assert_eq!(one("adm", None, LINES), Ok(GroupState { group: Some(adm), gid_of: None }));
        assert_eq!(one("none", None, LINES), Ok(GroupState::default()));
    }

    #[test]
    fn group_with_a_password_or_administrators_is_reported() {
        let found = |name: &str| one(name, None, &format!("{LINES} sudo\0")).unwrap().group.unwrap().administered;
        assert!(found("sudo") && !found("adm"));
    }

    #[test]
    fn other_group_with_the_same_gid_is_reported() {
        assert_eq!(one("hpc", Some(27), LINES).unwrap().gid_of.as_deref(), Some("sudo"));
        assert_eq!(one("sudo", Some(27), LINES).unwrap().gid_of, None);
    }

    #[test]
    fn failed_or_malformed_answer_is_not_a_missing_group() {
        for text in ["1\0\0", "2\0adm:x\n\0", "0\0adm:x:4:"] {
            assert_eq!(one("adm", None, text).expect_err(text).why, "`getent` returned no answer");
        }
    }
}
