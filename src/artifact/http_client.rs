//! The HTTP client of artifacts and notifications, and why a request failed. Errors never contain the address.

use rustls::pki_types::CertificateDer;
use rustls::{ClientConfig, RootCertStore};
use std::error::Error;
use std::io;
use std::sync::Arc;

/// The hint for an untrusted certificate.
pub const TLS_TRUST_HINT: &str = "the server's certificate must be signed by an authority that this machine trusts \
                         (`ca-certificates`, or the file of `SSL_CERT_FILE`)";

/// Loads the certificate authorities that this machine trusts: its certificate store, or `SSL_CERT_FILE`.
pub fn load_system_roots() -> Vec<CertificateDer<'static>> {
    rustls_native_certs::load_native_certs().certs
}

/// Builds a client that trusts `roots`, follows no redirects and uses the proxies of the environment.
///
/// # Errors
/// TLS cannot be set up: the reason.
pub fn build_http_client(
    roots: Vec<CertificateDer<'static>>,
    set_timeouts: impl FnOnce(reqwest::ClientBuilder) -> reqwest::ClientBuilder,
) -> Result<reqwest::Client, String> {
    let failed = |error: &dyn Error| format!("TLS cannot be set up: {error}");
    let tls = build_tls_config(roots).map_err(|error| failed(&error))?;
    let builder = reqwest::Client::builder()
        .tls_backend_preconfigured(tls)
        // Callers decide about redirects: the library would follow one from https to http.
        .redirect(reqwest::redirect::Policy::none())
        .user_agent(concat!("forge/", env!("CARGO_PKG_VERSION")));
    set_timeouts(builder).build().map_err(|error| failed(&error))
}

/// Names the crypto provider: without one, rustls uses a process-wide default, which forge does not set.
fn build_tls_config(roots: Vec<CertificateDer<'static>>) -> Result<ClientConfig, rustls::Error> {
    let mut store = RootCertStore::empty();
    // A machine's store may contain certificates that rustls cannot parse.
    store.add_parsable_certificates(roots);
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    Ok(builder.with_root_certificates(store).with_no_client_auth())
}

/// Why there is no complete response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HttpFailure {
    /// The certificate is not trusted: the reason, beginning with `TLS: `.
    Untrusted(String),
    /// The name cannot be resolved.
    UnknownHost,
    /// The server did not answer within the time limit of the client.
    Timeout,
    /// An error of the network, for example a refused connection.
    Io(String),
    /// There is no connection, for another reason: a proxy refuses it.
    Connect(String),
    /// The server closed the connection before the end of the response.
    Closed,
    /// The response is not valid HTTP.
    InvalidResponse(String),
    /// The request cannot be sent as it is.
    InvalidRequest(String),
}

impl HttpFailure {
    /// Classifies an error of the client. The text of the error itself contains the address and is not used.
    pub fn classify(error: &reqwest::Error) -> Self {
        if let Some(why) = explain_tls_error(error) {
            return Self::Untrusted(why);
        }
        if error.is_dns() {
            return Self::UnknownHost;
        }
        if error.is_timeout() {
            return Self::Timeout;
        }
        let root = error_chain(error).last().unwrap_or(error);
        if let Some(error) = root.downcast_ref::<hyper::Error>() {
            return match error.is_incomplete_message() || error.is_closed() || error.is_canceled() {
                true => Self::Closed,
                false => Self::InvalidResponse(error.to_string()),
            };
        }
        match root.downcast_ref::<io::Error>() {
            Some(error) => Self::Io(error.to_string()),
            None if root.is::<rustls::Error>() => Self::Io(root.to_string()),
            None if root.is::<reqwest::Error>() => Self::InvalidRequest("invalid request".to_owned()),
            None if error.is_builder() => Self::InvalidRequest(root.to_string()),
            None if error.is_connect() => Self::Connect(root.to_string()),
            None => Self::InvalidResponse(root.to_string()),
        }
    }
}

/// Returns the reason if the server's certificate is not trusted.
pub fn explain_tls_error(error: &(dyn Error + 'static)) -> Option<String> {
    let mut tls = error_chain(error).filter_map(|cause| cause.downcast_ref::<rustls::Error>());
    let why = tls.find(|why| matches!(why, rustls::Error::InvalidCertificate(_)))?;
    Some(format!("TLS: {why}"))
}

/// Returns an error and its causes, the innermost last.
pub fn error_chain<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(Some(error), |error| next_cause(*error))
}

/// Returns the direct cause of an error. An I/O error hides the error that it wraps from `source`.
fn next_cause<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a (dyn Error + 'static)> {
    match error.downcast_ref::<io::Error>().and_then(io::Error::get_ref) {
        Some(wrapped) => Some(wrapped),
        None => error.source(),
    }
}
