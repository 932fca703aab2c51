//! Quick sections in one process: one time limit, one shell and one encoding for all of them.

use super::Observation;
use super::section::{ProbeSection, STDERR_CAP, SectionEnd, SectionOutput};
use crate::script::ShellFragment;

/// Bytes of code per process: the kernel accepts 131,072 as one argument.
const CODE_CAP: usize = 98_304;

/// Bytes of the lines around a part's output.
const LINES_CAP: u64 = 128;

/// A part's output is between two lines with the token, which is unknown to the host before: one with its number, and
/// one with its status, followed by its stderr. Each part is its own subshell, so one that fails or ends early does not
/// affect the others.
const PART_BEGIN: &str = "\nprintf '\\n%s %s\\n' \"$FORGE_T\"";
const PART_RUN: &str = "\n{ e=$( {\n";
const PART_END: &str = "\n} 2>&1 >&4 ); } 4>&1\nprintf '\\n%s =%s\\n%s' \"$FORGE_T\" \"$?\" \"$e\"";

/// Puts `sections` into as few processes as their code fits in, in their order. Sections with code that runs before
/// them share the first one.
pub(crate) fn group_sections(sections: Vec<ProbeSection>, token: &str) -> Vec<ProbeSection> {
    let tied = |section: &ProbeSection| !section.before.is_empty();
    let size: usize =
        sections.iter().filter(|s| tied(s)).map(|s| s.before.rendered_size() + s.body.rendered_size()).sum();
    let mut groups: Vec<(usize, Vec<ProbeSection>)> = vec![(size, Vec::new())];
    for section in sections {
        let more = if tied(&section) { 0 } else { section.body.rendered_size() };
        let room = groups.iter().position(|(size, _)| more == 0 || size + more <= CODE_CAP);
        let at = room.unwrap_or_else(|| {
            groups.push((0, Vec::new()));
            groups.len() - 1
        });
        groups[at].0 += more;
        groups[at].1.push(section);
    }
    groups.into_iter().filter_map(|(_, parts)| build_group(parts, token)).collect()
}

/// Builds the section of one process; `None` without parts.
fn build_group(mut parts: Vec<ProbeSection>, token: &str) -> Option<ProbeSection> {
    let timeout_s = parts.iter().map(|part| part.timeout_s).max()?;
    let mut section = ProbeSection::new("the questions", Vec::new(), read_answers);
    section.timeout_s = timeout_s;
    section.cap = parts.iter().map(|part| part.cap + STDERR_CAP + LINES_CAP).sum();
    section.token = token.to_owned();
    let mut body = ShellFragment::new();
    if let Some(tied) = parts.iter().find(|part| !part.before.is_empty()) {
        body = body.append_fragment(tied.before.clone());
    }
    for (number, part) in parts.iter_mut().enumerate() {
        body = body
            .code(PART_BEGIN)
            .number(number as u64)
            .code(PART_RUN)
            .append_fragment(part.body.clone())
            .code(PART_END);
        part.timeout_s = timeout_s;
        section.probes.extend(part.probes.iter().cloned());
    }
    section.body = body;
    section.parts = parts;
    Some(section)
}

fn read_answers(section: &ProbeSection, raw: &SectionOutput, out: &mut Observation) {
    let pieces = split_pieces(&raw.stdout, &section.token);
    let mut broken: Option<&ProbeSection> = None;
    for (number, part) in section.parts.iter().enumerate() {
        // The failure that ended a part is the reason for missing answers of those after it.
        if let Some(broken) = broken {
            part.mark_unanswered(&raw.explain_missing(broken), out);
            continue;
        }
        let printed = complete_part_output(&pieces, number, part, raw);
        broken = printed.is_none().then_some(part);
        part.read_output(&printed.unwrap_or_else(|| partial_part_output(&pieces, number, raw)), out);
    }
}

/// Returns each piece of the output with the word on the line before it.
fn split_pieces<'a>(stdout: &'a [u8], token: &str) -> Vec<(&'a [u8], &'a [u8])> {
    let line = format!("\n{token} ");
    let line = line.as_bytes();
    let mut starts: Vec<usize> = Vec::new();
    let mut at = 0;
    while let Some(next) = find_bytes(&stdout[at..], line) {
        at += next + line.len();
        starts.push(at);
    }
    let ends = starts.iter().skip(1).map(|start| start - line.len()).chain([stdout.len()]);
    let piece = |(start, end): (usize, usize)| {
        let piece = &stdout[start..end];
        let at = piece.iter().position(|byte| *byte == b'\n')?;
        Some((&piece[..at], &piece[at + 1..]))
    };
    starts.iter().copied().zip(ends).filter_map(piece).collect()
}

fn find_bytes(text: &[u8], line: &[u8]) -> Option<usize> {
    text.windows(line.len()).position(|at| at == line)
}

/// Returns the output of the part with that number; `None` if it is incomplete.
fn complete_part_output(
    pieces: &[(&[u8], &[u8])],
    number: usize,
    part: &ProbeSection,
    raw: &SectionOutput,
) -> Option<SectionOutput> {
    let at = find_part_start(pieces, number)?;
    let (status, said) = pieces.get(at + 1)?;
    let status = super::section::parse_utf8(status)?.strip_prefix('=')?.parse().ok()?;
    let (mut stdout, mut stderr) = (pieces[at].1.to_vec(), said.to_vec());
    let truncated = truncate_bytes(&mut stdout, part.cap) | truncate_bytes(&mut stderr, STDERR_CAP);
    Some(SectionOutput { end: SectionEnd::Exited(status), began: raw.began, stdout, stderr, truncated })
}

/// Returns the output of a part that was stopped.
fn partial_part_output(pieces: &[(&[u8], &[u8])], number: usize, raw: &SectionOutput) -> SectionOutput {
    let stdout = find_part_start(pieces, number).map_or(Vec::new(), |at| pieces[at].1.to_vec());
    SectionOutput { stdout, ..raw.clone() }
}

fn find_part_start(pieces: &[(&[u8], &[u8])], number: usize) -> Option<usize> {
    let number = number.to_string();
    pieces.iter().position(|(word, _)| *word == number.as_bytes())
}

/// Truncates `bytes` to `cap`; returns whether there were more.
pub(crate) fn truncate_bytes(bytes: &mut Vec<u8>, cap: u64) -> bool {
    let cap = usize::try_from(cap).unwrap_or(usize::MAX);
    let over = bytes.len() > cap;
    bytes.truncate(cap);
    over
}

#[cfg(test)]
mod tests;
