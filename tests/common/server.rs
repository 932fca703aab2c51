//! A small HTTP server for tests: it sends the test's replies, records the requests, and can close a connection early.

#![allow(dead_code, clippy::unwrap_used, reason = "not every test uses everything, and a panic fails the test")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

/// A connection: a socket, or TLS on a socket.
pub trait Stream: Read + Write + Send {}

impl<T: Read + Write + Send> Stream for T {}

/// Wraps an accepted socket.
pub type Wrap = Arc<dyn Fn(TcpStream) -> Box<dyn Stream> + Send + Sync>;

/// A received request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Request {
    pub path: String,
    /// The byte that `Range: bytes=N-` names.
    pub from: Option<usize>,
    pub authorization: Option<String>,
    pub method: String,
    /// The body, if the request has a `Content-Length`.
    pub body: String,
}

/// A reply.
#[derive(Clone, Debug, Default)]
pub struct Reply {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
    /// Number of bytes of the body after which the server closes the connection.
    pub cut: Option<usize>,
    /// Whether the connection stays open after the body, for longer than any test runs.
    pub hold: bool,
}

impl Reply {
    pub fn status(status: u16) -> Self {
        Self { status, ..Self::default() }
    }

    pub fn redirect(location: &str) -> Self {
        Self { headers: vec![("Location".to_owned(), location.to_owned())], ..Self::status(302) }
    }

    /// Returns a reply with a file, or with the requested part of it.
    pub fn file(body: &[u8], request: &Request) -> Self {
        match request.from {
            None => Self { body: body.to_vec(), ..Self::status(200) },
            Some(from) if from >= body.len() => Self::status(416),
            Some(from) => {
                let range = format!("bytes {from}-{}/{}", body.len() - 1, body.len());
                let headers = vec![("Content-Range".to_owned(), range)];
                Self { headers, body: body[from..].to_vec(), ..Self::status(206) }
            }
        }
    }

    pub fn cut(self, after: usize) -> Self {
        Self { cut: Some(after), ..self }
    }
}

/// A server that lives as long as the test's process.
pub struct Server {
    pub address: SocketAddr,
    asked: Arc<Mutex<Vec<Request>>>,
}

impl Server {
    /// Starts a server on 127.0.0.1.
    pub fn start(answer: impl Fn(&Request) -> Reply + Send + Sync + 'static) -> Self {
        Self::start_on("127.0.0.1:0", Arc::new(|socket| Box::new(socket)), answer)
    }

    /// Starts a server with TLS, with a certificate for 127.0.0.1 that the tests' own authority signed.
    pub fn secure(answer: impl Fn(&Request) -> Reply + Send + Sync + 'static) -> Self {
        Self::start_on("127.0.0.1:0", Self::tls_wrap(), answer)
    }

    /// Wraps a socket in TLS, with a certificate for 127.0.0.1 that the tests' own authority signed.
    pub fn tls_wrap() -> Wrap {
        use rustls::pki_types::pem::PemObject;
        use rustls::pki_types::{CertificateDer, PrivateKeyDer};
        let chain = vec![CertificateDer::from_pem_slice(include_bytes!("tls/server.pem")).unwrap()];
        let key = PrivateKeyDer::from_pem_slice(include_bytes!("tls/server.key")).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config =
            rustls::ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
        let config = Arc::new(config.with_no_client_auth().with_single_cert(chain, key).unwrap());
        Arc::new(move |socket| {
            let connection = rustls::ServerConnection::new(config.clone()).unwrap();
            Box::new(rustls::StreamOwned::new(connection, socket))
        })
    }

    pub fn start_on(address: &str, wrap: Wrap, answer: impl Fn(&Request) -> Reply + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind(address).unwrap();
        let (address, asked) = (listener.local_addr().unwrap(), Arc::new(Mutex::new(Vec::new())));
        let (answer, noted) = (Arc::new(answer), asked.clone());
        std::thread::spawn(move || {
            for socket in listener.incoming().flatten() {
                let (answer, noted, wrap) = (answer.clone(), noted.clone(), wrap.clone());
                std::thread::spawn(move || talk(wrap(socket), &noted, answer.as_ref()));
            }
        });
        Self { address, asked }
    }

    /// Returns the URL of a path over TLS. It has the address: a bare machine may have no `localhost` in `/etc/hosts`.
    pub fn secure_url(&self, path: &str) -> String {
        format!("https://{}{path}", self.address)
    }

    /// Returns the URL of a path.
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// Returns the requests so far.
    pub fn asked(&self) -> Vec<Request> {
        self.asked.lock().unwrap().clone()
    }
}

fn talk(stream: Box<dyn Stream>, noted: &Mutex<Vec<Request>>, answer: &dyn Fn(&Request) -> Reply) {
    let mut stream = BufReader::new(stream);
    let mut line = String::new();
    // A client that closes the connection, or does not trust the certificate, sends no request.
    if !stream.read_line(&mut line).is_ok_and(|count| count > 0) {
        return;
    }
    let word = |at: usize| line.split(' ').nth(at).unwrap_or_default().to_owned();
    let mut request = Request { path: word(1), method: word(0), ..Request::default() };
    let mut length = 0;
    loop {
        let mut line = String::new();
        if stream.read_line(&mut line).is_err() || line.trim().is_empty() {
            break;
        }
        let (name, value) = line.trim().split_once(':').unwrap_or_default();
        match name.to_ascii_lowercase().as_str() {
            "range" => {
                request.from = value.trim().strip_prefix("bytes=").and_then(|v| v.strip_suffix('-')?.parse().ok())
            }
            "content-length" => length = value.trim().parse().unwrap_or_default(),
            "authorization" => request.authorization = Some(value.trim().to_owned()),
            _ => {}
        }
    }
    let mut body = vec![0; length];
    if stream.read_exact(&mut body).is_ok() {
        request.body = String::from_utf8_lossy(&body).into_owned();
    }
    noted.lock().unwrap().push(request.clone());
    let reply = answer(&request);
    let mut head =
        format!("HTTP/1.1 {} x\r\nContent-Length: {}\r\nConnection: close\r\n", reply.status, reply.body.len());
    reply.headers.iter().for_each(|(name, value)| head.push_str(&format!("{name}: {value}\r\n")));
    let end = reply.cut.unwrap_or(reply.body.len()).min(reply.body.len());
    // The client may close the connection first, so write errors are ignored.
    let stream = stream.get_mut();
    let _ = stream.write_all(format!("{head}\r\n").as_bytes());
    let _ = stream.write_all(&reply.body[..end]);
    let _ = stream.flush();
    if reply.hold {
        std::thread::sleep(std::time::Duration::from_secs(120));
    }
}
