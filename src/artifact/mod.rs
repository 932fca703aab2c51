//! Artifacts: large files that steps need, by digest. Only this module decides what is fetched, from where and by whom.
//!
//! Architecture Invariants: nothing is used before its SHA-256 matches the declared one. A file in the cache was
//! checked against the digest in its name; a broken download is resumed, and checked as a whole. A redirect never
//! leaves https, and credentials are never sent to another origin. Of a redirect target, scheme, host and path are
//! stored and printed, never the query: a signature in it gives anyone access to the file.

mod cache;
mod error;
mod fetcher;
mod http;
mod http_url;
mod local_file;
mod lock_file;
#[cfg(test)]
#[path = "../../tests/common/server.rs"]
pub(crate) mod server;
#[cfg(test)]
mod tests;

pub use cache::{ArtifactCache, VerifiedFile};
pub use error::FetchError;
pub use fetcher::{ArtifactFetcher, DownloadProgressFn, FetchedArtifact, FetchedDigest};
pub use http::{ArtifactHttpClient, TLS_TRUST_HINT, explain_tls_error, load_system_tls};
pub use http_url::HttpUrl;
pub use lock_file::{ArtifactLockFile, LOCK_VERSION, LockFileError, lock_file_path};

use camino::Utf8PathBuf;
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

    pub fn is_unknown(&self) -> bool {
        self.0.bytes().all(|b| b == b'0')
    }

    /// Returns the digest of bytes that were hashed.
    pub(crate) fn from_hasher(hasher: sha2::Sha256) -> Self {
        use sha2::Digest;
        Self(hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
    }

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

/// The origin of an artifact.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ArtifactSource {
    Url {
        address: HttpUrl,
        login: ArtifactCredentials,
    },
    /// A file of the inventory's tree on the controller.
    File(Utf8PathBuf),
}

impl ArtifactSource {
    /// Returns its name in messages and in the lock file.
    pub fn name(&self) -> String {
        match self {
            Self::Url { address, .. } => address.to_string(),
            Self::File(path) => path.to_string(),
        }
    }

    /// Returns a name that does not depend on the location of the inventory's tree: the file name, without folders.
    pub fn short_name(&self) -> String {
        match self {
            Self::File(path) => path.file_name().unwrap_or(path.as_str()).to_owned(),
            Self::Url { .. } => self.name(),
        }
    }

    /// Returns its name in the lock file. Files are named relative to the inventory's tree, which may move.
    pub fn lock_entry_name(&self, root: &camino::Utf8Path) -> String {
        lock_file::lock_entry_name(self, root)
    }
}

/// Credentials for a server. Placeholders stand for secrets.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ArtifactCredentials {
    #[default]
    None,
    Basic {
        user: String,
        password: String,
    },
    Bearer {
        token: String,
    },
}

/// A file that a step needs.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Artifact {
    pub source: ArtifactSource,
    pub sha256: Sha256Digest,
    /// Whether the host fetches it itself; otherwise the controller fetches and sends it.
    pub by_host: bool,
}
