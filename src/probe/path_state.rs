//! Typed answers about paths and the files at them.

use crate::model::UntrustedText;
use serde::{Deserialize, Serialize};

/// The file at a path.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PathState {
    /// Nothing exists at the path, or one of its parents is not a directory.
    Absent,
    /// Something exists; a symbolic link is not followed.
    Present(Box<PathInfo>),
}

/// What a path names, from the mode that `stat` prints.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PathType {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link, with or without a target that exists.
    Symlink,
    /// A device, a pipe or a socket.
    Other,
}

/// What `stat` prints about a path, and the digest or body of a file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PathInfo {
    /// The type of the path itself, not of a link's target.
    pub kind: PathType,
    /// Owner by name, or by number if the host has no name for it.
    pub owner: UntrustedText,
    /// Group by name, or by number if the host has no name for it.
    pub group: UntrustedText,
    /// Permission bits, with setuid, setgid and sticky: at most 0o7777.
    pub mode: u32,
    /// Bytes.
    pub size: u64,
    /// When the content last changed, in seconds since the epoch, with the fraction that the file system stores.
    /// Packages restore the time of their files.
    pub mtime: f64,
    /// When content, owner or mode last changed, in the same form. It decides restarts: no program can set it.
    pub ctime: f64,
    /// Lowercase hex SHA-256 of a regular file. `None` for other types, or when it could not be read.
    pub sha256: Option<String>,
    /// The body, if it was requested, differs, is small and is UTF-8 without NUL.
    pub body: Option<UntrustedText>,
    /// The target of a symbolic link.
    pub target: Option<UntrustedText>,
    /// Whether it is a symbolic link that leads to nothing; false where a probe does not follow links.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub dangling: bool,
}

impl PathInfo {
    /// Builds an empty file of root.
    pub(crate) fn root_file() -> Self {
        Self {
            kind: PathType::File,
            owner: "root".into(),
            group: "root".into(),
            mode: 0o644,
            size: 0,
            mtime: 0.0,
            ctime: 0.0,
            sha256: None,
            body: None,
            target: None,
            dangling: false,
        }
    }
}

/// The `authorized_keys` of an account, with the folders above it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AuthorizedKeysState {
    /// The host has no such account.
    NoAccount,
    /// The account exists, with or without a home and keys.
    Account(Box<AuthorizedKeysInfo>),
}

/// The paths from an account's home to its keys.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AuthorizedKeysInfo {
    /// The account's home directory, from `getent passwd`.
    pub home: String,
    /// The state of that path.
    pub home_at: PathState,
    /// `.ssh` in it.
    pub folder: PathState,
    /// `.ssh/authorized_keys`, with its body if it is small and is text.
    pub file: PathState,
    /// `.ssh/authorized_keys2`, in the same form. sshd reads it too unless its configuration names other files.
    #[serde(default = "no_path", skip_serializing_if = "is_absent")]
    pub second_file: PathState,
    /// The first directory, from `/` to the home, that the account itself cannot search. `None` if it can search all of
    /// them, or if this was not tried: for root, and where forge cannot act as the account.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unsearchable: Option<String>,
}

/// Returns the second file of a recording from before forge read it.
fn no_path() -> PathState {
    PathState::Absent
}

fn is_absent(state: &PathState) -> bool {
    *state == PathState::Absent
}

/// The file at the path of a key.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KeyFileState {
    /// Nothing exists at the path.
    Absent,
    /// Not a regular file, or larger than any key.
    Unfit,
    /// The bytes of the file: at most 256 KiB, and not necessarily a key.
    Present(Vec<u8>),
}
