//! Records of removals.

use crate::model::Value;

/// Returns whether the record says that a removal of its recipe kept the resource.
pub(super) fn is_kept_record(record: &Value) -> bool {
    record.get("kept").and_then(Value::as_bool) == Some(true)
}

/// Returns whether the record says that the resource was removed, so that nothing is left to report. Old records say so
/// only in `value`.
pub(super) fn is_removal_record(record: &Value) -> bool {
    let says = |value: &Value| value.get("absent").and_then(Value::as_bool) == Some(true);
    says(record) || record.get("value").is_some_and(says)
}
