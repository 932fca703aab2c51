//! Finds the bad part: screens groups, splits those that are slow, and compares each suspect with hosts that are known
//! to be good.
//!
//! One [`GroupRun`] is one measurement. A fast run clears every part that it passes. A slow run has at least one bad
//! part among those that no run has cleared; a part that explains several slow runs is more likely than parts that
//! explain one each (set cover). A part is named after two slow runs in which everything else is cleared or far less
//! likely, so that one disturbed run accuses nothing.

use super::fabric::{FabricModel, FabricPart, HostIndex};
use super::group_run::{GroupRun, ring_around, screening_groups};
use super::part_set::PartSet;
use super::run_choice::{SuspectWeights, choose_run, local_run, narrow_run};

/// How many times more likely a part is for each slow run that it explains: a second bad part is that much rarer.
const EXPLAINED_RUN_FACTOR: f64 = 30.0;
/// The share of the suspicion that one part must carry to be named.
const NAMING_SHARE: f64 = 0.98;
/// How often a suspect must be slow next to known-good hosts.
const CONFIRMATIONS: usize = 2;

/// The result of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum RunSpeed {
    /// Every flow was fast enough. The value is the slowest, as a share of the expected value.
    Fast(f64),
    /// At least one flow was too slow. The value is the slowest, as a share of the expected value.
    Slow(f64),
    /// The run did not give a value.
    NotMeasured,
}

/// A run with its result.
#[derive(Clone, Debug, PartialEq)]
pub struct FinishedRun {
    /// What ran.
    pub run: GroupRun,
    /// Its result.
    pub speed: RunSpeed,
}

/// A part that is bad, with the runs that show it.
#[derive(Clone, Debug, PartialEq)]
pub struct NamedPart {
    /// The part.
    pub part: FabricPart,
    /// The slow runs that pass it, by their position in [`IsolationReport::runs`].
    pub slow_runs: Vec<usize>,
    /// The slow runs in which no other suspect is left.
    pub confirmed_by: Vec<usize>,
}

/// What the isolation found.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct IsolationReport {
    /// The bad parts, in the order in which they were found.
    pub named: Vec<NamedPart>,
    /// Suspects that no run could separate, or that were left when the runs were used up. Not a verdict.
    pub suspects: Vec<FabricPart>,
    /// All runs, in order.
    pub runs: Vec<FinishedRun>,
    /// Whether the limit of runs ended the search.
    pub is_cut_short: bool,
}

/// The search for bad parts. Ask for the next run, run it, and record its result, until no run is left.
#[derive(Clone, Debug)]
pub struct FaultIsolation<'f> {
    fabric: &'f FabricModel,
    groups: Vec<Vec<HostIndex>>,
    limit: usize,
    done: Vec<FinishedRun>,
    /// What each finished run passes.
    covers: Vec<PartSet>,
    cleared: PartSet,
    named: Vec<NamedPart>,
    suspects: Vec<FabricPart>,
    is_cut_short: bool,
}

/// The next step of the search.
enum SearchStep {
    Run(GroupRun),
    Name(FabricPart, Vec<usize>),
    GiveUp(Vec<FabricPart>),
    Finished,
}

impl<'f> FaultIsolation<'f> {
    /// Returns a search that uses `limit` runs at most, after the screening of √n groups.
    pub fn new(fabric: &'f FabricModel, limit: usize) -> Self {
        Self {
            fabric,
            groups: screening_groups(fabric),
            limit,
            done: Vec::new(),
            covers: Vec::new(),
            cleared: PartSet::with_capacity(fabric.part_count()),
            named: Vec::new(),
            suspects: Vec::new(),
            is_cut_short: false,
        }
    }

    /// Returns a search that starts from runs that were made already, without a screening, and makes `more` at most.
    pub fn from_runs(fabric: &'f FabricModel, runs: Vec<FinishedRun>, more: usize) -> Self {
        let mut search = Self { groups: Vec::new(), ..Self::new(fabric, runs.len() + more) };
        runs.into_iter().for_each(|finished| search.record_run(finished.run, finished.speed));
        search
    }

    /// Returns the groups of the screening. They share no host: they can run at the same time.
    pub fn groups(&self) -> &[Vec<HostIndex>] {
        &self.groups
    }

    /// Returns the next run; `None` when the search is finished.
    pub fn next_run(&mut self) -> Option<GroupRun> {
        if let Some(group) = self.groups.get(self.done.len()) {
            let rails: Vec<usize> = (0..self.fabric.rail_count()).collect();
            return Some(GroupRun::ring(group, &rails));
        }
        loop {
            match self.next_step() {
                SearchStep::Run(_) if self.done.len() >= self.limit => {
                    self.is_cut_short = true;
                    self.suspects = self.remaining_suspects();
                    return None;
                }
                SearchStep::Run(run) => return Some(run),
                SearchStep::Name(part, confirmed_by) => self.name_part(part, confirmed_by),
                SearchStep::GiveUp(suspects) => {
                    self.suspects = suspects;
                    return None;
                }
                SearchStep::Finished => return None,
            }
        }
    }

    /// Records the result of a run.
    pub fn record_run(&mut self, run: GroupRun, speed: RunSpeed) {
        let covered = run.covered_parts(self.fabric);
        if let RunSpeed::Fast(_) = speed {
            self.cleared.insert_all(&covered);
        }
        self.covers.push(covered);
        self.done.push(FinishedRun { run, speed });
    }

    /// Returns the findings.
    pub fn finish(self) -> IsolationReport {
        IsolationReport { named: self.named, suspects: self.suspects, runs: self.done, is_cut_short: self.is_cut_short }
    }

    fn next_step(&self) -> SearchStep {
        let open = self.unexplained_runs();
        let Some(target) = open.iter().copied().min_by_key(|at| self.suspects_of(*at).count()) else {
            return self.screen_rest();
        };
        // A bad switch or rail makes most groups slow; a single slow group may have been disturbed.
        let few = open.len() <= self.groups.len().div_ceil(4);
        if few && target < self.groups.len() && self.slow_times(target) == 1 {
            return SearchStep::Run(self.done[target].run.clone());
        }
        let weights = self.weigh_suspects(&open);
        let suspects = self.suspects_of(target);
        let total: f64 = suspects.iter().map(|part| weights.of(part)).sum();
        let heaviest = suspects.iter().max_by(|one, other| weights.of(*one).total_cmp(&weights.of(*other)));
        let Some(likeliest) = heaviest else { return SearchStep::Finished };
        let choice = match weights.of(likeliest) >= total * NAMING_SHARE {
            true => None,
            false => choose_run(self.fabric, &self.done[target].run, &suspects, &weights),
        };
        match choice {
            Some(run) => SearchStep::Run(run),
            None if weights.of(likeliest) >= total * NAMING_SHARE => self.confirm(likeliest, &weights),
            None => SearchStep::GiveUp(suspects.iter().map(|part| self.fabric.part_at(part)).collect()),
        }
    }

    /// Names the part if it was confirmed often enough; else returns the run that can confirm it. The confirming runs
    /// must have no other suspect in common.
    fn confirm(&self, part: usize, weights: &SuspectWeights) -> SearchStep {
        let is_narrow = |at: &usize| {
            let others: f64 = self.suspects_of(*at).iter().filter(|of| *of != part).map(|of| weights.of(of)).sum();
            self.covers[*at].contains(part)
                && self.done[*at].run.hosts().len() <= 2
                && others <= weights.of(part) * (1.0 - NAMING_SHARE)
        };
        let confirmed: Vec<usize> = self.unexplained_runs().into_iter().filter(is_narrow).collect();
        let shared = confirmed.iter().map(|at| self.suspects_of(*at)).reduce(|all, of| all.intersection(&of));
        let mut shared = shared.unwrap_or_default();
        shared.remove(part);
        if let Some(step) = self.confirm_within_leaf(part, weights, &confirmed) {
            return step;
        }
        let narrow = narrow_run(self.fabric, self.fabric.part_at(part), weights, &shared);
        let is_separate = shared.is_empty() || narrow.as_ref().is_none_or(|run| !run.is_free_of(self.fabric, &shared));
        if confirmed.len() >= CONFIRMATIONS + self.disturbed_runs() && is_separate {
            return SearchStep::Name(self.fabric.part_at(part), confirmed);
        }
        match narrow {
            Some(run) => SearchStep::Run(run),
            None => SearchStep::GiveUp(vec![self.fabric.part_at(part)]),
        }
    }

    /// Returns the run within its leaf that must be slow before a host is named, if routes are assumed and no such run
    /// was slow: the route to the host may be slow instead.
    fn confirm_within_leaf(&self, part: usize, weights: &SuspectWeights, confirmed: &[usize]) -> Option<SearchStep> {
        let is_local = |at: &usize| {
            let run = &self.done[*at].run;
            run.flows.iter().all(|flow| self.fabric.is_local(*flow))
        };
        if !self.fabric.has_uncertain_routes() || confirmed.iter().any(is_local) {
            return None;
        }
        let run = local_run(self.fabric, self.fabric.part_at(part), weights)?;
        match self.done.iter().any(|done| done.run == run) {
            true => Some(SearchStep::GiveUp(vec![self.fabric.part_at(part)])),
            false => Some(SearchStep::Run(run)),
        }
    }

    fn name_part(&mut self, part: FabricPart, confirmed_by: Vec<usize>) {
        let number = self.fabric.part_number(part);
        let slow = |at: &usize| self.is_slow(*at) && self.covers[*at].contains(number);
        let slow_runs = (0..self.done.len()).filter(slow).collect();
        self.named.push(NamedPart { part, slow_runs, confirmed_by });
    }

    /// Looks for more bad parts in everything that is not cleared and that can be reached without the known ones.
    fn screen_rest(&self) -> SearchStep {
        if self.named.is_empty() {
            return SearchStep::Finished;
        }
        let known: Vec<FabricPart> = self.named.iter().map(|named| named.part).collect();
        let mut run = GroupRun::default();
        for group in &self.groups {
            run.flows.extend(ring_around(self.fabric, group, &known).flows);
        }
        run.flows.retain(|flow| {
            let mut is_open = false;
            self.fabric.visit_flow(*flow, |part| is_open |= !self.cleared.contains(part));
            is_open
        });
        run.loopbacks = self.open_loopbacks(&known);
        match run.is_empty() {
            true => SearchStep::Finished,
            false => SearchStep::Run(run),
        }
    }

    /// Returns the adapters that a bad switch or cable hides from flows.
    fn open_loopbacks(&self, known: &[FabricPart]) -> Vec<(HostIndex, usize)> {
        let adapters = (0..self.fabric.host_count())
            .flat_map(|host| (0..self.fabric.rail_count()).map(move |rail| (host, rail)))
            .filter(|(host, rail)| {
                let adapter = self.fabric.joined_part(FabricPart::Adapter(*host, *rail));
                let is_known = known.contains(&FabricPart::Host(*host)) || known.contains(&adapter);
                !is_known && !self.cleared.contains(self.fabric.part_number(adapter))
            });
        if self.fabric.has_loopback() { adapters.collect() } else { Vec::new() }
    }

    fn is_slow(&self, at: usize) -> bool {
        matches!(self.done[at].speed, RunSpeed::Slow(_))
    }

    /// Returns how often exactly this run was slow.
    fn slow_times(&self, at: usize) -> usize {
        let same = |other: &usize| self.is_slow(*other) && self.done[*other].run == self.done[at].run;
        (0..self.done.len()).filter(same).count()
    }

    /// Returns the slow runs that no named part explains and that still have suspects: one without was disturbed.
    fn unexplained_runs(&self) -> Vec<usize> {
        let explained =
            |at: usize| self.named.iter().any(|named| self.covers[at].contains(self.fabric.part_number(named.part)));
        let open = |at: &usize| self.is_slow(*at) && !explained(*at) && !self.suspects_of(*at).is_empty();
        (0..self.done.len()).filter(open).collect()
    }

    /// Returns the number of slow runs without a suspect: something else disturbed them, and may disturb others.
    fn disturbed_runs(&self) -> usize {
        (0..self.done.len()).filter(|at| self.is_slow(*at) && self.suspects_of(*at).is_empty()).count()
    }

    fn suspects_of(&self, at: usize) -> PartSet {
        self.covers[at].without(&self.cleared)
    }

    fn remaining_suspects(&self) -> Vec<FabricPart> {
        let open = self.unexplained_runs();
        let narrowest = open.into_iter().map(|at| self.suspects_of(at)).min_by_key(PartSet::count);
        narrowest.iter().flat_map(PartSet::iter).map(|part| self.fabric.part_at(part)).collect()
    }

    fn weigh_suspects(&self, open: &[usize]) -> SuspectWeights {
        let mut explained = vec![0_i32; self.fabric.part_count()];
        for at in open {
            self.suspects_of(*at).iter().for_each(|part| explained[part] += 1);
        }
        let of_part = |(part, runs): (usize, &i32)| match self.cleared.contains(part) {
            true => 0.0,
            false => EXPLAINED_RUN_FACTOR.powi(*runs),
        };
        let weights = explained.iter().enumerate().map(of_part).collect();
        let known = self.named.iter().map(|named| self.fabric.part_number(named.part)).collect();
        SuspectWeights::new(self.fabric, weights, known)
    }
}
