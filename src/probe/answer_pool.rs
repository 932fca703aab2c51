//! Probes and answers that are equal on many hosts, kept once.

use super::Probe;
use super::reading::ProbeAnswer;
use crate::model::ContentPool;
use hashbrown::DefaultHashBuilder;
use std::collections::HashMap;
use std::hash::BuildHasher;
use std::sync::{Arc, Mutex, PoisonError};

/// Number of parts with a lock each, so that threads seldom wait for each other.
const PARTS: usize = 16;

/// Number of different answers to one question that are compared with the next one. Times and process ids make answers
/// to some questions different on every host: those are not shared.
const COMPARED: usize = 8;

/// Keeps one copy of the probes and answers of many hosts that are equal.
#[derive(Debug, Default)]
pub struct AnswerPool {
    probes: ContentPool<Probe>,
    hashing: DefaultHashBuilder,
    /// The last different answers to each question, by its digest.
    answers: [Mutex<HashMap<u64, RecentAnswers>>; PARTS],
}

/// The last different answers to a question.
#[derive(Debug, Default)]
struct RecentAnswers {
    kept: Vec<Arc<ProbeAnswer>>,
    /// The position of the oldest one, once there are [`COMPARED`].
    oldest: usize,
}

impl AnswerPool {
    pub(super) fn share_probe(&self, probe: Arc<Probe>) -> Arc<Probe> {
        self.probes.share(probe)
    }

    /// Returns the kept copy of an answer to `probe`.
    pub(super) fn share_answer(&self, probe: &Probe, answer: Arc<ProbeAnswer>) -> Arc<ProbeAnswer> {
        let question = self.digest_question(probe);
        let part = &self.answers[(question >> 32) as usize % PARTS];
        let mut part = part.lock().unwrap_or_else(PoisonError::into_inner);
        part.entry(question).or_default().share(answer)
    }

    /// Two questions may have the same digest: answers are compared with each other.
    fn digest_question(&self, probe: &Probe) -> u64 {
        match probe {
            // The digest of the desired content may differ from host to host, and does not determine the answer.
            Probe::Path { path, .. } => self.hashing.hash_one(path),
            probe => self.hashing.hash_one(probe),
        }
    }
}

impl RecentAnswers {
    fn share(&mut self, answer: Arc<ProbeAnswer>) -> Arc<ProbeAnswer> {
        if let Some(kept) = self.kept.iter().find(|kept| **kept == answer) {
            return kept.clone();
        }
        match self.kept.len() < COMPARED {
            true => self.kept.push(answer.clone()),
            false => self.kept[self.oldest] = answer.clone(),
        }
        self.oldest = (self.oldest + 1) % COMPARED;
        answer
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Observation, PathState, ProbeOutput, ProbeReading, UnansweredReason};
    use super::*;

    fn build_output(stdout: &str) -> ProbeReading {
        ProbeReading::Output(ProbeOutput { stdout: stdout.into(), ..ProbeOutput::default() })
    }

    fn build_path(want: &str) -> Probe {
        Probe::Path { path: "/etc/x".into(), want: Some(want.into()) }
    }

    /// A host whose file has other desired content than that of the other hosts, with an answer of its own.
    fn observe(host: usize, pool: &AnswerPool) -> Observation {
        let mut seen = Observation::default();
        seen.insert(build_path(&host.to_string()), Ok(ProbeReading::Path(PathState::Absent)));
        seen.insert(Probe::Fact { name: "os".into() }, Ok(build_output("debian")));
        seen.insert(Probe::Fact { name: "boot".into() }, Ok(build_output(&host.to_string())));
        seen.insert(Probe::AptSources, Err(UnansweredReason::new("timed out")));
        seen.share_answers(pool);
        seen
    }

    #[test]
    fn sharing_changes_no_answer() {
        let pool = AnswerPool::default();
        for host in 0..50 {
            let (seen, other) = (observe(host, &pool), observe(host, &AnswerPool::default()));
            assert_eq!(seen, other, "{host}");
            assert_eq!(seen.get(&Probe::Fact { name: "boot".into() }), Ok(&build_output(&host.to_string())));
        }
    }

    #[test]
    fn equal_answers_of_hosts_are_one_allocation() {
        let pool = AnswerPool::default();
        let hosts: Vec<Observation> = (0..50).map(|host| observe(host, &pool)).collect();
        let answer = |host: usize, probe: &Probe| std::ptr::from_ref(hosts[host].get(probe).unwrap());
        for host in 1..50 {
            let os = Probe::Fact { name: "os".into() };
            assert_eq!(answer(0, &os), answer(host, &os));
            assert_eq!(answer(0, &build_path("0")), answer(host, &build_path(&host.to_string())));
        }
    }
}
