//! Renders an object as YAML in block style.

use crate::model::Value;

/// Returns the text of a value.
pub(super) fn render_yaml(value: &Value) -> String {
    let mut text = String::new();
    write_block(value, 0, &mut text);
    text
}

fn write_block(value: &Value, depth: usize, text: &mut String) {
    match value {
        Value::Object(map) => map.iter().for_each(|(key, value)| {
            write_indent(depth, text);
            text.push_str(&quote_scalar(key));
            text.push(':');
            write_nested(value, depth + 1, text);
        }),
        Value::Array(items) => items.iter().for_each(|item| {
            write_indent(depth, text);
            text.push('-');
            write_item(item, depth + 1, text);
        }),
        other => text.push_str(&format!("{}\n", format_scalar(other))),
    }
}

fn write_nested(value: &Value, depth: usize, text: &mut String) {
    match value {
        Value::Object(map) if map.is_empty() => text.push_str(" {}\n"),
        Value::Array(items) if items.is_empty() => text.push_str(" []\n"),
        Value::Object(_) | Value::Array(_) => {
            text.push('\n');
            write_block(value, depth, text);
        }
        Value::String(body) if body.contains('\n') => write_literal(body, depth, text),
        other => text.push_str(&format!(" {}\n", format_scalar(other))),
    }
}

/// Writes an item of a list: its first key follows the dash.
fn write_item(item: &Value, depth: usize, text: &mut String) {
    match item {
        Value::Object(map) if !map.is_empty() => {
            let mut own = String::new();
            write_block(item, depth, &mut own);
            text.push(' ');
            text.push_str(own.trim_start());
        }
        other => write_nested(other, depth, text),
    }
}

fn write_literal(body: &str, depth: usize, text: &mut String) {
    text.push_str(if body.ends_with('\n') { " |\n" } else { " |-\n" });
    for line in body.lines() {
        if !line.is_empty() {
            write_indent(depth, text);
        }
        text.push_str(line);
        text.push('\n');
    }
}

fn write_indent(depth: usize, text: &mut String) {
    text.push_str(&"  ".repeat(depth));
}

/// Returns a scalar value as text.
pub(super) fn format_scalar(value: &Value) -> String {
    match value {
        Value::String(text) => quote_scalar(text),
        other => other.to_string(),
    }
}

/// Quotes text that a YAML reader would take for another type.
fn quote_scalar(text: &str) -> String {
    let first = text.chars().next().is_some_and(|c| c.is_ascii_alphabetic() || c == '/' || c == '(' || c == '.');
    let safe =
        text.chars().all(|c| c.is_ascii_alphanumeric() || "/._-() @%+,:".contains(c)) && !text.ends_with([' ', ':']);
    let safe = safe && !text.contains(": ");
    let word = matches!(
        text.to_ascii_lowercase().as_str(),
        "true" | "false" | "null" | "yes" | "no" | "on" | "off" | "y" | "n"
    );
    match first && safe && !word {
        true => text.to_owned(),
        false => Value::from(text).to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn object_is_rendered_as_readable_yaml() {
        let object = json!({ "kind": "ConfigMap", "data": { "a": "1", "b": "x\ny\n", "on": "off" }, "list": [{ "name": "a", "ports": [80] }, "b"], "none": {} });
        let text = "kind: ConfigMap\ndata:\n  a: \"1\"\n  b: |\n    x\n    y\n  \"on\": \"off\"\nlist:\n  - name: a\n    ports:\n      - 80\n  - b\nnone: {}\n";
        assert_eq!(render_yaml(&object), text);
    }
}
