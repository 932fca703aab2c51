//! Parses `connect:` of the inventory, a group or a host. Layers are merged key by key.

use super::connect_keys::KEYS;
use crate::config::identifier::is_address;
use crate::config::load_context::LoadContext;
use crate::config::yaml_table::{self, YamlTable};
use crate::config::{ConnectSettings, HostKeyPolicy, SudoMode, TransportKind, YamlData, YamlNode, scalar};
use crate::diag::{Diag, DiagCode, Span};
use crate::model::{BOARDS, HardwareBoard};
use camino::Utf8PathBuf;
use indexmap::IndexMap;
use std::rc::Rc;

/// One connection setting.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::config) enum ConnectSetting {
    User(String),
    Identity(Utf8PathBuf),
    Port(u16),
    Config(Utf8PathBuf),
    KnownHosts(Utf8PathBuf),
    Jump(Vec<String>),
    HostKey(HostKeyPolicy),
    Sudo(SudoMode),
    Transport(TransportKind),
    Hardware(HardwareBoard),
    Timeout(u64),
    Keep(u64),
}

/// Settings by key, each with its location.
pub(in crate::config) type SpannedConnectSettings = IndexMap<&'static str, (ConnectSetting, Span)>;

/// Returns a connection with default settings.
pub(super) fn default_connect(address: String) -> ConnectSettings {
    ConnectSettings { address, ..ConnectSettings::default() }
}

/// Applies `setting` to `connect`.
pub(super) fn apply_setting(connect: &mut ConnectSettings, setting: &ConnectSetting) {
    match setting.clone() {
        ConnectSetting::User(user) => connect.user = Some(user),
        ConnectSetting::Identity(path) => connect.identity = Some(path),
        ConnectSetting::Port(port) => connect.port = Some(port),
        ConnectSetting::Config(path) => connect.config = Some(path),
        ConnectSetting::KnownHosts(path) => connect.known_hosts = Some(path),
        ConnectSetting::Jump(hops) => connect.jump = hops,
        ConnectSetting::HostKey(policy) => connect.host_key = policy,
        ConnectSetting::Sudo(sudo) => connect.sudo = sudo,
        ConnectSetting::Transport(kind) => connect.transport = kind,
        ConnectSetting::Hardware(board) => connect.hardware = Some(board),
        ConnectSetting::Timeout(seconds) => connect.timeout_s = seconds,
        ConnectSetting::Keep(seconds) => connect.keep_s = seconds,
    }
}

pub(super) fn read_optional_connect(node: Option<&YamlNode>, cx: &mut LoadContext<'_>) -> Rc<SpannedConnectSettings> {
    Rc::new(node.map(|node| read_connect(node, cx)).unwrap_or_default())
}

fn read_connect(node: &YamlNode, cx: &mut LoadContext<'_>) -> SpannedConnectSettings {
    let mut settings = SpannedConnectSettings::new();
    let Some(table) = YamlTable::open(node, "`connect`", &KEYS, &mut cx.diags) else {
        return settings;
    };
    if let Some(key) = table.find_key("address") {
        cx.push_diag(
            Diag::error(DiagCode::UnknownKey, "`address` belongs to the host, not to `connect`").with_span(key.span),
        );
    }
    for key in KEYS {
        let Some(node) = table.get(key) else { continue };
        if let Some((name, setting)) = read_setting(key, node, cx) {
            let before = settings.insert(name, (setting, node.span));
            if let Some((_, first)) = before {
                let diag = Diag::error(DiagCode::Exclusive, "`transport` and `command` exclude each other")
                    .with_span(node.span);
                cx.push_diag(diag.with_other_span(first, "the other key is here"));
            }
        }
    }
    settings
}

fn read_setting(
    key: &'static str,
    node: &YamlNode,
    cx: &mut LoadContext<'_>,
) -> Option<(&'static str, ConnectSetting)> {
    let setting = match key {
        "user" => ConnectSetting::User(read_user(node, cx)?),
        "identity" => ConnectSetting::Identity(read_path(node, key, cx)?),
        "known_hosts" => ConnectSetting::KnownHosts(read_path(node, key, cx)?),
        "config" => ConnectSetting::Config(read_ssh_config(node, cx)?),
        "port" => ConnectSetting::Port(yaml_table::expect_int(node, key, 1, 65_535, &mut cx.diags)?.try_into().ok()?),
        "jump" => ConnectSetting::Jump(read_jump_hosts(node, cx)?),
        "host_key" => ConnectSetting::HostKey(read_host_key_policy(node, cx)?),
        "sudo" => ConnectSetting::Sudo(read_sudo(node, cx)?),
        "transport" => ConnectSetting::Transport(read_transport(node, cx)?),
        "command" => return Some(("transport", ConnectSetting::Transport(read_command(node, cx)?))),
        "hardware" => ConnectSetting::Hardware(read_hardware(node, cx)?),
        "timeout" => ConnectSetting::Timeout(yaml_table::expect_limit(node, key, &mut cx.diags)?),
        "keep" => ConnectSetting::Keep(yaml_table::expect_duration(node, key, &mut cx.diags)?),
        _ => return None,
    };
    Some((key, setting))
}

fn read_user(node: &YamlNode, cx: &mut LoadContext<'_>) -> Option<String> {
    let user = yaml_table::expect_text(node, "user", &mut cx.diags)?;
    match scalar::is_name(&user) {
        true => Some(user),
        false => {
            cx.push_diag(
                Diag::error(DiagCode::BadConnect, format!("`{user}` is not a valid user name")).with_span(node.span),
            );
            None
        }
    }
}

/// Parses a path on the controller: absolute, under `~`, or relative to the inventory's folder.
fn read_path(node: &YamlNode, key: &str, cx: &mut LoadContext<'_>) -> Option<Utf8PathBuf> {
    let text = yaml_table::expect_text(node, key, &mut cx.diags)?;
    if text.is_empty() || text.chars().any(char::is_control) || text.starts_with('-') {
        cx.push_diag(Diag::error(DiagCode::BadConnect, format!("`{key}` is not a valid path")).with_span(node.span));
        return None;
    }
    Some(if text.starts_with('~') { Utf8PathBuf::from(text) } else { cx.root.join(text) })
}

/// Parses the path of an ssh configuration. It can run programs (`ProxyCommand`, `Match exec`): a file in the
/// inventory's folder requires trust, the user's own does not.
fn read_ssh_config(node: &YamlNode, cx: &mut LoadContext<'_>) -> Option<Utf8PathBuf> {
    let path = read_path(node, "config", cx)?;
    let comes_along = !path.starts_with("~")
        && path.canonicalize_utf8().map_or(path.starts_with(&cx.root), |path| path.starts_with(&cx.root));
    if comes_along && !cx.options.trust {
        cx.push_diag(build_trust_diag(
            "an ssh configuration of the inventory can run programs on this machine",
            node.span,
        ));
    }
    Some(path)
}

fn build_trust_diag(message: &str, span: Span) -> Diag {
    Diag::error(DiagCode::NeedsTrust, message)
        .with_span(span)
        .hint("pass `--trust` if you trust this inventory as you trust a script")
}

fn read_jump_hosts(node: &YamlNode, cx: &mut LoadContext<'_>) -> Option<Vec<String>> {
    let hops: Vec<String> = match &node.data {
        YamlData::Seq(items) => {
            items.iter().filter_map(|item| yaml_table::expect_text(item, "jump", &mut cx.diags)).collect()
        }
        _ => {
            yaml_table::expect_text(node, "jump", &mut cx.diags)?.split(',').map(|hop| hop.trim().to_owned()).collect()
        }
    };
    let usable = |hop: &String| match hop.split_once('@') {
        Some((user, host)) => scalar::is_name(user) && is_address(host),
        None => is_address(hop),
    };
    match hops.iter().find(|hop| !usable(hop)) {
        Some(bad) => {
            cx.push_diag(
                Diag::error(DiagCode::BadConnect, format!("`{bad}` is not a valid jump host"))
                    .with_span(node.span)
                    .hint("write it like `user@host:22`"),
            );
            None
        }
        None => Some(hops),
    }
}

fn read_host_key_policy(node: &YamlNode, cx: &mut LoadContext<'_>) -> Option<HostKeyPolicy> {
    let text = yaml_table::expect_text(node, "host_key", &mut cx.diags)?;
    match text.as_str() {
        "strict" => Some(HostKeyPolicy::Strict),
        "accept_new" => Some(HostKeyPolicy::AcceptNew),
        _ => {
            cx.push_diag(build_choice_diag(&text, "host_key", &["strict", "accept_new"], node.span));
            None
        }
    }
}

fn build_choice_diag(text: &str, key: &str, known: &[&str], span: Span) -> Diag {
    let diag = Diag::error(DiagCode::BadValue, format!("invalid value `{text}` for `{key}`")).with_span(span);
    diag.suggest_name(text, known.iter().copied())
}

fn read_sudo(node: &YamlNode, cx: &mut LoadContext<'_>) -> Option<SudoMode> {
    if let YamlData::Scalar { text, .. } = &node.data
        && scalar::guess_bool(text).is_none()
    {
        // It may be the password.
        let diag = Diag::error(DiagCode::WrongType, "`sudo` must be `true` or `false`, or have the key `password`");
        cx.push_diag(diag.with_span(node.span).hiding(node.span));
        return None;
    }
    if !matches!(node.data, YamlData::Map(_)) {
        let on = yaml_table::expect_bool(node, "sudo", &mut cx.diags)?;
        return Some(if on { SudoMode::NoPassword } else { SudoMode::None });
    }
    let table = YamlTable::open(node, "`sudo`", &["password"], &mut cx.diags)?;
    let password = table.require_value("password", &mut cx.diags)?;
    cx.read_secret(password, "the sudo password").map(SudoMode::Password)
}

fn read_transport(node: &YamlNode, cx: &mut LoadContext<'_>) -> Option<TransportKind> {
    let text = yaml_table::expect_text(node, "transport", &mut cx.diags)?;
    match text.as_str() {
        "ssh" => Some(TransportKind::Ssh),
        "local" => Some(TransportKind::Local),
        "sandbox" => Some(TransportKind::Sandbox),
        _ => {
            cx.push_diag(build_choice_diag(&text, "transport", &["ssh", "local", "sandbox"], node.span));
            None
        }
    }
}

/// Parses the board whose cards a sandbox simulates.
fn read_hardware(node: &YamlNode, cx: &mut LoadContext<'_>) -> Option<HardwareBoard> {
    let name = yaml_table::expect_text(node, "hardware", &mut cx.diags)?;
    let board = BOARDS.into_iter().find(|board| board.name == name);
    if board.is_none() {
        cx.push_diag(build_choice_diag(&name, "hardware", &BOARDS.map(|board| board.name), node.span));
    }
    board
}

fn read_command(node: &YamlNode, cx: &mut LoadContext<'_>) -> Option<TransportKind> {
    let items = yaml_table::expect_items(node, "command", &mut cx.diags);
    let words: Vec<String> =
        items.into_iter().filter_map(|item| yaml_table::expect_text(item, "command", &mut cx.diags)).collect();
    if words.is_empty() {
        cx.push_diag(Diag::error(DiagCode::BadConnect, "`command` needs a program").with_span(node.span));
        return None;
    }
    if !cx.options.trust {
        cx.push_diag(build_trust_diag(
            &format!("the transport `{}` runs a program on this machine", words[0]),
            node.span,
        ));
    }
    Some(TransportKind::Command(words))
}
