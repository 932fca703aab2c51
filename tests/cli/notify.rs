//! Notifications of drift, sent by the real binary to a real server: once, never lost, and without secrets.

use super::server::{Reply, Request, Server};
use super::smtp_server::SmtpServer;
use super::support::Place;
use serde_json::Value;
use std::sync::{Arc, Mutex};

const TOKEN: &str = "T0K3N-canary-5f2a";
const RECIPE: &str = "recipe: r\nsummary: a file\nsteps:\n  - name: f\n    file: { path: WANTED, content: \"x\\n\" }\n";

/// A machine with one declared file, a service to notify, and the next answer of its server.
struct Scene {
    place: Place,
    server: Server,
    answer: Arc<Mutex<Reply>>,
    first: Arc<Mutex<Option<Reply>>>,
}

impl Scene {
    /// Creates the scene. `entry` is an entry of `notify`; `URL` is set to the server's hook.
    fn new(entry: &str) -> Self {
        let answer = Arc::new(Mutex::new(ok("ok")));
        let first = Arc::<Mutex<Option<Reply>>>::default();
        let (once, given) = (first.clone(), answer.clone());
        let next = move || once.lock().unwrap().take();
        let server = Server::start(move |_: &Request| next().unwrap_or_else(|| given.lock().unwrap().clone()));
        let place = Place::new();
        let wanted = place.path().join("wanted").display().to_string();
        let inventory = format!(
            "cluster: lab\nconnect: {{ transport: local }}\nhosts: {{ here: }}\napply: [ {{ recipe: r, on: all }} ]\n\
             drift:\n  notify:\n    - {entry}\n"
        );
        let place = place
            .file("c.yaml", &inventory)
            .file("recipes/r.yaml", &RECIPE.replace("WANTED", &wanted))
            .env("URL", &server.url(&format!("/hook/{TOKEN}")))
            .env("KEY", "SEC-canary-0815");
        Self { place, server, answer, first }
    }

    fn answers(&self, reply: Reply) {
        *self.answer.lock().unwrap() = reply;
    }

    /// Gives this answer to the next request, and accepts those after it.
    fn answers_once(&self, reply: Reply) {
        *self.first.lock().unwrap() = Some(reply);
    }

    fn drift(&self, more: &[&str]) -> String {
        let said = self.place.forge(&[&["drift", "c.yaml"], more].concat());
        assert!(!said.contains("canary"), "a secret is shown: {said}");
        said
    }

    fn appears(&self) {
        std::fs::write(self.place.path().join("wanted"), "x\n").unwrap();
    }

    /// Returns the request bodies that the server received, without the first `known`.
    fn sent(&self, known: usize) -> Vec<Value> {
        self.server.asked()[known..].iter().map(|request| serde_json::from_str(&request.body).unwrap()).collect()
    }

    /// Fails if a file in the state folder contains a secret.
    fn keeps_no_secret(&self) {
        let output = std::process::Command::new("grep")
            .args(["-r", "canary", ".forge"])
            .current_dir(self.place.path())
            .output()
            .unwrap();
        assert!(output.status.code() == Some(1), "{}", String::from_utf8_lossy(&output.stdout));
    }
}

fn ok(body: &str) -> Reply {
    Reply { body: body.as_bytes().to_vec(), ..Reply::status(200) }
}

const WEBHOOK: &str = "webhook: { url: { env: URL }, token: { env: KEY } }";

#[test]
fn each_drift_change_is_notified_once() {
    let scene = Scene::new(WEBHOOK);
    let first = scene.drift(&[]);
    assert!(first.starts_with("exit 2\n") && first.ends_with("notified `webhook` (webhook): 1 finding\n"), "{first}");
    let sent = scene.sent(0);
    assert_eq!((&sent[0]["new"][0]["known"]["step"], &sent[0]["open"]), (&"f".into(), &1.into()), "{sent:?}");
    assert_eq!(scene.server.asked()[0].authorization.as_deref(), Some("Bearer SEC-canary-0815"));
    let again = scene.drift(&["--format", "json"]);
    assert!(again.starts_with("exit 2\n") && scene.sent(1).is_empty(), "nothing changed: {again}");
    assert!(again.contains("\"state\": \"quiet\""), "{again}");
    scene.appears();
    let gone = scene.drift(&["--quiet"]);
    assert!(gone.starts_with("exit 0\n") && gone.ends_with("--- stderr\n"), "{gone}");
    let sent = scene.sent(1);
    assert_eq!((&sent[0]["resolved"][0]["known"]["step"], &sent[0]["open"], sent.len()), (&"f".into(), &0.into(), 1));
    scene.keeps_no_secret();
}

#[test]
fn failed_notification_is_resent_by_the_next_run() {
    let scene = Scene::new(WEBHOOK);
    scene.answers(ok(""));
    scene.drift(&[]);
    scene.appears();
    let hook = scene.server.url(&format!("/hook/{TOKEN}"));
    scene.answers(Reply { body: format!("no such hook: {hook} {TOKEN}").into_bytes(), ..Reply::status(404) });
    let failed = scene.drift(&[]);
    let expected = "error: cannot notify `webhook` (webhook): the server answered 404: no such hook: (secret) (secret)\n  \
                    hint: the findings are valid; the next run sends the notification again\n";
    assert!(
        failed.starts_with("exit 1\n--- stdout\n")
            && failed.contains("\nno drift: 1 host, 1 check matches; 1 resolved "),
        "{failed}"
    );
    assert!(failed.ends_with(expected), "{failed}");
    let known = scene.server.asked().len();
    scene.answers(ok(""));
    let told = scene.drift(&[]);
    assert!(told.starts_with("exit 0\n") && told.contains("notified `webhook` (webhook): 1 finding"), "{told}");
    assert_eq!(scene.sent(known)[0]["resolved"].as_array().unwrap().len(), 1);
    assert!(scene.drift(&[]).starts_with("exit 0\n") && scene.sent(known + 1).is_empty(), "notified twice");
    scene.keeps_no_secret();
}

#[test]
fn busy_server_is_retried_and_redirects_are_not_followed() {
    let scene = Scene::new(WEBHOOK);
    let later = Reply { headers: vec![("Retry-After".into(), "1".into())], ..Reply::status(429) };
    scene.answers_once(later);
    let told = scene.drift(&[]);
    assert!(told.starts_with("exit 2\n") && told.contains("notified `webhook`"), "{told}");
    assert_eq!(scene.server.asked().len(), 2);
    // Redirects to another server are not followed.
    scene.appears();
    let other = Server::start(|_| Reply::status(200));
    scene.answers(Reply { status: 307, ..Reply::redirect(&other.url("/steal")) });
    let led = scene.drift(&[]);
    assert!(led.starts_with("exit 1\n") && led.contains("redirects are not followed"), "{led}");
    assert_eq!(other.asked(), []);
}

#[test]
fn http_200_with_an_error_body_is_a_failed_notification() {
    for (entry, refusal, why, taken) in [
        ("slack: { url: { env: URL } }", "invalid_token", "the service rejected the message: invalid_token", "ok"),
        (
            "feishu: { url: { env: URL }, secret: { env: KEY } }",
            r#"{"code":19021,"msg":"sign match fail"}"#,
            "19021 sign match fail",
            r#"{"code":0}"#,
        ),
        (
            "dingtalk: { url: { env: URL }, secret: { env: KEY } }",
            r#"{"errcode":310000,"errmsg":"sign not match"}"#,
            "310000 sign not match",
            r#"{"errcode":0}"#,
        ),
        (
            "wecom: { url: { env: URL } }",
            r#"{"errcode":93000,"errmsg":"invalid webhook url"}"#,
            "93000 invalid webhook url",
            r#"{"errcode":0}"#,
        ),
    ] {
        let scene = Scene::new(entry);
        scene.answers(ok(refusal));
        let failed = scene.drift(&[]);
        assert!(failed.starts_with("exit 1\n") && failed.contains(why), "{failed}");
        scene.answers(ok(taken));
        let told = scene.drift(&[]);
        assert!(told.starts_with("exit 2\n") && told.contains("): 1 finding"), "{told}");
        let (sent, request) = (scene.sent(1), &scene.server.asked()[1]);
        if entry.starts_with("feishu") {
            assert!(sent[0]["sign"].is_string() && sent[0]["timestamp"].is_string(), "{sent:?}");
        }
        assert_eq!(
            entry.starts_with("dingtalk"),
            request.path.contains("?timestamp=") && request.path.contains("&sign="),
            "{request:?}"
        );
        scene.keeps_no_secret();
    }
}

#[test]
fn notify_dry_run_prints_messages_and_stores_nothing() {
    let scene = Scene::new("{ name: ops, slack: { url: { env: URL } } }");
    let dry = scene.drift(&["--notify-dry-run"]);
    assert!(
        dry.starts_with("exit 2\n")
            && dry.contains("\nnotify: `ops` (slack) to (secret env URL): 1 new; 1 open\n  {\"text\":"),
        "{dry}"
    );
    assert_eq!(scene.server.asked(), []);
    let none = scene.drift(&["--no-notify"]);
    assert!(none.starts_with("exit 2\n") && scene.server.asked().is_empty(), "{none}");
    let told = scene.drift(&[]);
    assert!(told.contains("notified `ops` (slack): 1 finding"), "{told}");
}

#[test]
fn missing_secret_fails_only_when_notifying() {
    let scene = Scene::new("slack: { url: { env: NOT_SET } }");
    assert!(scene.place.forge(&["validate", "c.yaml"]).starts_with("exit 0\n"));
    assert!(scene.place.forge(&["plan", "c.yaml"]).starts_with("exit 0\n"));
    let failed = scene.drift(&[]);
    assert!(
        failed.starts_with("exit 1\n")
            && failed.contains("cannot notify `slack` (slack): the environment variable `NOT_SET` is not set"),
        "{failed}"
    );
}

#[test]
fn email_runs_the_sendmail_program_only_with_trust() {
    let scene = Scene::new("email: { to: [ops@example.com], sendmail: PROGRAM }");
    let program = scene.place.path().join("sendmail");
    std::fs::write(&program, format!("#!/bin/sh\ncat >{}/mail\n", scene.place.path().display())).unwrap();
    std::fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let text = scene.place.read("c.yaml").replace("PROGRAM", &program.display().to_string());
    std::fs::write(scene.place.path().join("c.yaml"), text).unwrap();
    let refused = scene.drift(&[]);
    assert!(
        refused.starts_with("exit 65\n") && refused.contains("`sendmail` names a program that runs on this machine"),
        "{refused}"
    );
    let told = scene.drift(&["--trust"]);
    assert!(told.starts_with("exit 2\n") && told.contains("notified `email` (email): 1 finding"), "{told}");
    let mail = scene.place.read("mail");
    assert!(mail.starts_with("To: ops@example.com\nSubject: forge drift: lab: 1 new; 1 open\n"), "{mail}");
}

/// The password is sent over TLS only, and the server gets the whole mail.
#[test]
fn email_is_sent_to_a_mail_server_over_tls() {
    let server = SmtpServer::start_on(Server::tls_wrap(), |_| None);
    let port = server.address.port();
    let mut scene = Scene::new(&format!(
        "email: {{ to: [ops@example.com], from: forge@example.com, \
         smtp: {{ host: 127.0.0.1, port: {port}, tls: implicit, user: forge, password: {{ env: KEY }} }} }}"
    ));
    let refused = scene.drift(&[]);
    assert!(
        refused.contains("cannot notify `email` (email): TLS: invalid peer certificate: UnknownIssuer"),
        "{refused}"
    );
    assert_eq!(server.commands(), [""; 0]);
    let shown = scene.drift(&["--notify-dry-run"]);
    let address = format!("(email) by 127.0.0.1:{port} (tls: implicit), as forge, password (secret env KEY)");
    assert!(shown.contains(&address), "{shown}");
    let authority = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/common/tls/authority.pem");
    scene.place = scene.place.env("SSL_CERT_FILE", authority);
    let told = scene.drift(&[]);
    assert!(told.contains("notified `email` (email): 1 finding"), "{told}");
    let mails = server.mails();
    let (head, _) = mails[0].split_once("\r\n\r\n").unwrap();
    let headers: Vec<&str> = head.lines().map(|line| line.split(':').next().unwrap()).collect();
    assert_eq!(headers[..5], ["Date", "Message-ID", "To", "From", "Subject"], "{head}");
    scene.keeps_no_secret();
}

#[test]
fn invalid_notify_settings_are_rejected() {
    for (entry, message) in [
        (
            "slack: { url: https://hooks.slack.com/x }",
            "`url` is a secret and must not be in plain text\n --> c.yaml:7:",
        ),
        ("name: ops", "an entry of `notify` needs a service\n --> c.yaml:7:"),
        (
            "{ slack: { url: { env: URL } }, wecom: { url: { env: URL } } }",
            "an entry of `notify` has one service, not several\n --> c.yaml:7:",
        ),
        ("slak: { url: { env: URL } }", "slak"),
        ("feishu: {}", "`feishu` needs `url`"),
        (
            "slack: { url: { env: URL } }\n    - slack: { url: { env: URL } }",
            "two entries of `notify` are named `slack`\n --> c.yaml:8:",
        ),
        (
            "{ name: 'a b', slack: { url: { env: URL } } }",
            "`name` may contain only letters, digits, `-`, `_` and `.`, found `a b`",
        ),
        ("email: { to: [\"a@b.c\\nBcc: x@y.z\"] }", "`to` must be an email address, found "),
        ("email: { to: [] }", "`to` is empty"),
        (
            "email: { to: [a@b.c], from: f@b.c, sendmail: /usr/sbin/sendmail, smtp: { host: m } }",
            "`sendmail` and `smtp` exclude each other\n --> c.yaml:7:",
        ),
        ("email: { to: [a@b.c], smtp: { host: m } }", "`smtp` needs the `from` of the mail\n --> c.yaml:7:"),
        ("email: { to: [a@b.c], from: f@b.c, smtp: {} }", "`smtp` needs `host`"),
        ("email: { to: [a@b.c], from: f@b.c, smtp: { host: 'm:25' } }", "`host` must be a name or an IP address"),
        ("email: { to: [a@b.c], from: f@b.c, smtp: { host: m, tls: start } }", "invalid value `start` for `tls`"),
        ("email: { to: [a@b.c], from: f@b.c, smtp: { host: m, user: u } }", "`user` of `smtp` needs `password`"),
        (
            "email: { to: [a@b.c], from: f@b.c, smtp: { host: m, user: u, password: canary } }",
            "`password` is a secret and must not be in plain text\n --> c.yaml:7:",
        ),
        (
            "email: { to: [a@b.c], from: f@b.c, smtp: { host: m, user: u, password: { env: KEY }, tls: none } }",
            "`password` would be sent to `m` without encryption\n --> c.yaml:7:",
        ),
        ("slack: { url: { file: ../secret } }", "leaves the inventory's tree"),
    ] {
        let said = Scene::new(entry).place.forge(&["validate", "c.yaml"]);
        assert!(said.starts_with("exit 65\n") && said.contains(message), "{entry}: {said}");
    }
    let said =
        Place::new().file("c.yaml", "cluster: lab\nhosts: { a: }\n").forge(&["drift", "c.yaml", "--notify-dry-run"]);
    assert!(said.starts_with("exit 64\n") && said.contains("requires `drift.notify` in the inventory"), "{said}");
}

/// A service over HTTPS is notified only if its certificate is trusted; otherwise no request reaches it.
#[test]
fn untrusted_certificate_prevents_notification() {
    let server = Server::secure(|_: &Request| ok("ok"));
    let url = server.secure_url(&format!("/hook/{TOKEN}"));
    let tls = |file: &str| format!("{}/tests/common/tls/{file}", env!("CARGO_MANIFEST_DIR"));
    let authority = tls("authority.pem");
    let scene = |trusted: &str| {
        let mut scene = Scene::new(WEBHOOK);
        scene.place = scene.place.env("URL", &url).env("SSL_CERT_FILE", trusted);
        scene
    };
    let none = tempfile::NamedTempFile::new().unwrap();
    let said = scene(&none.path().display().to_string()).drift(&[]);
    let why = "error: cannot notify `webhook` (webhook): TLS: invalid peer certificate: UnknownIssuer: the server's \
               certificate must be signed by an authority that this machine trusts (`ca-certificates`, or the file of `SSL_CERT_FILE`)\n";
    assert!(said.contains(why), "{said}");
    assert_eq!(server.asked(), []);
    let said = scene(&authority).drift(&[]);
    assert!(said.ends_with("notified `webhook` (webhook): 1 finding\n"), "{said}");
    let asked = server.asked();
    assert_eq!((asked.len(), asked[0].authorization.as_deref()), (1, Some("Bearer SEC-canary-0815")));
}
