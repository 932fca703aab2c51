//! The declaration of an apt repository.

use crate::probe::Probe;
use crate::resource::shared::file_target::{FileBody, FileTarget};

#[derive(Debug)]
pub(in crate::resource::packages) struct AptRepositoryResource {
    pub(in crate::resource::packages) name: String,
    pub(super) what: AptSourceSpec,
    pub(super) sources: FileTarget,
    /// The key that forge installs.
    pub(in crate::resource::packages) keyring: Option<FileTarget>,
    /// The existing key on the host.
    pub(in crate::resource::packages) key_path: Option<String>,
    pub(in crate::resource::packages) fingerprints: Option<Vec<String>>,
    pub(super) lock_timeout: u64,
    pub(super) absent: bool,
}

/// Content of the source file, without its key.
#[derive(Debug, Default)]
pub(in crate::resource::packages) struct AptSourceSpec {
    pub(super) uris: Vec<String>,
    pub(super) suites: Vec<String>,
    pub(super) components: Vec<String>,
    pub(super) architectures: Vec<String>,
    pub(super) types: Vec<String>,
    pub(super) trusted: bool,
}

pub(in crate::resource::packages) fn root_file_target(path: String, body: impl Into<Vec<u8>>) -> FileTarget {
    FileTarget { path, body: FileBody::new(body), owner: "root".to_owned(), group: "root".to_owned(), mode: 0o644 }
}

impl AptSourceSpec {
    /// Renders the source file.
    pub(super) fn render_source(&self, signed_by: Option<&str>) -> String {
        let mut text = "# Written by forge.\n".to_owned();
        let mut line = |field: &str, words: &[String]| {
            if !words.is_empty() {
                text.push_str(&format!("{field}: {}\n", words.join(" ")));
            }
        };
        line("Types", &self.types);
        line("URIs", &self.uris);
        line("Suites", &self.suites);
        line("Components", &self.components);
        line("Architectures", &self.architectures);
        line("Signed-By", signed_by.map(str::to_owned).as_slice());
        line("Trusted", self.trusted.then(|| "yes".to_owned()).as_slice());
        text
    }
}

impl AptRepositoryResource {
    pub(super) fn signed_by(&self) -> Option<&str> {
        self.keyring.as_ref().map(|key| key.path.as_str()).or(self.key_path.as_deref())
    }

    /// Returns the files that a removal deletes; the key may have either extension.
    pub(super) fn removal_targets(&self) -> Vec<FileTarget> {
        let keys = ["asc", "gpg"].map(|ends| root_file_target(format!("/etc/apt/keyrings/{}.{ends}", self.name), ""));
        let mut all = vec![root_file_target(self.sources.path.clone(), "")];
        all.extend(keys);
        all
    }

    pub(super) fn key_probe(&self) -> Option<Probe> {
        self.key_path.as_ref().map(|path| Probe::Key { path: path.clone() })
    }
}
