//! Recipes whose steps do not all match: their verification is skipped.

use super::event::StepResult;
use super::report::StepReport;
use std::collections::BTreeMap;

/// Recipes with steps that do not match, and the first such step of each.
#[derive(Default)]
pub(super) struct UnsettledRecipes {
    /// Recipes with steps that failed or did not run.
    stopped: BTreeMap<String, String>,
    /// Recipes that are configured but not effective yet.
    pending: BTreeMap<String, String>,
}

impl UnsettledRecipes {
    /// Returns the first step of a recipe that failed or did not run.
    pub fn stopped_step(&self, recipe: &str) -> Option<&str> {
        self.stopped.get(recipe).map(String::as_str)
    }

    /// Returns the first step of a recipe that is configured but not effective yet.
    pub fn pending_step(&self, recipe: &str) -> Option<&str> {
        self.pending.get(recipe).map(String::as_str)
    }

    /// Reports whether a recipe has steps that failed or did not run.
    pub fn has_stopped(&self, recipe: &str) -> bool {
        self.stopped.contains_key(recipe)
    }

    /// Collects the recipes of steps that do not match.
    pub fn from_reports(steps: &[StepReport]) -> Self {
        let mut unsettled = Self::default();
        for report in steps {
            let recipes = match report.result {
                StepResult::Changed | StepResult::AlreadyOk { .. } | StepResult::NotApplicable { .. } => continue,
                StepResult::Pending { .. } => &mut unsettled.pending,
                _ => &mut unsettled.stopped,
            };
            recipes.entry(report.id.recipe.to_string()).or_insert_with(|| report.id.to_string());
        }
        unsettled
    }
}
