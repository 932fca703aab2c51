//! How packages differ, in the terms of the package manager.

use crate::probe::PackageManagerKind;
use crate::resource::{AttributeChange, ChangeAspect, PackageChanges, ResourceDiff, ValueChange};
use serde::Serialize;

/// How the packages of a step differ.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct PackageDiff {
    /// The manager that the host uses; the action uses the same one.
    pub manager: PackageManagerKind,
    /// Whether the step declares several packages, so that each change names its package.
    pub names_several: bool,
    /// The packages that differ, in the order of the declaration.
    pub packages: Vec<PackageEntryDiff>,
    /// Packages of the declared family that change or go with them.
    pub family: Vec<PackageEntryDiff>,
}

/// How one package differs: its installation, its hold, or both.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct PackageEntryDiff {
    pub name: String,
    pub installation: Option<InstallationChange>,
    pub hold: Option<ValueChange<bool>>,
}

/// What happens to the files of a package.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) enum InstallationChange {
    /// It is not installed. `None` means the latest version, if it is not known. `configured` if an earlier
    /// installation left its configuration.
    Install { version: Option<String>, configured: bool },
    /// It has another version.
    Replace(VersionReplacement),
    /// dpkg has not finished it, and it may have another version, too.
    Finish { status: String, version: Option<VersionReplacement> },
    /// It is installed and must not be. `status` is that of dpkg if the installation is unfinished.
    Remove { version: String, status: Option<String> },
    /// It was removed and left its configuration.
    PurgeConfiguration,
}

/// A version that takes the place of another one.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct VersionReplacement {
    pub from: String,
    pub to: String,
    /// Whether `to` is lower.
    pub downgrade: bool,
}

impl PackageDiff {
    /// Returns the declared packages and those of the family.
    pub fn entries(&self) -> impl Iterator<Item = &PackageEntryDiff> {
        self.packages.iter().chain(&self.family)
    }

    /// Returns the installed packages that the change removes.
    pub fn removed_names(&self) -> impl Iterator<Item = &str> {
        let removed = |entry: &&PackageEntryDiff| matches!(entry.installation, Some(InstallationChange::Remove { .. }));
        self.entries().filter(removed).map(|entry| entry.name.as_str())
    }

    /// Reports whether a package is installed, replaced or removed, so that holds alone are not enough.
    pub fn changes_installations(&self) -> bool {
        self.entries().any(|package| package.installation.is_some())
    }

    /// Reports whether `word`, a declared package or a package with its version, is a package whose latest version the
    /// manager has named.
    pub fn is_latest_known(&self, word: &str) -> bool {
        let known = |entry: &PackageEntryDiff| {
            entry.name == word
                && matches!(entry.installation, Some(InstallationChange::Install { version: Some(_), .. }))
        };
        self.packages.iter().any(known)
    }

    /// Reports whether a package is newly installed.
    pub fn installs_packages(&self) -> bool {
        self.package_changes().installs
    }

    /// Reports whether a version is replaced by a lower one.
    pub fn has_downgrade(&self) -> bool {
        self.entries().any(|package| match &package.installation {
            Some(InstallationChange::Replace(version) | InstallationChange::Finish { version: Some(version), .. }) => {
                version.downgrade
            }
            _ => false,
        })
    }
}

impl InstallationChange {
    fn render_changes(&self, manager: PackageManagerKind) -> Vec<AttributeChange> {
        let latest = if manager.is_dpkg() { "latest from apt" } else { "latest from dnf" };
        match self {
            Self::Install { version, .. } => {
                vec![render_version(None, Some(version.as_deref().unwrap_or(latest)))]
            }
            Self::Replace(version) => vec![version.render_change()],
            Self::Finish { status, version } => {
                let status = AttributeChange::new("status", Some(status), Some("installed"));
                [status].into_iter().chain(version.as_ref().map(VersionReplacement::render_change)).collect()
            }
            Self::Remove { version, status: None } => vec![render_version(Some(version), None)],
            Self::Remove { version, status: Some(status) } => {
                vec![render_version(Some(&format!("{version} ({status})")), None)]
            }
            Self::PurgeConfiguration => vec![AttributeChange::new("configuration", Some("left"), None)],
        }
    }
}

fn render_version(from: Option<&str>, to: Option<&str>) -> AttributeChange {
    AttributeChange::new("version", from, to).with_aspect(ChangeAspect::Version)
}

impl VersionReplacement {
    fn render_change(&self) -> AttributeChange {
        let label = if self.downgrade { "downgrade" } else { "version" };
        AttributeChange::new(label, Some(&self.from), Some(&self.to)).with_aspect(ChangeAspect::Version)
    }
}

impl PackageEntryDiff {
    fn render_changes(&self, manager: PackageManagerKind) -> Vec<AttributeChange> {
        let word = |held: &Option<bool>| held.map(describe_hold);
        let hold = self
            .hold
            .iter()
            .map(|hold| AttributeChange::new("hold", word(&hold.from), word(&hold.to)).with_aspect(ChangeAspect::Hold));
        let installation = self.installation.iter().flat_map(|change| change.render_changes(manager));
        installation.chain(hold).collect()
    }
}

/// Returns `held` or `not held`.
pub(super) fn describe_hold(held: bool) -> &'static str {
    if held { "held" } else { "not held" }
}

impl ResourceDiff for PackageDiff {
    fn render_changes(&self) -> Vec<AttributeChange> {
        let names_several = self.names_several || !self.family.is_empty();
        let rendered = self.entries().flat_map(|package| {
            package.render_changes(self.manager).into_iter().map(move |change| match names_several {
                true => {
                    let attribute = format!("{} of {}", change.attribute, package.name).into();
                    AttributeChange { attribute, ..change }.with_member(&package.name)
                }
                false => change,
            })
        });
        rendered.collect()
    }

    fn package_changes(&self) -> PackageChanges {
        let installations = || self.entries().filter_map(|package| package.installation.as_ref());
        PackageChanges {
            installs: installations().any(|change| matches!(change, InstallationChange::Install { .. })),
            upgrades: installations()
                .any(|change| matches!(change, InstallationChange::Replace(_) | InstallationChange::Finish { .. })),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn diff_of(packages: Vec<PackageEntryDiff>) -> PackageDiff {
        PackageDiff {
            manager: PackageManagerKind::Dpkg,
            names_several: packages.len() > 1,
            packages,
            family: Vec::new(),
        }
    }

    fn entry(
        name: &str,
        installation: Option<InstallationChange>,
        hold: Option<ValueChange<bool>>,
    ) -> PackageEntryDiff {
        PackageEntryDiff { name: name.to_owned(), installation, hold }
    }

    fn replace(from: &str, to: &str, downgrade: bool) -> VersionReplacement {
        VersionReplacement { from: from.to_owned(), to: to.to_owned(), downgrade }
    }

    #[test]
    fn hold_alone_changes_no_installation() {
        let diff = diff_of(vec![entry("a", None, Some(ValueChange::new(false, true)))]);
        assert_eq!((diff.changes_installations(), diff.package_changes()), (false, PackageChanges::default()));
        assert_eq!(diff.render_changes(), [AttributeChange::new("hold", Some("not held"), Some("held"))]);
    }

    #[test]
    fn effects_of_all_packages_are_collected() {
        let effects = |installation| diff_of(vec![entry("a", None, None), entry("b", Some(installation), None)]);
        let both = |diff: PackageDiff| (diff.package_changes().installs, diff.package_changes().upgrades);
        assert_eq!(both(effects(InstallationChange::Install { version: None, configured: false })), (true, false));
        assert_eq!(both(effects(InstallationChange::Replace(replace("1", "2", false)))), (false, true));
        let status = "half-configured".to_owned();
        assert_eq!(both(effects(InstallationChange::Finish { status, version: None })), (false, true));
        assert_eq!(both(effects(InstallationChange::Remove { version: "1".to_owned(), status: None })), (false, false));
        assert_eq!(both(effects(InstallationChange::PurgeConfiguration)), (false, false));
    }

    #[test]
    fn changes_of_several_packages_name_their_package() {
        let status = "unpacked".to_owned();
        let version = Some(replace("2", "1", true));
        let unfinished = InstallationChange::Finish { status, version };
        let install = InstallationChange::Install { version: None, configured: false };
        let diff = diff_of(vec![entry("a", Some(unfinished), None), entry("b", Some(install), None)]);
        assert!(diff.has_downgrade());
        let changes = [
            AttributeChange::new("status of a", Some("unpacked"), Some("installed")),
            AttributeChange::new("downgrade of a", Some("2"), Some("1")),
            AttributeChange::new("version of b", None, Some("latest from apt")),
        ];
        assert_eq!(diff.render_changes(), changes);
    }
}
