//! Undoes the change of packages.

use super::diff::{InstallationChange, PackageDiff, PackageEntryDiff};
use crate::model::{UndoDeclaration, UndoEffect};
use crate::resource::shared::support::join_words;
use serde_json::json;

/// Declares the versions and holds that were observed before. `purges` if the step deletes the configuration of what it
/// removes.
pub(super) fn undo_packages(diff: &PackageDiff, purges: bool) -> UndoEffect {
    let mut effect = UndoEffect::default();
    for entry in diff.entries() {
        match undo_entry(entry) {
            Ok(step) => effect.steps.push(step),
            Err(why) => return UndoEffect::irreversible(&why),
        }
    }
    // The last that was installed goes first.
    effect.steps.reverse();
    if purges && diff.manager.is_dpkg() && diff.removed_names().next().is_some() {
        let names: Vec<String> = diff.removed_names().map(|name| format!("`{name}`")).collect();
        effect.lost = Some(format!("changes to the configuration of {}, which is deleted", join_words(&names)));
    }
    match diff.installs_packages() {
        true => effect.leaving("packages that were installed as dependencies"),
        false => effect,
    }
}

fn undo_entry(entry: &PackageEntryDiff) -> Result<UndoDeclaration, String> {
    let name = &entry.name;
    let mut fields = json!({ "name": name });
    let before = match &entry.installation {
        Some(InstallationChange::Install { configured, .. }) => {
            fields["purge"] = json!(!configured);
            return Ok(UndoDeclaration::absent("package", fields));
        }
        Some(InstallationChange::Replace(change)) => Some(&change.from),
        Some(InstallationChange::Finish { .. }) => {
            return Err(format!("package `{name}` was not installed completely"));
        }
        Some(InstallationChange::Remove { status: Some(_), .. }) => {
            return Err(format!("package `{name}` was not installed completely"));
        }
        Some(InstallationChange::Remove { version, status: None }) => Some(version),
        Some(InstallationChange::PurgeConfiguration) => {
            return Err(format!("the configuration of package `{name}` is not kept"));
        }
        None => None,
    };
    if let Some(version) = before {
        fields["version"] = json!(version);
    }
    if let Some(held) = entry.hold.as_ref().and_then(|hold| hold.from) {
        fields["hold"] = json!(held);
    }
    Ok(UndoDeclaration::present("package", fields))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::PackageManagerKind;
    use crate::resource::ValueChange;
    use crate::resource::packages::package::diff::VersionReplacement;

    fn undo(installation: Option<InstallationChange>, hold: Option<ValueChange<bool>>) -> UndoEffect {
        let entry = PackageEntryDiff { name: "nginx".into(), installation, hold };
        undo_packages(&diff_of(entry), false)
    }

    fn diff_of(entry: PackageEntryDiff) -> PackageDiff {
        PackageDiff {
            manager: PackageManagerKind::Dpkg,
            names_several: false,
            packages: vec![entry],
            family: Vec::new(),
        }
    }

    #[test]
    fn former_versions_and_holds_are_declared() {
        let installed = undo(Some(InstallationChange::Install { version: Some("2".into()), configured: false }), None);
        assert_eq!(installed.steps, [UndoDeclaration::absent("package", json!({ "name": "nginx", "purge": true }))]);
        assert_eq!(installed.remains, ["packages that were installed as dependencies"]);
        let newer = VersionReplacement { from: "1".into(), to: "2".into(), downgrade: false };
        let replaced = undo(Some(InstallationChange::Replace(newer)), Some(ValueChange::new(false, true)));
        let fields = json!({ "name": "nginx", "version": "1", "hold": false });
        assert_eq!(replaced, UndoEffect::declare(vec![UndoDeclaration::present("package", fields)]));
    }

    /// A pinned driver is open to the next upgrade without its hold.
    #[test]
    fn hold_of_a_removed_package_is_declared() {
        let removal = InstallationChange::Remove { version: "1".into(), status: None };
        let restored = undo(Some(removal), Some(ValueChange::new(true, false)));
        let fields = json!({ "name": "nginx", "version": "1", "hold": true });
        assert_eq!(restored, UndoEffect::declare(vec![UndoDeclaration::present("package", fields)]));
    }

    #[test]
    fn configuration_of_an_earlier_installation_stays() {
        let installed = undo(Some(InstallationChange::Install { version: None, configured: true }), None);
        assert_eq!(installed.steps, [UndoDeclaration::absent("package", json!({ "name": "nginx", "purge": false }))]);
    }

    #[test]
    fn purge_loses_changes_to_the_configuration() {
        let removal = InstallationChange::Remove { version: "1".into(), status: None };
        let entry = PackageEntryDiff { name: "nginx".into(), installation: Some(removal), hold: None };
        let lost = |purges| undo_packages(&diff_of(entry.clone()), purges).lost;
        assert_eq!(lost(true).as_deref(), Some("changes to the configuration of `nginx`, which is deleted"));
        assert_eq!(lost(false), None);
    }

    #[test]
    fn lost_configuration_is_irreversible() {
        let purged = undo(Some(InstallationChange::PurgeConfiguration), None);
        assert_eq!(purged.irreversible.as_deref(), Some("the configuration of package `nginx` is not kept"));
    }
}
