//! How an account's `authorized_keys` differs.

use crate::probe::{PathState, Probe, ProbeReading};
use crate::resource::shared::edited_file::FileEdit;
use crate::resource::shared::support::format_mode;
use crate::resource::{AttributeChange, ChangeAspect, ResourceDiff, ValueChange};
use serde::Serialize;

/// Write permission of group and others: sshd ignores keys that another user could have written.
pub(super) const FOREIGN_WRITE: u32 = 0o022;

/// How an account's `authorized_keys` differs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) enum AuthorizedKeysDiff {
    /// An earlier step creates the account or its home directory; the content of the file is not known yet.
    Later {
        /// The declared keys in words.
        keys: Vec<String>,
    },
    /// Keys, or owner and mode of `.ssh` and of the file in it.
    Write {
        /// The lines of keys that are added, replaced or removed.
        keys: Vec<ValueChange<String>>,
        /// Whether `.ssh` does not exist yet.
        new_folder: bool,
        folder: AccessDiff,
        file: AccessDiff,
        edit: Box<FileEdit>,
    },
}

impl AuthorizedKeysDiff {
    /// Reports whether owner and mode of directory and file match.
    pub fn changes_only_keys(&self) -> bool {
        match self {
            Self::Later { .. } => true,
            Self::Write { folder, file, .. } => folder.is_empty() && file.is_empty(),
        }
    }

    /// Reports whether every key that could log in before still can: lines are only added, and owner and mode become
    /// those that sshd accepts.
    pub fn only_admits(&self) -> bool {
        match self {
            Self::Later { .. } => true,
            Self::Write { keys, .. } => keys.iter().all(|change| change.from.is_none()),
        }
    }
}

impl ResourceDiff for AuthorizedKeysDiff {
    fn render_changes(&self) -> Vec<AttributeChange> {
        match self {
            Self::Later { keys } => {
                let change = |key: &String| AttributeChange::new("key", None, Some(key));
                keys.iter().map(|key| change(key).with_aspect(ChangeAspect::Content)).collect()
            }
            Self::Write { keys, folder, file, edit, .. } => {
                // The diff of the first change shows all keys.
                let first = keys.first();
                let keys = first.map(|key| AttributeChange {
                    diff: edit.unified_diff(),
                    ..key.render_change("key").with_aspect(ChangeAspect::Content)
                });
                let access = [folder.render_changes("folder"), file.render_changes("file")];
                keys.into_iter().chain(access.into_iter().flatten()).collect()
            }
        }
    }

    fn reading_after(&self) -> Option<(Probe, ProbeReading)> {
        match self {
            Self::Later { .. } => None,
            Self::Write { edit, .. } => Some(edit.reading_after()),
        }
    }
}

/// Owner and mode that sshd ignores keys because of. Anything else is left as it is.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(super) struct AccessDiff {
    owner: Option<ValueChange<String>>,
    mode: Option<ValueChange<u32>>,
}

impl AccessDiff {
    /// Compares the observed path with what sshd accepts for the account `user`.
    pub fn compare(state: &PathState, user: &str) -> Self {
        let PathState::Present(info) = state else { return Self::default() };
        let owner = info.owner.raw();
        Self {
            owner: (owner != user).then(|| ValueChange::new(owner.to_owned(), user.to_owned())),
            mode: (info.mode & FOREIGN_WRITE != 0).then(|| ValueChange::new(info.mode, info.mode & !FOREIGN_WRITE)),
        }
    }

    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Renders the differences of the `folder` or the `file`.
    pub fn render_changes(&self, what: &str) -> Vec<AttributeChange> {
        let owner = self.owner.as_ref().map(|change| change.render_change(&format!("owner of the {what}")));
        let owner = owner.map(|change| change.with_aspect(ChangeAspect::Owner));
        let mode = self.mode.as_ref().map(|change| change.map_values(|mode| format_mode(*mode)));
        let mode = mode.map(|change| change.render_change(&format!("mode of the {what}")));
        owner.into_iter().chain(mode).collect()
    }
}
