//! An interruption at any moment costs nothing: each built-in recipe is interrupted by each fault at each boundary of its
//! steps, and the next run, from another controller, ends where a run without the fault ends.
//!
//! A test runs a sample; `tests/faults/run` runs the whole matrix and writes docs/reliability.md.

mod case;
mod gate;

mod kills;
mod leftovers;
mod reader;
mod results;

use crate::proof::{self, Proof};
use case::{Bench, Boundary, Defect, Fault, Reference};
use results::Seed;
use sha2::{Digest, Sha256};
use std::sync::Mutex;
use std::time::{Duration, Instant};

fn digest(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

fn list(variable: &str) -> Option<Vec<String>> {
    let text = std::env::var(variable).ok()?;
    Some(text.split(',').map(str::to_owned).collect())
}

fn is_wanted(variable: &str, name: &str) -> bool {
    list(variable).is_none_or(|all| all.iter().any(|one| one == name))
}

/// The proof files that run on Debian 12: those of single recipes, and of whole servers.
fn subjects() -> Vec<(String, Proof)> {
    let folders = list("FORGE_FAULTS_FOLDERS").unwrap_or_else(|| vec!["library".to_owned(), "stacks".to_owned()]);
    let files = folders.iter().flat_map(|folder| proof::proofs(folder, None));
    let files = files.map(|(name, path)| (name, proof::read_proof(&path)));
    files.filter(|(name, proof)| proof.runs_on_debian_12() && is_wanted("FORGE_FAULTS_RECIPES", name)).collect()
}

/// Applies a proof file without any fault.
fn learn(name: &str, proof: &Proof) -> Option<Reference> {
    let nodes = case::take_nodes(proof)?;
    match Bench::new(name, proof, &nodes).learn() {
        Ok(reference) => Some(reference),
        Err(defect) => panic!("{name}: {defect}"),
    }
}

/// Runs one case and reports it; `None` if there is no fleet.
fn run_case(name: &str, proof: &Proof, reference: &Reference, fault: Fault, boundary: Boundary) -> Option<bool> {
    let began = Instant::now();
    let nodes = case::take_nodes(proof)?;
    let result = Bench::new(name, proof, &nodes).interrupt(fault, boundary, reference);
    let case = format!("{name} {} {} ({} s)", fault.name(), boundary.name(), began.elapsed().as_secs());
    match &result {
        Ok(()) => println!("ok     {case}"),
        Err(Defect(why)) => println!("DEFECT {case} at {}: {why}", reference.describe_stop(boundary)),
    }
    results::record_case(name, fault.name(), boundary.name(), result.is_ok());
    Some(result.is_ok())
}

/// Returns the cases of a recipe: boundaries that are the same moment are one.
fn cases(name: &str, reference: &Reference) -> Vec<(Fault, Boundary)> {
    let only_missing = std::env::var_os("FORGE_FAULTS_MISSING").is_some();
    let mut cases = Vec::new();
    for fault in Fault::ALL.into_iter().filter(|fault| fault.concerns(reference)) {
        let mut stops = Vec::new();
        for boundary in Boundary::ALL {
            let Some(stop) = reference.stop_at(boundary).filter(|stop| !stops.contains(stop)) else { continue };
            stops.push(stop);
            let is_wanted = is_wanted("FORGE_FAULTS", fault.name())
                && is_wanted("FORGE_FAULTS_BOUNDARIES", boundary.name())
                && !(only_missing && results::has_passed_before(name, fault.name(), boundary.name()));
            if is_wanted {
                cases.push((fault, boundary));
            }
        }
    }
    cases
}

#[test]
#[ignore = "takes hours: tests/faults/run"]
fn every_recipe_survives_every_fault_at_every_boundary() {
    let minutes: u64 = std::env::var("FORGE_FAULTS_MINUTES").map_or(600, |text| text.parse().expect("minutes"));
    let end = Instant::now() + Duration::from_secs(60 * minutes);
    let (left, broken) = (Mutex::new(subjects()), Mutex::new(0));
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                loop {
                    let next = left.lock().unwrap().pop();
                    let Some((name, proof)) = next.filter(|_| Instant::now() < end) else { break };
                    let Some(reference) = learn(&name, &proof) else { break };
                    for (fault, boundary) in cases(&name, &reference) {
                        if Instant::now() < end && run_case(&name, &proof, &reference, fault, boundary) == Some(false) {
                            *broken.lock().unwrap() += 1;
                        }
                    }
                }
            });
        }
    });
    assert_eq!(broken.into_inner().unwrap(), 0, "the defects are listed above");
}

/// Recipes whose proof takes some seconds only.
const QUICK: [&str; 6] = ["host-tuning", "ibacm-off", "nouveau", "rdma-netns", "base-hold", "containerd"];

/// `FORGE_FAULTS_SEED` chooses another sample.
#[test]
fn sample_of_interruptions_costs_nothing() {
    let mut seed = Seed::from_environment("FORGE_FAULTS_SEED");
    let mut subjects: Vec<_> = subjects().into_iter().filter(|(name, _)| QUICK.contains(&name.as_str())).collect();
    for _ in 0..2 {
        let (name, proof) = subjects.remove(seed.below(subjects.len() as u64) as usize);
        let Some(reference) = learn(&name, &proof) else { return };
        let mut cases = cases(&name, &reference);
        for _ in 0..2 {
            let (fault, boundary) = cases.remove(seed.below(cases.len() as u64) as usize);
            assert_eq!(run_case(&name, &proof, &reference, fault, boundary), Some(true));
        }
    }
}
