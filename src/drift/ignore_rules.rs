//! Ignore rules: entries of `drift.ignore` with their expiry dates, and how often each matched.

use super::model::IgnoreRuleResult;
use crate::config::{DriftIgnoreKind, DriftIgnoreRule, Project};
use jiff::civil::Date;

/// The entries of a project, with the number of their matches.
pub(super) struct IgnoreRuleMatcher<'p> {
    entries: Vec<(&'p DriftIgnoreRule, usize)>,
    project: &'p Project,
    /// `None` if the time of the run is invalid: then no entry is effective.
    today: Option<Date>,
}

impl<'p> IgnoreRuleMatcher<'p> {
    /// Builds from the project and the time of the run, RFC 3339.
    pub fn new(project: &'p Project, now: &str) -> Self {
        let today = now.get(..10).and_then(|day| day.parse().ok());
        Self { entries: project.drift.ignore.iter().map(|entry| (entry, 0)).collect(), project, today }
    }

    /// Reports whether an entry covers a finding. The first matching entry is counted.
    pub fn try_ignore(&mut self, recipe: &str, step: &str, paths: &[String]) -> bool {
        let Some(today) = self.today else { return false };
        let covers = |entry: &DriftIgnoreRule| {
            !entry.is_expired(today) && entry.covers_step(recipe, step, paths.iter().map(String::as_str))
        };
        match self.entries.iter_mut().find(|(entry, _)| covers(entry)) {
            Some((_, count)) => *count += 1,
            None => return false,
        }
        true
    }

    /// Returns the entries that matched, and the expired ones.
    pub fn list_rule_results(&self) -> Vec<IgnoreRuleResult> {
        let expired = |entry: &DriftIgnoreRule| self.today.is_some_and(|today| entry.is_expired(today));
        let told = self.entries.iter().filter(|(entry, count)| *count > 0 || expired(entry));
        told.map(|(entry, count)| self.build_rule_result(entry, *count, expired(entry))).collect()
    }

    fn build_rule_result(&self, entry: &DriftIgnoreRule, count: usize, expired: bool) -> IgnoreRuleResult {
        let kind = match entry.what {
            DriftIgnoreKind::Path => "path",
            DriftIgnoreKind::Step => "step",
        };
        IgnoreRuleResult {
            what: format!("{kind} {}", entry.text),
            why: entry.why.clone(),
            until: entry.until.to_string(),
            count,
            expired,
            place: self.project.sources.format_location(entry.span),
        }
    }
}
