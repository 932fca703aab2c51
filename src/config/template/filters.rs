//! forge's own filters, and the allowed names of filters, tests and functions.

use super::node_filters::{find_host_nodes, is_in_network, normalize_network, select_labelled, select_offering};
use super::repository_filter::is_for_system;
use crate::object::check_rollout;
use minijinja::value::{Value, ValueKind};
use minijinja::{Environment, Error, ErrorKind};
use sha2::{Digest, Sha256};
use std::cmp::Ordering;
use std::collections::BTreeMap;

/// Allowed built-in filters. HTML escaping is not needed, and `pprint` is for debugging.
const BUILTIN_FILTERS: &[&str] = &[
    "abs",
    "attr",
    "batch",
    "bool",
    "capitalize",
    "chain",
    "count",
    "d",
    "default",
    "dictsort",
    "first",
    "float",
    "format",
    "groupby",
    "indent",
    "int",
    "items",
    "join",
    "last",
    "length",
    "lines",
    "list",
    "lower",
    "map",
    "max",
    "min",
    "reject",
    "rejectattr",
    "replace",
    "reverse",
    "round",
    "select",
    "selectattr",
    "slice",
    "sort",
    "split",
    "string",
    "sum",
    "title",
    "tojson",
    "trim",
    "unique",
    "upper",
    "zip",
];

const FORGE_FILTERS: &[&str] = &[
    "b64encode",
    "basename",
    "dirname",
    "for_system",
    "in_network",
    "labelled",
    "merge",
    "network",
    "of_hosts",
    "offering",
    "quote",
    "rollout",
    "sha256",
    "version_compare",
];

/// What the filter `rollout` returns for a workload whose pods all run with its last change.
const ROLLOUT_COMPLETE: &str = "complete";

const TEST_NAMES: &[&str] = &[
    "boolean",
    "defined",
    "divisibleby",
    "endingwith",
    "eq",
    "equalto",
    "even",
    "false",
    "float",
    "ge",
    "gt",
    "in",
    "int",
    "integer",
    "iterable",
    "le",
    "lessthan",
    "greaterthan",
    "lower",
    "lt",
    "mapping",
    "ne",
    "none",
    "number",
    "odd",
    "sameas",
    "sequence",
    "startingwith",
    "string",
    "true",
    "undefined",
    "upper",
    "==",
    "!=",
    "<",
    "<=",
    ">",
    ">=",
];

/// Allowed functions.
pub(super) const FUNCTION_NAMES: &[&str] = &["dict", "namespace", "range", "table"];

/// Filters that evaluate each element of a list. On an empty list their result has no meaning.
pub(super) const ELEMENT_FILTERS: &[&str] = &[
    "first",
    "groupby",
    "labelled",
    "last",
    "map",
    "max",
    "min",
    "of_hosts",
    "offering",
    "reject",
    "rejectattr",
    "select",
    "selectattr",
    "sort",
    "sum",
    "unique",
];

/// Returns the names of all filters.
pub(super) fn filter_names() -> impl Iterator<Item = &'static str> {
    BUILTIN_FILTERS.iter().chain(FORGE_FILTERS).copied()
}

/// Returns the names of all tests.
pub(super) fn test_names() -> impl Iterator<Item = &'static str> {
    TEST_NAMES.iter().copied()
}

/// Adds forge's filters and functions, and removes built-in ones that are not allowed.
pub(super) fn install_filters(env: &mut Environment<'static>) {
    for name in ["safe", "escape", "e", "pprint"] {
        env.remove_filter(name);
    }
    env.remove_global("debug");
    super::metered_filters::install_metered_filters(env);
    let own = [
        ("b64encode", Value::from_function(encode_base64)),
        ("sha256", Value::from_function(hash_sha256)),
        ("quote", Value::from_function(quote_for_shell)),
        ("basename", Value::from_function(basename)),
        ("dirname", Value::from_function(dirname)),
        ("merge", Value::from_function(merge_maps)),
        ("version_compare", Value::from_function(compare_versions)),
        ("for_system", Value::from_function(is_for_system)),
        ("in_network", Value::from_function(is_in_network)),
        ("network", Value::from_function(normalize_network)),
        ("rollout", Value::from_function(describe_rollout)),
        ("labelled", Value::from_function(select_labelled)),
        ("of_hosts", Value::from_function(find_host_nodes)),
        (
            "offering",
            Value::from_function(|nodes: &Value, counts: &Value, prefix: Option<&str>| {
                select_offering(nodes, counts, prefix.unwrap_or_default())
            }),
        ),
    ];
    own.into_iter().for_each(|(name, filter)| super::metered_filters::add_metered_filter(env, name, filter));
    env.add_function("table", lookup_table);
}

/// Returns `complete`, or why not every pod of a workload runs with its last change.
fn describe_rollout(workload: &Value) -> Result<String, Error> {
    let json = serde_json::to_value(workload);
    let json = json.map_err(|error| Error::new(ErrorKind::InvalidOperation, error.to_string()))?;
    if !json.is_object() {
        let message = format!("`rollout` requires an object of Kubernetes, found {}", workload.kind());
        return Err(Error::new(ErrorKind::InvalidOperation, message));
    }
    Ok(check_rollout(&json).err().unwrap_or_else(|| ROLLOUT_COMPLETE.to_owned()))
}

fn encode_base64(text: &str) -> String {
    base64::Engine::encode(&base64::engine::general_purpose::STANDARD, text)
}

fn basename(text: &str) -> String {
    text.trim_end_matches('/').rsplit('/').next().unwrap_or_default().to_owned()
}

fn hash_sha256(text: &str) -> String {
    crate::model::to_hex(&Sha256::digest(text.as_bytes()))
}

fn quote_for_shell(text: &str) -> Result<String, Error> {
    let quoted = shlex::try_quote(text).map_err(|error| Error::new(ErrorKind::InvalidOperation, error.to_string()))?;
    Ok(quoted.into_owned())
}

fn dirname(text: &str) -> String {
    match text.trim_end_matches('/').rsplit_once('/') {
        Some(("", _)) => "/".to_owned(),
        Some((folder, _)) => folder.to_owned(),
        None => ".".to_owned(),
    }
}

/// Merges two maps recursively. Values that are not maps in both are those of `over`.
fn merge_maps(under: &Value, over: &Value) -> Result<Value, Error> {
    let entries = |map: &Value| -> Result<BTreeMap<String, Value>, Error> {
        if map.kind() != ValueKind::Map {
            let message = format!("`merge` requires maps, found {}", map.kind());
            return Err(Error::new(ErrorKind::InvalidOperation, message));
        }
        map.try_iter()?.map(|key| Ok((key.to_string(), map.get_item(&key)?))).collect()
    };
    let mut both = entries(under)?;
    for (key, value) in entries(over)? {
        let value = match both.get(&key).filter(|own| own.kind() == ValueKind::Map && value.kind() == ValueKind::Map) {
            Some(own) => merge_maps(own, &value)?,
            None => value,
        };
        both.insert(key, value);
    }
    Ok(Value::from(both))
}

/// Returns the rows of a built-in table.
fn lookup_table(name: &str) -> Result<Value, Error> {
    let none = || Error::new(ErrorKind::InvalidOperation, format!("unknown table `{name}`"));
    crate::config::builtin_data::find_table_rows(name).ok_or_else(none)
}

/// Compares versions by Debian's rules: -1, 0 or 1.
fn compare_versions(left: &str, right: &str) -> Result<Value, Error> {
    let parse = |text: &str| {
        text.parse::<debversion::Version>()
            .map_err(|_| Error::new(ErrorKind::InvalidOperation, format!("`{text}` is not a valid version")))
    };
    Ok(Value::from(match parse(left)?.cmp(&parse(right)?) {
        Ordering::Less => -1,
        Ordering::Equal => 0,
        Ordering::Greater => 1,
    }))
}
