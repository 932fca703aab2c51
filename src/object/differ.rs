//! Differing fields of two values, and the display of their paths.

use crate::model::Value;
use std::fmt;

/// One step of a path.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum PathStep {
    Key(String),
    /// The list item whose fields have these values.
    Item(serde_json::Map<String, Value>),
    At(usize),
}

/// The path of a field in an object.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct FieldPath(pub Vec<PathStep>);

/// One field that differs.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct FieldDifference {
    pub path: FieldPath,
    pub from: Option<Value>,
    pub to: Option<Value>,
}

/// Fields that identify items of a list, in the order in which they are tried.
const ITEM_NAME_FIELDS: [&str; 4] = ["name", "key", "type", "mountPath"];

impl FieldPath {
    pub fn with_step(&self, step: PathStep) -> Self {
        Self(self.0.iter().cloned().chain([step]).collect())
    }

    pub fn with_key(&self, key: &str) -> Self {
        self.with_step(PathStep::Key(key.to_owned()))
    }

    /// Returns the value at the path.
    pub fn find_value<'v>(&self, value: &'v Value) -> Option<&'v Value> {
        self.0.iter().try_fold(value, |value, step| step.select_value(value))
    }

    /// Removes the value at the path.
    pub fn remove_value(&self, value: &mut Value) {
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
    pub fn is_below(&self, keys: &[&str]) -> bool {
        self.0.len() >= keys.len()
            && self.0.iter().zip(keys).all(|(step, key)| matches!(step, PathStep::Key(own) if own == key))
    }

    /// Returns the keys of its steps, without those of list items.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.0.iter().filter_map(|step| match step {
            PathStep::Key(key) => Some(key.as_str()),
            _ => None,
        })
    }
}

impl PathStep {
    pub fn select_value<'v>(&self, value: &'v Value) -> Option<&'v Value> {
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

    fn find_index(&self, items: &[Value]) -> Option<usize> {
        match self {
            Self::Key(_) => None,
            Self::At(at) => Some(*at).filter(|at| *at < items.len()),
            Self::Item(wanted) => items.iter().position(|item| has_fields(item, wanted)),
        }
    }
}

/// Reports whether an item has all of these fields.
pub(crate) fn has_fields(item: &Value, wanted: &serde_json::Map<String, Value>) -> bool {
    wanted.iter().all(|(key, value)| item.get(key) == Some(value))
}

impl fmt::Display for FieldPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, step) in self.0.iter().enumerate() {
            match step {
                PathStep::Key(key) if !is_plain_key(key) => write!(f, "[{key:?}]")?,
                PathStep::Key(key) if at == 0 => write!(f, "{key}")?,
                PathStep::Key(key) => write!(f, ".{key}")?,
                PathStep::At(at) => write!(f, "[{at}]")?,
                PathStep::Item(wanted) => write!(f, "[{}]", format_item_fields(wanted))?,
            }
        }
        Ok(())
    }
}

fn is_plain_key(key: &str) -> bool {
    !key.is_empty() && key.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'))
}

fn format_item_fields(wanted: &serde_json::Map<String, Value>) -> String {
    let pairs = wanted.iter().map(|(key, value)| match value {
        Value::String(text) => format!("{key}={text}"),
        value => format!("{key}={value}"),
    });
    pairs.collect::<Vec<_>>().join(",")
}

/// Returns every differing field, in the order of the first value, then of the second.
pub(crate) fn find_differences(from: &Value, to: &Value) -> Vec<FieldDifference> {
    let mut found = Vec::new();
    compare_values(&FieldPath::default(), Some(from), Some(to), &mut found);
    found
}

fn compare_values(path: &FieldPath, from: Option<&Value>, to: Option<&Value>, found: &mut Vec<FieldDifference>) {
    match (from, to) {
        (from, to) if from == to => {}
        (Some(Value::Object(from)), Some(Value::Object(to))) => {
            for (key, value) in from {
                compare_values(&path.with_key(key), Some(value), to.get(key), found);
            }
            for (key, value) in to.iter().filter(|(key, _)| !from.contains_key(*key)) {
                compare_values(&path.with_key(key), None, Some(value), found);
            }
        }
        (Some(Value::Array(from)), Some(Value::Array(to))) => compare_lists(path, from, to, found),
        (from, to) => found.push(FieldDifference { path: path.clone(), from: from.cloned(), to: to.cloned() }),
    }
}

fn compare_lists(path: &FieldPath, from: &[Value], to: &[Value], found: &mut Vec<FieldDifference>) {
    if let Some(name) =
        ITEM_NAME_FIELDS.iter().find(|name| steps_by_field(from, name).is_some() && steps_by_field(to, name).is_some())
    {
        let steps = |items: &[Value]| steps_by_field(items, name).unwrap_or_default();
        let (old, new) = (steps(from), steps(to));
        let all = old.iter().chain(new.iter().filter(|step| !old.contains(step)));
        let (from, to) = (Value::from(from), Value::from(to));
        all.for_each(|step| {
            compare_values(&path.with_step(step.clone()), step.select_value(&from), step.select_value(&to), found)
        });
    } else if from.len() == to.len() {
        for (at, (from, to)) in from.iter().zip(to).enumerate() {
            compare_values(&path.with_step(PathStep::At(at)), Some(from), Some(to), found);
        }
    } else {
        found.push(FieldDifference { path: path.clone(), from: Some(from.into()), to: Some(to.into()) });
    }
}

/// Returns a step for each item, if that field identifies all of them uniquely.
fn steps_by_field(items: &[Value], name: &str) -> Option<Vec<PathStep>> {
    let step = |item: &Value| {
        let value = item.get(name)?.as_str()?;
        Some(PathStep::Item([(name.to_owned(), Value::from(value))].into_iter().collect()))
    };
    let steps = items.iter().map(step).collect::<Option<Vec<_>>>()?;
    let distinct = steps.iter().enumerate().all(|(at, step)| !steps[..at].contains(step));
    distinct.then_some(steps)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn told(from: &Value, to: &Value) -> Vec<String> {
        let value = |value: Option<Value>| value.map_or("-".to_owned(), |value| value.to_string());
        find_differences(from, to)
            .into_iter()
            .map(|d| format!("{} {} {}", d.path, value(d.from), value(d.to)))
            .collect()
    }

    #[test]
    fn every_differing_field_is_listed() {
        let from = json!({ "a": 1, "gone": { "x": 1 }, "same": [1], "l": { "x.y/z": "v" } });
        let to = json!({ "a": 2, "new": null, "same": [1], "l": { "x.y/z": "w" } });
        assert_eq!(told(&from, &to), ["a 1 2", r#"gone {"x":1} -"#, r#"l["x.y/z"] "v" "w""#, "new - null",]);
        assert_eq!(told(&to, &to), Vec::<String>::new());
    }

    #[test]
    fn list_items_are_matched_by_name() {
        let from = json!({ "c": [{ "name": "a", "v": 1 }, { "name": "b", "v": 1 }], "n": [1, 2], "m": [1] });
        let to = json!({ "c": [{ "name": "b", "v": 2 }, { "name": "n" }], "n": [1, 3], "m": [] });
        assert_eq!(
            told(&from, &to),
            [
                r#"c[name=a] {"name":"a","v":1} -"#,
                "c[name=b].v 1 2",
                r#"c[name=n] - {"name":"n"}"#,
                "n[1] 2 3",
                "m [1] []",
            ]
        );
    }

    #[test]
    fn value_at_a_path_is_found_and_removed() {
        let mut value = json!({ "c": [{ "name": "a" }, { "name": "b", "e": { "x": 1 } }] });
        let found = find_differences(&json!({ "c": [{ "name": "b" }] }), &json!({ "c": [{ "name": "b", "e": 1 }] }));
        assert_eq!(found[0].path.find_value(&value), Some(&json!({ "x": 1 })));
        found[0].path.remove_value(&mut value);
        assert_eq!(value, json!({ "c": [{ "name": "a" }, { "name": "b" }] }));
    }
}
