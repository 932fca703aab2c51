//! Parses `kubernetes:`, the API of the cluster that the hosts belong to.

use super::hosts::RawHost;
use crate::config::YamlNode;
use crate::config::load_context::LoadContext;
use crate::config::yaml_table::{self, YamlTable};
use crate::diag::{Diag, DiagCode};
use crate::model::HostName;
use crate::object::{ClusterAccess, DEFAULT_NAMESPACE};
use camino::Utf8PathBuf;
use indexmap::IndexMap;

/// Keys of `kubernetes`.
pub(in crate::config) const KEYS: [&str; 5] = ["kubeconfig", "context", "via", "namespace", "retry"];

/// Seconds for which requests are retried by default.
pub(super) const DEFAULT_RETRY_S: u64 = 20;
/// Longer, and another run could take the cluster's lock, which expires after 30 seconds without renewal.
const MAX_RETRY_S: u64 = 25;

/// Parses the access to the API. The kubeconfig and the context are required: defaults would come from the environment
/// of the user that runs forge.
pub(super) fn read_kubernetes_access(
    node: &YamlNode,
    hosts: &IndexMap<String, RawHost>,
    cx: &mut LoadContext<'_>,
) -> Option<ClusterAccess> {
    let table = YamlTable::open(node, "`kubernetes`", &KEYS, &mut cx.diags)?;
    let via = table.get("via").and_then(|node| read_via_host(node, hosts, cx));
    let path = table.require_value("kubeconfig", &mut cx.diags);
    let kubeconfig = path.and_then(|node| {
        if table.get("via").is_some() { read_remote_kubeconfig(node, cx) } else { read_local_kubeconfig(node, cx) }
    });
    let context = table.require_value("context", &mut cx.diags).and_then(|node| read_context(node, cx));
    let namespace = match table.get("namespace") {
        Some(node) => read_namespace(node, cx),
        None => Some(DEFAULT_NAMESPACE.to_owned()),
    };
    Some(ClusterAccess {
        kubeconfig: kubeconfig?,
        context: context?,
        trusted: cx.options.trust,
        via,
        withheld: Default::default(),
        namespace: namespace?,
        retry_s: table.get("retry").map_or(Some(DEFAULT_RETRY_S), |node| read_retry(node, cx))?,
    })
}

fn read_retry(node: &YamlNode, cx: &mut LoadContext<'_>) -> Option<u64> {
    let seconds = yaml_table::expect_duration(node, "retry", &mut cx.diags)?;
    if seconds <= MAX_RETRY_S {
        return Some(seconds);
    }
    let diag =
        Diag::error(DiagCode::BadConnect, format!("`retry` is longer than {MAX_RETRY_S} s")).with_span(node.span);
    cx.push_diag(diag.hint("the lock of the cluster expires after 30 s: then another run may write"));
    None
}

fn read_via_host(node: &YamlNode, hosts: &IndexMap<String, RawHost>, cx: &mut LoadContext<'_>) -> Option<HostName> {
    let name = yaml_table::expect_text(node, "via", &mut cx.diags)?;
    if !hosts.contains_key(&name) {
        let diag = Diag::error(DiagCode::BadConnect, format!("host `{name}` not found")).with_span(node.span);
        cx.push_diag(diag.suggest_name(&name, hosts.keys().map(String::as_str)));
    }
    Some(HostName::new(&name))
}

/// Parses a path on the host of `via`.
fn read_remote_kubeconfig(node: &YamlNode, cx: &mut LoadContext<'_>) -> Option<Utf8PathBuf> {
    let text = yaml_table::expect_text(node, "kubeconfig", &mut cx.diags)?;
    if text.starts_with('/') && !text.chars().any(char::is_control) {
        return Some(Utf8PathBuf::from(text));
    }
    let diag = Diag::error(DiagCode::BadConnect, "with `via`, `kubeconfig` must be an absolute path on that host");
    cx.push_diag(diag.with_span(node.span).hint("write it like `/etc/kubernetes/admin.conf`"));
    None
}

pub(super) fn read_local_kubeconfig(node: &YamlNode, cx: &mut LoadContext<'_>) -> Option<Utf8PathBuf> {
    let text = yaml_table::expect_text(node, "kubeconfig", &mut cx.diags)?;
    let home = text.strip_prefix("~/").map(|rest| (rest, cx.options.read_variable("HOME").unwrap_or_default()));
    let problem = match &home {
        _ if text.is_empty() || text.chars().any(char::is_control) => "`kubeconfig` is not a valid path",
        Some((_, home)) if home.is_empty() => "`kubeconfig` starts with `~`, but `HOME` is not set",
        None if text.starts_with('~') => "`kubeconfig` is in another user's home directory",
        _ => {
            let path = home.map_or_else(|| cx.root.join(&text), |(rest, home)| Utf8PathBuf::from(home).join(rest));
            return Some(path);
        }
    };
    cx.push_diag(
        Diag::error(DiagCode::BadConnect, problem).with_span(node.span).hint("write it like `~/.kube/config`"),
    );
    None
}

pub(super) fn read_namespace(node: &YamlNode, cx: &mut LoadContext<'_>) -> Option<String> {
    let name = yaml_table::expect_text(node, "namespace", &mut cx.diags)?;
    if is_dns_label(&name) {
        return Some(name);
    }
    let diag = Diag::error(DiagCode::BadConnect, format!("invalid namespace `{name}`")).with_span(node.span);
    cx.push_diag(diag.hint("use up to 63 lowercase letters, digits and `-`, like `forge-provisioner`"));
    None
}

/// Reports whether the API accepts `name` as a namespace name (RFC 1123 label).
pub(super) fn is_dns_label(name: &str) -> bool {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let edges = name.starts_with('-') || name.ends_with('-');
    (1..=63).contains(&name.len()) && name.chars().all(plain) && !edges
}

pub(super) fn read_context(node: &YamlNode, cx: &mut LoadContext<'_>) -> Option<String> {
    let name = yaml_table::expect_text(node, "context", &mut cx.diags)?;
    if name.is_empty() {
        let diag = Diag::error(DiagCode::BadConnect, "`context` is empty").with_span(node.span);
        cx.push_diag(diag.hint("name a context of the kubeconfig; forge does not use its current context"));
        return None;
    }
    Some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn namespace_names_must_be_dns_labels() {
        let longest = "n".repeat(63);
        for name in ["forge-provisioner", "a", "1a", longest.as_str()] {
            assert!(is_dns_label(name), "{name}");
        }
        let too_long = "n".repeat(64);
        for name in ["", "-a", "a-", "Forge", "a.b", "a_b", "a b", "ä", too_long.as_str()] {
            assert!(!is_dns_label(name), "{name}");
        }
    }
}
