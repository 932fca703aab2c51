//! The result of `forge init`.

use crate::config::AnsibleDifference;
use schemars::JsonSchema;
use serde::Serialize;

/// The created files, and the differences from the Ansible inventory they were created from.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct InitResult {
    pub inventory: String,
    pub recipe: RecipeFile,
    pub hosts: usize,
    /// Number of groups, without `all`.
    pub groups: usize,
    pub differences: Vec<AnsibleDifference>,
}

/// The recipe next to the inventory.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct RecipeFile {
    pub path: String,
    /// Whether this command created it. An existing recipe is not changed.
    pub is_new: bool,
}
