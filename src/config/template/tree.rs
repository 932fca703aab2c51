//! Template values: trees that record what is read of them, and facts that may be unknown.

use super::allowance::CELL;
use super::record::{self, MissingName};
use super::{FactSource, PendingInput};
use crate::model::Value as Json;
use indexmap::IndexMap;
use minijinja::value::{Enumerator, Object, ObjectRepr, Value, ValueKind};
use minijinja::{Error, ErrorKind};
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

/// The names that a template can read. Cheap to clone. Names without a value are undefined.
#[derive(Clone, Debug, Default)]
pub(in crate::config) struct TemplateBindings {
    pub params: Option<Value>,
    pub vars: Option<Value>,
    pub recipes: Option<Value>,
    pub host: Option<Value>,
    pub hosts: Option<Value>,
    pub item: Option<Value>,
    pub key: Option<Value>,
    pub exports: Option<Value>,
    pub facts: Option<Value>,
    /// Objects of the cluster that a verification reads.
    pub object: Option<Value>,
    pub objects: Option<Value>,
}

impl TemplateBindings {
    /// Returns the context of an evaluation.
    pub fn context(&self) -> Value {
        Value::from_object(self.clone())
    }
}

impl Object for TemplateBindings {
    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        self.get_value_by_str(key.as_str()?)
    }

    fn get_value_by_str(self: &Arc<Self>, key: &str) -> Option<Value> {
        match key {
            "params" => self.params.clone(),
            "vars" => self.vars.clone(),
            "recipes" => self.recipes.clone(),
            "host" => self.host.clone(),
            "hosts" => self.hosts.clone(),
            "item" => {
                let item = self.item.clone()?;
                if item.downcast_object_ref::<TreeBranch>().is_none() {
                    leaf("item".to_owned(), &item, BranchKind::Plain);
                }
                Some(item)
            }
            "key" => self.key.clone(),
            "exports" => self.exports.clone(),
            "facts" => self.facts.clone(),
            "object" => self.object.clone(),
            "objects" => self.objects.clone(),
            _ => None,
        }
    }
}

/// A map that records reads, including reads of missing names.
#[derive(Debug)]
struct TreeBranch {
    path: String,
    entries: IndexMap<String, Value>,
    kind: BranchKind,
    weight: OnceLock<u64>,
}

/// How reads from a branch are recorded.
#[derive(Clone, Copy, Debug, PartialEq)]
enum BranchKind {
    /// A known value: reads are not part of the basis.
    Plain,
    /// Facts: reads are part of the step's basis.
    Fact,
}

impl Object for TreeBranch {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Map
    }

    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        match key.as_str() {
            Some(key) => self.get_value_by_str(key),
            None => self.get_value_by_str(&key.to_string()),
        }
    }

    fn get_value_by_str(self: &Arc<Self>, key: &str) -> Option<Value> {
        match self.entries.get(key) {
            Some(value) => {
                if let Some(part) = value.downcast_object_ref::<UnknownPart>() {
                    return Some(part.read());
                }
                self.read(key, value);
                Some(value.clone())
            }
            None => {
                record::missing(|| self.missing(key));
                None
            }
        }
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        if self.kind == BranchKind::Fact {
            record::note(|record| {
                record.reads.insert(bare(&self.path).to_owned());
            });
        }
        let keys: Vec<Value> = self.entries.keys().map(|key| Value::from(key.as_str())).collect();
        Enumerator::Values(keys)
    }
}

impl TreeBranch {
    fn read(&self, key: &str, value: &Value) {
        if value.downcast_object_ref::<TreeBranch>().is_none() {
            leaf(join(&self.path, key), value, self.kind);
        }
    }

    fn missing(&self, key: &str) -> MissingName {
        MissingName { path: join(&self.path, key), name: key.to_owned(), known: self.entries.keys().cloned().collect() }
    }
}

fn join(path: &str, key: &str) -> String {
    match path {
        "" => key.to_owned(),
        _ => format!("{path}.{key}"),
    }
}

fn branch(path: &str, entries: IndexMap<String, Value>, kind: BranchKind) -> Value {
    Value::from_object(TreeBranch { path: path.to_owned(), entries, kind, weight: OnceLock::new() })
}

/// Returns the weight of a value of a type in this module, without reading it: reads would be recorded.
pub(super) fn own_weight(value: &Value) -> Option<u64> {
    let object = value.as_object()?;
    if let Some(branch) = object.downcast_ref::<TreeBranch>() {
        return Some(branch.weight());
    }
    let others = object.is::<UnknownPart>() || object.is::<FactsRoot>() || object.is::<RecipeExports>();
    (others || object.is::<TemplateBindings>()).then_some(0)
}

impl TreeBranch {
    fn weight(&self) -> u64 {
        *self.weight.get_or_init(|| {
            self.entries.iter().map(|(key, value)| 2 * CELL + key.len() as u64 + inner_weight(value)).sum()
        })
    }
}

fn inner_weight(value: &Value) -> u64 {
    match (own_weight(value), value.as_str(), value.kind()) {
        (Some(own), ..) => own,
        (_, Some(text), _) => text.len() as u64,
        (_, _, ValueKind::Seq) => value.try_iter().into_iter().flatten().map(|item| CELL + inner_weight(&item)).sum(),
        _ => 0,
    }
}

/// Builds a tree named `name` from a value.
pub(in crate::config) fn tree(name: &str, value: &Json) -> Value {
    build(name, value, BranchKind::Plain)
}

/// Builds a map named `name` from values that are trees already.
pub(in crate::config) fn plain(name: &str, entries: impl IntoIterator<Item = (String, Value)>) -> Value {
    branch(name, entries.into_iter().collect(), BranchKind::Plain)
}

/// A part of a fact that could not be read, while the rest could.
#[derive(Debug)]
struct UnknownPart {
    path: String,
    why: String,
}

impl Object for UnknownPart {}

impl UnknownPart {
    /// Defers the evaluation.
    fn read(&self) -> Value {
        unknown(PendingInput::UnknownFact { path: bare(&self.path).to_owned(), why: self.why.clone() })
    }
}

/// Returns why a part of the facts is unknown. A list is unknown if one of its items is: reads of items are not
/// recorded.
fn why_unknown(value: &Json) -> Option<&str> {
    let mut items = value.as_array().into_iter().flatten();
    crate::facts::why_unknown(value).or_else(|| items.find_map(crate::facts::why_unknown))
}

/// Builds a part of the facts, which may be unknown.
fn fact(path: &str, value: &Json, kind: BranchKind) -> Value {
    match why_unknown(value) {
        Some(why) => Value::from_object(UnknownPart { path: path.to_owned(), why: why.to_owned() }),
        None => build(path, value, kind),
    }
}

fn build(path: &str, value: &Json, kind: BranchKind) -> Value {
    let inside = match path.starts_with("facts.") {
        true => fact,
        false => build,
    };
    match value {
        Json::Object(map) => {
            let entries = map.iter().map(|(key, value)| (key.clone(), inside(&join(path, key), value, kind))).collect();
            branch(path, entries, kind)
        }
        Json::Array(items) => {
            // A list of facts is recorded when it is read. Reads of its items need no record.
            let item = |(at, item): (usize, &Json)| inside(&format!("{path}[{at}]"), item, BranchKind::Plain);
            Value::from(items.iter().enumerate().map(item).collect::<Vec<_>>())
        }
        Json::Null => Value::from(()),
        Json::Bool(flag) => Value::from(*flag),
        Json::String(text) => Value::from(text.as_str()),
        Json::Number(number) => self::number(number),
    }
}

fn number(number: &serde_json::Number) -> Value {
    match (number.as_i64(), number.as_u64()) {
        (Some(number), _) => Value::from(number),
        (None, Some(number)) => Value::from(number),
        (None, None) => Value::from(number.as_f64().unwrap_or_default()),
    }
}

/// `facts`: each by name, known, unknown, or not observed yet.
#[derive(Debug)]
struct FactsRoot {
    known: Option<BTreeMap<String, Result<Value, String>>>,
}

/// Builds `facts`.
pub(in crate::config) fn facts(source: FactSource<'_>) -> Value {
    let known = match source {
        FactSource::NotYet => None,
        FactSource::Known(facts) => {
            let one = |(name, fact): (&String, &Result<Json, crate::probe::UnansweredReason>)| {
                let fact = match fact {
                    Ok(value) => match why_unknown(value) {
                        Some(why) => Err(why.to_owned()),
                        None => Ok(build(&format!("facts.{name}"), value, BranchKind::Fact)),
                    },
                    Err(unknown) => Err(unknown.why.clone()),
                };
                (name.clone(), fact)
            };
            Some(facts.0.iter().map(one).collect())
        }
    };
    Value::from_object(FactsRoot { known })
}

impl Object for FactsRoot {
    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        self.get_value_by_str(key.as_str()?)
    }

    fn get_value_by_str(self: &Arc<Self>, key: &str) -> Option<Value> {
        let Some(known) = &self.known else {
            return Some(unknown(PendingInput::Facts));
        };
        match known.get(key) {
            Some(Ok(value)) => {
                if value.downcast_object_ref::<TreeBranch>().is_none() {
                    leaf(format!("facts.{key}"), value, BranchKind::Fact);
                }
                Some(value.clone())
            }
            Some(Err(why)) => Some(unknown(PendingInput::UnknownFact { path: key.to_owned(), why: why.clone() })),
            None if crate::facts::names().any(|name| name == key) => {
                Some(unknown(PendingInput::UnknownFact { path: key.to_owned(), why: "was not observed".to_owned() }))
            }
            None => {
                record::missing(|| MissingName {
                    path: format!("facts.{key}"),
                    name: key.to_owned(),
                    known: known.keys().cloned().collect(),
                });
                None
            }
        }
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        record::need(PendingInput::Facts);
        Enumerator::Empty
    }
}

/// Records the reading of a value that is not a map.
fn leaf(path: String, value: &Value, kind: BranchKind) {
    let single = matches!(value.kind(), ValueKind::None | ValueKind::Bool | ValueKind::Number | ValueKind::String);
    record::note(|record| {
        if kind == BranchKind::Fact {
            if value.kind() == ValueKind::Seq && value.len() == Some(0) {
                record.empty.get_or_insert_with(|| bare(&path).to_owned());
            }
            record.reads.insert(bare(&path).to_owned());
        }
        if single {
            record.leaves.insert(path);
        }
    });
}

/// Returns the path of a fact without the root: `os.id`.
fn bare(path: &str) -> &str {
    path.strip_prefix("facts.").unwrap_or(path)
}

/// Returns a value that stops the evaluation when it is used. The record stores the reason.
fn unknown(need: PendingInput) -> Value {
    record::need(need);
    Value::from(Error::new(ErrorKind::InvalidOperation, "not known yet"))
}

/// `exports["recipe"]`: values exported by other steps.
#[derive(Debug)]
struct RecipeExports {
    recipe: String,
    values: BTreeMap<String, Option<Value>>,
}

impl Object for RecipeExports {
    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        self.get_value_by_str(key.as_str()?)
    }

    fn get_value_by_str(self: &Arc<Self>, key: &str) -> Option<Value> {
        match self.values.get(key) {
            Some(Some(value)) => Some(value.clone()),
            _ => Some(unknown(PendingInput::Export { recipe: self.recipe.clone(), name: key.to_owned() })),
        }
    }
}

/// Builds `exports` for `recipes`. Reading a name that is not in `made` defers the evaluation.
pub(in crate::config) fn exports<'r>(
    recipes: impl IntoIterator<Item = &'r str>,
    made: &crate::config::ExportedValues,
) -> Value {
    let one = |recipe: &str| {
        let values = made
            .get(recipe)
            .map(|values| {
                values.iter().map(|(name, value)| (name.clone(), value.as_ref().map(|v| tree(name, v)))).collect()
            })
            .unwrap_or_default();
        (recipe.to_owned(), Value::from_object(RecipeExports { recipe: recipe.to_owned(), values }))
    };
    plain("exports", recipes.into_iter().map(one))
}

/// Returns whether every placeholder of a secret in `text` is intact. A filter could have truncated or changed one, and
/// a broken placeholder would reach the host as text.
pub(in crate::config) fn secret_safe(text: &str) -> bool {
    use crate::model::{PLACEHOLDER_CLOSE, PLACEHOLDER_OPEN};
    let mut rest = text;
    while let Some(start) = rest.find(['\u{e000}', PLACEHOLDER_CLOSE]) {
        let Some(inner) = rest[start..].strip_prefix(PLACEHOLDER_OPEN) else { return false };
        let Some(end) = inner.find(['\u{e000}', PLACEHOLDER_CLOSE]) else { return false };
        match inner[end..].strip_prefix(PLACEHOLDER_CLOSE) {
            Some(after) => rest = after,
            None => return false,
        }
    }
    true
}
