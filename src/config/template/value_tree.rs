//! Template values: trees that record what is read of them, and facts that may be unknown.

use super::eval_record::{self, MissingName};
use super::value_cost::VALUE_COST_BYTES;
use super::{FactSource, PendingInput};
use crate::config::{ExportedValue, MissingExports};
use crate::facts::FactAnswer;
use crate::model::{SecretStore, Value as Json};
use indexmap::IndexMap;
use minijinja::value::{DynObject, Enumerator, Object, ObjectRepr, Value, ValueKind};
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
    pub members: Option<Value>,
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
    pub fn to_context(&self) -> Value {
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
            "members" => self.members.clone(),
            "item" => {
                let item = self.item.clone()?;
                if item.downcast_object_ref::<TreeBranch>().is_none() {
                    record_leaf("item".to_owned(), &item, BranchKind::Plain);
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
    secret: OnceLock<bool>,
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
                    return Some(part.defer_evaluation());
                }
                self.record_read(key, value);
                Some(value.clone())
            }
            None => {
                eval_record::record_missing(|| self.to_missing_name(key));
                // A missing value decides `is defined`.
                if self.kind == BranchKind::Fact {
                    let path = join_path(&self.path, key);
                    eval_record::update_record(|record| _ = record.reads.insert(strip_facts_prefix(&path).to_owned()));
                }
                None
            }
        }
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        if self.kind == BranchKind::Fact {
            eval_record::update_record(|record| {
                record.reads.insert(strip_facts_prefix(&self.path).to_owned());
            });
        }
        let keys: Vec<Value> = self.entries.keys().map(|key| Value::from(key.as_str())).collect();
        Enumerator::Values(keys)
    }
}

impl TreeBranch {
    fn record_read(&self, key: &str, value: &Value) {
        if value.downcast_object_ref::<TreeBranch>().is_none() {
            record_leaf(join_path(&self.path, key), value, self.kind);
        }
    }

    fn to_missing_name(&self, key: &str) -> MissingName {
        MissingName {
            path: join_path(&self.path, key),
            name: key.to_owned(),
            known: self.entries.keys().cloned().collect(),
        }
    }
}

fn join_path(path: &str, key: &str) -> String {
    match path {
        "" => key.to_owned(),
        _ => format!("{path}.{key}"),
    }
}

fn build_branch(path: &str, entries: IndexMap<String, Value>, kind: BranchKind) -> Value {
    Value::from_object(TreeBranch {
        path: path.to_owned(),
        entries,
        kind,
        weight: OnceLock::new(),
        secret: OnceLock::new(),
    })
}

/// Returns the weight of a value of a type in this module, without reading it: reads would be recorded.
pub(super) fn own_weight(value: &Value) -> Option<u64> {
    let object = value.as_object()?;
    if let Some(branch) = object.downcast_ref::<TreeBranch>() {
        return Some(branch.weight());
    }
    is_leaf_object(object).then_some(0)
}

/// Returns whether an object of this module is not walked, because walking it would defer the evaluation.
fn is_leaf_object(object: &DynObject) -> bool {
    let others = object.is::<UnknownPart>() || object.is::<FactsRoot>() || object.is::<RecipeExports>();
    others || object.is::<PartialHostMap>() || object.is::<TemplateBindings>()
}

/// Returns whether a value is or contains a secret.
pub(super) fn contains_secret(value: &Value) -> bool {
    if let Some(own) = own_contains_secret(value) {
        return own;
    }
    if let Some(text) = value.as_str() {
        return SecretStore::has_placeholder(text);
    }
    let any = |mut items: minijinja::value::ValueIter| items.any(|item| contains_secret(&item));
    match value.kind() {
        ValueKind::Seq | ValueKind::Iterable => value.try_iter().is_ok_and(any),
        ValueKind::Map => value.try_iter().is_ok_and(|mut keys| {
            keys.any(|key| contains_secret(&key) || value.get_item(&key).is_ok_and(|item| contains_secret(&item)))
        }),
        _ => false,
    }
}

/// Returns whether a value of a type in this module contains a secret, without reading it.
fn own_contains_secret(value: &Value) -> Option<bool> {
    let object = value.as_object()?;
    match object.downcast_ref::<TreeBranch>() {
        Some(branch) => Some(*branch.secret.get_or_init(|| branch.entries.values().any(contains_secret))),
        None => is_leaf_object(object).then_some(false),
    }
}

impl TreeBranch {
    fn weight(&self) -> u64 {
        *self.weight.get_or_init(|| {
            self.entries.iter().map(|(key, value)| 2 * VALUE_COST_BYTES + key.len() as u64 + inner_weight(value)).sum()
        })
    }
}

fn inner_weight(value: &Value) -> u64 {
    match (own_weight(value), value.as_str(), value.kind()) {
        (Some(own), ..) => own,
        (_, Some(text), _) => text.len() as u64,
        (_, _, ValueKind::Seq) => {
            value.try_iter().into_iter().flatten().map(|item| VALUE_COST_BYTES + inner_weight(&item)).sum()
        }
        _ => 0,
    }
}

/// Builds a tree named `name` from a value.
pub(in crate::config) fn build_tree(name: &str, value: &Json) -> Value {
    build_value(name, value, BranchKind::Plain)
}

/// Builds a map named `name` from values that are trees already.
pub(in crate::config) fn build_map(name: &str, entries: impl IntoIterator<Item = (String, Value)>) -> Value {
    build_branch(name, entries.into_iter().collect(), BranchKind::Plain)
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
    fn defer_evaluation(&self) -> Value {
        build_unknown(PendingInput::UnknownFact {
            path: strip_facts_prefix(&self.path).to_owned(),
            why: self.why.clone(),
        })
    }
}

/// Returns why a part of the facts is unknown. A list is unknown if one of its items is: reads of items are not
/// recorded.
fn find_unknown_reason(value: &Json) -> Option<&str> {
    let mut items = value.as_array().into_iter().flatten();
    crate::facts::unknown_reason(value).or_else(|| items.find_map(crate::facts::unknown_reason))
}

/// Builds a part of the facts, which may be unknown.
fn build_fact(path: &str, value: &Json, kind: BranchKind) -> Value {
    match find_unknown_reason(value) {
        Some(why) => Value::from_object(UnknownPart { path: path.to_owned(), why: why.to_owned() }),
        None => build_value(path, value, kind),
    }
}

fn build_value(path: &str, value: &Json, kind: BranchKind) -> Value {
    let inside = match path.starts_with("facts.") {
        true => build_fact,
        false => build_value,
    };
    match value {
        Json::Object(map) => {
            let entries =
                map.iter().map(|(key, value)| (key.clone(), inside(&join_path(path, key), value, kind))).collect();
            build_branch(path, entries, kind)
        }
        Json::Array(items) => {
            // A list of facts is recorded when it is read. Reads of its items need no record.
            let item = |(at, item): (usize, &Json)| inside(&format!("{path}[{at}]"), item, BranchKind::Plain);
            Value::from(items.iter().enumerate().map(item).collect::<Vec<_>>())
        }
        Json::Null => Value::from(()),
        Json::Bool(flag) => Value::from(*flag),
        Json::String(text) => Value::from(text.as_str()),
        Json::Number(number) => self::build_number(number),
    }
}

fn build_number(number: &serde_json::Number) -> Value {
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
pub(in crate::config) fn build_facts(source: FactSource<'_>) -> Value {
    let known = match source {
        FactSource::NotYet => None,
        FactSource::Known(facts) => {
            let one = |(name, fact): (&str, &FactAnswer)| {
                let fact = match fact {
                    Ok(value) => match find_unknown_reason(value) {
                        Some(why) => Err(why.to_owned()),
                        None => Ok(build_value(&format!("facts.{name}"), value, BranchKind::Fact)),
                    },
                    Err(unknown) => Err(unknown.why.clone()),
                };
                (name.to_owned(), fact)
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
            return Some(build_unknown(PendingInput::Facts));
        };
        match known.get(key) {
            Some(Ok(value)) => {
                if value.downcast_object_ref::<TreeBranch>().is_none() {
                    record_leaf(format!("facts.{key}"), value, BranchKind::Fact);
                }
                Some(value.clone())
            }
            Some(Err(why)) => Some(build_unknown(PendingInput::UnknownFact { path: key.to_owned(), why: why.clone() })),
            None if crate::facts::fact_names().any(|name| name == key) => {
                Some(build_unknown(PendingInput::UnknownFact {
                    path: key.to_owned(),
                    why: "was not observed".to_owned(),
                }))
            }
            None => {
                eval_record::record_missing(|| MissingName {
                    path: format!("facts.{key}"),
                    name: key.to_owned(),
                    known: known.keys().cloned().collect(),
                });
                None
            }
        }
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        eval_record::record_need(PendingInput::Facts);
        Enumerator::Empty
    }
}

/// Records the reading of a value that is not a map.
fn record_leaf(path: String, value: &Value, kind: BranchKind) {
    let single = matches!(value.kind(), ValueKind::None | ValueKind::Bool | ValueKind::Number | ValueKind::String);
    eval_record::update_record(|record| {
        if kind == BranchKind::Fact {
            if value.kind() == ValueKind::Seq && value.len() == Some(0) {
                record.empty.get_or_insert_with(|| strip_facts_prefix(&path).to_owned());
            }
            record.reads.insert(strip_facts_prefix(&path).to_owned());
        }
        if single {
            record.leaves.insert(path);
        }
    });
}

/// Returns the path of a fact without the root: `os.id`.
fn strip_facts_prefix(path: &str) -> &str {
    path.strip_prefix("facts.").unwrap_or(path)
}

/// Returns a value that stops the evaluation when it is used. The record stores the reason.
fn build_unknown(need: PendingInput) -> Value {
    eval_record::record_need(need);
    Value::from(Error::new(ErrorKind::InvalidOperation, "not known yet"))
}

/// `exports["recipe"]`: values exported by other steps.
#[derive(Debug)]
struct RecipeExports {
    recipe: String,
    /// `None`: the value does not exist yet.
    values: BTreeMap<String, Option<Value>>,
}

impl Object for RecipeExports {
    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        self.get_value_by_str(key.as_str()?)
    }

    fn get_value_by_str(self: &Arc<Self>, key: &str) -> Option<Value> {
        match self.values.get(key) {
            Some(Some(value)) => Some(value.clone()),
            _ => Some(build_unknown(need_export(&self.recipe, key, MissingExports::new()))),
        }
    }
}

fn need_export(recipe: &str, name: &str, missing: MissingExports) -> PendingInput {
    PendingInput::Export { recipe: recipe.to_owned(), name: name.to_owned(), missing }
}

/// `exports["recipe"].name` of a `host` step: values by host, of which some are not known. The value of one host can be
/// read; a read of all of them defers the evaluation.
#[derive(Debug)]
struct PartialHostMap {
    recipe: String,
    name: String,
    known: BTreeMap<String, Value>,
    missing: MissingExports,
}

impl Object for PartialHostMap {
    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        self.get_value_by_str(key.as_str()?)
    }

    fn get_value_by_str(self: &Arc<Self>, host: &str) -> Option<Value> {
        if let Some(value) = self.known.get(host) {
            return Some(value.clone());
        }
        // A host of which nothing is known may export a value all the same: a filter may leave its step out.
        let missing = self.missing.get(host).map(|why| (host.to_owned(), *why));
        Some(build_unknown(need_export(&self.recipe, &self.name, missing.into_iter().collect())))
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        eval_record::record_need(need_export(&self.recipe, &self.name, self.missing.clone()));
        Enumerator::Empty
    }
}

/// Builds `exports` for `recipes`. Reading a name that is not in `made` defers the evaluation.
pub(in crate::config) fn build_exports<'r>(
    recipes: impl IntoIterator<Item = &'r str>,
    made: &crate::config::ExportedValues,
) -> Value {
    let one = |recipe: &str| {
        let values = made.get(recipe).map(|values| {
            values.iter().map(|(name, value)| (name.clone(), build_exported_value(recipe, name, value))).collect()
        });
        let exports = RecipeExports { recipe: recipe.to_owned(), values: values.unwrap_or_default() };
        (recipe.to_owned(), Value::from_object(exports))
    };
    build_map("exports", recipes.into_iter().map(one))
}

fn build_exported_value(recipe: &str, name: &str, value: &ExportedValue) -> Option<Value> {
    match value {
        ExportedValue::Single(value) => value.as_ref().map(|value| build_tree(name, value)),
        ExportedValue::ByHost { known, pending, missing } => {
            let tree = |(host, value): (&String, &Json)| (host.clone(), build_tree(&join_path(name, host), value));
            let known: BTreeMap<String, Value> = known.iter().map(tree).collect();
            match (known.is_empty(), pending.is_empty() && missing.is_empty()) {
                // No host is left that exports it: the value is unknown, not an empty map.
                (true, true) => None,
                (false, true) => Some(build_map(name, known)),
                (_, false) => Some(Value::from_object(PartialHostMap {
                    recipe: recipe.to_owned(),
                    name: name.to_owned(),
                    known,
                    missing: missing.clone(),
                })),
            }
        }
    }
}

/// Returns whether every placeholder of a secret in `text` is intact. A filter could have truncated or changed one, and
/// a broken placeholder would reach the host as text.
pub(in crate::config) fn has_whole_placeholders(text: &str) -> bool {
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
