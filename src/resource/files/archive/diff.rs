//! How the unpacked members differ from the archive.

use crate::resource::shared::file_target::OwnershipDiff;
use crate::resource::shared::support::join_words;
use crate::resource::{AttributeChange, ResourceDiff, ValueChange};
use serde::Serialize;

/// Number of digest characters in messages.
const SHOWN_DIGITS: usize = 12;

/// Maximum number of entries listed in a plan.
const MAX_NAMED: usize = 5;

/// How the unpacked members differ.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) enum ArchiveDiff {
    Unpack(UnpackDiff),
    /// Only owner, group or mode of the directory differ.
    Ownership(OwnershipDiff),
    /// An earlier step provides the archive at this path; the members are compared once it exists.
    Await {
        path: String,
    },
    /// The members were unpacked and must not exist.
    Remove {
        members: usize,
        /// Members that are missing or were modified after unpacking.
        changed: EntryNames,
        lost: EntryNames,
    },
}

impl ArchiveDiff {
    /// Reports whether the change removes the directory that exists.
    pub fn removes_directory(&self) -> bool {
        match self {
            Self::Unpack(diff) => !diff.creates,
            Self::Remove { .. } => true,
            Self::Ownership(_) | Self::Await { .. } => false,
        }
    }
}

/// How the last unpacking differs from the declared one.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(super) struct UnpackDiff {
    /// Digest of the archive to unpack.
    pub wanted: String,
    /// Size of the archive on the host in bytes, which limits how much is copied.
    pub bytes: u64,
    /// Digest of the unpacked archive, if it differs.
    pub archive: Option<ValueChange<String>>,
    /// Owner, group and mode of the directory, if they differ.
    pub directory: OwnershipDiff,
    /// Options of the unpacking.
    pub options: Option<ValueChange<String>>,
    /// Members that are missing or were modified after unpacking.
    pub members: EntryNames,
    /// Entries that are not part of the archive: the new members replace them.
    pub lost: EntryNames,
    /// Whether the directory does not exist yet.
    pub creates: bool,
}

/// Names of entries, as far as the host lists them.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(super) struct EntryNames {
    pub names: Vec<String>,
    /// Whether the list was truncated.
    pub more: bool,
}

impl EntryNames {
    /// Lists the first few names.
    pub fn describe(&self) -> String {
        let mut shown: Vec<String> = self.names.iter().take(MAX_NAMED).map(|name| format!("`{name}`")).collect();
        match self.names.len().saturating_sub(MAX_NAMED) {
            _ if self.more => shown.push("others".to_owned()),
            0 => {}
            rest => shown.push(format!("{rest} more")),
        }
        join_words(&shown)
    }

    fn render_change(&self, attribute: &str, to: Option<&str>) -> Option<AttributeChange> {
        (!self.names.is_empty()).then(|| AttributeChange::new(attribute, Some(&self.describe()), to))
    }
}

impl UnpackDiff {
    /// Reports whether the members match; entries that would be lost and the directory itself do not count.
    pub fn is_empty(&self) -> bool {
        self.archive.is_none() && self.options.is_none() && self.members.names.is_empty()
    }

    /// Renders what differs, without the entries that a new unpacking removes.
    pub fn render_differences(&self) -> Vec<AttributeChange> {
        let digest = |digest: &Option<String>| digest.as_deref().map(format_digest);
        let archive = self.archive.as_ref().map(|change| {
            AttributeChange::new("archive", digest(&change.from).as_deref(), digest(&change.to).as_deref())
        });
        let options = self.options.as_ref().map(|change| change.render_change("options"));
        let differing = || format!("{} missing or modified", self.members.describe());
        let members = (!self.members.names.is_empty())
            .then(|| AttributeChange::new("members", Some(&differing()), Some("as in the archive")));
        [archive, options, members].into_iter().flatten().chain(self.directory.render_changes()).collect()
    }
}

fn format_digest(digest: &str) -> String {
    format!("sha256 {}", digest.get(..SHOWN_DIGITS).unwrap_or(digest))
}

impl ResourceDiff for ArchiveDiff {
    fn render_changes(&self) -> Vec<AttributeChange> {
        match self {
            Self::Unpack(diff) => {
                diff.render_differences().into_iter().chain(diff.lost.render_change("lost", None)).collect()
            }
            Self::Ownership(directory) => directory.render_changes(),
            Self::Await { path } => vec![AttributeChange::new("archive", None, Some(path))],
            Self::Remove { members, changed, lost } => {
                let differing = match changed.names.is_empty() {
                    true => String::new(),
                    false => format!("; missing or modified: {}", changed.describe()),
                };
                let members = format!("{members} of the archive{differing}");
                let members = AttributeChange::new("members", Some(&members), None);
                [members].into_iter().chain(lost.render_change("lost", None)).collect()
            }
        }
    }

    /// The members replace everything in the directory.
    fn leads_elsewhere(&self) -> bool {
        !matches!(self, Self::Ownership(_))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lists_show_the_first_five_names() {
        let names: Vec<String> = ["a", "b", "c", "d", "e", "f", "g"].map(str::to_owned).to_vec();
        let describe = |count: usize, more: bool| EntryNames { names: names[..count].to_vec(), more }.describe();
        assert_eq!(describe(2, false), "`a` and `b`");
        assert_eq!(describe(7, false), "`a`, `b`, `c`, `d`, `e` and 2 more");
        assert_eq!(describe(1, true), "`a` and others");
    }
}
