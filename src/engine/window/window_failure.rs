//! Determines whether everything in a window succeeded: only then the host is brought back into service.

use crate::engine::event::{StepFailure, StepResult};
use crate::engine::host_work::HostWork;
use crate::engine::recipe_verification::RecipeVerification;
use crate::engine::report::StepReport;
use crate::plan::{HostPlan, HostWindow, StepStage};
use std::collections::BTreeSet;

/// Returns the first failure in the window, if any. For a window left open by an earlier run, the steps that belonged to
/// it are not known: then the whole host must match. `rebooted` says whether this run rebooted the host.
pub(super) async fn find_window_failure(
    work: &mut HostWork<'_>,
    window: &HostWindow,
    rebooted: bool,
) -> Option<String> {
    if window.left_open.is_some() && !work.run.options.filter.is_empty() {
        return Some("it was opened by an earlier run, and `--step` or `--skip` may exclude its steps".to_owned());
    }
    if window.left_open.is_some() && work.run.project.generated {
        return Some("it was opened by an earlier run, and an undo does not check the whole host".to_owned());
    }
    let plan = work.plan;
    let own = |report: &&StepReport| {
        let stage = plan.steps.iter().find(|step| step.id == report.id).map(|step| step.stage);
        window.left_open.is_some() || !matches!(stage, Some(StepStage::Before))
    };
    if let Some(why) = work.results.reports().iter().filter(own).find_map(describe_unfinished_step) {
        return Some(why);
    }
    for recipe in list_recipes_to_verify(plan, window, rebooted) {
        if let Some(why) = RecipeVerification::new(work).find_failure(&recipe).await {
            return Some(format!("`{recipe}`: {why}"));
        }
    }
    None
}

/// Returns the recipes whose verification must pass before the host is back in service: those that changed; all after a
/// reboot, since a GPU lost in it shows in other recipes; and all if an earlier run left the window open, since it is not
/// known what that run changed. Recipes with steps that wait for other hosts are verified later.
fn list_recipes_to_verify(plan: &HostPlan, window: &HostWindow, rebooted: bool) -> BTreeSet<String> {
    let mut recipes: BTreeSet<String> = window.list_recipes().into_iter().map(str::to_owned).collect();
    if rebooted || window.left_open.is_some() {
        recipes.extend(plan.verify.iter().map(|verify| verify.recipe.to_string()));
    }
    for late in plan.steps.iter().filter(|step| step.stage == StepStage::After) {
        recipes.remove(&*late.id.recipe);
    }
    recipes
}

fn describe_unfinished_step(report: &StepReport) -> Option<String> {
    let why = match &report.result {
        StepResult::Failed { failure: StepFailure { why, .. } } => why.raw(),
        StepResult::Blocked { reason, .. }
        | StepResult::Unknown { reason }
        | StepResult::Stale { reason }
        | StepResult::Held { reason }
        | StepResult::Skipped { reason } => reason.raw(),
        StepResult::Cancelled => "not started",
        _ => return None,
    };
    Some(format!("`{}` did not succeed: {why}", report.id))
}
