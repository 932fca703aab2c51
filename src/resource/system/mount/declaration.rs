//! The declaration of a mount.

use crate::probe::Probe;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum DesiredMountState {
    Mounted,
    Fstab,
    Unmounted,
}

#[derive(Debug)]
pub(super) struct MountResource {
    pub(super) path: String,
    pub(super) source: String,
    pub(super) fstype: String,
    pub(super) options: Vec<String>,
    pub(super) dump: i64,
    pub(super) pass: i64,
    pub(super) state: DesiredMountState,
    pub(super) mode: u32,
    pub(super) absent: bool,
}

impl MountResource {
    pub(super) fn probe(&self) -> Probe {
        Probe::Mount { path: self.path.clone(), source: self.source.clone() }
    }

    pub(super) fn is_bind(&self) -> bool {
        self.options.iter().any(|option| matches!(option.as_str(), "bind" | "rbind"))
    }
}
