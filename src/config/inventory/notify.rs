//! Parses `drift.notify`: a list of entries with exactly one service each.

use super::smtp;
use crate::config::YamlNode;
use crate::config::load_context::LoadContext;
use crate::config::notify::{DeferredSecret, MailTransport, NotifyRecipient, NotifyService, SENDMAIL};
use crate::config::scalar;
use crate::config::yaml_table::{self, YamlTable};
use crate::diag::{Diag, DiagCode};
use camino::Utf8PathBuf;

/// Keys of the services.
pub(in crate::config) const SERVICES: [&str; 6] = ["webhook", "slack", "feishu", "dingtalk", "wecom", "email"];
/// Keys of an entry.
pub(in crate::config) const KEYS: [&str; 7] = ["name", "webhook", "slack", "feishu", "dingtalk", "wecom", "email"];
pub(in crate::config) const WEBHOOK_KEYS: [&str; 2] = ["url", "token"];
pub(in crate::config) const CHAT_KEYS: [&str; 1] = ["url"];
pub(in crate::config) const SIGNED_KEYS: [&str; 2] = ["url", "secret"];
pub(in crate::config) const EMAIL_KEYS: [&str; 4] = ["to", "from", "sendmail", "smtp"];

pub(super) fn read_recipients(nodes: Vec<&YamlNode>, cx: &mut LoadContext<'_>) -> Vec<NotifyRecipient> {
    let mut recipients: Vec<NotifyRecipient> = Vec::new();
    for node in nodes {
        let Some(recipient) = read_recipient(node, cx) else { continue };
        match recipients.iter().any(|known| known.name == recipient.name) {
            true => {
                let message = format!("two entries of `notify` are named `{}`", recipient.name);
                let hint = "give each a unique `name`: forge tracks sent notifications by name";
                cx.push_diag(Diag::error(DiagCode::BadValue, message).with_span(node.span).hint(hint));
            }
            false => recipients.push(recipient),
        }
    }
    recipients
}

fn read_recipient(node: &YamlNode, cx: &mut LoadContext<'_>) -> Option<NotifyRecipient> {
    let table = YamlTable::open(node, "an entry of `notify`", &KEYS, &mut cx.diags)?;
    let mut named = table.entries_named(&SERVICES);
    let service = match (named.next(), named.next()) {
        (Some((key, node)), None) => read_service(&key.text, node, cx),
        (found, _) => {
            let (code, message) = match found {
                None => (DiagCode::MissingKey, "an entry of `notify` needs a service"),
                Some(_) => (DiagCode::Exclusive, "an entry of `notify` has one service, not several"),
            };
            let hint = "write one of `webhook`, `slack`, `feishu`, `dingtalk`, `wecom` and `email`";
            cx.push_diag(Diag::error(code, message).with_span(node.span).hint(hint));
            None
        }
    };
    let name = table.get("name").map(|node| read_recipient_name(node, cx));
    let service = service?;
    let name = name.unwrap_or_else(|| Some(service.name().to_owned()))?;
    Some(NotifyRecipient { name, service })
}

fn read_recipient_name(node: &YamlNode, cx: &mut LoadContext<'_>) -> Option<String> {
    let text = yaml_table::expect_text(node, "name", &mut cx.diags)?;
    let fits = !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c));
    if !fits {
        let message = format!(
            "`name` may contain only letters, digits, `-`, `_` and `.`, found `{}`",
            scalar::shorten_text(&text)
        );
        cx.push_diag(Diag::error(DiagCode::BadValue, message).with_span(node.span));
    }
    fits.then_some(text)
}

fn read_service(name: &str, node: &YamlNode, cx: &mut LoadContext<'_>) -> Option<NotifyService> {
    match name {
        "webhook" => {
            let table = open_service(node, "`webhook`", &WEBHOOK_KEYS, cx)?;
            let (url, token) = (read_url(&table, cx), read_optional_secret(&table, "token", cx));
            Some(NotifyService::Webhook { url: url?, token: token? })
        }
        "slack" => Some(NotifyService::Slack { url: read_chat_url(node, "`slack`", cx)? }),
        "wecom" => Some(NotifyService::WeCom { url: read_chat_url(node, "`wecom`", cx)? }),
        "feishu" => read_signed_chat(node, "`feishu`", cx).map(|(url, secret)| NotifyService::Feishu { url, secret }),
        "dingtalk" => {
            read_signed_chat(node, "`dingtalk`", cx).map(|(url, secret)| NotifyService::DingTalk { url, secret })
        }
        _ => read_email(node, cx),
    }
}

/// Opens the map of a service with a URL. A URL in its place is a common slip, and a secret in the inventory.
fn open_service<'n>(
    node: &'n YamlNode,
    what: &'static str,
    keys: &[&str],
    cx: &mut LoadContext<'_>,
) -> Option<YamlTable<'n>> {
    let table = YamlTable::open(node, what, keys, &mut cx.diags);
    if table.is_none()
        && let Some(diag) = cx.diags.0.last_mut()
    {
        let key = what.trim_matches('`');
        diag.hint =
            Some(format!("write `{key}: {{ url: {{ env: NAME }} }}`: the URL is a secret, read from a variable"));
    }
    table
}

fn read_chat_url(node: &YamlNode, what: &'static str, cx: &mut LoadContext<'_>) -> Option<DeferredSecret> {
    read_url(&open_service(node, what, &CHAT_KEYS, cx)?, cx)
}

fn read_signed_chat(
    node: &YamlNode,
    what: &'static str,
    cx: &mut LoadContext<'_>,
) -> Option<(DeferredSecret, Option<DeferredSecret>)> {
    let table = open_service(node, what, &SIGNED_KEYS, cx)?;
    let (url, secret) = (read_url(&table, cx), read_optional_secret(&table, "secret", cx));
    Some((url?, secret?))
}

/// Parses the URL as a secret: anyone who has it can post to the channel.
fn read_url(table: &YamlTable<'_>, cx: &mut LoadContext<'_>) -> Option<DeferredSecret> {
    let node = table.require_value("url", &mut cx.diags)?;
    cx.read_deferred_secret(node, "`url`")
}

/// Parses an optional secret. Returns `None` if it is invalid.
fn read_optional_secret(table: &YamlTable<'_>, key: &str, cx: &mut LoadContext<'_>) -> Option<Option<DeferredSecret>> {
    match table.get(key) {
        None => Some(None),
        Some(node) => cx.read_deferred_secret(node, &yaml_table::quote_key(key)).map(Some),
    }
}

fn read_email(node: &YamlNode, cx: &mut LoadContext<'_>) -> Option<NotifyService> {
    let table = YamlTable::open(node, "`email`", &EMAIL_KEYS, &mut cx.diags)?;
    table.require_value("to", &mut cx.diags)?;
    let to: Vec<Option<String>> =
        table.get_items("to", &mut cx.diags).into_iter().map(|node| read_mail_address(node, "to", cx)).collect();
    let from = table.get("from").map(|node| read_mail_address(node, "from", cx));
    let transport = read_mail_transport(&table, cx);
    let to: Vec<String> = to.into_iter().collect::<Option<_>>()?;
    if to.is_empty() {
        cx.push_diag(
            Diag::error(DiagCode::MissingKey, "`to` is empty")
                .with_span(node.span)
                .hint("write `to: [ops@example.com]`"),
        );
        return None;
    }
    Some(NotifyService::Email { to, from: from.map_or(Some(None), |from| from.map(Some))?, transport: transport? })
}

fn read_mail_transport(table: &YamlTable<'_>, cx: &mut LoadContext<'_>) -> Option<MailTransport> {
    let Some(node) = table.get("smtp") else { return read_sendmail_path(table, cx).map(MailTransport::Sendmail) };
    if table.get("sendmail").is_some() {
        let diag = Diag::error(DiagCode::Exclusive, "`sendmail` and `smtp` exclude each other").with_span(node.span);
        cx.push_diag(diag.hint("remove `smtp` to send by the program, or `sendmail` to send to the server"));
        return None;
    }
    if table.get("from").is_none() {
        let diag = Diag::error(DiagCode::MissingKey, "`smtp` needs the `from` of the mail").with_span(node.span);
        cx.push_diag(diag.hint("write `from: forge@example.com`, an address that the server accepts as the sender"));
        return None;
    }
    smtp::read_smtp_server(node, cx).map(MailTransport::Smtp)
}

/// Parses an email address. It is written verbatim into a message header, so characters that end or split a header are
/// rejected.
fn read_mail_address(node: &YamlNode, key: &str, cx: &mut LoadContext<'_>) -> Option<String> {
    let text = yaml_table::expect_text(node, key, &mut cx.diags)?;
    let plain = |c: char| c.is_ascii_graphic() && !"<>,;:\"()[]\\".contains(c);
    let fits = text.chars().all(plain)
        && text.split_once('@').is_some_and(|(user, host)| !user.is_empty() && !host.is_empty() && !host.contains('@'));
    if !fits {
        let message =
            format!("{} must be an email address, found `{}`", yaml_table::quote_key(key), scalar::shorten_text(&text));
        let hint = "write it like `ops@example.com`, without a display name";
        cx.push_diag(Diag::error(DiagCode::BadValue, message).with_span(node.span).hint(hint));
    }
    fits.then_some(text)
}

/// Parses `sendmail`. The program runs on this machine, so any path but the default requires trust.
fn read_sendmail_path(table: &YamlTable<'_>, cx: &mut LoadContext<'_>) -> Option<Utf8PathBuf> {
    let Some(node) = table.get("sendmail") else { return Some(SENDMAIL.into()) };
    let text = yaml_table::expect_text(node, "sendmail", &mut cx.diags)?;
    if !text.starts_with('/') {
        let message = format!("`sendmail` must be an absolute path, found `{}`", scalar::shorten_text(&text));
        cx.push_diag(Diag::error(DiagCode::BadValue, message).with_span(node.span));
        return None;
    }
    if text != SENDMAIL && !cx.options.trust {
        let message =
            format!("`sendmail` names a program that runs on this machine: `{}`", scalar::shorten_text(&text));
        let hint = "pass `--trust` if you trust this inventory as you trust a script";
        cx.push_diag(Diag::error(DiagCode::NeedsTrust, message).with_span(node.span).hint(hint));
    }
    Some(text.into())
}
