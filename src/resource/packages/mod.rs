//! Kinds of software: packages, repositories and installers.

pub(in crate::resource) mod apt_repository;
pub(in crate::resource) mod installer;
pub(in crate::resource) mod package;
pub(in crate::resource) mod package_file;
mod released_holds;
pub(in crate::resource) mod repository;
mod repository_fields;
