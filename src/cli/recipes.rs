//! `forge recipes`.

use super::args::InventoryArg;
use super::backend::Backend;
use super::output::Output;
use super::run::{Cx, Ending, Loaded};
use crate::config::{self, Project};
use crate::diag::{Code, Diag, Sources};
use crate::model::ExitCode;

/// List recipes, or show one: parameters, rules, steps, what it provides and proves
///
/// Every recipe that can be named is listed, applied or not: those of the inventory with their files, then those that are
/// built in. Without an inventory only the latter.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Examples:
  forge recipes                                  those of ./inventory.yaml, and those built in
  forge recipes nvidia-driver -i cluster.yaml    one of them in full
  forge recipes nvidia-driver --format json | jq '.recipe.params'")]
pub struct Args {
    /// The recipe to show; all of them are listed without
    pub name: Option<String>,
}

pub fn run<B: Backend>(cx: &Cx<'_, B>, args: &Args) -> Ending {
    let target = cx.target_if_any(&InventoryArg::default())?;
    let output = cx.output(&target.clone().unwrap_or_default());
    let loaded: Option<Loaded<B::Project>> = target.map(|target| cx.load(&target)).transpose()?;
    let project = loaded.as_ref().map(|(project, _)| cx.backend.project(project));
    match &args.name {
        None => output.result(&|writer, out| writer.recipes(&config::catalog(project), out))?,
        Some(name) => page(&output, project, name)?,
    }
    Ok(ExitCode::Done)
}

fn page(output: &Output<'_>, project: Option<&Project>, name: &str) -> Result<(), super::error::CliError> {
    let page = config::recipe_page(project, name).ok_or_else(|| {
        let sources = project.map_or_else(Sources::default, |project| project.sources.clone());
        output.selection_error(&unknown(project, name), &sources)
    })?;
    output.result(&|writer, out| writer.recipe(&page, out))
}

fn unknown(project: Option<&Project>, name: &str) -> Diag {
    let known = config::catalog(project);
    let diag = Diag::error(Code::UnknownRecipe, format!("there is no recipe `{name}`"));
    diag.suggest(name, known.iter().map(|line| line.name.as_str()))
}
