//! Quick sections in one process: one time limit, one shell and one encoding for all of them.

use super::section::{ProbeSection, SECTION_PRELUDE, STDERR_CAP, SectionEnd, SectionOutput};
use super::{Observation, UnansweredReason};
use crate::script::ShellFragment;

/// Bytes of code per process: the kernel accepts 131,072 as one argument.
const CODE_CAP: usize = 98_304;

/// Bytes of the lines around a part's output.
const LINES_CAP: u64 = 128;

/// Seconds beyond its limit after which a part with its own shell is over.
const GRACE_S: u64 = 2;

/// A part's output is between two lines with the token, which is unknown to the host before: one with its number, and
/// one with its status. Its stderr follows the line with its number there. A part that exits ends the shell; the trap
/// then starts a new one in its place, which continues with the next part. A shell that is stopped starts none.
const GROUP_BEGIN: &str = r#"
FORGE_CODE=$s
forge_begin() {
FORGE_N=$1
printf '\n%s %s\n' "$FORGE_T" "$1"
printf '\n%s %s\n' "$FORGE_T" "$1" >&2
}
forge_end() {
printf '\n%s =%s\n' "$FORGE_T" "$1"
FORGE_N=$((FORGE_N + 1))
cd /
set +f --
unset IFS
}
forge_exited() {
[ "$1" != 143 ] && [ "$FORGE_N" -lt "$FORGE_PARTS" ] || exit "$1"
forge_end "$1"
export FORGE_N FORGE_S="$FORGE_CODE"
exec sh -c 's=$FORGE_S; unset FORGE_S; eval "$s"'
}
forge_wait() {
FORGE_S=$2 timeout -k 2 "$1" sh -c 's=$FORGE_S; unset FORGE_S FORGE_N; eval "$s"'
}
trap 'forge_exited "$?"' EXIT
set --"#;
const GROUP_PARTS: &str = "\nFORGE_PARTS=$1\n";
const PART_BEGIN: &str = "\nif [ \"$FORGE_N\" -le";
const PART_NUMBER: &str = " ]; then\nforge_begin";
const PLAIN_PART: [&str; 2] = ["\n{\n", "\n}"];
const FORKED_PART: [&str; 2] = ["\n(\n", "\n)"];
const WAITING_PART: &str = "\nforge_wait";
const PART_END: &str = "\nforge_end \"$?\"\nfi";

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
    if parts.is_empty() {
        return None;
    }
    let waits: u64 = parts.iter().filter(|part| part.waits).map(|part| part.timeout_s + GRACE_S).sum();
    let timeout_s = parts.iter().filter(|part| !part.waits).map(|part| part.timeout_s).max().unwrap_or(0) + waits;
    let mut section = ProbeSection::new("the questions", Vec::new(), read_answers);
    section.timeout_s = timeout_s;
    section.cap = parts.iter().map(|part| part.cap + STDERR_CAP + LINES_CAP).sum();
    section.token = token.to_owned();
    let mut body = ShellFragment::new().code(GROUP_BEGIN).number(parts.len() as u64).code(GROUP_PARTS);
    if let Some(tied) = parts.iter().find(|part| !part.before.is_empty()) {
        body = body.append_fragment(tied.before.clone());
    }
    for (number, part) in parts.iter_mut().enumerate() {
        let number = number as u64;
        body = append_part(body.code(PART_BEGIN).number(number).code(PART_NUMBER).number(number), part);
        if !part.waits {
            part.timeout_s = timeout_s;
        }
        section.probes.extend(part.probes.iter().cloned());
    }
    section.body = body;
    section.parts = parts;
    Some(section)
}

fn append_part(body: ShellFragment, part: &ProbeSection) -> ShellFragment {
    if part.waits {
        let code = ShellFragment::new().code(SECTION_PRELUDE).append_fragment(part.body.clone());
        return body.code(WAITING_PART).number(part.timeout_s).nested_word(code).code(PART_END);
    }
    let [open, close] = if part.plain { PLAIN_PART } else { FORKED_PART };
    body.code(open).append_fragment(part.body.clone()).code(close).code(PART_END)
}

fn read_answers(section: &ProbeSection, raw: &SectionOutput, out: &mut Observation) {
    let pieces = split_pieces(&raw.stdout, &section.token);
    let said = split_pieces(&raw.stderr, &section.token);
    let mut broken: Option<UnansweredReason> = None;
    for (number, part) in section.parts.iter().enumerate() {
        // The failure that ended a part is the reason for missing answers of those after it.
        if let Some(why) = &broken {
            part.mark_unanswered(why, out);
            continue;
        }
        let printed = complete_part_output(&pieces, &said, number, part, raw).unwrap_or_else(|| {
            let partial = partial_part_output(&pieces, &said, number, raw);
            broken = Some(partial.explain_missing(part));
            partial
        });
        part.read_output(&printed, out);
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

/// Returns the output of the part with that number; `None` if it is incomplete. Text after its status is stderr too.
fn complete_part_output(
    pieces: &[(&[u8], &[u8])],
    said: &[(&[u8], &[u8])],
    number: usize,
    part: &ProbeSection,
    raw: &SectionOutput,
) -> Option<SectionOutput> {
    let at = find_part_start(pieces, number)?;
    let (status, more) = pieces.get(at + 1)?;
    let status = super::section::parse_utf8(status)?.strip_prefix('=')?.parse().ok()?;
    let (mut stdout, mut stderr) = (pieces[at].1.to_vec(), part_stderr(said, number).unwrap_or(b"").to_vec());
    stderr.extend_from_slice(more);
    let truncated = truncate_bytes(&mut stdout, part.cap) | truncate_bytes(&mut stderr, STDERR_CAP);
    // `timeout` exits with 124 and 137.
    let late = part.waits && matches!(status, 124 | 137);
    let end = if late { SectionEnd::TimedOut } else { SectionEnd::Exited(status) };
    Some(SectionOutput { end, began: raw.began, stdout, stderr, truncated })
}

/// Returns the output of a part that was stopped.
fn partial_part_output(
    pieces: &[(&[u8], &[u8])],
    said: &[(&[u8], &[u8])],
    number: usize,
    raw: &SectionOutput,
) -> SectionOutput {
    let stdout = find_part_start(pieces, number).map_or(Vec::new(), |at| pieces[at].1.to_vec());
    let stderr = part_stderr(said, number).map_or_else(|| raw.stderr.clone(), <[u8]>::to_vec);
    SectionOutput { stdout, stderr, ..raw.clone() }
}

/// Returns the stderr of the part with that number, without line breaks at its end.
fn part_stderr<'a>(said: &[(&'a [u8], &'a [u8])], number: usize) -> Option<&'a [u8]> {
    let text = said[find_part_start(said, number)?].1;
    let end = text.iter().rposition(|byte| *byte != b'\n').map_or(0, |at| at + 1);
    Some(&text[..end])
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

/// Removes all bytes before the last `cap`; returns whether there were any.
pub(crate) fn keep_last_bytes(bytes: &mut Vec<u8>, cap: u64) -> bool {
    let surplus = bytes.len().saturating_sub(usize::try_from(cap).unwrap_or(usize::MAX));
    bytes.drain(..surplus);
    surplus > 0
}

#[cfg(test)]
mod tests;
