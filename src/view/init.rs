//! The result of `forge init`.

use crate::config::AnsibleDifference;
use schemars::JsonSchema;
use serde::Serialize;

/// The created files, and the differences from the Ansible inventory they were created from.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct InitResult {
    /// The path of the created inventory.
    pub inventory: String,
    /// The recipe that the inventory applies.
    pub recipe: RecipeFile,
    /// Number of hosts in the inventory.
    pub hosts: usize,
    /// Number of groups, without `all`.
    pub groups: usize,
    /// What forge reads differently or cannot convert. Empty without an Ansible inventory.
    pub differences: Vec<AnsibleDifference>,
}

/// The recipe next to the inventory.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct RecipeFile {
    /// The path of the recipe.
    pub path: String,
    /// Whether this command created it. An existing recipe is not changed.
    pub is_new: bool,
}
