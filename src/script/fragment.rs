//! A piece of shell code with typed placeholders.

use crate::model::SecretStore;
use base64::Engine as _;
use secrecy::{ExposeSecret, SecretString};

/// A piece of a script. Code is `&'static str`, so that no value is ever inserted unquoted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ShellFragment {
    parts: Vec<FragmentPart>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum FragmentPart {
    Code(&'static str),
    Word(String),
    Data(Vec<u8>),
    Nested(ShellFragment),
}

/// The reason why a fragment cannot become a script.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum FragmentError {
    /// A word contains a NUL byte.
    #[error("a value contains a NUL byte, which an argument cannot contain")]
    Nul,
}

impl ShellFragment {
    /// Returns a fragment without any code.
    pub fn new() -> Self {
        Self::default()
    }

    /// Appends shell code that is part of forge.
    pub fn code(mut self, code: &'static str) -> Self {
        self.parts.push(FragmentPart::Code(code));
        self
    }

    /// Appends a value as one single-quoted word, preceded by a blank. Secrets in it are replaced when the script is
    /// rendered.
    pub fn word(mut self, value: impl Into<String>) -> Self {
        self.parts.push(FragmentPart::Word(value.into()));
        self
    }

    /// Appends a whole number as a word.
    pub fn number(self, value: u64) -> Self {
        self.word(value.to_string())
    }

    /// Appends bytes as one quoted word of base64, for `printf %s WORD | base64 -d`. Placeholders in
    /// UTF-8 data are replaced before encoding.
    pub fn data(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.parts.push(FragmentPart::Data(bytes.into()));
        self
    }

    /// Appends the start of a command that prints `bytes`: with the shell's own `printf` alone if they are plain text,
    /// which costs no process.
    pub fn print_bytes(self, bytes: &[u8]) -> Self {
        match std::str::from_utf8(bytes) {
            Ok(text) if is_plain_text(text) => self.code("printf %s").word(text),
            _ => self.code("printf %s").data(bytes).code(" | base64 -d"),
        }
    }

    /// Appends another fragment unchanged.
    pub fn append_fragment(mut self, other: ShellFragment) -> Self {
        self.parts.extend(other.parts);
        self
    }

    /// Appends another fragment as one single-quoted word (for `sh -c` and for bodies written to a file).
    pub fn nested_word(mut self, other: ShellFragment) -> Self {
        self.parts.push(FragmentPart::Nested(other));
        self
    }

    /// Reports whether nothing was appended yet.
    pub fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// Returns the size of its text in bytes, before secrets are replaced. An upper bound for nested fragments.
    pub fn rendered_size(&self) -> usize {
        let word = |text: &str| text.len() + 3 * text.matches('\'').count() + 3;
        let one = |part: &FragmentPart| match part {
            FragmentPart::Code(code) => code.len(),
            FragmentPart::Word(text) => word(text),
            FragmentPart::Data(bytes) => bytes.len().div_ceil(3) * 4 + 3,
            // Each quote becomes four bytes, and there are at most as many quotes as bytes.
            FragmentPart::Nested(inner) => 4 * inner.rendered_size() + 3,
        };
        self.parts.iter().map(one).sum()
    }

    /// Reports whether it contains a secret.
    pub fn has_secret(&self) -> bool {
        self.parts.iter().any(|part| match part {
            FragmentPart::Code(_) => false,
            FragmentPart::Word(word) => SecretStore::has_placeholder(word),
            FragmentPart::Data(bytes) => std::str::from_utf8(bytes).is_ok_and(SecretStore::has_placeholder),
            FragmentPart::Nested(inner) => inner.has_secret(),
        })
    }

    /// Returns the shell text with secrets replaced.
    ///
    /// # Errors
    /// A word contains a NUL byte, which an argument cannot contain.
    pub fn render(&self, secrets: &SecretStore) -> Result<SecretString, FragmentError> {
        let mut out = String::new();
        for part in &self.parts {
            match part {
                FragmentPart::Code(code) => out.push_str(code),
                FragmentPart::Word(word) => push_word(&mut out, secrets.reveal_placeholders(word).expose_secret())?,
                FragmentPart::Data(bytes) => push_word(&mut out, &encode_base64(bytes, secrets))?,
                FragmentPart::Nested(inner) => push_word(&mut out, inner.render(secrets)?.expose_secret())?,
            }
        }
        Ok(SecretString::from(out))
    }
}

/// Reports whether every shell prints this text unchanged, and as a word it is no longer than in base64. A secret may
/// contain anything.
fn is_plain_text(text: &str) -> bool {
    let plain = text.bytes().all(|byte| matches!(byte, b'\n' | b'\t' | b' '..=b'~'));
    plain && !SecretStore::has_placeholder(text) && 9 * text.matches('\'').count() <= text.len()
}

fn encode_base64(bytes: &[u8], secrets: &SecretStore) -> String {
    let engine = base64::engine::general_purpose::STANDARD;
    match std::str::from_utf8(bytes) {
        Ok(text) => engine.encode(secrets.reveal_placeholders(text).expose_secret()),
        Err(_) => engine.encode(bytes),
    }
}

/// Returns a word in POSIX single quotes, in which every byte but `'` is literal.
pub fn quote_word(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// Appends a blank and a quoted word.
fn push_word(out: &mut String, value: &str) -> Result<(), FragmentError> {
    if value.contains('\0') {
        return Err(FragmentError::Nul);
    }
    out.push(' ');
    out.push_str(&quote_word(value));
    Ok(())
}
