//! Facts: quick snippets share a section; the others have one each.

use super::section::{End, Fields, Raw, Section, text};
use super::{FactSnippet, Observation, Output, Probe, Reading};
use crate::model::Untrusted;
use crate::script::Fragment;

/// Opens and closes a quick snippet: name, status and output become three fields.
const OPEN: &str = "\nforge_fact";
const FACT: &str = "forge_fact() { o=$(eval \"$2\"); r=$?; printf '%s\\0%s\\0%s\\0' \"$1\" \"$r\" \"$o\"; }\n";

/// Builds the sections of the facts that `probes` ask for: those of the second channel, and the others.
pub(crate) fn sections(probes: &[Probe], facts: &[FactSnippet]) -> (Vec<Section>, Vec<Section>) {
    let asked = |name: &str| probes.iter().find(|p| matches!(p, Probe::Fact { name: n } if n == name)).cloned();
    let asked: Vec<(Probe, &FactSnippet)> = facts.iter().filter_map(|fact| Some((asked(fact.name)?, fact))).collect();
    let (together, alone): (Vec<_>, Vec<_>) = asked.into_iter().partition(|(_, fact)| fact.quick && !fact.device);
    let (device, quick): (Vec<_>, Vec<_>) = alone.into_iter().partition(|(_, fact)| fact.device);
    let mut rest: Vec<Section> = quick.into_iter().map(|(probe, fact)| single(probe, fact)).collect();
    rest.extend(shared(together));
    (device.into_iter().map(|(probe, fact)| single(probe, fact)).collect(), rest)
}

fn single(probe: Probe, fact: &FactSnippet) -> Section {
    let mut section = Section::new("the snippet", vec![probe], read_single);
    section.body = section.body.code(fact.snippet);
    section.timeout_s = fact.timeout_s;
    section
}

fn shared(facts: Vec<(Probe, &FactSnippet)>) -> Option<Section> {
    let timeout_s = facts.iter().map(|(_, fact)| fact.timeout_s).max()?;
    let mut body = Fragment::new().code(FACT);
    for (_, fact) in &facts {
        body = body.code(OPEN).word(fact.name).nested(Fragment::new().code(fact.snippet));
    }
    let probes = facts.into_iter().map(|(probe, _)| probe).collect();
    let mut section = Section { timeout_s, ..Section::new("the snippet", probes, read_shared) };
    section.body = section.body.then(body);
    Some(section)
}

fn read_single(section: &Section, raw: &Raw, out: &mut Observation) {
    let missing = String::from_utf8_lossy(&raw.stderr).contains("forge-missing ");
    for probe in &section.probes {
        let answer = match raw.end {
            End::Exited(status) if !raw.truncated && !missing => Ok(super::check::output(raw, status)),
            _ => Err(raw.lack(section)),
        };
        out.insert(probe.clone(), answer.map(Reading::Output));
    }
}

/// A fact whose three fields came is answered, even if a later one was stopped.
fn read_shared(section: &Section, raw: &Raw, out: &mut Observation) {
    section.all_unknown(&raw.lack(section), out);
    let mut fields = Fields::new(&raw.stdout);
    while let Some([name, status, stdout]) = fields.row() {
        let wanted = |p: &&Probe| matches!(p, Probe::Fact { name: n } if n.as_bytes() == name);
        let probe = section.probes.iter().find(wanted);
        let status = text(status).and_then(|status| status.parse().ok());
        if let (Some(probe), Some(status)) = (probe, status) {
            let stdout = Untrusted::from_bytes(stdout);
            let output = Output { status, stdout, ..Output::default() };
            out.insert(probe.clone(), Ok(Reading::Output(output)));
        }
    }
}
