//! Effects of earlier packages of a plan: which later steps are certain, and which are only predicted.
//!
//! The contents of a package are not known before it is downloaded. So this module considers what packages can touch:
//! they install files together with new directories, replace files in the system's directories, keep existing files in
//! `/etc`, and restart the services that they upgrade.

use super::host_context::StepInstance;
use crate::probe::Observation;
use crate::resource::{Assessment, PackageChanges, Resource};

/// Directories that belong to packages. A package replaces a file there that has the name of one of its own; packages
/// do not touch the local directories (Debian Policy 9.1.2).
const PACKAGE_DIRECTORIES: &[&str] = &["/usr/", "/lib", "/bin/", "/sbin/", "/opt/", "/boot/"];
const LOCAL_DIRECTORY: &str = "/usr/local/";
/// Units of the administrator: those of packages are in `/usr/lib/systemd/system` (systemd.unit(5)).
const LOCAL_UNIT_DIRECTORY: &str = "/etc/systemd/system/";

/// Returns the effects on packages of a step of kind `kind` that will change.
pub fn collect_package_changes(kind: &str, judgement: &Assessment) -> PackageChanges {
    match kind {
        // The file does not show which of the two it does.
        "package_file" => PackageChanges { installs: true, upgrades: true },
        _ => judgement.package_changes(),
    }
}

/// Returns whether a resource that matches now may differ after the changes of packages.
pub fn may_undo(changes: PackageChanges, turn: &StepInstance<'_>, resource: &dyn Resource) -> bool {
    let replaced = || resource.restart_input_paths().iter().any(|path| is_package_path(path));
    let brought = || !resource.restart_input_paths().iter().all(|path| path.starts_with(LOCAL_UNIT_DIRECTORY));
    match resource.kind() {
        "absent" => changes.has_changes(),
        "file" | "line" | "block" | "link" | "unit" => {
            changes.has_changes() && (replaced() || turn.expanded.absent && brought())
        }
        // A newly installed service starts; an upgraded one, or one whose libraries are upgraded, restarts.
        "service" => changes.has_changes() && (changes.upgrades || turn.expanded.absent || is_stopped(resource)),
        _ => changes.has_changes() && turn.expanded.absent,
    }
}

fn is_stopped(resource: &dyn Resource) -> bool {
    resource.desired_value()["state"] == "stopped"
}

/// Returns whether a change that is needed now is needed unchanged after an earlier package or command.
pub fn is_change_certain(resource: &dyn Resource, seen: &Observation) -> bool {
    match resource.kind() {
        "file" | "line" | "block" | "link" | "unit" | "absent" => {
            resource.restart_input_paths().iter().all(|path| !is_package_path(path) && is_path_settled(path, seen))
        }
        "directory" => is_path_settled(&resource.title(), seen),
        "user" | "group" | "service" | "command" | "archive" | "artifact" | "installer" | "wait_for" => false,
        _ => true,
    }
}

fn is_package_path(path: &str) -> bool {
    PACKAGE_DIRECTORIES.iter().any(|folder| path.starts_with(folder)) && !path.starts_with(LOCAL_DIRECTORY)
}

/// Returns whether `path` exists, or its directory exists without it.
fn is_path_settled(path: &str, seen: &Observation) -> bool {
    seen.has_path(path) || path.rsplit_once('/').is_some_and(|(parent, _)| seen.has_path(parent))
}
