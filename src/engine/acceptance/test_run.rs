//! Runs the tests of a set, one after the other.

use super::adapter_values::list_value_facts;
use super::gpu_memory::list_option_facts;
use super::isolate::isolate_faults;
use super::measure::{MeasureContext, not_measured};
use super::report::{AcceptanceReport, ComparedValues, MeasuredScope, TestReport, TestRow};
use super::round_progress::RoundProgress;
use super::test_cluster::TestCluster;
use super::test_host::TestHost;
use super::test_round::{PeerLimit, TestRun, apply_peer_limit};
use super::test_scripts::build_run_stop_script;
use crate::acceptance::{MemberPair, compare_with_baseline, expect_peers};
use crate::config::{DeclaredLimit, DeclaredTest, PairSelection, PlannedRounds, Project, TestPrograms};
use crate::engine::cancel::{CancelSignal, StopLevel};
use crate::engine::event::EventSender;
use crate::engine::run_options::RunOptions;
use crate::model::HostName;
use futures_util::StreamExt;
use futures_util::future::join_all;
use std::collections::BTreeSet;
use std::convert::Infallible;
use std::time::Duration;

/// Interval at which programs are stopped again after a stop request: one may have been starting.
const STOP_INTERVAL: Duration = Duration::from_millis(500);
/// Timeout of stopping the programs of a host.
const STOP_LIMIT: Duration = Duration::from_secs(30);

/// The hosts that are tested at the same time.
pub(super) struct TestedBatch<'r> {
    pub project: &'r Project,
    pub tests: &'r [DeclaredTest],
    pub hosts: &'r [TestHost<'r>],
    /// The number of the batch, counted from 0.
    pub number: usize,
    /// The only host, if it is tested before it is brought back into service.
    pub returning: Option<HostName>,
    /// Where tests run that start as jobs.
    pub cluster: Option<&'r TestCluster<'r>>,
}

/// Returns the facts that the results and programs of tests depend on.
pub(super) fn list_fact_names(tests: &[DeclaredTest]) -> BTreeSet<&'static str> {
    let needs = tests.iter().map(|test| &test.definition);
    let options = needs.clone().flat_map(|test| list_option_facts(&test.programs)).copied();
    let values = needs.clone().flat_map(|test| list_value_facts(&test.programs));
    needs.flat_map(|test| test.rests_on.fact_names()).chain(options).chain(values).collect()
}

/// Runs the tests of a set on a batch, one after the other.
pub(super) async fn run_tests(
    batch: &TestedBatch<'_>,
    (options, baseline): (&RunOptions, Option<&AcceptanceReport>),
    (events, cancel): (&EventSender, &CancelSignal),
    reports: &mut Vec<TestReport>,
) {
    let TestedBatch { project, tests, hosts, number, cluster, .. } = *batch;
    let names: Vec<String> = (0..tests.len()).map(|at| format!("{}-{number}-{at}", options.run)).collect();
    let unplanned = RoundProgress::new(events, None, &[]);
    let build = |at: usize, progress| {
        let test = &tests[at];
        let own: Vec<&TestHost<'_>> = hosts.iter().filter(|host| test.hosts.contains(&host.name)).collect();
        let context = MeasureContext { project, test, run: &names[at], cancel, cluster };
        TestRun { context, hosts: own, tested: hosts.iter().collect(), place: at, progress }
    };
    let planned: Vec<usize> = (0..tests.len()).map(|at| build(at, &unplanned).count_rounds()).collect();
    let progress = RoundProgress::new(events, batch.returning.clone(), &planned);
    for at in 0..tests.len() {
        reports.push(build(at, &progress).run(options.parallel.max(1), baseline).await);
    }
}

/// Waits for a stop request, and then stops the programs of the run until the caller ends this.
pub(super) async fn stop_programs(
    project: &Project,
    hosts: &[TestHost<'_>],
    run: &str,
    cancel: &CancelSignal,
) -> Infallible {
    cancel.wait_for_level(StopLevel::Finish).await;
    loop {
        let scripts = hosts.iter().map(|host| (host, build_run_stop_script(run)));
        join_all(scripts.map(|(host, stop)| host.link.run_script(stop, STOP_LIMIT, &project.secrets))).await;
        tokio::time::sleep(STOP_INTERVAL).await;
    }
}

impl TestRun<'_> {
    async fn run(&self, parallel: usize, baseline: Option<&AcceptanceReport>) -> TestReport {
        let test = self.context.test;
        let mut report = TestReport {
            test: test.definition.name.clone(),
            parameters: test.list_parameters(),
            about: test.definition.about.clone(),
            scope: match test.definition.programs {
                TestPrograms::Host(_) | TestPrograms::Loopback { .. } => MeasuredScope::Host,
                TestPrograms::Pair { .. } => MeasuredScope::Pair,
                TestPrograms::Group(_) => MeasuredScope::Group,
            },
            unit: test.definition.output.unit().to_owned(),
            rows: Vec::new(),
            faults: Vec::new(),
            suspects: Vec::new(),
            comparison: ComparedValues::default(),
        };
        let rails = self.list_rails();
        if rails.is_empty() || self.hosts.is_empty() {
            let why =
                if self.hosts.is_empty() { "no host is left to test" } else { "no active RDMA adapter was found" };
            report.rows.push(self.build_row(&self.hosts, None, 0, not_measured(why, Vec::new())));
            return report;
        }
        match test.definition.programs {
            TestPrograms::Host(_) | TestPrograms::Loopback { .. } => {
                self.run_on_hosts(&rails, parallel, &mut report).await
            }
            TestPrograms::Pair { .. } => self.run_on_pairs(&rails, &mut report).await,
            TestPrograms::Group(_) => self.run_on_groups(&mut report).await,
        }
        let limits = self.judge_by_peers(&rails, &mut report);
        if report.scope != MeasuredScope::Host && !self.is_stopped() {
            isolate_faults(self, &rails, &limits, &mut report).await;
        }
        if let Some(baseline) = baseline {
            let more_is_better = test.definition.output.is_more_better();
            compare_rows(&mut report, baseline, more_is_better, test.baseline_drop);
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
            TestPrograms::Host(_) | TestPrograms::Loopback { .. } => rails,
            _ if self.hosts.len() < 2 => 0,
            TestPrograms::Pair { .. } => {
                let rails = self.list_rails();
                rails
                    .iter()
                    .filter_map(|rail| self.plan_pairs(rail.as_deref()).ok())
                    .map(|plan| plan.rounds.len())
                    .sum()
            }
            TestPrograms::Group(_) => self.plan_groups().map_or(0, |plan| plan.rounds.len()),
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
                report.rows.push(self.build_row(&[host], rail.clone(), round + 1, measured));
            }
        }
    }

    async fn run_on_groups(&self, report: &mut TestReport) {
        if self.hosts.len() < 2 {
            return self.note_unmeasured(&self.hosts, None, "fewer than two hosts are left to test", report);
        }
        let plan = match self.plan_groups() {
            Ok(plan) => plan,
            Err(why) => return self.note_unmeasured(&self.hosts, None, &why, report),
        };
        for (number, groups) in plan.rounds.iter().enumerate() {
            if self.is_stopped() {
                return;
            }
            self.run_groups(groups, (number + 1, false), report).await;
        }
        self.note_alone_hosts(&plan.alone, None, report);
    }

    fn plan_groups(&self) -> Result<PlannedRounds<Vec<usize>>, String> {
        self.context.test.plan_group_rounds(&self.context.project.fabric, &self.list_names())
    }

    fn plan_pairs(&self, rail: Option<&str>) -> Result<PlannedRounds<MemberPair>, String> {
        self.context.test.plan_pair_rounds(&self.context.project.fabric, &self.list_names(), rail)
    }

    fn list_names(&self) -> Vec<&HostName> {
        self.hosts.iter().map(|host| &host.name).collect()
    }

    /// Reports hosts that the schedule leaves out.
    fn note_alone_hosts(&self, alone: &[usize], rail: Option<&str>, report: &mut TestReport) {
        let why = match self.context.test.pairs {
            PairSelection::Leaf => "no other host of its leaf is tested",
            _ => "no host of another leaf is tested",
        };
        alone.iter().for_each(|host| self.note_unmeasured(&[self.hosts[*host]], rail, why, report));
    }

    fn note_unmeasured(&self, hosts: &[&TestHost<'_>], rail: Option<&str>, why: &str, report: &mut TestReport) {
        report.rows.push(self.build_row(hosts, rail.map(str::to_owned), 0, not_measured(why, Vec::new())));
    }

    async fn run_on_pairs(&self, rails: &[Option<String>], report: &mut TestReport) {
        if self.hosts.len() < 2 {
            return self.note_unmeasured(&self.hosts, None, "fewer than two hosts are left to test", report);
        }
        let mut number = 0;
        for rail in rails {
            let plan = match self.plan_pairs(rail.as_deref()) {
                Ok(plan) => plan,
                Err(why) => {
                    self.note_unmeasured(&self.hosts, rail.as_deref(), &why, report);
                    continue;
                }
            };
            for pairs in &plan.rounds {
                if self.is_stopped() {
                    return;
                }
                number += 1;
                self.run_round(pairs, rail.as_deref(), (number, false), report).await;
            }
            self.note_alone_hosts(&plan.alone, rail.as_deref(), report);
        }
    }

    /// Judges the results of each rail by their median, if that is declared. Returns the limit of each rail.
    fn judge_by_peers(&self, rails: &[Option<String>], report: &mut TestReport) -> Vec<Option<PeerLimit>> {
        let DeclaredLimit::Peers(share) = self.context.test.expected else { return vec![None; rails.len()] };
        let output = self.context.test.definition.output;
        let mut limits = Vec::new();
        for rail in rails {
            let of_rail: Vec<&mut TestRow> = report.rows.iter_mut().filter(|row| row.rail == *rail).collect();
            let values: Vec<f64> = of_rail.iter().filter_map(|row| row.verdict.value()).collect();
            let limit = expect_peers(&values, output.is_more_better(), share, output.unit());
            of_rail.into_iter().for_each(|row| apply_peer_limit(row, limit.as_ref()));
            limits.push(Some(limit));
        }
        limits
    }
}

/// Compares each value with that of an earlier run. `drop` is the share of it that a value may lose.
fn compare_rows(report: &mut TestReport, baseline: &AcceptanceReport, more_is_better: bool, drop: f64) {
    let of_test: Vec<&TestReport> = baseline.tests.iter().filter(|other| other.test == report.test).collect();
    let is_same = |other: &&&TestReport| other.parameters == report.parameters;
    let same_tests: Vec<&TestReport> = of_test.iter().filter(is_same).copied().collect();
    let others: Vec<&TestRow> = of_test.iter().filter(|other| !is_same(other)).flat_map(|test| &test.rows).collect();
    let earlier: Vec<&TestRow> = same_tests.iter().flat_map(|test| &test.rows).collect();
    let counts = &mut report.comparison;
    for row in &mut report.rows {
        let Some(value) = row.verdict.value() else { continue };
        let same = |other: &&&TestRow| other.hosts == row.hosts && other.rail == row.rail;
        let has_value = |rows: &[&TestRow]| rows.iter().filter(same).find_map(|other| other.verdict.value());
        match has_value(&earlier) {
            Some(before) => {
                row.worse = compare_with_baseline(value, before, more_is_better, drop);
                counts.compared += 1;
            }
            None if has_value(&others).is_some() => counts.other_parameters += 1,
            None => counts.without_earlier += 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::acceptance::TestVerdict;
    use crate::view::sample;

    /// Found on an H100: the bandwidth from the GPU was compared with the earlier one to it.
    #[test]
    fn results_are_compared_with_those_of_the_same_parameters() {
        let earlier = |case: &str, values: &[f64]| {
            let mut test = sample::acceptance_report().tests.remove(0);
            test.parameters = [("testcase".to_owned(), case.to_owned())].into();
            test.rows.truncate(values.len());
            test.comparison = ComparedValues::default();
            for (row, value) in test.rows.iter_mut().zip(values) {
                (row.worse, row.verdict) = (None, TestVerdict::Pass { value: *value, expected: String::new() });
            }
            test
        };
        let baseline = AcceptanceReport {
            tests: vec![earlier("to", &[54.6]), earlier("from", &[48.0])],
            ..sample::acceptance_report()
        };
        let compare = |case: &str, value: f64| {
            let mut report = earlier(case, &[value]);
            compare_rows(&mut report, &baseline, true, 0.05);
            (report.rows.remove(0).worse.is_some(), report.comparison)
        };
        let compared = ComparedValues { compared: 1, ..ComparedValues::default() };
        let other_parameters = ComparedValues { other_parameters: 1, ..ComparedValues::default() };
        assert_eq!(compare("from", 47.6), (false, compared));
        assert_eq!(compare("to", 47.6), (true, compared));
        assert_eq!(compare("between", 1.0), (false, other_parameters), "never measured");
    }

    #[test]
    fn values_without_an_earlier_one_are_not_counted_as_compared() {
        let mut baseline = sample::acceptance_report();
        let compare = |baseline: &AcceptanceReport| {
            let mut report = sample::acceptance_report().tests.remove(0);
            report.comparison = ComparedValues::default();
            compare_rows(&mut report, baseline, true, 0.05);
            report.comparison
        };
        assert_eq!(compare(&baseline), ComparedValues { compared: 2, ..ComparedValues::default() }, "of three rows");
        baseline.tests[0].rows.truncate(1);
        let one = ComparedValues { compared: 1, without_earlier: 1, ..ComparedValues::default() };
        assert_eq!(compare(&baseline), one, "the earlier run did not measure the second pair");
        baseline.tests.clear();
        assert_eq!(compare(&baseline), ComparedValues { without_earlier: 2, ..ComparedValues::default() });
    }
}
