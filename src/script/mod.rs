//! Shell scripts for hosts: the only module that assembles them.
//!
//! Architecture Invariant: every value is quoted by type. A [`ShellFragment`] takes code only as `&'static str`;
//! everything else is inserted as a quoted word or as encoded data.

mod assemble;
mod check_text;
mod fragment;
mod own_shell;
pub mod safe_path;

pub use assemble::{ScriptLimit, ScriptToken, ShellScript};
pub use check_text::{CheckTextFault, find_check_fault};
pub use fragment::{FragmentError, ShellFragment, quote_word};
pub use own_shell::is_own_shell;

#[cfg(test)]
mod tests;
