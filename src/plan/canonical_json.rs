//! Canonical forms and digests.

use crate::model::{Value, push_hex};
use serde::Serialize;
use sha2::{Digest, Sha256};

/// Returns `value` as JSON text with sorted keys and no whitespace: equal values have equal text.
pub fn to_canonical_json(value: &Value) -> String {
    let mut out = String::new();
    write_canonical(value, &mut out);
    out
}

/// Appends the canonical text of `value`.
pub(super) fn write_canonical(value: &Value, out: &mut String) {
    match value {
        Value::Array(items) => {
            out.push('[');
            for (i, item) in items.iter().enumerate() {
                write_separator(i, out);
                write_canonical(item, out);
            }
            out.push(']');
        }
        Value::Object(map) => {
            let mut keys: Vec<_> = map.iter().collect();
            keys.sort_by_key(|(key, _)| *key);
            out.push('{');
            for (i, (key, item)) in keys.into_iter().enumerate() {
                write_separator(i, out);
                write_text(key, out);
                out.push(':');
                write_canonical(item, out);
            }
            out.push('}');
        }
        Value::String(string) => write_text(string, out),
        scalar => out.push_str(&scalar.to_string()),
    }
}

fn write_text(text: &str, out: &mut String) {
    let escapes = |byte: u8| byte < 0x20 || matches!(byte, b'"' | b'\\');
    if text.bytes().any(escapes) {
        return out.push_str(&Value::from(text).to_string());
    }
    out.push('"');
    out.push_str(text);
    out.push('"');
}

fn write_separator(index: usize, out: &mut String) {
    if index > 0 {
        out.push(',');
    }
}

/// Returns `sha256:` and the lowercase hex digest of `text`.
pub fn digest_text(text: &str) -> String {
    format_digest(&Sha256::digest(text.as_bytes()))
}

/// Returns the digest of a value's JSON, keys in the order in which its type declares them. The text is never in memory
/// as a whole: for a plan of thousands of hosts it has hundreds of megabytes. The value must not contain a map whose
/// order may differ.
pub fn digest_json<T: Serialize>(value: &T) -> String {
    let mut sink = JsonDigestWriter(Sha256::new());
    // Text, numbers and lists always serialize, and writing to a digest never fails.
    let _ = serde_json::to_writer(std::io::BufWriter::with_capacity(1 << 16, &mut sink), value);
    format_digest(&sink.0.finalize())
}

struct JsonDigestWriter(Sha256);

impl std::io::Write for JsonDigestWriter {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

fn format_digest(digest: &[u8]) -> String {
    let mut out = String::with_capacity(7 + 2 * digest.len());
    out.push_str("sha256:");
    push_hex(&mut out, digest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn canonical_json_ignores_key_order() {
        assert_eq!(
            to_canonical_json(&json!({"b": [1, {"d": null, "c": "x\n", "ü\u{7f}": "\\\"é"}], "a": true})),
            "{\"a\":true,\"b\":[1,{\"c\":\"x\\n\",\"d\":null,\"ü\u{7f}\":\"\\\\\\\"é\"}]}"
        );
        assert_eq!(to_canonical_json(&json!({"a": 1, "b": 2})), to_canonical_json(&json!({"b": 2, "a": 1})));
    }

    #[test]
    fn digests_are_sha256() {
        assert_eq!(digest_json(&[1, 2]), digest_text("[1,2]"));
        assert_eq!(digest_text(""), "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    }
}
