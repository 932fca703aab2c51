//! Tests a host before it is brought back into service. Only tests of one host: others are in service.

use super::host_proof::store_proofs;
use super::report::{TestReport, TestRow};
use super::test_host::{TestHost, TestSession, list_test_probes, refuse_in_use};
use super::test_run::{TestedBatch, list_fact_names, run_tests, stop_programs};
use crate::acceptance::TestVerdict;
use crate::engine::cancel::StopLevel;
use crate::engine::event::{Event, ReturnTest};
use crate::engine::host_work::HostWork;
use crate::engine::window::{ReturnCheck, ReturnFuture, WindowRefusal, list_unexplained_holders};
use crate::model::UntrustedText;
use crate::plan::HostWindow;
use crate::probe::Probe;
use std::collections::BTreeSet;

/// The tests of `rollout.return_tests`.
pub(in crate::engine) struct ReturnTests;

impl ReturnCheck for ReturnTests {
    fn check_host<'c>(&'c self, work: &'c mut HostWork<'_>, window: &'c HostWindow) -> ReturnFuture<'c> {
        Box::pin(async move {
            match window.return_tests.is_empty() {
                true => (Vec::new(), Ok(())),
                false => test_before_return(work, window).await,
            }
        })
    }
}

/// The measurements of a host.
struct HostMeasurements {
    reports: Vec<TestReport>,
    /// Why the host does not have their results.
    unstored: Option<UntrustedText>,
}

/// Runs the tests that the plan names, and reports their results.
async fn test_before_return(
    work: &mut HostWork<'_>,
    window: &HostWindow,
) -> (Vec<ReturnTest>, Result<(), WindowRefusal>) {
    let host = work.host().clone();
    work.run.emit_event(Event::ReturnTestsStarted { host: host.clone(), tests: window.return_tests.clone() });
    let HostMeasurements { reports, unstored } = match measure_host(work, window).await {
        Ok(measured) => measured,
        Err(refusal) => return (Vec::new(), Err(refusal)),
    };
    // An entry of the set may be about other hosts.
    let rows = || reports.iter().flat_map(|report| report.rows.iter().map(move |row| (report, row)));
    let own = rows().filter(|(_, row)| row.hosts.contains(&host));
    let tests: Vec<ReturnTest> = own.map(|(report, row)| build_result(report, row)).collect();
    work.run.emit_event(Event::ReturnTestsFinished { host, tests: tests.clone() });
    let lost = rows().any(|(_, row)| !row.lost.is_empty());
    if lost && work.observe(&BTreeSet::from([Probe::Records]), &work.run.project.secrets).await.is_err() {
        return (tests, Err(WindowRefusal::Stopped));
    }
    let passed = judge_results(&tests).and_then(|()| match unstored {
        Some(why) => Err(WindowRefusal::Failed(format!("cannot store the results of its tests: {}", why.raw()))),
        None => Ok(()),
    });
    (tests, passed)
}

/// Measures the host, and stores which tests it passed.
async fn measure_host(work: &mut HostWork<'_>, window: &HostWindow) -> Result<HostMeasurements, WindowRefusal> {
    let (run, name) = (work.run, work.host());
    let declared = run.project.rollout.return_tests.as_ref().map(|(set, _)| set);
    let Some((set, tests)) = declared.and_then(|set| Some((set, run.project.tests.sets.get(set)?))) else {
        return Err(WindowRefusal::Failed("the tests that the plan names are not declared".to_owned()));
    };
    let probes = list_test_probes(&list_fact_names(tests));
    let observation = work.link.observe(&probes, &run.project.secrets).await?;
    refuse_in_use(list_unexplained_holders(work, window, &observation))
        .map_err(|why| WindowRefusal::Failed(format!("not tested before its return: {}", why.raw())))?;
    let mut host = TestHost::new(run.project, name, TestSession::Lent(work.link.session()));
    host.read_observation(run.project, &observation);
    let hosts = [host];
    let mut reports = Vec::new();
    let batch = TestedBatch {
        project: run.project,
        tests,
        hosts: &hosts,
        number: 0,
        returning: Some(name.clone()),
        cluster: None,
    };
    tokio::select! {
        () = run_tests(&batch, (run.options, None), (run.events, run.cancel), &mut reports) => {}
        never = stop_programs(run.project, &hosts, &run.options.run, run.cancel) => match never {},
        () = run.cancel.wait_for_level(StopLevel::Detach) => {}
    }
    if run.cancel.level() > StopLevel::No {
        return Err(WindowRefusal::Failed("its tests were stopped".to_owned()));
    }
    let stored = store_proofs(run.project, &hosts, (set, &run.options.run), &reports, run.options).await;
    Ok(HostMeasurements { reports, unstored: stored.into_iter().find_map(|stored| stored.failed) })
}

fn build_result(report: &TestReport, row: &TestRow) -> ReturnTest {
    let outputs = match row.verdict {
        TestVerdict::Pass { .. } => Vec::new(),
        _ => row.outputs.clone(),
    };
    ReturnTest {
        test: report.test.clone(),
        rail: row.rail.clone(),
        verdict: row.verdict.clone(),
        unit: report.unit.clone(),
        outputs,
    }
}

/// A failed test says more than one that could not be measured.
fn judge_results(tests: &[ReturnTest]) -> Result<(), WindowRefusal> {
    let name = |test: &ReturnTest| match &test.rail {
        Some(rail) => format!("test `{}` of {rail}", test.test),
        None => format!("test `{}`", test.test),
    };
    let failed = tests.iter().find_map(|test| match &test.verdict {
        TestVerdict::Fail { reason, .. } => Some(format!("{} failed: {reason}", name(test))),
        _ => None,
    });
    let missing = || {
        tests.iter().find_map(|test| match &test.verdict {
            TestVerdict::NotMeasured { reason } => Some(format!("{} was not measured: {reason}", name(test))),
            _ => None,
        })
    };
    let nothing = || tests.is_empty().then(|| "none of its tests was measured".to_owned());
    match failed.or_else(missing).or_else(nothing) {
        Some(why) => Err(WindowRefusal::Failed(why)),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn result(test: &str, verdict: TestVerdict) -> ReturnTest {
        ReturnTest { test: test.into(), rail: None, verdict, unit: String::new(), outputs: Vec::new() }
    }

    #[test]
    fn only_passed_tests_bring_a_host_back() {
        let pass = || result("a", TestVerdict::Pass { value: 1.0, expected: "at least 1".into() });
        let missing = || result("b", TestVerdict::not_measured("exit status 1"));
        let fail = || result("c", TestVerdict::Fail { value: Some(0.5), reason: "0.5, expected at least 1".into() });
        assert_eq!(judge_results(&[pass(), pass()]), Ok(()));
        let unknown = "test `b` was not measured: exit status 1".to_owned();
        assert_eq!(judge_results(&[pass(), missing()]), Err(WindowRefusal::Failed(unknown)));
        assert_eq!(judge_results(&[]), Err(WindowRefusal::Failed("none of its tests was measured".to_owned())));
        let failed = "test `c` of mlx5_0 failed: 0.5, expected at least 1".to_owned();
        let of_rail = ReturnTest { rail: Some("mlx5_0".into()), ..fail() };
        assert_eq!(judge_results(&[missing(), of_rail]), Err(WindowRefusal::Failed(failed)), "the failure is named");
    }
}
