//! How the package of a file differs from the installed one.

use crate::probe::PackageManagerKind;
use crate::resource::{AttributeChange, ChangeAspect, ResourceDiff, ValueChange};
use serde::Serialize;

/// How the installed package differs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) enum PackageFileDiff {
    /// The package is not installed, or in another version. `configured` if it was removed and left its configuration.
    Install { name: String, version: ValueChange<String>, downgrade: bool, configured: bool },
    /// The manager has not finished the installation of this version.
    Finish { name: String, version: String, status: String },
    /// An earlier step provides the file. Name and version are known if they are declared.
    Await { name: Option<String>, installed: Option<String>, version: Option<String> },
    /// The package is installed and must not be. `status` is that of dpkg if the installation is unfinished.
    Remove { name: String, version: String, status: Option<String>, manager: PackageManagerKind },
}

impl ResourceDiff for PackageFileDiff {
    fn render_changes(&self) -> Vec<AttributeChange> {
        let version_change = |from: Option<&str>, to: Option<&str>| {
            AttributeChange::new("version", from, to).with_aspect(ChangeAspect::Version)
        };
        vec![match self {
            Self::Install { version, downgrade, .. } => version
                .render_change(if *downgrade { "downgrade" } else { "version" })
                .with_aspect(ChangeAspect::Version),
            Self::Finish { status, .. } => AttributeChange::new("status", Some(status), Some("installed")),
            Self::Await { installed, version, .. } => {
                let to = version.as_deref().unwrap_or("the version of the file");
                version_change(installed.as_deref(), Some(to))
            }
            Self::Remove { version, .. } => version_change(Some(version), None),
        }]
    }
}
