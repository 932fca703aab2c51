//! Writes values as YAML that readers of YAML 1.1 (Kubernetes, PyYAML) and of YAML 1.2 read as the same values.

use super::Value;
use serde_saphyr::{SerializerOptions, ser_options};

/// Returns a value in block style: text of several lines is a literal block, long lines are not folded.
pub fn render_yaml_block(value: &Value) -> String {
    write_yaml(value, ser_options! { compact_list_indent: false, folded_wrap_chars: usize::MAX })
}

/// Returns a value as one line: a scalar as YAML, a list or map as JSON.
pub fn render_yaml_line(value: &Value) -> String {
    match value {
        // Not in flow style: the library leaves `a?b` unquoted there, which YAML 1.1 does not read as text.
        Value::Array(_) | Value::Object(_) => value.to_string(),
        scalar => {
            let text = write_yaml(scalar, ser_options! { prefer_block_scalars: false });
            text.strip_suffix('\n').unwrap_or(&text).to_owned()
        }
    }
}

/// Writing a value to memory does not fail; the alternative is JSON, which is YAML too.
fn write_yaml(value: &Value, options: SerializerOptions) -> String {
    serde_saphyr::to_string_with_options(value, options).unwrap_or_else(|_| format!("{value}\n"))
}

#[cfg(test)]
mod tests;
