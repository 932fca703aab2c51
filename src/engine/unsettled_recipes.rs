//! Recipes whose steps do not all match: their verification is skipped.

use super::event::StepResult;
use super::report::StepReport;
use std::collections::BTreeMap;

/// Recipes with steps that do not match, and the first such step of each.
#[derive(Default)]
pub(super) struct UnsettledRecipes {
    /// Recipes with steps that failed or did not run, and the sentence about the first such step.
    stopped: BTreeMap<String, String>,
    /// Recipes that are configured but not effective yet.
    pending: BTreeMap<String, String>,
}

impl UnsettledRecipes {
    /// Says which step of a recipe failed or did not run: a lowercase sentence about the first one.
    pub fn describe_stop(&self, recipe: &str) -> Option<&str> {
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
            let how = match report.result {
                StepResult::Changed | StepResult::AlreadyOk { .. } | StepResult::NotApplicable { .. } => continue,
                StepResult::Pending { .. } => {
                    let recipe = unsettled.pending.entry(report.id.recipe.to_string());
                    recipe.or_insert_with(|| report.id.to_string());
                    continue;
                }
                StepResult::Held { .. } => "is held back",
                StepResult::Skipped { .. } | StepResult::Cancelled => "did not run",
                _ => "did not succeed",
            };
            let recipe = unsettled.stopped.entry(report.id.recipe.to_string());
            recipe.or_insert_with(|| format!("`{}` {how}", report.id));
        }
        unsettled
    }
}
