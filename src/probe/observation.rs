//! The answers of one host.

use super::answer_pool::AnswerPool;
use super::query::Probe;
use super::reading::ProbeAnswer;
use super::unanswered::UnansweredReason;
use super::{PathState, ProbeExchange, ProbeReading};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The answers by their probes. Observations of several hosts may share them.
type SharedAnswers = BTreeMap<Arc<Probe>, Arc<ProbeAnswer>>;

/// One host's answers to a set of probes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Observation {
    #[serde(with = "as_list")]
    answers: SharedAnswers,
    /// The raw answers, if they are kept.
    #[serde(skip)]
    kept: Option<Vec<ProbeExchange>>,
    /// Start and end of the first query, by the controller's clock.
    #[serde(skip)]
    asked: Option<(jiff::Timestamp, jiff::Timestamp)>,
}

impl Observation {
    /// Stores the answer to `probe`, in place of an earlier one.
    pub fn insert(&mut self, probe: Probe, answer: Result<ProbeReading, UnansweredReason>) {
        self.answers.insert(Arc::new(probe), Arc::new(answer));
    }

    /// Reports whether something was found at `path`, for any step.
    pub fn has_path(&self, path: &str) -> bool {
        let first = Probe::Path { path: path.to_owned(), want: None };
        let of_path = |probe: &Probe| matches!(probe, Probe::Path { path: asked, .. } if asked == path);
        let mut answers = self.answers.range::<Probe, _>(first..).take_while(|(probe, _)| of_path(probe));
        answers.any(|(_, answer)| matches!(&**answer, Ok(ProbeReading::Path(PathState::Present(_)))))
    }

    /// Returns the answer to `probe`; a probe that was never sent is `Unknown`.
    pub fn get(&self, probe: &Probe) -> Result<&ProbeReading, UnansweredReason> {
        match self.answers.get(probe).map(AsRef::as_ref) {
            Some(Ok(reading)) => Ok(reading),
            Some(Err(unknown)) => Err(unknown.clone()),
            None => Err(UnansweredReason::new("was not observed")),
        }
    }

    /// Reports whether `probe` was answered, also with a reason why its answer is unknown.
    pub fn has_answer(&self, probe: &Probe) -> bool {
        self.answers.contains_key(probe)
    }

    /// Removes the bodies of files at paths that `is_secret` names, from the kept raw answers too.
    pub(crate) fn withhold_bodies(&mut self, is_secret: impl Fn(&str) -> bool) {
        let mut withheld: BTreeSet<String> = BTreeSet::new();
        for (probe, answer) in &mut self.answers {
            let Probe::Path { path, .. } = &**probe else { continue };
            if is_secret(path)
                && let Ok(ProbeReading::Path(PathState::Present(info))) = Arc::make_mut(answer)
            {
                withheld.extend(info.body.take().map(|body| body.raw().to_owned()));
            }
        }
        let hide = |text: &str| if withheld.contains(text) { String::new() } else { text.to_owned() };
        if !withheld.is_empty() {
            self.kept.iter_mut().flatten().for_each(|exchange| exchange.replace_bodies(&hide));
        }
    }

    /// Keeps raw answers from now on.
    pub(crate) fn enable_recording(&mut self) {
        self.kept.get_or_insert_default();
    }

    /// Keeps a raw answer, if raw answers are kept.
    pub(crate) fn record_exchange(&mut self, exchange: impl FnOnce() -> ProbeExchange) {
        if let Some(kept) = &mut self.kept {
            kept.push(exchange());
        }
    }

    /// Returns the kept raw answers, in the order of arrival.
    pub fn exchanges(&self) -> &[ProbeExchange] {
        self.kept.as_deref().unwrap_or_default()
    }

    /// Sets the start and end of the query, by the controller's clock.
    pub fn set_time_range(&mut self, began: jiff::Timestamp, ended: jiff::Timestamp) {
        self.asked = Some((began, ended));
        for exchange in self.kept.iter_mut().flatten() {
            exchange.at = ended.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        }
    }

    /// Returns the start and end of the first query, by the controller's clock.
    pub fn time_range(&self) -> Option<(jiff::Timestamp, jiff::Timestamp)> {
        self.asked
    }

    /// Merges the answers of a later observation; later answers win.
    pub fn merge(&mut self, later: Observation) {
        self.answers.extend(later.answers);
        if let Some(kept) = later.kept {
            self.kept.get_or_insert_default().extend(kept);
        }
        self.asked = self.asked.or(later.asked);
    }

    /// Releases memory that further answers would need. A map whose entries arrived one by one, in order, is half empty;
    /// one that is built from a sorted sequence is full.
    pub(crate) fn compact(&mut self) {
        self.answers = std::mem::take(&mut self.answers).into_iter().collect();
    }

    /// Replaces probes and answers by equal ones of other hosts: hosts with the same recipes have mostly equal ones.
    pub fn share_answers(&mut self, pool: &AnswerPool) {
        let share = |(probe, answer): (Arc<Probe>, Arc<ProbeAnswer>)| {
            let answer = pool.share_answer(&probe, answer);
            (pool.share_probe(probe), answer)
        };
        self.answers = std::mem::take(&mut self.answers).into_iter().map(share).collect();
    }

    /// Stores the answer of another observation to the same probe; false if it has none.
    pub(super) fn copy_answer(&mut self, probe: &Probe, other: &Self) -> bool {
        let answer = other.answers.get_key_value(probe).map(|(probe, answer)| (probe.clone(), answer.clone()));
        let found = answer.is_some();
        self.answers.extend(answer);
        found
    }

    /// Returns the probes that were not answered and may be answered by a retry. A check that reports neither yes (0)
    /// nor no (1) counts as not answered too.
    pub fn list_failed_probes(&self) -> BTreeSet<Probe> {
        let failed = |(probe, answer): &(&Probe, &ProbeAnswer)| match (probe, answer) {
            (_, Err(unknown)) => unknown.is_retryable(),
            (Probe::Check(_), Ok(ProbeReading::Output(output))) => !matches!(output.status, 0 | 1),
            _ => false,
        };
        self.iter().filter(failed).map(|(probe, _)| probe.clone()).collect()
    }

    /// Returns every answer, in the order of the probes.
    pub fn iter(&self) -> impl Iterator<Item = (&Probe, &Result<ProbeReading, UnansweredReason>)> {
        self.answers.iter().map(|(probe, answer)| (&**probe, &**answer))
    }
}

/// JSON has no maps with structured keys: a list of pairs.
mod as_list {
    use super::*;
    use serde::{Deserializer, Serializer};

    #[derive(Serialize, Deserialize)]
    struct ObservationEntry {
        probe: Probe,
        #[serde(skip_serializing_if = "Option::is_none")]
        reading: Option<ProbeReading>,
        #[serde(skip_serializing_if = "Option::is_none")]
        unknown: Option<UnansweredReason>,
    }

    pub fn serialize<S: Serializer>(map: &SharedAnswers, s: S) -> Result<S::Ok, S::Error> {
        s.collect_seq(map.iter().map(|(probe, answer)| ObservationEntry {
            probe: Probe::clone(probe),
            reading: answer.as_ref().as_ref().ok().cloned(),
            unknown: answer.as_ref().as_ref().err().cloned(),
        }))
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<SharedAnswers, D::Error> {
        let entries = Vec::<ObservationEntry>::deserialize(d)?;
        Ok(entries
            .into_iter()
            .map(|e| {
                let answer = match (e.reading, e.unknown) {
                    (Some(reading), _) => Ok(reading),
                    (None, Some(unknown)) => Err(unknown),
                    (None, None) => Err(UnansweredReason::new("the recording contains no answer")),
                };
                (Arc::new(e.probe), Arc::new(answer))
            })
            .collect())
    }
}
