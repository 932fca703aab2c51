//! Undoes the rebuild of initramfs images: they are rebuilt once the files of the host are as before.
//!
//! A copy of an image would lose content that other steps and packages built into it since.

use super::declaration::InitramfsResource;
use super::image_diff::InitramfsDiff;
use crate::model::{UndoDeclaration, UndoEffect};
use crate::resource::shared::support::join_quoted;
use serde_json::json;

pub(super) fn undo_rebuild(want: &InitramfsResource, diff: &InitramfsDiff) -> UndoEffect {
    if *diff == InitramfsDiff::NoMaker {
        return UndoEffect::irreversible("the images were not known when the step ran");
    }
    let found = diff.list_mismatches();
    let (files, missing_modules): (Vec<&String>, Vec<&String>) =
        found.lacks.iter().partition(|name| !want.modules.contains(name));
    let (more, modules): (Vec<&String>, Vec<&String>) =
        found.has.iter().partition(|name| !want.lacks_modules.contains(name));
    let (outdated, changed_modules): (Vec<&String>, Vec<&String>) =
        found.outdated.iter().partition(|name| want.declared_files().any(|path| path == *name));
    let files: Vec<&String> = files.into_iter().chain(more).chain(outdated).collect();
    let mut effect = UndoEffect::default();
    if [&files, &missing_modules, &modules, &changed_modules].iter().any(|names| !names.is_empty()) {
        let fields = json!({
            "as_host": files, "modules": modules, "lacks_modules": missing_modules, "current_modules": changed_modules,
            "booted": false, "kernels": if want.all { "all" } else { "boot" },
        });
        effect.steps = vec![UndoDeclaration { follows: true, ..UndoDeclaration::present("initramfs", fields) }];
        effect = effect.leaving("content of initramfs images that is not of the host's files");
    }
    match diff.list_new_images().as_slice() {
        [] => effect,
        new => effect.leaving(format!("{}, which did not exist", join_quoted(new))),
    }
}
