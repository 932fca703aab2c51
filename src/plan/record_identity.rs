//! The identity of the resource that a record is about.

use crate::model::{RecordIdentity, Value};
use serde::Deserialize;

/// Returns the identity in a record. Old records have none, but a title: a path identifies a resource for all kinds.
pub(super) fn read_record_identity(record: &Value) -> Option<RecordIdentity> {
    let identity = record.get("identity").cloned().unwrap_or_default();
    let title = || record.get("title").and_then(Value::as_str).unwrap_or_default();
    RecordIdentity::deserialize(identity).ok().or_else(|| identity_from_title(title()))
}

fn identity_from_title(title: &str) -> Option<RecordIdentity> {
    let claims = vec![("path".to_owned(), title.to_owned())];
    title.starts_with('/').then_some(RecordIdentity { claims, part_of: Vec::new() })
}
