//! `forge validate`.

use super::args::InventoryArg;
use super::backend::Backend;
use super::run::{Cx, Ending};
use crate::model::ExitCode;
use crate::view::{CheckedInventory, Validation};
use camino::{Utf8Path, Utf8PathBuf};

/// Check inventories and their recipes; no host is contacted
///
/// All mistakes of all files are found at once, each with its code, place, excerpt and a hint.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Examples:
  forge validate cluster.yaml
  forge validate clusters/*.yaml --format json    for editors and pipelines")]
pub struct Args {
    /// The inventories; else -i, else $FORGE_INVENTORY, else ./inventory.yaml
    pub inventories: Vec<Utf8PathBuf>,
}

pub fn run<B: Backend>(cx: &Cx<'_, B>, args: &Args) -> Ending {
    let first = InventoryArg { inventory: args.inventories.first().cloned() };
    let target = cx.target(&first)?;
    let output = cx.output(&target);
    let rest = args.inventories.iter().skip(1);
    let paths = std::iter::once(&target.path).chain(rest);
    let validation = Validation { inventories: paths.map(|path| check(cx, path)).collect() };
    for checked in &validation.inventories {
        output.diags(&checked.diags, &checked.sources)?;
    }
    let exit = match validation.errors() {
        0 => ExitCode::Done,
        _ => ExitCode::Input,
    };
    output.result(&|writer, out| writer.validation(&validation, exit, out))?;
    Ok(exit)
}

fn check<B: Backend>(cx: &Cx<'_, B>, path: &Utf8Path) -> CheckedInventory {
    let (project, diags, sources) = cx.backend.load(path, cx.settings);
    let size = project.as_ref().filter(|_| !diags.has_errors()).map(|project| cx.backend.size(project));
    CheckedInventory { path: path.to_owned(), diags, sources, size }
}
