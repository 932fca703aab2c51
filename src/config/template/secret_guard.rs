//! Refuses operations that would read a secret. Templates have its placeholder and not its value, so a comparison, a
//! length or a filter would silently give the result for the placeholder. A secret is never empty, so `{% if secret %}` has
//! a result.
//!
//! The guard looks at contents and not at types: a secret stays guarded after it was joined with other text.

use super::value_tree::contains_secret;
use crate::model::SecretStore;
use minijinja::value::{Value, ValueKind};
use minijinja::{Error, ErrorKind};

/// What a template tried to do with a secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum SecretMisuse {
    Compare,
    Search,
    Split,
    UseAsKey,
    Filter(&'static str),
    Test(&'static str),
    /// `loop.changed(value)`.
    LoopChanged,
    /// A list or a map is written as text, which would write its texts with escapes.
    WriteContainer,
}

/// How a secret can be used instead.
pub(super) const SECRET_HINT: &str = "pass the secret on as it is, or read it in a script that gets it in `env`";

impl std::fmt::Display for SecretMisuse {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Compare => f.write_str("a secret cannot be compared: templates do not know its value"),
            Self::Search => f.write_str("`in` cannot be used with a secret: templates do not know its value"),
            Self::Split => f.write_str("a secret has no parts: templates do not know its value"),
            Self::UseAsKey => f.write_str("a secret cannot be a key: templates do not know its value"),
            Self::Filter(name) => {
                write!(f, "the filter `{name}` does not accept secrets: templates do not know their values")
            }
            Self::Test(name) => {
                write!(f, "the test `{name}` does not accept secrets: templates do not know their values")
            }
            Self::LoopChanged => {
                f.write_str("`loop.changed` does not accept secrets: templates do not know their values")
            }
            Self::WriteContainer => f.write_str("a list or map with a secret cannot be written as text"),
        }
    }
}

impl std::error::Error for SecretMisuse {}

impl SecretMisuse {
    fn to_error(&self) -> Error {
        Error::new(ErrorKind::InvalidOperation, self.to_string()).with_source(self.clone())
    }

    fn refuse_if(self, refused: bool) -> Result<(), Error> {
        if refused { Err(self.to_error()) } else { Ok(()) }
    }
}

/// Returns whether the error was raised by the guard.
pub(super) fn is_misuse(error: &Error) -> bool {
    std::error::Error::source(error).is_some_and(|source| source.is::<SecretMisuse>())
}

/// Returns whether a value is a text with a secret.
fn is_secret_text(value: &Value) -> bool {
    value.as_str().is_some_and(SecretStore::has_placeholder)
}

/// Checks `left == right`. Whether a value is set, or a text or a list empty, does not depend on a secret, which is never
/// empty.
pub(super) fn guard_equality(left: &Value, right: &Value) -> Result<(), Error> {
    let settles = |value: &Value| value.is_none() || value.is_undefined() || value.len() == Some(0);
    let settled = settles(left) || settles(right);
    SecretMisuse::Compare.refuse_if(!settled && (contains_secret(left) || contains_secret(right)))
}

/// Checks `left < right`.
pub(super) fn guard_order(left: &Value, right: &Value) -> Result<(), Error> {
    SecretMisuse::Compare.refuse_if(contains_secret(left) || contains_secret(right))
}

/// Checks `item in container`. The keys of a map are not secret.
pub(super) fn guard_search(item: &Value, container: &Value) -> Result<(), Error> {
    let searched = container.kind() != ValueKind::Map && contains_secret(container);
    SecretMisuse::Search.refuse_if(searched || contains_secret(item))
}

/// Checks a slice, a loop or an assignment to several names, which take a text apart.
pub(super) fn guard_split(value: &Value) -> Result<(), Error> {
    SecretMisuse::Split.refuse_if(is_secret_text(value))
}

/// Checks `of[key]`.
pub(super) fn guard_subscript(of: &Value, key: &Value) -> Result<(), Error> {
    guard_split(of)?;
    SecretMisuse::UseAsKey.refuse_if(contains_secret(key))
}

/// Checks a value that is written to the output.
pub(super) fn guard_written(value: &Value) -> Result<(), Error> {
    SecretMisuse::WriteContainer.refuse_if(value.as_str().is_none() && contains_secret(value))
}

/// Checks the values of `loop.changed(…)`.
pub(super) fn guard_loop_changed(values: &[Value]) -> Result<(), Error> {
    SecretMisuse::LoopChanged.refuse_if(values.iter().any(contains_secret))
}

/// Checks a test of the engine, except those of a type.
pub(super) fn guard_test(name: &'static str, args: &[Value]) -> Result<(), Error> {
    match (name, args) {
        ("==" | "eq" | "equalto" | "!=" | "ne" | "sameas", [left, right]) => guard_equality(left, right),
        ("in", [item, container]) => guard_search(item, container),
        _ => SecretMisuse::Test(name).refuse_if(args.iter().any(contains_secret)),
    }
}

/// Checks a call of a filter.
pub(super) fn guard_filter(name: &'static str, args: &[Value]) -> Result<(), Error> {
    let misuse = SecretMisuse::Filter(name);
    let Some(first) = args.first().filter(|_| args.iter().any(contains_secret)) else { return Ok(()) };
    match name {
        "d" | "default" | "merge" => Ok(()),
        // They move items and do not read them. Of a text they would take the characters.
        "attr" | "batch" | "count" | "first" | "items" | "last" | "length" | "list" | "map" | "reject"
        | "rejectattr" | "reverse" | "select" | "selectattr" | "slice" => misuse.refuse_if(is_secret_text(first)),
        "chain" | "zip" => misuse.refuse_if(args.iter().any(is_secret_text)),
        "dictsort" => misuse.refuse_if(is_secret_text(first) || sorts_by_value(args) && contains_secret(first)),
        "groupby" | "max" | "min" | "sort" | "sum" | "unique" => {
            misuse.clone().refuse_if(is_secret_text(first))?;
            misuse.refuse_if(list_read_values(name, args)?.iter().any(contains_secret))
        }
        "join" => {
            misuse.refuse_if(is_secret_text(first))?;
            list_read_values(name, args)?.iter().try_for_each(guard_written)
        }
        "string" => guard_written(first),
        // The text that replaces another is only passed on.
        "replace" => misuse.refuse_if(args.iter().take(2).any(contains_secret)),
        _ => Err(misuse.to_error()),
    }
}

fn sorts_by_value(args: &[Value]) -> bool {
    find_keyword(args, "by").is_some_and(|by| by.as_str() == Some("value"))
}

fn find_keyword(args: &[Value], name: &str) -> Option<Value> {
    let kwargs = args.iter().find(|arg| arg.is_kwargs())?;
    kwargs.get_attr(name).ok().filter(|value| !value.is_undefined())
}

/// Returns what a filter reads of the items of its first argument: the items, or their attributes that its call names.
fn list_read_values(name: &str, args: &[Value]) -> Result<Vec<Value>, Error> {
    let Some(first) = args.first() else { return Ok(Vec::new()) };
    let positional = match name {
        "groupby" => args.get(1),
        "join" => args.get(2),
        _ => None,
    };
    let attribute = find_keyword(args, "attribute").or_else(|| positional.cloned());
    let Some(attribute) = attribute.as_ref().and_then(Value::as_str) else { return Ok(first.try_iter()?.collect()) };
    let paths = || attribute.split(',').map(str::trim);
    Ok(first.try_iter()?.flat_map(|item| paths().filter_map(move |path| find_part(&item, path))).collect())
}

/// Returns the part of a value at a path with dots.
fn find_part(value: &Value, path: &str) -> Option<Value> {
    path.split('.').try_fold(value.clone(), |value, part| match part.parse() {
        Ok(index) => value.get_item_by_index(index).ok(),
        Err(_) => value.get_attr(part).ok(),
    })
}
