//! A simulated fabric with planted faults: it answers runs with values, as hosts would.

use super::fabric::{FabricModel, FabricPart};
use super::group_run::GroupRun;
use super::isolation::{FaultIsolation, IsolationReport, RunSpeed};

/// The share of the expected value below which a run is slow.
const SLOW_BELOW: f64 = 0.9;

/// Pseudo-random numbers from a seed (SplitMix64).
pub struct SeededNumbers(u64);

impl SeededNumbers {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0xf0f0_1234_5678_9abc)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number from 0 to 1.
    pub fn share(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Returns a number below `end`.
    pub fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }
}

/// A fabric in which some parts are slow.
pub struct SimulatedFabric<'f> {
    pub fabric: &'f FabricModel,
    /// Bad parts with the share of their speed that is left.
    pub faults: Vec<(FabricPart, f64)>,
    /// Every value varies by up to this share, in both directions.
    pub jitter: f64,
    /// The share of runs that something else disturbs, which makes them much slower.
    pub disturbed: f64,
    pub numbers: SeededNumbers,
}

impl SimulatedFabric<'_> {
    /// Measures a run: its slowest flow decides.
    pub fn measure(&mut self, run: &GroupRun) -> RunSpeed {
        let covered = run.covered_parts(self.fabric);
        let passed = |part: FabricPart| covered.contains(self.fabric.part_number(self.fabric.joined_part(part)));
        let slowest = self.faults.iter().filter(|(part, _)| passed(*part)).map(|(_, left)| *left).fold(1.0, f64::min);
        let jitter = 1.0 + self.jitter * (2.0 * self.numbers.share() - 1.0);
        let disturbed = if self.numbers.share() < self.disturbed { 0.6 } else { 1.0 };
        let value = slowest * jitter * disturbed;
        if value < SLOW_BELOW { RunSpeed::Slow(value) } else { RunSpeed::Fast(value) }
    }

    /// Searches for the faults.
    pub fn isolate(&mut self, limit: usize) -> IsolationReport {
        let mut search = FaultIsolation::new(self.fabric, limit);
        while let Some(run) = search.next_run() {
            let speed = self.measure(&run);
            search.record_run(run, speed);
        }
        search.finish()
    }
}
