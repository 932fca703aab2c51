//! The one entry: an inventory's path in, a checked project or all mistakes out.

use super::Project;
use crate::diag::{Diags, Sources};
use camino::Utf8Path;

/// What a load may do beside reading files of the inventory's tree.
#[derive(Clone, Copy)]
pub struct LoadOptions<'a> {
    /// Whether an inventory may run programs on the controller (`--trust`).
    pub trust: bool,
    /// Recipes built into forge: name and text. An inventory's own recipe of the same name wins.
    pub embedded: &'a [(&'a str, &'a str)],
    /// Looks up an environment variable, for secrets.
    pub env: &'a dyn Fn(&str) -> Option<String>,
}

/// Reads an inventory and its recipes. All mistakes of all files are found at once and sorted by place;
/// the project is there only when none of them is an error.
pub fn load(_path: &Utf8Path, _options: &LoadOptions<'_>) -> (Option<Project>, Diags, Sources) {
    todo!("next commit")
}
