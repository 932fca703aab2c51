//! Facts: quick snippets share a section; each other one has its own.

use super::query::{FactSnippet, Probe};
use super::section::{NulFields, ProbeSection, SectionEnd, SectionOutput, parse_utf8};
use super::{Observation, ProbeOutput, ProbeReading, UnansweredReason};
use crate::script::ShellFragment;

/// Runs a quick snippet: name, status and output become three fields; with a third argument, the snippet runs in the same
/// shell, and name, `+`, output and status become four. Its stderr follows a line with its name.
const FACT_SNIPPET: &str = r#"forge_fact() {
printf '\nforge-fact %s\n' "$1" >&2
if [ -n "${3-}" ]; then
printf '%s\0+\0' "$1"
eval "$2"
printf '\0%s\0' "$?"
else
o=$(eval "$2")
printf '%s\0%s\0%s\0' "$1" "$?" "$o"
fi
}
"#;

/// Builds the sections of the facts in `probes`: those of the second channel, the shared one of the quick snippets, and
/// the others.
pub(crate) fn build_sections(
    probes: &[Probe],
    facts: &[FactSnippet],
) -> (Vec<ProbeSection>, Option<ProbeSection>, Vec<ProbeSection>) {
    let asked = |name: &str| probes.iter().find(|p| matches!(p, Probe::Fact { name: n } if n == name)).cloned();
    let asked: Vec<(Probe, &FactSnippet)> = facts.iter().filter_map(|fact| Some((asked(fact.name)?, fact))).collect();
    let (together, alone): (Vec<_>, Vec<_>) = asked.into_iter().partition(|(_, fact)| fact.quick && !fact.device);
    let (device, alone): (Vec<_>, Vec<_>) = alone.into_iter().partition(|(_, fact)| fact.device);
    let each = |facts: Vec<(Probe, &FactSnippet)>| {
        facts.into_iter().map(|(probe, fact)| build_single_section(probe, fact)).collect()
    };
    (each(device), build_shared_section(together), each(alone))
}

fn build_single_section(probe: Probe, fact: &FactSnippet) -> ProbeSection {
    let mut section = ProbeSection::new("the snippet", vec![probe], read_single);
    section.body = section.body.code(fact.snippet);
    section.timeout_s = fact.timeout_s;
    section
}

fn build_shared_section(facts: Vec<(Probe, &FactSnippet)>) -> Option<ProbeSection> {
    let timeout_s = facts.iter().map(|(_, fact)| fact.timeout_s).max()?;
    let mut body = ShellFragment::new().code(FACT_SNIPPET);
    for (_, fact) in &facts {
        body = body.code("\nforge_fact").word(fact.name).nested_word(ShellFragment::new().code(fact.snippet));
        body = if fact.builtin { body.word("builtin") } else { body };
    }
    let probes = facts.into_iter().map(|(probe, _)| probe).collect();
    let mut section = ProbeSection { timeout_s, plain: true, ..ProbeSection::new("the snippet", probes, read_shared) };
    section.body = section.body.append_fragment(body);
    Some(section)
}

fn read_single(section: &ProbeSection, raw: &SectionOutput, out: &mut Observation) {
    for probe in &section.probes {
        out.insert(probe.clone(), read_answer(section, raw).map(ProbeReading::Output));
    }
}

fn read_answer(section: &ProbeSection, raw: &SectionOutput) -> Result<ProbeOutput, UnansweredReason> {
    let missing = raw.stderr.windows(14).any(|at| at == b"forge-missing ");
    match raw.end {
        SectionEnd::Exited(status) if !raw.truncated && !missing => Ok(super::check::build_output(raw, status)),
        _ => Err(raw.explain_missing(section)),
    }
}

/// A fact with all its fields is answered, even if a later one was stopped.
fn read_shared(section: &ProbeSection, raw: &SectionOutput, out: &mut Observation) {
    section.answer_all_unknown(&raw.explain_missing(section), out);
    let said = String::from_utf8_lossy(&raw.stderr);
    let mut fields = NulFields::new(&raw.stdout);
    while let Some([name, mut status, mut stdout]) = fields.next_row() {
        if status == b"+" {
            let Some(after) = fields.next() else { break };
            status = after;
            // `$(…)` removes line breaks at the end, too.
            while let Some(shorter) = stdout.strip_suffix(b"\n") {
                stdout = shorter;
            }
        }
        let wanted = |p: &&Probe| matches!(p, Probe::Fact { name: n } if n.as_bytes() == name);
        let probe = section.probes.iter().find(wanted);
        let (Some(probe), Some(status)) = (probe, parse_utf8(status).and_then(|status| status.parse().ok())) else {
            continue;
        };
        let stderr = extract_stderr(&said, name).as_bytes().to_vec();
        let one = SectionOutput {
            end: SectionEnd::Exited(status),
            began: true,
            stdout: stdout.to_vec(),
            stderr,
            truncated: false,
        };
        out.insert(probe.clone(), read_answer(section, &one).map(ProbeReading::Output));
    }
}

/// Returns the stderr of the snippet with that name.
fn extract_stderr<'a>(said: &'a str, name: &[u8]) -> &'a str {
    let mut parts = said.split("forge-fact ").skip(1).filter_map(|part| part.split_once('\n'));
    parts.find(|(of, _)| of.as_bytes() == name).map_or("", |(_, words)| words.trim())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::section::testing::{answers, printed};

    fn shared_section(names: &[&'static str]) -> ProbeSection {
        let snippet =
            |name| FactSnippet { name, snippet: "true", timeout_s: 3, device: false, quick: true, builtin: false };
        let facts: Vec<FactSnippet> = names.iter().map(|name| snippet(*name)).collect();
        let probes: Vec<Probe> = names.iter().map(|name| Probe::Fact { name: (*name).into() }).collect();
        build_sections(&probes, &facts).1.expect("a section")
    }

    #[test]
    fn each_quick_fact_has_its_own_status_output_and_reason() {
        let section = shared_section(&["a", "b", "c", "d"]);
        let mut raw = printed("a\x00+\x00one\n\x000\x00b\x001\x00\x00c\x00127\x00\x00d\x000\x00cut");
        raw.stderr =
            b"\nforge-fact a\n\nforge-fact b\nno such thing\n\nforge-fact c\nforge-missing perl\n\nforge-fact d"
                .to_vec();
        raw.end = SectionEnd::TimedOut;
        let seen = answers(&section, &raw);
        let of = |name: &str| match seen.get(&Probe::Fact { name: name.into() }) {
            Ok(ProbeReading::Output(output)) => {
                Ok((output.status, output.stdout.raw().to_owned(), output.stderr.raw().to_owned()))
            }
            Ok(other) => panic!("{other:?}"),
            Err(unknown) => Err(unknown.why),
        };
        assert_eq!(of("a"), Ok((0, "one".into(), String::new())));
        assert_eq!(of("b"), Ok((1, String::new(), "no such thing".into())));
        assert_eq!(of("c"), Err("`perl` is missing".into()));
        assert_eq!(of("d"), Err("timed out after 3 s".into()), "it was cut short");
    }
}
