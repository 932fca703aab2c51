//! Effects of earlier packages of a plan: which later steps are certain, and which are only predicted.
//!
//! The contents of a package are not known before it is downloaded. So this module considers what packages can touch:
//! they install files together with new directories, replace files in the system's directories, keep existing files in
//! `/etc`, and restart the services that they upgrade.

use super::host_context::StepInstance;
use super::model::StepPlan;
use crate::probe::Observation;
use crate::resource::{PackageExposure, PackageListing, Resource, kind_traits};

/// Directories that belong to packages. A package replaces a file there that has the name of one of its own; packages
/// do not touch the local directories (Debian Policy 9.1.2).
const PACKAGE_DIRECTORIES: &[&str] = &["/usr/", "/lib", "/bin/", "/sbin/", "/opt/", "/boot/"];
const LOCAL_DIRECTORY: &str = "/usr/local/";
/// Units of the administrator: those of packages are in `/usr/lib/systemd/system` (systemd.unit(5)).
const LOCAL_UNIT_DIRECTORY: &str = "/etc/systemd/system/";

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
    pub fn from_step(step: &StepPlan) -> Self {
        match kind_traits(&step.kind).packages {
            PackageListing::None => Self::default(),
            PackageListing::Listed => {
                let versions = || step.changes.iter().filter(|change| !change.attribute.starts_with("hold"));
                let brings = || versions().filter(|change| change.to.is_some());
                Self {
                    installs: brings().any(|change| change.from.is_none()),
                    upgrades: brings().any(|change| change.from.is_some()),
                }
            }
            PackageListing::Unlisted => Self { installs: true, upgrades: true },
        }
    }

    pub fn has_changes(self) -> bool {
        self.installs || self.upgrades
    }

    pub fn merge_with(self, other: Self) -> Self {
        Self { installs: self.installs || other.installs, upgrades: self.upgrades || other.upgrades }
    }

    /// Returns whether a resource that matches now may differ after these changes.
    pub fn may_undo(self, turn: &StepInstance<'_>, resource: &dyn Resource) -> bool {
        let replaced = || resource.restart_input_paths().iter().any(|path| is_package_path(path));
        let brought = || !resource.restart_input_paths().iter().all(|path| path.starts_with(LOCAL_UNIT_DIRECTORY));
        let absent = turn.expanded.absent;
        let exposed = || match resource.traits().exposure {
            PackageExposure::Removal => true,
            PackageExposure::Files => replaced() || absent && brought(),
            // A newly installed service starts; an upgraded one, or one whose libraries are upgraded, restarts.
            PackageExposure::Process => self.upgrades || absent || resource.running_unit().is_none(),
            PackageExposure::None | PackageExposure::Unknown | PackageExposure::Directory => absent,
        };
        self.has_changes() && exposed()
    }
}

/// Returns whether a change that is needed now is needed unchanged after an earlier package or command.
pub fn is_change_certain(resource: &dyn Resource, seen: &Observation) -> bool {
    match resource.traits().exposure {
        PackageExposure::Files | PackageExposure::Removal => {
            resource.restart_input_paths().iter().all(|path| !is_package_path(path) && is_path_settled(path, seen))
        }
        PackageExposure::Directory => is_path_settled(&resource.title(), seen),
        PackageExposure::Process | PackageExposure::Unknown => false,
        PackageExposure::None => true,
    }
}

fn is_package_path(path: &str) -> bool {
    PACKAGE_DIRECTORIES.iter().any(|folder| path.starts_with(folder)) && !path.starts_with(LOCAL_DIRECTORY)
}

/// Returns whether `path` exists, or its directory exists without it.
fn is_path_settled(path: &str, seen: &Observation) -> bool {
    seen.has_path(path) || path.rsplit_once('/').is_some_and(|(parent, _)| seen.has_path(parent))
}
