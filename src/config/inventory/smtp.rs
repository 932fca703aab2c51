//! Parses `smtp`: the mail server of a recipient.

use crate::config::load_context::LoadContext;
use crate::config::notify::{SmtpLogin, SmtpServer};
use crate::config::scalar;
use crate::config::yaml_table::{self, YamlTable};
use crate::config::{DeferredSecret, YamlNode};
use crate::diag::{Diag, DiagCode};
use crate::model::SmtpEncryption;

/// Keys of `smtp`.
pub(in crate::config) const KEYS: [&str; 5] = ["host", "port", "user", "password", "tls"];
/// Values of `tls`.
pub(in crate::config) const TLS_MODES: [SmtpEncryption; 3] =
    [SmtpEncryption::StartTls, SmtpEncryption::Implicit, SmtpEncryption::None];

pub(super) fn read_smtp_server(node: &YamlNode, cx: &mut LoadContext<'_>) -> Option<SmtpServer> {
    let table = YamlTable::open(node, "`smtp`", &KEYS, &mut cx.diags)?;
    let host = table.require_value("host", &mut cx.diags).and_then(|node| read_host(node, cx));
    let port = table.get("port").map(|node| read_port(node, cx));
    let tls = table.get("tls").map(|node| read_tls(node, cx));
    let login = read_login(&table, cx);
    let (host, port, tls, login) = (host?, port.map_or(Some(None), |it| it.map(Some))?, tls, login?);
    let tls = match tls {
        Some(tls) => tls?,
        None => port.map_or(SmtpEncryption::StartTls, SmtpEncryption::of_port),
    };
    if login.is_some() && !tls.protects_password(&host) {
        let message = format!("`password` would be sent to `{host}` without encryption");
        let place = table.get("password").map_or(node.span, |node| node.span);
        let hint = "use `tls: starttls` or `tls: implicit`; only a server on this machine may do without";
        cx.push_diag(Diag::error(DiagCode::BadValue, message).with_span(place).hint(hint));
        return None;
    }
    Some(SmtpServer { host, port: port.unwrap_or_else(|| tls.default_port()), tls, login })
}

fn read_host(node: &YamlNode, cx: &mut LoadContext<'_>) -> Option<String> {
    let text = yaml_table::expect_text(node, "host", &mut cx.diags)?;
    let address = text.parse::<core::net::IpAddr>().is_ok();
    let name = !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c));
    if !address && !name {
        let message = format!("`host` must be a name or an IP address, found `{}`", scalar::shorten_text(&text));
        cx.push_diag(Diag::error(DiagCode::BadValue, message).with_span(node.span).hint("write it without a port"));
        return None;
    }
    Some(text)
}

fn read_port(node: &YamlNode, cx: &mut LoadContext<'_>) -> Option<u16> {
    yaml_table::expect_int(node, "port", 1, 65_535, &mut cx.diags)?.try_into().ok()
}

fn read_tls(node: &YamlNode, cx: &mut LoadContext<'_>) -> Option<SmtpEncryption> {
    let text = yaml_table::expect_text(node, "tls", &mut cx.diags)?;
    let found = TLS_MODES.into_iter().find(|mode| mode.as_str() == text);
    if found.is_none() {
        let message = format!("invalid value `{}` for `tls`", scalar::shorten_text(&text));
        let diag = Diag::error(DiagCode::BadValue, message).with_span(node.span);
        cx.push_diag(diag.suggest_name(&text, TLS_MODES.into_iter().map(SmtpEncryption::as_str)));
    }
    found
}

/// Parses `user` and `password`. Returns `None` if they are invalid.
fn read_login(table: &YamlTable<'_>, cx: &mut LoadContext<'_>) -> Option<Option<SmtpLogin>> {
    let user = table.get("user").map(|node| yaml_table::expect_text(node, "user", &mut cx.diags));
    let password: Option<Option<DeferredSecret>> =
        table.get("password").map(|node| cx.read_deferred_secret(node, "`password`"));
    match (user, password) {
        (None, None) => Some(None),
        (Some(user), Some(password)) => Some(Some(SmtpLogin { user: user?, password: password? })),
        (user, _) => {
            let (given, missing) = if user.is_some() { ("user", "password") } else { ("password", "user") };
            let place = table.find_key(given).map(|key| key.span);
            let diag = Diag::error(DiagCode::MissingKey, format!("`{given}` of `smtp` needs `{missing}`"));
            cx.push_diag(place.into_iter().fold(diag, Diag::with_span));
            None
        }
    }
}
