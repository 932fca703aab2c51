//! Runs of package managers, in a common form for all of their logs.

use jiff::Timestamp;

/// One run of a package manager.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PackageManagerRun {
    pub began: Timestamp,
    pub ended: Timestamp,
    /// The package manager: `apt`, `dpkg`, `dnf`.
    pub tool: &'static str,
    /// The user who requested it, if the log names one.
    pub user: Option<String>,
    /// Its command line, if the log contains it.
    pub command: Option<String>,
    pub changes: Vec<LoggedPackageChange>,
    /// The log.
    pub source: &'static str,
}

/// A change of one package.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoggedPackageChange {
    pub at: Timestamp,
    pub package: String,
    /// The new version; `None` if the package was removed.
    pub to: Option<String>,
}

impl PackageManagerRun {
    /// Returns the last change of one of the packages.
    pub fn last_change_of(&self, names: &[String]) -> Option<&LoggedPackageChange> {
        self.changes.iter().rfind(|change| names.contains(&change.package))
    }

    /// Reports whether it was running at that time, within a second.
    pub fn covers_time(&self, time: Timestamp) -> bool {
        super::clock::add_seconds(self.began, -1) <= time && time <= super::clock::add_seconds(self.ended, 1)
    }
}

/// Returns a package's name without its architecture.
pub fn strip_architecture(name: &str) -> &str {
    name.split_once(':').map_or(name, |(name, _)| name)
}
