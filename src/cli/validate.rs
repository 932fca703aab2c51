//! `forge validate`.

use super::backend::Backend;
use super::error::CliError;
use super::shared_args::{InventoryArg, OutputFormat};
use super::verb_context::{VerbContext, VerbResult};
use crate::diag::Diag;
use crate::model::ExitCode;
use crate::view::progress::ProgressDetail;
use crate::view::{CheckedInventory, ValidationResult};
use camino::{Utf8Path, Utf8PathBuf};

/// Validate inventories and their recipes; no host is contacted
///
/// Reports all errors of all files at once, each with its code, location, excerpt and a hint.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Examples:
  forge validate cluster.yaml
  forge validate clusters/*.yaml --format json    for editors and pipelines")]
pub struct ValidateArgs {
    /// Inventory files; default to -i, then $FORGE_INVENTORY, then ./inventory.yaml
    pub inventories: Vec<Utf8PathBuf>,
}

pub fn run_validate<B: Backend>(cx: &VerbContext<'_, B>, args: &ValidateArgs) -> VerbResult {
    let first = InventoryArg { inventory: args.inventories.first().cloned() };
    let target = cx.resolve_target(&first)?;
    let output = cx.output_for(&target);
    let rest = args.inventories.iter().skip(1);
    let paths = std::iter::once(&target.path).chain(rest);
    let checked = paths.map(|path| check_inventory(cx, path)).collect::<Result<Vec<_>, _>>()?;
    let (inventories, selected): (Vec<_>, Vec<_>) = checked.into_iter().unzip();
    let validation = ValidationResult { inventories };
    for checked in &validation.inventories {
        output.write_diags(&checked.diags, &checked.sources)?;
    }
    for (diag, checked) in selected.iter().zip(&validation.inventories) {
        diag.iter().try_for_each(|diag| Err(output.report_selection_error(diag, &checked.sources)))?;
    }
    let exit = match validation.count_errors() {
        0 => ExitCode::Done,
        _ => ExitCode::Input,
    };
    // With `--quiet`, valid inventories print nothing.
    let silent = exit == ExitCode::Done
        && cx.settings.detail == ProgressDetail::Quiet
        && cx.settings.format == OutputFormat::Text;
    match silent {
        true => output.write_json_file(&|writer, out| writer.write_validation(&validation, exit, out))?,
        false => output.write_result(&|writer, out| writer.write_validation(&validation, exit, out))?,
    }
    Ok(exit)
}

/// Loads an inventory and, if it is valid, checks the host and step selection.
///
/// # Errors
/// The selection refers to the last run, which cannot be read.
fn check_inventory<B: Backend>(
    cx: &VerbContext<'_, B>,
    path: &Utf8Path,
) -> Result<(CheckedInventory, Option<Box<Diag>>), CliError> {
    let (project, diags, sources) = cx.backend.load_project(path, cx.settings);
    let project = project.as_ref().filter(|_| !diags.has_errors());
    let past = project.map(|project| cx.find_past_hosts(project)).transpose()?.flatten();
    let wrong = project.and_then(|project| cx.backend.select_hosts(project, cx.settings, past.as_ref()).err());
    let size = project.map(|project| cx.backend.project_size(project));
    Ok((CheckedInventory { path: path.to_owned(), diags, sources, size }, wrong))
}
