//! The parts of the help that are made from types, so that they cannot lag behind.

use super::env;
use crate::model::ExitCode;

/// Returns the end of `forge --help`: variables and exit codes.
pub fn closing() -> String {
    format!("{}\n\n{}", variables(), exit_codes())
}

fn variables() -> String {
    let lines = env::VARIABLES.iter().map(|(name, meaning)| format!("  {name:<16} {meaning}"));
    format!("Environment:\n{}", lines.collect::<Vec<_>>().join("\n"))
}

fn exit_codes() -> String {
    let mut codes = ExitCode::WORST_FIRST;
    codes.sort_by_key(|code| code.code());
    let lines = codes.iter().map(|code| format!("  {:>3}  {}", code.code(), code.meaning()));
    let order = ExitCode::WORST_FIRST.map(|code| code.code().to_string()).join(", ");
    format!("Exit codes:\n{}\nWhen several hold, the first of: {order}.", lines.collect::<Vec<_>>().join("\n"))
}
