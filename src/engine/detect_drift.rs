//! Detects drift: compares the declared state with one observation made over probe-only sessions. Changes nothing on
//! hosts; writes the findings to the controller's history.

use super::host_findings::read_kept_findings;
use super::observed_hosts::ObservedHosts;
use super::run_options::RunOptions;
use super::verify::plan;
use crate::config::Project;
use crate::drift::{
    self, CounterGrowth, DRIFT_VERSION, DetectedDrift, DetectionContext, DetectionScope, DriftHistory,
    DriftHistoryEntry, DriftHistorySnapshot, DriftReport, FindingHistory, HardwareCounters,
};
use crate::model::HostName;
use crate::plan::Plan;
use crate::state::{DriftLog, DriftLogLock, StoreError};
use jiff::{Timestamp, ToSpan};
use std::collections::BTreeMap;

/// Number of history files read before a run. Each file starts with a snapshot of all open findings. That first line
/// may be truncated if its run was killed; the file before it is then sufficient.
const HISTORY_FILES_READ: usize = 2;

/// Reports drift and its causes. With a `log`, also reports since when, and appends this run to the log. If that fails,
/// the result carries the error and is as complete as a first run's.
pub fn detect_drift(
    project: &Project,
    observed: &ObservedHosts,
    options: &RunOptions,
    log: Option<&DriftLog>,
) -> DriftReport {
    let now = (options.clock)();
    let plan = plan(project, observed, options);
    let look = DriftRun { project, observed, options, plan: &plan, now };
    let Some(log) = log else { return look.detect_without_history(&BTreeMap::new()).0 };
    look.detect_with_history(log).unwrap_or_else(|error| {
        let (drift, _) = look.detect_without_history(&BTreeMap::new());
        DriftReport { no_history: Some(error.to_string()), ..drift }
    })
}

/// Returns the drift history from `since` on.
///
/// # Errors
/// Returns the reason if the folder cannot be read.
pub fn read_drift_history(project: &Project, log: &DriftLog, since: Option<Timestamp>) -> Result<DriftHistory, String> {
    let lines = log.read_lines(None).map_err(|error| error.source.to_string())?;
    Ok(drift::summarize_history(
        &project.cluster,
        &drift::parse_history_entries(lines.iter().map(String::as_str)),
        since,
    ))
}

struct DriftRun<'r> {
    project: &'r Project,
    observed: &'r ObservedHosts,
    options: &'r RunOptions,
    plan: &'r Plan,
    now: Timestamp,
}

impl DriftRun<'_> {
    fn format_time(&self) -> String {
        self.now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
    }

    fn format_date(&self) -> String {
        self.now.strftime("%Y-%m-%d").to_string()
    }

    fn detect_without_history(&self, grown: &BTreeMap<HostName, CounterGrowth>) -> (DriftReport, DetectedDrift) {
        let now = self.format_time();
        let look = DetectionContext { took: &self.observed.took_by, grown, now: &now };
        let mut found =
            drift::compute_drift(&self.observed.to_plan_inputs(self.project, self.options), self.plan, &look);
        let drift = DriftReport {
            version: DRIFT_VERSION,
            forge: env!("CARGO_PKG_VERSION").to_owned(),
            run: self.options.run.clone(),
            cluster: self.project.cluster.clone(),
            inventory: self.project.inventory.to_string(),
            time: now.clone(),
            simulated: self.plan.simulated.clone(),
            hosts: std::mem::take(&mut found.hosts),
            findings: std::mem::take(&mut found.findings),
            unknown: std::mem::take(&mut found.unknown),
            resolved: Vec::new(),
            ignored: std::mem::take(&mut found.ignored),
            ignored_steps: found.ignored_steps.clone(),
            no_history: None,
            notified: Vec::new(),
            outliers: None,
            outliers_count: false,
            took: self.observed.took,
        };
        (drift, found)
    }

    fn detect_with_history(&self, log: &DriftLog) -> Result<DriftReport, StoreError> {
        let turn = log.lock_for_append()?;
        let grown = self.update_counters(log, &turn)?;
        let (mut drift, found) = self.detect_without_history(&grown);
        let mut past = FindingHistory::from_entries(&drift::parse_history_entries(
            log.read_lines(Some(HISTORY_FILES_READ))?.iter().map(String::as_str),
        ));
        let recalled = self.recall_host_findings(&mut past, &drift.time);
        let admits = |recipe: &str, step: &str| self.is_selected(recipe, step);
        let entry = drift::compare_with_history(&mut drift, &past, &DetectionScope { admits: &admits, found: &found });
        let today = self.format_date();
        // Findings recalled from hosts are in the history from now on.
        let before = (recalled || turn.is_first_of_day(&today)).then(|| past.to_snapshot(&drift.time));
        turn.append_line(&today, &format_entry_line(entry, before))?;
        let keep = i64::from(self.project.drift.keep_days);
        // If the retention reaches back beyond the calendar, everything is kept.
        if let Ok(oldest) = self.now.to_zoned(jiff::tz::TimeZone::UTC).checked_sub(keep.days()) {
            turn.remove_older(&oldest.strftime("%Y-%m-%d").to_string())?;
        }
        Ok(drift)
    }

    /// Adds the findings that hosts recorded themselves, where that is declared. Returns whether any of them were new.
    fn recall_host_findings(&self, past: &mut FindingHistory, now: &str) -> bool {
        let hosts =
            self.observed.seen.iter().filter(|seen| self.project.drift.first_seen_on_host && seen.is_observed());
        hosts
            .filter_map(|seen| read_kept_findings(self.project, seen, now))
            .fold(false, |news, kept| past.merge_host_findings(&kept) | news)
    }

    /// Reports whether the run evaluates this step or verification. Undeclared steps are evaluated by their record.
    fn is_selected(&self, recipe: &str, step: &str) -> bool {
        let name = step.split('[').next().unwrap_or(step);
        let filter = &self.options.filter;
        match self.project.recipes.get(recipe) {
            None => filter.is_empty(),
            Some(known) if known.steps.iter().any(|known| *known.name == *name) => filter.admits_step(recipe, name),
            Some(_) => filter.admits_recipe(recipe),
        }
    }

    /// Returns the growth of counters since the last run and stores the new values for the next one.
    fn update_counters(
        &self,
        log: &DriftLog,
        turn: &DriftLogLock<'_>,
    ) -> Result<BTreeMap<HostName, CounterGrowth>, StoreError> {
        let mut counters = HardwareCounters::parse(&log.read_file("counters.json")?.unwrap_or_default());
        let (before, time) = (counters.clone(), self.format_time());
        let mut grown = BTreeMap::new();
        for seen in self.observed.seen.iter().filter(|seen| seen.is_observed()) {
            let (Some(boot), ports) =
                (seen.facts.boot_id().map(str::to_owned), drift::health::read_port_counters(&seen.facts))
            else {
                continue;
            };
            if !ports.is_empty() {
                grown.insert(seen.host.clone(), counters.update_host(&seen.host, &boot, &time, &ports));
            }
        }
        if counters != before {
            turn.replace_file("counters.json", &counters)?;
        }
        Ok(grown)
    }
}

fn format_entry_line(entry: DriftHistoryEntry, before: Option<DriftHistorySnapshot>) -> String {
    // Serialization of text, numbers and names cannot fail.
    serde_json::to_string(&DriftHistoryEntry { before, ..entry }).unwrap_or_default()
}
