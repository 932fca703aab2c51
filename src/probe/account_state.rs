//! Typed answers about accounts and groups.

use crate::model::UntrustedText;
use serde::{Deserialize, Serialize};

/// One account.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UserState {
    /// `getent` knows no such account.
    Absent,
    /// The account exists, locally or in a directory service.
    Present(Box<UserInfo>),
}

/// One account: its line of `passwd`, its groups, and whether it has a password.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct UserInfo {
    /// The number of the account.
    pub uid: u32,
    /// The number of its primary group.
    pub gid: u32,
    /// Name of the primary group, or its number.
    pub group: String,
    /// The comment field, by custom the full name.
    pub gecos: UntrustedText,
    /// The home directory, whether or not it exists.
    pub home: String,
    /// The login shell; empty for `/bin/sh`.
    pub shell: String,
    /// Supplementary groups, sorted, without the primary one.
    pub groups: Vec<String>,
    /// Whether the password is locked (`!` or `*`); `None` if shadow could not be read.
    pub locked: Option<bool>,
    /// Whether it has a password that could be unlocked; `None` if shadow could not be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub has_password: Option<bool>,
    /// Whether the account expires, or its password has to be changed: another ageing than `useradd` gives by default.
    /// False also if shadow could not be read.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub ages: bool,
    /// Whether the account has expired, by the host's clock. False also if shadow could not be read.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub expired: bool,
}

/// The account that scripts run as.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ScriptAccount {
    /// The effective user is 0.
    Root,
    /// Root in a mount namespace of its own: other mounts, and perhaps other temporary files, than those of the host.
    Isolated,
    /// By name, or by number if the host has no name for it.
    Other(UntrustedText),
}

/// One group, and which other group has the requested number.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct GroupState {
    /// `None` if the group does not exist.
    pub group: Option<GroupInfo>,
    /// Another group with the declared number.
    pub gid_of: Option<String>,
}

/// One group: its line of `group`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct GroupInfo {
    /// The number of the group.
    pub gid: u32,
    /// Accounts listed as members, sorted. Accounts with this primary group are not included.
    pub members: Vec<String>,
    /// Whether it has a password, or administrators (`gpasswd -A`); false also if gshadow could not be read.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub administered: bool,
}
