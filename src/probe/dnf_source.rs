//! The sections of dnf's repository files: all files are read together.

use super::query::Probe;
use super::section::{ProbeSection, SectionOutput, read_listed_files};
use super::{DnfEntry, Observation, ProbeReading};

/// Prints two fields per file that dnf reads: its path and its text. The folders are dnf's default `reposdir`.
const SNIPPET: &str = r#"
forge_repos() {
for f in /etc/yum.repos.d/*.repo /etc/yum/repos.d/*.repo /etc/distro.repos.d/*.repo; do
[ -f "$f" ] || continue
t=$(tr -d '\0' <"$f") || exit
printf '%s\0%s\0' "$f" "$t"
done
printf 'end\0'
}
forge_repos"#;

pub(crate) fn build_section(probes: Vec<Probe>) -> Option<ProbeSection> {
    let mut section = ProbeSection::new("dnf's repositories", probes, read_answers);
    section.body = section.body.code(SNIPPET);
    (!section.probes.is_empty()).then_some(section)
}

fn read_answers(section: &ProbeSection, raw: &SectionOutput, out: &mut Observation) {
    let entries = if raw.is_complete(&[0]) { parse_repositories(&raw.stdout) } else { None };
    for probe in &section.probes {
        let answer = entries.clone().map(ProbeReading::DnfSources);
        out.insert(probe.clone(), answer.ok_or_else(|| raw.explain_missing(section)));
    }
}

fn parse_repositories(stdout: &[u8]) -> Option<Vec<DnfEntry>> {
    let entries = read_listed_files(stdout)?.into_iter().flat_map(|(file, text)| {
        let ids: Vec<String> = text.lines().filter_map(parse_section_head).map(str::to_owned).collect();
        ids.into_iter().map(move |id| DnfEntry { file: file.clone(), id })
    });
    Some(entries.collect())
}

/// Returns the id in `[id]`. A disabled section counts: dnf keeps the first one of an id, whatever it says.
fn parse_section_head(line: &str) -> Option<&str> {
    let id = line.strip_prefix('[')?.split(']').next()?.trim();
    (!id.is_empty() && id != "main").then_some(id)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::section::testing::{answers, printed};

    fn read_from(stdout: &str) -> Result<Vec<DnfEntry>, crate::probe::UnansweredReason> {
        let seen = answers(&build_section(vec![Probe::DnfSources]).expect("a section"), &printed(stdout));
        seen.get(&Probe::DnfSources).map(|reading| match reading {
            ProbeReading::DnfSources(entries) => entries.clone(),
            other => panic!("{other:?}"),
        })
    }

    #[test]
    fn ids_of_all_sections_are_read_from_each_file() {
        let text = "/etc/yum.repos.d/a.repo\0[main]\ncachedir=/x\n[cuda]\nname=[not this]\nenabled=0\n\
                    [ base ] # note\n\0/etc/distro.repos.d/b.repo\0# [old]\n[cuda]\n\0end\0";
        let entry = |file: &str, id: &str| DnfEntry { file: file.into(), id: id.into() };
        let expected = [
            entry("/etc/yum.repos.d/a.repo", "cuda"),
            entry("/etc/yum.repos.d/a.repo", "base"),
            entry("/etc/distro.repos.d/b.repo", "cuda"),
        ];
        assert_eq!(read_from(text).unwrap(), expected);
    }

    #[test]
    fn truncated_listing_is_unknown() {
        assert!(read_from("/etc/yum.repos.d/a.repo\0[cuda]\n\0").is_err());
    }
}
