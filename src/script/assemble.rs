//! A complete script: one function, called on its last line with a token.

use super::{FragmentError, ShellFragment};
use crate::model::SecretStore;
use secrecy::{ExposeSecret, SecretString};
use std::time::Duration;

/// Random text in frames and in the call line, so that neither a truncated script nor a program's output can be
/// mistaken for the real one. 32 lowercase hex digits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScriptToken(String);

impl ScriptToken {
    /// Builds from the text of the transport's random source (or a fixed one in tests).
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// Returns the 32 hex digits.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// How long a script may run, and what happens to one that runs longer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScriptLimit {
    /// The time.
    pub time: Duration,
    /// Whether the host ends the script then; otherwise the controller only stops waiting for it.
    pub stops: bool,
}

impl From<Duration> for ScriptLimit {
    fn from(time: Duration) -> Self {
        Self { time, stops: false }
    }
}

/// A script to send on the stdin of `sh`. Inside it, `$FORGE_T` is the token.
#[derive(Clone, Debug)]
pub struct ShellScript {
    /// The shell code, which runs inside a function.
    pub body: ShellFragment,
    /// The token of this script; each script has a new one.
    pub token: ScriptToken,
    /// The maximum time that the controller waits for the script to finish.
    pub limit: Duration,
}

impl ShellScript {
    /// Returns the text to send. Truncated at any byte, it runs nothing: the function is incomplete, or it is called
    /// without its token.
    ///
    /// # Errors
    /// A word contains a NUL byte.
    pub fn render_text(&self, secrets: &SecretStore) -> Result<SecretString, FragmentError> {
        let body = self.body.render(secrets)?;
        let token = self.token.as_str();
        Ok(SecretString::from(format!(
            "forge_main() {{\n[ \"${{1-}}\" = {token} ] || return 0\nexec </dev/null\nset -u\numask 077\n\
             LC_ALL=C TZ=UTC PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin FORGE_T={token}\n\
             export LC_ALL TZ PATH\nunset LANGUAGE TAR_OPTIONS POSIXLY_CORRECT\n{}\n}}\nforge_main {token}",
            body.expose_secret()
        )))
    }
}
