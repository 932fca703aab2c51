//! Parses `launch` of an entry of `tests:`: how a collective starts if Kubernetes or Slurm owns the nodes.

use super::kubernetes::is_dns_label;
use super::slurm_launch::read_slurm_launch;
use super::test_definition::read_texts;
use super::worker_pods::read_filled_text;
use crate::config::load_context::LoadContext;
use crate::config::scalar;
use crate::config::test_suite::{TestDefinition, TestLaunch, TestOutput, TestPrograms};
use crate::config::yaml_table::{self, YamlTable};
use crate::config::{YamlData, YamlNode};
use crate::diag::{Diag, DiagCode, Span};
use crate::model::{HostName, Value};
use crate::object::{AdapterLink, GID_INDEX_VARIABLE, GPU_RESOURCE, TestJobKind, TestJobLaunch};
use std::collections::{BTreeMap, BTreeSet};

/// Keys of `launch`.
pub(in crate::config) const LAUNCH_KEYS: [&str; 2] = ["kubernetes", "slurm"];
/// Keys of `launch.kubernetes`.
pub(in crate::config) const JOB_KEYS: [&str; 15] = [
    "kind",
    "namespace",
    "image",
    "pull_secrets",
    "resources",
    "annotations",
    "env",
    "adapters",
    "link",
    "traffic_class",
    "interface",
    "host_network",
    "tolerations",
    "queue",
    "start_within",
];
const DEFAULT_START_S: u64 = 300;

/// What the inventory says about the cluster.
#[derive(Clone, Debug, Default)]
pub(in crate::config) struct LaunchCluster {
    /// Whether it has the key `kubernetes`.
    pub is_declared: bool,
    /// The group of the nodes and its hosts, if the rollout names it.
    pub nodes: Option<(String, BTreeSet<HostName>)>,
}

/// Reads `launch`; the test's own command if the entry has none, or a wrong one.
pub(super) fn read_launch(
    table: &YamlTable<'_>,
    (definition, parameters): (&TestDefinition, &BTreeMap<String, String>),
    (cluster, hosts): (&LaunchCluster, &[HostName]),
    cx: &mut LoadContext<'_>,
) -> TestLaunch {
    let Some(node) = table.get("launch") else { return TestLaunch::Command };
    let is_group = matches!(definition.programs, TestPrograms::Group(_));
    if !is_group || definition.output != TestOutput::Nccl {
        let message = format!(
            "`launch` needs a test of scope `group` and output `nccl`, and `{}` is another one",
            definition.name
        );
        cx.push_diag(Diag::error(DiagCode::BadValue, message).with_span(node.span));
        return TestLaunch::Command;
    }
    let Some(launch) = YamlTable::open(node, "`launch`", &LAUNCH_KEYS, &mut cx.diags) else {
        return TestLaunch::Command;
    };
    match (launch.get("kubernetes"), launch.get("slurm")) {
        (Some(node), None) => {
            check_cluster(node.span, cluster, hosts, cx);
            let Some(job) = read_job(node, cx) else { return TestLaunch::Command };
            check_job_test(&job, node.span, (definition, parameters), cx);
            TestLaunch::Kubernetes(Box::new(job))
        }
        (None, Some(node)) => {
            check_rank_command("launch.slurm", node.span, definition, cx);
            read_slurm_launch(node, cx).map_or(TestLaunch::Command, TestLaunch::Slurm)
        }
        (Some(_), Some(slurm)) => {
            let message = "a test starts in one way: declare `kubernetes` or `slurm`, not both";
            cx.push_diag(Diag::error(DiagCode::Exclusive, message).with_span(slurm.span));
            TestLaunch::Command
        }
        (None, None) => {
            // A misspelled key is already reported.
            if matches!(&node.data, YamlData::Map(entries) if entries.is_empty()) {
                let message = "`launch` says what starts the test, and is empty";
                let diag = Diag::error(DiagCode::MissingKey, message).with_span(node.span);
                cx.push_diag(diag.hint("declare `kubernetes: { … }` or `slurm: { … }`, or leave `launch` out for ssh"));
            }
            TestLaunch::Command
        }
    }
}

fn check_cluster(span: Span, cluster: &LaunchCluster, hosts: &[HostName], cx: &mut LoadContext<'_>) {
    if !cluster.is_declared {
        let message = "`launch.kubernetes` needs a cluster, but the inventory has no `kubernetes`";
        let diag = Diag::error(DiagCode::BadValue, message).with_span(span);
        cx.push_diag(diag.hint("add a cluster: `kubernetes: { kubeconfig: ~/.kube/config, context: NAME }`"));
    }
    let Some((group, nodes)) = &cluster.nodes else { return };
    if let Some(host) = hosts.iter().find(|host| !nodes.contains(*host)) {
        let message = format!("`{host}` is not a node: it is not in group `{group}` of `rollout.drain.kubernetes`");
        let diag = Diag::error(DiagCode::BadValue, message).with_span(span);
        cx.push_diag(diag.hint(format!("select nodes only, with `on: {group}`, or add the host to that group")));
    }
}

fn read_job(node: &YamlNode, cx: &mut LoadContext<'_>) -> Option<TestJobLaunch> {
    let table = YamlTable::open(node, "`launch.kubernetes`", &JOB_KEYS, &mut cx.diags)?;
    let kind = table.require_value("kind", &mut cx.diags).and_then(|node| read_kind(node, cx));
    let namespace = table.require_value("namespace", &mut cx.diags).and_then(|node| read_namespace(node, cx));
    let image = table.require_value("image", &mut cx.diags).and_then(|node| read_filled_text(node, "image", cx));
    let resources = table.require_value("resources", &mut cx.diags).map(|_| read_texts(&table, "resources", cx));
    let (annotations, env) = (read_texts(&table, "annotations", cx), read_texts(&table, "env", cx));
    let link = read_link(&table, cx);
    let job = TestJobLaunch {
        kind: kind?,
        namespace: namespace?,
        image: image?,
        pull_secrets: read_names(&table, "pull_secrets", cx),
        resources: resources?,
        annotations,
        env,
        adapters: read_names(&table, "adapters", cx),
        link,
        traffic_class: table.get_int("traffic_class", 0, 255, &mut cx.diags).and_then(|class| class.try_into().ok()),
        interface: table.get("interface").and_then(|node| read_filled_text(node, "interface", cx)),
        host_network: table.get_bool("host_network", &mut cx.diags).unwrap_or(false),
        tolerations: read_tolerations(&table, cx),
        queue: table.get("queue").and_then(|node| read_filled_text(node, "queue", cx)),
        start_within_s: table.get_limit("start_within", &mut cx.diags).unwrap_or(DEFAULT_START_S),
    };
    check_environment(&job, &table, cx);
    check_devices(&job, &table, cx);
    if let (Some(node), true) = (table.get("queue"), job.kind != TestJobKind::VolcanoJob) {
        let message = format!("`queue` is a queue of Volcano, and `kind` is `{}`", job.kind.name());
        cx.push_diag(Diag::error(DiagCode::Exclusive, message).with_span(node.span));
    }
    Some(job)
}

fn read_kind(node: &YamlNode, cx: &mut LoadContext<'_>) -> Option<TestJobKind> {
    let text = yaml_table::expect_text(node, "kind", &mut cx.diags)?;
    let found = TestJobKind::ALL.into_iter().find(|kind| kind.name() == text);
    if found.is_none() {
        let message = format!("unknown kind of a job: `{}`", scalar::shorten_text(&text));
        let diag = Diag::error(DiagCode::BadValue, message).with_span(node.span);
        let diag = diag.suggest_name(&text, TestJobKind::ALL.iter().map(|kind| kind.name()));
        cx.push_diag(diag.hint("the kinds are `MPIJob`, `PyTorchJob` and `VolcanoJob` (`Job` of Volcano)"));
    }
    found
}

fn read_namespace(node: &YamlNode, cx: &mut LoadContext<'_>) -> Option<String> {
    let name = yaml_table::expect_text(node, "namespace", &mut cx.diags)?;
    if is_dns_label(&name) {
        return Some(name);
    }
    let message = format!("invalid namespace `{}`", scalar::shorten_text(&name));
    let diag = Diag::error(DiagCode::BadValue, message).with_span(node.span);
    cx.push_diag(diag.hint("use up to 63 lowercase letters, digits and `-`"));
    None
}

fn read_link(table: &YamlTable<'_>, cx: &mut LoadContext<'_>) -> AdapterLink {
    let Some(node) = table.get("link") else { return AdapterLink::default() };
    let text = yaml_table::expect_text(node, "link", &mut cx.diags).unwrap_or_default();
    AdapterLink::ALL.into_iter().find(|link| link.name() == text).unwrap_or_else(|| {
        let message = format!("`link` must be `IB` or `RoCE`, found `{}`", scalar::shorten_text(&text));
        cx.push_diag(Diag::error(DiagCode::BadValue, message).with_span(node.span));
        AdapterLink::default()
    })
}

fn read_names(table: &YamlTable<'_>, key: &'static str, cx: &mut LoadContext<'_>) -> Vec<String> {
    let items = table.get_items(key, &mut cx.diags);
    items.into_iter().filter_map(|node| read_filled_text(node, key, cx)).collect()
}

fn read_tolerations(table: &YamlTable<'_>, cx: &mut LoadContext<'_>) -> Vec<Value> {
    let items = table.get_items("tolerations", &mut cx.diags);
    let read = |node: &YamlNode| {
        yaml_table::expect_map(node, "a toleration", &mut cx.diags).map(|_| scalar::node_to_value(node))
    };
    items.into_iter().filter_map(read).collect()
}

/// Applies the rules of the recipe `pytorch-job` to NCCL's variables.
fn check_environment(job: &TestJobLaunch, table: &YamlTable<'_>, cx: &mut LoadContext<'_>) {
    let place = |key: &str| table.get(key).map_or(table.span, |node| node.span);
    for (variable, key) in job.list_key_variables() {
        if job.env.contains_key(variable) {
            let message = format!("`{key}` sets `{variable}`, and `env` sets it too: declare only one of the two");
            cx.push_diag(Diag::error(DiagCode::Exclusive, message).with_span(place("env")));
        }
    }
    if job.env.contains_key("NCCL_DEBUG") {
        let message = "`env` cannot set `NCCL_DEBUG`: forge reads the network from NCCL's log, and sets `INFO`";
        cx.push_diag(Diag::error(DiagCode::BadValue, message).with_span(place("env")));
    }
    if job.link != AdapterLink::Ib {
        return;
    }
    if job.traffic_class.is_some() || job.env.contains_key("NCCL_IB_TC") {
        let key = if job.traffic_class.is_some() { "traffic_class" } else { "env" };
        let message = "the traffic class of NCCL is for RoCE: InfiniBand has service levels instead";
        cx.push_diag(Diag::error(DiagCode::BadValue, message).with_span(place(key)).hint("declare `link: RoCE`"));
    }
    if job.env.contains_key(GID_INDEX_VARIABLE) {
        let message = "`NCCL_IB_GID_INDEX` is for RoCE: on InfiniBand, another index than NCCL's own breaks it";
        cx.push_diag(Diag::error(DiagCode::BadValue, message).with_span(place("env")).hint("declare `link: RoCE`"));
    }
}

/// One token of the shared device plugin shows all adapters.
fn check_devices(job: &TestJobLaunch, table: &YamlTable<'_>, cx: &mut LoadContext<'_>) {
    let span = table.get("resources").map_or(table.span, |node| node.span);
    if let Some((name, count)) = job.resources.iter().find(|(name, count)| name.starts_with("rdma/") && *count != "1") {
        let message = format!("`{name}` is {count}, which counts tokens, not adapters");
        let diag = Diag::error(DiagCode::BadValue, message).with_span(span);
        cx.push_diag(diag.hint("request 1: a pod with one token sees every adapter of that resource"));
    }
    if job.host_network && job.annotations.keys().any(|key| key == "k8s.v1.cni.cncf.io/networks") {
        let message = "a pod in the network of the host has no networks of its own: declare only one of the two";
        let span = table.get("annotations").map_or(table.span, |node| node.span);
        cx.push_diag(Diag::error(DiagCode::Exclusive, message).with_span(span));
    }
}

/// Checks that the test says what such a job needs.
fn check_job_test(
    job: &TestJobLaunch,
    span: Span,
    (definition, parameters): (&TestDefinition, &BTreeMap<String, String>),
    cx: &mut LoadContext<'_>,
) {
    let slots = parameters.get("slots").map(String::as_str).unwrap_or_default();
    if slots.is_empty() && job.gpu_count().is_none() {
        let message = format!("the number of processes per pod is unknown: `resources` has no `{GPU_RESOURCE}`");
        let diag = Diag::error(DiagCode::BadValue, message).with_span(span);
        cx.push_diag(diag.hint("declare it: `resources: { nvidia.com/gpu: 8 }`, or `with: { slots: 8 }`"));
    }
    if job.kind.has_launcher() {
        check_rank_command(job.kind.name(), span, definition, cx);
    } else if definition.collective.is_none() {
        let message =
            format!("`{}` needs a test with `collective`, and `{}` has none", job.kind.name(), definition.name);
        let diag = Diag::error(DiagCode::BadValue, message).with_span(span);
        cx.push_diag(diag.hint("declare what PyTorch runs: `collective: all_reduce`"));
    }
}

/// Checks that the test says what each process runs.
fn check_rank_command(needed_by: &str, span: Span, definition: &TestDefinition, cx: &mut LoadContext<'_>) {
    if definition.rank_command.is_empty() {
        let message = format!("`{needed_by}` needs a test with `rank_command`, and `{}` has none", definition.name);
        let diag = Diag::error(DiagCode::BadValue, message).with_span(span);
        let hint = "declare the program that each process runs: `rank_command: [all_reduce_perf, -b, 1G, -e, 16G]`";
        cx.push_diag(diag.hint(hint));
    }
}
