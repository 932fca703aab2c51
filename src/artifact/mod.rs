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
mod http_client;
mod local_file;
#[cfg(test)]
#[path = "../../tests/common/server.rs"]
pub(crate) mod server;
#[cfg(test)]
#[path = "../../tests/common/smtp_server.rs"]
pub(crate) mod smtp_server;
#[cfg(test)]
mod tests;

pub use cache::{ArtifactCache, VerifiedFile};
pub use error::FetchError;
pub use fetcher::{ArtifactFetcher, DownloadProgressFn, FetchedArtifact, FetchedDigest};
pub use http::ArtifactHttpClient;
pub use http_client::{
    HttpFailure, TLS_TRUST_HINT, build_http_client, error_chain, explain_tls_error, load_system_roots,
};
