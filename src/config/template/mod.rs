//! Strict templates and expressions that record which facts they read and which values are not known yet.
//!
//! Templates are deterministic: they do not depend on a clock, random numbers, the environment or files. Reading a name
//! that does not exist is always an error, even if it is only compared.

mod engine;
mod eval_budget;
mod eval_record;
mod filters;
mod metered_code;
mod metered_filters;
mod nesting;
mod node_filters;
mod repository_filter;
mod secret_guard;
mod template_scan;
mod value_cost;
mod value_tree;

pub(super) use engine::{ProgramCache, TemplateForm, TemplateProgram};
pub(super) use template_scan::{TemplateRead, TemplateRoot};
pub(super) use value_tree::{TemplateBindings, build_exports, build_facts, build_map, build_tree};

use crate::config::exported_values::{MissingExports, describe_missing};
use crate::facts::Facts;
use std::collections::BTreeSet;

/// The result of an evaluation.
#[derive(Clone, Debug, PartialEq)]
pub enum EvalOutcome<T> {
    /// A known value, with the fact paths that were read (`os.id`). They are part of the step's basis.
    Known {
        /// The result. A template that consists of one `{{ … }}` keeps the type of its value.
        value: T,
        /// Fact paths that the evaluation read (`os.id`).
        reads: BTreeSet<String>,
    },
    /// The value depends on something that is not known yet.
    Deferred(PendingInput),
}

/// The value that an evaluation waits for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PendingInput {
    /// Facts have not been observed yet.
    Facts,
    /// The fact was observed but could not be read: path and reason.
    UnknownFact {
        /// The fact, or the part of one, without `facts.`: `gpus`.
        path: String,
        /// Why the host could not report it, as a lowercase fragment.
        why: String,
    },
    /// A value that has not been exported yet: recipe and name.
    Export {
        /// The recipe whose step publishes the value.
        recipe: String,
        /// The name of the value.
        name: String,
        /// The hosts whose value is not known in this run; empty if it may still be exported.
        missing: MissingExports,
    },
}

impl PendingInput {
    /// Describes the missing value as a lowercase fragment.
    pub fn describe(&self) -> String {
        match self {
            Self::Facts => "facts are not observed yet".to_owned(),
            Self::UnknownFact { path, why } => format!("fact `{path}` is unknown: {why}"),
            Self::Export { recipe, name, missing } if !missing.is_empty() => {
                format!("`{name}` of `{recipe}` is not known on every host{}", describe_missing(missing))
            }
            Self::Export { recipe, name, .. } => format!("`{name}` of `{recipe}` is not exported yet"),
        }
    }
}

/// An error in a template, with the byte range in its source if the engine reports one.
#[derive(Clone, Debug, PartialEq)]
pub struct TemplateError {
    /// A lowercase fragment.
    pub message: String,
    /// Byte range in the template or expression; `None` if the error has no known place.
    pub range: Option<std::ops::Range<usize>>,
    /// How to fix it, if forge knows.
    pub hint: Option<String>,
    /// Whether a name does not exist, as opposed to invalid syntax or types.
    pub undefined: bool,
}

/// The source of facts for an evaluation.
#[derive(Clone, Copy, Debug)]
pub enum FactSource<'a> {
    /// Facts are not observed yet: reading any fact defers the evaluation.
    NotYet,
    /// The facts that the host reported.
    Known(&'a Facts),
}

/// The result of `expect`.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum ExpectOutcome {
    Known { value: bool, reads: BTreeSet<String> },
    Unknown { why: String, need: Option<PendingInput> },
}
