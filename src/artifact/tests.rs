//! Fetching from a misbehaving server: an artifact is available only if its digest matches the declared one.

use super::server::{Reply, Request, Server};
use super::*;
use crate::model::{Artifact, ArtifactCredentials, ArtifactSource, HttpUrl, SecretStore, Sha256Digest};
use camino::Utf8Path;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use sha2::Digest;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Larger than one write, without repeated parts.
fn body() -> Vec<u8> {
    (0..500_000_u32).flat_map(|n| n.to_le_bytes()).collect()
}

fn sha256(bytes: &[u8]) -> Sha256Digest {
    let mut hasher = sha2::Sha256::new();
    hasher.update(bytes);
    Sha256Digest::from_hasher(hasher)
}

fn artifact(url: &str, login: ArtifactCredentials, bytes: &[u8]) -> Artifact {
    let source = ArtifactSource::Url { address: HttpUrl::parse(url).unwrap(), login };
    Artifact { source, sha256: sha256(bytes), by_host: false }
}

fn authority() -> CertificateDer<'static> {
    CertificateDer::from_pem_slice(include_bytes!("../../tests/common/tls/authority.pem")).unwrap()
}

struct TestCacheDir {
    dir: tempfile::TempDir,
}

impl TestCacheDir {
    fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap() }
    }

    fn path(&self) -> &Utf8Path {
        Utf8Path::from_path(self.dir.path()).unwrap()
    }

    fn build_fetcher(&self, offline: bool) -> ArtifactFetcher {
        let client = ArtifactHttpClient::with_root_certificates(vec![authority()]).unwrap();
        ArtifactFetcher::new(ArtifactCache::new(self.path()), offline).with_client(client, Duration::from_millis(1))
    }

    /// Reports whether an unfinished download of that size is in the cache.
    fn has_partial_file(&self, bytes: u64) -> bool {
        let is_partial = |name: &&String| name.ends_with(".part");
        let size = |name: &String| std::fs::metadata(self.path().join(name)).map_or(0, |file| file.len());
        self.list_cached_files().iter().filter(is_partial).any(|name| size(name) == bytes)
    }

    /// Returns the names of the files in the cache.
    fn list_cached_files(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.path()).unwrap();
        let mut names: Vec<String> = entries.map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

fn ignore_progress() -> DownloadProgressFn {
    Arc::new(|_, _| {})
}

async fn fetch_with(depot: &ArtifactFetcher, artifact: &Artifact) -> Result<VerifiedFile, FetchError> {
    depot.get_artifact(artifact, &SecretStore::default(), &ignore_progress()).await
}

fn requested_offsets(server: &Server) -> Vec<Option<usize>> {
    server.asked().iter().map(|request| request.from).collect()
}

#[tokio::test]
async fn artifact_is_fetched_once_with_progress() {
    let server = Server::start(|request| Reply::file(&body(), request));
    let place = TestCacheDir::new();
    let wanted = artifact(&server.url("/x.run"), ArtifactCredentials::None, &body());
    let seen = Arc::new(Mutex::new(Vec::new()));
    let noted = seen.clone();
    let told: DownloadProgressFn = Arc::new(move |done, total| noted.lock().unwrap().push((done, total)));
    let depot = place.build_fetcher(false);
    let held = depot.get_artifact(&wanted, &SecretStore::default(), &told).await.unwrap();
    assert_eq!(std::fs::read(&held.path).unwrap(), body());
    assert_eq!(held.bytes, 2_000_000);
    assert_eq!(seen.lock().unwrap().last(), Some(&(2_000_000, Some(2_000_000))));
    assert_eq!(fetch_with(&depot, &wanted).await, Ok(held.clone()));
    assert_eq!(fetch_with(&place.build_fetcher(true), &wanted).await, Ok(held));
    assert_eq!(place.list_cached_files(), [wanted.sha256.to_string()]);
    assert_eq!(requested_offsets(&server), [None]);
}

#[tokio::test]
async fn broken_download_resumes_where_it_stopped() {
    let tries = AtomicUsize::new(0);
    let server = Server::start(move |request| {
        let reply = Reply::file(&body(), request);
        if tries.fetch_add(1, Ordering::Relaxed) < 2 { reply.cut(700_000) } else { reply }
    });
    let place = TestCacheDir::new();
    let held =
        fetch_with(&place.build_fetcher(false), &artifact(&server.url("/x"), ArtifactCredentials::None, &body()))
            .await
            .unwrap();
    assert_eq!(std::fs::read(held.path).unwrap(), body());
    assert_eq!(requested_offsets(&server), [None, Some(700_000), Some(1_400_000)]);
}

#[tokio::test]
async fn failed_download_is_resumed_by_the_next_run() {
    let broken = Arc::new(Mutex::new(true));
    let state = broken.clone();
    let server = Server::start(move |request| match (*state.lock().unwrap(), request.from) {
        (true, None) => Reply::file(&body(), request).cut(1_000_000),
        (true, _) => Reply::status(503),
        (false, _) => Reply::file(&body(), request),
    });
    let place = TestCacheDir::new();
    let wanted = artifact(&server.url("/x"), ArtifactCredentials::None, &body());
    let error = fetch_with(&place.build_fetcher(false), &wanted).await.unwrap_err();
    let url = server.url("/x");
    assert_eq!(error.message, format!("`{url}` cannot be fetched: the server answered 503 (server error)"));
    assert_eq!(place.list_cached_files(), [format!("{}.part", wanted.sha256)]);
    *broken.lock().unwrap() = false;
    assert!(fetch_with(&place.build_fetcher(false), &wanted).await.is_ok());
    assert_eq!(requested_offsets(&server).last(), Some(&Some(1_000_000)));
    assert_eq!(place.list_cached_files(), [wanted.sha256.to_string()]);
}

#[tokio::test]
async fn partial_file_of_another_artifact_is_discarded() {
    let server = Server::start(|request| Reply::file(&body(), request));
    let place = TestCacheDir::new();
    let wanted = artifact(&server.url("/x"), ArtifactCredentials::None, &body());
    let part = place.path().join(format!("{}.part", wanted.sha256));
    std::fs::write(&part, b"another file").unwrap();
    assert!(fetch_with(&place.build_fetcher(false), &wanted).await.is_ok());
    assert_eq!(requested_offsets(&server), [Some(12), None]);
    // The local part is longer than the file: the server does not have that range.
    let wanted = artifact(&server.url("/y"), ArtifactCredentials::None, &body());
    std::fs::remove_file(place.path().join(wanted.sha256.as_str())).unwrap();
    std::fs::write(&part, vec![7; 3_000_000]).unwrap();
    assert!(fetch_with(&place.build_fetcher(false), &wanted).await.is_ok());
}

#[tokio::test]
async fn download_restarts_if_the_server_ignores_ranges() {
    let server = Server::start(|request| {
        let whole = Request { from: None, ..request.clone() };
        Reply::file(&body(), &whole)
    });
    let place = TestCacheDir::new();
    let wanted = artifact(&server.url("/x"), ArtifactCredentials::None, &body());
    std::fs::write(place.path().join(format!("{}.part", wanted.sha256)), &body()[..1000]).unwrap();
    let held = fetch_with(&place.build_fetcher(false), &wanted).await.unwrap();
    assert_eq!(std::fs::read(held.path).unwrap(), body());
    assert_eq!(requested_offsets(&server), [Some(1000)]);
}

#[tokio::test]
async fn file_with_a_wrong_checksum_is_discarded() {
    let server = Server::start(|request| Reply::file(b"something else", request));
    let place = TestCacheDir::new();
    let wanted = artifact(&server.url("/x"), ArtifactCredentials::None, &body());
    let error = fetch_with(&place.build_fetcher(false), &wanted).await.unwrap_err();
    let (found, declared) = (sha256(b"something else"), &wanted.sha256);
    assert_eq!(error.message, format!("`{}` has the sha256 {found}, declared is {declared}", server.url("/x")));
    assert_eq!(place.list_cached_files(), [""; 0]);
}

#[tokio::test]
async fn status_404_and_403_are_not_retried() {
    let server = Server::start(|request| Reply::status(if request.path == "/x" { 404 } else { 403 }));
    let place = TestCacheDir::new();
    let error = fetch_with(&place.build_fetcher(false), &artifact(&server.url("/x"), ArtifactCredentials::None, b""))
        .await
        .unwrap_err();
    let url = server.url("/x");
    assert_eq!(error.message, format!("`{url}` cannot be fetched: the server answered 404 (not found)"));
    assert_eq!(error.hint.unwrap(), "check the address; a mirror may have moved on to a newer version");
    let error = fetch_with(&place.build_fetcher(false), &artifact(&server.url("/y"), ArtifactCredentials::None, b""))
        .await
        .unwrap_err();
    let url = server.url("/y");
    assert_eq!(error.message, format!("`{url}` cannot be fetched: the server answered 403 (forbidden)"));
    assert_eq!(server.asked().len(), 2);
}

#[tokio::test]
async fn offline_fetch_sends_no_request() {
    let server = Server::start(|request| Reply::file(&body(), request));
    let place = TestCacheDir::new();
    let wanted = artifact(&server.url("/x"), ArtifactCredentials::None, &body());
    let error = fetch_with(&place.build_fetcher(true), &wanted).await.unwrap_err();
    let url = server.url("/x");
    assert_eq!(error.message, format!("`{url}` is not in the cache, and `--offline` is set"));
    assert_eq!(server.asked(), []);
}

#[tokio::test]
async fn damaged_cache_entry_is_fetched_again_on_recheck() {
    let server = Server::start(|request| Reply::file(&body(), request));
    let place = TestCacheDir::new();
    let wanted = artifact(&server.url("/x"), ArtifactCredentials::None, &body());
    let depot = place.build_fetcher(false);
    let checked = async || depot.fetch_and_recheck(&wanted, &SecretStore::default(), &ignore_progress()).await.unwrap();
    assert!(checked().await.new);
    assert!(!checked().await.new);
    std::fs::write(place.path().join(wanted.sha256.as_str()), b"damaged").unwrap();
    assert!(checked().await.new);
}

#[tokio::test]
async fn credentials_are_not_sent_to_another_origin() {
    let other = Server::start(|request| Reply::file(&body(), request));
    let away = other.url("/cdn");
    let server = Server::start(move |request| match request.path.as_str() {
        "/x" => Reply::redirect("/here"),
        "/here" => Reply::redirect(&away),
        _ => Reply::status(404),
    });
    let mut secrets = SecretStore::default();
    let password = secrets.insert("PASSWORD", "pass word".to_owned().into()).0;
    let login = ArtifactCredentials::Basic { user: "me".to_owned(), password };
    let place = TestCacheDir::new();
    let wanted = artifact(&server.url("/x"), login, &body());
    assert!(place.build_fetcher(false).get_artifact(&wanted, &secrets, &ignore_progress()).await.is_ok());
    let shown = |server: &Server| server.asked().into_iter().map(|request| request.authorization).collect::<Vec<_>>();
    let basic = Some("Basic bWU6cGFzcyB3b3Jk".to_owned());
    assert_eq!(shown(&server), [basic.clone(), basic]);
    assert_eq!(shown(&other), [None]);
}

#[tokio::test]
async fn bearer_token_is_sent_only_with_its_artifact() {
    let server = Server::start(|request| match &request.authorization {
        Some(shown) if shown == "Bearer let me in" => Reply::file(&body(), request),
        _ => Reply::status(401),
    });
    let mut secrets = SecretStore::default();
    let token = secrets.insert("TOKEN", "let me in".to_owned().into()).0;
    let place = TestCacheDir::new();
    let wanted = artifact(&server.url("/x"), ArtifactCredentials::Bearer { token }, &body());
    assert!(place.build_fetcher(false).get_artifact(&wanted, &secrets, &ignore_progress()).await.is_ok());
    let error = fetch_with(&place.build_fetcher(false), &artifact(&server.url("/z"), ArtifactCredentials::None, b"z"))
        .await
        .unwrap_err();
    let url = server.url("/z");
    assert_eq!(error.message, format!("`{url}` cannot be fetched: the server answered 401 (unauthorized)"));
}

#[tokio::test]
async fn redirect_loop_is_an_error() {
    let server = Server::start(|_| Reply::redirect("/x"));
    let place = TestCacheDir::new();
    let error = fetch_with(&place.build_fetcher(false), &artifact(&server.url("/x"), ArtifactCredentials::None, b""))
        .await
        .unwrap_err();
    let url = server.url("/x");
    assert_eq!(error.message, format!("`{url}` cannot be fetched: more than 10 redirects"));
}

#[tokio::test]
async fn https_is_supported_and_never_downgraded() {
    let plain = Server::start(|request| Reply::file(&body(), request));
    let away = plain.url("/x");
    let server = Server::secure(move |request| match request.path.as_str() {
        "/away" => Reply::redirect(&away),
        _ => Reply::file(&body(), request),
    });
    let place = TestCacheDir::new();
    let url = |path: &str| server.secure_url(path);
    let error = fetch_with(&place.build_fetcher(false), &artifact(&url("/away"), ArtifactCredentials::None, b"other"))
        .await
        .unwrap_err();
    let (from, to) = (url("/away"), plain.url("/x"));
    assert_eq!(
        error.message,
        format!("`{from}` cannot be fetched: redirect from https to `{to}`, which is not encrypted")
    );
    assert_eq!(plain.asked(), []);
    assert!(
        fetch_with(&place.build_fetcher(false), &artifact(&url("/x"), ArtifactCredentials::None, &body()))
            .await
            .is_ok()
    );
}

#[tokio::test]
async fn untrusted_certificate_is_rejected() {
    let server = Server::secure(|request| Reply::file(&body(), request));
    let place = TestCacheDir::new();
    let url = server.secure_url("/x");
    let depot = ArtifactFetcher::new(ArtifactCache::new(place.path()), false)
        .with_client(ArtifactHttpClient::new().unwrap(), Duration::from_millis(1));
    let error = fetch_with(&depot, &artifact(&url, ArtifactCredentials::None, &body())).await.unwrap_err();
    assert!(error.message.contains("cannot be fetched: TLS: invalid peer certificate: UnknownIssuer"), "{error:?}");
    assert!(error.hint.unwrap().starts_with("the server's certificate must be signed by an authority"));
    assert_eq!(server.asked(), []);
}

/// Starts a server that sends `reply` to each connection, or only closes it. Returns its URL.
fn start_raw_server(reply: &'static [u8]) -> String {
    use std::io::{Read, Write};
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/x", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for mut socket in listener.incoming().flatten() {
            let _ = socket.read(&mut [0; 4096]);
            let _ = socket.write_all(reply);
        }
    });
    url
}

#[tokio::test]
async fn network_errors_are_plain_and_retryable() {
    let place = TestCacheDir::new();
    let depot = place.build_fetcher(false);
    for (url, why) in [
        ("http://127.0.0.1:1/x".to_owned(), "Connection refused (os error 111)"),
        ("http://a..b/x".to_owned(), "could not resolve the server's name"),
        (start_raw_server(b""), "the server closed the connection"),
        (start_raw_server(b"SSH-2.0-x\r\n\r\n"), "the response is not valid HTTP: invalid HTTP version parsed"),
    ] {
        let error = fetch_with(&depot, &artifact(&url, ArtifactCredentials::None, b"")).await.unwrap_err();
        assert_eq!(error.message, format!("`{url}` cannot be fetched: {why}"));
        assert!(error.passing, "{url}");
    }
}

#[tokio::test]
async fn compressed_response_is_stored_as_sent() {
    let server = Server::start(|request| {
        let encoded = ("Content-Encoding".to_owned(), "gzip".to_owned());
        Reply { headers: vec![encoded], ..Reply::file(b"not decompressed", request) }
    });
    let place = TestCacheDir::new();
    let wanted = artifact(&server.url("/x.gz"), ArtifactCredentials::None, b"not decompressed");
    assert!(fetch_with(&place.build_fetcher(false), &wanted).await.is_ok());
}

#[tokio::test]
async fn cancelled_download_keeps_what_was_received() {
    let server = Server::start(|request| match request.from {
        Some(_) => Reply::file(&body(), request),
        // Promises more than it sends for a while: the client waits.
        None => {
            let mut reply = Reply::file(&body(), request).cut(1_000_000);
            reply.hold = true;
            reply
        }
    });
    let place = TestCacheDir::new();
    let wanted = artifact(&server.url("/x"), ArtifactCredentials::None, &body());
    let depot = place.build_fetcher(false);
    // On a busy machine it may take a while until everything has come that the server sends.
    let received = async {
        while !place.has_partial_file(1_000_000) {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::select! {
        ended = fetch_with(&depot, &wanted) => panic!("it waits for the rest: {ended:?}"),
        () = received => {}
    }
    let held = fetch_with(&place.build_fetcher(false), &wanted).await.unwrap();
    assert_eq!(std::fs::read(held.path).unwrap(), body());
    assert_eq!(requested_offsets(&server), [None, Some(1_000_000)]);
}

#[tokio::test]
async fn local_file_is_verified_in_place() {
    let place = TestCacheDir::new();
    let path = place.path().join("x.run");
    std::fs::write(&path, b"content").unwrap();
    let wanted =
        |bytes: &[u8]| Artifact { source: ArtifactSource::File(path.clone()), sha256: sha256(bytes), by_host: false };
    let held = fetch_with(&place.build_fetcher(true), &wanted(b"content")).await.unwrap();
    assert_eq!((held.path, held.bytes), (path.clone(), 7));
    let error = fetch_with(&place.build_fetcher(true), &wanted(b"other")).await.unwrap_err();
    let (found, declared) = (sha256(b"content"), sha256(b"other"));
    assert_eq!(error.message, format!("`{path}` has the sha256 {found}, declared is {declared}"));
}

#[tokio::test]
async fn undeclared_checksum_is_computed() {
    let server = Server::start(|request| Reply::file(&body(), request));
    let place = TestCacheDir::new();
    let own = artifact(&server.url("/x.run"), ArtifactCredentials::None, b"");
    // A failed attempt may have left data of another file, and without a digest that is not detectable.
    let digest = sha256(server.url("/x.run").as_bytes());
    std::fs::write(place.path().join(format!("of-{}.part", digest.short_hex())), b"of another").unwrap();
    let learned = place
        .build_fetcher(false)
        .fetch_unknown_digest(&own.source, &SecretStore::default(), &ignore_progress())
        .await
        .unwrap();
    assert_eq!(learned.source_url.map(|address| address.to_string()), Some(server.url("/x.run")));
    let fetched = learned.fetched;
    assert_eq!((fetched.held.sha256.clone(), fetched.new), (sha256(&body()), true));
    assert_eq!(place.list_cached_files(), [fetched.held.sha256.to_string()]);
}

#[tokio::test]
async fn redirect_signature_is_used_but_not_recorded() {
    let storage = Server::start(|request| match request.path.as_str() {
        "/bucket/x.run?X-Amz-Signature=hunter2" => Reply::file(&body(), request),
        _ => Reply::status(403),
    });
    let away = storage.url("/bucket/x.run?X-Amz-Signature=hunter2");
    let server = Server::start(move |_| Reply::redirect(&away));
    let place = TestCacheDir::new();
    let own = artifact(&server.url("/x.run"), ArtifactCredentials::None, b"");
    let learned = place
        .build_fetcher(false)
        .fetch_unknown_digest(&own.source, &SecretStore::default(), &ignore_progress())
        .await
        .unwrap();
    assert!(!format!("{learned:?}").contains("hunter2"), "{learned:?}");
    assert_eq!(learned.source_url.map(|address| address.to_string()), Some(storage.url("/bucket/x.run")));
}
