//! Kinds of files: whole files, parts of files, directories, links and archives.

pub(in crate::resource) mod absent;
pub(in crate::resource) mod archive;
pub(in crate::resource) mod artifact;
pub(in crate::resource) mod block;
pub(in crate::resource) mod directory;
pub(in crate::resource) mod file;
pub(in crate::resource) mod line;
pub(in crate::resource) mod link;
pub(in crate::resource) mod restore;
pub(in crate::resource) mod toml;
