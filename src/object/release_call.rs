//! An action on a Helm release, as data.

use super::ReleaseQuery;

/// An action on a release.
#[derive(Clone, Debug, PartialEq)]
pub struct ReleaseCall {
    /// The declared release.
    pub asked: ReleaseQuery,
    /// What to do with the release.
    pub deed: ReleaseAction,
    /// Seconds that helm waits, also for hooks.
    pub timeout_s: u64,
    /// Whether helm waits until everything is ready, and rolls back otherwise.
    pub wait: bool,
    /// Whether hooks run.
    pub hooks: bool,
    /// Age in seconds after which a pending release counts as left by a killed helm.
    pub stale_s: u64,
    /// Whether CRDs that no release owns become part of this one.
    pub adopt: bool,
}

/// The kind of action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReleaseAction {
    /// An install or an upgrade, then the repair of live objects that it did not change. With `force`, fields are taken
    /// over from other managers.
    Upgrade {
        /// Whether fields are taken over from other managers; otherwise a conflict is an error.
        force: bool,
    },
    /// Restores live objects to the release's manifest: creates no revision and runs no hook.
    Repair,
    /// Returns to an earlier revision, which makes a new one. No hook runs.
    Rollback {
        /// The number of the earlier revision.
        revision: u64,
    },
    /// Removes the release with its objects.
    Uninstall,
}

impl ReleaseCall {
    /// Returns a description of the action, for people.
    pub fn describe_release_call(&self) -> String {
        let what = match self.deed {
            ReleaseAction::Upgrade { .. } => "helm upgrade --install",
            ReleaseAction::Repair => "repair live objects of",
            ReleaseAction::Rollback { revision } => &format!("helm rollback to revision {revision} of"),
            ReleaseAction::Uninstall => "helm uninstall",
        };
        format!("{what} {} in {}", self.asked.name, self.asked.namespace)
    }
}
