//! What drift passes over: entries of `drift.ignore`, counted, each until its day.

use super::model::IgnoredLine;
use crate::config::{Ignore, Ignored, Project};
use jiff::civil::Date;

/// The entries of a project, with how often each passed something over.
pub(super) struct Passing<'p> {
    entries: Vec<(&'p Ignore, usize)>,
    project: &'p Project,
    /// `None` where the time of the run cannot be read: then nothing is passed over.
    today: Option<Date>,
}

impl<'p> Passing<'p> {
    /// Builds from the project and the time of the run, RFC 3339.
    pub fn new(project: &'p Project, now: &str) -> Self {
        let today = now.get(..10).and_then(|day| day.parse().ok());
        Self { entries: project.drift.ignore.iter().map(|entry| (entry, 0)).collect(), project, today }
    }

    /// Returns whether an entry passes something over; the first that does is counted.
    pub fn passes(&mut self, recipe: &str, step: &str, paths: &[String]) -> bool {
        let Some(today) = self.today else { return false };
        let covers =
            |entry: &Ignore| !entry.is_expired(today) && entry.covers(recipe, step, paths.iter().map(String::as_str));
        match self.entries.iter_mut().find(|(entry, _)| covers(entry)) {
            Some((_, count)) => *count += 1,
            None => return false,
        }
        true
    }

    /// Returns the entries that passed something over, and those whose time is over.
    pub fn lines(&self) -> Vec<IgnoredLine> {
        let expired = |entry: &Ignore| self.today.is_some_and(|today| entry.is_expired(today));
        let told = self.entries.iter().filter(|(entry, count)| *count > 0 || expired(entry));
        told.map(|(entry, count)| self.line(entry, *count, expired(entry))).collect()
    }

    fn line(&self, entry: &Ignore, count: usize, expired: bool) -> IgnoredLine {
        let kind = match entry.what {
            Ignored::Path => "path",
            Ignored::Step => "step",
        };
        IgnoredLine {
            what: format!("{kind} {}", entry.text),
            why: entry.why.clone(),
            until: entry.until.to_string(),
            count,
            expired,
            place: self.project.sources.place(entry.span),
        }
    }
}
