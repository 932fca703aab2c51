//! One GET of a part of a file: redirects followed by forge's own rules, statuses as what they mean.

use super::{Address, FetchError, Login, Source};
use crate::model::SecretStore;
use base64::Engine as _;
use secrecy::{ExposeSecret, SecretString};
use std::io::Read;
use std::sync::Arc;
use std::time::Duration;
use ureq::http::header::{AUTHORIZATION, CONTENT_RANGE, LOCATION, RANGE};
use ureq::http::{HeaderValue, Response};
use ureq::tls::{Certificate, RootCerts, TlsConfig};
use ureq::{Agent, Body};

/// Redirects that are followed at most.
const REDIRECTS: usize = 10;
/// How long a server may take to take a connection, and to say something.
const CONNECT: Duration = Duration::from_secs(30);
const SILENCE: Duration = Duration::from_secs(60);

/// Speaks HTTP. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Client {
    agent: Agent,
}

/// A body that begins at byte `from` of the file.
pub(super) struct Answer {
    /// Where it came from, once every redirect was followed, without its query.
    pub address: Address,
    pub from: u64,
    /// Bytes of the whole file, where the server says so.
    pub total: Option<u64>,
    pub body: Box<dyn Read + Send>,
}

impl Client {
    /// Trusts what this machine trusts: its store of certificates, or `SSL_CERT_FILE`.
    pub fn new() -> Self {
        Self::with(trusted())
    }

    /// Trusts these certificates, and no others.
    pub fn trusting(roots: Vec<Certificate<'static>>) -> Self {
        Self::with(trusting(roots))
    }

    fn with(tls: TlsConfig) -> Self {
        let config = Agent::config_builder()
            .tls_config(tls)
            .http_status_as_error(false)
            // Each step is judged here: the library's own would follow from https to http.
            .max_redirects(0)
            .max_redirects_will_error(false)
            .user_agent(concat!("forge/", env!("CARGO_PKG_VERSION")))
            .timeout_connect(Some(CONNECT))
            .timeout_recv_response(Some(SILENCE))
            .timeout_per_read(Some(SILENCE))
            .build();
        Self { agent: config.into() }
    }

    /// Asks for a file from byte `from` on. The answer may begin earlier: see its own `from`.
    ///
    /// # Errors
    /// No answer with a body.
    pub(super) fn get(&self, source: &Source, secrets: &SecretStore, from: u64) -> Result<Answer, FetchError> {
        let Source::Url { address: first, login } = source else {
            return Err(FetchError::new(source, "it is no URL"));
        };
        let credentials = authorization(login, secrets);
        let mut address = first.clone();
        for _ in 0..=REDIRECTS {
            let known = credentials.as_ref().filter(|_| address.shares_origin(first));
            let response = self.ask(&address, known, from).map_err(|error| broken(source, &error))?;
            match location(&response) {
                Some(next) => address = address.follow(&next).map_err(|why| FetchError::new(source, why))?,
                None => return answer(source, response, from, address.without_query()),
            }
        }
        Err(FetchError::new(source, format!("it is redirected more than {REDIRECTS} times")))
    }

    fn ask(
        &self,
        address: &Address,
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

/// Trusts what this machine trusts: its store of certificates, or `SSL_CERT_FILE`.
pub fn trusted() -> TlsConfig {
    let found = rustls_native_certs::load_native_certs();
    trusting(found.certs.iter().map(|der| Certificate::from_der(der).to_owned()).collect())
}

fn trusting(roots: Vec<Certificate<'static>>) -> TlsConfig {
    TlsConfig::builder()
        .root_certs(RootCerts::Specific(Arc::new(roots)))
        .unversioned_rustls_crypto_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .build()
}

impl Default for Client {
    fn default() -> Self {
        Self::new()
    }
}

fn authorization(login: &Login, secrets: &SecretStore) -> Option<SecretString> {
    match login {
        Login::None => None,
        Login::Basic { user, password } => {
            let pair = format!("{user}:{}", secrets.reveal(password).expose_secret());
            let encoded = base64::engine::general_purpose::STANDARD.encode(pair);
            Some(SecretString::from(format!("Basic {encoded}")))
        }
        Login::Bearer { token } => {
            Some(SecretString::from(format!("Bearer {}", secrets.reveal(token).expose_secret())))
        }
    }
}

/// Returns where a redirect leads, if it is one.
fn location(response: &Response<Body>) -> Option<String> {
    let redirects = matches!(response.status().as_u16(), 301 | 302 | 303 | 307 | 308);
    let value = redirects.then(|| response.headers().get(LOCATION))??;
    Some(value.to_str().unwrap_or_default().to_owned())
}

fn answer(source: &Source, response: Response<Body>, from: u64, address: Address) -> Result<Answer, FetchError> {
    let status = response.status().as_u16();
    let length = response.body().content_length();
    let range = response.headers().get(CONTENT_RANGE).and_then(|value| value.to_str().ok()).and_then(range);
    let body = |response: Response<Body>| Box::new(response.into_body().into_reader());
    match (status, range) {
        (200, _) => Ok(Answer { address, from: 0, total: length, body: body(response) }),
        (206, Some((begins, total))) if begins == from => Ok(Answer { address, from, total, body: body(response) }),
        (206, _) => Err(FetchError::new(source, "the server sent another part than it was asked for")),
        // What is here is as long as the file, or longer: begun anew.
        (416, _) if from > 0 => Ok(Answer { address, from: 0, total: None, body: Box::new(std::io::empty()) }),
        _ => Err(refused(source, status)),
    }
}

/// Reads `bytes 5-9/10`: where it begins, and the length of the whole where it is known.
fn range(text: &str) -> Option<(u64, Option<u64>)> {
    let (part, total) = text.strip_prefix("bytes ")?.split_once('/')?;
    Some((part.split_once('-')?.0.parse().ok()?, total.parse().ok()))
}

fn refused(source: &Source, status: u16) -> FetchError {
    let error = FetchError::new(source, format!("the server answered {status}{}", meaning(status)));
    match status {
        401 | 403 => error.hint("give `user` and `password`, or `token`, if the server wants to know who asks"),
        404 | 410 => error.hint("look whether the address still holds; a mirror may have moved on to a newer version"),
        408 | 425 | 429 | 500..=599 => error.passing(),
        _ => error,
    }
}

fn meaning(status: u16) -> &'static str {
    match status {
        401 => " (who asks is not known)",
        403 => " (forbidden)",
        404 => " (not found)",
        407 => " (a proxy wants to know who asks)",
        410 => " (gone)",
        429 => " (too many requests)",
        500..=599 => " (the server failed)",
        _ => "",
    }
}

/// Nothing came: the network, or TLS.
pub(super) fn broken(source: &Source, error: &ureq::Error) -> FetchError {
    use ureq::Error;
    let failed = |why: String| FetchError::new(source, why);
    if let Some(why) = distrust(error) {
        return failed(why).hint(TRUST);
    }
    match error {
        Error::HostNotFound => failed("the name of the server is not known".to_owned()).passing(),
        Error::Timeout(_) => failed("the server did not answer in time".to_owned()).passing(),
        Error::ConnectionFailed => failed("no connection to the server".to_owned()).passing(),
        Error::Io(error) => failed(error.to_string()).passing(),
        Error::Protocol(why) => failed(format!("the answer is no HTTP: {why}")).passing(),
        other => failed(other.to_string()),
    }
}

/// What there is to do where a certificate is not trusted.
pub const TRUST: &str = "the server's certificate must be signed by an authority that this machine trusts \
                         (`ca-certificates`, or the file of `SSL_CERT_FILE`)";

/// Returns why there is no TLS with a server, if that is it. A certificate that is not trusted comes as an error of I/O.
pub fn distrust(error: &ureq::Error) -> Option<String> {
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
    fn ranges_are_read() {
        assert_eq!(range("bytes 5-9/10"), Some((5, Some(10))));
        assert_eq!(range("bytes 5-9/*"), Some((5, None)));
        assert_eq!((range("bytes */10"), range("5-9/10")), (None, None));
    }
}
