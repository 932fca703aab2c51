//! Mail to real local servers that accept, reject, are busy, hang, and are not trusted.

use super::*;
use crate::artifact::server::Server;
use crate::artifact::smtp_server::SmtpServer;
use crate::notify::{DeliveryError, DeliveryRetryPolicy, NotifyDelivery, send_delivery};
use std::sync::atomic::{AtomicUsize, Ordering};

const PASSWORD: &str = "canary-hunter2";

const QUICK_RETRY_POLICY: DeliveryRetryPolicy = DeliveryRetryPolicy {
    again: 2,
    first: Duration::from_millis(1),
    limit: Duration::from_millis(1500),
    wait: Duration::from_secs(2),
};

fn message(port: u16) -> SmtpMessage {
    SmtpMessage {
        host: "127.0.0.1".to_owned(),
        port,
        tls: SmtpEncryption::None,
        login: Some(("forge".to_owned(), SecretString::from(PASSWORD))),
        from: "forge@example.com".to_owned(),
        to: vec!["ops@example.com".to_owned(), "sre@example.com".to_owned()],
        text: "To: ops@example.com,\n sre@example.com\nSubject: x\n\ntext\n.\n..two\n".to_owned(),
    }
}

async fn deliver(message: SmtpMessage) -> Result<usize, DeliveryError> {
    send_delivery(&NotifyDelivery::Smtp(message), &QUICK_RETRY_POLICY).await
}

fn failed(why: &str, tries: usize) -> Result<usize, DeliveryError> {
    Err(DeliveryError { why: why.to_owned(), tries })
}

#[tokio::test]
async fn mail_arrives_unchanged_after_login() {
    let server = SmtpServer::start(|_| None);
    assert_eq!(deliver(message(server.address.port())).await, Ok(1));
    // A line that begins with a dot has one more on the wire (RFC 5321 4.5.2).
    let expected = "To: ops@example.com,\r\n sre@example.com\r\nSubject: x\r\n\r\ntext\r\n..\r\n...two\r\n".to_owned();
    let mails: Vec<String> = server.mails().iter().map(|mail| mail.trim_end().to_owned() + "\r\n").collect();
    assert_eq!(mails, [expected]);
    let auth = format!("AUTH PLAIN {}", STANDARD.encode(format!("\0forge\0{PASSWORD}")));
    let commands = server.commands();
    assert_eq!(commands[1], auth);
    assert_eq!(
        commands[2..5],
        ["MAIL FROM:<forge@example.com>", "RCPT TO:<ops@example.com>", "RCPT TO:<sre@example.com>"]
    );
    let plain = SmtpMessage { login: None, ..message(server.address.port()) };
    assert_eq!(deliver(plain).await, Ok(1));
    assert_eq!(server.commands().iter().filter(|command| command.starts_with("AUTH")).count(), 1);
}

#[tokio::test]
async fn rejected_recipient_is_not_retried() {
    let server = SmtpServer::start(|command| match command {
        "RCPT TO:<sre@example.com>" => Some("550 5.1.1 no such user"),
        _ => None,
    });
    let sent = deliver(message(server.address.port())).await;
    assert_eq!(sent, failed("`127.0.0.1` answered 550: 5.1.1 no such user", 1));
    assert_eq!(server.mails(), [""; 0]);
}

#[tokio::test]
async fn busy_server_is_retried() {
    let asked = AtomicUsize::new(0);
    let server = SmtpServer::start(move |command| {
        let first = command == "." && asked.fetch_add(1, Ordering::Relaxed) == 0;
        first.then_some("451 4.3.0 try again later")
    });
    assert_eq!(deliver(message(server.address.port())).await, Ok(2));
    let busy = SmtpServer::start(|command| command.starts_with("MAIL").then_some("451 try again later"));
    let sent = deliver(message(busy.address.port())).await;
    assert_eq!(sent, failed("`127.0.0.1` answered 451: try again later", 3));
}

#[tokio::test]
async fn hanging_and_missing_servers_are_retried() {
    let hangs = SmtpServer::start(|_| {
        std::thread::sleep(Duration::from_secs(60));
        None
    });
    let message = |port: u16| NotifyDelivery::Smtp(message(port));
    let quick = DeliveryRetryPolicy { again: 1, limit: Duration::from_millis(300), ..QUICK_RETRY_POLICY };
    let sent = send_delivery(&message(hangs.address.port()), &quick).await;
    assert_eq!(sent, failed("`127.0.0.1` timed out", 2));
    let sent = send_delivery(&message(1), &quick).await;
    assert_eq!(sent, failed("no response from `127.0.0.1`: Connection refused (os error 111)", 2));
    let closes = SmtpServer::start(|_| Some("garbage"));
    let sent = send_delivery(&message(closes.address.port()), &quick).await;
    assert_eq!(sent, failed("invalid response from `127.0.0.1`", 2));
}

#[tokio::test]
async fn rejected_login_does_not_reveal_the_password() {
    let echoes = "535 5.7.8 AUTH PLAIN AGZvcmdlAGNhbmFyeS1odW50ZXIy rejected: canary-hunter2 of forge";
    let server = SmtpServer::start(move |command| command.starts_with("AUTH").then_some(echoes));
    let sent = deliver(message(server.address.port())).await;
    let expected = "`127.0.0.1` answered 535: 5.7.8 AUTH PLAIN (secret) rejected: (secret) of forge";
    assert_eq!(sent, failed(expected, 1));
    let open = SmtpMessage { host: "mail.example.com".to_owned(), ..message(25) };
    assert_eq!(deliver(open).await, failed("its password would be sent without encryption", 1));
}

#[tokio::test]
async fn unencrypted_or_untrusted_connection_is_not_used() {
    let plain = SmtpServer::start(|_| None);
    let upgrade = |port: u16| SmtpMessage { tls: SmtpEncryption::StartTls, ..message(port) };
    let sent = deliver(upgrade(plain.address.port())).await;
    assert_eq!(sent, failed("`127.0.0.1` cannot be used: STARTTLS is not supported on this server", 1));
    assert!(!plain.commands().iter().any(|command| command.starts_with("AUTH")), "{:?}", plain.commands());
    let server = SmtpServer::start_on(Server::tls_wrap(), |_| None);
    let encrypted = SmtpMessage { tls: SmtpEncryption::Implicit, ..message(server.address.port()) };
    let why = format!("TLS: invalid peer certificate: UnknownIssuer: {TLS_TRUST_HINT}");
    assert_eq!(deliver(encrypted).await, failed(&why, 1));
    assert_eq!(server.commands(), [""; 0]);
}

#[test]
fn date_and_message_id_are_added_to_a_mail() {
    let now = Timestamp::from_millisecond(1_577_262_236_757).unwrap();
    let mail = complete_mail_headers("To: a@b.c\n\ntext\n", "forge@example.com", now);
    let (head, rest) = mail.split_at(mail.find("To:").unwrap());
    assert_eq!(rest, "To: a@b.c\n\ntext\n");
    let lines: Vec<&str> = head.lines().collect();
    assert_eq!(lines[0], "Date: Wed, 25 Dec 2019 08:23:56 -0000");
    assert!(lines[1].starts_with("Message-ID: <") && lines[1].ends_with("@example.com>"), "{head}");
    assert_eq!(mail, complete_mail_headers("To: a@b.c\n\ntext\n", "forge@example.com", now));
}
