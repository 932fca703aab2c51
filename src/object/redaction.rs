//! Keeps secrets out of displayed fields: leaves out values that are or may be secret.

use super::differ::{FieldDifference, FieldPath};
use super::{FieldChange, FieldOwner};
use crate::model::{SecretStore, Value};

/// Suffixes of keys whose values are never shown: values in a release may be secret without being declared so.
const SECRET_KEY_SUFFIXES: [&str; 6] = ["password", "passwd", "token", "secret", "credential", "apikey"];

/// Formats field changes without secrets.
pub(crate) struct Redactor<'s> {
    pub secrets: &'s SecretStore,
}

impl Redactor<'_> {
    /// Formats a change of a field in an object of `kind`; `kind` is empty for values.
    pub fn redact_difference(&self, kind: &str, difference: &FieldDifference, by: Option<FieldOwner>) -> FieldChange {
        let FieldDifference { path, from, to } = difference;
        let secret =
            is_secret_field(kind, path) || [from, to].into_iter().flatten().any(|value| self.has_secret(value));
        let text = |value: &Option<Value>| value.as_ref().filter(|_| !secret).map(|value| value.to_string().into());
        FieldChange { path: path.to_string(), from: text(from), to: text(to), secret, by }
    }

    /// Reports whether a value contains a secret. Then the previous value counts as secret, too.
    fn has_secret(&self, value: &Value) -> bool {
        match value {
            Value::String(text) => SecretStore::has_placeholder(text) || self.secrets.scrub_secrets(text) != *text,
            Value::Array(items) => items.iter().any(|item| self.has_secret(item)),
            Value::Object(map) => {
                map.iter().any(|(key, value)| is_secret_key(key) && value.is_string() || self.has_secret(value))
            }
            _ => false,
        }
    }
}

fn is_secret_field(kind: &str, path: &FieldPath) -> bool {
    let keys: Vec<&str> = path.keys().collect();
    let data = kind == "Secret" && keys.first().is_some_and(|key| matches!(*key, "data" | "stringData"));
    data || keys.last().is_some_and(|key| is_secret_key(key))
}

/// Reports whether the key names a secret: `password`, `adminPassword`, `api_key`; `secretName` only refers to one.
fn is_secret_key(key: &str) -> bool {
    let key: String = key.to_ascii_lowercase().replace(['_', '-'], "");
    SECRET_KEY_SUFFIXES.iter().any(|word| key.ends_with(word))
}

#[cfg(test)]
mod tests {
    use super::super::differ::find_differences;
    use super::*;
    use secrecy::SecretString;
    use serde_json::json;

    fn redact_first(kind: &str, from: &Value, to: &Value) -> FieldChange {
        let mut secrets = SecretStore::default();
        secrets.insert("pw", SecretString::from("hunter2".to_owned()));
        Redactor { secrets: &secrets }.redact_difference(kind, &find_differences(from, to)[0], None)
    }

    #[test]
    fn old_and_new_secret_values_are_redacted() {
        let plain = redact_first("", &json!({ "a": 1 }), &json!({ "a": 2 }));
        assert_eq!((plain.from.unwrap().raw(), plain.secret), ("1", false));
        for (kind, from, to) in [
            ("", json!({ "a": "old" }), json!({ "a": "--pass=hunter2" })),
            ("", json!({ "adminPassword": "old" }), json!({})),
            ("", json!({ "login": { "api_token": "old" } }), json!({})),
            ("Secret", json!({ "data": { "x": "b2xk" } }), json!({ "data": { "x": "bmV3" } })),
        ] {
            let told = redact_first(kind, &from, &to);
            assert!(told.secret && told.from.is_none() && told.to.is_none(), "{told:?}");
        }
        assert!(!redact_first("", &json!({ "secretName": "a" }), &json!({ "secretName": "b" })).secret);
    }
}
