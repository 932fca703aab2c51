//! YAML from programs, such as manifests of charts. `config` reads the YAML that people write, with source positions.

use crate::model::Value;

/// Parses one document.
///
/// # Errors
/// The text is not valid YAML: the message, one line.
pub(crate) fn parse_document(text: &str) -> Result<Value, String> {
    let first = |error: serde_saphyr::Error| error.to_string().lines().next().unwrap_or_default().to_owned();
    serde_saphyr::from_str(text).map_err(first)
}
