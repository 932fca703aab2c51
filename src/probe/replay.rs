//! Converts answers of a host to raw answers that a recording keeps, and back.

use super::exchange::{ExchangeAnswer, ExchangeBytes, ExchangeEnd, ExchangeOutput, KEY_LEFT_OUT, ProbeExchange};
use super::replay_sections::ReplaySections;
use super::section::{ProbeSection, SectionEnd, SectionOutput};
use super::{FactSnippet, Observation, Probe, ProbeReading, UnansweredReason};

impl ProbeExchange {
    fn new(section: &ProbeSection, answer: ExchangeAnswer) -> Self {
        let (asked, probes) = (section.name.to_owned(), section.probes.clone());
        Self { asked, probes, at: String::new(), limit_s: section.timeout_s, answer }
    }
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
pub fn replay_exchanges(exchanges: &[ProbeExchange], facts: &[FactSnippet], sections: &ReplaySections) -> Observation {
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
            ExchangeAnswer::Printed(printed) => match sections.find_section(exchange, facts) {
                Some(section) => (section.read)(&section, &SectionOutput::from(printed), &mut seen),
                None => {
                    unknown(&UnansweredReason::new("was recorded in a format that this version cannot read"), &mut seen)
                }
            },
        }
    }
    seen
}

#[cfg(test)]
mod tests;
