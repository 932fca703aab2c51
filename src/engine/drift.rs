//! Drift: what is declared, judged once from one observation by sessions that take probes only. Nothing is changed on hosts;
//! what was found is kept on the controller.

use super::keeper::kept;
use super::observe::Observed;
use super::run::Options;
use super::verify::{inputs, plan};
use crate::config::Project;
use crate::drift::{self, Counters, Drift, Entry, Found, Grown, History, Look, Past, Scope, Snapshot, VERSION};
use crate::model::HostName;
use crate::plan::Plan;
use crate::state::{DriftLog, DriftTurn, StoreError};
use jiff::{Timestamp, ToSpan};
use std::collections::BTreeMap;

/// Files of history that are read before a run: the last one begins with all that was open. Its first line may be the half
/// of one that was killed; then the one before is enough to go on from.
const DAYS: usize = 2;

/// Tells what is not as declared, and why. With a `log`, also since when, and this run is added to it; where that fails, the
/// result says so and is as good as the first of its kind.
pub fn drift(project: &Project, observed: &Observed, options: &Options, log: Option<&DriftLog>) -> Drift {
    let now = (options.clock)();
    let plan = plan(project, observed, options);
    let look = Run { project, observed, options, plan: &plan, now };
    let Some(log) = log else { return look.forgetful(&BTreeMap::new()).0 };
    look.kept(log).unwrap_or_else(|error| {
        let (drift, _) = look.forgetful(&BTreeMap::new());
        Drift { no_history: Some(error.to_string()), ..drift }
    })
}

/// Returns what a history tells, from `since` on.
///
/// # Errors
/// The folder cannot be read: why.
pub fn drift_history(project: &Project, log: &DriftLog, since: Option<Timestamp>) -> Result<History, String> {
    let lines = log.lines(None).map_err(|error| error.source.to_string())?;
    Ok(drift::history(&project.cluster, &drift::entries(lines.iter().map(String::as_str)), since))
}

struct Run<'r> {
    project: &'r Project,
    observed: &'r Observed,
    options: &'r Options,
    plan: &'r Plan,
    now: Timestamp,
}

impl Run<'_> {
    fn time(&self) -> String {
        self.now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
    }

    fn today(&self) -> String {
        self.now.strftime("%Y-%m-%d").to_string()
    }

    fn forgetful(&self, grown: &BTreeMap<HostName, Grown>) -> (Drift, Found) {
        let now = self.time();
        let look = Look { took: &self.observed.took_by, grown, now: &now };
        let mut found = drift::find(&inputs(self.project, self.observed, self.options), self.plan, &look);
        let drift = Drift {
            version: VERSION,
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
            no_history: None,
            notified: Vec::new(),
            outliers: None,
            outliers_count: false,
            took: self.observed.took,
        };
        (drift, found)
    }

    fn kept(&self, log: &DriftLog) -> Result<Drift, StoreError> {
        let turn = log.turn()?;
        let grown = self.counters(log, &turn)?;
        let (mut drift, found) = self.forgetful(&grown);
        let mut past = Past::of(&drift::entries(log.lines(Some(DAYS))?.iter().map(String::as_str)));
        let recalled = self.recall(&mut past, &drift.time);
        let admits = |recipe: &str, step: &str| self.looks_at(recipe, step);
        let entry = drift::settle(&mut drift, &past, &Scope { admits: &admits, found: &found });
        let today = self.today();
        // What hosts knew better stands in the history from now on.
        let before = (recalled || turn.begins(&today)).then(|| past.snapshot(&drift.time));
        turn.append(&today, &line(entry, before))?;
        let keep = i64::from(self.project.drift.keep_days);
        // A day so long ago that there is none keeps everything.
        if let Ok(oldest) = self.now.to_zoned(jiff::tz::TimeZone::UTC).checked_sub(keep.days()) {
            turn.forget(&oldest.strftime("%Y-%m-%d").to_string())?;
        }
        Ok(drift)
    }

    /// Adds what hosts kept of their findings, where it is declared that they do. Returns whether that was any news.
    fn recall(&self, past: &mut Past, now: &str) -> bool {
        let hosts =
            self.observed.seen.iter().filter(|seen| self.project.drift.first_seen_on_host && seen.is_observed());
        hosts.filter_map(|seen| kept(self.project, seen, now)).fold(false, |news, kept| past.recall(&kept) | news)
    }

    /// Whether the run was to judge a step or verification at all. What is declared no more is judged by its record.
    fn looks_at(&self, recipe: &str, step: &str) -> bool {
        let name = step.split('[').next().unwrap_or(step);
        let filter = &self.options.filter;
        match self.project.recipes.get(recipe) {
            None => filter.is_empty(),
            Some(known) if known.steps.iter().any(|known| *known.name == *name) => filter.admits(recipe, name),
            Some(_) => filter.admits_recipe(recipe),
        }
    }

    /// Returns what counters grew by since the last run, and keeps them for the next one.
    fn counters(&self, log: &DriftLog, turn: &DriftTurn<'_>) -> Result<BTreeMap<HostName, Grown>, StoreError> {
        let mut counters = Counters::parse(&log.text("counters.json")?.unwrap_or_default());
        let (before, time) = (counters.clone(), self.time());
        let mut grown = BTreeMap::new();
        for seen in self.observed.seen.iter().filter(|seen| seen.is_observed()) {
            let (Some(boot), ports) = (drift::health::boot(&seen.facts), drift::health::counters(&seen.facts)) else {
                continue;
            };
            if !ports.is_empty() {
                grown.insert(seen.host.clone(), counters.take(&seen.host, &boot, &time, &ports));
            }
        }
        if counters != before {
            turn.replace("counters.json", &counters)?;
        }
        Ok(grown)
    }
}

fn line(entry: Entry, before: Option<Snapshot>) -> String {
    // Text, numbers and names always serialize.
    serde_json::to_string(&Entry { before, ..entry }).unwrap_or_default()
}
