//! One GET of a part of a file: redirects by forge's own rules, and status codes as errors with hints.

use super::{FetchError, HttpUrl};
use crate::model::{ArtifactCredentials, ArtifactSource, SecretStore};
use base64::Engine as _;
use secrecy::{ExposeSecret, SecretString};
use std::io::Read;
use std::sync::Arc;
use std::time::Duration;
use ureq::http::header::{AUTHORIZATION, CONTENT_RANGE, LOCATION, RANGE};
use ureq::http::{HeaderValue, Response};
use ureq::tls::{Certificate, RootCerts, TlsConfig};
use ureq::{Agent, Body};

/// Maximum number of redirects.
const MAX_REDIRECTS: usize = 10;
/// Time limits for connecting, and for each wait for data.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(60);

/// An HTTP client. Cheap to clone.
#[derive(Clone, Debug)]
pub struct ArtifactHttpClient {
    agent: Agent,
}

/// A response body that starts at byte `from` of the file.
pub(super) struct RangeResponse {
    /// The final address after all redirects, without its query.
    pub address: HttpUrl,
    pub from: u64,
    /// The size of the whole file in bytes, if the server reports it.
    pub total: Option<u64>,
    pub body: Box<dyn Read + Send>,
}

impl ArtifactHttpClient {
    /// Trusts the certificate authorities of this machine: its certificate store, or `SSL_CERT_FILE`.
    pub fn new() -> Self {
        Self::with_tls_config(load_system_tls())
    }

    /// Trusts only these certificates.
    pub fn with_root_certificates(roots: Vec<Certificate<'static>>) -> Self {
        Self::with_tls_config(build_tls_config(roots))
    }

    fn with_tls_config(tls: TlsConfig) -> Self {
        let config = Agent::config_builder()
            .tls_config(tls)
            .http_status_as_error(false)
            // Redirects are followed in `get`: the library would follow one from https to http.
            .max_redirects(0)
            .max_redirects_will_error(false)
            .user_agent(concat!("forge/", env!("CARGO_PKG_VERSION")))
            .timeout_connect(Some(CONNECT_TIMEOUT))
            .timeout_recv_response(Some(RESPONSE_TIMEOUT))
            .timeout_per_read(Some(RESPONSE_TIMEOUT))
            .build();
        Self { agent: config.into() }
    }

    /// Requests a file from byte `from` on. The response may start earlier: see its own `from`.
    ///
    /// # Errors
    /// There is no response with a body.
    pub(super) fn get_range(
        &self,
        source: &ArtifactSource,
        secrets: &SecretStore,
        from: u64,
    ) -> Result<RangeResponse, FetchError> {
        let ArtifactSource::Url { address: first, login } = source else {
            return Err(FetchError::new(source, "not a URL"));
        };
        let credentials = build_authorization(login, secrets);
        let mut address = first.clone();
        for _ in 0..=MAX_REDIRECTS {
            let known = credentials.as_ref().filter(|_| address.has_same_origin(first));
            let response =
                self.send_request(&address, known, from).map_err(|error| connection_error(source, &error))?;
            match find_redirect_location(&response) {
                Some(next) => address = address.resolve_redirect(&next).map_err(|why| FetchError::new(source, why))?,
                None => return read_range_response(source, response, from, address.without_query()),
            }
        }
        Err(FetchError::new(source, format!("more than {MAX_REDIRECTS} redirects")))
    }

    fn send_request(
        &self,
        address: &HttpUrl,
        credentials: Option<&SecretString>,
        from: u64,
    ) -> Result<Response<Body>, ureq::Error> {
        let mut request = self.agent.get(address.to_string()).header("accept-encoding", "identity");
        if from > 0 {
            request = request.header(RANGE, format!("bytes={from}-"));
        }
        if let Some(credentials) = credentials {
            let mut value = HeaderValue::from_str(credentials.expose_secret()).map_err(ureq::http::Error::from)?;
            value.set_sensitive(true);
            request = request.header(AUTHORIZATION, value);
        }
        request.call()
    }
}

/// Trusts the certificate authorities of this machine: its certificate store, or `SSL_CERT_FILE`.
pub fn load_system_tls() -> TlsConfig {
    let found = rustls_native_certs::load_native_certs();
    build_tls_config(found.certs.iter().map(|der| Certificate::from_der(der).to_owned()).collect())
}

fn build_tls_config(roots: Vec<Certificate<'static>>) -> TlsConfig {
    TlsConfig::builder()
        .root_certs(RootCerts::Specific(Arc::new(roots)))
        .unversioned_rustls_crypto_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .build()
}

impl Default for ArtifactHttpClient {
    fn default() -> Self {
        Self::new()
    }
}

fn build_authorization(login: &ArtifactCredentials, secrets: &SecretStore) -> Option<SecretString> {
    match login {
        ArtifactCredentials::None => None,
        ArtifactCredentials::Basic { user, password } => {
            let pair = format!("{user}:{}", secrets.reveal_placeholders(password).expose_secret());
            let encoded = base64::engine::general_purpose::STANDARD.encode(pair);
            Some(SecretString::from(format!("Basic {encoded}")))
        }
        ArtifactCredentials::Bearer { token } => {
            Some(SecretString::from(format!("Bearer {}", secrets.reveal_placeholders(token).expose_secret())))
        }
    }
}

/// Returns the target of a redirect; `None` for any other response.
fn find_redirect_location(response: &Response<Body>) -> Option<String> {
    let redirects = matches!(response.status().as_u16(), 301 | 302 | 303 | 307 | 308);
    let value = redirects.then(|| response.headers().get(LOCATION))??;
    Some(value.to_str().unwrap_or_default().to_owned())
}

fn read_range_response(
    source: &ArtifactSource,
    response: Response<Body>,
    from: u64,
    address: HttpUrl,
) -> Result<RangeResponse, FetchError> {
    let status = response.status().as_u16();
    let length = response.body().content_length();
    let range =
        response.headers().get(CONTENT_RANGE).and_then(|value| value.to_str().ok()).and_then(parse_content_range);
    let body = |response: Response<Body>| Box::new(response.into_body().into_reader());
    match (status, range) {
        (200, _) => Ok(RangeResponse { address, from: 0, total: length, body: body(response) }),
        (206, Some((begins, total))) if begins == from => {
            Ok(RangeResponse { address, from, total, body: body(response) })
        }
        (206, _) => Err(FetchError::new(source, "the server sent another range than requested")),
        // The local part is as long as the file, or longer: start again.
        (416, _) if from > 0 => Ok(RangeResponse { address, from: 0, total: None, body: Box::new(std::io::empty()) }),
        _ => Err(http_status_error(source, status)),
    }
}

/// Parses `bytes 5-9/10`: the start, and the length of the whole file if it is known.
fn parse_content_range(text: &str) -> Option<(u64, Option<u64>)> {
    let (part, total) = text.strip_prefix("bytes ")?.split_once('/')?;
    Some((part.split_once('-')?.0.parse().ok()?, total.parse().ok()))
}

fn http_status_error(source: &ArtifactSource, status: u16) -> FetchError {
    let error = FetchError::new(source, format!("the server answered {status}{}", explain_http_status(status)));
    match status {
        401 | 403 => error.hint("set `user` and `password`, or `token`, if the server requires credentials"),
        404 | 410 => error.hint("check the address; a mirror may have moved on to a newer version"),
        408 | 425 | 429 | 500..=599 => error.mark_retryable(),
        _ => error,
    }
}

fn explain_http_status(status: u16) -> &'static str {
    match status {
        401 => " (unauthorized)",
        403 => " (forbidden)",
        404 => " (not found)",
        407 => " (proxy authentication required)",
        410 => " (gone)",
        429 => " (too many requests)",
        500..=599 => " (server error)",
        _ => "",
    }
}

/// Converts an error without a response: of the network, or TLS.
pub(super) fn connection_error(source: &ArtifactSource, error: &ureq::Error) -> FetchError {
    use ureq::Error;
    let failed = |why: String| FetchError::new(source, why);
    if let Some(why) = explain_tls_error(error) {
        return failed(why).hint(TLS_TRUST_HINT);
    }
    match error {
        Error::HostNotFound => failed("could not resolve the server's name".to_owned()).mark_retryable(),
        Error::Timeout(_) => failed("timed out".to_owned()).mark_retryable(),
        Error::ConnectionFailed => failed("could not connect to the server".to_owned()).mark_retryable(),
        Error::Io(error) => failed(error.to_string()).mark_retryable(),
        Error::Protocol(why) => failed(format!("the response is not valid HTTP: {why}")).mark_retryable(),
        other => failed(other.to_string()),
    }
}

/// The hint for an untrusted certificate.
pub const TLS_TRUST_HINT: &str = "the server's certificate must be signed by an authority that this machine trusts \
                         (`ca-certificates`, or the file of `SSL_CERT_FILE`)";

/// Returns the TLS error, if it is one. An untrusted certificate arrives as an I/O error.
pub fn explain_tls_error(error: &ureq::Error) -> Option<String> {
    let why = match error {
        ureq::Error::Tls(why) => (*why).to_owned(),
        ureq::Error::Rustls(why) => why.to_string(),
        ureq::Error::Io(error) => {
            let text = error.to_string();
            let at = text.find("invalid peer certificate").or_else(|| text.find("no root certificates"))?;
            text[at..].to_owned()
        }
        _ => return None,
    };
    Some(format!("TLS: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_ranges_are_parsed() {
        assert_eq!(parse_content_range("bytes 5-9/10"), Some((5, Some(10))));
        assert_eq!(parse_content_range("bytes 5-9/*"), Some((5, None)));
        assert_eq!((parse_content_range("bytes */10"), parse_content_range("5-9/10")), (None, None));
    }
}
