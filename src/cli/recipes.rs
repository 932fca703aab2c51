//! `forge recipes`.

use super::backend::Backend;
use super::output::VerbOutput;
use super::shared_args::InventoryArg;
use super::verb_context::{LoadedProject, VerbContext, VerbResult};
use crate::config::{self, Project};
use crate::diag::{Diag, DiagCode, SourceMap};
use crate::model::ExitCode;

/// List recipes, or show one: parameters, rules, steps, provides and verifications
///
/// Lists all available recipes, applied or not: those of the inventory with their files, then the built-in ones.
/// Without an inventory, lists only the built-in ones.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Examples:
  forge recipes                                  recipes of ./inventory.yaml and built-in ones
  forge recipes nvidia-driver -i cluster.yaml    one recipe in full
  forge recipes nvidia-driver --format json | jq '.recipe.params'")]
pub struct RecipesArgs {
    /// Recipe to show; without it, all recipes are listed
    pub name: Option<String>,
}

pub fn run_recipes<B: Backend>(cx: &VerbContext<'_, B>, args: &RecipesArgs) -> VerbResult {
    let target = cx.resolve_optional_target(&InventoryArg::default())?;
    let output = cx.output_for(&target.clone().unwrap_or_default());
    let loaded: Option<LoadedProject<B::Project>> = target.map(|target| cx.load_project(&target)).transpose()?;
    let project = loaded.as_ref().map(|(project, _)| cx.backend.project(project));
    match &args.name {
        None => output.write_result(&|writer, out| writer.write_recipes(&config::list_recipes(project), out))?,
        Some(name) => write_recipe_page(&output, project, name)?,
    }
    Ok(ExitCode::Done)
}

fn write_recipe_page(
    output: &VerbOutput<'_>,
    project: Option<&Project>,
    name: &str,
) -> Result<(), super::error::CliError> {
    let page = config::find_recipe_details(project, name).ok_or_else(|| {
        let sources = project.map_or_else(SourceMap::default, |project| project.sources.clone());
        output.report_selection_error(&unknown_recipe_diag(project, name), &sources)
    })?;
    output.write_result(&|writer, out| writer.write_recipe(&page, out))
}

fn unknown_recipe_diag(project: Option<&Project>, name: &str) -> Diag {
    let known = config::list_recipes(project);
    let diag = Diag::error(DiagCode::UnknownRecipe, format!("recipe `{name}` not found"));
    diag.suggest_name(name, known.iter().map(|line| line.name.as_str()))
}
