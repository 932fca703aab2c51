//! One GET of a part of a file: redirects by forge's own rules, and status codes as errors with hints.

use super::FetchError;
use super::http_client::{HttpFailure, TLS_TRUST_HINT, build_http_client, load_system_roots};
use crate::model::{ArtifactCredentials, ArtifactSource, HttpUrl, SecretStore};
use base64::Engine as _;
use reqwest::Response;
use reqwest::header::{ACCEPT_ENCODING, AUTHORIZATION, CONTENT_RANGE, HeaderValue, LOCATION, RANGE};
use rustls::pki_types::CertificateDer;
use secrecy::{ExposeSecret, SecretString};
use std::time::Duration;

/// Maximum number of redirects.
const MAX_REDIRECTS: usize = 10;
/// Time limits for connecting, and for each wait for data.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(60);

/// An HTTP client.
#[derive(Debug)]
pub struct ArtifactHttpClient {
    client: reqwest::Client,
}

/// A response body that starts at byte `from` of the file.
pub(super) struct RangeResponse {
    /// The final address after all redirects, without its query.
    pub address: HttpUrl,
    pub from: u64,
    /// The size of the whole file in bytes, if the server reports it.
    pub total: Option<u64>,
    /// `None` if it is empty.
    pub body: Option<Response>,
}

impl ArtifactHttpClient {
    /// Trusts the certificate authorities of this machine.
    ///
    /// # Errors
    /// TLS cannot be set up: the reason.
    pub fn new() -> Result<Self, String> {
        Self::with_root_certificates(load_system_roots())
    }

    /// Trusts only these certificate authorities.
    ///
    /// # Errors
    /// TLS cannot be set up: the reason.
    pub fn with_root_certificates(roots: Vec<CertificateDer<'static>>) -> Result<Self, String> {
        let client = build_http_client(roots, |it| it.connect_timeout(CONNECT_TIMEOUT).read_timeout(RESPONSE_TIMEOUT))?;
        Ok(Self { client })
    }

    /// Requests a file from byte `from` on. The response may start earlier: see its own `from`.
    ///
    /// # Errors
    /// There is no response with a body.
    pub(super) async fn get_range(
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
            let response = self.send_request(source, &address, known, from).await?;
            match find_redirect_location(&response) {
                Some(next) => address = address.resolve_redirect(&next).map_err(|why| FetchError::new(source, why))?,
                None => return read_range_response(source, response, from, address.without_query()),
            }
        }
        Err(FetchError::new(source, format!("more than {MAX_REDIRECTS} redirects")))
    }

    async fn send_request(
        &self,
        source: &ArtifactSource,
        address: &HttpUrl,
        credentials: Option<&SecretString>,
        from: u64,
    ) -> Result<Response, FetchError> {
        let mut request = self.client.get(address.to_string()).header(ACCEPT_ENCODING, "identity");
        if from > 0 {
            request = request.header(RANGE, format!("bytes={from}-"));
        }
        if let Some(credentials) = credentials {
            let value = HeaderValue::from_str(credentials.expose_secret());
            let mut value =
                value.map_err(|_| FetchError::new(source, "its credentials are not a valid HTTP header"))?;
            value.set_sensitive(true);
            request = request.header(AUTHORIZATION, value);
        }
        request.send().await.map_err(|error| connection_error(source, HttpFailure::classify(&error)))
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
fn find_redirect_location(response: &Response) -> Option<String> {
    let redirects = matches!(response.status().as_u16(), 301 | 302 | 303 | 307 | 308);
    let value = redirects.then(|| response.headers().get(LOCATION))??;
    Some(value.to_str().unwrap_or_default().to_owned())
}

fn read_range_response(
    source: &ArtifactSource,
    response: Response,
    from: u64,
    address: HttpUrl,
) -> Result<RangeResponse, FetchError> {
    let status = response.status().as_u16();
    let length = response.content_length();
    let range =
        response.headers().get(CONTENT_RANGE).and_then(|value| value.to_str().ok()).and_then(parse_content_range);
    match (status, range) {
        (200, _) => Ok(RangeResponse { address, from: 0, total: length, body: Some(response) }),
        (206, Some((begins, total))) if begins == from => {
            Ok(RangeResponse { address, from, total, body: Some(response) })
        }
        (206, _) => Err(FetchError::new(source, "the server sent another range than requested")),
        // The local part is as long as the file, or longer: start again.
        (416, _) if from > 0 => Ok(RangeResponse { address, from: 0, total: None, body: None }),
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

/// Converts a failure without a response: of the network, or TLS.
fn connection_error(source: &ArtifactSource, failure: HttpFailure) -> FetchError {
    let failed = |why: String| FetchError::new(source, why);
    match failure {
        HttpFailure::Untrusted(why) => failed(why).hint(TLS_TRUST_HINT),
        HttpFailure::UnknownHost => failed("could not resolve the server's name".to_owned()).mark_retryable(),
        HttpFailure::Timeout => failed("timed out".to_owned()).mark_retryable(),
        HttpFailure::Connect(why) => failed(format!("could not connect to the server: {why}")).mark_retryable(),
        HttpFailure::Io(why) => failed(why).mark_retryable(),
        HttpFailure::Closed => failed("the server closed the connection".to_owned()).mark_retryable(),
        HttpFailure::InvalidResponse(why) => failed(format!("the response is not valid HTTP: {why}")).mark_retryable(),
        HttpFailure::InvalidRequest(why) => failed(why),
    }
}

/// Explains why the rest of a response did not arrive.
pub(super) fn explain_broken_body(error: &reqwest::Error) -> String {
    match HttpFailure::classify(error) {
        HttpFailure::Timeout => "timed out".to_owned(),
        HttpFailure::Closed => "the server closed it".to_owned(),
        HttpFailure::UnknownHost => "could not resolve the server's name".to_owned(),
        HttpFailure::Untrusted(why)
        | HttpFailure::Io(why)
        | HttpFailure::Connect(why)
        | HttpFailure::InvalidResponse(why)
        | HttpFailure::InvalidRequest(why) => why,
    }
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
