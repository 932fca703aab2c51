//! One test on its hosts: measures the pairs of a round at the same time.

use super::measure::{MeasureContext, TestMeasurement};
use super::report::{TestReport, TestRow};
use super::round_progress::RoundProgress;
use super::test_host::TestHost;
use crate::acceptance::{ExpectedValue, MemberPair, TestVerdict, format_number};
use futures_util::future::join_all;

/// One test on its hosts.
pub(super) struct TestRun<'r> {
    pub context: MeasureContext<'r>,
    pub hosts: Vec<&'r TestHost<'r>>,
    /// All hosts that this run has locked.
    pub tested: Vec<&'r TestHost<'r>>,
    /// The place of the test in its set.
    pub place: usize,
    pub progress: &'r RoundProgress<'r>,
}

impl TestRun<'_> {
    pub fn is_stopped(&self) -> bool {
        self.context.is_stopped()
    }

    /// Measures pairs at the same time, each in both directions.
    pub async fn run_round(
        &self,
        pairs: &[MemberPair],
        rail: Option<&str>,
        (round, isolation): (usize, bool),
        report: &mut TestReport,
    ) {
        let first = report.rows.len();
        let started = self.progress.start_round((self.place, isolation), &report.test, rail, pairs.len());
        let measured = join_all(pairs.iter().enumerate().map(|(at, (one, other))| async move {
            let (one, other) = (self.hosts[*one], self.hosts[*other]);
            let number = first + 2 * at;
            let forth = self.context.measure_pair(one, other, rail, number).await;
            let back = self.context.measure_pair(other, one, rail, number + 1).await;
            [([one, other], forth), ([other, one], back)]
        }))
        .await;
        self.progress.finish_round(started);
        for (hosts, measured) in measured.into_iter().flatten() {
            let row = self.build_row(&hosts, rail.map(str::to_owned), round, measured);
            report.rows.push(TestRow { isolation, ..row });
        }
    }

    /// Measures groups at the same time.
    pub async fn run_groups(&self, groups: &[Vec<usize>], (round, isolation): (usize, bool), report: &mut TestReport) {
        let first = report.rows.len();
        let started = self.progress.start_round((self.place, isolation), &report.test, None, groups.len());
        let measured = join_all(groups.iter().enumerate().map(|(at, group)| async move {
            let hosts: Vec<&TestHost<'_>> = group.iter().map(|host| self.hosts[*host]).collect();
            let measured = self.context.measure_group(&hosts, &self.tested, first + at).await;
            (hosts, measured)
        }))
        .await;
        self.progress.finish_round(started);
        for (hosts, measured) in measured {
            let row = self.build_row(&hosts, None, round, measured);
            report.rows.push(TestRow { isolation, ..row });
        }
    }

    pub fn build_row(
        &self,
        hosts: &[&TestHost<'_>],
        rail: Option<String>,
        round: usize,
        measured: TestMeasurement,
    ) -> TestRow {
        let TestMeasurement { verdict, outputs, lost } = measured;
        let hosts = hosts.iter().map(|host| host.name.clone()).collect();
        TestRow { hosts, rail, round, isolation: false, verdict, worse: None, outputs, lost }
    }
}

/// The limit that the results of a rail give each other, or why they give none.
pub(super) type PeerLimit = Result<ExpectedValue, String>;

/// Judges a measured value by the limit that its peers give, if they give one.
pub(super) fn apply_peer_limit(row: &mut TestRow, limit: Result<&ExpectedValue, &String>) {
    if let TestVerdict::Pass { value, .. } = row.verdict {
        row.verdict = match limit {
            Ok(limit) if value <= 0.0 && !limit.more_is_better => {
                TestVerdict::not_measured(format!("the program printed {}", format_number(value)))
            }
            Ok(limit) => limit.judge(value),
            Err(why) => TestVerdict::not_measured(why),
        };
    }
}
