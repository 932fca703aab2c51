//! The parts of the help that are generated from types, so that they stay complete.

use super::env;
use crate::model::ExitCode;

/// Returns the last part of `forge --help`: environment variables and exit codes.
pub fn render_help_footer() -> String {
    format!("{}\n\n{}", render_variables(), render_exit_codes())
}

fn render_variables() -> String {
    let lines = env::VARIABLES.iter().map(|(name, meaning)| format!("  {name:<16} {meaning}"));
    format!("Environment:\n{}", lines.collect::<Vec<_>>().join("\n"))
}

fn render_exit_codes() -> String {
    let mut codes = ExitCode::WORST_FIRST;
    codes.sort_by_key(|code| code.code());
    let lines = codes.iter().map(|code| format!("  {:>3}  {}", code.code(), code.meaning()));
    let order = ExitCode::WORST_FIRST.map(|code| code.code().to_string()).join(", ");
    let lines = lines.collect::<Vec<_>>().join("\n");
    format!("Exit codes:\n{lines}\nIf several apply, forge exits with the first of: {order}.")
}
