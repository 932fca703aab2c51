//! The declaration of an archive.

use crate::probe::Probe;
use crate::resource::shared::file_target::{FileBody, path_probe};
use crate::resource::shared::support::sha256_hex;

/// Origin of the archive.
#[derive(Debug)]
pub(super) enum ArchiveSource {
    /// Content and digest of a file in the inventory's tree.
    Tree(FileBody, String),
    /// Path on the host.
    Host(String),
}

#[derive(Debug)]
pub(super) struct ArchiveResource {
    pub(super) from: ArchiveSource,
    pub(super) into: String,
    /// Expected digest.
    pub(super) pinned: Option<String>,
    pub(super) strip: u64,
    pub(super) owner: String,
    pub(super) group: String,
    pub(super) absent: bool,
    /// Whether a removal takes nothing but unchanged members.
    pub(super) only_unchanged: bool,
}

/// Mode of the directory that holds the members.
pub(super) const INTO_MODE: u32 = 0o755;

impl ArchiveResource {
    /// Returns the path of the stamp file for `into`.
    pub(super) fn stamp_path(&self) -> String {
        format!("/var/lib/forge/archives/{}", &sha256_hex(self.into.as_bytes())[..32])
    }

    pub(super) fn stamp_options(&self) -> String {
        format!("strip={} own={}:{}", self.strip, self.owner, self.group)
    }

    /// Returns the probe of the archive file on the host.
    pub(super) fn archive_probe(&self) -> Option<Probe> {
        match &self.from {
            ArchiveSource::Host(path) => Some(path_probe(path)),
            ArchiveSource::Tree(..) => None,
        }
    }
}
