//! The result of `validate`, and of a failed load.

use crate::diag::{DiagList, SourceMap};
use camino::Utf8PathBuf;

/// The diagnostics of one or more inventories.
#[derive(Debug, Default)]
pub struct ValidationResult {
    /// The validated inventories, in the order of the command line.
    pub inventories: Vec<CheckedInventory>,
}

/// The diagnostics of one inventory.
#[derive(Debug)]
pub struct CheckedInventory {
    /// The path of the inventory, as given on the command line.
    pub path: Utf8PathBuf,
    /// Its errors and warnings, in the order of detection.
    pub diags: DiagList,
    /// The files that were read, to show the lines that diagnostics point to.
    pub sources: SourceMap,
    /// Number of declared items. `None` if an error prevents counting.
    pub size: Option<InventorySize>,
}

/// Number of declared items of an inventory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, schemars::JsonSchema)]
pub struct InventorySize {
    /// Hosts of the inventory, without the cluster's API.
    pub hosts: usize,
    /// Recipes that are applied to at least one host.
    pub recipes: usize,
    /// Steps of these recipes, each counted once.
    pub steps: usize,
}

impl InventorySize {
    /// Counts the declared items of a project.
    pub fn from_project(project: &crate::config::Project) -> Self {
        Self {
            hosts: project.machine_names().count(),
            recipes: project.recipes.len(),
            steps: project.recipes.values().map(|recipe| recipe.steps.len()).sum(),
        }
    }
}

impl ValidationResult {
    /// Returns the total number of errors.
    pub fn count_errors(&self) -> usize {
        self.inventories.iter().map(|checked| checked.diags.count_errors()).sum()
    }

    /// Returns the total number of warnings.
    pub fn count_warnings(&self) -> usize {
        let all: usize = self.inventories.iter().map(|checked| checked.diags.0.len()).sum();
        all - self.count_errors()
    }
}
