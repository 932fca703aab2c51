//! How probes are compiled and their answers stored, whatever the session.

use super::run_options::RunOptions;
use crate::facts;
use crate::probe::{self, CompiledProbes, Observation, Probe, ProbeCheckOptions};
use crate::transport::{self, TransportError};
use std::collections::BTreeSet;

/// The settings for probes that do not depend on the session.
pub(super) struct ObservationSettings {
    checks: ProbeCheckOptions,
    /// Whether raw answers are stored.
    keep: bool,
    clock: fn() -> jiff::Timestamp,
}

impl ObservationSettings {
    pub fn from_options(options: &RunOptions) -> Self {
        let checks = ProbeCheckOptions { limit: options.timeout, confined: options.confined };
        Self { checks, keep: options.replay.record || options.replay.keep, clock: options.clock }
    }

    pub fn keeps_raw_answers(&self) -> bool {
        self.keep
    }

    pub fn compile_probes(&self, probes: &BTreeSet<Probe>) -> Result<CompiledProbes, TransportError> {
        let compiled = probe::compile_probes(probes, &facts::fact_snippets(), transport::random_token()?, self.checks);
        Ok(if self.keep { compiled.with_raw_answers() } else { compiled })
    }

    /// Sends the probes compiled by `ask` and records the times.
    pub async fn observe_and_stamp(
        &self,
        ask: impl Future<Output = Result<Observation, TransportError>>,
    ) -> Result<Observation, TransportError> {
        let began = (self.clock)();
        let mut observation = ask.await?;
        observation.set_time_range(began, (self.clock)());
        Ok(observation)
    }
}
