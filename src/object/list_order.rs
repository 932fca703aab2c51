//! The order of list items, where it has effect: the kubelet runs init containers one after another, and expands `$(NAME)`
//! in a variable from the variables before it only. The API merges both lists by name: an apply keeps the order of the
//! live items and may append new ones (measured with Kubernetes 1.20), so that the differ does not see their order.

use super::field_path::{FieldPath, PathStep};
use crate::model::Value;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Fields with a list whose order has effect and whose items have names.
const ORDERED_LISTS: [&str; 2] = ["env", "initContainers"];

/// A list whose declared items are not in their declared order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListOrder {
    /// The path of the list, for people: `.spec.template.spec.initContainers`.
    pub field: String,
    /// The names of the declared items in their current order. Items of others are left out.
    pub current: Vec<String>,
    /// The same names in the declared order.
    pub declared: Vec<String>,
    /// Whether only the predicted apply leads to that order: it appends items that are missing now.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub after_apply: bool,
}

/// Returns the lists of `object` in which declared items are not in their declared order.
pub(crate) fn find_order_differences(declared: &Value, object: &Value) -> Vec<ListOrder> {
    restore_list_order(declared, &mut object.clone())
}

/// Puts declared items into their declared order and returns the lists that this changes. They share the places that they
/// have together: items of others stay where they are.
pub(crate) fn restore_list_order(declared: &Value, object: &mut Value) -> Vec<ListOrder> {
    let mut found = Vec::new();
    restore_below(declared, object, &mut FieldPath::default(), &|_| true, &mut found);
    found
}

/// Puts the declared items of these lists into their declared order.
pub(crate) fn restore_orders(declared: &Value, object: &mut Value, lists: &[ListOrder]) {
    let is_listed = |path: &FieldPath| lists.iter().any(|list| list.field == path.to_string());
    restore_below(declared, object, &mut FieldPath::default(), &is_listed, &mut Vec::new());
}

fn restore_below(
    declared: &Value,
    object: &mut Value,
    path: &mut FieldPath,
    admits: &dyn Fn(&FieldPath) -> bool,
    found: &mut Vec<ListOrder>,
) {
    match (declared, object) {
        (Value::Object(declared), Value::Object(object)) => {
            for (key, declared) in declared {
                let Some(below) = object.get_mut(key) else { continue };
                path.push(PathStep::Key(key.clone()));
                if ORDERED_LISTS.contains(&key.as_str()) && admits(path) {
                    found.extend(restore_items(declared, below, path));
                }
                restore_below(declared, below, path, admits, found);
                path.pop();
            }
        }
        (Value::Array(declared), Value::Array(object)) => {
            for item in declared {
                let Some(name) = item_name(item) else { continue };
                let step = PathStep::item_named("name", name);
                let Some(at) = step.find_index(object) else { continue };
                path.push(step);
                restore_below(item, &mut object[at], path, admits, found);
                path.pop();
            }
        }
        _ => {}
    }
}

/// Sorts the declared items of one list; `None` if nothing changes, or if items have no names of their own.
fn restore_items(declared: &Value, list: &mut Value, path: &FieldPath) -> Option<ListOrder> {
    let (wanted, items) = (list_unique_names(declared)?, list.as_array()?);
    let names = list_unique_names(list)?;
    let places: Vec<usize> = (0..names.len()).filter(|at| wanted.contains(&names[*at])).collect();
    let current: Vec<String> = places.iter().map(|at| names[*at].clone()).collect();
    let declared: Vec<String> = wanted.into_iter().filter(|name| names.contains(name)).collect();
    if current == declared {
        return None;
    }
    let by_name: BTreeMap<&String, Value> = names.iter().zip(items.iter().cloned()).collect();
    let sorted: Vec<Value> = declared.iter().filter_map(|name| by_name.get(name).cloned()).collect();
    let items = list.as_array_mut()?;
    places.into_iter().zip(sorted).for_each(|(at, item)| items[at] = item);
    Some(ListOrder { field: path.to_string(), current, declared, after_apply: false })
}

fn item_name(item: &Value) -> Option<&str> {
    item.get("name")?.as_str()
}

fn list_unique_names(list: &Value) -> Option<Vec<String>> {
    let names: Vec<String> =
        list.as_array()?.iter().map(|item| item_name(item).map(str::to_owned)).collect::<Option<_>>()?;
    let unique = names.iter().collect::<std::collections::BTreeSet<_>>().len() == names.len();
    unique.then_some(names)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn pod(init: &[&str], env: &[&str]) -> Value {
        let named = |names: &[&str]| names.iter().map(|name| json!({ "name": name, "x": name })).collect::<Vec<_>>();
        json!({ "spec": { "initContainers": named(init), "containers": [{ "name": "injected" }, { "name": "main", "env": named(env) }] } })
    }

    #[test]
    fn declared_items_get_their_declared_order() {
        let declared = json!({ "spec": {
            "initContainers": [{ "name": "first" }, { "name": "second" }],
            "containers": [{ "name": "main", "env": [{ "name": "BASE" }, { "name": "DIR" }, { "name": "GONE" }] }],
        } });
        let mut live = pod(&["istio", "second", "mesh", "first"], &["DIR", "BASE"]);
        let found = restore_list_order(&declared, &mut live);
        assert_eq!(live, pod(&["istio", "first", "mesh", "second"], &["BASE", "DIR"]), "items of others stay in place");
        let told: Vec<String> =
            found.iter().map(|order| format!("{} {:?} {:?}", order.field, order.current, order.declared)).collect();
        assert_eq!(
            told,
            [
                r#".spec.initContainers ["second", "first"] ["first", "second"]"#,
                r#".spec.containers[name=main].env ["DIR", "BASE"] ["BASE", "DIR"]"#,
            ]
        );
        assert_eq!(find_order_differences(&declared, &live), [], "it is in order now");
        let mut live = pod(&["second", "first"], &["DIR", "BASE"]);
        restore_orders(&declared, &mut live, &found[1..]);
        assert_eq!(live, pod(&["second", "first"], &["BASE", "DIR"]), "only the listed one");
    }

    #[test]
    fn order_of_other_lists_has_no_effect() {
        let volumes = |names: [&str; 2]| json!({ "spec": { "volumes": [{ "name": names[0] }, { "name": names[1] }] } });
        assert_eq!(find_order_differences(&volumes(["a", "b"]), &volumes(["b", "a"])), []);
        let env = |names: [&str; 3]| json!({ "env": names.map(|name| json!({ "name": name })) });
        assert_eq!(find_order_differences(&env(["a", "b", "a"]), &env(["b", "a", "a"])), [], "names are not unique");
        assert_eq!(find_order_differences(&json!({ "env": ["a", "b"] }), &json!({ "env": ["b", "a"] })), []);
    }
}
