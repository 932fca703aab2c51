//! Selection of the inventory of a verb, and the arguments that a suggested next command repeats.

use super::env::CliEnvironment;
use super::error::CliError;
use super::shared_args::{GlobalArgs, InventoryArg};
use camino::{Utf8Path, Utf8PathBuf};

const DEFAULT_INVENTORY: &str = "inventory.yaml";

/// An inventory's path and the arguments that select it again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InventoryTarget {
    pub path: Utf8PathBuf,
    /// Quoted for a shell; empty if none are needed.
    pub arguments: String,
    /// The same for a verb that takes the inventory only with `-i`.
    pub resume_arguments: String,
}

/// Finds the inventory: the argument, then `-i`, then `$FORGE_INVENTORY`, then `./inventory.yaml`.
///
/// # Errors
/// Usage: given twice, or none of these exists.
pub fn resolve_inventory(
    argument: &InventoryArg,
    typed: &GlobalArgs,
    environment: &CliEnvironment,
    exists: impl Fn(&Utf8Path) -> bool,
) -> Result<InventoryTarget, CliError> {
    let (path, mut arguments) = match (&argument.inventory, &typed.inventory_flag, &environment.inventory) {
        (Some(argument), Some(flag), _) => return Err(duplicate_inventory_error(argument, flag)),
        (Some(path), None, _) => (path.clone(), vec![path.to_string()]),
        (None, Some(path), _) => (path.clone(), vec!["-i".to_owned(), path.to_string()]),
        (None, None, Some(path)) => (path.clone(), Vec::new()),
        (None, None, None) if exists(Utf8Path::new(DEFAULT_INVENTORY)) => (DEFAULT_INVENTORY.into(), Vec::new()),
        (None, None, None) => return Err(no_inventory_error()),
    };
    let flag = argument.inventory.iter().map(|_| "-i".to_owned());
    let selection = collect_selection_flags(typed);
    let resume_arguments = join_quoted(&flag.chain(arguments.iter().chain(&selection).cloned()).collect::<Vec<_>>());
    arguments.extend(selection);
    Ok(InventoryTarget { path, arguments: join_quoted(&arguments), resume_arguments })
}

/// Reports whether [`resolve_inventory`] finds an inventory, or an error in how it is given.
pub fn is_inventory_given(
    argument: &InventoryArg,
    typed: &GlobalArgs,
    environment: &CliEnvironment,
    exists: impl Fn(&Utf8Path) -> bool,
) -> bool {
    let named = argument.inventory.is_some() || typed.inventory_flag.is_some() || environment.inventory.is_some();
    named || exists(Utf8Path::new(DEFAULT_INVENTORY))
}

/// Returns the flags that a next command repeats to select the same hosts and steps.
fn collect_selection_flags(typed: &GlobalArgs) -> Vec<String> {
    let on = typed.on.iter().map(|on| ("--on", on));
    let step = typed.step.iter().map(|step| ("--step", step));
    let skip = typed.skip.iter().map(|skip| ("--skip", skip));
    on.chain(step).chain(skip).flat_map(|(flag, value)| [flag.to_owned(), value.clone()]).collect()
}

/// Joins and quotes arguments. Quoting fails only for a NUL byte, which cannot be typed.
fn join_quoted(arguments: &[String]) -> String {
    shlex::try_join(arguments.iter().map(String::as_str)).unwrap_or_default()
}

/// Quotes one argument for a next command.
pub fn quote_argument(argument: &str) -> String {
    join_quoted(&[argument.to_owned()])
}

pub(super) fn duplicate_inventory_error(argument: &Utf8Path, flag: &Utf8Path) -> CliError {
    CliError::usage(format!("two inventories given: `{argument}` and `-i {flag}`")).hint("pass only one of them")
}

fn no_inventory_error() -> CliError {
    CliError::usage("no inventory given")
        .note("tried: the argument and `-i` (not given), `$FORGE_INVENTORY` (not set), `./inventory.yaml` (not found)")
        .hint("pass one, as in `forge plan cluster.yaml`")
}

#[cfg(test)]
mod tests;
