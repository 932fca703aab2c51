//! One POST of a small message: no redirect is followed, and no failure tells the address.

use super::answer::{Manner, short};
use super::{Again, Failed};
use crate::artifact::{Address, TRUST, distrust, trusted};
use secrecy::{ExposeSecret, SecretString};
use std::time::Duration;
use ureq::http::header::{AUTHORIZATION, CONTENT_TYPE, RETRY_AFTER};
use ureq::http::{HeaderValue, Response};
use ureq::{Agent, Body};

/// More of an answer is not read. Bytes.
const ANSWER: u64 = 64 << 10;
/// Parts of an address from this length on are taken for secrets of their own.
const TELLING: usize = 8;

/// A message for a server.
pub struct Post {
    pub url: SecretString,
    /// Sent as `Authorization: Bearer`.
    pub token: Option<SecretString>,
    /// JSON.
    pub body: String,
    pub manner: Manner,
    /// Whether it may go to a server without TLS that is not this machine: nothing in it is secret.
    pub open: bool,
}

impl Post {
    pub(super) async fn attempt(&self, limit: Duration) -> Result<(), Failed> {
        self.check().map_err(Failed::never)?;
        let (url, token, body) = (self.url.clone(), self.token.clone(), self.body.clone());
        let asked = tokio::task::spawn_blocking(move || ask(&url, token.as_ref(), body, limit)).await;
        let answered = asked.unwrap_or_else(|_| Err(Failed::never("the request broke off")));
        let (status, text) = answered.map_err(|failed| self.masked(failed))?;
        judge(status, &text, self.manner).map_err(|failed| self.masked(failed))
    }

    /// Whether the address is one that a secret may be sent to.
    fn check(&self) -> Result<(), String> {
        let address = Address::parse(self.url.expose_secret().trim()).map_err(|why| format!("its address {why}"))?;
        match self.open || address.is_https() || address.is_this_machine() {
            true => Ok(()),
            false => Err("its address is `http`, which would show the secret to everybody on the way".to_owned()),
        }
    }

    /// Returns a failure without the address and its parts, whatever a server put into its answer.
    fn masked(&self, failed: Failed) -> Failed {
        let url = self.url.expose_secret().trim();
        let parts = url.split(['/', '?', '&', '=', '#']).filter(|part| part.len() >= TELLING && !part.contains('.'));
        let token = self.token.as_ref().map(|token| token.expose_secret());
        let all = [url].into_iter().chain(token).chain(parts).filter(|part| !part.is_empty());
        let why = all.fold(failed.why, |why, part| why.replace(part, "(secret)"));
        Failed { why, ..failed }
    }
}

/// The status of an answer, how long the server wants to be left alone, and what it said.
type Answer = ((u16, Option<Duration>), String);

fn ask(url: &SecretString, token: Option<&SecretString>, body: String, limit: Duration) -> Result<Answer, Failed> {
    let mut request =
        agent(limit).post(url.expose_secret().trim()).header(CONTENT_TYPE, "application/json; charset=utf-8");
    if let Some(token) = token {
        let value = HeaderValue::from_str(&format!("Bearer {}", token.expose_secret()));
        let mut value = value.map_err(|_| Failed::never("its token holds what no header can carry"))?;
        value.set_sensitive(true);
        request = request.header(AUTHORIZATION, value);
    }
    let mut response = request.send(body).map_err(|error| broken(&error))?;
    let status = (response.status().as_u16(), retry_after(&response));
    let text = response.body_mut().with_config().limit(ANSWER).lossy_utf8(true).read_to_string();
    // An answer that breaks off, or is endless, is judged by its status, and by what is missing.
    Ok((status, text.unwrap_or_default()))
}

fn agent(limit: Duration) -> Agent {
    let config = Agent::config_builder()
        .tls_config(trusted())
        .http_status_as_error(false)
        // A message goes where it was addressed to, and nowhere else.
        .max_redirects(0)
        .max_redirects_will_error(false)
        .user_agent(concat!("forge/", env!("CARGO_PKG_VERSION")))
        .timeout_global(Some(limit))
        .build();
    config.into()
}

fn retry_after(response: &Response<Body>) -> Option<Duration> {
    response.headers().get(RETRY_AFTER)?.to_str().ok()?.trim().parse().ok().map(Duration::from_secs)
}

fn judge((status, after): (u16, Option<Duration>), body: &str, manner: Manner) -> Result<(), Failed> {
    let why = match short(body) {
        Some(text) => format!("the server answered {status}: {text}"),
        None => format!("the server answered {status}"),
    };
    match (status, after) {
        (200..=299, _) => manner.judge(body),
        (300..=399, _) => {
            Err(Failed::never(format!("the server answered {status}: it leads elsewhere, which is not followed")))
        }
        (408 | 425 | 429 | 500..=599, Some(after)) => {
            let why = format!("{why}, and asks to be left alone for {} s", after.as_secs());
            Err(Failed { why, again: Again::After(after) })
        }
        (408 | 425 | 429 | 500..=599, None) => Err(Failed::soon(why)),
        _ => Err(Failed::never(why)),
    }
}

/// Errors of the library may quote the address: each is told in forge's own words.
fn broken(error: &ureq::Error) -> Failed {
    use ureq::Error;
    if let Some(why) = distrust(error) {
        return Failed::never(format!("{why}: {TRUST}"));
    }
    match error {
        Error::HostNotFound => Failed::soon("the name of the server is not known"),
        Error::Timeout(_) => Failed::soon("the server did not answer in time"),
        Error::ConnectionFailed => Failed::soon("no connection to the server"),
        Error::Io(error) => Failed::soon(format!("no answer: {error}")),
        Error::Protocol(_) => Failed::soon("the answer is no HTTP"),
        _ => Failed::never("the request cannot be made"),
    }
}
