//! The folders from which systemd reads units, and which of two files of one name it reads.

use super::unit_text::UNITS_FOLDER;

/// Folders that `UNITS_FOLDER` precedes (systemd.unit(5), "Unit File Load Path").
const LATER_FOLDERS: [&str; 6] = [
    "/run/systemd/system/",
    "/run/systemd/generator/",
    "/run/systemd/generator.late/",
    "/usr/local/lib/systemd/",
    "/usr/lib/systemd/",
    "/lib/systemd/",
];

/// Folders that precede `UNITS_FOLDER`: a unit of that name there is read in its place.
const EARLIER_FOLDERS: [&str; 4] = [
    "/etc/systemd/system.control/",
    "/run/systemd/system.control/",
    "/run/systemd/transient/",
    "/run/systemd/generator.early/",
];

/// Reports whether systemd reads units, drop-ins or links at or below a path.
pub(in crate::resource) fn is_read_by_manager(path: &str) -> bool {
    let is_in = |folder: &str| path.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/'));
    is_in(UNITS_FOLDER) || is_earlier(path) || is_later(path)
}

/// Reports whether systemd reads a file of a unit in place of the one in `UNITS_FOLDER`.
pub(super) fn is_earlier(path: &str) -> bool {
    EARLIER_FOLDERS.iter().any(|folder| path.starts_with(folder))
}

/// Reports whether systemd reads a file of a unit only if `UNITS_FOLDER` has none of that name.
pub(super) fn is_later(path: &str) -> bool {
    LATER_FOLDERS.iter().any(|folder| path.starts_with(folder))
}

/// Returns the names of a file and of its folder.
pub(super) fn last_names(path: &str) -> (&str, &str) {
    let (folder, file) = path.rsplit_once('/').unwrap_or_default();
    (folder.rsplit('/').next().unwrap_or_default(), file)
}

/// Reports whether an input's path is a unit or a drop-in.
pub(in crate::resource) fn is_unit_path(path: &str) -> bool {
    path.strip_prefix(UNITS_FOLDER).is_some_and(|rest| rest.starts_with('/'))
}

/// Reports whether a path is a drop-in of a unit in `/etc/systemd/system`.
pub(in crate::resource) fn is_drop_in_path(path: &str) -> bool {
    let below = path.strip_prefix(UNITS_FOLDER).and_then(|rest| rest.strip_prefix('/'));
    below
        .and_then(|rest| rest.split_once('/'))
        .is_some_and(|(folder, file)| folder.ends_with(".d") && !file.contains('/'))
}

/// Reports whether a drop-in is the administrator's, not one of a package.
pub(super) fn is_local_drop_in(path: &str) -> bool {
    path.starts_with("/etc/") || path.starts_with("/run/")
}
