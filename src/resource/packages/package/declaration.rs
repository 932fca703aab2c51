//! The declaration of packages.

use crate::probe::{AptOfferPolicy, Probe};

#[derive(Debug)]
pub(super) struct PackageResource {
    pub(super) names: Vec<String>,
    pub(super) version: Option<String>,
    pub(super) hold: Option<bool>,
    pub(super) purge: bool,
    pub(super) update: bool,
    pub(super) lock_timeout: u64,
    pub(super) absent: bool,
}

impl PackageResource {
    /// Probes the versions that apt offers only if the package has to be installed.
    pub(super) fn probe(&self, name: &str) -> Probe {
        let offers = match &self.version {
            _ if self.absent => AptOfferPolicy::Unneeded,
            None => AptOfferPolicy::UnlessInstalled,
            Some(version) => AptOfferPolicy::UnlessVersion(version.clone()),
        };
        Probe::Package { name: name.to_owned(), offers }
    }
}
