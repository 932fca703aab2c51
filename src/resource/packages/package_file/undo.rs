//! Undoes the change of a package from a file. The former version must be one that the repositories
//! still offer.

use super::diff::PackageFileDiff;
use crate::model::{UndoDeclaration, UndoEffect};
use serde_json::json;

pub(super) fn undo_package(diff: &PackageFileDiff) -> UndoEffect {
    let incomplete = |name: &str| UndoEffect::irreversible(&format!("package `{name}` was not installed completely"));
    match diff {
        PackageFileDiff::Install { name, version, configured, .. } => match &version.from {
            Some(version) => restore_version(name, version),
            None => remove_package(name, !configured),
        },
        PackageFileDiff::Await { name: Some(name), installed: Some(version), .. } => restore_version(name, version),
        PackageFileDiff::Await { .. } => {
            UndoEffect::irreversible("the package of the file was not known when the step ran")
        }
        PackageFileDiff::Remove { name, version, status: None, .. } => restore_version(name, version),
        PackageFileDiff::Finish { name, .. } | PackageFileDiff::Remove { name, .. } => incomplete(name),
    }
}

fn restore_version(name: &str, version: &str) -> UndoEffect {
    let fields = json!({ "name": name, "version": version });
    UndoEffect::declare(vec![UndoDeclaration::present("package", fields)])
}

fn remove_package(name: &str, purges: bool) -> UndoEffect {
    let fields = json!({ "name": name, "purge": purges });
    let effect = UndoEffect::declare(vec![UndoDeclaration::absent("package", fields)]);
    effect.leaving("packages that were installed as dependencies")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::PackageManagerKind;
    use crate::resource::ValueChange;

    fn install(from: Option<&str>, configured: bool) -> UndoEffect {
        let version = ValueChange { from: from.map(str::to_owned), to: Some("2".to_owned()) };
        undo_package(&PackageFileDiff::Install { name: "tool".into(), version, downgrade: false, configured })
    }

    fn remove(status: Option<&str>) -> UndoEffect {
        undo_package(&PackageFileDiff::Remove {
            name: "tool".into(),
            version: "1".into(),
            status: status.map(str::to_owned),
            manager: PackageManagerKind::Dpkg,
        })
    }

    #[test]
    fn new_package_is_removed_and_a_former_version_declared() {
        let absent = |purges| [UndoDeclaration::absent("package", json!({ "name": "tool", "purge": purges }))];
        assert_eq!(install(None, false).steps, absent(true));
        assert_eq!(install(None, true).steps, absent(false), "the configuration was there before");
        let former = [UndoDeclaration::present("package", json!({ "name": "tool", "version": "1" }))];
        assert_eq!((install(Some("1"), false).steps, remove(None).steps), (former.to_vec(), former.to_vec()));
    }

    #[test]
    fn package_that_was_not_installed_completely_has_no_undo() {
        let why = "package `tool` was not installed completely";
        assert_eq!(remove(Some("half-configured")).irreversible.as_deref(), Some(why));
    }
}
