//! Folds a list of changed files: a new directory stands for everything in it.

use super::model::{FileChange, FileEffect};

/// A changed file, and whether it is a directory.
pub(super) type FoldedFile = (FileEffect, bool);

/// Sorts the files by path and counts what is in a new directory instead of listing it.
pub(super) fn fold_new_directories(mut files: Vec<FoldedFile>) -> Vec<FileEffect> {
    files.sort_by(|(a, _), (b, _)| a.path.raw().split('/').cmp(b.path.raw().split('/')));
    let mut folded: Vec<FoldedFile> = Vec::new();
    for (file, is_directory) in files {
        match folded.last_mut() {
            Some((open, true))
                if open.change == FileChange::Created
                    && file.change == FileChange::Created
                    && is_below(file.path.raw(), open.path.raw()) =>
            {
                open.entries += 1;
            }
            _ => folded.push((file, is_directory)),
        }
    }
    folded.into_iter().map(|(file, _)| file).collect()
}

fn is_below(path: &str, directory: &str) -> bool {
    path.strip_prefix(directory).is_some_and(|rest| rest.starts_with('/'))
}
