//! The exact message to each service, its size limits, and the escaping of host text.

use super::*;
use crate::config::{DeferredSecret, MailTransport};
use crate::drift::{DriftCause, DriftNoticeItem, FindingSeverity, KnownFinding};
use crate::model::HostName;
use crate::view::drift::empty_fields::{assert_no_gaps, optional_text};
use crate::view::escape;
use crate::view::escape::tests::HOSTILE;
use proptest::prelude::*;
use serde_json::Value;

fn unset_secret() -> DeferredSecret {
    DeferredSecret { label: "env URL".into(), value: Err("it is not set".into()) }
}

fn all_services() -> [NotifyService; 6] {
    let (url, to) = (unset_secret(), vec!["ops@example.com".to_owned(), "sre@example.com".to_owned()]);
    [
        NotifyService::Webhook { url: url.clone(), token: None },
        NotifyService::Slack { url: url.clone() },
        NotifyService::Feishu { url: url.clone(), secret: None },
        NotifyService::DingTalk { url: url.clone(), secret: None },
        NotifyService::WeCom { url },
        NotifyService::Email {
            to,
            from: Some("forge@example.com".into()),
            transport: MailTransport::Sendmail("/usr/sbin/sendmail".into()),
        },
    ]
}

fn sample_item(host: &str, step: &str, severity: FindingSeverity, said: Option<&str>) -> DriftNoticeItem {
    let known = KnownFinding {
        host: HostName::new(host),
        recipe: "base".into(),
        step: step.into(),
        attribute: Some("mode".into()),
        cause: DriftCause::MachineChanged,
        severity,
        first_seen: "2026-11-21T09:30:00Z".into(),
        since: "2026-11-21T09:30:00Z".into(),
        applied: None,
        times: 1,
        print: "0".into(),
        resolved: None,
    };
    let said = said.map(Into::into);
    DriftNoticeItem {
        known,
        reason: said.clone(),
        desired: said.as_ref().map(|_| "0644".into()),
        observed: said,
        place: None,
    }
}

fn sample_notice(new: Vec<DriftNoticeItem>) -> DriftNotice {
    DriftNotice {
        version: 1,
        forge: "0.1.0".into(),
        id: "lab/r2".into(),
        cluster: "lab".into(),
        run: "r2".into(),
        time: "2026-11-21T09:30:00Z".into(),
        since: Some("r1".into()),
        simulated: vec![],
        changed: vec![sample_item("gpu03", "hosts", FindingSeverity::High, Some("differs"))],
        resolved: vec![
            sample_item("gpu01", "shadow", FindingSeverity::Low, None),
            sample_item("gpu02", "shadow", FindingSeverity::Low, None),
        ],
        open: 3 + new.len(),
        new,
        passed: 0,
        left_out: 0,
    }
}

/// Returns the text that readers of a service see.
fn read_body(service: &NotifyService, body: &str) -> String {
    let json = || serde_json::from_str::<Value>(body).unwrap();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    match service {
        NotifyService::Webhook { .. } => body.to_owned(),
        NotifyService::Slack { .. } => {
            text(&json()["text"]).replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")
        }
        NotifyService::Feishu { .. } => {
            let post = json()["content"]["post"]["en_us"].clone();
            let lines: Vec<String> =
                post["content"].as_array().unwrap().iter().map(|line| text(&line[0]["text"])).collect();
            format!("{}\n{}", text(&post["title"]), lines.join("\n"))
        }
        NotifyService::DingTalk { .. } | NotifyService::WeCom { .. } => text(&json()["text"]["content"]),
        NotifyService::Email { .. } => {
            use base64::Engine as _;
            let coded: String = body.split_once("\n\n").unwrap().1.lines().collect();
            let bytes = base64::engine::general_purpose::STANDARD.decode(coded).unwrap();
            String::from_utf8(bytes).unwrap().trim_end().to_owned()
        }
    }
}

#[test]
fn every_service_gets_the_same_content() {
    let notice = sample_notice(vec![
        sample_item("gpu01", "motd", FindingSeverity::Medium, Some("mode differs")),
        sample_item("gpu02", "motd", FindingSeverity::Medium, Some("mode differs")),
    ]);
    let expected = "forge drift: lab: 2 new, 1 changed, 2 resolved; 5 open\n\
                    \nnew:\n- [medium] base/motd mode: mode differs (machine-changed) on gpu[01:02]\n    declared 0644, observed mode differs\n\
                    \nchanged:\n- [high] base/hosts mode: differs (machine-changed) on gpu03\n    declared 0644, observed differs\n\
                    \nresolved:\n- [low] base/shadow mode (machine-changed) on gpu[01:02]";
    for service in all_services().iter().skip(1) {
        assert_eq!(read_body(service, &render_notice(service, &notice).body), expected, "{}", service.name());
    }
    let body = render_notice(&all_services()[0], &notice).body;
    assert_eq!(serde_json::from_str::<DriftNotice>(&body).unwrap(), notice);
}

#[test]
fn payloads_match_the_format_of_each_service() {
    let told = sample_notice(vec![]);
    let bodies: Vec<String> = all_services().iter().skip(1).map(|service| render_notice(service, &told).body).collect();
    insta::assert_snapshot!(bodies.join("\n\n"));
}

#[test]
fn host_text_is_escaped_for_every_service() {
    let acts = ["<!channel>", "<at user_id=\"all\">all</at>", "\r\nBcc: eve@example.com", "@all", "<@U1>"];
    let hostile = HOSTILE.iter().map(|(raw, _)| *raw).chain(acts);
    for raw in hostile {
        let mut notice = sample_notice(vec![sample_item("gpu01", raw, FindingSeverity::High, Some(raw))]);
        notice.cluster = raw.to_owned();
        for service in all_services() {
            let body = render_notice(&service, &notice).body;
            let told = read_body(&service, &body);
            let hidden = |c: char| escape::is_hidden_char(c) && c != '\n';
            assert!(
                matches!(service, NotifyService::Webhook { .. }) || !told.chars().any(hidden),
                "{}: {told:?}",
                service.name()
            );
            match service {
                NotifyService::Slack { .. } => assert!(!body.contains('<') && !body.contains('>'), "{body}"),
                NotifyService::Email { .. } => assert!(!body.lines().any(|line| line.starts_with("Bcc:")), "{body}"),
                _ => {}
            }
        }
    }
}

#[test]
fn non_ascii_subject_is_encoded_in_the_mail_header() {
    let mut told = sample_notice(vec![]);
    told.cluster = "集群".repeat(30);
    let body = render_notice(&all_services()[5], &told).body;
    let head = body.split("\n\n").next().unwrap();
    assert!(head.is_ascii() && head.lines().all(|line| line.len() <= 76), "{head}");
    assert!(head.contains("Subject: =?UTF-8?B?"), "{head}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn empty_fields_leave_no_gaps_in_messages((reason, desired, observed) in (optional_text(), optional_text(), optional_text())) {
        let item = DriftNoticeItem { reason, desired, observed, ..sample_item("gpu01", "motd", FindingSeverity::High, None) };
        let notice = sample_notice(vec![item]);
        for service in all_services().iter().skip(1) {
            assert_no_gaps(service.name(), &read_body(service, &render_notice(service, &notice).body));
        }
    }
}

proptest! {
    // Each case writes hundreds of findings for six services: 256 of them took 38 s of processor time.
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Messages stay within every limit, and omitted findings are counted.
    #[test]
    fn messages_stay_within_service_size_limits(count in 0usize..900, said in "\\PC{0,60}|[\"\\\\]{0,200}") {
        let items = (0..count).map(|n| sample_item(&format!("gpu{n:04}"), &format!("s{n}"), FindingSeverity::High, Some(&said))).collect();
        let notice = sample_notice(items);
        for service in all_services() {
            let payload = render_notice(&service, &notice);
            let told = read_body(&service, &payload.body);
            let fits = match service {
                NotifyService::Slack { .. } => serde_json::from_str::<Value>(&payload.body).unwrap()["text"].as_str().unwrap().chars().count() <= 4000,
                NotifyService::Feishu { .. } => payload.body.len() <= 20_000,
                NotifyService::DingTalk { .. } => payload.body.len() <= 20_000,
                NotifyService::WeCom { .. } => told.len() <= 2048,
                _ => payload.body.len() <= 1_000_000,
            };
            prop_assert!(fits, "{}: {} bytes", service.name(), payload.body.len());
            if !matches!(service, NotifyService::Webhook { .. }) {
                let shown = told.matches("\n- [").count();
                // The two resolved findings share one line.
                let all = notice.new.len() + 2;
                prop_assert!(payload.left_out == 0 && shown == all || payload.left_out >= all - shown, "{} {shown}", payload.left_out);
                prop_assert_eq!(payload.left_out > 0, told.contains("more; run `forge drift` to list all"));
            }
        }
        let short = webhook::fit_notice(&notice, 2000);
        let read: DriftNotice = serde_json::from_str(&short.body).unwrap();
        prop_assert!(short.body.len() <= 2000 && read.len() + read.left_out == notice.len() && read.left_out == short.left_out);
    }
}
