//! Package versions, compared by the rules of their package manager.

use crate::diag::Diag;
use crate::probe::{PackageManagerKind, compare_rpm, upstream_version};
use crate::resource::shared::support::bad_value;
use debversion::Version;
use std::cmp::Ordering;

/// Rejects text that is not a valid version for dpkg or rpm.
pub(in crate::resource) fn check_version(version: &str) -> Result<(), Diag> {
    let of_rpm = |b: u8| b.is_ascii_alphanumeric() || b"._+~^-:".contains(&b);
    let starts = version.bytes().next().is_some_and(|b| b.is_ascii_alphanumeric());
    match starts && (parse_deb_version(version).is_some() || version.bytes().all(of_rpm)) {
        true => Ok(()),
        false => Err(bad_value(format!("`{version}` is not a valid package version"))),
    }
}

/// Parses a version by Debian's rules.
fn parse_deb_version(version: &str) -> Option<Version> {
    version.parse().ok()
}

/// Compares two versions; `None` if they differ and at least one is not valid for that manager.
pub(in crate::resource) fn compare_versions(manager: PackageManagerKind, a: &str, b: &str) -> Option<Ordering> {
    match (manager, parse_deb_version(a), parse_deb_version(b)) {
        (PackageManagerKind::Rpm, _, _) => Some(compare_rpm(a, b)),
        (PackageManagerKind::Dpkg, Some(a), Some(b)) => Some(a.cmp(&b)),
        _ => (a == b).then_some(Ordering::Equal),
    }
}

/// The version that a package must have.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum VersionRequirement {
    Exact(String),
    /// Any revision of an upstream version; the repository decides which.
    Upstream(String),
}

impl VersionRequirement {
    /// Returns the declared text.
    pub fn text(&self) -> &str {
        match self {
            Self::Exact(version) | Self::Upstream(version) => version,
        }
    }

    /// Compares the declared version with one of a package; an upstream version equals all its revisions.
    pub fn compare(&self, manager: PackageManagerKind, found: &str) -> Option<Ordering> {
        match self {
            Self::Exact(version) => compare_versions(manager, version, found),
            Self::Upstream(version) => compare_versions(manager, version, upstream_version(found)),
        }
    }

    pub fn is_met(&self, manager: PackageManagerKind, found: &str) -> bool {
        self.compare(manager, found) == Some(Ordering::Equal)
    }

    /// Returns the version to install: apt's candidate if it meets the requirement, else the first one offered.
    pub fn choose<'a>(
        &self,
        manager: PackageManagerKind,
        candidate: Option<&'a String>,
        available: &'a [String],
    ) -> Option<&'a str> {
        candidate.into_iter().chain(available).map(String::as_str).find(|offer| self.is_met(manager, offer))
    }

    /// Returns the version as apt takes it after `=`, if the exact one is not known.
    pub fn apt_pattern(&self) -> String {
        match self {
            Self::Exact(version) => version.clone(),
            Self::Upstream(version) => format!("{version}-*"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_by_package_manager_rules() {
        assert_eq!(compare_versions(PackageManagerKind::Dpkg, "1.0", "1.0-1"), Some(Ordering::Less));
        assert_eq!(compare_versions(PackageManagerKind::Rpm, "1.0", "1.0-1"), Some(Ordering::Equal));
        assert_eq!(compare_versions(PackageManagerKind::Dpkg, "1^2", "1"), None);
        assert_eq!(compare_versions(PackageManagerKind::Rpm, "1^2", "1"), Some(Ordering::Greater));
    }

    #[test]
    fn dpkg_and_rpm_version_formats_are_accepted() {
        for good in ["1:2.0-1ubuntu1~22.04", "0:4.18.0-553.el8_10", "1.0^git1-1.fc40"] {
            assert!(check_version(good).is_ok(), "{good}");
        }
        for bad in ["", "1 2", "-1", "1;2"] {
            assert_eq!(check_version(bad).unwrap_err().message, format!("`{bad}` is not a valid package version"));
        }
    }
}
