//! Typed answers about mounts and fstab.

use crate::model::UntrustedText;
use serde::{Deserialize, Serialize};

/// The mounts at a path, and its fstab entries.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MountState {
    /// From the bottom up: the last one is visible at the path.
    pub mounts: Vec<ObservedMount>,
    /// Paths of mounts below it.
    pub below: Vec<String>,
    /// The lines of fstab for it.
    pub fstab: Vec<FstabLine>,
    /// The device that the requested source names (a tag or a link); `None` if it names none here.
    pub device: Option<String>,
    /// The root that a bind mount of the requested source would have, with its file system's number: `8:1 /srv/a`.
    pub bind: Option<String>,
    /// The restrictions (`ro`, `noexec`, `nosuid`, `nodev`) of the mount that contains the requested source: a bind mount
    /// takes them over.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub source_restrictions: Vec<String>,
    /// What a mount lacks: a directory above the mount point, or a source that is a path. Recordings of older versions
    /// do not have it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lack: Option<UntrustedText>,
    /// The path of the mount point without links, if it leads through one: the kernel's table has this path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub real_path: Option<UntrustedText>,
}

/// One mount, from `/proc/self/mountinfo`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ObservedMount {
    /// The source as it was mounted: a device, `SERVER:/PATH`, or a word such as `tmpfs`.
    pub source: String,
    /// The device behind `source`, links followed; `None` if it names no device here.
    pub device: Option<String>,
    /// The type of the file system: `ext4`, `nfs4`.
    pub fstype: String,
    /// Options of the mount and of its file system.
    pub options: Vec<String>,
    /// Number of the file system and the path in it: `8:1 /srv/a`.
    pub root: String,
}

/// One entry of fstab.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FstabLine {
    /// Counted from 1.
    pub line: u64,
    /// The line's original text.
    pub text: UntrustedText,
}
