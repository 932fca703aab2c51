//! Random tokens from the operating system.

use super::{TransportError, TransportErrorKind};
use crate::script::ScriptToken;

/// Returns a fresh token of 128 random bits.
///
/// # Errors
/// The operating system does not provide random bytes.
pub fn random_token() -> Result<ScriptToken, TransportError> {
    let mut bytes = [0u8; 16];
    getrandom::fill(&mut bytes).map_err(|error| {
        TransportError::new(TransportErrorKind::Controller, format!("cannot read random bytes: {error}"))
    })?;
    Ok(ScriptToken::new(bytes.map(|byte| format!("{byte:02x}")).concat()))
}

#[cfg(test)]
mod tests {
    #[test]
    fn tokens_are_32_hex_digits_and_differ() {
        let (a, b) = (super::random_token().unwrap(), super::random_token().unwrap());
        assert_eq!(a.as_str().len(), 32);
        assert!(a.as_str().bytes().all(|c| c.is_ascii_hexdigit()));
        assert_ne!(a, b);
    }
}
