//! Parses `hosts:` and expands ranges in names and addresses.

use super::connect::{self, SpannedConnectSettings};
use super::range::RangePattern;
use super::vars::{RawVars, read_vars};
use crate::config::identifier::is_address;
use crate::config::load_context::LoadContext;
use crate::config::yaml_table::{self, YamlTable};
use crate::config::{YamlData, YamlKey, YamlNode};
use crate::diag::{Diag, DiagCode, Span};
use indexmap::IndexMap;
use std::rc::Rc;

/// Limit of hosts per inventory.
const MAX_HOSTS: usize = 200_000;

/// A parsed host. Hosts expanded from one range share variables and settings.
pub(in crate::config) struct RawHost {
    pub span: Span,
    pub address: Option<String>,
    pub vars: Rc<RawVars>,
    pub connect: Rc<SpannedConnectSettings>,
}

pub(super) fn read_hosts(node: Option<&YamlNode>, cx: &mut LoadContext<'_>) -> IndexMap<String, RawHost> {
    let mut hosts = IndexMap::new();
    let Some(node) = node else { return hosts };
    match &node.data {
        // Parsing stops at the host limit: one pattern may expand to thousands of hosts.
        YamlData::Map(entries) => _ = entries.iter().all(|(key, node)| add_entry(key, node, &mut hosts, cx)),
        YamlData::Seq(items) => _ = items.iter().all(|item| add_name(item, &mut hosts, cx)),
        _ => cx.push_diag(yaml_table::build_wrong_type_diag(node, "`hosts`", "a map or a list of names")),
    }
    hosts
}

/// Adds one item of a plain list of names.
fn add_name(item: &YamlNode, hosts: &mut IndexMap<String, RawHost>, cx: &mut LoadContext<'_>) -> bool {
    let Some(text) = yaml_table::expect_text(item, "hosts", &mut cx.diags) else { return true };
    let nothing = YamlNode { span: item.span, data: YamlData::Null };
    add_entry(&YamlKey { text, span: item.span }, &nothing, hosts, cx)
}

/// Adds the hosts of one entry. Returns false if the host limit is exceeded.
fn add_entry(key: &YamlKey, node: &YamlNode, hosts: &mut IndexMap<String, RawHost>, cx: &mut LoadContext<'_>) -> bool {
    let Some(names) = expand_names(key, cx) else { return true };
    if hosts.len() + names.len() > MAX_HOSTS {
        let message = format!("the inventory has more than {MAX_HOSTS} hosts");
        cx.push_diag(
            Diag::error(DiagCode::BadRange, message).with_span(key.span).hint("split it into several inventories"),
        );
        return false;
    }
    let body = read_host_body(node, cx);
    let addresses = body.address.as_ref().and_then(|(text, span)| expand_addresses(text, *span, key, names.len(), cx));
    for (at, name) in names.into_iter().enumerate() {
        let address = addresses.as_ref().map(|all| all[at].clone());
        let host = RawHost { span: key.span, address, vars: body.vars.clone(), connect: body.connect.clone() };
        insert_host(name, host, hosts, cx);
    }
    true
}

fn insert_host(name: String, host: RawHost, hosts: &mut IndexMap<String, RawHost>, cx: &mut LoadContext<'_>) {
    match hosts.get(&name) {
        // One report per pair of locations: two overlapping ranges would repeat it for every host.
        Some(first) if is_reported(first.span, host.span, cx) => {}
        Some(first) => {
            let diag =
                Diag::error(DiagCode::Duplicate, format!("host `{name}` is declared twice")).with_span(host.span);
            cx.push_diag(diag.label("declared again here").with_other_span(first.span, "first declared here"));
        }
        None => {
            hosts.insert(name, host);
        }
    }
}

fn is_reported(first: Span, again: Span, cx: &LoadContext<'_>) -> bool {
    let same = |diag: &Diag| {
        diag.code == DiagCode::Duplicate
            && diag.span == Some(again)
            && diag.others.iter().any(|(span, _)| *span == first)
    };
    cx.diags.0.iter().rev().take(8).any(same)
}

fn expand_names(key: &YamlKey, cx: &mut LoadContext<'_>) -> Option<Vec<String>> {
    let names = match RangePattern::parse(&key.text) {
        Ok(pattern) => pattern.expand(),
        Err(why) => {
            cx.push_diag(Diag::error(DiagCode::BadRange, format!("host `{}`: {why}", key.text)).with_span(key.span));
            return None;
        }
    };
    if let Some(bad) = names.iter().find(|name| !super::is_label(name)) {
        let diag = Diag::error(DiagCode::BadValue, format!("`{bad}` is not a valid host name")).with_span(key.span);
        cx.push_diag(diag.hint("use letters, digits, `.`, `_` and `-`, starting with a letter or digit"));
        return None;
    }
    if let Some(word) = names.iter().find(|name| *name == "all") {
        cx.push_diag(
            Diag::error(DiagCode::BadValue, format!("host name `{word}` is reserved: it selects every host"))
                .with_span(key.span),
        );
        return None;
    }
    Some(names)
}

#[derive(Default)]
struct HostBody {
    address: Option<(String, Span)>,
    vars: Rc<RawVars>,
    connect: Rc<SpannedConnectSettings>,
}

fn read_host_body(node: &YamlNode, cx: &mut LoadContext<'_>) -> HostBody {
    if matches!(node.data, YamlData::Null) {
        return HostBody::default();
    }
    let Some(table) = YamlTable::open(node, "a host", &["address", "vars", "connect"], &mut cx.diags) else {
        return HostBody::default();
    };
    let address =
        table.get_text("address", &mut cx.diags).zip(table.get("address")).map(|(text, node)| (text, node.span));
    HostBody {
        address,
        vars: read_vars(table.get("vars"), cx),
        connect: connect::read_optional_connect(table.get("connect"), cx),
    }
}

/// Returns one address per name: a range in the address expands in step with the range in the name.
fn expand_addresses(
    text: &str,
    span: Span,
    key: &YamlKey,
    count: usize,
    cx: &mut LoadContext<'_>,
) -> Option<Vec<String>> {
    let found = match RangePattern::parse(text) {
        Ok(pattern) => pattern.expand(),
        Err(why) => {
            cx.push_diag(Diag::error(DiagCode::BadRange, format!("address `{text}`: {why}")).with_span(span));
            return None;
        }
    };
    if found.len() != count {
        let message = format!(
            "`{}` expands to {}, but `{text}` expands to {}",
            key.text,
            format_count(count, "host", "hosts"),
            format_count(found.len(), "address", "addresses")
        );
        cx.push_diag(
            Diag::error(DiagCode::BadRange, message)
                .with_span(span)
                .with_other_span(key.span, format_count(count, "host", "hosts")),
        );
        return None;
    }
    if let Some(bad) = found.iter().find(|address| !is_address(address)) {
        cx.push_diag(Diag::error(DiagCode::BadConnect, format!("`{bad}` is not a valid address")).with_span(span));
        return None;
    }
    if let Some((host, port)) = found.iter().find_map(|address| split_port(address)) {
        let diag = Diag::error(DiagCode::BadConnect, format!("address `{host}:{port}` contains a port"));
        let hint = format!("write the port into `connect`: `{{ address: {host}, connect: {{ port: {port} }} }}`");
        cx.push_diag(diag.with_span(span).hint(hint));
        return None;
    }
    Some(found)
}

/// Splits `10.0.0.1:22`. An IPv6 address has more than one colon.
fn split_port(address: &str) -> Option<(&str, u16)> {
    let (host, port) = address.split_once(':')?;
    let port = port.parse().ok().filter(|_| !host.is_empty())?;
    Some((host, port))
}

fn format_count(count: usize, one: &str, more: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { more })
}
