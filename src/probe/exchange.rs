//! Probes with their raw answers, for recordings: kept when they arrive, and replayed later as if a host had just
//! answered.

use super::section::{ProbeSection, SectionEnd, SectionOutput};
use super::{FactSnippet, Observation, Probe, ProbeReading, UnansweredReason, section_sorting};
use base64::Engine as _;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// One merged query to a host, and its answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ProbeExchange {
    /// The name of the query in messages.
    pub asked: String,
    /// The probes that it answers.
    pub probes: Vec<Probe>,
    /// When the answer arrived, in UTC: `2026-11-21T09:30:15Z`.
    #[serde(default)]
    pub at: String,
    /// Its time limit. Seconds.
    pub limit_s: u64,
    pub answer: ExchangeAnswer,
}

/// The answer to a query.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ExchangeAnswer {
    Printed(ExchangeOutput),
    /// A cluster API's answer, already parsed.
    Told(serde_json::Value),
    /// No readable answer, or one that must not be kept; a lowercase fragment gives the reason.
    Unknown(UnansweredReason),
}

/// The output of a query's code.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ExchangeOutput {
    pub end: ExchangeEnd,
    /// Whether a check's own code was started.
    pub began: bool,
    pub stdout: ExchangeBytes,
    pub stderr: ExchangeBytes,
    /// Whether the end of the output is missing.
    pub truncated: bool,
}

/// How the code ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ExchangeEnd {
    /// With this exit status.
    Exited(i32),
    /// It was stopped at its time limit.
    TimedOut,
}

/// Raw bytes: as text if they are UTF-8.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ExchangeBytes {
    Text(String),
    Base64(String),
}

impl ExchangeBytes {
    pub fn new(bytes: &[u8]) -> Self {
        match std::str::from_utf8(bytes) {
            Ok(text) => Self::Text(text.to_owned()),
            Err(_) => Self::Base64(base64::engine::general_purpose::STANDARD.encode(bytes)),
        }
    }

    /// Returns the bytes. Invalid base64 gives no bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        match self {
            Self::Text(text) => text.as_bytes().to_vec(),
            Self::Base64(text) => base64::engine::general_purpose::STANDARD.decode(text).unwrap_or_default(),
        }
    }

    /// Applies `change` to text; bytes that are not text stay unchanged.
    fn map_text(&mut self, change: &dyn Fn(&str) -> String) {
        if let Self::Text(text) = self {
            *text = change(text);
        }
    }
}

/// Placeholder in a recording for a host's key for digests of secrets.
pub const KEY_LEFT_OUT: &str = "left-out";

impl ProbeExchange {
    fn new(section: &ProbeSection, answer: ExchangeAnswer) -> Self {
        let (asked, probes) = (section.name.to_owned(), section.probes.clone());
        Self { asked, probes, at: String::new(), limit_s: section.timeout_s, answer }
    }

    /// Removes everything that a recording never contains: the host's key, and all that `scrub` removes from a text.
    pub fn remove_secrets(&mut self, scrub: &dyn Fn(&str) -> String) {
        let holds_key = self.probes.contains(&Probe::Records);
        if let ExchangeAnswer::Told(told) = &mut self.answer {
            return scrub_json(told, scrub);
        }
        let ExchangeAnswer::Printed(printed) = &mut self.answer else { return };
        if holds_key {
            printed.stdout = ExchangeBytes::new(&strip_host_key(&printed.stdout.to_bytes()));
        }
        if self.probes.iter().any(|probe| matches!(probe, Probe::Path { .. })) {
            printed.stdout = ExchangeBytes::new(&scrub_bodies(&printed.stdout.to_bytes(), scrub));
        }
        printed.stdout.map_text(scrub);
        printed.stderr.map_text(scrub);
    }

    /// Replaces the answer with a reason.
    pub fn withhold_answer(&mut self, why: &str) {
        self.answer = ExchangeAnswer::Unknown(UnansweredReason::new(why));
    }
}

/// Scrubs all texts of an API's answer, including names of fields.
fn scrub_json(value: &mut serde_json::Value, scrub: &dyn Fn(&str) -> String) {
    match value {
        serde_json::Value::String(text) => *text = scrub(text),
        serde_json::Value::Array(items) => items.iter_mut().for_each(|item| scrub_json(item, scrub)),
        serde_json::Value::Object(map) => {
            let entries = std::mem::take(map).into_iter().map(|(key, mut value)| {
                scrub_json(&mut value, scrub);
                (scrub(&key), value)
            });
            *map = entries.collect();
        }
        _ => {}
    }
}

/// Replaces the field after `key`, one of the named fields that precede all lines; names and values alternate. An
/// answer without it was truncated before it.
fn strip_host_key(stdout: &[u8]) -> Vec<u8> {
    let mut fields: Vec<&[u8]> = stdout.split(|byte| *byte == 0).collect();
    let at = fields.iter().step_by(2).position(|name| *name == b"key").map(|pair| 2 * pair + 1);
    if let Some(key) = at.and_then(|at| fields.get_mut(at)).filter(|key| !key.is_empty()) {
        *key = KEY_LEFT_OUT.as_bytes();
    }
    fields.join(&0)
}

/// Bodies of files are sent as base64, in which no text can be found: the second field after `body`.
fn scrub_bodies(stdout: &[u8], scrub: &dyn Fn(&str) -> String) -> Vec<u8> {
    let mut fields: Vec<Vec<u8>> = stdout.split(|byte| *byte == 0).map(<[u8]>::to_vec).collect();
    let engine = base64::engine::general_purpose::STANDARD;
    for at in 2..fields.len() {
        if fields[at - 2] != b"body" {
            continue;
        }
        let body = engine.decode(&fields[at]).ok().and_then(|body| String::from_utf8(body).ok());
        if let Some(body) = body {
            fields[at] = engine.encode(scrub(&body)).into_bytes();
        }
    }
    fields.join(&0)
}

impl From<&SectionOutput> for ExchangeOutput {
    fn from(raw: &SectionOutput) -> Self {
        let end = match raw.end {
            SectionEnd::Exited(status) => ExchangeEnd::Exited(status),
            SectionEnd::TimedOut => ExchangeEnd::TimedOut,
        };
        let (stdout, stderr) = (ExchangeBytes::new(&raw.stdout), ExchangeBytes::new(&raw.stderr));
        Self { end, began: raw.began, stdout, stderr, truncated: raw.truncated }
    }
}

impl From<&ExchangeOutput> for SectionOutput {
    fn from(printed: &ExchangeOutput) -> Self {
        let end = match printed.end {
            ExchangeEnd::Exited(status) => SectionEnd::Exited(status),
            ExchangeEnd::TimedOut => SectionEnd::TimedOut,
        };
        let (stdout, stderr) = (printed.stdout.to_bytes(), printed.stderr.to_bytes());
        Self { end, began: printed.began, stdout, stderr, truncated: printed.truncated }
    }
}

impl Observation {
    /// Inserts a cluster API's answer, and keeps it if raw answers are kept.
    pub(crate) fn record_api_answer(&mut self, probe: Probe, answer: Result<ProbeReading, UnansweredReason>) {
        self.record_exchange(|| ProbeExchange {
            asked: "the cluster".to_owned(),
            probes: vec![probe.clone()],
            at: String::new(),
            limit_s: 0,
            answer: match &answer {
                // A reading is plain data: serialization cannot fail.
                Ok(reading) => ExchangeAnswer::Told(serde_json::to_value(reading).unwrap_or_default()),
                Err(why) => ExchangeAnswer::Unknown(why.clone()),
            },
        });
        self.insert(probe, answer);
    }
}

impl ProbeSection {
    /// Parses the output into answers, and keeps it if raw answers are kept. The parts of a shared process keep their
    /// own output.
    pub(crate) fn read_output(&self, raw: &SectionOutput, out: &mut Observation) {
        if self.parts.is_empty() {
            out.record_exchange(|| ProbeExchange::new(self, ExchangeAnswer::Printed(raw.into())));
        }
        (self.read)(self, raw, out);
    }

    /// Answers all probes with the same reason, and keeps it.
    pub(crate) fn mark_unanswered(&self, why: &UnansweredReason, out: &mut Observation) {
        out.record_exchange(|| ProbeExchange::new(self, ExchangeAnswer::Unknown(why.clone())));
        self.answer_all_unknown(why, out);
    }
}

/// Parses raw answers in their order: later ones may add to earlier ones.
pub fn replay_exchanges(exchanges: &[ProbeExchange], facts: &[FactSnippet]) -> Observation {
    let mut seen = Observation::default();
    for exchange in exchanges {
        let unknown = |why: &UnansweredReason, seen: &mut Observation| {
            exchange.probes.iter().for_each(|probe| seen.insert(probe.clone(), Err(why.clone())));
        };
        match &exchange.answer {
            ExchangeAnswer::Unknown(why) => unknown(why, &mut seen),
            ExchangeAnswer::Told(told) => match serde_json::from_value::<ProbeReading>(told.clone()) {
                Ok(mut reading) => {
                    // The key is never written.
                    if let ProbeReading::Records(state) = &mut reading {
                        state.key = Some(KEY_LEFT_OUT.to_owned());
                    }
                    exchange.probes.iter().for_each(|probe| seen.insert(probe.clone(), Ok(reading.clone())));
                }
                Err(_) => {
                    unknown(&UnansweredReason::new("was recorded in a format that this version cannot read"), &mut seen)
                }
            },
            ExchangeAnswer::Printed(printed) => match find_section(exchange, facts) {
                Some(section) => (section.read)(&section, &SectionOutput::from(printed), &mut seen),
                None => {
                    unknown(&UnansweredReason::new("was recorded in a format that this version cannot read"), &mut seen)
                }
            },
        }
    }
    seen
}

/// Finds the section that parses an answer: the one that would send the same query today.
fn find_section(exchange: &ProbeExchange, facts: &[FactSnippet]) -> Option<ProbeSection> {
    let probes: BTreeSet<Probe> = exchange.probes.iter().cloned().collect();
    let mut sections = section_sorting::build_ungrouped_sections(&probes, facts).0;
    let at = sections.iter().position(|section| section.name == exchange.asked && section.probes == exchange.probes)?;
    let mut section = sections.swap_remove(at);
    section.timeout_s = exchange.limit_s;
    Some(section)
}

#[cfg(test)]
mod tests;
