//! The declaration of a package file.

use crate::probe::{AptOfferPolicy, PackageManagerKind, Probe};
use crate::resource::shared::file_target::{FileBody, path_probe};

#[derive(Debug)]
pub(super) struct PackageFileResource {
    pub(super) from: PackageFileSource,
    pub(super) manager: PackageManagerKind,
    pub(super) name: Option<String>,
    pub(super) version: Option<String>,
    pub(super) sha256: Option<String>,
    pub(super) allow_downgrade: bool,
    pub(super) lock_timeout: u64,
    pub(super) absent: bool,
}

#[derive(Debug)]
pub(super) enum PackageFileSource {
    Source(FileBody),
    Path(String),
    /// Removal by name, without a file.
    Nothing,
}

impl PackageFileResource {
    pub(super) fn host_path(&self) -> Option<&str> {
        match &self.from {
            PackageFileSource::Path(path) => Some(path),
            _ => None,
        }
    }

    pub(super) fn file_probe(&self) -> Option<Probe> {
        self.host_path().map(|path| Probe::PackageFile { path: path.to_owned() })
    }

    pub(super) fn digest_probe(&self) -> Option<Probe> {
        self.host_path().filter(|_| self.sha256.is_some() && !self.absent).map(path_probe)
    }

    pub(super) fn package_probe(&self) -> Option<Probe> {
        self.name.as_ref().map(|name| Probe::Package { name: name.clone(), offers: AptOfferPolicy::Unneeded })
    }
}
