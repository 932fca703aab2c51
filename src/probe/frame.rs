//! Frames: separate the sections of a script's output, and detect lost links.

use super::check::ProbeCheckOptions;
use super::query::{FactSnippet, Probe};
use super::section::{ProbeSection, SectionEnd, SectionOutput};
use super::section_group::{keep_last_bytes, truncate_bytes};
use super::{Observation, UnansweredReason, section_sorting, shell};
use crate::script::{ScriptToken, ShellScript};
use base64::Engine as _;
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

/// A script made of probes, and the probes that its output answers.
pub struct CompiledProbes {
    /// The script of the quick probes.
    pub script: ShellScript,
    /// The script of the probes that touch devices or network mounts, for a second channel.
    pub device: Option<ShellScript>,
    pub(crate) sections: Vec<ProbeSection>,
    pub(crate) device_sections: Vec<ProbeSection>,
    /// Probes that cannot be sent to a host at all.
    pub(crate) unasked: Vec<(Probe, UnansweredReason)>,
    /// Whether raw answers are kept in addition to parsed ones.
    pub(crate) keep: bool,
}

impl CompiledProbes {
    /// Keeps raw answers, for a recording.
    pub fn with_raw_answers(self) -> Self {
        Self { keep: true, ..self }
    }
}

/// Why an output cannot be read at all.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum FrameError {
    /// The end frame is missing.
    #[error("the output is truncated: the link was lost or the script was stopped")]
    Cut,
    /// A frame is not as the script prints it, or one is missing; the text says which.
    #[error("the output is malformed: {0}")]
    Malformed(String),
}

/// Merges `probes` into a script. Never fails: for a probe that cannot be sent (a NUL byte in a path, an invalid
/// package name), [`parse_output`] answers with the reason.
pub fn compile_probes(
    probes: &BTreeSet<Probe>,
    facts: &[FactSnippet],
    token: ScriptToken,
    checks: impl Into<ProbeCheckOptions>,
) -> CompiledProbes {
    let sorted = section_sorting::sort_probes(probes, facts, token.as_str(), checks.into());
    let device = (!sorted.device.is_empty()).then(|| shell::build_device_script(&sorted.device, token.clone()));
    CompiledProbes {
        script: shell::build_script(&sorted.quick, token),
        device,
        sections: sorted.quick,
        device_sections: sorted.device,
        unasked: sorted.unasked,
        keep: false,
    }
}

/// Parses the output of a compiled script into answers: every compiled probe has one afterwards. `device` is the output
/// of the second channel, as far as it arrived within its limit; if that channel hangs or is cut off, the remaining
/// probes are unknown and the other answers are kept.
///
/// # Errors
/// The output of the first channel is truncated or is not in frames.
pub fn parse_output(
    compiled: &CompiledProbes,
    stdout: &[u8],
    device: Option<&[u8]>,
) -> Result<Observation, FrameError> {
    let mut seen = Observation::default();
    if compiled.keep {
        seen.enable_recording();
    }
    for (probe, why) in &compiled.unasked {
        seen.insert(probe.clone(), Err(why.clone()));
    }
    let token = compiled.script.token.as_str();
    let first = OutputFrames::from_output(token, &compiled.sections, stdout);
    first.check_complete(compiled.sections.len(), has_end_frame(stdout, token))?;
    first.fill_observation(&compiled.sections, &mut seen);
    let late = &compiled.device_sections;
    match device {
        Some(out) => OutputFrames::from_output(token, late, out).fill_observation(late, &mut seen),
        None => late
            .iter()
            .for_each(|s| s.mark_unanswered(&UnansweredReason::new("the second channel did not answer"), &mut seen)),
    }
    Ok(seen)
}

/// The frames of one output.
#[derive(Default)]
struct OutputFrames {
    raws: BTreeMap<usize, SectionOutput>,
    /// A required tool without which no section runs.
    lacks: Option<String>,
    /// The number of sections in the end frame.
    end: Option<usize>,
    /// The error in the first line that is not a frame. Earlier frames are kept.
    wrong: Option<String>,
}

impl OutputFrames {
    /// Parses line by line. Text before the first frame is noise of the login shell.
    fn from_output(token: &str, sections: &[ProbeSection], out: &[u8]) -> Self {
        let mut frames = Self::default();
        let (out, open) = split_open_section(out, token);
        if let (Some(payload), Some(section)) = (open, sections.first())
            && let Some(raw) = decode_open_payload(payload, section, token)
        {
            frames.raws.insert(0, raw);
        }
        let mut rest = &out[..out.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1)];
        let mut begun = false;
        while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
            let Some(frame) = rest.strip_prefix(token.as_bytes()).and_then(|frame| frame.strip_prefix(b" ")) else {
                if begun {
                    frames.wrong = Some("text between frames".to_owned());
                    break;
                }
                rest = &rest[end + 1..];
                continue;
            };
            begun = true;
            match frames.read_frame(frame, sections, token) {
                Ok(after) => rest = after,
                Err(why) => frames.wrong = Some(why),
            }
            if frames.wrong.is_some() || frames.end.is_some() {
                break;
            }
        }
        frames
    }

    /// Reads the frame at the start of `text`, which is after a token. Returns what follows its line break; the payload
    /// of a section may contain line breaks too.
    fn read_frame<'t>(&mut self, text: &'t [u8], sections: &[ProbeSection], token: &str) -> Result<&'t [u8], String> {
        let end = text.iter().position(|byte| *byte == b'\n').unwrap_or(text.len());
        let line = String::from_utf8_lossy(&text[..end]);
        let after = |at: usize| text.get(at + 1..).unwrap_or_default();
        if let Some(count) = line.strip_prefix("end ") {
            self.end = Some(count.trim_end().parse().map_err(|_| "end frame without a number".to_owned())?);
            return Ok(after(end));
        }
        if let Some(tool) = line.strip_prefix("lacks ") {
            self.lacks = Some(tool.to_owned());
            return Ok(after(end));
        }
        let mut words = line.splitn(3, ' ');
        let (number, length) = (words.next().unwrap_or(""), words.next().unwrap_or(""));
        let begin = number.len() + length.len() + 2;
        let number: usize = number.parse().map_err(|_| "frame without a number".to_owned())?;
        let section = sections.get(number).ok_or_else(|| format!("section {number} was not requested"))?;
        let stop = length.parse().ok().and_then(|length: usize| begin.checked_add(length));
        let Some(stop) = stop.filter(|stop| text.get(*stop) == Some(&b'\n')) else {
            let has = words.next().unwrap_or("").len();
            return Err(format!("section {number} has {has} bytes but declares `{length}`"));
        };
        let raw = text
            .get(begin..stop)
            .and_then(|payload| decode_payload(payload, section, token))
            .ok_or_else(|| format!("section {number} cannot be decoded"))?;
        match self.raws.insert(number, raw) {
            Some(_) => Err(format!("duplicate section {number}")),
            None => Ok(after(stop)),
        }
    }

    /// Checks that nothing is missing. A cut leaves a broken line behind, so a missing end is reported first.
    fn check_complete(&self, sections: usize, ended: bool) -> Result<(), FrameError> {
        if !ended {
            return Err(FrameError::Cut);
        }
        if let Some(wrong) = &self.wrong {
            return Err(FrameError::Malformed(wrong.clone()));
        }
        if self.lacks.is_some() || (self.end == Some(sections) && self.raws.len() == sections) {
            return Ok(());
        }
        Err(FrameError::Malformed(format!("received {} of {sections} sections", self.raws.len())))
    }

    /// Answers the probes of all sections, in the order they were sent: later ones may add to earlier ones.
    fn fill_observation(&self, sections: &[ProbeSection], seen: &mut Observation) {
        for (number, section) in sections.iter().enumerate() {
            match (self.raws.get(&number), &self.lacks) {
                (Some(raw), _) => section.read_output(raw, seen),
                (None, Some(tool)) => section.mark_unanswered(&UnansweredReason::missing_tool(tool), seen),
                (None, None) => {
                    section.mark_unanswered(
                        &UnansweredReason::new(format!("timed out after {} s", section.timeout_s)),
                        seen,
                    );
                }
            }
        }
    }
}

/// Reports whether any line starts with an end frame.
fn has_end_frame(out: &[u8], token: &str) -> bool {
    let end = format!("{token} end ");
    complete_lines(out).any(|line| line.starts_with(end.as_bytes()))
}

/// Returns the complete lines.
fn complete_lines(out: &[u8]) -> impl Iterator<Item = &[u8]> {
    let whole = out.iter().rposition(|byte| *byte == b'\n').unwrap_or(0);
    out[..whole].split(|byte| *byte == b'\n')
}

/// Splits off the output of the first section, which is between two lines of its own; see `shell::RUNNER`. Returns the
/// other lines, and the output if its last line arrived.
fn split_open_section<'a>(out: &'a [u8], token: &str) -> (Cow<'a, [u8]>, Option<&'a [u8]>) {
    let (open, shut) = (format!("\n{token} 0 open\n"), format!("\n{token} shut\n"));
    let find = |text: &[u8], line: &str| text.windows(line.len()).position(|at| at == line.as_bytes());
    let Some(begin) = find(out, &open) else { return (Cow::Borrowed(out), None) };
    let (before, payload) = (&out[..=begin], &out[begin + open.len()..]);
    match find(payload, &shut) {
        Some(end) => (Cow::Owned([before, &payload[end + shut.len()..]].concat()), Some(&payload[..end])),
        None => (Cow::Borrowed(before), None),
    }
}

/// Decodes the output of the first section: stdout, a line with the token and the status, stderr.
fn decode_open_payload(payload: &[u8], section: &ProbeSection, token: &str) -> Option<SectionOutput> {
    let (mut stdout, mut stderr) = (payload.to_vec(), Vec::new());
    let status = split_trailer(&mut stdout, &mut stderr, token)?;
    let truncated = truncate_bytes(&mut stdout, section.cap) | truncate_bytes(&mut stderr, section.stderr_cap());
    let end = if matches!(status, 124 | 137) { SectionEnd::TimedOut } else { SectionEnd::Exited(status) };
    Some(SectionOutput { end, began: false, stdout, stderr, truncated })
}

/// Decodes `BASE64-WITH-MARKS!STDERR`; see `shell::RUNNER`.
fn decode_payload(payload: &[u8], section: &ProbeSection, token: &str) -> Option<SectionOutput> {
    let engine = base64::engine::general_purpose::STANDARD;
    let at = payload.iter().position(|byte| *byte == b'!')?;
    let (stdout, mut stderr) = (super::section::parse_utf8(&payload[..at])?, payload[at + 1..].to_vec());
    let (mut encoded, mut status) = (String::new(), None);
    let (mut began, mut done, mut over, mut late) = (false, false, false, false);
    let pieces: Vec<&str> = stdout.split(':').collect();
    for (i, piece) in pieces.iter().enumerate() {
        match *piece {
            _ if i % 2 == 0 => encoded.push_str(piece),
            "began" => began = true,
            "done" => done = true,
            "over" => over = true,
            "late" => late = true,
            // Output over the cap was cut off at any position, even inside a mark.
            _ if over && i + 1 == pieces.len() => {}
            number => status = Some(number.parse().ok()?),
        }
    }
    if over {
        encoded.truncate(encoded.len() / 4 * 4);
    }
    let mut stdout = engine.decode(encoded).ok()?;
    let status: i32 = match status {
        Some(status) => status,
        None => split_trailer(&mut stdout, &mut stderr, token)?,
    };
    let cut = if section.foreign { keep_last_bytes } else { truncate_bytes };
    let truncated = cut(&mut stdout, section.cap) | cut(&mut stderr, section.stderr_cap()) | over | late;
    // `timeout` exits with 124 and 137; recipes' code may do so itself, and is then marked as done.
    let end = if matches!(status, 124 | 137) && !done { SectionEnd::TimedOut } else { SectionEnd::Exited(status) };
    Some(SectionOutput { end, began, stdout, stderr, truncated })
}

/// Splits off the line with the token and the status, and the stderr after it. Returns the status.
fn split_trailer(stdout: &mut Vec<u8>, stderr: &mut Vec<u8>, token: &str) -> Option<i32> {
    let mark = format!("\n{token} !");
    let at = stdout.windows(mark.len()).rposition(|at| at == mark.as_bytes())?;
    let rest = stdout.split_off(at);
    let rest = &rest[mark.len()..];
    let end = rest.iter().position(|byte| *byte == b'\n')?;
    *stderr = rest[end + 1..].to_vec();
    super::section::parse_utf8(&rest[..end])?.parse().ok()
}

#[cfg(test)]
mod live;

#[cfg(test)]
mod tests;
