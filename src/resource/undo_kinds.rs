//! The kinds that declare a state before a run.

use super::field::FieldType;
use super::kind::ResourceKind;
use super::{accounts, files, generic, packages, system};
use crate::model::UndoDeclaration;

/// Kinds of which [`TypedResource::undo`](super::kind::TypedResource::undo) returns declarations. None of them calls the
/// cluster's API.
const UNDO_KINDS: [&ResourceKind; 13] = [
    &files::restore::KIND,
    &files::directory::KIND,
    &files::archive::KIND,
    &packages::package::KIND,
    &packages::installer::KIND,
    &system::service::KIND,
    &system::timer::KIND,
    &system::mount::KIND,
    &system::kernel_cmdline::KIND,
    &system::nftables::KIND,
    &accounts::user::KIND,
    &accounts::group::KIND,
    &generic::command::KIND,
];

/// Reports whether a declaration may come from a host's undo journal. A host must not gain anything by changing its
/// journal: it cannot name a file of the controller.
pub fn is_undo_declaration(declared: &UndoDeclaration) -> bool {
    let is_declared = |name: &str| declared.fields.get(name).is_some();
    let kind = UNDO_KINDS.iter().find(|kind| kind.name == declared.kind);
    kind.is_some_and(|kind| {
        kind.fields.iter().all(|field| !is_read_from_controller(&field.ty) || !is_declared(field.name))
    })
}

fn is_read_from_controller(field: &FieldType) -> bool {
    matches!(field, FieldType::LocalFile | FieldType::LocalPath | FieldType::LocalDocuments | FieldType::Secret)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn no_undo_kind_calls_the_api_or_downloads() {
        assert!(UNDO_KINDS.iter().all(|kind| !kind.traits.in_cluster && !kind.traits.downloads));
        let declared = UndoDeclaration::present("manifest", json!({}));
        assert!(!is_undo_declaration(&declared));
    }

    #[test]
    fn host_cannot_name_a_file_of_the_controller() {
        let archive = |field: &str| UndoDeclaration::absent("archive", json!({ "into": "/opt/x", field: "a.tar" }));
        assert!(is_undo_declaration(&archive("path")) && !is_undo_declaration(&archive("source")));
        let mount = json!({ "path": "/a", "source": "tmpfs", "fstype": "tmpfs" });
        assert!(is_undo_declaration(&UndoDeclaration::absent("mount", mount)));
        assert!(!is_undo_declaration(&UndoDeclaration::present("file", json!({ "source": "/etc/shadow" }))));
    }
}
