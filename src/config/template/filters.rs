//! forge's own filters, and the allowed names of filters, tests and functions.

use super::nodes::{in_network, labelled, of_hosts, offering};
use minijinja::value::{Value, ValueKind};
use minijinja::{Environment, Error, ErrorKind};
use sha2::{Digest, Sha256};
use std::cmp::Ordering;
use std::collections::BTreeMap;

/// Allowed built-in filters. HTML escaping is not needed, and `pprint` is for debugging.
const BUILT_IN: &[&str] = &[
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

const OWN: &[&str] = &[
    "b64encode",
    "basename",
    "dirname",
    "in_network",
    "labelled",
    "merge",
    "of_hosts",
    "offering",
    "quote",
    "sha256",
    "version_compare",
];

const TESTS: &[&str] = &[
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
pub(super) const FUNCTIONS: &[&str] = &["dict", "namespace", "range", "table"];

/// Filters that evaluate each element of a list. On an empty list their result has no meaning.
pub(super) const MAPPING: &[&str] = &[
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
pub(super) fn filters() -> impl Iterator<Item = &'static str> {
    BUILT_IN.iter().chain(OWN).copied()
}

/// Returns the names of all tests.
pub(super) fn tests() -> impl Iterator<Item = &'static str> {
    TESTS.iter().copied()
}

/// Adds forge's filters and functions, and removes built-in ones that are not allowed.
pub(super) fn install(env: &mut Environment<'static>) {
    for name in ["safe", "escape", "e", "pprint"] {
        env.remove_filter(name);
    }
    env.remove_global("debug");
    super::guarded::install(env);
    let own = [
        ("b64encode", Value::from_function(b64encode)),
        ("sha256", Value::from_function(|text: &str| open(text).map(sha256))),
        ("quote", Value::from_function(|text: &str| open(text).and_then(quote))),
        ("basename", Value::from_function(|text: &str| open(text).map(basename))),
        ("dirname", Value::from_function(|text: &str| open(text).map(dirname))),
        ("merge", Value::from_function(merge)),
        ("version_compare", Value::from_function(version_compare)),
        ("in_network", Value::from_function(in_network)),
        ("labelled", Value::from_function(labelled)),
        ("of_hosts", Value::from_function(of_hosts)),
        (
            "offering",
            Value::from_function(|nodes: &Value, counts: &Value, prefix: Option<&str>| {
                offering(nodes, counts, prefix.unwrap_or_default())
            }),
        ),
    ];
    own.into_iter().for_each(|(name, filter)| super::guarded::add(env, name, filter));
    env.add_function("table", table);
}

/// Rejects secrets: a digest, an encoding or a quoted form of the placeholder would not be that of the secret.
fn open(text: &str) -> Result<&str, Error> {
    match crate::model::SecretStore::mentions(text) {
        true => Err(Error::new(ErrorKind::InvalidOperation, "this filter does not accept secrets")),
        false => Ok(text),
    }
}

fn b64encode(text: &str) -> Result<String, Error> {
    open(text).map(|text| base64::Engine::encode(&base64::engine::general_purpose::STANDARD, text))
}

fn basename(text: &str) -> String {
    text.trim_end_matches('/').rsplit('/').next().unwrap_or_default().to_owned()
}

fn sha256(text: &str) -> String {
    crate::model::hex(&Sha256::digest(text.as_bytes()))
}

fn quote(text: &str) -> Result<String, Error> {
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
fn merge(under: &Value, over: &Value) -> Result<Value, Error> {
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
            Some(own) => merge(own, &value)?,
            None => value,
        };
        both.insert(key, value);
    }
    Ok(Value::from(both))
}

/// Returns the rows of a built-in table.
fn table(name: &str) -> Result<Value, Error> {
    let none = || Error::new(ErrorKind::InvalidOperation, format!("unknown table `{name}`"));
    crate::config::shipped::rows(name).ok_or_else(none)
}

/// Compares versions by Debian's rules: -1, 0 or 1.
fn version_compare(left: &str, right: &str) -> Result<Value, Error> {
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
