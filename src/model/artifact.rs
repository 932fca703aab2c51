//! Files that steps need: their origin, credentials and digest.

use super::digest::Sha256Digest;
use super::http_url::HttpUrl;
use camino::{Utf8Path, Utf8PathBuf};

/// The origin of an artifact.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ArtifactSource {
    /// A file that a server offers.
    Url {
        /// The URL, without credentials.
        address: HttpUrl,
        /// What the server requires; sent only to the origin of `address`.
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
    pub fn lock_entry_name(&self, root: &Utf8Path) -> String {
        match self {
            Self::File(path) => path.strip_prefix(root).unwrap_or(path).to_string(),
            Self::Url { .. } => self.name(),
        }
    }
}

/// Credentials for a server. Placeholders stand for secrets.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ArtifactCredentials {
    /// The server requires none.
    #[default]
    None,
    /// HTTP basic authentication.
    Basic {
        /// The user name; not a secret.
        user: String,
        /// The password, usually the placeholder of a secret.
        password: String,
    },
    /// A token, sent as `Authorization: Bearer`.
    Bearer {
        /// The token, usually the placeholder of a secret.
        token: String,
    },
}

/// A file that a step needs.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Artifact {
    /// Where the file is fetched from.
    pub source: ArtifactSource,
    /// The declared SHA-256 that the file must have; the unknown digest if none is declared yet.
    pub sha256: Sha256Digest,
    /// Whether the host fetches it itself; otherwise the controller fetches and sends it.
    pub by_host: bool,
}
