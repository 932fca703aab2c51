//! One POST of a small message. Redirects are not followed, and error messages do not contain the address.

use super::attempt::{DeliveryAttemptError, RetryAdvice};
use super::response::{ResponseFormat, excerpt_body};
use crate::artifact::{TLS_TRUST_HINT, explain_tls_error, load_system_tls};
use crate::model::HttpUrl;
use secrecy::{ExposeSecret, SecretString};
use std::time::Duration;
use ureq::http::header::{AUTHORIZATION, CONTENT_TYPE, RETRY_AFTER};
use ureq::http::{HeaderValue, Response};
use ureq::{Agent, Body};

/// Maximum size of a response body that is read. Bytes.
const MAX_ANSWER_BYTES: u64 = 64 << 10;
/// Parts of an address with at least this length are treated as secrets.
const MIN_SECRET_CHARS: usize = 8;

/// A message to a server.
pub struct HttpMessage {
    pub url: SecretString,
    /// Sent as `Authorization: Bearer`.
    pub token: Option<SecretString>,
    /// JSON.
    pub body: String,
    pub manner: ResponseFormat,
    /// Whether it may be sent without TLS to another machine, because nothing in it is secret.
    pub open: bool,
}

impl HttpMessage {
    pub(super) async fn try_deliver(&self, limit: Duration) -> Result<(), DeliveryAttemptError> {
        self.check_address().map_err(DeliveryAttemptError::permanent)?;
        let (url, token, body) = (self.url.clone(), self.token.clone(), self.body.clone());
        let asked = tokio::task::spawn_blocking(move || send_request(&url, token.as_ref(), body, limit)).await;
        let answered = asked.unwrap_or_else(|_| Err(DeliveryAttemptError::permanent("the request was aborted")));
        let (status, text) = answered.map_err(|failed| self.mask_address(failed))?;
        check_response(status, &text, self.manner).map_err(|failed| self.mask_address(failed))
    }

    /// Checks that secrets may be sent to the address.
    fn check_address(&self) -> Result<(), String> {
        let address = HttpUrl::parse(self.url.expose_secret().trim()).map_err(|why| format!("its address {why}"))?;
        match self.open || address.is_https() || address.is_loopback() {
            true => Ok(()),
            false => Err("its address uses `http`, which would expose the secret".to_owned()),
        }
    }

    /// Masks the address, its parts and the token in a failure, because the response may contain them.
    fn mask_address(&self, failed: DeliveryAttemptError) -> DeliveryAttemptError {
        let url = self.url.expose_secret().trim();
        let parts =
            url.split(['/', '?', '&', '=', '#']).filter(|part| part.len() >= MIN_SECRET_CHARS && !part.contains('.'));
        let token = self.token.as_ref().map(|token| token.expose_secret());
        let all = [url].into_iter().chain(token).chain(parts).filter(|part| !part.is_empty());
        let why = all.fold(failed.why, |why, part| why.replace(part, "(secret)"));
        DeliveryAttemptError { why, ..failed }
    }
}

/// The status of a response, its `Retry-After` and its body.
type HttpAnswer = ((u16, Option<Duration>), String);

fn send_request(
    url: &SecretString,
    token: Option<&SecretString>,
    body: String,
    limit: Duration,
) -> Result<HttpAnswer, DeliveryAttemptError> {
    let mut request =
        build_agent(limit).post(url.expose_secret().trim()).header(CONTENT_TYPE, "application/json; charset=utf-8");
    if let Some(token) = token {
        let value = HeaderValue::from_str(&format!("Bearer {}", token.expose_secret()));
        let mut value =
            value.map_err(|_| DeliveryAttemptError::permanent("its token is not a valid HTTP header value"))?;
        value.set_sensitive(true);
        request = request.header(AUTHORIZATION, value);
    }
    let mut response = request.send(body).map_err(|error| describe_transport_error(&error))?;
    let status = (response.status().as_u16(), parse_retry_after(&response));
    let text = response.body_mut().with_config().limit(MAX_ANSWER_BYTES).lossy_utf8(true).read_to_string();
    // A truncated or too long response is evaluated by its status and without the body.
    Ok((status, text.unwrap_or_default()))
}

fn build_agent(limit: Duration) -> Agent {
    let config = Agent::config_builder()
        .tls_config(load_system_tls())
        .http_status_as_error(false)
        // A message is only sent to its configured address.
        .max_redirects(0)
        .max_redirects_will_error(false)
        .user_agent(concat!("forge/", env!("CARGO_PKG_VERSION")))
        .timeout_global(Some(limit))
        .build();
    config.into()
}

fn parse_retry_after(response: &Response<Body>) -> Option<Duration> {
    response.headers().get(RETRY_AFTER)?.to_str().ok()?.trim().parse().ok().map(Duration::from_secs)
}

fn check_response(
    (status, after): (u16, Option<Duration>),
    body: &str,
    manner: ResponseFormat,
) -> Result<(), DeliveryAttemptError> {
    let why = match excerpt_body(body) {
        Some(text) => format!("the server answered {status}: {text}"),
        None => format!("the server answered {status}"),
    };
    match (status, after) {
        (200..=299, _) => manner.check_body(body),
        (300..=399, _) => {
            Err(DeliveryAttemptError::permanent(format!("the server answered {status}: redirects are not followed")))
        }
        (408 | 425 | 429 | 500..=599, Some(after)) => {
            let why = format!("{why}, retry after {} s", after.as_secs());
            Err(DeliveryAttemptError { why, again: RetryAdvice::After(after) })
        }
        (408 | 425 | 429 | 500..=599, None) => Err(DeliveryAttemptError::retryable(why)),
        _ => Err(DeliveryAttemptError::permanent(why)),
    }
}

/// Converts a library error. Does not use its text, which may contain the address.
fn describe_transport_error(error: &ureq::Error) -> DeliveryAttemptError {
    use ureq::Error;
    if let Some(why) = explain_tls_error(error) {
        return DeliveryAttemptError::permanent(format!("{why}: {TLS_TRUST_HINT}"));
    }
    match error {
        Error::HostNotFound => DeliveryAttemptError::retryable("server name not found"),
        Error::Timeout(_) => DeliveryAttemptError::retryable("the request timed out"),
        Error::ConnectionFailed => DeliveryAttemptError::retryable("connection to the server failed"),
        Error::Io(error) => DeliveryAttemptError::retryable(format!("no response: {error}")),
        Error::Protocol(_) => DeliveryAttemptError::retryable("invalid HTTP response"),
        _ => DeliveryAttemptError::permanent("invalid request"),
    }
}
