//! Kinds of accounts: users, groups and their keys.

pub(in crate::resource) mod group;
pub(in crate::resource) mod ssh_authorized_key;
pub(in crate::resource) mod user;
