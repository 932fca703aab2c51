//! Precedence of the sources of the inventory path.

use super::*;
use crate::model::ExitCode;

fn global(arguments: &[&str]) -> GlobalArgs {
    use clap::Parser;
    let argv = ["forge", "plan"].iter().chain(arguments);
    super::super::args::Cli::try_parse_from(argv).unwrap().global
}

fn target(
    argument: Option<&str>,
    typed: &[&str],
    variable: Option<&str>,
    there: bool,
) -> Result<InventoryTarget, CliError> {
    let argument = InventoryArg { inventory: argument.map(Into::into) };
    let environment = CliEnvironment { inventory: variable.map(Into::into), ..CliEnvironment::default() };
    resolve(&argument, &global(typed), &environment, |path| there && path == "inventory.yaml")
}

fn found(path: &str, arguments: &str) -> InventoryTarget {
    InventoryTarget { path: path.into(), arguments: arguments.into() }
}

#[test]
fn the_argument_the_flag_the_variable_the_folder() {
    assert_eq!(target(Some("a"), &[], Some("c"), true).unwrap(), found("a", "a"));
    assert_eq!(target(None, &["-i", "b"], Some("c"), true).unwrap(), found("b", "-i b"));
    assert_eq!(target(None, &[], Some("c"), true).unwrap(), found("c", ""));
    assert_eq!(target(None, &[], None, true).unwrap(), found("inventory.yaml", ""));
    assert_eq!(target(None, &[], None, false).unwrap_err().exit, ExitCode::Usage);
}

#[test]
fn a_next_command_repeats_what_narrows_the_work() {
    let typed = ["--on", "gpu:!canary", "--step", "a/*", "--step", "b", "--skip", "c d"];
    let expected = "'x y.yaml' --on 'gpu:!canary' --step 'a/*' --step b --skip 'c d'";
    assert_eq!(target(Some("x y.yaml"), &typed, None, false).unwrap().arguments, expected);
}
