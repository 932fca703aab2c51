//! Text that a host's shell runs: the only place where it is put together.
//!
//! Architecture Invariant: every value is quoted by type. A [`Fragment`] takes code only as `&'static str`;
//! everything else enters as a quoted word or as encoded data.

mod assemble;
mod fragment;
pub mod safe_path;

pub use assemble::{Script, Token};
pub use fragment::{Fragment, FragmentError};

#[cfg(test)]
mod tests;
