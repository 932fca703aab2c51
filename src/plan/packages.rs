//! Effects of earlier packages of a plan: which later steps are certain, and which are only predicted.
//!
//! The contents of a package are not known before it is downloaded. So this module considers what packages can touch:
//! they install files together with new directories, replace files in the system's directories, keep existing files in
//! `/etc`, and restart the services that they upgrade.

use super::case::StepInstance;
use super::model::StepPlan;
use crate::probe::Observation;
use crate::resource::Resource;

/// Directories that belong to packages. A package replaces a file there that has the name of one of its own; packages
/// do not touch the local directories (Debian Policy 9.1.2).
const SYSTEM: &[&str] = &["/usr/", "/lib", "/bin/", "/sbin/", "/opt/", "/boot/"];
const LOCAL: &str = "/usr/local/";
/// Units of the administrator: those of packages are in `/usr/lib/systemd/system` (systemd.unit(5)).
const ADMINISTRATORS_UNITS: &str = "/etc/systemd/system/";

/// The effects of changing package steps.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PackageChanges {
    /// A package is newly installed.
    pub installs: bool,
    /// A package changes its version.
    pub upgrades: bool,
}

impl PackageChanges {
    /// Returns the effects on packages of a step that will change.
    pub fn of_step(step: &StepPlan) -> Self {
        match &*step.kind {
            "package" => {
                let versions = || step.changes.iter().filter(|change| !change.attribute.starts_with("hold"));
                let brings = || versions().filter(|change| change.to.is_some());
                Self {
                    installs: brings().any(|change| change.from.is_none()),
                    upgrades: brings().any(|change| change.from.is_some()),
                }
            }
            // The file does not show which of the two it does.
            "package_file" => Self { installs: true, upgrades: true },
            _ => Self::default(),
        }
    }

    pub fn any(self) -> bool {
        self.installs || self.upgrades
    }

    pub fn and(self, other: Self) -> Self {
        Self { installs: self.installs || other.installs, upgrades: self.upgrades || other.upgrades }
    }

    /// Returns whether a resource that matches now may differ after these changes.
    pub fn may_undo(self, turn: &StepInstance<'_>, resource: &dyn Resource) -> bool {
        let replaced = || resource.inputs().iter().any(|path| is_of_packages(path));
        let brought = || !resource.inputs().iter().all(|path| path.starts_with(ADMINISTRATORS_UNITS));
        match resource.kind() {
            "absent" => self.any(),
            "file" | "line" | "block" | "link" | "unit" => {
                self.any() && (replaced() || turn.expanded.absent && brought())
            }
            // A newly installed service starts; an upgraded one, or one whose libraries are upgraded, restarts.
            "service" => self.any() && (self.upgrades || turn.expanded.absent || is_stopped(resource)),
            _ => self.any() && turn.expanded.absent,
        }
    }
}

fn is_stopped(resource: &dyn Resource) -> bool {
    resource.desired()["state"] == "stopped"
}

/// Returns whether a change that is needed now is needed unchanged after an earlier package or command.
pub fn is_certain(resource: &dyn Resource, seen: &Observation) -> bool {
    match resource.kind() {
        "file" | "line" | "block" | "link" | "unit" | "absent" => {
            resource.inputs().iter().all(|path| !is_of_packages(path) && is_settled(path, seen))
        }
        "directory" => is_settled(&resource.title(), seen),
        "user" | "group" | "service" | "command" | "archive" | "artifact" | "installer" | "wait_for" => false,
        _ => true,
    }
}

fn is_of_packages(path: &str) -> bool {
    SYSTEM.iter().any(|folder| path.starts_with(folder)) && !path.starts_with(LOCAL)
}

/// Returns whether `path` exists, or its directory exists without it.
fn is_settled(path: &str, seen: &Observation) -> bool {
    seen.has_path(path) || path.rsplit_once('/').is_some_and(|(parent, _)| seen.has_path(parent))
}
