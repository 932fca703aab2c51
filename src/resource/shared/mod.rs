//! Functions and parts that several kinds use. Nothing here is a kind.

pub(in crate::resource) mod accounts;
pub mod apply_trace;
pub(in crate::resource) mod composite;
pub(in crate::resource) mod diff;
pub(in crate::resource) mod edited_file;
pub(in crate::resource) mod file_target;
pub(in crate::resource) mod job_account;
pub(in crate::resource) mod mounted_paths;
pub(in crate::resource) mod package_lock;
pub(in crate::resource) mod shell;
pub(in crate::resource) mod support;
pub(in crate::resource) mod system_directories;
pub(in crate::resource) mod text_lines;
