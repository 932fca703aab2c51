//! How packages differ, in the terms of the package manager.

use crate::probe::PackageManagerKind;
use crate::resource::{AttributeChange, PackageChanges, ResourceDiff, ValueChange};
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
    /// It is not installed. `None` stands for the latest version, if it is not known.
    Install { version: Option<String> },
    /// It has another version.
    Replace(VersionReplacement),
    /// dpkg has not finished it, and it may have another version, too.
    Finish { status: String, version: Option<VersionReplacement> },
    /// It is installed and must not be.
    Remove { version: String },
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
    /// Reports whether a package is installed, replaced or removed, so that holds alone are not enough.
    pub fn changes_installations(&self) -> bool {
        self.packages.iter().any(|package| package.installation.is_some())
    }

    /// Reports whether a version is replaced by a lower one.
    pub fn has_downgrade(&self) -> bool {
        self.packages.iter().any(|package| match &package.installation {
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
            Self::Install { version } => {
                vec![AttributeChange::new("version", None, Some(version.as_deref().unwrap_or(latest)))]
            }
            Self::Replace(version) => vec![version.render_change()],
            Self::Finish { status, version } => {
                let status = AttributeChange::new("status", Some(status), Some("installed"));
                [status].into_iter().chain(version.as_ref().map(VersionReplacement::render_change)).collect()
            }
            Self::Remove { version } => vec![AttributeChange::new("version", Some(version), None)],
            Self::PurgeConfiguration => vec![AttributeChange::new("configuration", Some("left"), None)],
        }
    }
}

impl VersionReplacement {
    fn render_change(&self) -> AttributeChange {
        AttributeChange::new(if self.downgrade { "downgrade" } else { "version" }, Some(&self.from), Some(&self.to))
    }
}

impl PackageEntryDiff {
    fn render_changes(&self, manager: PackageManagerKind) -> Vec<AttributeChange> {
        let word = |held: &Option<bool>| held.map(describe_hold);
        let hold = self.hold.iter().map(|hold| AttributeChange::new("hold", word(&hold.from), word(&hold.to)));
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
        let rendered = self.packages.iter().flat_map(|package| {
            package.render_changes(self.manager).into_iter().map(move |change| match self.names_several {
                true => {
                    AttributeChange { attribute: format!("{} of {}", change.attribute, package.name).into(), ..change }
                }
                false => change,
            })
        });
        rendered.collect()
    }

    fn package_changes(&self) -> PackageChanges {
        let installations = || self.packages.iter().filter_map(|package| package.installation.as_ref());
        PackageChanges {
            installs: installations().any(|change| matches!(change, InstallationChange::Install { .. })),
            upgrades: installations()
                .any(|change| matches!(change, InstallationChange::Replace(_) | InstallationChange::Finish { .. })),
        }
    }
}
