//! Typed answers about packages, package managers and their sources.

use crate::model::UntrustedText;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

/// The package database that a package is in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PackageManagerKind {
    /// dpkg, with apt.
    #[default]
    Dpkg,
    /// rpm, with dnf.
    Rpm,
}

impl PackageManagerKind {
    /// Reports whether it is dpkg.
    pub(crate) fn is_dpkg(&self) -> bool {
        *self == Self::Dpkg
    }
}

/// The state of one package.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PackageState {
    /// The database that answered. rpm answers only if dpkg has no packages.
    #[serde(default, skip_serializing_if = "PackageManagerKind::is_dpkg")]
    pub manager: PackageManagerKind,
    /// Installed version; `None` if no version is unpacked.
    pub version: Option<String>,
    /// The third word of dpkg's status: `installed`, `half-configured`, `config-files`, `not-installed` …; or
    /// `reinst-required` for an installed package with that flag.
    pub status: String,
    /// Whether dpkg's selection is `hold`, or dnf's versionlock allows no other version than the installed one.
    pub held: bool,
    /// An entry of dnf's versionlock that allows a version which is not installed: it does not hold the package.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub other_lock: Option<String>,
    /// Why the package manager does not support holds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cannot_hold: Option<HoldObstacle>,
    /// The version that apt would install; `None` if apt offers none. Read from apt's lists, not the network.
    pub candidate: Option<String>,
    /// All versions apt offers, newest first.
    pub available: Vec<String>,
    /// Why apt's offers were not read: an error, or they were not needed. `candidate` and `available` are then
    /// meaningless.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offers_unknown: Option<String>,
}

impl PackageState {
    /// Reports whether the package manager has a hold of the package, at whichever version.
    pub fn has_hold(&self) -> bool {
        self.held || self.other_lock.is_some()
    }
}

/// Why dnf cannot hold packages.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HoldObstacle {
    /// Its plugin `versionlock` is not installed.
    NotInstalled,
    /// A setting in this file switches the plugin off.
    Disabled {
        /// The path of the file.
        file: String,
        /// The key of the setting.
        key: String,
        /// Its value, as written.
        value: String,
    },
}

impl fmt::Display for HoldObstacle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotInstalled => write!(f, "dnf's plugin `versionlock` is not installed"),
            Self::Disabled { file, key, value } => {
                write!(f, "`{key}={value}` in `{file}` disables dnf's plugin `versionlock`")
            }
        }
    }
}

/// The installed packages of a family, in the order of their names.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PackageFamilyState {
    /// The database that answered.
    #[serde(default, skip_serializing_if = "PackageManagerKind::is_dpkg")]
    pub manager: PackageManagerKind,
    /// The packages whose names match a pattern, also partly installed ones.
    pub members: Vec<FamilyMember>,
    /// Why apt's offers of the members could not be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offers_unknown: Option<String>,
}

/// One installed package of a family.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FamilyMember {
    /// The name, with its architecture if that is a foreign one.
    pub name: String,
    /// The installed version with epoch and revision, as dpkg or rpm print it.
    pub version: String,
    /// All versions that apt offers, newest first; empty if they were not needed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub available: Vec<String>,
}

/// The state of the package manager as a whole.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PackageManagerState {
    /// The package manager that the host uses.
    #[serde(default, skip_serializing_if = "PackageManagerKind::is_dpkg")]
    pub kind: PackageManagerKind,
    /// Current holder of a lock of the package manager: pid and command line. `None` if no process holds one.
    pub lock_holder: Option<(u32, UntrustedText)>,
    /// Packages that are not fully installed: name and dpkg status word. Always empty for rpm.
    pub broken: BTreeMap<String, String>,
}

/// The file at the path of a package file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(clippy::large_enum_variant, reason = "a reading keeps it in a box")]
pub enum PackageFileState {
    /// Nothing exists at the path.
    Absent,
    /// Not a package, with the package manager's message.
    Bad(UntrustedText),
    /// A package, by its own metadata: signatures and digests are not verified.
    Present(PackageFileInfo),
}

/// The metadata of a package file.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PackageFileInfo {
    /// The name of the package in the file.
    pub name: String,
    /// Its version with epoch and revision.
    pub version: String,
    /// Its architecture in the words of the package manager: `amd64`, `all`, `x86_64`, `noarch`.
    pub architecture: String,
    /// The installed state of that package; apt's offers are not queried.
    pub installed: PackageState,
}

/// One enabled entry of apt's sources.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct AptEntry {
    /// The file that contains it.
    pub file: String,
    /// Addresses of repositories, as written; one in the one-line style.
    pub uris: Vec<String>,
    /// Suites, or paths that end in `/`; one in the one-line style.
    pub suites: Vec<String>,
    /// `Signed-By`: a path, fingerprints or an armored key; empty if there is none.
    pub signed_by: String,
    /// `Trusted` as written, for example `yes`; empty if there is none. apt then accepts an unsigned repository.
    pub trusted: String,
}

/// The repositories that dnf reads.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DnfSources {
    /// All sections, in the order in which dnf reads them: `dnf.conf` first.
    pub entries: Vec<DnfEntry>,
    /// The folders that `reposdir` names; `None` if it is not set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub folders: Option<Vec<String>>,
}

/// One section of dnf's repository files, or of its `dnf.conf`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DnfEntry {
    /// The file that contains it.
    pub file: String,
    /// The repository's id.
    pub id: String,
}
