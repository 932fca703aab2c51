//! Past runs: read from the state folder, rebuilt from their journals if they have no report, and compared.

use super::event::{DrainedNode, Event, ReturnTest, StepResult, VerifyResult};
use super::report::{HostReport, RunReport, StepReport, VerifyReport};
use crate::model::{HostName, HostOutcome, StepId};
use crate::state::{JOURNAL, RunFolder, RunInfo};
use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::Duration;

/// A past run.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct PastRun {
    /// Who started the run, when, and for which inventory and cluster.
    pub info: RunInfo,
    /// Whether the run finished. Otherwise it is still active, or its controller was stopped.
    pub finished: bool,
    /// Whether a process on this machine is still working on the run.
    pub active: bool,
    /// What the run was doing when its journal ends; empty if it finished.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub in_flight: Vec<StepInFlight>,
    /// The results; rebuilt from the journal if the run did not finish.
    pub report: RunReport,
}

impl PastRun {
    /// Reports whether the run left nothing but its folder: its hosts are unknown. So ends the history of a run whose
    /// state folder was full from its beginning.
    pub fn is_unrecorded(&self) -> bool {
        !self.finished && !self.active && self.info.user.is_empty() && self.report.hosts.is_empty()
    }
}

/// A step that started and has no result yet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct StepInFlight {
    /// The host that the step runs on.
    pub host: HostName,
    /// The step.
    pub step: StepId,
    /// When it started: RFC 3339, UTC, by the controller's clock; absent in runs of older versions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
}

/// A line of a run's journal: an event and its time.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct JournalEntry {
    /// RFC 3339, UTC, by the controller's clock; absent in runs of older versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<String>,
    /// What happened.
    #[serde(flatten)]
    pub event: Event,
}

impl JournalEntry {
    /// Returns the entry of an event that happens at `now`.
    pub fn at(now: jiff::Timestamp, event: Event) -> Self {
        Self { at: Some(now.to_string()), event }
    }
}

/// Reads a run from its folder.
///
/// # Errors
/// A file cannot be read or parsed: the reason, as a lowercase fragment.
pub fn read_run(folder: &RunFolder) -> Result<PastRun, String> {
    let mut info = folder.read_info()?;
    let Some(text) = folder.read_file("report.json")? else {
        let active = folder.is_active();
        let (report, in_flight) = rebuild_report(&info, active, &read_journal(folder)?);
        return Ok(PastRun { info, finished: false, active, in_flight, report });
    };
    let report = read_report(&text)?;
    info.verb = report.verb.clone();
    Ok(PastRun { info, finished: true, active: false, in_flight: Vec::new(), report })
}

/// Parses a stored report.
///
/// # Errors
/// The text is not a report, or has an unsupported version.
pub fn read_report(text: &str) -> Result<RunReport, String> {
    let report: RunReport = serde_json::from_str(text).map_err(|error| format!("it is not a report: {error}"))?;
    match report.version {
        1 => Ok(report),
        other => Err(format!("the report has version {other}, this forge supports version 1")),
    }
}

/// Reads a run's journal. The last line of a killed run may be truncated: only there an invalid line is ignored.
fn read_journal(folder: &RunFolder) -> Result<Vec<JournalEntry>, String> {
    let text = folder.read_file(JOURNAL)?.unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    let mut events = Vec::with_capacity(lines.len());
    for (at, line) in lines.iter().enumerate() {
        match serde_json::from_str(line) {
            Ok(entry) => events.push(entry),
            Err(_) if at + 1 == lines.len() => {}
            Err(error) => return Err(format!("line {} of the journal is invalid: {error}", at + 1)),
        }
    }
    Ok(events)
}

/// Rebuilds the report of a run without one, from its journal alone, and the steps in flight at its end. The exit code of
/// this report is not the run's.
fn rebuild_report(info: &RunInfo, active: bool, entries: &[JournalEntry]) -> (RunReport, Vec<StepInFlight>) {
    // Hosts that had not started when the run was killed have no events.
    let mut hosts: IndexMap<HostName, HostJournal> =
        info.hosts.iter().map(|host| (host.clone(), HostJournal::default())).collect();
    let mut budget_spent = false;
    for entry in entries {
        match &entry.event {
            Event::BudgetSpent { .. } => budget_spent = true,
            _ => apply_journal_event(entry, &mut hosts),
        }
    }
    let in_flight = hosts.iter().flat_map(|(host, trace)| trace.list_in_flight(host)).collect();
    let report = RunReport {
        version: 1,
        run: info.run.clone(),
        verb: info.verb.clone(),
        cluster: info.cluster.clone(),
        plan: None,
        simulated: info.simulated.iter().filter(|host| hosts.contains_key(*host)).cloned().collect(),
        hosts: hosts.into_iter().map(|(host, trace)| trace.into_host_report(host, active)).collect(),
        budget_spent,
        // The journal does not show whether the user stopped the run or it is still active.
        interrupted: false,
        evict_busy: None,
        took: Duration::ZERO,
    };
    (report, in_flight)
}

/// A host's part of the journal.
#[derive(Default)]
struct HostJournal {
    /// Steps that started and have no result yet, each with its time. Steps of one script start together.
    running: IndexMap<StepId, Option<String>>,
    steps: Vec<StepReport>,
    verify: Vec<VerifyReport>,
    reboots: Vec<super::event::CompletedReboot>,
    node: Option<DrainedNode>,
    return_tests: Vec<ReturnTest>,
    end: Option<(HostOutcome, crate::model::UntrustedText)>,
}

fn apply_journal_event(entry: &JournalEntry, hosts: &mut IndexMap<HostName, HostJournal>) {
    match &entry.event {
        Event::HostStarted { host, .. } => {
            hosts.entry(host.clone()).or_default();
        }
        Event::StepStarted { host, step, .. } => {
            hosts.entry(host.clone()).or_default().running.insert(step.clone(), entry.at.clone());
        }
        Event::StepFinished { host, step, title, result, hint, check, changes, took } => {
            let own = hosts.entry(host.clone()).or_default();
            own.running.shift_remove(step);
            own.steps.push(StepReport {
                id: step.clone(),
                title: title.clone(),
                result: result.clone(),
                hint: hint.clone(),
                check: check.clone(),
                changes: changes.clone(),
                took: *took,
                place: String::new(),
            });
        }
        Event::Verified { host, recipe, name, result, check } => {
            hosts.entry(host.clone()).or_default().verify.push(VerifyReport {
                recipe: recipe.clone(),
                name: name.clone(),
                result: result.clone(),
                check: check.clone(),
                of_step: false,
                place: String::new(),
            });
        }
        Event::Node { host, node, news } => {
            let trace = hosts.entry(host.clone()).or_default();
            trace.node = DrainedNode::after_event(trace.node.take(), node.clone(), news);
        }
        Event::ReturnTestsFinished { host, tests } => {
            hosts.entry(host.clone()).or_default().return_tests.clone_from(tests);
        }
        Event::Rebooted { host, reboot } => hosts.entry(host.clone()).or_default().reboots.push(reboot.clone()),
        Event::HostFinished { host, outcome, reason } => {
            hosts.entry(host.clone()).or_default().end = Some((*outcome, reason.clone()));
        }
        _ => {}
    }
}

impl HostJournal {
    /// Returns the running steps of a host that is not done.
    fn list_in_flight(&self, host: &HostName) -> Vec<StepInFlight> {
        let running = self.running.iter().filter(|_| self.end.is_none());
        running.map(|(step, at)| StepInFlight { host: host.clone(), step: step.clone(), since: at.clone() }).collect()
    }

    /// Returns the report of a host; the run may still be `active`.
    fn into_host_report(self, host: HostName, active: bool) -> HostReport {
        let took = self.steps.iter().map(|step| step.took).sum();
        let open = match (active, self.running.keys().next_back()) {
            (true, Some(step)) => format!("works on `{step}`"),
            (true, None) => "the run is in progress".to_owned(),
            (false, Some(step)) => format!("the run did not finish; the outcome of `{step}` is unknown"),
            (false, None) => "the run did not finish".to_owned(),
        };
        let open_outcome = if active { HostOutcome::Running } else { HostOutcome::Cancelled };
        let (outcome, reason) = self.end.unwrap_or((open_outcome, open.into()));
        HostReport {
            host,
            outcome,
            reason,
            hint: None,
            steps: self.steps,
            verify: self.verify,
            return_tests: self.return_tests,
            reboots: self.reboots,
            node: self.node,
            not_undone: Vec::new(),
            held_back_by: None,
            undeclared: Vec::new(),
            accepted: Vec::new(),
            took,
        }
    }
}

/// The differences between two runs.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct RunComparison {
    /// The run that the differences start from, usually the earlier one.
    pub from: RunInfo,
    /// The run that it is compared with.
    pub to: RunInfo,
    /// The outcomes that differ: by host, then by step or verification.
    pub differences: Vec<OutcomeDifference>,
    /// Number of outcomes that are equal in both runs.
    pub equal: usize,
}

/// A single difference.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
pub struct OutcomeDifference {
    /// The host whose outcomes differ.
    pub host: HostName,
    /// `recipe/step`, `recipe: name` of a verification; `None` for the host as a whole.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub what: Option<String>,
    /// `None` if the run did not contain it.
    pub from: Option<&'static str>,
    /// The outcome in the second run; `None` if that run did not contain it.
    pub to: Option<&'static str>,
}

/// Compares the results of two runs per host, step and verification.
pub fn compare_runs(from: &PastRun, to: &PastRun) -> RunComparison {
    let (before, after) = (collect_outcomes(&from.report), collect_outcomes(&to.report));
    let keys: std::collections::BTreeSet<_> = before.keys().chain(after.keys()).cloned().collect();
    let total = keys.len();
    let differences: Vec<OutcomeDifference> = keys
        .into_iter()
        .map(|key| (before.get(&key).copied(), after.get(&key).copied(), key))
        .filter(|(from, to, _)| from != to)
        .map(|(from, to, (host, what))| OutcomeDifference { host, what, from, to })
        .collect();
    RunComparison { from: from.info.clone(), to: to.info.clone(), equal: total - differences.len(), differences }
}

type OutcomeTable = BTreeMap<(HostName, Option<String>), &'static str>;

fn collect_outcomes(report: &RunReport) -> OutcomeTable {
    let mut all = OutcomeTable::new();
    for host in &report.hosts {
        let mut put = |what: Option<String>, word| all.insert((host.host.clone(), what), word);
        put(None, host.outcome.name());
        host.steps.iter().for_each(|step| {
            put(Some(step.id.to_string()), step.result.name());
        });
        host.verify.iter().for_each(|verify| {
            put(Some(format!("{}: {}", verify.recipe, verify.name)), verify.result.name());
        });
    }
    all
}

impl StepResult {
    /// Returns the name used in documents.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Changed => "changed",
            Self::AlreadyOk { .. } => "ok",
            Self::Pending { .. } => "pending",
            Self::Blocked { .. } => "blocked",
            Self::Unknown { .. } => "unknown",
            Self::Stale { .. } => "stale",
            Self::Failed { .. } => "failed",
            Self::Held { .. } => "held",
            Self::Skipped { .. } => "skipped",
            Self::NotApplicable { .. } => "not applicable",
            Self::Cancelled => "cancelled",
        }
    }
}

impl VerifyResult {
    /// Returns the name used in documents.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Held => "held",
            Self::Failed { .. } => "failed",
            Self::Unknown { .. } => "unknown",
            Self::Skipped { .. } => "skipped",
            Self::NotApplicable { .. } => "not applicable",
        }
    }
}
