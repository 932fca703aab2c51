//! SHA-256 digests of files.

use std::fmt;

/// The SHA-256 of a file: 64 lowercase hex digits.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Sha256Digest(String);

impl Sha256Digest {
    /// Parses 64 hex digits; `None` for anything else.
    pub fn parse(text: &str) -> Option<Self> {
        let whole = text.len() == 64 && text.bytes().all(|b| b.is_ascii_hexdigit());
        whole.then(|| Self(text.to_ascii_lowercase()))
    }

    /// Returns a placeholder for a digest that is not known yet: no file has it.
    pub fn unknown() -> Self {
        Self("0".repeat(64))
    }

    /// Reports whether this is the placeholder of [`unknown`](Self::unknown).
    pub fn is_unknown(&self) -> bool {
        self.0.bytes().all(|b| b == b'0')
    }

    /// Returns the digest of bytes that were hashed.
    pub(crate) fn from_hasher(hasher: sha2::Sha256) -> Self {
        use sha2::Digest;
        Self(hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
    }

    /// Returns all 64 lowercase hex digits.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the first digits, for display.
    pub fn short_hex(&self) -> &str {
        &self.0[..12]
    }
}

impl fmt::Display for Sha256Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}
