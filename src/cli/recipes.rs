//! `forge recipes`.

use super::args::InventoryArg;
use super::backend::Backend;
use super::output::VerbOutput;
use super::run::{LoadedProject, VerbContext, VerbResult};
use crate::config::{self, Project};
use crate::diag::{Code, Diag, SourceMap};
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

pub fn run<B: Backend>(cx: &VerbContext<'_, B>, args: &RecipesArgs) -> VerbResult {
    let target = cx.target_if_any(&InventoryArg::default())?;
    let output = cx.output(&target.clone().unwrap_or_default());
    let loaded: Option<LoadedProject<B::Project>> = target.map(|target| cx.load(&target)).transpose()?;
    let project = loaded.as_ref().map(|(project, _)| cx.backend.project(project));
    match &args.name {
        None => output.result(&|writer, out| writer.recipes(&config::catalog(project), out))?,
        Some(name) => page(&output, project, name)?,
    }
    Ok(ExitCode::Done)
}

fn page(output: &VerbOutput<'_>, project: Option<&Project>, name: &str) -> Result<(), super::error::CliError> {
    let page = config::recipe_page(project, name).ok_or_else(|| {
        let sources = project.map_or_else(SourceMap::default, |project| project.sources.clone());
        output.selection_error(&unknown(project, name), &sources)
    })?;
    output.result(&|writer, out| writer.recipe(&page, out))
}

fn unknown(project: Option<&Project>, name: &str) -> Diag {
    let known = config::catalog(project);
    let diag = Diag::error(Code::UnknownRecipe, format!("recipe `{name}` not found"));
    diag.suggest(name, known.iter().map(|line| line.name.as_str()))
}
