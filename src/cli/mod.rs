//! The command line: one file per verb.

/// Parses argv and runs a verb.
pub fn main() -> std::process::ExitCode {
    crate::model::ExitCode::Unexpected.into()
}
