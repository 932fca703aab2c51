//! Strict templates and expressions that tell what they read, and what they could not know yet.
//!
//! Nothing in a template depends on a clock, chance, the environment or a file: the same names give the
//! same text. A name that does not exist is an error wherever it is read, also where it is only compared.

mod allowance;
mod engine;
mod filters;
mod guarded;
mod metered;
mod names;
mod nesting;
mod nodes;
mod record;
mod tree;

pub(super) use engine::{Form, Program, Programs};
pub(super) use names::{Read, Root};
pub(super) use tree::{Bindings, exports, facts, plain, tree};

use crate::facts::Facts;
use std::collections::BTreeSet;

/// What an evaluation came to.
#[derive(Clone, Debug, PartialEq)]
pub enum Eval<T> {
    /// Known, with the fact paths it read (`os.id`): they are part of the step's basis.
    Known { value: T, reads: BTreeSet<String> },
    /// Depends on something not known now.
    Deferred(Need),
}

/// What an evaluation waits for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Need {
    /// Facts have not been observed yet.
    Facts,
    /// The fact was observed and could not be told: path and why.
    UnknownFact { path: String, why: String },
    /// An exported value has not been made yet: recipe, name.
    Export { recipe: String, name: String },
}

impl Need {
    /// Returns what is waited for, as a lowercase fragment.
    pub fn describe(&self) -> String {
        match self {
            Self::Facts => "facts are not observed yet".to_owned(),
            Self::UnknownFact { path, why } => format!("fact `{path}` is unknown: {why}"),
            Self::Export { recipe, name } => format!("`{name}` of `{recipe}` is not made yet"),
        }
    }
}

/// A mistake in a template, with the byte range inside its source when the engine tells it.
#[derive(Clone, Debug, PartialEq)]
pub struct TemplateError {
    pub message: String,
    pub range: Option<std::ops::Range<usize>>,
    pub hint: Option<String>,
    /// Whether a name does not exist (as opposed to bad syntax or types).
    pub undefined: bool,
}

/// Where facts come from during an evaluation.
#[derive(Clone, Copy, Debug)]
pub enum FactSource<'a> {
    /// Not observed yet: reading any defers the evaluation.
    NotYet,
    Known(&'a Facts),
}

/// An answer to `expect`.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Expect {
    Known { value: bool, reads: BTreeSet<String> },
    Unknown { why: String, need: Option<Need> },
}
