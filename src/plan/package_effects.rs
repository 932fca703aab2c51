//! Effects of earlier packages of a plan: which later steps are certain, and which are only predicted.
//!
//! The contents of a package are not known before it is downloaded. So this module considers what packages can touch:
//! they install files together with new directories, replace files in the system's directories, keep existing files in
//! `/etc`, and restart the services that they upgrade.

use super::host_context::StepInstance;
use crate::probe::Observation;
use crate::resource::{Assessment, PackageChanges, PackageExposure, PackageListing, Resource, kind_traits};

/// Directories that belong to packages. A package replaces a file there that has the name of one of its own; packages
/// do not touch the local directories (Debian Policy 9.1.2).
const PACKAGE_DIRECTORIES: &[&str] = &["/usr/", "/lib", "/bin/", "/sbin/", "/opt/", "/boot/"];
const LOCAL_DIRECTORY: &str = "/usr/local/";
/// Units of the administrator: those of packages are in `/usr/lib/systemd/system` (systemd.unit(5)).
const LOCAL_UNIT_DIRECTORY: &str = "/etc/systemd/system/";

impl PackageChanges {
    /// Returns the effects on packages of a step of kind `kind` that will change.
    pub fn from_judgement(kind: &str, judgement: &Assessment) -> Self {
        match kind_traits(kind).packages {
            PackageListing::None => Self::default(),
            PackageListing::Listed => judgement.package_changes(),
            // The file does not show which of the two it does.
            PackageListing::Unlisted => Self { installs: true, upgrades: true },
        }
    }

    /// Reports whether any package is installed or upgraded.
    pub fn has_changes(self) -> bool {
        self.installs || self.upgrades
    }

    /// Returns the combined effects of both.
    pub fn merge_with(self, other: Self) -> Self {
        Self { installs: self.installs || other.installs, upgrades: self.upgrades || other.upgrades }
    }

    /// Returns whether a resource that matches now may differ after these changes.
    pub fn may_undo(self, turn: &StepInstance<'_>, resource: &dyn Resource) -> bool {
        let replaced = || resource.restart_input_paths().iter().any(|path| is_package_path(path));
        let brought = || !resource.restart_input_paths().iter().all(|path| path.starts_with(LOCAL_UNIT_DIRECTORY));
        let absent = turn.expanded.absent;
        let exposed = || match kind_traits(resource.kind()).exposure {
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
    match kind_traits(resource.kind()).exposure {
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
