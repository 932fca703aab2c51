//! The source of a change: one line per distinct answer, with its hosts if answers differ.

use super::super::on_hosts;
use super::distinct;
use crate::drift::{AttributionCertainty, ChangeSource, DriftFinding};
use crate::model::{HostName, UntrustedText};
use crate::view::style::{DIM, paint};
use crate::view::{count, escape};
use indexmap::IndexMap;
use std::io::{self, Write};

/// Longer command lines are cut. The JSON output has the complete command. Characters.
const COMMAND_CHARS: usize = 160;
/// Number of answers shown. More are counted, unless `-v` is given.
const ANSWERS: usize = 5;

/// Writes the sources of the changes in `findings`, each once.
pub fn write<'a>(
    findings: impl Iterator<Item = &'a DriftFinding>,
    verbose: bool,
    out: &mut dyn Write,
) -> io::Result<()> {
    let mut answers: IndexMap<String, Vec<&HostName>> = IndexMap::new();
    let mut all = Vec::new();
    for finding in findings {
        all.push(&finding.host);
        if let Some(culprit) = &finding.culprit {
            answers.entry(line(culprit)).or_default().push(&finding.host);
        }
    }
    let hosts = distinct(all.iter().copied()).len();
    let shown = if verbose { answers.len() } else { ANSWERS };
    for (line, on) in answers.iter().take(shown) {
        let on = distinct(on.iter().copied());
        let place = if on.len() == hosts { String::new() } else { format!("  {}", on_hosts(&on)) };
        writeln!(out, "    {line}{}", paint(DIM, place))?;
    }
    match answers.len().saturating_sub(shown) {
        0 => Ok(()),
        more => writeln!(out, "    {}", paint(DIM, format!("and {}; -v shows them", count(more, "more source")))),
    }
}

/// Returns `by: alice (sudo), vim /etc/motd, 2026-11-22 03:10:04 UTC, found in journal`, or `by: not found (WHY)`.
pub fn line(culprit: &ChangeSource) -> String {
    let (head, open) = match culprit.sure {
        AttributionCertainty::Named => ("by", None),
        AttributionCertainty::Near => ("at about that time, possibly unrelated", None),
        AttributionCertainty::Nobody => ("by", Some("not found")),
        AttributionCertainty::Unknown => ("by", Some("unknown")),
    };
    let why = shown(&culprit.why);
    let mut parts = Vec::new();
    parts.extend(match (open, why) {
        (Some(open), Some(why)) => Some(format!("{open} ({why})")),
        (Some(open), None) => Some(open.to_owned()),
        (None, why) => why,
    });
    parts.extend(who(culprit));
    parts.extend(filled(&culprit.command).map(|command| escape::short(command.raw(), COMMAND_CHARS)));
    parts.extend(culprit.time.as_deref().filter(|time| !time.is_empty()).map(seconds));
    parts.extend(shown(&culprit.source).map(|source| format!("found in {source}")));
    match parts.is_empty() {
        true => format!("{head}: unknown"),
        false => format!("{head}: {}", parts.join(", ")),
    }
}

fn filled(text: &Option<UntrustedText>) -> Option<&UntrustedText> {
    text.as_ref().filter(|text| !text.is_empty())
}

fn shown(text: &Option<UntrustedText>) -> Option<String> {
    filled(text).map(|text| escape::text(text).into_owned())
}

fn who(culprit: &ChangeSource) -> Option<String> {
    match (shown(&culprit.user), shown(&culprit.program)) {
        (Some(user), Some(program)) => Some(format!("{user} ({program})")),
        (one, other) => one.or(other),
    }
}

/// Formats a UTC time for people.
fn seconds(time: &str) -> String {
    escape::line(time).replacen('T', " ", 1).replacen('Z', " UTC", 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drift::{DriftCause, FindingSeverity};
    use crate::view::sample;

    fn by(
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

    fn written(on: &[(&str, Option<ChangeSource>)], verbose: bool) -> String {
        let one = |(host, culprit): &(&str, Option<ChangeSource>)| DriftFinding {
            culprit: culprit.clone(),
            ..sample::finding(host, "motd", DriftCause::MachineChanged, FindingSeverity::Medium)
        };
        let (findings, mut out): (Vec<DriftFinding>, Vec<u8>) = (on.iter().map(one).collect(), Vec::new());
        write(findings.iter(), verbose, &mut out).unwrap();
        anstream::adapter::strip_str(&String::from_utf8(out).unwrap()).to_string()
    }

    #[test]
    fn each_way_of_being_sure_has_its_words() {
        let vim = by(AttributionCertainty::Named, Some("alice"), Some("sudo"), Some("vim /etc/motd"));
        assert_eq!(line(&vim), "by: alice (sudo), vim /etc/motd, 2026-11-22 03:10:04 UTC, found in journal");
        let near = by(AttributionCertainty::Near, Some("bob"), Some("sudo"), Some("bash"));
        assert_eq!(
            line(&near),
            "at about that time, possibly unrelated: bob (sudo), bash, 2026-11-22 03:10:04 UTC, found in journal"
        );
        let nobody = ChangeSource {
            why: Some("no command names it".into()),
            ..by(AttributionCertainty::Nobody, None, None, None)
        };
        assert_eq!(line(&nobody), "by: not found (no command names it), 2026-11-22 03:10:04 UTC, found in journal");
        let unknown = ChangeSource {
            why: Some("no journal".into()),
            time: None,
            source: None,
            ..by(AttributionCertainty::Unknown, None, None, None)
        };
        assert_eq!(line(&unknown), "by: unknown (no journal)");
        let itself = by(AttributionCertainty::Named, None, Some("web.service"), Some("Failed"));
        assert_eq!(line(&itself), "by: web.service, Failed, 2026-11-22 03:10:04 UTC, found in journal");
    }

    #[test]
    fn what_a_host_says_acts_on_no_terminal() {
        let hostile = by(AttributionCertainty::Named, Some("a\u{1b}[2J"), Some("sudo"), Some("x\ny\u{202e}"));
        let line = line(&hostile);
        assert!(!line.contains(['\u{1b}', '\n', '\u{202e}']), "{line:?}");
    }

    #[test]
    fn equal_answers_are_told_once_and_different_ones_with_their_hosts() {
        let alice = || Some(by(AttributionCertainty::Named, Some("alice"), Some("sudo"), Some("vim /etc/motd")));
        let same = written(&[("gpu01", alice()), ("gpu02", alice())], false);
        assert_eq!(same, "    by: alice (sudo), vim /etc/motd, 2026-11-22 03:10:04 UTC, found in journal\n");
        let bob = Some(by(AttributionCertainty::Named, Some("bob"), Some("sudo"), Some("rm x")));
        let mixed = written(&[("gpu01", alice()), ("gpu02", bob), ("gpu03", None), ("gpu04", alice())], false);
        insta::assert_snapshot!(mixed);
    }

    #[test]
    fn many_answers_are_counted_and_shown_on_request() {
        let all: Vec<(String, Option<ChangeSource>)> = (1..=8)
            .map(|n| (format!("gpu0{n}"), Some(by(AttributionCertainty::Named, Some(&format!("user{n}")), None, None))))
            .collect();
        let all: Vec<(&str, Option<ChangeSource>)> =
            all.iter().map(|(host, culprit)| (&**host, culprit.clone())).collect();
        let some = written(&all, false);
        assert!(some.ends_with("    and 3 more sources; -v shows them\n"), "{some}");
        assert_eq!(written(&all, true).lines().count(), 8);
    }
}
