//! A line of progress, and phrases that lines share.

use super::ProgressDetail;
use crate::model::{HostName, StepId, UntrustedText};
use crate::view::escape;
use crate::view::style::{BAD, DIM, paint};

pub(super) const LINE_CHARS: usize = 200;

/// A line with the minimum detail level at which it is shown.
#[derive(Debug, PartialEq)]
pub struct ProgressLine {
    pub from: ProgressDetail,
    pub text: String,
}

impl ProgressLine {
    pub fn new(from: ProgressDetail, text: String) -> Option<Self> {
        Some(Self { from, text })
    }
}

pub fn prefix_host(host: &HostName, what: &str) -> String {
    format!("{} {what}", escape::escape_line(host.as_str()))
}

pub fn format_failure(word: &str, why: &UntrustedText) -> String {
    format!("{}: {}", paint(BAD, word), format_untrusted(why))
}

pub fn format_step_id(step: &StepId) -> String {
    escape::escape_line(&step.to_string()).into_owned()
}

pub fn format_untrusted(text: &UntrustedText) -> String {
    escape::escape_truncated(text.raw(), LINE_CHARS)
}

/// Prefixes each line of a text with host, step and a mark.
pub(super) fn prefix_lines(host: &HostName, step: &StepId, mark: &str, text: &UntrustedText) -> String {
    let one = |line: &str| {
        prefix_host(host, &format!("{} {} {}", format_step_id(step), paint(DIM, mark), escape::escape_line(line)))
    };
    text.raw().lines().filter(|line| !line.trim().is_empty()).map(one).collect::<Vec<_>>().join("\n")
}
