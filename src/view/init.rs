//! What `forge init` has made.

use crate::config::Difference;
use schemars::JsonSchema;
use serde::Serialize;

/// The files that were written, and what they do not say of what they were made from.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Init {
    pub inventory: String,
    pub recipe: RecipeFile,
    pub hosts: usize,
    /// Without `all`.
    pub groups: usize,
    pub differences: Vec<Difference>,
}

/// The recipe beside the inventory.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct RecipeFile {
    pub path: String,
    /// Whether it was written now; one that was there stays as it is.
    pub is_new: bool,
}
