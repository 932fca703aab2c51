//! Precedence of the sources of the inventory path.

use super::*;
use crate::model::ExitCode;

fn parse_global_args(arguments: &[&str]) -> GlobalArgs {
    use clap::Parser;
    let argv = ["forge", "plan"].iter().chain(arguments);
    super::super::args::Cli::try_parse_from(argv).unwrap().global
}

fn resolve_target(
    argument: Option<&str>,
    typed: &[&str],
    variable: Option<&str>,
    there: bool,
) -> Result<InventoryTarget, CliError> {
    let argument = InventoryArg { inventory: argument.map(Into::into) };
    let environment = CliEnvironment { inventory: variable.map(Into::into), ..CliEnvironment::default() };
    resolve_inventory(&argument, &parse_global_args(typed), &environment, |path| there && path == "inventory.yaml")
}

fn expected_target(path: &str, arguments: &str, resume_arguments: &str) -> InventoryTarget {
    InventoryTarget { path: path.into(), arguments: arguments.into(), resume_arguments: resume_arguments.into() }
}

#[test]
fn inventory_argument_overrides_flag_variable_and_default() {
    assert_eq!(resolve_target(Some("a"), &[], Some("c"), true).unwrap(), expected_target("a", "a", "-i a"));
    assert_eq!(resolve_target(None, &["-i", "b"], Some("c"), true).unwrap(), expected_target("b", "-i b", "-i b"));
    assert_eq!(resolve_target(None, &[], Some("c"), true).unwrap(), expected_target("c", "", ""));
    assert_eq!(resolve_target(None, &[], None, true).unwrap(), expected_target("inventory.yaml", "", ""));
    assert_eq!(resolve_target(None, &[], None, false).unwrap_err().exit, ExitCode::Usage);
}

#[test]
fn next_command_repeats_the_selection_flags() {
    let typed = ["--on", "gpu:!canary", "--step", "a/*", "--step", "b", "--skip", "c d"];
    let expected = "'x y.yaml' --on 'gpu:!canary' --step 'a/*' --step b --skip 'c d'";
    assert_eq!(resolve_target(Some("x y.yaml"), &typed, None, false).unwrap().arguments, expected);
}
