//! The path of a field in an object: for people, for managed fields, and as a JSON pointer.

use crate::model::Value;
use serde::{Serialize, Serializer};
use std::fmt;

/// One step of a path.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PathStep {
    Key(String),
    /// The list item whose fields have these values, as JSON text.
    Item(Vec<(String, String)>),
    /// The list item with this value, as JSON text.
    Is(String),
    At(usize),
}

/// The path of a field in an object: `.spec.containers[name=main].image`.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FieldPath(Vec<PathStep>);

impl FieldPath {
    /// Returns the path of nested keys.
    pub fn from_keys(keys: &[&str]) -> Self {
        Self(keys.iter().map(|key| PathStep::Key((*key).to_owned())).collect())
    }

    pub(crate) fn steps(&self) -> &[PathStep] {
        &self.0
    }

    pub(crate) fn push(&mut self, step: PathStep) {
        self.0.push(step);
    }

    pub(crate) fn pop(&mut self) {
        self.0.pop();
    }

    /// Returns the value at the path.
    pub fn find_value<'v>(&self, value: &'v Value) -> Option<&'v Value> {
        self.0.iter().try_fold(value, |value, step| step.select_value(value))
    }

    pub(crate) fn find_value_mut<'v>(&self, value: &'v mut Value) -> Option<&'v mut Value> {
        self.0.iter().try_fold(value, |value, step| step.select_value_mut(value))
    }

    /// Removes the value at the path.
    pub(crate) fn remove_value(&self, value: &mut Value) {
        let Some((last, before)) = self.0.split_last() else { return };
        let Some(parent) = before.iter().try_fold(value, |value, step| step.select_value_mut(value)) else { return };
        match (last, parent) {
            (PathStep::Key(key), Value::Object(map)) => {
                map.shift_remove(key);
            }
            (step, Value::Array(items)) => {
                if let Some(at) = step.find_index(items) {
                    items.remove(at);
                }
            }
            _ => {}
        }
    }

    /// Reports whether the path starts with these keys.
    pub(crate) fn is_below(&self, keys: &[&str]) -> bool {
        self.0.len() >= keys.len()
            && self.0.iter().zip(keys).all(|(step, key)| matches!(step, PathStep::Key(own) if own == key))
    }

    /// Reports whether the path is `above` or below it.
    pub(crate) fn starts_with(&self, above: &Self) -> bool {
        self.0.starts_with(&above.0)
    }

    /// Returns the list that the path names an item of.
    pub(crate) fn list_of_item(&self) -> Option<Self> {
        let (PathStep::Item(_), before) = self.0.split_last()? else { return None };
        Some(Self(before.to_vec()))
    }

    /// Returns the last key, without the steps of list items.
    pub(crate) fn last_key(&self) -> Option<&str> {
        self.0.iter().rev().find_map(|step| match step {
            PathStep::Key(key) => Some(key.as_str()),
            _ => None,
        })
    }

    /// Returns the JSON pointer of the field in the object; `None` if the field does not exist.
    pub(crate) fn to_json_pointer(&self, object: &Value) -> Option<String> {
        let (mut at, mut pointer) = (object, String::new());
        for step in &self.0 {
            let part = match (step, at) {
                (PathStep::Key(key), _) => key.replace('~', "~0").replace('/', "~1"),
                (step, Value::Array(items)) => step.find_index(items)?.to_string(),
                _ => return None,
            };
            pointer.push('/');
            pointer.push_str(&part);
            at = step.select_value(at)?;
        }
        Some(pointer)
    }

    /// Returns the path as people write it in a values file: without the leading dot.
    pub fn to_relative_text(&self) -> String {
        let text = self.to_string();
        text.strip_prefix('.').map(str::to_owned).unwrap_or(text)
    }
}

impl PathStep {
    /// Returns the step to the list item with this name.
    pub(crate) fn item_named(field: &str, name: &str) -> Self {
        Self::Item(vec![(field.to_owned(), Value::from(name).to_string())])
    }

    /// Parses one key of a set of managed fields: `f:NAME`, `k:{…}`, `v:…`, `i:…`.
    pub(crate) fn parse_managed_key(key: &str) -> Option<Self> {
        let (kind, rest) = key.split_once(':')?;
        Some(match kind {
            "f" => Self::Key(rest.to_owned()),
            "k" => {
                let fields: serde_json::Map<String, Value> = serde_json::from_str(rest).ok()?;
                Self::Item(fields.into_iter().map(|(key, value)| (key, value.to_string())).collect())
            }
            "v" => Self::Is(serde_json::from_str::<Value>(rest).ok()?.to_string()),
            "i" => Self::At(rest.parse().ok()?),
            _ => return None,
        })
    }

    /// Returns the key of the step in a set of managed fields.
    pub(crate) fn to_managed_key(&self) -> String {
        match self {
            Self::Key(key) => format!("f:{key}"),
            Self::Item(fields) => {
                let pairs = fields.iter().map(|(key, value)| format!("{}:{value}", Value::from(key.as_str())));
                format!("k:{{{}}}", pairs.collect::<Vec<_>>().join(","))
            }
            Self::Is(value) => format!("v:{value}"),
            Self::At(at) => format!("i:{at}"),
        }
    }

    /// Returns the name of the item, if the step selects it by its name.
    pub(crate) fn item_name(&self) -> Option<String> {
        let Self::Item(fields) = self else { return None };
        let (_, name) = fields.iter().find(|(key, _)| key == "name")?;
        serde_json::from_str(name).ok()
    }

    pub(crate) fn select_value<'v>(&self, value: &'v Value) -> Option<&'v Value> {
        match (self, value) {
            (Self::Key(key), Value::Object(map)) => map.get(key),
            (step, Value::Array(items)) => items.get(step.find_index(items)?),
            _ => None,
        }
    }

    fn select_value_mut<'v>(&self, value: &'v mut Value) -> Option<&'v mut Value> {
        match (self, value) {
            (Self::Key(key), Value::Object(map)) => map.get_mut(key),
            (step, Value::Array(items)) => {
                let at = step.find_index(items)?;
                items.get_mut(at)
            }
            _ => None,
        }
    }

    pub(super) fn find_index(&self, items: &[Value]) -> Option<usize> {
        let json = |value: &Value| value.to_string();
        match self {
            Self::Key(_) => None,
            Self::At(at) => Some(*at).filter(|at| *at < items.len()),
            Self::Is(wanted) => items.iter().position(|item| json(item) == *wanted),
            Self::Item(wanted) => {
                let has = |item: &Value, (key, value): &(String, String)| {
                    item.get(key).is_some_and(|found| json(found) == *value)
                };
                items.iter().position(|item| wanted.iter().all(|field| has(item, field)))
            }
        }
    }
}

impl fmt::Display for FieldPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for step in &self.0 {
            match step {
                PathStep::Key(key) if is_plain_key(key) => write!(f, ".{key}")?,
                PathStep::Key(key) => write!(f, "[{key}]")?,
                PathStep::Item(fields) => write!(f, "[{}]", format_item_fields(fields))?,
                PathStep::Is(value) => write!(f, "[={}]", format_json_scalar(value))?,
                PathStep::At(at) => write!(f, "[{at}]")?,
            }
        }
        Ok(())
    }
}

impl Serialize for FieldPath {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

fn is_plain_key(key: &str) -> bool {
    !key.is_empty() && key.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'))
}

fn format_item_fields(fields: &[(String, String)]) -> String {
    let pairs = fields.iter().map(|(key, value)| format!("{key}={}", format_json_scalar(value)));
    pairs.collect::<Vec<_>>().join(",")
}

/// Returns the text of a JSON string, or another value as JSON.
fn format_json_scalar(json: &str) -> String {
    serde_json::from_str(json).unwrap_or_else(|_| json.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn path_is_shown_as_the_api_writes_it() {
        let mut path = FieldPath::from_keys(&["metadata", "labels", "team/by-hand"]);
        assert_eq!(path.to_string(), ".metadata.labels[team/by-hand]");
        assert_eq!(path.to_relative_text(), "metadata.labels[team/by-hand]");
        for (key, text) in [
            (r#"k:{"containerPort":80,"protocol":"TCP"}"#, "[containerPort=80,protocol=TCP]"),
            (r#"v:"a""#, "[=a]"),
            ("i:3", "[3]"),
            ("f:x", ".x"),
        ] {
            path = FieldPath::default();
            path.push(PathStep::parse_managed_key(key).unwrap());
            assert_eq!(path.steps()[0].to_managed_key(), key);
            assert_eq!(path.to_string(), text);
        }
        assert_eq!(PathStep::parse_managed_key("."), None);
    }

    #[test]
    fn pointer_follows_names_and_values() {
        let object = json!({ "a/b": [{ "name": "x" }, { "name": "y", "list": ["p", "q"] }] });
        let mut path = FieldPath::from_keys(&["a/b"]);
        path.push(PathStep::item_named("name", "y"));
        path.push(PathStep::Key("list".to_owned()));
        path.push(PathStep::Is("\"q\"".to_owned()));
        assert_eq!(path.to_json_pointer(&object).as_deref(), Some("/a~1b/1/list/1"));
        assert_eq!(path.find_value(&object), Some(&json!("q")));
        path.push(PathStep::At(0));
        assert_eq!(path.to_json_pointer(&object), None);
    }
}
