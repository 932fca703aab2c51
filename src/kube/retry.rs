//! Retries of requests while an API that has answered before is away for some seconds: it restarts, or its address moves to
//! another control host.
//!
//! A request that only reads is sent again after any failure of the connection. One that writes is sent again only if it was
//! certainly not received. An API that never answered is not waited for: its address may be wrong.

use ::kube::client::Body;
use ::kube::client::retry::RetryPolicy;
use http::{Method, Request, Response, StatusCode};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::time::{Instant, Sleep};
use tower::BoxError;
use tower::retry::Policy;

const FIRST_PAUSE: Duration = Duration::from_millis(250);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// What the requests to one API share.
#[derive(Debug, Default)]
pub(super) struct ApiAvailability {
    /// How long one request is retried.
    limit: Duration,
    answered: AtomicBool,
}

impl ApiAvailability {
    pub fn new(limit: Duration) -> Self {
        Self { limit, answered: AtomicBool::new(false) }
    }

    /// Returns how much longer than one attempt a request may take.
    pub fn retry_time(&self) -> Duration {
        if self.answered.load(Ordering::Relaxed) { self.limit } else { Duration::ZERO }
    }
}

/// The retries of one request; cloned for each.
#[derive(Clone)]
pub(super) struct ApiRetryPolicy {
    api: Arc<ApiAvailability>,
    until: Option<Instant>,
    pause: Duration,
}

impl ApiRetryPolicy {
    pub fn new(api: Arc<ApiAvailability>) -> Self {
        Self { api, until: None, pause: FIRST_PAUSE }
    }
}

impl<R> Policy<Request<Body>, Response<R>, BoxError> for ApiRetryPolicy {
    type Future = Sleep;

    fn retry(&mut self, request: &mut Request<Body>, result: &mut Result<Response<R>, BoxError>) -> Option<Sleep> {
        let reads = matches!(*request.method(), Method::GET | Method::HEAD);
        let again = match result {
            Ok(answer) => {
                let away = is_gateway_error(answer.status());
                self.api.answered.fetch_or(!away, Ordering::Relaxed);
                away && reads
            }
            Err(error) => reads || was_not_sent(&**error),
        };
        let now = Instant::now();
        let until = *self.until.get_or_insert(now + self.api.retry_time());
        if !again || now + self.pause > until {
            return None;
        }
        let pause = self.pause;
        self.pause = (pause * 2).min(LONGEST_PAUSE);
        Some(tokio::time::sleep(pause))
    }

    fn clone_request(&mut self, request: &Request<Body>) -> Option<Request<Body>> {
        Policy::<Request<Body>, Response<R>, BoxError>::clone_request(&mut RetryPolicy::default(), request)
    }
}

/// Reports whether a proxy answered for an API that it does not reach. 503 is not among them: the API itself answers so for
/// an extension that is away, perhaps for ever.
fn is_gateway_error(status: StatusCode) -> bool {
    matches!(status, StatusCode::BAD_GATEWAY | StatusCode::GATEWAY_TIMEOUT)
}

/// Reports whether no connection was made.
fn was_not_sent(error: &(dyn std::error::Error + 'static)) -> bool {
    use std::io::ErrorKind::{ConnectionRefused, HostUnreachable, NetworkUnreachable};
    let mut cause = Some(error);
    while let Some(error) = cause {
        if let Some(error) = error.downcast_ref::<std::io::Error>()
            && matches!(error.kind(), ConnectionRefused | HostUnreachable | NetworkUnreachable)
        {
            return true;
        }
        cause = error.source();
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(method: Method) -> Request<Body> {
        Request::builder().method(method).uri("/api").body(Body::empty()).unwrap()
    }

    fn refused() -> Result<Response<()>, BoxError> {
        Err(Box::new(std::io::Error::from(std::io::ErrorKind::ConnectionRefused)))
    }

    fn reset() -> Result<Response<()>, BoxError> {
        Err(Box::new(std::io::Error::from(std::io::ErrorKind::ConnectionReset)))
    }

    fn status(code: u16) -> Result<Response<()>, BoxError> {
        Ok(Response::builder().status(code).body(()).unwrap())
    }

    fn is_retried(policy: &ApiRetryPolicy, method: Method, mut result: Result<Response<()>, BoxError>) -> bool {
        policy.clone().retry(&mut request(method), &mut result).is_some()
    }

    #[tokio::test]
    async fn only_requests_that_cannot_act_twice_are_retried() {
        let policy = ApiRetryPolicy::new(Arc::new(ApiAvailability::new(Duration::from_secs(20))));
        assert!(!is_retried(&policy, Method::GET, refused()), "it has never answered");
        assert!(!is_retried(&policy, Method::GET, status(200)));
        assert!(is_retried(&policy, Method::GET, refused()));
        assert!(is_retried(&policy, Method::GET, reset()));
        assert!(is_retried(&policy, Method::GET, status(502)));
        assert!(is_retried(&policy, Method::PATCH, refused()));
        assert!(!is_retried(&policy, Method::PATCH, reset()), "it may have been received");
        assert!(!is_retried(&policy, Method::POST, status(504)));
        for code in [429, 500, 503] {
            assert!(!is_retried(&policy, Method::GET, status(code)), "{code}");
        }
    }

    #[tokio::test]
    async fn retries_end_at_the_limit() {
        let api = Arc::new(ApiAvailability::new(Duration::from_secs(1)));
        let mut policy = ApiRetryPolicy::new(api);
        assert!(!is_retried(&policy, Method::GET, status(200)));
        let mut tries = 0;
        while let Some(pause) = policy.retry(&mut request(Method::GET), &mut refused()) {
            pause.await;
            tries += 1;
        }
        assert_eq!(tries, 2, "250 ms, 500 ms; a third one would end after the limit");
    }

    /// An API whose second and third connection break before they answer.
    fn start_breaking_api() -> std::net::SocketAddr {
        use std::io::{Read, Write};
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        std::thread::spawn(move || {
            for (number, socket) in listener.incoming().flatten().enumerate() {
                if matches!(number, 1 | 2) {
                    continue;
                }
                let (mut socket, mut request) = (socket, [0; 4096]);
                let _ = socket.read(&mut request);
                let body = r#"{"major":"1","minor":"33","gitVersion":"v1.33.1","gitCommit":"","gitTreeState":"","buildDate":"","goVersion":"","compiler":"","platform":""}"#;
                let head =
                    format!("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\n", body.len());
                let _ = write!(socket, "{head}Connection: close\r\n\r\n{body}");
            }
        });
        address
    }

    #[tokio::test]
    async fn api_that_breaks_off_for_a_moment_is_asked_again() {
        let config = ::kube::Config::new(format!("http://{}", start_breaking_api()).parse().unwrap());
        let open = |seconds| {
            let mut config = config.clone();
            config.default_retry = false;
            super::super::cluster::build_client(config, &Arc::new(ApiAvailability::new(Duration::from_secs(seconds))))
        };
        let client = open(10).unwrap();
        for _ in 0..3 {
            assert_eq!(client.apiserver_version().await.unwrap().git_version, "v1.33.1");
        }
    }
}
