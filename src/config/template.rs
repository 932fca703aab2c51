//! Strict templates and expressions that tell what they read, and what they could not know yet.

use crate::facts::Facts;
use crate::model::Value;
use std::collections::{BTreeMap, BTreeSet};

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

/// The names a template can read.
#[derive(Clone, Debug)]
pub struct Scope<'a> {
    /// `params.x`
    pub params: &'a BTreeMap<String, Value>,
    /// `vars.x`
    pub vars: &'a BTreeMap<String, Value>,
    /// `recipes["other"].x`: parameters of the other recipes on the same host.
    pub recipes: &'a BTreeMap<String, BTreeMap<String, Value>>,
    /// `host.name`, `host.address`, `host.groups`.
    pub host: &'a Value,
    /// `hosts`: names and addresses of the selection of this recipe, in inventory order.
    pub hosts: &'a Value,
    /// `item` and `key` inside an `each`.
    pub item: Option<(&'a str, &'a Value)>,
    /// `exports["recipe"].name`: values made by other steps; `None` while unmade.
    pub exports: &'a BTreeMap<String, BTreeMap<String, Option<Value>>>,
    pub facts: FactSource<'a>,
}
