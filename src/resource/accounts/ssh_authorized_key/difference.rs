//! How an account's `authorized_keys` differs.

use crate::model::UntrustedText;
use crate::probe::{PathInfo, PathState, Probe, ProbeReading};
use crate::resource::shared::diff;
use crate::resource::shared::edited_file::FileEdit;
use crate::resource::shared::support::format_mode;
use crate::resource::{AttributeChange, ChangeAspect, ResourceDiff, ValueChange};
use serde::Serialize;

/// The name of the second file in `.ssh` that sshd reads by default.
pub(super) const SECOND_FILE: &str = "authorized_keys2";

/// The account's own permissions that it needs, to log in and to change the file: sshd opens it as the account.
pub(super) const OWN_FOLDER: u32 = 0o700;
pub(super) const OWN_FILE: u32 = 0o600;

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
        /// What must go from `authorized_keys2`.
        second: Option<Box<SecondFileDiff>>,
    },
}

/// Keys in `authorized_keys2` that must go. Nothing is added there.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct SecondFileDiff {
    /// The lines that are removed.
    pub keys: Vec<ValueChange<String>>,
    /// The file as observed.
    pub before: PathInfo,
    /// The complete new content.
    pub body: String,
}

impl SecondFileDiff {
    /// Returns the SHA-256 of the observed content.
    pub fn digest_before(&self) -> &str {
        self.before.sha256.as_deref().unwrap_or_default()
    }

    fn render_change(&self) -> Option<AttributeChange> {
        let old = self.before.body.as_ref().map(UntrustedText::raw).unwrap_or_default();
        let diff = diff::unified_diff(old.as_bytes(), self.body.as_bytes()).map(UntrustedText::from);
        let change = self.keys.first()?.render_change("key in authorized_keys2").with_aspect(ChangeAspect::Content);
        Some(AttributeChange { diff, ..change }.with_member(SECOND_FILE))
    }
}

impl AuthorizedKeysDiff {
    /// Reports whether `authorized_keys` or its access differs, not only `authorized_keys2`.
    pub fn changes_first_file(&self) -> bool {
        match self {
            Self::Later { .. } => true,
            Self::Write { keys, .. } => !keys.is_empty() || !self.changes_only_keys(),
        }
    }

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
            Self::Write { keys, second, .. } => second.is_none() && keys.iter().all(|change| change.from.is_none()),
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
            Self::Write { keys, folder, file, edit, second, .. } => {
                // The diff of the first change shows all keys.
                let first = keys.first();
                let keys = first.map(|key| AttributeChange {
                    diff: edit.unified_diff(),
                    ..key.render_change("key").with_aspect(ChangeAspect::Content)
                });
                let access = [folder.render_changes("folder"), file.render_changes("file")];
                let second = second.as_deref().and_then(SecondFileDiff::render_change);
                keys.into_iter().chain(access.into_iter().flatten()).chain(second).collect()
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

/// Returns the mode that a change gives: `own` is added, foreign write permission goes.
pub(super) fn complete_mode(mode: u32, own: u32) -> u32 {
    (mode & !FOREIGN_WRITE) | own
}

/// Owner and mode that sshd ignores keys because of. Anything else is left as it is.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(super) struct AccessDiff {
    owner: Option<ValueChange<String>>,
    mode: Option<ValueChange<u32>>,
}

impl AccessDiff {
    /// Compares the observed path with what sshd accepts for the account `user`, which itself needs the permissions
    /// `own`: less is a difference if it cannot search the directory or read the file. root needs no permission.
    pub fn compare(state: &PathState, user: &str, own: u32) -> Self {
        let PathState::Present(info) = state else { return Self::default() };
        let owner = info.owner.raw();
        let mode = complete_mode(info.mode, own);
        let needed = if own == OWN_FOLDER { 0o100 } else { 0o400 };
        let shuts_out = user != "root" && info.mode & needed == 0;
        Self {
            owner: (owner != user).then(|| ValueChange::new(owner.to_owned(), user.to_owned())),
            mode: (shuts_out || info.mode & FOREIGN_WRITE != 0).then(|| ValueChange::new(info.mode, mode)),
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
