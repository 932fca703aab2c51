//! Parses `worker_pods`: where `--engine kubernetes` runs its workers.

use super::kubernetes::{DEFAULT_RETRY_S, read_context, read_local_kubeconfig, read_namespace};
use crate::config::YamlNode;
use crate::config::identifier::check_literal;
use crate::config::load_context::LoadContext;
use crate::config::scalar;
use crate::config::yaml_table::{self, YamlTable};
use crate::diag::{Diag, DiagCode};
use crate::model::Value;
use crate::object::{
    ClusterAccess, DEFAULT_NAMESPACE, OWN_CONTAINER_KEYS, OWN_POD_KEYS, WorkerPods, WorkerVolume, WorkerVolumeSource,
};
use camino::Utf8PathBuf;

/// Keys of `worker_pods`.
pub(in crate::config) const KEYS: [&str; 10] = [
    "kubeconfig",
    "context",
    "namespace",
    "image",
    "volume",
    "secrets",
    "start_within",
    "deadline",
    "pod",
    "container",
];
/// Keys of `worker_pods.volume`.
pub(in crate::config) const VOLUME_KEYS: [&str; 3] = ["path", "claim", "host_path"];

const DEFAULT_START_S: u64 = 300;

/// Parses the settings. Without a kubeconfig of its own, the API is that of `kubernetes`.
pub(super) fn read_worker_pods(
    node: &YamlNode,
    kubernetes: Option<&ClusterAccess>,
    cx: &mut LoadContext<'_>,
) -> Option<WorkerPods> {
    let table = YamlTable::open(node, "`worker_pods`", &KEYS, &mut cx.diags)?;
    let access = read_access(&table, kubernetes, cx);
    let image = table.require_value("image", &mut cx.diags).and_then(|node| read_filled_text(node, "image", cx));
    let volume = table.require_value("volume", &mut cx.diags).and_then(|node| read_volume(node, cx));
    let secrets = yaml_table::expect_entries(table.get("secrets"), "secrets", &mut cx.diags);
    let secrets: Vec<_> = secrets
        .iter()
        .map(|(key, node)| Some((key.text.clone(), read_absolute_path(node, "a folder of `secrets`", cx)?)))
        .collect();
    let start_within = match table.get("start_within") {
        Some(_) => table.get_limit("start_within", &mut cx.diags),
        None => Some(DEFAULT_START_S),
    };
    let deadline = table.get("deadline").map(|_| table.get_limit("deadline", &mut cx.diags));
    let pod = read_fields(table.get("pod"), "`pod`", &OWN_POD_KEYS, cx);
    let container = read_fields(table.get("container"), "`container`", &OWN_CONTAINER_KEYS, cx);
    Some(WorkerPods {
        access: access?,
        image: image?,
        volume: volume?,
        secrets: secrets.into_iter().collect::<Option<_>>()?,
        start_within_s: start_within?,
        deadline_s: deadline.map_or(Some(None), |limit| limit.map(Some))?,
        pod: pod?,
        container: container?,
    })
}

fn read_access(
    table: &YamlTable<'_>,
    kubernetes: Option<&ClusterAccess>,
    cx: &mut LoadContext<'_>,
) -> Option<ClusterAccess> {
    let namespace = match table.get("namespace") {
        Some(node) => read_namespace(node, cx),
        None => Some(DEFAULT_NAMESPACE.to_owned()),
    };
    // An API that is reached through a host has a kubeconfig on that host.
    let default = kubernetes.filter(|access| access.via.is_none());
    let kubeconfig = match (table.get("kubeconfig"), default) {
        (Some(node), _) => read_local_kubeconfig(node, cx),
        (None, Some(access)) => Some(access.kubeconfig.clone()),
        (None, None) => table.require_value("kubeconfig", &mut cx.diags).map(|_| Utf8PathBuf::new()),
    };
    let context = match (table.get("context"), default) {
        (Some(node), _) => read_context(node, cx),
        (None, Some(access)) => Some(access.context.clone()),
        (None, None) => table.require_value("context", &mut cx.diags).map(|_| String::new()),
    };
    Some(ClusterAccess {
        kubeconfig: kubeconfig?,
        context: context?,
        trusted: cx.options.trust,
        via: None,
        withheld: Default::default(),
        namespace: namespace?,
        retry_s: default.map_or(DEFAULT_RETRY_S, |access| access.retry_s),
    })
}

fn read_volume(node: &YamlNode, cx: &mut LoadContext<'_>) -> Option<WorkerVolume> {
    let table = YamlTable::open(node, "`volume`", &VOLUME_KEYS, &mut cx.diags)?;
    let path = table.require_value("path", &mut cx.diags).and_then(|node| read_absolute_path(node, "`path`", cx));
    let source = match (table.get("claim"), table.get("host_path")) {
        (Some(node), None) => read_filled_text(node, "claim", cx).map(WorkerVolumeSource::Claim),
        (None, Some(node)) => read_absolute_path(node, "`host_path`", cx).map(WorkerVolumeSource::HostPath),
        (claim, _) => {
            let (code, message) = match claim {
                Some(_) => (DiagCode::Exclusive, "`volume` has `claim` or `host_path`, not both"),
                None => (DiagCode::MissingKey, "`volume` needs `claim` or `host_path`"),
            };
            cx.push_diag(Diag::error(code, message).with_span(node.span));
            None
        }
    };
    Some(WorkerVolume { source: source?, path: path? })
}

pub(super) fn read_filled_text(node: &YamlNode, key: &str, cx: &mut LoadContext<'_>) -> Option<String> {
    let text = yaml_table::expect_text(node, key, &mut cx.diags)?;
    if !text.is_empty() && !text.chars().any(|c| c.is_control() || c.is_whitespace()) {
        return Some(text);
    }
    cx.push_diag(Diag::error(DiagCode::BadValue, format!("`{key}` is empty or contains spaces")).with_span(node.span));
    None
}

fn read_absolute_path(node: &YamlNode, what: &str, cx: &mut LoadContext<'_>) -> Option<Utf8PathBuf> {
    let text = yaml_table::expect_text(node, what.trim_matches('`'), &mut cx.diags)?;
    let path = Utf8PathBuf::from(&text);
    let plain = path.components().all(|part| !matches!(part, camino::Utf8Component::ParentDir));
    if path.is_absolute() && plain && path.parent().is_some() && !text.chars().any(char::is_control) {
        // Without `.` and a final `/`, so that paths below it are found.
        return Some(path.components().collect());
    }
    let diag = Diag::error(DiagCode::BadValue, format!("{what} must be an absolute path, found `{text}`"));
    cx.push_diag(diag.with_span(node.span).hint("write it like `/srv/forge`, without `..`"));
    None
}

/// Reads fields that go to the API unchanged, without those that forge sets.
fn read_fields(node: Option<&YamlNode>, what: &'static str, own: &[&str], cx: &mut LoadContext<'_>) -> Option<Value> {
    let Some(node) = node else { return Some(Value::Object(Default::default())) };
    check_literal(node, what, cx);
    let entries = yaml_table::expect_map(node, what, &mut cx.diags)?;
    let taken = entries.iter().find(|(key, _)| own.contains(&key.text.as_str()));
    if let Some((key, _)) = taken {
        let diag = Diag::error(DiagCode::BadValue, format!("{what} cannot set `{}`: forge sets it", key.text));
        cx.push_diag(diag.with_span(key.span));
        return None;
    }
    Some(scalar::node_to_value(node))
}
