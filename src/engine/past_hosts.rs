//! Hosts by their outcome in the last run: the selectors `@failed`, `@unreachable`, `@changed` and `@unfinished`.

use super::history::read_run;
use super::report::{HostReport, StepReport};
use crate::model::{HostName, HostOutcome};
use crate::state::{RunFolder, StateStore, list_runs};
use camino::Utf8Path;

/// The hosts of a past run, by outcome.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PastHosts {
    /// The name of the run.
    pub run: String,
    /// Its command: `apply`, `undo` or `verify`.
    pub verb: String,
    /// The names of the sets, with `@`, and their hosts.
    pub sets: Vec<(&'static str, Vec<HostName>)>,
}

/// A set has the hosts of which this is true.
type OutcomeTest = fn(&HostReport) -> bool;

const OUTCOME_SETS: [(&str, OutcomeTest); 4] = [
    ("@failed", |host| {
        matches!(host.outcome, HostOutcome::Failed | HostOutcome::Blocked | HostOutcome::Stale | HostOutcome::Locked)
    }),
    ("@unreachable", |host| host.outcome == HostOutcome::Unreachable),
    ("@changed", |host| host.steps.iter().any(StepReport::has_changed_host)),
    ("@unfinished", HostReport::is_unfinished),
];

impl HostReport {
    /// Reports whether the run did not bring the host to the declared state.
    pub fn is_unfinished(&self) -> bool {
        !matches!(self.outcome, HostOutcome::Ok | HostOutcome::Changed)
    }
}

/// Reads a run of a cluster, by default the last `apply`, `undo` or `verify`; `None` if there was none.
///
/// # Errors
/// The history cannot be read: a lowercase fragment.
pub fn find_past_hosts(state: &Utf8Path, cluster: &str, run: Option<&str>) -> Result<Option<PastHosts>, String> {
    let own = StateStore::new(state, cluster);
    let own = own.root().file_name().unwrap_or_default().to_owned();
    let folders = list_runs(state).map_err(|error| format!("the history cannot be read: {error}"))?;
    let wanted = |folder: &&RunFolder| folder.cluster == own && run.is_none_or(|run| folder.run == run);
    for folder in folders.iter().filter(wanted) {
        let past = read_run(folder).map_err(|why| format!("run `{}` cannot be read: {why}", folder.run))?;
        if !matches!(past.info.verb.as_str(), "apply" | "undo" | "verify") {
            continue;
        }
        let of =
            |test: OutcomeTest| past.report.hosts.iter().filter(move |host| test(host)).map(|host| host.host.clone());
        let sets = OUTCOME_SETS.map(|(name, test)| (name, of(test).collect())).into();
        return Ok(Some(PastHosts { run: folder.run.clone(), verb: past.info.verb, sets }));
    }
    Ok(None)
}
