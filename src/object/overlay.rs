//! The result of an apply, computed from the live object alone: for accounts that may not ask the API for a dry run.

use super::field_path::PathStep;
use crate::model::Value;
use base64::Engine as _;
use serde_json::{Map, json};

/// Returns the live object with the declared fields in it. Fields that the API or webhooks would change are not known
/// here: defaults of new list items, fields that are no longer declared.
pub(crate) fn overlay_object(live: &Value, want: &Value) -> Value {
    let mut becomes = live.clone();
    lay_over(&mut becomes, &fold_string_data(want), false);
    becomes
}

/// Writes the text of a Secret the way the API returns it.
fn fold_string_data(want: &Value) -> Value {
    let mut want = want.clone();
    let texts = want.as_object_mut().filter(|map| map.get("kind") == Some(&json!("Secret")));
    let Some(map) = texts else { return want };
    if let Some(Value::Object(texts)) = map.shift_remove("stringData") {
        let data = map.entry("data").or_insert_with(|| json!({}));
        for (key, text) in texts.iter().filter_map(|(key, text)| Some((key, text.as_str()?))) {
            data[key] = base64::engine::general_purpose::STANDARD.encode(text).into();
        }
    }
    want
}

/// Fields below which numbers are quantities: the API writes `1000m` as `1`.
const QUANTITY_FIELDS: [&str; 4] = ["limits", "requests", "hard", "capacity"];

fn lay_over(live: &mut Value, want: &Value, quantities: bool) {
    match (live, want) {
        (_, Value::Null) => {}
        (Value::Object(live), Value::Object(want)) => lay_over_map(live, want, quantities),
        (Value::Array(live), Value::Array(want)) => lay_over_list(live, want, quantities),
        (live, want) if quantities && same_quantity(live, want) => {}
        (live, want) => *live = want.clone(),
    }
}

fn lay_over_map(live: &mut Map<String, Value>, want: &Map<String, Value>, quantities: bool) {
    for (key, want) in want {
        let quantities = quantities || QUANTITY_FIELDS.contains(&key.as_str());
        match live.get_mut(key) {
            Some(live) => lay_over(live, want, quantities),
            // The API does not store empty fields.
            None if want.is_null() || *want == json!({}) || *want == json!([]) => {}
            None => _ = live.insert(key.clone(), want.clone()),
        }
    }
}

/// Merges items of equal names, or of equal places in lists of equal lengths. Other lists are replaced as a whole.
fn lay_over_list(live: &mut Vec<Value>, want: &[Value], quantities: bool) {
    if let (Some(_), Some(names)) = (list_names(live), list_names(want)) {
        for (name, want) in names.into_iter().zip(want) {
            let step = PathStep::Item(vec![("name".to_owned(), json!(name).to_string())]);
            match step.find_index(live) {
                Some(at) => lay_over(&mut live[at], want, quantities),
                None => live.push(want.clone()),
            }
        }
    } else if live.len() == want.len() && live.iter().chain(want).all(Value::is_object) {
        live.iter_mut().zip(want).for_each(|(live, want)| lay_over(live, want, quantities));
    } else {
        live.clear();
        live.extend_from_slice(want);
    }
}

/// Returns the names of the items if each has one of its own.
fn list_names(items: &[Value]) -> Option<Vec<&str>> {
    let names: Vec<&str> = items.iter().map(|item| item.get("name")?.as_str()).collect::<Option<_>>()?;
    let unique = names.iter().collect::<std::collections::BTreeSet<_>>().len() == names.len();
    (unique && !names.is_empty()).then_some(names)
}

fn same_quantity(one: &Value, other: &Value) -> bool {
    parse_quantity(one).zip(parse_quantity(other)).is_some_and(|(one, other)| one == other)
}

/// Returns a quantity in thousandths: `500m`, `1.5Gi`, `8`.
fn parse_quantity(value: &Value) -> Option<i128> {
    const UNITS: [(&str, i128); 12] = [
        ("Ki", 1 << 10),
        ("Mi", 1 << 20),
        ("Gi", 1 << 30),
        ("Ti", 1 << 40),
        ("Pi", 1 << 50),
        ("Ei", 1 << 60),
        ("k", 1_000),
        ("M", 1_000_000),
        ("G", 1_000_000_000),
        ("T", 1_000_000_000_000),
        ("P", 1_000_000_000_000_000),
        ("E", 1_000_000_000_000_000_000),
    ];
    let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let (number, unit) = match text.strip_suffix('m') {
        Some(number) => (number, 1),
        None => UNITS
            .iter()
            .find_map(|(suffix, unit)| Some((text.strip_suffix(suffix)?, unit * 1000)))
            .unwrap_or((&text, 1000)),
    };
    let (whole, part) = number.split_once('.').unwrap_or((number, ""));
    let tenth = 10_i128.checked_pow(u32::try_from(part.len()).ok()?)?;
    let digits: i128 = format!("{whole}{part}").parse().ok()?;
    Some(digits.checked_mul(unit)? / tenth)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn declared_fields_are_laid_over_live_ones() {
        let live = json!({ "spec": {
            "replicas": 2, "strategy": { "type": "RollingUpdate" },
            "containers": [{ "name": "a", "image": "x:1", "args": ["-v"], "imagePullPolicy": "Always" }, { "name": "injected" }],
        } });
        let want = json!({ "spec": { "replicas": 1, "selector": {}, "containers": [{ "name": "a", "image": "x:2", "args": ["-q"] }] } });
        let expected = json!({ "spec": {
            "replicas": 1, "strategy": { "type": "RollingUpdate" },
            "containers": [{ "name": "a", "image": "x:2", "args": ["-q"], "imagePullPolicy": "Always" }, { "name": "injected" }],
        } });
        assert_eq!(overlay_object(&live, &want), expected);
        assert_eq!(overlay_object(&expected, &want), expected);
    }

    #[test]
    fn equal_quantities_and_secret_texts_do_not_differ() {
        let live = json!({ "resources": { "limits": { "cpu": "1", "memory": "1536Mi", "rdma/ib": "1" } } });
        let want = json!({ "resources": { "limits": { "cpu": "1000m", "memory": "1.5Gi", "rdma/ib": 1 } } });
        assert_eq!(overlay_object(&live, &want), live);
        let other = json!({ "resources": { "limits": { "cpu": "1001m" } } });
        assert_eq!(overlay_object(&live, &other)["resources"]["limits"]["cpu"], "1001m");
        let secret = json!({ "kind": "Secret", "data": { "a": "aGVsbG8=" } });
        assert_eq!(overlay_object(&secret, &json!({ "kind": "Secret", "stringData": { "a": "hello" } })), secret);
    }

    #[test]
    fn lists_without_names_are_merged_by_place_or_replaced() {
        let live = json!({ "ports": [{ "port": 80, "protocol": "TCP" }], "mounts": [{ "name": "d", "path": "/a" }, { "name": "d", "path": "/b" }] });
        let want = json!({ "ports": [{ "port": 81 }], "mounts": [{ "name": "d", "path": "/a" }, { "name": "d", "path": "/c" }] });
        let expected = json!({ "ports": [{ "port": 81, "protocol": "TCP" }], "mounts": [{ "name": "d", "path": "/a" }, { "name": "d", "path": "/c" }] });
        assert_eq!(overlay_object(&live, &want), expected);
        assert_eq!(overlay_object(&json!({ "a": [{ "x": 1 }] }), &json!({ "a": [] })), json!({ "a": [] }));
    }
}
