//! The differ: which fields of two objects differ, field by field. Items of lists are matched by their names.

use super::field_path::{FieldPath, PathStep};
use crate::model::Value;
use serde::Serialize;

/// One field that differs; `None` where it does not exist.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FieldDifference {
    /// Where the field is in both objects.
    pub path: FieldPath,
    /// The value in the first object.
    pub from: Option<Value>,
    /// The value in the second object.
    pub to: Option<Value>,
}

/// Fields that identify items of a list, in the order in which they are tried.
const ITEM_NAME_FIELDS: [&str; 4] = ["name", "key", "type", "mountPath"];

/// Returns every differing field, in the order of the first value, then of the second.
pub fn find_differences(from: &Value, to: &Value) -> Vec<FieldDifference> {
    let mut found = Vec::new();
    let mut add = |path: &FieldPath, from: Option<&Value>, to: Option<&Value>| {
        found.push(FieldDifference { path: path.clone(), from: from.cloned(), to: to.cloned() });
    };
    FieldWalk { path: FieldPath::default(), equal: false, visit: &mut add }.compare(Some(from), Some(to));
    found
}

/// Visits every field of two values as the differ sees them, equal ones too.
pub(crate) fn visit_fields(from: &Value, to: &Value, visit: FieldVisitor<'_>) {
    FieldWalk { path: FieldPath::default(), equal: true, visit }.compare(Some(from), Some(to));
}

/// Receives the path of a field and both values.
pub(crate) type FieldVisitor<'v> = &'v mut dyn FnMut(&FieldPath, Option<&Value>, Option<&Value>);

struct FieldWalk<'v> {
    path: FieldPath,
    /// Whether equal fields are visited, too.
    equal: bool,
    visit: FieldVisitor<'v>,
}

impl FieldWalk<'_> {
    fn compare(&mut self, from: Option<&Value>, to: Option<&Value>) {
        match (from, to) {
            (from, to) if from == to && !self.equal => {}
            (Some(Value::Object(from)), Some(Value::Object(to))) => {
                for (key, value) in from {
                    self.compare_at(PathStep::Key(key.clone()), Some(value), to.get(key));
                }
                for (key, value) in to.iter().filter(|(key, _)| !from.contains_key(*key)) {
                    self.compare_at(PathStep::Key(key.clone()), None, Some(value));
                }
            }
            (Some(Value::Array(from)), Some(Value::Array(to))) => self.compare_lists(from, to),
            (from, to) => (self.visit)(&self.path, from, to),
        }
    }

    fn compare_at(&mut self, step: PathStep, from: Option<&Value>, to: Option<&Value>) {
        self.path.push(step);
        self.compare(from, to);
        self.path.pop();
    }

    fn compare_lists(&mut self, from: &[Value], to: &[Value]) {
        let both = |field: &&str| Some((item_steps(from, field)?, item_steps(to, field)?));
        if let Some((old, new)) = ITEM_NAME_FIELDS.iter().find_map(both) {
            for step in old.iter().chain(new.iter().filter(|step| !old.contains(step))) {
                self.compare_at(step.clone(), find_item(&old, from, step), find_item(&new, to, step));
            }
        } else if from.len() == to.len() {
            for (at, (from, to)) in from.iter().zip(to).enumerate() {
                self.compare_at(PathStep::At(at), Some(from), Some(to));
            }
        } else {
            (self.visit)(&self.path, Some(&Value::from(from)), Some(&Value::from(to)));
        }
    }
}

fn find_item<'v>(steps: &[PathStep], items: &'v [Value], step: &PathStep) -> Option<&'v Value> {
    items.get(steps.iter().position(|own| own == step)?)
}

/// Returns a step for each item, if the items have names.
pub(crate) fn named_item_steps(items: &[Value]) -> Option<Vec<PathStep>> {
    ITEM_NAME_FIELDS.iter().find_map(|field| item_steps(items, field))
}

/// Returns the path of a JSON pointer in the object, with the items of lists by their names.
pub fn locate_pointer(object: &Value, pointer: &str) -> FieldPath {
    let (mut path, mut at) = (FieldPath::default(), Some(object));
    for part in pointer.split('/').skip(1) {
        let step = match at {
            Some(Value::Array(items)) => {
                let at = part.parse().unwrap_or(usize::MAX);
                named_item_steps(items).and_then(|steps| steps.get(at).cloned()).unwrap_or(PathStep::At(at))
            }
            _ => PathStep::Key(part.replace("~1", "/").replace("~0", "~")),
        };
        at = at.and_then(|value| step.select_value(value));
        path.push(step);
    }
    path
}

/// Returns a step for each item, if that field identifies all of them uniquely.
fn item_steps(items: &[Value], field: &str) -> Option<Vec<PathStep>> {
    let step = |item: &Value| Some(PathStep::item_named(field, item.get(field)?.as_str()?));
    let steps = items.iter().map(step).collect::<Option<Vec<_>>>()?;
    let distinct = steps.iter().enumerate().all(|(at, step)| !steps[..at].contains(step));
    distinct.then_some(steps)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn list_differences(from: &Value, to: &Value) -> Vec<String> {
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
        assert_eq!(
            list_differences(&from, &to),
            [".a 1 2", r#".gone {"x":1} -"#, r#".l[x.y/z] "v" "w""#, ".new - null"]
        );
        assert_eq!(list_differences(&to, &to), Vec::<String>::new());
    }

    #[test]
    fn list_items_are_matched_by_name() {
        let from = json!({ "c": [{ "name": "a", "v": 1 }, { "name": "b", "v": 1 }], "n": [1, 2], "m": [1] });
        let to = json!({ "c": [{ "name": "b", "v": 2 }, { "name": "n" }], "n": [1, 3], "m": [] });
        assert_eq!(
            list_differences(&from, &to),
            [
                r#".c[name=a] {"name":"a","v":1} -"#,
                ".c[name=b].v 1 2",
                r#".c[name=n] - {"name":"n"}"#,
                ".n[1] 2 3",
                ".m [1] []",
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

    #[test]
    fn pointer_is_located_by_the_names_of_items() {
        let object = json!({ "env": [{ "name": "A" }, { "name": "B", "x/y": 1 }], "args": ["a"] });
        assert_eq!(locate_pointer(&object, "/env/1/x~1y").to_string(), ".env[name=B][x/y]");
        assert_eq!(locate_pointer(&object, "/args/0").to_string(), ".args[0]");
    }
}
