//! Runs of package managers, as all of their logs tell them.

use jiff::Timestamp;

/// One run of a package manager.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    pub began: Timestamp,
    pub ended: Timestamp,
    /// Which one: `apt`, `dpkg`, `dnf`.
    pub tool: &'static str,
    /// The account that asked for it, where the log says so.
    pub user: Option<String>,
    /// Its command line, where the log says so.
    pub command: Option<String>,
    pub changes: Vec<Change>,
    /// The log.
    pub source: &'static str,
}

/// What a run did to one package.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    pub at: Timestamp,
    pub package: String,
    /// The version afterwards; `None` where it was removed.
    pub to: Option<String>,
}

impl Run {
    /// Returns what it did last to one of the packages.
    pub fn change(&self, names: &[String]) -> Option<&Change> {
        self.changes.iter().rfind(|change| names.contains(&change.package))
    }

    /// Returns whether it was at work at that moment, a second more or less.
    pub fn covers(&self, time: Timestamp) -> bool {
        super::clock::after(self.began, -1) <= time && time <= super::clock::after(self.ended, 1)
    }
}

/// Returns a package's name without its architecture.
pub fn plain(name: &str) -> &str {
    name.split_once(':').map_or(name, |(name, _)| name)
}
