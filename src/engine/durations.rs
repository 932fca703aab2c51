//! Durations of steps and reboots in past runs.

use super::event::StepResult;
use super::history::read_run;
use super::report::{HostReport, RunReport};
use crate::model::StepId;
use crate::state;
use camino::Utf8Path;
use std::collections::HashMap;
use std::time::Duration;

/// Number of runs that are read, newest first: older durations are poor estimates.
const MAX_RUNS_READ: usize = 5;
/// Larger reports are skipped so that they do not delay the start of a run.
const MAX_REPORT_BYTES: u64 = 32 << 20;

/// The median durations of each step that changed, and of reboots.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PastDurations {
    pub(super) steps: HashMap<StepId, Duration>,
    pub(super) reboot: Option<Duration>,
}

impl PastDurations {
    /// Reads a cluster's newest runs from a state folder. Unreadable runs are skipped: an apply must not fail because
    /// of an estimate.
    pub fn read_from_state(state: &Utf8Path, cluster: &str) -> Self {
        let folders = state::list_runs(state).unwrap_or_default();
        let own = folders.iter().filter(|run| run.read_info().is_ok_and(|info| info.cluster == cluster));
        let small = own.filter(|run| {
            ["report.json", "journal.ndjson"].iter().all(|file| file_size(&run.path.join(file)) <= MAX_REPORT_BYTES)
        });
        let reports: Vec<RunReport> =
            small.take(MAX_RUNS_READ).filter_map(|run| Some(read_run(run).ok()?.report)).collect();
        Self::from_reports(&reports)
    }

    /// Computes the durations from reports.
    pub fn from_reports(reports: &[RunReport]) -> Self {
        let mut steps: HashMap<StepId, Vec<Duration>> = HashMap::new();
        let mut reboots = Vec::new();
        for host in reports.iter().flat_map(|report| &report.hosts) {
            for (step, took) in list_step_durations(host) {
                steps.entry(step.clone()).or_default().push(took);
            }
            reboots.extend(host.reboots.iter().map(|reboot| reboot.took));
        }
        Self {
            steps: steps.into_iter().filter_map(|(step, times)| Some((step, median(times)?))).collect(),
            reboot: median(reboots),
        }
    }
}

/// Returns the duration of each step that changed. Steps of one script are not timed separately: each reports the
/// script's duration, equal to the nanosecond, and gets an equal share of it.
fn list_step_durations(host: &HostReport) -> impl Iterator<Item = (&StepId, Duration)> {
    let scripts = host.steps.chunk_by(|one, next| one.id.recipe == next.id.recipe && one.took == next.took);
    let own = scripts.flat_map(|script| {
        let parts = u32::try_from(script.len()).unwrap_or(u32::MAX);
        script.iter().map(move |step| (step, step.took / parts))
    });
    let done = own.filter(|(step, _)| matches!(step.result, StepResult::Changed | StepResult::Pending { .. }));
    done.filter(|(step, _)| !step.took.is_zero()).map(|(step, took)| (&step.id, took))
}

fn median(mut times: Vec<Duration>) -> Option<Duration> {
    let middle = times.len() / 2;
    (!times.is_empty()).then(|| *times.select_nth_unstable(middle).1)
}

fn file_size(path: &Utf8Path) -> u64 {
    path.metadata().map_or(0, |about| about.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::report::StepReport;
    use crate::engine::{CompletedReboot, Event};
    use crate::model::{HostName, HostOutcome};
    use crate::state::{RunInfo, StateStore};

    fn step_report_of(name: &str, result: StepResult, ms: u64) -> StepReport {
        StepReport {
            id: StepId::new("r", name),
            title: "".into(),
            result,
            hint: None,
            check: None,
            changes: Vec::new(),
            took: Duration::from_millis(ms),
            place: String::new(),
        }
    }

    fn report_of(steps: Vec<StepReport>, reboots: &[u64]) -> RunReport {
        let reboot = |s: &u64| CompletedReboot { from: "a".into(), to: "b".into(), took: Duration::from_secs(*s) };
        let host = HostReport {
            steps,
            reboots: reboots.iter().map(reboot).collect(),
            ..crate::engine::host_report::empty_report(&HostName::new("n1"), HostOutcome::Changed, "".into())
        };
        RunReport {
            version: 1,
            run: "r".into(),
            verb: "apply".into(),
            cluster: "c".into(),
            plan: None,
            simulated: Vec::new(),
            hosts: vec![host],
            budget_spent: false,
            interrupted: false,
            evict_busy: None,
            took: Duration::ZERO,
        }
    }

    fn step_milliseconds(past: &PastDurations, name: &str) -> Option<u64> {
        Some(past.steps.get(&StepId::new("r", name))?.as_millis() as u64)
    }

    #[test]
    fn step_duration_is_the_median_over_changed_results() {
        let ok = || StepResult::AlreadyOk { reason: "".into() };
        let runs = [10, 900, 20].map(|ms| {
            report_of(
                vec![
                    step_report_of("a", StepResult::Changed, ms),
                    step_report_of("b", ok(), 5),
                    step_report_of("c", StepResult::Changed, 7),
                ],
                &[],
            )
        });
        let past = PastDurations::from_reports(&runs);
        assert_eq!(["a", "b", "c"].map(|name| step_milliseconds(&past, name)), [Some(20), None, Some(7)]);
        assert_eq!(past.reboot, None);
        assert_eq!(
            PastDurations::from_reports(&[report_of(vec![], &[60, 240, 300])]).reboot,
            Some(Duration::from_secs(240))
        );
        assert_eq!(PastDurations::from_reports(&[]), PastDurations::default());
    }

    #[test]
    fn steps_of_one_script_share_its_time() {
        let steps = ["a", "b", "c"].map(|name| step_report_of(name, StepResult::Changed, 900));
        let past = PastDurations::from_reports(&[report_of(steps.to_vec(), &[])]);
        assert_eq!(step_milliseconds(&past, "b"), Some(300));
    }

    #[test]
    fn past_durations_include_runs_without_a_report() {
        let dir = tempfile::tempdir().unwrap();
        let state = Utf8Path::from_path(dir.path()).unwrap();
        let info = |cluster: &str| RunInfo { version: 1, cluster: cluster.into(), ..RunInfo::default() };
        let whole = StateStore::new(state, "c").create_run("20260101T000000-a").unwrap();
        whole.write_json("run.json", &info("c")).unwrap();
        whole.write_json("report.json", &report_of(vec![step_report_of("a", StepResult::Changed, 100)], &[])).unwrap();
        let mut killed = StateStore::new(state, "c").create_run("20260102T000000-b").unwrap();
        killed.write_json("run.json", &info("c")).unwrap();
        let finished = Event::StepFinished {
            host: HostName::new("n1"),
            step: StepId::new("r", "b"),
            title: "".into(),
            result: StepResult::Changed,
            hint: None,
            check: None,
            changes: Vec::new(),
            took: Duration::from_millis(40),
        };
        killed.append_entry(&finished).unwrap();
        let other = StateStore::new(state, "other").create_run("20260103T000000-c").unwrap();
        other.write_json("run.json", &info("other")).unwrap();
        other.write_json("report.json", &report_of(vec![step_report_of("c", StepResult::Changed, 100)], &[])).unwrap();
        let broken = StateStore::new(state, "c").create_run("20260104T000000-d").unwrap();
        broken.write_json("run.json", &info("c")).unwrap();
        broken.write_json("report.json", &"not a report").unwrap();
        let past = PastDurations::read_from_state(state, "c");
        assert_eq!(["a", "b", "c"].map(|name| step_milliseconds(&past, name)), [Some(100), Some(40), None]);
        assert_eq!(PastDurations::read_from_state(&state.join("gone"), "c"), PastDurations::default());
    }
}
