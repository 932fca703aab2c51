//! The repositories in dnf's files and in its `dnf.conf`: all files are read together.

use super::query::Probe;
use super::section::{ProbeSection, SectionOutput, read_listed_files};
use super::{DnfEntry, DnfSources, Observation, ProbeReading};

/// dnf's configuration. Its sections other than `[main]` are repositories, too, and win over those of other files.
pub(crate) const DNF_CONF: &str = "/etc/dnf/dnf.conf";

/// Reads `dnf.conf` and prints the value of `reposdir` on one line, as [`parse_folders`] reads it.
const READ_FOLDERS: &str = r#"
forge_repo_folders() {
awk '/^\[/ { m = /^\[main\]/; k = 0; next }
m && /^reposdir[ \t]*[=:]/ { sub(/^[^=:]*[=:]/, ""); v = $0; k = 1; next }
k && /^[ \t]+[^ \t]/ { v = v " " $0; next }
{ k = 0 }
END { print v }' | tr ',' ' '
}"#;

/// Prints two fields per file that dnf reads: its path and its text. The folders are those of `reposdir`, else dnf's
/// default.
const SNIPPET: &str = r#"
forge_repo_file() {
[ -f "$1" ] || return 0
t=$(tr -d '\0' <"$1") || exit
printf '%s\0%s\0' "$1" "$t"
}
forge_repos() {
t=
forge_repo_file /etc/dnf/dnf.conf
d=$(printf '%s\n' "$t" | forge_repo_folders)
set -f
set -- ${d:-/etc/yum.repos.d /etc/yum/repos.d /etc/distro.repos.d}
set +f
for d; do
for f in "${d%/}"/*.repo; do forge_repo_file "$f"; done
done
printf 'end\0'
}
forge_repos"#;

pub(crate) fn build_section(probes: Vec<Probe>) -> Option<ProbeSection> {
    let mut section = ProbeSection::new("dnf's repositories", probes, read_answers);
    section.body = section.body.code(READ_FOLDERS).code(SNIPPET);
    (!section.probes.is_empty()).then_some(section)
}

fn read_answers(section: &ProbeSection, raw: &SectionOutput, out: &mut Observation) {
    let entries = if raw.is_complete(&[0]) { parse_repositories(&raw.stdout) } else { None };
    for probe in &section.probes {
        let answer = entries.clone().map(ProbeReading::DnfSources);
        out.insert(probe.clone(), answer.ok_or_else(|| raw.explain_missing(section)));
    }
}

fn parse_repositories(stdout: &[u8]) -> Option<DnfSources> {
    let mut sources = DnfSources::default();
    for (file, text) in read_listed_files(stdout)? {
        if file == DNF_CONF {
            sources.folders = parse_folders(&text);
        }
        let ids = text.lines().filter_map(parse_section_head).filter(|id| *id != "main");
        sources.entries.extend(ids.map(|id| DnfEntry { file: file.clone(), id: id.to_owned() }));
    }
    Some(sources)
}

/// Returns the id in `[id]`. A disabled section counts: dnf keeps the first one of an id, whatever it says.
fn parse_section_head(line: &str) -> Option<&str> {
    let id = line.strip_prefix('[')?.split(']').next()?.trim();
    (!id.is_empty()).then_some(id)
}

/// Returns the folders of `reposdir` in the section `[main]`: the last one of several, with its indented next lines, as
/// libdnf's `ConfigParser` reads them.
fn parse_folders(text: &str) -> Option<Vec<String>> {
    let after = text.lines().skip_while(|line| parse_section_head(line) != Some("main")).skip(1);
    let main = after.take_while(|line| parse_section_head(line).is_none());
    let (mut value, mut is_open) = (String::new(), false);
    for line in main {
        let is_next = is_open && line.starts_with([' ', '\t']) && !line.trim().is_empty();
        match line.strip_prefix("reposdir").and_then(|rest| rest.trim_start().strip_prefix(['=', ':'])) {
            Some(own) => (value, is_open) = (own.to_owned(), true),
            None if is_next => value = format!("{value} {line}"),
            None => is_open = false,
        }
    }
    let folders = value.split([',', ' ', '\t']).map(|folder| folder.trim_end_matches('/').to_owned());
    let folders: Vec<String> = folders.filter(|folder| !folder.is_empty()).collect();
    (!folders.is_empty()).then_some(folders)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::section::testing::{answers, printed};

    fn read_from(stdout: &str) -> Result<DnfSources, crate::probe::UnansweredReason> {
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
        assert_eq!(read_from(text).unwrap(), DnfSources { entries: expected.to_vec(), folders: None });
    }

    // origin: reconstructed, dnf.conf(5)
    #[test]
    fn repositories_and_folders_of_dnf_conf_are_read() {
        let text = "/etc/dnf/dnf.conf\0[main]\ngpgcheck=1\nreposdir = /srv/a/, /srv/b\n\n[cuda]\nenabled=0\nreposdir=/x\n\0\
                    /srv/a/base.repo\0[cuda]\n\0end\0";
        let entry = |file: &str| DnfEntry { file: file.into(), id: "cuda".into() };
        let folders = Some(vec!["/srv/a".to_owned(), "/srv/b".to_owned()]);
        let entries = vec![entry(DNF_CONF), entry("/srv/a/base.repo")];
        assert_eq!(read_from(text).unwrap(), DnfSources { entries, folders });
        let plain = "/etc/dnf/dnf.conf\0[main]\nreposdir=\n\0end\0";
        assert_eq!(read_from(plain).unwrap(), DnfSources::default());
    }

    #[test]
    fn host_and_reader_agree_on_the_folders() {
        let list = |text: &str| {
            let script = format!("{READ_FOLDERS}\nprintf '%s' \"$1\" | forge_repo_folders");
            let output = std::process::Command::new("sh").args(["-c", &script, "sh", text]).output().unwrap();
            let printed = String::from_utf8_lossy(&output.stdout).into_owned();
            let folders: Vec<String> = printed.split_whitespace().map(|one| one.trim_end_matches('/').into()).collect();
            assert_eq!((!folders.is_empty()).then_some(folders.clone()), parse_folders(text), "{text}");
            folders.join(" ")
        };
        assert_eq!(list("[main]\nreposdir=/a,\n  /b\n\t/c/ /d\n\n  /e\ngpgcheck=1\n"), "/a /b /c /d");
        assert_eq!(list("[main]\nreposdir=/a\nreposdir: /b\n[x]\nreposdir=/y\n"), "/b");
        assert_eq!(list("[main]\nreposdirs=/a\n /b\n[main2]\nreposdir=/c\n"), "");
        assert_eq!(list("[x]\nreposdir=/x\n[main]\nreposdir =\n  /b\n"), "/b");
    }

    #[test]
    fn truncated_listing_is_unknown() {
        assert!(read_from("/etc/yum.repos.d/a.repo\0[cuda]\n\0").is_err());
    }
}
