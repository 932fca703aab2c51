//! The kinds that declare a state before a run.

use super::kind::ResourceKind;
use super::{accounts, files, generic, packages, system};

/// Kinds of which [`TypedResource::undo`](super::kind::TypedResource::undo) returns declarations. None of them reads a
/// file of the controller or calls the cluster's API: a host stores the declarations, so it must not gain anything by
/// changing them.
const UNDO_KINDS: [&ResourceKind; 9] = [
    &files::restore::KIND,
    &files::directory::KIND,
    &packages::package::KIND,
    &system::service::KIND,
    &system::timer::KIND,
    &system::mount::KIND,
    &accounts::user::KIND,
    &accounts::group::KIND,
    &generic::command::KIND,
];

/// Reports whether a declaration of that kind may come from a host's undo journal.
pub fn is_undo_kind(name: &str) -> bool {
    UNDO_KINDS.iter().any(|kind| kind.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resource::all_kinds;

    #[test]
    fn no_undo_kind_reads_from_the_controller_or_calls_the_api() {
        for kind in all_kinds().iter().filter(|kind| is_undo_kind(kind.name)) {
            assert!(!kind.traits.in_cluster && !kind.traits.downloads, "{}", kind.name);
            assert!(
                kind.fields.iter().all(|field| !["source", "template", "chart"].contains(&field.name))
                    || kind.name == "mount"
            );
        }
        assert!(!is_undo_kind("file") && !is_undo_kind("manifest"));
    }
}
