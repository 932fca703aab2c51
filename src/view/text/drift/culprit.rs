//! Who made a finding: one line for all hosts that say the same, else a line for each of a few.

use super::super::on_hosts;
use super::distinct;
use crate::drift::{Culprit, Finding, Sure};
use crate::model::{HostName, Untrusted};
use crate::view::style::{DIM, paint};
use crate::view::{count, escape};
use indexmap::IndexMap;
use std::io::{self, Write};

/// Longer command lines are cut: the whole is in the JSON output. Characters.
const COMMAND_CHARS: usize = 160;
/// More different answers are counted only.
const ANSWERS: usize = 5;

/// Writes who made what `findings` tell, each answer once.
pub fn write<'a>(findings: impl Iterator<Item = &'a Finding>, verbose: bool, out: &mut dyn Write) -> io::Result<()> {
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
        more => writeln!(out, "    {}", paint(DIM, format!("and {}; -v shows them", count(more, "other answer")))),
    }
}

/// Returns `by: alice (sudo), vim /etc/motd, 2026-11-22 03:10:04, says journal`.
pub fn line(culprit: &Culprit) -> String {
    let head = match culprit.sure {
        Sure::Named => "by",
        Sure::Near => "around then, perhaps not it",
        Sure::Nobody => "by whom: nobody is named",
        Sure::Unknown => "by whom: unknown",
    };
    let text = |text: &Option<Untrusted>| text.as_ref().map(|text| escape::text(text).into_owned());
    let mut parts = Vec::new();
    parts.extend(text(&culprit.why));
    parts.extend(who(culprit));
    parts.extend(culprit.command.as_ref().map(|command| escape::short(command.raw(), COMMAND_CHARS)));
    parts.extend(culprit.time.as_deref().map(|time| seconds(time)));
    parts.extend(text(&culprit.source).map(|source| format!("says {source}")));
    match parts.is_empty() {
        true => head.to_owned(),
        false => format!("{head}: {}", parts.join(", ")),
    }
}

fn who(culprit: &Culprit) -> Option<String> {
    let text = |text: &Untrusted| escape::text(text).into_owned();
    match (&culprit.user, &culprit.program) {
        (Some(user), Some(program)) => Some(format!("{} ({})", text(user), text(program))),
        (Some(one), None) | (None, Some(one)) => Some(text(one)),
        (None, None) => None,
    }
}

/// Returns a time as people read it; all are UTC.
fn seconds(time: &str) -> String {
    escape::line(time).replacen('T', " ", 1).replacen('Z', " UTC", 1)
}
