//! How the change of a release is undone.

use super::release_diff::ReleaseDiff;
use crate::model::{UndoDeclaration, UndoEffect};
use crate::object::ReleaseQuery;
use serde_json::json;

/// The kind that restores releases.
pub(super) const RESTORING_KIND: &str = "restore_release";

/// Why a removed release does not come back.
pub(super) const UNINSTALLED: &str = "Helm keeps nothing of a release that is uninstalled: declare it and apply";

/// Returns how a change is undone. Each install, upgrade and rollback makes one revision.
pub(super) fn derive_undo(asked: &ReleaseQuery, diff: &ReleaseDiff) -> UndoEffect {
    match diff {
        ReleaseDiff::Install(install) => {
            let fields = json!({ "name": asked.name, "namespace": asked.namespace, "after": install.revision + 1 });
            let effect = UndoEffect::declare(vec![UndoDeclaration::absent(RESTORING_KIND, fields)]);
            leave_definitions(effect, asked, !install.crds.is_empty() || !install.adopted.is_empty())
        }
        ReleaseDiff::Upgrade(upgrade) if upgrade.doomed.iter().any(|crd| crd.objects > 0) => {
            UndoEffect::irreversible("the upgrade deletes CustomResourceDefinitions with their objects")
        }
        ReleaseDiff::Upgrade(upgrade) => {
            let effect = UndoEffect::declare(vec![declare_revision(asked, upgrade.revision)]);
            let renewed = [&upgrade.crds, &upgrade.renewed_crds, &upgrade.adopted].iter().any(|crds| !crds.is_empty());
            leave_definitions(effect, asked, renewed)
        }
        ReleaseDiff::Repair { .. } => UndoEffect::irreversible("live objects are repaired, and no revision has them"),
        ReleaseDiff::Uninstall { .. } => UndoEffect::irreversible(UNINSTALLED),
    }
}

/// Declares the revision before a change that makes the next one.
pub(super) fn declare_revision(asked: &ReleaseQuery, revision: u64) -> UndoDeclaration {
    let fields =
        json!({ "name": asked.name, "namespace": asked.namespace, "revision": revision, "after": revision + 1 });
    UndoDeclaration::present(RESTORING_KIND, fields)
}

fn leave_definitions(effect: UndoEffect, asked: &ReleaseQuery, are_changed: bool) -> UndoEffect {
    match are_changed {
        true => effect.leaving(format!(
            "CustomResourceDefinitions in the chart of `{}/{}` stay as the run left them",
            asked.namespace, asked.name
        )),
        false => effect,
    }
}
