//! A proxy between forge and the API that breaks one of the requests that change something.

use super::support::Cluster;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

/// What happens to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ApiFault {
    /// The connection ends before the API gets the request, and the API is away for two seconds.
    Gone,
    /// The API carries the request out, its answer is lost, and it is away for two seconds.
    AnswerLost,
    /// 409: another client has changed the object.
    Conflict,
    /// 429, with `Retry-After: 1`.
    TooMany,
    /// 500.
    ServerError,
    /// The request waits until the test has killed forge, and never arrives.
    Kill,
    /// Nothing is answered, locks for longer than the rest, and the requests of that time never arrive.
    Stalled,
}

/// Longer than a lock lasts that is not renewed, and than forge tries a request.
const STALL: Duration = Duration::from_secs(42);
/// The requests about locks are answered later: forge changes the cluster by what it knows then.
const LOCK_STALL: Duration = Duration::from_secs(75);

impl ApiFault {
    /// Those after which the next run ends as declared.
    pub const ALL: [Self; 6] =
        [Self::Gone, Self::AnswerLost, Self::Conflict, Self::TooMany, Self::ServerError, Self::Kill];

    /// Returns the head of the answer and its body, if forge gets one from the proxy.
    fn answer(self) -> Option<String> {
        let (status, reason, code) = match self {
            Self::Conflict => ("409 Conflict", "Conflict", 409),
            Self::TooMany => ("429 Too Many Requests", "TooManyRequests", 429),
            Self::ServerError => ("500 Internal Server Error", "InternalError", 500),
            _ => return None,
        };
        let body = format!(
            "{{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"metadata\":{{}},\"status\":\"Failure\",\
             \"message\":\"broken by the test\",\"reason\":\"{reason}\",\"code\":{code}}}"
        );
        Some(format!(
            "HTTP/1.1 {status}\r\nContent-Type: application/json\r\nRetry-After: 1\r\nConnection: close\r\n\
             Content-Length: {}\r\n\r\n{body}",
            body.len()
        ))
    }
}

#[derive(Default)]
struct ProxyState {
    /// The fault, and the number of the request that it breaks.
    armed: Option<(ApiFault, usize)>,
    /// The changing requests since the proxy was armed.
    changes: Vec<String>,
    is_reached: bool,
    is_released: bool,
    away_until: Option<Instant>,
    stalled_since: Option<Instant>,
    /// The changing requests that arrived after the fault.
    arrived: Vec<String>,
}

/// The proxy. Each connection carries one request.
pub struct FaultProxy {
    port: u16,
    state: Arc<(Mutex<ProxyState>, Condvar)>,
}

impl FaultProxy {
    pub fn start(api: &Cluster) -> FaultProxy {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let state: Arc<(Mutex<ProxyState>, Condvar)> = Arc::default();
        let (shared, upstream) = (state.clone(), api.proxy_socket().to_owned());
        std::thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let (shared, upstream) = (shared.clone(), upstream.clone());
                std::thread::spawn(move || serve(client, &shared, &upstream));
            }
        });
        FaultProxy { port, state }
    }

    /// Returns a kubeconfig with the context `test`.
    pub fn kubeconfig(&self) -> String {
        format!(
            "apiVersion: v1\nkind: Config\nclusters: [{{ name: c, cluster: {{ server: 'http://127.0.0.1:{}' }} }}]\n\
             users: [{{ name: u, user: {{}} }}]\ncontexts: [{{ name: test, context: {{ cluster: c, user: u }} }}]\n",
            self.port
        )
    }

    /// Counts changing requests from now on, and breaks the one with this number, the first of them being 0.
    pub fn arm(&self, fault: Option<(ApiFault, usize)>) {
        *self.state.0.lock().expect("a lock") = ProxyState { armed: fault, ..ProxyState::default() };
    }

    /// Returns the changing requests since the proxy was armed.
    pub fn changes(&self) -> Vec<String> {
        self.state.0.lock().expect("a lock").changes.clone()
    }

    /// Returns the changing requests that the API got after the fault.
    pub fn arrived(&self) -> Vec<String> {
        self.state.0.lock().expect("a lock").arrived.clone()
    }

    pub fn is_reached(&self) -> bool {
        self.state.0.lock().expect("a lock").is_reached
    }

    /// Lets the request of [`ApiFault::Kill`] end.
    pub fn release(&self) {
        self.state.0.lock().expect("a lock").is_released = true;
        self.state.1.notify_all();
    }
}

/// Whether a request changes the cluster. Locks are renewed at any time.
fn is_change(method: &str, path: &str) -> bool {
    let reads = ["dryRun=", "/leases", "accessreviews", "selfsubject"];
    matches!(method, "POST" | "PUT" | "PATCH" | "DELETE") && !reads.iter().any(|part| path.contains(part))
}

fn serve(client: TcpStream, shared: &(Mutex<ProxyState>, Condvar), upstream: &PathBuf) {
    let mut reader = BufReader::new(client.try_clone().expect("a stream"));
    let Some((method, path, request)) = read_request(&mut reader) else { return };
    let (fault, stalled_until) = {
        let mut state = shared.0.lock().expect("a lock");
        if state.away_until.is_some_and(|until| Instant::now() < until) {
            return;
        }
        let number = state.changes.len();
        if is_change(&method, &path) {
            state.changes.push(format!("{method} {path}"));
        }
        let is_due = |(_, at): &(ApiFault, usize)| is_change(&method, &path) && *at == number;
        let fault = state.armed.filter(is_due).map(|(fault, _)| fault);
        if let Some(fault) = fault {
            state.is_reached = true;
            if matches!(fault, ApiFault::Gone | ApiFault::AnswerLost) {
                state.away_until = Some(Instant::now() + Duration::from_secs(2));
            }
            if fault == ApiFault::Stalled {
                state.stalled_since = Some(Instant::now());
            }
        }
        let stall = if path.contains("/leases") { LOCK_STALL } else { STALL };
        let stalled_until = state.stalled_since.map(|since| since + stall).filter(|until| Instant::now() < *until);
        if state.is_reached && stalled_until.is_none() && is_change(&method, &path) {
            state.arrived.push(format!("{method} {path}"));
        }
        (fault, stalled_until)
    };
    if let Some(until) = stalled_until {
        return std::thread::sleep(until.saturating_duration_since(Instant::now()));
    }
    let mut client = client;
    if let Some(answer) = fault.and_then(ApiFault::answer) {
        let _ = client.write_all(answer.as_bytes());
        return;
    }
    match fault {
        Some(ApiFault::Gone) => return,
        Some(ApiFault::Kill) => {
            let state = shared.0.lock().expect("a lock");
            drop(shared.1.wait_while(state, |state| !state.is_released));
            return;
        }
        _ => {}
    }
    let Ok(mut behind) = UnixStream::connect(upstream) else { return };
    if behind.write_all(&request).is_err() {
        return;
    }
    if fault == Some(ApiFault::AnswerLost) {
        let _ = behind.read_to_end(&mut Vec::new());
        return;
    }
    let _ = std::io::copy(&mut behind, &mut client);
}

/// Reads a request, and returns it for a connection that ends after the answer.
fn read_request(reader: &mut BufReader<TcpStream>) -> Option<(String, String, Vec<u8>)> {
    let mut first = String::new();
    reader.read_line(&mut first).ok().filter(|read| *read > 0)?;
    let (method, rest) = first.split_once(' ')?;
    let (path, _) = rest.split_once(' ')?;
    let (mut head, mut length, mut is_chunked) = (first.clone(), 0, false);
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        let lower = line.to_ascii_lowercase();
        if line.trim().is_empty() {
            break;
        }
        if let Some(value) = lower.strip_prefix("content-length:") {
            length = value.trim().parse().ok()?;
        }
        is_chunked |= lower.starts_with("transfer-encoding:") && lower.contains("chunked");
        if !lower.starts_with("connection:") {
            head += &line;
        }
    }
    let mut request = (head + "Connection: close\r\n\r\n").into_bytes();
    if is_chunked {
        while !request.ends_with(b"\r\n0\r\n\r\n") {
            let mut byte = [0];
            reader.read_exact(&mut byte).ok()?;
            request.push(byte[0]);
        }
    } else {
        let mut body = vec![0; length];
        reader.read_exact(&mut body).ok()?;
        request.extend(body);
    }
    Some((method.to_owned(), path.to_owned(), request))
}
