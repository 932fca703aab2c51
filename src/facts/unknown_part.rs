//! Parts of a fact that could not be read.

use crate::model::Value;

/// Returns why a part of a fact could not be read, if `value` marks such a part.
pub fn unknown_reason(value: &Value) -> Option<&str> {
    let map = value.as_object().filter(|map| map.len() == 1)?;
    map.get("unknown")?.as_str()
}
