//! Runs the tests of a set, one after the other.

use super::host_proof::store_proofs;
use super::isolate::isolate_faults;
use super::measure::MeasureContext;
use super::report::{ACCEPTANCE_VERSION, AcceptanceReport, MeasuredScope, SkippedHost, TestReport, TestRow};
use super::round_progress::RoundProgress;
use super::test_host::{TestHost, open_test_host};
use super::test_round::{TestRun, apply_peer_limit};
use super::test_scripts::build_run_stop_script;
use crate::acceptance::{
    ExpectedValue, MemberPair, TestVerdict, compare_with_baseline, expect_peers, limit_rounds, schedule_groups,
    schedule_ring, schedule_rounds,
};
use crate::config::{DeclaredLimit, DeclaredTest, PairSelection, Project, TestPrograms};
use crate::engine::cancel::{CancelSignal, StopLevel};
use crate::engine::event::{Event, EventSender};
use crate::engine::run_options::RunOptions;
use crate::model::{HostName, HostOutcome};
use futures_util::StreamExt;
use futures_util::future::join_all;
use std::collections::BTreeSet;
use std::convert::Infallible;
use std::time::{Duration, Instant};

/// Interval at which programs are stopped again after a stop request: one may have been starting.
const STOP_INTERVAL: Duration = Duration::from_millis(500);
/// Timeout of stopping the programs of a host.
const STOP_LIMIT: Duration = Duration::from_secs(30);

/// What to test.
pub struct AcceptanceRequest<'r> {
    /// The name of the set.
    pub set: &'r str,
    /// The selected hosts.
    pub hosts: &'r [HostName],
    /// Hosts that must not be tested, with the reason.
    pub skipped: Vec<SkippedHost>,
    /// The earlier run to compare with.
    pub baseline: Option<AcceptanceReport>,
}

/// Runs a set. A stop request ends the programs on the hosts, and the run; a second one does not wait for the hosts.
pub async fn run_acceptance(
    project: &Project,
    request: AcceptanceRequest<'_>,
    options: &RunOptions,
    events: &EventSender,
    cancel: &CancelSignal,
) -> AcceptanceReport {
    let began = Instant::now();
    let tests = project.tests.sets.get(request.set).map(Vec::as_slice).unwrap_or_default();
    let mut report = AcceptanceReport {
        version: ACCEPTANCE_VERSION,
        run: options.run.clone(),
        cluster: project.cluster.clone(),
        set: request.set.to_owned(),
        tests: Vec::new(),
        skipped: request.skipped,
        unstored: Vec::new(),
        against: request.baseline.as_ref().map(|baseline| baseline.run.clone()),
        interrupted: false,
        took: began.elapsed(),
    };
    let used: BTreeSet<&HostName> = tests.iter().flat_map(|test| &test.hosts).collect();
    let is_wanted =
        |host: &&HostName| used.contains(host) && !report.skipped.iter().any(|skipped| skipped.host == **host);
    let wanted: Vec<&HostName> = request.hosts.iter().filter(is_wanted).collect();
    // Sending fails only when the receiver is gone, shortly before the process ends.
    let _ = events.send(Event::ExecStarted { hosts: wanted.len() });
    let basis = tests.iter().flat_map(|test| test.definition.rests_on.fact_names()).collect();
    let opening = wanted.iter().map(|host| open_test_host(project, options, host, &basis));
    let opened: Vec<_> = futures_util::stream::iter(opening).buffered(options.parallel.max(1)).collect().await;
    let mut hosts = Vec::new();
    for result in opened {
        match result {
            Ok(host) => hosts.push(host),
            Err(skipped) => report.skipped.push(skipped),
        }
    }
    let compared = request.baseline.as_ref();
    let work = run_tests(project, tests, &hosts, (options, compared), (events, cancel), &mut report.tests);
    tokio::select! {
        () = work => {}
        never = stop_programs(project, &hosts, &options.run, cancel) => match never {},
        () = cancel.wait_for_level(StopLevel::Detach) => {}
    }
    report.interrupted = cancel.level() > StopLevel::No;
    if !report.interrupted {
        report.unstored = store_proofs(project, &hosts, &report, options).await;
    }
    for host in hosts {
        let (name, outcome) = (host.name.clone(), outcome_of(&report, &host.name));
        // A host that does not answer would delay the exit. Its lock is released with the connection.
        if cancel.level() < StopLevel::Detach {
            host.link.close().await;
        }
        let _ = events.send(Event::HostFinished { host: name, outcome, reason: Default::default() });
    }
    report.took = began.elapsed();
    report
}

async fn run_tests(
    project: &Project,
    tests: &[DeclaredTest],
    hosts: &[TestHost],
    (options, baseline): (&RunOptions, Option<&AcceptanceReport>),
    (events, cancel): (&EventSender, &CancelSignal),
    reports: &mut Vec<TestReport>,
) {
    let names: Vec<String> = (0..tests.len()).map(|at| format!("{}-{at}", options.run)).collect();
    let unplanned = RoundProgress::new(events, &[]);
    let build = |at: usize, progress| {
        let test = &tests[at];
        let own: Vec<&TestHost> = hosts.iter().filter(|host| test.hosts.contains(&host.name)).collect();
        let context = MeasureContext { project, test, run: &names[at], cancel };
        TestRun { context, hosts: own, tested: hosts.iter().collect(), place: at, progress }
    };
    let planned: Vec<usize> = (0..tests.len()).map(|at| build(at, &unplanned).count_rounds()).collect();
    let progress = RoundProgress::new(events, &planned);
    for at in 0..tests.len() {
        reports.push(build(at, &progress).run(options.parallel.max(1), baseline).await);
    }
}

/// Waits for a stop request, and then stops the programs of the run until the caller ends this.
async fn stop_programs(project: &Project, hosts: &[TestHost], run: &str, cancel: &CancelSignal) -> Infallible {
    cancel.wait_for_level(StopLevel::Finish).await;
    loop {
        let scripts = hosts.iter().map(|host| (host, build_run_stop_script(run)));
        join_all(scripts.map(|(host, stop)| host.link.run_script(stop, STOP_LIMIT, &project.secrets))).await;
        tokio::time::sleep(STOP_INTERVAL).await;
    }
}

/// A host failed if it was named; a bad pair alone does not say which of both is bad.
fn outcome_of(report: &AcceptanceReport, host: &HostName) -> HostOutcome {
    let named = report.tests.iter().flat_map(|test| &test.faults).any(|fault| fault.host.as_ref() == Some(host));
    if named { HostOutcome::Failed } else { HostOutcome::Ok }
}

impl TestRun<'_> {
    async fn run(&self, parallel: usize, baseline: Option<&AcceptanceReport>) -> TestReport {
        let test = self.context.test;
        let mut report = TestReport {
            test: test.definition.name.clone(),
            about: test.definition.about.clone(),
            scope: match test.definition.programs {
                TestPrograms::Host(_) => MeasuredScope::Host,
                TestPrograms::Pair { .. } => MeasuredScope::Pair,
                TestPrograms::Group(_) => MeasuredScope::Group,
            },
            unit: test.definition.output.unit().to_owned(),
            rows: Vec::new(),
            faults: Vec::new(),
            suspects: Vec::new(),
        };
        let rails = self.list_rails();
        if rails.is_empty() || self.hosts.is_empty() {
            let why =
                if self.hosts.is_empty() { "no host is left to test" } else { "no active RDMA adapter was found" };
            report.rows.push(self.build_row(&self.hosts, None, 0, TestVerdict::not_measured(why), Vec::new()));
            return report;
        }
        match test.definition.programs {
            TestPrograms::Host(_) => self.run_on_hosts(&rails, parallel, &mut report).await,
            TestPrograms::Pair { .. } => self.run_on_pairs(&rails, &mut report).await,
            TestPrograms::Group(_) => self.run_on_groups(&mut report).await,
        }
        let limits = self.judge_by_peers(&rails, &mut report);
        if report.scope != MeasuredScope::Host && !self.is_stopped() {
            isolate_faults(self, &rails, &limits, &mut report).await;
        }
        if let Some(baseline) = baseline {
            compare_rows(&mut report, baseline, test);
        }
        report
    }

    /// Returns the rails: declared ones, or every adapter that a host has. A test without adapters has one nameless rail.
    fn list_rails(&self) -> Vec<Option<String>> {
        let test = self.context.test;
        match (test.definition.uses_rails() && !test.parameters.contains_key("device"), test.rails.is_empty()) {
            (false, _) => vec![None],
            (true, false) => test.rails.iter().cloned().map(Some).collect(),
            (true, true) => {
                let found: BTreeSet<&String> = self.hosts.iter().flat_map(|host| host.adapters.keys()).collect();
                found.into_iter().cloned().map(Some).collect()
            }
        }
    }

    /// Returns the number of planned rounds.
    fn count_rounds(&self) -> usize {
        let rails = self.list_rails().len();
        match self.context.test.definition.programs {
            _ if self.hosts.is_empty() => 0,
            TestPrograms::Host(_) => rails,
            _ if self.hosts.len() < 2 => 0,
            TestPrograms::Pair { .. } => rails * self.list_pair_rounds().len(),
            TestPrograms::Group(_) => self.list_group_rounds().len(),
        }
    }

    async fn run_on_hosts(&self, rails: &[Option<String>], parallel: usize, report: &mut TestReport) {
        for (round, rail) in rails.iter().enumerate() {
            let first = report.rows.len();
            if self.is_stopped() {
                return;
            }
            let started =
                self.progress.start_round((self.place, false), &report.test, rail.as_deref(), self.hosts.len());
            let turns = self.hosts.iter().enumerate().map(|(at, host)| async move {
                match self.is_stopped() {
                    true => None,
                    false => Some((*host, self.context.measure_host(host, rail.as_deref(), first + at).await)),
                }
            });
            let done: Vec<_> = futures_util::stream::iter(turns).buffered(parallel).collect().await;
            self.progress.finish_round(started);
            for (host, measured) in done.into_iter().flatten() {
                report.rows.push(self.build_row(&[host], rail.clone(), round + 1, measured.verdict, measured.outputs));
            }
        }
    }

    async fn run_on_groups(&self, report: &mut TestReport) {
        if self.hosts.len() < 2 {
            let why = "fewer than two hosts are left to test";
            report.rows.push(self.build_row(&self.hosts, None, 0, TestVerdict::not_measured(why), Vec::new()));
            return;
        }
        for (number, groups) in self.list_group_rounds().iter().enumerate() {
            if self.is_stopped() {
                return;
            }
            self.run_groups(groups, (number + 1, false), report).await;
        }
    }

    fn list_group_rounds(&self) -> Vec<Vec<Vec<usize>>> {
        let of_pairs = |pairs: Vec<MemberPair>| pairs.into_iter().map(|(one, other)| vec![one, other]).collect();
        match self.context.test.group_size {
            2 => self.list_pair_rounds().into_iter().map(of_pairs).collect(),
            size => schedule_groups(self.hosts.len(), size, self.context.test.at_once),
        }
    }

    fn list_pair_rounds(&self) -> Vec<Vec<MemberPair>> {
        let rounds = match self.context.test.pairs {
            PairSelection::Ring => schedule_ring(self.hosts.len()),
            PairSelection::All => schedule_rounds(self.hosts.len()),
        };
        limit_rounds(rounds, self.context.test.at_once)
    }

    async fn run_on_pairs(&self, rails: &[Option<String>], report: &mut TestReport) {
        if self.hosts.len() < 2 {
            let why = "fewer than two hosts are left to test";
            report.rows.push(self.build_row(&self.hosts, None, 0, TestVerdict::not_measured(why), Vec::new()));
            return;
        }
        let rounds = self.list_pair_rounds();
        let mut number = 0;
        for rail in rails {
            for pairs in &rounds {
                if self.is_stopped() {
                    return;
                }
                number += 1;
                self.run_round(pairs, rail.as_deref(), (number, false), report).await;
            }
        }
    }

    /// Judges the results of each rail by their median, if that is declared. Returns the limit of each rail.
    fn judge_by_peers(&self, rails: &[Option<String>], report: &mut TestReport) -> Vec<Option<ExpectedValue>> {
        let DeclaredLimit::Peers(share) = self.context.test.expected else { return vec![None; rails.len()] };
        let output = self.context.test.definition.output;
        let mut limits = Vec::new();
        for rail in rails {
            let of_rail: Vec<&mut TestRow> = report.rows.iter_mut().filter(|row| row.rail == *rail).collect();
            let values: Vec<f64> = of_rail.iter().filter_map(|row| row.verdict.value()).collect();
            let limit = expect_peers(&values, output.is_more_better(), share, output.unit());
            of_rail.into_iter().for_each(|row| apply_peer_limit(row, limit.as_ref()));
            limits.push(limit);
        }
        limits
    }
}

fn compare_rows(report: &mut TestReport, baseline: &AcceptanceReport, test: &DeclaredTest) {
    let more_is_better = test.definition.output.is_more_better();
    let earlier: Vec<&TestRow> =
        baseline.tests.iter().filter(|test| test.test == report.test).flat_map(|test| &test.rows).collect();
    for row in &mut report.rows {
        let same = |other: &&&TestRow| other.hosts == row.hosts && other.rail == row.rail;
        let before = earlier.iter().find(same).and_then(|other| other.verdict.value());
        if let (Some(value), Some(before)) = (row.verdict.value(), before) {
            row.worse = compare_with_baseline(value, before, more_is_better, test.baseline_drop);
        }
    }
}
