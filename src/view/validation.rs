//! The result of `validate`, and of a load that failed.

use crate::diag::{Diags, Sources};
use camino::Utf8PathBuf;

/// What was found in one or more inventories.
#[derive(Debug, Default)]
pub struct Validation {
    pub inventories: Vec<CheckedInventory>,
}

/// What was found in one inventory.
#[derive(Debug)]
pub struct CheckedInventory {
    pub path: Utf8PathBuf,
    pub diags: Diags,
    pub sources: Sources,
    /// How much it declares; `None` when an error hides it.
    pub size: Option<Size>,
}

/// How much an inventory declares.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, schemars::JsonSchema)]
pub struct Size {
    pub hosts: usize,
    /// Recipes that are applied to at least one host.
    pub recipes: usize,
    /// Steps of these recipes, each counted once.
    pub steps: usize,
}

impl Size {
    /// Counts what a project declares.
    pub fn of(project: &crate::config::Project) -> Self {
        Self {
            hosts: project.machines().count(),
            recipes: project.recipes.len(),
            steps: project.recipes.values().map(|recipe| recipe.steps.len()).sum(),
        }
    }
}

impl Validation {
    /// Returns how many errors there are in all.
    pub fn errors(&self) -> usize {
        self.inventories.iter().map(|checked| checked.diags.errors()).sum()
    }

    /// Returns how many warnings there are in all.
    pub fn warnings(&self) -> usize {
        let all: usize = self.inventories.iter().map(|checked| checked.diags.0.len()).sum();
        all - self.errors()
    }
}
