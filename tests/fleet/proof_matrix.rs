//! Carries out the proof files of a folder on one distribution after another.

use crate::distribution::{ClaimedDistribution, Distribution, ProofSystem};
use crate::proof::{Proof, mark_claimed, mark_on, proofs, prove, read_proof};
use crate::support::Fleet;
use std::sync::Mutex;
use std::time::Instant;

/// Parallel proofs: more would only wait for a processor.
const AT_ONCE: usize = 4;

/// One proof file on one system.
struct Task {
    system: ProofSystem,
    name: String,
    proof: Proof,
}

impl Task {
    /// Returns whether its hosts can run on the system. Boards simulate the hardware of hosts with Debian 12.
    fn is_possible(&self) -> bool {
        match self.system {
            ProofSystem::Claimed(distribution) => self.proof.claims.contains(&distribution),
            ProofSystem::Release(release) => {
                let elsewhere = release != Distribution::Debian12 && self.proof.hardware.is_some();
                self.proof.on_debian && !elsewhere && !self.proof.not_on.contains_key(release.name())
            }
        }
    }

    fn run(&self, marks: &str) {
        let proof = &self.proof;
        assert!(proof.tampers.len() >= 3, "{}: needs at least three tampers", self.name);
        let Some(nodes) = Fleet::take_on(self.system.release(), proof.hosts) else { return };
        prove(&self.name, proof, self.system, &nodes);
        let name = self.name.split('@').next().unwrap_or_default();
        let own = [name.to_owned()];
        let subjects = if proof.kinds.is_empty() { &own } else { proof.kinds.as_slice() };
        subjects.iter().for_each(|subject| self.mark(marks, subject));
    }

    /// Records that `subject` passed: the label `real` requires real hardware and real packages.
    fn mark(&self, marks: &str, subject: &str) {
        let simulated = self.proof.hardware.is_some() || !self.proof.stand_ins.is_empty();
        match self.system {
            ProofSystem::Claimed(distribution) => mark_claimed(distribution, subject),
            ProofSystem::Release(release) if self.proof.kinds.is_empty() && simulated => {
                mark_on(release, &format!("profiles/{subject}"));
            }
            ProofSystem::Release(release) if self.proof.kinds.is_empty() => {
                mark_on(release, &format!("{marks}{subject}"));
            }
            ProofSystem::Release(release) => mark_on(release, subject),
        }
    }
}

/// Runs the proof files of a folder of `tests/fleet` on `distributions`, or only the file that the environment variable
/// `variable` names, or only the distribution that `FORGE_DISTRIBUTION` names. Marks start with `marks`.
pub fn carry_out(folder: &str, marks: &str, variable: &str, distributions: &[Distribution]) {
    let wanted = distributions.iter().filter(|&one| Distribution::wanted().is_none_or(|wanted| wanted == *one));
    let systems: Vec<_> = match ClaimedDistribution::wanted() {
        Some(_) => Vec::new(),
        None => wanted.map(|&release| ProofSystem::Release(release)).collect(),
    };
    run_all(folder, marks, variable, &systems);
}

/// Runs the proof files of a folder of `tests/fleet` on hosts that claim to be the distributions in their key `claims`, or
/// only the file that the environment variable `variable` names, or only the distribution that `FORGE_CLAIM` names.
pub fn carry_out_claims(folder: &str, marks: &str, variable: &str) {
    let wanted = ClaimedDistribution::ALL.iter();
    let wanted = wanted.filter(|&one| ClaimedDistribution::wanted().is_none_or(|wanted| wanted == *one));
    let systems: Vec<_> = match Distribution::wanted() {
        Some(_) => Vec::new(),
        None => wanted.map(|&distribution| ProofSystem::Claimed(distribution)).collect(),
    };
    run_all(folder, marks, variable, &systems);
}

/// Says in the log that proofs were not carried out. `scripts/test` counts the line, and checks it against
/// `scripts/skips.allow`.
const SHORT_OF_TIME: &str =
    "skipped: proofs on other distributions than Debian 12: the machine is too slow to carry them out in time";

fn run_all(folder: &str, marks: &str, variable: &str, systems: &[ProofSystem]) {
    let is_other = |system: &ProofSystem| *system != ProofSystem::Release(Distribution::Debian12);
    if std::env::var_os("FORGE_SHORT_OF_TIME").is_some() && systems.iter().all(is_other) {
        println!("{SHORT_OF_TIME}");
        return;
    }
    if systems.is_empty() || Fleet::require().is_none() {
        return;
    }
    let files = proofs(folder, std::env::var(variable).ok().as_deref());
    let tasks = systems.iter().flat_map(|&system| {
        files.iter().map(move |(name, path)| Task { system, name: name.clone(), proof: read_proof(path) })
    });
    let tasks: Vec<_> = tasks.filter(Task::is_possible).collect();
    let (left, broken) = (Mutex::new(tasks), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                loop {
                    let next = left.lock().unwrap().pop();
                    let Some(task) = next else { break };
                    let began = Instant::now();
                    let passed = std::panic::catch_unwind(|| task.run(marks)).is_ok();
                    let (on, result) = (task.system.name(), if passed { "proven" } else { "broken" });
                    println!("{folder} {} on {on}: {result} ({} s)", task.name, began.elapsed().as_secs());
                    if !passed {
                        broken.lock().unwrap().push(task.name);
                    }
                }
            });
        }
    });
    assert!(broken.into_inner().unwrap().is_empty(), "the failed proofs are listed above");
}
