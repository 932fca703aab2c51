//! The declaration of packages.

use super::version::VersionRequirement;
use crate::probe::{AptOfferPolicy, Probe, upstream_version};

#[derive(Debug)]
pub(super) struct PackageResource {
    pub(super) names: Vec<String>,
    pub(super) version: Option<VersionRequirement>,
    /// Patterns of the packages that belong to the declared ones.
    pub(super) family: Vec<String>,
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
            Some(VersionRequirement::Exact(version)) => AptOfferPolicy::UnlessVersion(version.clone()),
            Some(VersionRequirement::Upstream(version)) => AptOfferPolicy::UnlessUpstream(version.clone()),
        };
        Probe::Package { name: name.to_owned(), offers }
    }

    /// Returns the probe of the family, if one is declared.
    pub(super) fn family_probe(&self) -> Option<Probe> {
        let upstream = self.family_upstream().map(str::to_owned);
        (!self.family.is_empty()).then(|| Probe::PackageFamily { patterns: self.family.clone(), upstream })
    }

    /// Returns the upstream version that every package of the family must have.
    pub(super) fn family_upstream(&self) -> Option<&str> {
        match &self.version {
            _ if self.absent => None,
            Some(VersionRequirement::Exact(version)) => Some(upstream_version(version)),
            Some(VersionRequirement::Upstream(version)) => Some(version),
            None => None,
        }
    }
}
