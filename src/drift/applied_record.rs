//! A host's record of one attribute, formatted like an assessment.

use super::cause::AttributeValue;
use super::model::LastApplied;
use crate::model::{RecordIdentity, UntrustedText, Value, record_file_name};
use serde::Deserialize;

/// Digits of a digest that assessments show.
const SHOWN_DIGITS: usize = 12;

/// A record of the last verified apply of a step.
pub struct AppliedRecordView<'r>(&'r Value);

impl<'r> AppliedRecordView<'r> {
    pub fn new(record: &'r Value) -> Self {
        Self(record)
    }

    /// Returns the digest of the declaration at that time.
    pub fn digest(&self) -> &'r str {
        self.text_field("digest")
    }

    /// Returns the value of an attribute at that time. `None` if it is not recorded: the value was secret, or the kind
    /// records it under another name.
    pub fn attribute_value(&self, attribute: &str) -> Option<String> {
        attribute_text(self.0.get("value")?, attribute)
    }

    /// Returns the value at a JSON pointer at that time, as text.
    pub fn value_at(&self, pointer: &str) -> Option<String> {
        value_text(self.0.get("value")?.pointer(pointer)?)
    }

    /// Reports whether the declaration at that time was equal to `declared` at a JSON pointer.
    pub fn is_equal_at(&self, pointer: &str, declared: &Value) -> bool {
        let then = self.0.get("value").and_then(|value| value.pointer(pointer));
        then.is_some() && then == declared.pointer(pointer)
    }

    /// Returns the name of its file on the host; `None` for a record of an old version, which names no cluster.
    pub fn file_name(&self) -> Option<String> {
        let cluster = self.0.get("cluster")?.as_str()?;
        Some(record_file_name(cluster, self.text_field("step")))
    }

    /// Returns the objects that it is about; `None` in records of old versions.
    pub fn identity(&self) -> Option<RecordIdentity> {
        RecordIdentity::deserialize(self.0.get("identity")?).ok()
    }

    /// Reports whether the step managed a path at that time or earlier.
    pub fn is_about_path(&self, path: &str) -> bool {
        let claims = |record: &Value| {
            let claims = record.pointer("/identity/claims").and_then(Value::as_array);
            claims.is_some_and(|claims| claims.iter().any(|claim| claim[0] == "path" && claim[1] == path))
        };
        let former = self.0.get("left").and_then(Value::as_array);
        claims(self.0) || former.is_some_and(|left| left.iter().any(claims))
    }

    /// Reports whether the apply removed the object.
    pub fn is_removal(&self) -> bool {
        let says = |value: &Value| value.get("absent").and_then(Value::as_bool) == Some(true);
        says(self.0) || self.0.get("value").is_some_and(says)
    }

    /// Reports whether a verification of the recipe did not pass in the run that wrote the record.
    pub fn lacks_verification(&self, name: &str) -> bool {
        let failed = self.0.get("unverified").and_then(Value::as_array);
        failed.is_some_and(|failed| failed.iter().any(|one| one == name))
    }

    /// Returns the record in a form for display.
    pub fn to_last_applied(&self, value: Option<String>) -> LastApplied {
        let text = |key: &str| UntrustedText::from(self.text_field(key));
        LastApplied {
            value: value.map(UntrustedText::from),
            time: text("time"),
            run: text("run"),
            user: text("user"),
            controller: text("controller"),
        }
    }

    fn text_field(&self, key: &str) -> &'r str {
        self.0.get(key).and_then(Value::as_str).unwrap_or_default()
    }
}

/// Returns an attribute of a declared or recorded value as text.
pub fn attribute_text(value: &Value, attribute: &str) -> Option<String> {
    value_text(value.get(attribute)?)
}

/// Returns a declared or recorded value as text.
pub fn value_text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Bool(flag) => Some(flag.to_string()),
        Value::Number(number) => Some(number.to_string()),
        body => describe_content(body),
    }
}

/// Formats recorded content like an assessment.
fn describe_content(body: &Value) -> Option<String> {
    let (digest, bytes) = (body.get("sha256")?.as_str()?, body.get("bytes")?.as_u64()?);
    Some(format!("{bytes} bytes, sha256 {}", digest.get(..SHOWN_DIGITS)?))
}

/// Returns a value for comparison. Only declared values have the prefix `binary`.
pub fn to_comparable_value(value: Option<&str>) -> AttributeValue<'_> {
    match value {
        None => AttributeValue::Nothing,
        Some(text) => AttributeValue::Value(text.strip_prefix("binary, ").unwrap_or(text)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn applied_record_formats_attribute_values() {
        let digest = "0123456789abcdef".repeat(4);
        let record = json!({
            "digest": "sha256:aa", "time": "2026-11-21T09:30:15Z", "user": "ann",
            "value": { "mode": "0644", "enabled": true, "uid": 7, "content": { "sha256": digest, "bytes": 6 }, "gid": null },
        });
        let applied = AppliedRecordView::new(&record);
        let value = |attribute: &str| applied.attribute_value(attribute);
        assert_eq!(value("mode").as_deref(), Some("0644"));
        assert_eq!(value("enabled").as_deref(), Some("true"));
        assert_eq!(value("uid").as_deref(), Some("7"));
        assert_eq!(value("content").as_deref(), Some("6 bytes, sha256 0123456789ab"));
        assert_eq!((value("gid"), value("owner")), (None, None));
        assert_eq!((applied.digest(), applied.to_last_applied(None).user.raw()), ("sha256:aa", "ann"));
        assert!(!applied.is_removal() && AppliedRecordView::new(&json!({ "value": { "absent": true } })).is_removal());
    }

    #[test]
    fn applied_record_of_a_secret_has_no_value() {
        let applied = json!({ "digest": "keyed:sha256:aa" });
        assert_eq!(AppliedRecordView::new(&applied).attribute_value("content"), None);
        let text = json!({ "value": { "content": { "text": "x" } } });
        assert_eq!(AppliedRecordView::new(&text).attribute_value("content"), None);
    }
}
