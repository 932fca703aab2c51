//! The entries of apt's sources: all files are read together.

use super::query::Probe;
use super::section::{ProbeSection, SectionOutput, read_listed_files};
use super::{AptEntry, Observation, ProbeReading};

/// Prints two fields per file that apt reads: its path and its text. Names that apt ignores are skipped.
const SNIPPET: &str = r#"
forge_sources() {
for f in /etc/apt/sources.list /etc/apt/sources.list.d/*.list /etc/apt/sources.list.d/*.sources; do
[ -f "$f" ] || continue
n=${f##*/}
case ${n%.*} in *[!A-Za-z0-9_.-]*) continue ;; esac
t=$(tr -d '\0' <"$f") || exit
printf '%s\0%s\0' "$f" "$t"
done
printf 'end\0'
}
forge_sources"#;

pub(crate) fn build_section(probes: Vec<Probe>) -> Option<ProbeSection> {
    let mut section = ProbeSection::new("apt's sources", probes, read_answers);
    section.body = section.body.code(SNIPPET);
    (!section.probes.is_empty()).then_some(section)
}

fn read_answers(section: &ProbeSection, raw: &SectionOutput, out: &mut Observation) {
    let entries = if raw.is_complete(&[0]) { parse_sources(&raw.stdout) } else { None };
    for probe in &section.probes {
        let answer = entries.clone().map(ProbeReading::AptSources);
        out.insert(probe.clone(), answer.ok_or_else(|| raw.explain_missing(section)));
    }
}

fn parse_sources(stdout: &[u8]) -> Option<Vec<AptEntry>> {
    let entries = read_listed_files(stdout)?.into_iter().flat_map(|(path, text)| {
        if path.ends_with(".sources") { parse_deb822_file(&path, &text) } else { parse_one_line_file(&path, &text) }
    });
    Some(entries.collect())
}

/// One-line style: `deb [options] uri suite [component …]`.
fn parse_one_line_file(path: &str, text: &str) -> Vec<AptEntry> {
    text.lines().filter_map(|line| parse_one_line_entry(path, line.split('#').next().unwrap_or_default())).collect()
}

fn parse_one_line_entry(path: &str, line: &str) -> Option<AptEntry> {
    let (kind, rest) = line.trim().split_once(char::is_whitespace)?;
    let rest = rest.trim_start();
    let (options, rest) = match rest.strip_prefix('[') {
        Some(rest) => rest.split_once(']')?,
        None => ("", rest),
    };
    let mut words = rest.split_whitespace().map(str::to_owned);
    let (uri, suite) = (words.next()?, words.next()?);
    let option = |name: &str| {
        let of = |word: &str| word.split_once('=').filter(|(key, _)| *key == name).map(|(_, value)| value.to_owned());
        options.split_whitespace().find_map(of).unwrap_or_default()
    };
    matches!(kind, "deb" | "deb-src").then(|| AptEntry {
        file: path.to_owned(),
        uris: vec![uri],
        suites: vec![suite],
        signed_by: option("signed-by"),
        trusted: option("trusted"),
    })
}

/// deb822 style: stanzas between empty lines; a line that begins with a blank continues the field above.
fn parse_deb822_file(path: &str, text: &str) -> Vec<AptEntry> {
    let mut stanzas: Vec<Vec<(String, String)>> = vec![Vec::new()];
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let Some(stanza) = stanzas.last_mut() else { continue };
        if line.trim().is_empty() {
            stanzas.push(Vec::new());
        } else if line.starts_with([' ', '\t']) {
            if let Some((_, value)) = stanza.last_mut() {
                value.push('\n');
                value.push_str(line.trim());
            }
        } else if let Some((key, value)) = line.split_once(':') {
            stanza.push((key.trim().to_ascii_lowercase(), value.trim().to_owned()));
        }
    }
    stanzas.iter().filter_map(|fields| parse_stanza(path, fields)).collect()
}

fn parse_stanza(path: &str, fields: &[(String, String)]) -> Option<AptEntry> {
    let of = |name: &str| fields.iter().find(|(key, _)| key == name).map_or("", |(_, value)| value.as_str());
    let words = |name: &str| of(name).split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let enabled = !matches!(of("enabled"), "no" | "false" | "0" | "off" | "without" | "disable");
    (enabled && !of("uris").is_empty()).then(|| AptEntry {
        file: path.to_owned(),
        uris: words("uris"),
        suites: words("suites"),
        signed_by: of("signed-by").to_owned(),
        trusted: of("trusted").to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::section::testing::{answers, printed};

    fn read_from(stdout: &str) -> Result<Vec<AptEntry>, crate::probe::UnansweredReason> {
        let seen = answers(&build_section(vec![Probe::AptSources]).expect("a section"), &printed(stdout));
        seen.get(&Probe::AptSources).map(|reading| match reading {
            ProbeReading::AptSources(entries) => entries.clone(),
            other => panic!("{other:?}"),
        })
    }

    fn entry(file: &str, uri: &str, suites: &[&str], signed_by: &str, trusted: &str) -> AptEntry {
        AptEntry {
            file: file.into(),
            uris: vec![uri.into()],
            suites: suites.iter().map(|s| (*s).to_owned()).collect(),
            signed_by: signed_by.into(),
            trusted: trusted.into(),
        }
    }

    #[test]
    fn one_line_entries_are_parsed_with_options_and_comments() {
        let text = "/etc/apt/sources.list\0# deb http://old.example x main\ndeb [arch=amd64 signed-by=/k.gpg] http://a.example/ y main # note\n\
                    deb-src http://a.example y main\nnonsense\ndeb [trusted=yes] file:/srv/repo ./\n\0end\0";
        let file = "/etc/apt/sources.list";
        let expected = [
            entry(file, "http://a.example/", &["y"], "/k.gpg", ""),
            entry(file, "http://a.example", &["y"], "", ""),
            entry(file, "file:/srv/repo", &["./"], "", "yes"),
        ];
        assert_eq!(read_from(text).unwrap(), expected);
    }

    #[test]
    fn deb822_stanzas_are_parsed_and_disabled_ones_skipped() {
        let file = "/etc/apt/sources.list.d/a.sources";
        let text = format!(
            "{file}\0# note\nTypes: deb\nURIs: http://a.example\nSuites: x\n y\nSigned-By:\n -----BEGIN\n .\n\nEnabled: no\nTypes: deb\nURIs: http://b.example\nSuites: z\n\0end\0"
        );
        assert_eq!(read_from(&text).unwrap(), [entry(file, "http://a.example", &["x", "y"], "\n-----BEGIN\n.", "")]);
    }

    #[test]
    fn truncated_listing_is_unknown() {
        assert_eq!(
            read_from("/etc/apt/sources.list\0deb http://a x\0").unwrap_err().why,
            "apt's sources returned no answer"
        );
    }
}
