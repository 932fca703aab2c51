//! Probes with their raw answers, for recordings: kept when they arrive, and replayed later as if a host had just
//! answered.

use super::query::Probe;
use super::unanswered::UnansweredReason;
use base64::Engine as _;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

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
    /// The answer, or why there is none.
    pub answer: ExchangeAnswer,
}

/// The answer to a query.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ExchangeAnswer {
    /// A host's answer, not parsed yet.
    Printed(ExchangeOutput),
    /// A cluster API's answer, already parsed.
    Told(serde_json::Value),
    /// No readable answer, or one that must not be kept; a lowercase fragment gives the reason.
    Unknown(UnansweredReason),
}

/// The output of a query's code.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ExchangeOutput {
    /// How the code ended.
    pub end: ExchangeEnd,
    /// Whether a check's own code was started.
    pub began: bool,
    /// Standard output, up to the cap of the query.
    pub stdout: ExchangeBytes,
    /// Standard error, up to the cap of the query.
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
    /// The bytes are UTF-8.
    Text(String),
    /// The bytes are not UTF-8; here they are in standard base64.
    Base64(String),
}

impl ExchangeBytes {
    /// Stores bytes in the more readable form.
    pub(super) fn new(bytes: &[u8]) -> Self {
        match std::str::from_utf8(bytes) {
            Ok(text) => Self::Text(text.to_owned()),
            Err(_) => Self::Base64(base64::engine::general_purpose::STANDARD.encode(bytes)),
        }
    }

    /// Returns the bytes. Invalid base64 gives no bytes.
    pub(super) fn to_bytes(&self) -> Vec<u8> {
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
pub(crate) const KEY_LEFT_OUT: &str = "left-out";

impl ProbeExchange {
    /// Removes everything that a recording never contains: the host's key, and all that `scrub` removes from a text.
    pub(crate) fn remove_secrets(&mut self, scrub: &dyn Fn(&str) -> String) {
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

    /// Replaces the bodies of files.
    pub(super) fn replace_bodies(&mut self, replace: &dyn Fn(&str) -> String) {
        let ExchangeAnswer::Printed(printed) = &mut self.answer else { return };
        if self.probes.iter().any(|probe| matches!(probe, Probe::Path { .. })) {
            printed.stdout = ExchangeBytes::new(&scrub_bodies(&printed.stdout.to_bytes(), replace));
        }
    }

    /// Replaces the answer, which contains a secret, with a reason.
    pub(crate) fn withhold_answer(&mut self, why: &str) {
        self.answer = ExchangeAnswer::Unknown(UnansweredReason::withheld_secret(why));
    }

    /// Reports whether the output of a host contains something that `scrub` removes from a text.
    pub(crate) fn contains_secret(&self, scrub: &dyn Fn(&str) -> String) -> bool {
        let ExchangeAnswer::Printed(printed) = &self.answer else { return false };
        let bytes = printed.stdout.to_bytes();
        let text = String::from_utf8_lossy(&bytes);
        scrub(&text) != text
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
