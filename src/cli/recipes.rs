//! `forge recipes`.

use super::args::InventoryArg;
use super::backend::Backend;
use super::run::{Cx, Ending};
use crate::config;
use crate::diag::{Code, Diag};
use crate::model::ExitCode;

/// List recipes, or show one: parameters, rules, steps, what it provides and proves
///
/// Every recipe that can be named is listed, applied or not, with the file it comes from.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Examples:
  forge recipes                                  those of ./inventory.yaml
  forge recipes nvidia-driver -i cluster.yaml    one of them in full
  forge recipes nvidia-driver --format json | jq '.recipe.params'")]
pub struct Args {
    /// The recipe to show; all of them are listed without
    pub name: Option<String>,
}

pub fn run<B: Backend>(cx: &Cx<'_, B>, args: &Args) -> Ending {
    let target = cx.target(&InventoryArg::default())?;
    let output = cx.output(&target);
    let (project, _) = cx.load(&target)?;
    let project = cx.backend.project(&project);
    match &args.name {
        None => output.result(&|writer, out| writer.recipes(&config::catalog(project), out))?,
        Some(name) => {
            let page = config::recipe_page(project, name);
            let page = page.ok_or_else(|| output.selection_error(&unknown(project, name), &project.sources))?;
            output.result(&|writer, out| writer.recipe(&page, out))?;
        }
    }
    Ok(ExitCode::Done)
}

fn unknown(project: &config::Project, name: &str) -> Diag {
    let diag = Diag::error(Code::UnknownRecipe, format!("there is no recipe `{name}`"));
    diag.suggest(name, project.library.keys().map(String::as_str))
}
