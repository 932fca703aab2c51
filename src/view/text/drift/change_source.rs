//! The source of a change: one line per distinct answer, with its hosts if answers differ.

use super::names::distinct_hosts;
use crate::drift::{AttributionCertainty, ChangeSource, DriftFinding};
use crate::model::{HostName, UntrustedText};
use crate::view::style::{DIM, paint};
use crate::view::text::shared_lines::format_hosts;
use crate::view::{escape, format_count};
use indexmap::IndexMap;
use std::io::{self, Write};

/// Longer command lines are cut. The JSON output has the complete command. Characters.
const COMMAND_CHARS: usize = 160;
/// Number of answers shown. More are counted, unless `-v` is given.
const MAX_SOURCES: usize = 5;

/// Writes the sources of the changes in `findings`, each once.
pub fn write_sources<'a>(
    findings: impl Iterator<Item = &'a DriftFinding>,
    verbose: bool,
    out: &mut dyn Write,
) -> io::Result<()> {
    let mut answers: IndexMap<String, Vec<&HostName>> = IndexMap::new();
    let mut all = Vec::new();
    for finding in findings {
        all.push(&finding.host);
        if let Some(culprit) = &finding.culprit {
            answers.entry(format_source(culprit)).or_default().push(&finding.host);
        }
    }
    let hosts = distinct_hosts(all.iter().copied()).len();
    let shown = if verbose { answers.len() } else { MAX_SOURCES };
    for (line, on) in answers.iter().take(shown) {
        let on = distinct_hosts(on.iter().copied());
        let place = if on.len() == hosts { String::new() } else { format!("  {}", format_hosts(&on)) };
        writeln!(out, "    {line}{}", paint(DIM, place))?;
    }
    match answers.len().saturating_sub(shown) {
        0 => Ok(()),
        more => {
            writeln!(out, "    {}", paint(DIM, format!("and {}; -v shows them", format_count(more, "more source"))))
        }
    }
}

/// Returns `by: alice (sudo), vim /etc/motd, 2026-11-22 03:10:04 UTC, found in journal`, or `by: not found (WHY)`.
pub fn format_source(culprit: &ChangeSource) -> String {
    let (head, open) = match culprit.sure {
        AttributionCertainty::Named => ("by", None),
        AttributionCertainty::Near => ("at about that time, possibly unrelated", None),
        AttributionCertainty::Nobody => ("by", Some("not found")),
        AttributionCertainty::Unknown => ("by", Some("unknown")),
    };
    let why = escape_non_empty(&culprit.why);
    let mut parts = Vec::new();
    parts.extend(match (open, why) {
        (Some(open), Some(why)) => Some(format!("{open} ({why})")),
        (Some(open), None) => Some(open.to_owned()),
        (None, why) => why,
    });
    parts.extend(describe_actor(culprit));
    parts.extend(non_empty(&culprit.command).map(|command| escape::escape_truncated(command.raw(), COMMAND_CHARS)));
    parts.extend(culprit.time.as_deref().filter(|time| !time.is_empty()).map(format_time));
    parts.extend(escape_non_empty(&culprit.source).map(|source| format!("found in {source}")));
    match parts.is_empty() {
        true => format!("{head}: unknown"),
        false => format!("{head}: {}", parts.join(", ")),
    }
}

fn non_empty(text: &Option<UntrustedText>) -> Option<&UntrustedText> {
    text.as_ref().filter(|text| !text.is_empty())
}

fn escape_non_empty(text: &Option<UntrustedText>) -> Option<String> {
    non_empty(text).map(|text| escape::escape_untrusted(text).into_owned())
}

fn describe_actor(culprit: &ChangeSource) -> Option<String> {
    match (escape_non_empty(&culprit.user), escape_non_empty(&culprit.program)) {
        (Some(user), Some(program)) => Some(format!("{user} ({program})")),
        (one, other) => one.or(other),
    }
}

/// Formats a UTC time for people.
fn format_time(time: &str) -> String {
    escape::escape_line(time).replacen('T', " ", 1).replacen('Z', " UTC", 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drift::{DriftCause, FindingSeverity};
    use crate::view::sample;

    fn sample_source(
        sure: AttributionCertainty,
        user: Option<&str>,
        program: Option<&str>,
        command: Option<&str>,
    ) -> ChangeSource {
        let text = |text: Option<&str>| text.map(UntrustedText::from);
        ChangeSource {
            sure,
            user: text(user),
            program: text(program),
            command: text(command),
            time: Some("2026-11-22T03:10:04Z".into()),
            source: Some("journal".into()),
            why: None,
        }
    }

    fn render_sources(on: &[(&str, Option<ChangeSource>)], verbose: bool) -> String {
        let one = |(host, culprit): &(&str, Option<ChangeSource>)| DriftFinding {
            culprit: culprit.clone(),
            ..sample::finding(host, "motd", DriftCause::MachineChanged, FindingSeverity::Medium)
        };
        let (findings, mut out): (Vec<DriftFinding>, Vec<u8>) = (on.iter().map(one).collect(), Vec::new());
        write_sources(findings.iter(), verbose, &mut out).unwrap();
        anstream::adapter::strip_str(&String::from_utf8(out).unwrap()).to_string()
    }

    #[test]
    fn each_attribution_certainty_has_its_wording() {
        let vim = sample_source(AttributionCertainty::Named, Some("alice"), Some("sudo"), Some("vim /etc/motd"));
        assert_eq!(format_source(&vim), "by: alice (sudo), vim /etc/motd, 2026-11-22 03:10:04 UTC, found in journal");
        let near = sample_source(AttributionCertainty::Near, Some("bob"), Some("sudo"), Some("bash"));
        assert_eq!(
            format_source(&near),
            "at about that time, possibly unrelated: bob (sudo), bash, 2026-11-22 03:10:04 UTC, found in journal"
        );
        let nobody = ChangeSource {
            why: Some("no command names it".into()),
            ..sample_source(AttributionCertainty::Nobody, None, None, None)
        };
        assert_eq!(
            format_source(&nobody),
            "by: not found (no command names it), 2026-11-22 03:10:04 UTC, found in journal"
        );
        let unknown = ChangeSource {
            why: Some("no journal".into()),
            time: None,
            source: None,
            ..sample_source(AttributionCertainty::Unknown, None, None, None)
        };
        assert_eq!(format_source(&unknown), "by: unknown (no journal)");
        let itself = sample_source(AttributionCertainty::Named, None, Some("web.service"), Some("Failed"));
        assert_eq!(format_source(&itself), "by: web.service, Failed, 2026-11-22 03:10:04 UTC, found in journal");
    }

    #[test]
    fn host_text_in_a_change_source_is_escaped() {
        let hostile =
            sample_source(AttributionCertainty::Named, Some("a\u{1b}[2J"), Some("sudo"), Some("x\ny\u{202e}"));
        let line = format_source(&hostile);
        assert!(!line.contains(['\u{1b}', '\n', '\u{202e}']), "{line:?}");
    }

    #[test]
    fn equal_sources_print_once_and_different_ones_name_hosts() {
        let alice =
            || Some(sample_source(AttributionCertainty::Named, Some("alice"), Some("sudo"), Some("vim /etc/motd")));
        let same = render_sources(&[("gpu01", alice()), ("gpu02", alice())], false);
        assert_eq!(same, "    by: alice (sudo), vim /etc/motd, 2026-11-22 03:10:04 UTC, found in journal\n");
        let bob = Some(sample_source(AttributionCertainty::Named, Some("bob"), Some("sudo"), Some("rm x")));
        let mixed = render_sources(&[("gpu01", alice()), ("gpu02", bob), ("gpu03", None), ("gpu04", alice())], false);
        insta::assert_snapshot!(mixed);
    }

    #[test]
    fn many_sources_are_counted_and_listed_with_verbose() {
        let all: Vec<(String, Option<ChangeSource>)> = (1..=8)
            .map(|n| {
                (
                    format!("gpu0{n}"),
                    Some(sample_source(AttributionCertainty::Named, Some(&format!("user{n}")), None, None)),
                )
            })
            .collect();
        let all: Vec<(&str, Option<ChangeSource>)> =
            all.iter().map(|(host, culprit)| (&**host, culprit.clone())).collect();
        let some = render_sources(&all, false);
        assert!(some.ends_with("    and 3 more sources; -v shows them\n"), "{some}");
        assert_eq!(render_sources(&all, true).lines().count(), 8);
    }
}
