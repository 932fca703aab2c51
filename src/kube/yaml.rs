//! YAML that programs wrote: manifests of charts. What people write is read in `config`, with its places.

use crate::model::Value;

/// Reads one document.
///
/// # Errors
/// Why it is not YAML, as one line.
pub(super) fn read(text: &str) -> Result<Value, String> {
    let first = |error: serde_saphyr::Error| error.to_string().lines().next().unwrap_or_default().to_owned();
    serde_saphyr::from_str(text).map_err(first)
}
