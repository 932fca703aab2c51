//! A merged group of probes: its code, and its raw output.

use super::query::Probe;
use super::{Observation, UnansweredReason};
use crate::script::ShellFragment;

/// Maximum bytes of stderr kept per section.
pub(crate) const STDERR_CAP: u64 = 16_384;

/// Shell that every section of forge's own may use: `need TOOL` ends the section if a tool is missing.
pub(crate) const SECTION_PRELUDE: &str =
    "need() { command -v \"$1\" >/dev/null 2>&1 || { printf 'forge-missing %s\\n' \"$1\" >&2; exit 127; }; }\n";

/// A merged group of probes: code to run on the host, and a parser for its output.
pub(crate) struct ProbeSection {
    /// The name of the code in messages.
    pub name: &'static str,
    pub body: ShellFragment,
    pub timeout_s: u64,
    /// Maximum bytes of stdout.
    pub cap: u64,
    /// Whether the code is a recipe's: all output is read and the last part of it kept, up to the cap, so that the exit
    /// status stays true, and a process that it leaves behind cannot block the script.
    pub foreign: bool,
    /// Whether the code runs in the shell of its process, not in a subshell of its own: it replaces no function of other
    /// sections and keeps what `before` has set. It may exit, but rarely: a new shell then continues with the others.
    pub plain: bool,
    /// Whether the code has its own shell with its own time limit, even in a shared process: it may wait for another
    /// program.
    pub waits: bool,
    /// Code that runs before all sections that share a process with this one, for what they have in common.
    pub before: ShellFragment,
    /// The probes that this section answers.
    pub probes: Vec<Probe>,
    pub read: fn(&ProbeSection, &SectionOutput, &mut Observation),
    /// The sections that share its process, and the token between their outputs; see `group`.
    pub parts: Vec<ProbeSection>,
    pub token: String,
}

impl ProbeSection {
    /// Creates a section of forge's own code.
    pub fn new(
        name: &'static str,
        probes: Vec<Probe>,
        read: fn(&ProbeSection, &SectionOutput, &mut Observation),
    ) -> Self {
        Self {
            name,
            body: ShellFragment::new(),
            timeout_s: 20,
            cap: 1 << 20,
            foreign: false,
            plain: false,
            waits: false,
            before: ShellFragment::new(),
            probes,
            read,
            parts: Vec::new(),
            token: String::new(),
        }
    }

    /// Returns the maximum bytes of stderr: each part has its own.
    pub fn stderr_cap(&self) -> u64 {
        STDERR_CAP * self.parts.len().max(1) as u64
    }

    /// Answers all probes with the same reason.
    pub fn answer_all_unknown(&self, why: &UnansweredReason, out: &mut Observation) {
        for probe in &self.probes {
            out.insert(probe.clone(), Err(why.clone()));
        }
    }
}

/// How the code of a section ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SectionEnd {
    Exited(i32),
    /// Stopped at its time limit.
    TimedOut,
}

/// The output of a section.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct SectionOutput {
    pub end: SectionEnd,
    /// Whether a check's own code was started.
    pub began: bool,
    /// At most the section's cap.
    pub stdout: Vec<u8>,
    pub stderr: Vec<u8>,
    /// Whether stdout or stderr exceeded its cap, or a leftover process prevented reading all of it.
    pub truncated: bool,
}

impl SectionOutput {
    /// Reports whether the output is complete and the status is one of `good`.
    pub fn is_complete(&self, good: &[i32]) -> bool {
        !self.truncated && matches!(self.end, SectionEnd::Exited(status) if good.contains(&status))
    }

    /// Returns why an answer is missing in this output.
    pub fn explain_missing(&self, section: &ProbeSection) -> UnansweredReason {
        let said = String::from_utf8_lossy(&self.stderr);
        let missing = said.lines().find_map(|line| line.strip_prefix("forge-missing "));
        let said = said.trim_end();
        match (self.end, missing) {
            (SectionEnd::TimedOut, _) => UnansweredReason::new(format!("timed out after {} s", section.timeout_s)),
            (_, Some(tool)) => UnansweredReason::missing_tool(tool),
            _ if self.truncated => {
                UnansweredReason::new(format!("{} printed more than {} bytes", section.name, section.cap))
            }
            (SectionEnd::Exited(0), _) => {
                UnansweredReason::new(format!("{} returned no answer", section.name)).with_message(said)
            }
            (SectionEnd::Exited(status), _) => {
                UnansweredReason::new(format!("{} failed with status {status}", section.name)).with_message(said)
            }
        }
    }
}

/// Output in fields that each end with a NUL byte. A truncated field is not returned.
pub(crate) struct NulFields<'a>(&'a [u8]);

impl<'a> NulFields<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// Returns the next `N` fields; `None` if any of them is missing.
    pub fn next_row<const N: usize>(&mut self) -> Option<[&'a [u8]; N]> {
        let mut row = [&b""[..]; N];
        for field in &mut row {
            *field = self.next()?;
        }
        Some(row)
    }

    /// Returns the text up to a line break, without it; `None` if there is no line break.
    pub fn next_line(&mut self) -> Option<&'a [u8]> {
        let end = self.0.iter().position(|byte| *byte == b'\n')?;
        let line = &self.0[..end];
        self.0 = &self.0[end + 1..];
        Some(line)
    }

    /// Returns the rest.
    pub fn remaining_bytes(self) -> &'a [u8] {
        self.0
    }
}

/// Parses pairs of a path and a text up to the field `end`; `None` if the output is truncated.
pub(crate) fn read_listed_files(stdout: &[u8]) -> Option<Vec<(String, String)>> {
    let mut fields = NulFields::new(stdout);
    let mut files = Vec::new();
    loop {
        let path = fields.next()?;
        if path == b"end" {
            return Some(files);
        }
        let text = |field: &[u8]| String::from_utf8_lossy(field).into_owned();
        files.push((text(path), text(fields.next()?)));
    }
}

impl<'a> Iterator for NulFields<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let end = self.0.iter().position(|byte| *byte == 0)?;
        let field = &self.0[..end];
        self.0 = &self.0[end + 1..];
        Some(field)
    }
}

/// Returns bytes as text, `None` if they are not UTF-8.
pub(crate) fn parse_utf8(bytes: &[u8]) -> Option<&str> {
    std::str::from_utf8(bytes).ok()
}

#[cfg(test)]
pub(crate) mod testing {
    use super::*;

    /// Builds the output of a section that succeeded.
    pub(crate) fn printed(stdout: impl AsRef<[u8]>) -> SectionOutput {
        SectionOutput {
            end: SectionEnd::Exited(0),
            began: true,
            stdout: stdout.as_ref().to_vec(),
            stderr: Vec::new(),
            truncated: false,
        }
    }

    /// Builds a section's output from a recording: its first line names the origin, `\0` is a NUL byte.
    pub(crate) fn recorded(fixture: &str) -> SectionOutput {
        let (origin, body) = fixture.split_once('\n').expect("a line and a body");
        assert!(origin.starts_with("origin: "), "{origin}");
        printed(body.replace("\\0", "\0"))
    }

    /// Parses `raw` as the answer of `section`.
    pub(crate) fn answers(section: &ProbeSection, raw: &SectionOutput) -> Observation {
        let mut out = Observation::default();
        (section.read)(section, raw, &mut out);
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn section() -> ProbeSection {
        ProbeSection::new("`stat`", vec![Probe::Records], |_, _, _| {})
    }

    #[test]
    fn truncated_field_is_not_returned() {
        let mut fields = NulFields::new(b"a\0b\0c");
        assert_eq!(fields.next(), Some(&b"a"[..]));
        assert_eq!(fields.next_row::<2>(), None);
    }

    #[test]
    fn most_specific_failure_reason_is_reported() {
        let raw = |end, stderr: &str, truncated| SectionOutput {
            end,
            began: true,
            stdout: vec![],
            stderr: stderr.into(),
            truncated,
        };
        let lack = |raw: SectionOutput| raw.explain_missing(&section()).why;
        assert_eq!(lack(raw(SectionEnd::Exited(127), "noise\nforge-missing stat\n", false)), "`stat` is missing");
        assert_eq!(lack(raw(SectionEnd::TimedOut, "", false)), "timed out after 20 s");
        assert_eq!(lack(raw(SectionEnd::Exited(0), "", true)), "`stat` printed more than 1048576 bytes");
        assert_eq!(lack(raw(SectionEnd::Exited(0), "", false)), "`stat` returned no answer");
        assert_eq!(lack(raw(SectionEnd::Exited(3), "", false)), "`stat` failed with status 3");
        assert_eq!(raw(SectionEnd::Exited(3), "no\n", false).explain_missing(&section()).said, Some("no".into()));
    }
}
