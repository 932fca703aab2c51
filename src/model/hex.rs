//! Lowercase hex encoding.

const DIGITS: &[u8; 16] = b"0123456789abcdef";

/// Returns `bytes` in lowercase hex.
pub fn to_hex(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(2 * bytes.len());
    push_hex(&mut out, bytes);
    out
}

/// Appends `bytes` in lowercase hex. Uses a table, since a run encodes hundreds of thousands of digests and formatting
/// each byte takes many times as long.
pub fn push_hex(out: &mut String, bytes: &[u8]) {
    for byte in bytes {
        out.push(DIGITS[usize::from(byte >> 4)] as char);
        out.push(DIGITS[usize::from(byte & 15)] as char);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_is_formatted_as_two_digits() {
        let bytes: Vec<u8> = (0..=255).collect();
        let formatted: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(to_hex(&bytes), formatted);
    }
}
