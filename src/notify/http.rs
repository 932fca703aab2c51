//! One POST of a small message. Redirects are not followed, and error messages do not contain the address.

use super::attempt::{DeliveryAttemptError, RetryAdvice};
use super::response::{ResponseFormat, excerpt_body};
use crate::artifact::{HttpFailure, TLS_TRUST_HINT, build_http_client, load_system_roots};
use crate::model::HttpUrl;
use reqwest::Response;
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use secrecy::{ExposeSecret, SecretString};
use std::time::Duration;

/// Maximum size of a response body that is read. Bytes.
const MAX_ANSWER_BYTES: usize = 64 << 10;
/// Parts of an address with at least this length are treated as secrets.
const MIN_SECRET_CHARS: usize = 8;

/// A message to a server.
pub struct HttpMessage {
    /// The address of the service. It is a secret, because it often contains a token.
    pub url: SecretString,
    /// Sent as `Authorization: Bearer`.
    pub token: Option<SecretString>,
    /// JSON.
    pub body: String,
    /// How the service confirms that it accepted the message.
    pub manner: ResponseFormat,
    /// Whether it may be sent without TLS to another machine, because nothing in it is secret.
    pub open: bool,
}

impl HttpMessage {
    pub(super) async fn try_deliver(&self, limit: Duration) -> Result<(), DeliveryAttemptError> {
        self.check_address().map_err(DeliveryAttemptError::permanent)?;
        let answered = self.send_request(limit).await;
        let (status, text) = answered.map_err(|failed| self.mask_address(failed))?;
        check_response(status, &text, self.manner).map_err(|failed| self.mask_address(failed))
    }

    async fn send_request(&self, limit: Duration) -> Result<HttpAnswer, DeliveryAttemptError> {
        // A message is only sent to its configured address: the client follows no redirect.
        let client = build_http_client(load_system_roots(), |it| it.timeout(limit));
        let client = client.map_err(DeliveryAttemptError::permanent)?;
        let mut request = client
            .post(self.url.expose_secret().trim())
            .header(CONTENT_TYPE, "application/json; charset=utf-8")
            .body(self.body.clone());
        if let Some(token) = &self.token {
            let value = HeaderValue::from_str(&format!("Bearer {}", token.expose_secret()));
            let mut value =
                value.map_err(|_| DeliveryAttemptError::permanent("its token is not a valid HTTP header value"))?;
            value.set_sensitive(true);
            request = request.header(AUTHORIZATION, value);
        }
        let response = request.send().await.map_err(|error| describe_transport_error(HttpFailure::classify(&error)))?;
        let status = (response.status().as_u16(), parse_retry_after(&response));
        Ok((status, read_body(response).await))
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

/// Reads a response body. A truncated or too long response is evaluated by its status and without the body.
async fn read_body(mut response: Response) -> String {
    let mut body = Vec::new();
    loop {
        match response.chunk().await {
            Ok(None) => return String::from_utf8_lossy(&body).into_owned(),
            Ok(Some(chunk)) if body.len() + chunk.len() <= MAX_ANSWER_BYTES => body.extend_from_slice(&chunk),
            Ok(Some(_)) | Err(_) => return String::new(),
        }
    }
}

fn parse_retry_after(response: &Response) -> Option<Duration> {
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

fn describe_transport_error(failure: HttpFailure) -> DeliveryAttemptError {
    match failure {
        HttpFailure::Untrusted(why) => DeliveryAttemptError::permanent(format!("{why}: {TLS_TRUST_HINT}")),
        HttpFailure::UnknownHost => DeliveryAttemptError::retryable("server name not found"),
        HttpFailure::Timeout => DeliveryAttemptError::retryable("the request timed out"),
        HttpFailure::Connect(_) => DeliveryAttemptError::retryable("connection to the server failed"),
        HttpFailure::Io(why) => DeliveryAttemptError::retryable(format!("no response: {why}")),
        HttpFailure::Closed => DeliveryAttemptError::retryable("no response: the server closed the connection"),
        HttpFailure::InvalidResponse(_) => DeliveryAttemptError::retryable("invalid HTTP response"),
        HttpFailure::InvalidRequest(_) => DeliveryAttemptError::permanent("invalid request"),
    }
}
