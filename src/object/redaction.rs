//! The redaction policy: which fields of an object are secret. Every comparison of live objects uses it.
//!
//! A field is secret if it is a value of a Secret, if its key or the name of its environment variable says so, if it
//! contains a declared secret, or if its previous value may be one. Of a secret field only its path is shown.

use super::cleanup::{LAST_APPLIED, is_secret_object};
use super::differ::{FieldDifference, named_item_steps, visit_fields};
use super::field_path::{FieldPath, PathStep};
use crate::model::{SecretStore, Value};
use serde_json::{Map, json};

/// Suffixes of keys whose values are never shown: values may be secret without being declared so.
const SECRET_KEY_SUFFIXES: [&str; 6] = ["password", "passwd", "token", "secret", "credential", "apikey"];

/// Kinds whose keys say nothing about secrets: everyone who can read nodes can read their labels, and a definition
/// describes fields without their values.
const KINDS_WITHOUT_SECRETS: [&str; 2] = ["Node", "CustomResourceDefinition"];

/// Stands for a secret value in an observation.
const MASKED_SECRET: &str = "(secret)";
/// Stands for a secret value that differs from the one next to it.
const MASKED_OTHER_SECRET: &str = "(secret, another one)";

/// Decides which fields of one object, or of a chart's values, are secret.
pub(crate) struct Redactor<'s> {
    secrets: Option<&'s SecretStore>,
    kind: String,
    /// Fields that the declaration fills with secrets: each is secret with everything in it.
    declared: Vec<FieldPath>,
    /// Lists of named items with a declared secret in one of them: an item that the declaration does not have may hold
    /// the previous secret.
    lists: Vec<FieldPath>,
}

impl<'s> Redactor<'s> {
    /// Creates the policy for a declared object. `secrets` are the known ones, if any.
    pub fn for_object(declared: &Value, secrets: Option<&'s SecretStore>) -> Self {
        let kind = declared["kind"].as_str().unwrap_or_default().to_owned();
        let mut redactor = Self { secrets, kind, declared: Vec::new(), lists: Vec::new() };
        redactor.collect_declared(declared, &mut FieldPath::default());
        redactor
    }

    /// Creates the policy for the values of a chart.
    pub fn for_values(declared: &Value, secrets: &'s SecretStore) -> Self {
        Self { kind: String::new(), ..Self::for_object(declared, Some(secrets)) }
    }

    fn collect_declared(&mut self, value: &Value, at: &mut FieldPath) {
        match value {
            Value::String(text) if self.is_declared_secret(text) => self.declared.push(at.clone()),
            Value::Object(map) => {
                map.iter().for_each(|(key, value)| self.collect_at(PathStep::Key(key.clone()), value, at));
            }
            Value::Array(items) if items.iter().any(|item| self.has_declared_secret(item)) => {
                match named_item_steps(items) {
                    Some(steps) => {
                        self.lists.push(at.clone());
                        steps.into_iter().zip(items).for_each(|(step, item)| self.collect_at(step, item, at));
                    }
                    // Items without names cannot be told apart.
                    None => self.declared.push(at.clone()),
                }
            }
            _ => {}
        }
    }

    fn collect_at(&mut self, step: PathStep, value: &Value, at: &mut FieldPath) {
        at.push(step);
        self.collect_declared(value, at);
        at.pop();
    }

    fn is_declared_secret(&self, text: &str) -> bool {
        SecretStore::has_placeholder(text) || self.secrets.is_some_and(|secrets| secrets.occurs_in(text))
    }

    fn has_declared_secret(&self, value: &Value) -> bool {
        match value {
            Value::String(text) => self.is_declared_secret(text),
            Value::Array(items) => items.iter().any(|item| self.has_declared_secret(item)),
            Value::Object(map) => map.values().any(|value| self.has_declared_secret(value)),
            _ => false,
        }
    }

    /// Reports whether a field is secret; then its previous value counts as secret, too.
    pub fn is_secret(&self, path: &FieldPath, from: Option<&Value>, to: Option<&Value>) -> bool {
        let removed_item = || to.is_none() && path.list_of_item().is_some_and(|list| self.lists.contains(&list));
        self.is_secret_data(path)
            || self.is_named_secret(path, from, to)
            || self.declared.iter().any(|secret| path.starts_with(secret))
            || removed_item()
            || [from, to].into_iter().flatten().any(|value| self.has_secret(value))
    }

    fn is_secret_data(&self, path: &FieldPath) -> bool {
        self.kind == "Secret" && ["data", "stringData"].into_iter().any(|part| path.is_below(&[part]))
    }

    /// Reports whether a key on the path, or the name of an environment variable, names a secret. A switch such as
    /// `automountServiceAccountToken: true` is none.
    fn is_named_secret(&self, path: &FieldPath, from: Option<&Value>, to: Option<&Value>) -> bool {
        let named = path.last_key().is_some_and(is_secret_key) || is_secret_variable(path);
        named && self.reads_keys() && [from, to].into_iter().flatten().any(|v| !v.is_boolean() && !v.is_null())
    }

    fn reads_keys(&self) -> bool {
        !KINDS_WITHOUT_SECRETS.contains(&self.kind.as_str())
    }

    fn has_secret(&self, value: &Value) -> bool {
        match value {
            Value::String(text) => is_mask(text) || self.is_declared_secret(text),
            Value::Array(items) => items.iter().any(|item| self.has_secret(item)),
            Value::Object(map) => {
                let named = |(key, value): (&String, &Value)| is_secret_key(key) && holds_text(value);
                self.reads_keys() && (map.iter().any(named) || is_secret_entry(map))
                    || map.values().any(|value| self.has_secret(value))
            }
            _ => false,
        }
    }

    /// Removes the values of a difference if they are secret; reports whether they are.
    pub fn redact_difference(&self, difference: FieldDifference) -> (FieldDifference, bool) {
        match self.is_secret(&difference.path, difference.from.as_ref(), difference.to.as_ref()) {
            true => (FieldDifference { from: None, to: None, ..difference }, true),
            false => (difference, false),
        }
    }

    /// Masks the secrets of a live object and of its predicted state: only whether they differ stays visible.
    pub fn mask_pair(&self, live: &mut Option<Value>, becomes: &mut Option<Value>) {
        // Declarations of nodes may not contain secrets, and their labels are compared one by one.
        if self.kind == "Node" {
            return;
        }
        self.declared.iter().for_each(|path| mask_path(live, becomes, path));
        let mut secret = Vec::new();
        if let Some((one, other)) = live.as_ref().or(becomes.as_ref()).zip(becomes.as_ref().or(live.as_ref())) {
            visit_fields(one, other, &mut |path, from, to| {
                if self.is_secret(path, from, to) {
                    secret.push(path.clone());
                }
            });
        }
        secret.iter().for_each(|path| mask_path(live, becomes, path));
    }

    /// Returns the object with its secrets masked, for people.
    pub fn mask_object(&self, object: &Value) -> Value {
        let mut shown = object.clone();
        visit_fields(object, object, &mut |path, value, _| {
            // A placeholder names its secret: it is more useful than a mask.
            let declared = value.is_some_and(|value| self.has_declared_secret(value));
            if !declared
                && (self.is_secret_data(path) || self.is_named_secret(path, value, value))
                && let Some(found) = path.find_value_mut(&mut shown)
            {
                *found = json!(MASKED_SECRET);
            }
        });
        match self.kind == "Secret" {
            true => mask_data(shown),
            false => mask_placeholders(&shown),
        }
    }
}

/// Returns the object with its status in a form that may be shown and stored: without known secrets, the values of a
/// Secret, and the bookkeeping of the API and `kubectl`.
pub(crate) fn redact_object(mut object: Value, secrets: &SecretStore) -> Value {
    if is_secret_object(&object) {
        let values = object.get_mut("data").and_then(Value::as_object_mut).into_iter().flatten();
        values.for_each(|(_, value)| *value = json!(MASKED_SECRET));
    }
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.shift_remove("managedFields");
        if let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut) {
            annotations.shift_remove(LAST_APPLIED);
        }
    }
    scrub_strings(&mut object, secrets);
    object
}

fn scrub_strings(value: &mut Value, secrets: &SecretStore) {
    match value {
        Value::String(text) => *text = secrets.scrub_secrets(text),
        Value::Array(items) => items.iter_mut().for_each(|item| scrub_strings(item, secrets)),
        Value::Object(map) => map.iter_mut().for_each(|(_, value)| scrub_strings(value, secrets)),
        _ => {}
    }
}

/// Returns a Secret with every value masked.
fn mask_data(mut object: Value) -> Value {
    for part in ["data", "stringData"] {
        let values = object.get_mut(part).and_then(Value::as_object_mut);
        values.into_iter().flatten().for_each(|(_, value)| *value = json!(MASKED_SECRET));
    }
    mask_placeholders(&object)
}

fn mask_placeholders(value: &Value) -> Value {
    match value {
        Value::String(text) => Value::from(SecretStore::mask_placeholders(text)),
        Value::Array(items) => items.iter().map(mask_placeholders).collect(),
        Value::Object(map) => {
            Value::Object(map.iter().map(|(key, value)| (key.clone(), mask_placeholders(value))).collect())
        }
        other => other.clone(),
    }
}

/// Reports whether the key names a secret: `password`, `adminPassword`, `api_key`; `secretName` only refers to one.
fn is_secret_key(key: &str) -> bool {
    let key: String = key.to_ascii_lowercase().replace(['_', '-', '.'], "");
    SECRET_KEY_SUFFIXES.iter().any(|word| key.ends_with(word))
}

/// Reports whether the path is the value of a list entry whose name names a secret: `env[name=DB_PASSWORD].value`.
fn is_secret_variable(path: &FieldPath) -> bool {
    match path.steps() {
        [.., entry, PathStep::Key(key)] if key == "value" => entry.item_name().is_some_and(|name| is_secret_key(&name)),
        _ => false,
    }
}

/// Reports whether a list entry has a name that names a secret, and a value.
fn is_secret_entry(entry: &Map<String, Value>) -> bool {
    let named = entry.get("name").and_then(Value::as_str).is_some_and(is_secret_key);
    named && entry.get("value").is_some_and(holds_text)
}

fn holds_text(value: &Value) -> bool {
    match value {
        Value::String(_) | Value::Number(_) => true,
        Value::Array(items) => items.iter().any(holds_text),
        _ => false,
    }
}

/// Reports whether a value was masked because it is secret.
pub(crate) fn has_mask(value: &Value) -> bool {
    match value {
        Value::String(text) => is_mask(text),
        Value::Array(items) => items.iter().any(has_mask),
        Value::Object(map) => map.values().any(has_mask),
        _ => false,
    }
}

fn is_mask(text: &str) -> bool {
    text == MASKED_SECRET || text == MASKED_OTHER_SECRET
}

fn mask_path(live: &mut Option<Value>, becomes: &mut Option<Value>, path: &FieldPath) {
    let find = |object: &Option<Value>| object.as_ref().and_then(|object| path.find_value(object).cloned());
    let (from, to) = (find(live), find(becomes));
    let put = |object: &mut Option<Value>, mask: &str| {
        if let Some(found) = object.as_mut().and_then(|object| path.find_value_mut(object)) {
            mask_value(found, path.steps().last(), mask);
        }
    };
    let same = from.is_none() || from == to;
    put(live, MASKED_SECRET);
    put(becomes, if same { MASKED_SECRET } else { MASKED_OTHER_SECRET });
}

/// Masks a value. An item of a list keeps the fields that name it, so that it can still be compared.
fn mask_value(value: &mut Value, step: Option<&PathStep>, mask: &str) {
    match (value, step) {
        (Value::Object(item), Some(PathStep::Item(names))) => {
            let others = item.iter_mut().filter(|(key, _)| names.iter().all(|(name, _)| name != *key));
            others.for_each(|(_, value)| *value = json!(mask));
        }
        (value, _) => *value = json!(mask),
    }
}

#[cfg(test)]
mod tests {
    use super::super::differ::find_differences;
    use super::*;
    use secrecy::SecretString;

    fn store() -> SecretStore {
        let mut secrets = SecretStore::default();
        secrets.insert("pw", SecretString::from("hunter2".to_owned()));
        secrets
    }

    /// Returns the differing paths, secret ones in parentheses.
    fn shown(kind: &str, from: &Value, to: &Value) -> Vec<String> {
        let (secrets, mut declared) = (store(), to.clone());
        declared["kind"] = json!(kind);
        let redactor = Redactor::for_object(&declared, Some(&secrets));
        let one = |difference| match redactor.redact_difference(difference) {
            (FieldDifference { path, from: None, to: None }, true) => format!("({path})"),
            (difference, secret) => {
                assert!(!secret);
                difference.path.to_string()
            }
        };
        find_differences(from, to).into_iter().map(one).collect()
    }

    #[test]
    fn old_and_new_secret_values_are_redacted() {
        for (kind, from, to, told) in [
            ("", json!({ "a": 1 }), json!({ "a": 2 }), ".a"),
            ("", json!({ "a": "old" }), json!({ "a": "--pass=hunter2" }), "(.a)"),
            ("", json!({ "adminPassword": "old" }), json!({}), "(.adminPassword)"),
            ("", json!({ "login": { "api_token": "old" } }), json!({}), "(.login)"),
            ("ConfigMap", json!({ "data": { "db.api-key": "1" } }), json!({ "data": {} }), "(.data[db.api-key])"),
            ("Secret", json!({ "data": { "x": "b2xk" } }), json!({ "data": { "x": "bmV3" } }), "(.data.x)"),
            ("", json!({ "secretName": "a" }), json!({ "secretName": "b" }), ".secretName"),
            ("", json!({ "mountToken": true }), json!({ "mountToken": false }), ".mountToken"),
            ("Node", json!({ "labels": { "token": "a" } }), json!({ "labels": {} }), ".labels.token"),
        ] {
            assert_eq!(shown(kind, &from, &to), [told]);
        }
    }

    #[test]
    fn environment_variables_are_redacted_by_their_names() {
        let env = |entries: Value| json!({ "env": entries });
        let from = env(json!([{ "name": "DB_PASSWORD", "value": "a" }, { "name": "MODE", "value": "x" }]));
        let to = env(json!([{ "name": "DB_PASSWORD", "value": "b" }, { "name": "MODE", "value": "y" }]));
        assert_eq!(shown("Pod", &from, &to), ["(.env[name=DB_PASSWORD].value)", ".env[name=MODE].value"]);
        let without = env(json!([{ "name": "MODE", "value": "x" }]));
        assert_eq!(shown("Pod", &from, &without), ["(.env[name=DB_PASSWORD])"]);
    }

    #[test]
    fn item_that_may_hold_the_previous_secret_is_redacted() {
        let from = json!({ "env": [{ "name": "OLD", "value": "former" }, { "name": "MODE", "value": "x" }] });
        let to = json!({ "env": [{ "name": "NEW", "value": "hunter2" }, { "name": "MODE", "value": "y" }] });
        assert_eq!(shown("Pod", &from, &to), ["(.env[name=OLD])", ".env[name=MODE].value", "(.env[name=NEW])"]);
        let args = |one: &str| json!({ "args": [one, "b"] });
        assert_eq!(
            shown("Pod", &args("former"), &json!({ "args": ["x", "--p=hunter2"] })),
            ["(.args[0])", "(.args[1])"]
        );
    }

    #[test]
    fn masked_pair_still_shows_whether_secrets_differ() {
        let secret =
            |a: &str, b: &str| Some(json!({ "apiVersion": "v1", "kind": "Secret", "data": { "a": a, "b": b } }));
        let (mut live, mut becomes) = (secret("MQ==", "Mg=="), secret("MQ==", "Mw=="));
        let redactor = Redactor::for_object(&json!({ "kind": "Secret" }), None);
        redactor.mask_pair(&mut live, &mut becomes);
        assert_eq!(live, secret(MASKED_SECRET, MASKED_SECRET));
        assert_eq!(becomes, secret(MASKED_SECRET, MASKED_OTHER_SECRET));
        redactor.mask_pair(&mut live, &mut becomes);
        assert_eq!(becomes, secret(MASKED_SECRET, MASKED_OTHER_SECRET), "masks are stable");
        let (mut live, mut none) = (secret("MQ==", "Mg=="), None);
        redactor.mask_pair(&mut live, &mut none);
        assert_eq!((live, none), (secret(MASKED_SECRET, MASKED_SECRET), None));
    }

    #[test]
    fn values_from_placeholders_are_masked() {
        let mut secrets = SecretStore::default();
        let placeholder = secrets.insert("TOKEN", SecretString::from("hunter2\"".to_owned())).0;
        let want = json!({ "data": { "x": format!("x {placeholder}"), "b": "2" }, "list": [1, placeholder] });
        let mut live = Some(json!({ "data": { "x": "old", "b": "1" }, "list": [1, "old"] }));
        let mut becomes = Some(json!({ "data": { "x": "x hunter2\"", "b": "2" }, "list": [1, "hunter2\""] }));
        Redactor::for_object(&want, Some(&secrets)).mask_pair(&mut live, &mut becomes);
        assert_eq!(live, Some(json!({ "data": { "x": MASKED_SECRET, "b": "1" }, "list": MASKED_SECRET })));
        assert_eq!(
            becomes,
            Some(json!({ "data": { "x": MASKED_OTHER_SECRET, "b": "2" }, "list": MASKED_OTHER_SECRET }))
        );
    }

    #[test]
    fn shown_object_has_no_values_with_secret_names() {
        let placeholder = SecretStore::default().insert("T", SecretString::from("x".to_owned())).0;
        let map = json!({ "kind": "ConfigMap", "data": { "password": "a", "mode": "b", "token": placeholder } });
        let masked = Redactor::for_object(&map, None).mask_object(&map);
        assert_eq!(masked["data"], json!({ "password": MASKED_SECRET, "mode": "b", "token": "(secret T)" }));
    }

    #[test]
    fn shown_object_keeps_its_status_but_no_secrets() {
        let mut secrets = SecretStore::default();
        secrets.insert("TOKEN", SecretString::from("hunter2".to_owned()));
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod", "status": { "phase": "Running" }, "spec": { "args": ["--token=hunter2"] },
            "metadata": { "managedFields": [1], "annotations": { "kubectl.kubernetes.io/last-applied-configuration": "{}", "a": "b" } },
        });
        let expected = json!({
            "apiVersion": "v1", "kind": "Pod", "status": { "phase": "Running" }, "spec": { "args": ["--token=(secret TOKEN)"] },
            "metadata": { "annotations": { "a": "b" } },
        });
        assert_eq!(redact_object(pod, &secrets), expected);
        let secret = json!({ "apiVersion": "v1", "kind": "Secret", "data": { "a": "MQ==" } });
        assert_eq!(redact_object(secret, &secrets)["data"]["a"], MASKED_SECRET);
    }
}
