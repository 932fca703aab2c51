//! Delivery to real local servers that accept, reject, are busy, hang and redirect; and to a `sendmail`.

use super::*;
use crate::artifact::server::{Reply, Request, Server};
use secrecy::SecretString;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

const QUICK_RETRY_POLICY: DeliveryRetryPolicy = DeliveryRetryPolicy {
    again: 2,
    first: Duration::from_millis(1),
    limit: Duration::from_millis(500),
    wait: Duration::from_secs(2),
};

fn http_delivery(url: &str, manner: ResponseFormat) -> NotifyDelivery {
    let url = SecretString::from(url);
    NotifyDelivery::Post(HttpMessage { url, token: None, body: "{}".into(), manner, open: false })
}

/// Sends to a server that answers with `replies` in order and repeats the last. Returns the outcome and the requests.
async fn send_to_server(manner: ResponseFormat, replies: Vec<Reply>) -> (Result<usize, DeliveryError>, Vec<Request>) {
    let asked = AtomicUsize::new(0);
    let server = Server::start(move |_| replies[asked.fetch_add(1, Ordering::Relaxed).min(replies.len() - 1)].clone());
    let sent = send_delivery(&http_delivery(&server.url("/hook/T0123456789"), manner), &QUICK_RETRY_POLICY).await;
    (sent, server.asked())
}

fn server_reply(status: u16, body: &str) -> Reply {
    Reply { body: body.as_bytes().to_vec(), ..Reply::status(status) }
}

fn delivery_error(why: &str, tries: usize) -> Result<usize, DeliveryError> {
    Err(DeliveryError { why: why.to_owned(), tries })
}

#[tokio::test]
async fn accepted_message_is_sent_once() {
    let (sent, asked) = send_to_server(ResponseFormat::Status, vec![server_reply(204, "")]).await;
    assert_eq!((sent, asked.len()), (Ok(1), 1));
    assert_eq!((asked[0].method.as_str(), asked[0].body.as_str()), ("POST", "{}"));
}

#[tokio::test]
async fn server_errors_are_retried_a_limited_number_of_times() {
    let (sent, asked) =
        send_to_server(ResponseFormat::Status, vec![server_reply(500, ""), server_reply(200, "")]).await;
    assert_eq!((sent, asked.len()), (Ok(2), 2));
    let (sent, asked) = send_to_server(ResponseFormat::Status, vec![server_reply(503, "down for repairs")]).await;
    assert_eq!((sent, asked.len()), (delivery_error("the server answered 503: down for repairs", 3), 3));
}

#[tokio::test]
async fn retry_after_header_is_respected() {
    let asks = |seconds: &str| Reply { headers: vec![("Retry-After".into(), seconds.into())], ..Reply::status(429) };
    let began = Instant::now();
    let (sent, asked) = send_to_server(ResponseFormat::Status, vec![asks("1"), server_reply(200, "")]).await;
    assert_eq!((sent, asked.len()), (Ok(2), 2));
    assert!(began.elapsed() >= Duration::from_secs(1), "it waits for `Retry-After`");
    let (sent, asked) = send_to_server(ResponseFormat::Status, vec![asks("3600")]).await;
    assert_eq!((sent, asked.len()), (delivery_error("the server answered 429, retry after 3600 s", 1), 1));
}

#[tokio::test]
async fn hanging_server_times_out() {
    let server = Server::start(|_| {
        std::thread::sleep(Duration::from_secs(5));
        Reply::status(200)
    });
    let began = Instant::now();
    let sent = send_delivery(
        &http_delivery(&server.url("/hook"), ResponseFormat::Status),
        &DeliveryRetryPolicy { again: 1, ..QUICK_RETRY_POLICY },
    )
    .await;
    assert_eq!(sent, delivery_error("the request timed out", 2));
    assert!(began.elapsed() < Duration::from_secs(3));
}

#[tokio::test]
async fn redirects_are_not_followed() {
    let other = Server::start(|_| Reply::status(200));
    for status in [301, 302, 307, 308] {
        let reply = Reply { status, ..Reply::redirect(&other.url("/steal")) };
        let (sent, asked) = send_to_server(ResponseFormat::Status, vec![reply]).await;
        let expected = format!("the server answered {status}: redirects are not followed");
        assert_eq!((sent, asked.len()), (delivery_error(&expected, 1), 1));
    }
    assert_eq!(other.asked(), []);
}

#[tokio::test]
async fn rejection_in_a_200_response_is_detected() {
    for (manner, body, refused) in [
        (ResponseFormat::Ok, "ok", None),
        (ResponseFormat::Ok, r#"{"ok":true}"#, None),
        (
            ResponseFormat::Ok,
            r#"{"ok":false,"error":"no_service"}"#,
            Some("the service rejected the message: no_service"),
        ),
        (ResponseFormat::Ok, "invalid_payload", Some("the service rejected the message: invalid_payload")),
        (ResponseFormat::Ok, "", Some("the service did not confirm the message")),
        (ResponseFormat::Code, r#"{"code":0,"msg":"success","data":{}}"#, None),
        (ResponseFormat::Code, r#"{"StatusCode":0,"StatusMessage":"success"}"#, None),
        (
            ResponseFormat::Code,
            r#"{"code":19021,"msg":"sign match fail"}"#,
            Some("the service rejected the message: 19021 sign match fail"),
        ),
        (ResponseFormat::Errcode, r#"{"errcode":0,"errmsg":"ok"}"#, None),
        (
            ResponseFormat::Errcode,
            r#"{"errcode":310000,"errmsg":"sign not match"}"#,
            Some("the service rejected the message: 310000 sign not match"),
        ),
        (
            ResponseFormat::Errcode,
            r#"{"errcode":93000,"errmsg":"invalid webhook url"}"#,
            Some("the service rejected the message: 93000 invalid webhook url"),
        ),
        (ResponseFormat::Errcode, "<html>proxy</html>", Some("the service rejected the message: <html>proxy</html>")),
    ] {
        let (sent, asked) = send_to_server(manner, vec![server_reply(200, body)]).await;
        assert_eq!((sent, asked.len()), (refused.map_or(Ok(1), |refused| delivery_error(refused, 1)), 1), "{body}");
    }
    let (sent, _) = send_to_server(
        ResponseFormat::Errcode,
        vec![server_reply(200, r#"{"errcode":-1,"errmsg":"busy"}"#), server_reply(200, r#"{"errcode":0}"#)],
    )
    .await;
    assert_eq!(sent, Ok(2), "a busy service is retried");
}

#[tokio::test]
async fn errors_do_not_reveal_the_webhook_url() {
    let (sent, _) =
        send_to_server(ResponseFormat::Status, vec![server_reply(404, "no hook T0123456789 at /hook/T0123456789")])
            .await;
    assert_eq!(sent, delivery_error("the server answered 404: no hook (secret) at /hook/(secret)", 1));
    for (url, expected) in [
        ("http://example.com/T0123456789", "its address uses `http`, which would expose the secret"),
        ("hooks.example.com/T0123456789", "its address is not a URL"),
        ("https://u:T0123456789@example.com/", "its address holds credentials, which would be shown"),
        ("ftp://example.com/T0123456789", "its address is neither http nor https"),
        ("http://127.0.0.1:1/T0123456789", "no response: Connection refused (os error 111)"),
    ] {
        let sent = send_delivery(
            &http_delivery(url, ResponseFormat::Status),
            &DeliveryRetryPolicy { again: 0, ..QUICK_RETRY_POLICY },
        )
        .await;
        assert_eq!(sent, delivery_error(expected, 1), "{url}");
    }
}

#[test]
fn signatures_match_those_of_dingtalk_and_feishu() {
    let (key, now) =
        (SecretString::from("this is secret"), jiff::Timestamp::from_millisecond(1_577_262_236_757).unwrap());
    use secrecy::ExposeSecret;
    let url = sign_dingtalk_url(&SecretString::from("https://oapi.dingtalk.com/robot/send?access_token=t"), &key, now);
    let expected = "https://oapi.dingtalk.com/robot/send?access_token=t&timestamp=1577262236757&sign=hmPWwU%2B7lVdm3ZZz0r9tSfx0L4Q26jWOZr9%2BGs6EZQM%3D";
    assert_eq!(url.expose_secret(), expected);
    let body = sign_feishu_body(r#"{"msg_type":"post"}"#, &key, now);
    assert_eq!(
        body,
        r#"{"msg_type":"post","timestamp":"1577262236","sign":"RAfCltg8rVdmpPK5kCz1M40hrj/YzGYnkc/3vXwYNts="}"#
    );
}

/// Writes a mail program that runs `code`.
fn write_sendmail_script(folder: &tempfile::TempDir, code: &str) -> camino::Utf8PathBuf {
    use std::os::unix::fs::PermissionsExt;
    let path = camino::Utf8Path::from_path(folder.path()).unwrap().join("sendmail");
    std::fs::write(&path, format!("#!/bin/sh\ncd {}\n{code}\n", folder.path().display())).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    path
}

#[tokio::test]
async fn mail_is_passed_to_sendmail_on_stdin() {
    let folder = tempfile::tempdir().unwrap();
    let mail = |code: &str| {
        NotifyDelivery::Mail(MailMessage {
            program: write_sendmail_script(&folder, code),
            text: "To: a@b\n\ntext\n.\n".into(),
        })
    };
    let recorded = mail("cat >mail; echo \"$@\" >arguments; env | sort >environment");
    assert_eq!(send_delivery(&recorded, &QUICK_RETRY_POLICY).await, Ok(1));
    let read = |name: &str| std::fs::read_to_string(folder.path().join(name)).unwrap();
    assert_eq!((read("mail"), read("arguments")), ("To: a@b\n\ntext\n.\n".into(), "-t -oi\n".into()));
    let variables: Vec<String> =
        read("environment").lines().filter_map(|line| Some(line.split_once('=')?.0.to_owned())).collect();
    assert!(
        variables.iter().all(|name| ["PATH", "PWD", "OLDPWD", "_", "SHLVL"].contains(&name.as_str())),
        "{variables:?}"
    );
    // Status 75 requests a retry.
    let later = mail("[ -e tried ] || { : >tried; echo 'queue is full' >&2; exit 75; }; cat >mail");
    assert_eq!(send_delivery(&later, &QUICK_RETRY_POLICY).await, Ok(2));
    let refused = send_delivery(&mail("cat >/dev/null; echo 'no such user' >&2; exit 67"), &QUICK_RETRY_POLICY)
        .await
        .unwrap_err();
    assert!(refused.tries == 1 && refused.why.ends_with("/sendmail` exited with 67: no such user"), "{refused:?}");
    let hangs =
        send_delivery(&mail("sleep 30"), &DeliveryRetryPolicy { again: 0, ..QUICK_RETRY_POLICY }).await.unwrap_err();
    assert!(hangs.why.ends_with("/sendmail` timed out"), "{hangs:?}");
    let none = NotifyDelivery::Mail(MailMessage { program: "/nonexistent/sendmail".into(), text: String::new() });
    let failed = send_delivery(&none, &QUICK_RETRY_POLICY).await.unwrap_err();
    assert_eq!(failed.why, "cannot run `/nonexistent/sendmail`: No such file or directory (os error 2)");
}
