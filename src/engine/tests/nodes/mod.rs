//! Windows on hosts that are Kubernetes nodes: cordoning, eviction, and who may uncordon a node.

pub(super) mod fake_cluster;
mod returns;

use super::super::{DrainedNode, Event, NodeDrainEvent};
use super::simulated_project::{SimulatedProject, SimulatedRun};
use super::window::DRIVER_ALONE;
use crate::drift::FindingAspect;
use crate::model::{ExitCode, HostOutcome};
use crate::plan::ObservedNode;
use fake_cluster::{CLAIM, FakeClusterApi, OPERANDS};
use serde_json::json;
use std::time::{Duration, Instant};

/// Hosts that are nodes, each with a change that takes it out of service.
pub(super) fn node_project(hosts: usize, more: &str) -> (SimulatedProject, FakeClusterApi) {
    let rollout = format!(
        "rollout: {{ max_unavailable: 1, drain: {{ kubernetes: {{ group: all, {more} }} }} }}\n\
         kubernetes: {{ kubeconfig: kubeconfig, context: test }}\n"
    );
    let stage = SimulatedProject::new(
        hosts,
        &format!("{rollout}apply:\n  - {{ recipe: driver, on: all }}\n"),
        &[("driver", DRIVER_ALONE)],
    );
    let (api, kubeconfig) = FakeClusterApi::start(&stage.hosts);
    stage.write_input_file("kubeconfig", &kubeconfig);
    for host in &stage.hosts {
        api.mirror_node(host, stage.host_root(host).join("node"));
    }
    (stage, api)
}

/// A host whose node was cordoned, for the table of consequences.
pub(super) fn cordoned_project() -> SimulatedProject {
    let (stage, api) = node_project(1, "timeout: 5s");
    api.add_pod("n1", "ml/train", json!({}));
    stage
}

fn list_node_events(ran: &SimulatedRun) -> Vec<NodeDrainEvent> {
    let news = |event: &Event| match event {
        Event::Node { news, .. } => Some(news.clone()),
        _ => None,
    };
    ran.events.iter().filter_map(news).collect()
}

fn expect_released(api: &FakeClusterApi) {
    for node in api.with_state(|state| state.nodes.keys().cloned().collect::<Vec<_>>()) {
        assert_eq!(api.node_status(&node), (false, false), "{node}");
    }
}

fn leave_claim(api: &FakeClusterApi, node: &str) {
    let claim = json!({ "version": 1, "run": "r7", "controller": "a@b", "time": "t", "cordoned": true }).to_string();
    api.patch_as_person(
        node,
        json!({ "metadata": { "annotations": { CLAIM: claim } }, "spec": { "unschedulable": true } }),
    );
}

#[test]
fn nodes_are_drained_and_uncordoned_one_at_a_time() {
    let (stage, api) = node_project(3, "grace: 5s");
    let daemon = json!({ "metadata": { "ownerReferences": [{ "apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "d", "controller": true }] } });
    for node in ["n1", "n2", "n3"] {
        api.add_pod(node, &format!("ml/train-{node}"), json!({}));
        api.add_pod(node, &format!("kube-system/proxy-{node}"), daemon.clone());
        api.add_pod(
            node,
            &format!("ml/done-{node}"),
            json!({ "status": { "phase": "Succeeded" }, "metadata": { "ownerReferences": [] } }),
        );
    }
    let ran = stage.run_once();
    assert_eq!(ran.exit_code(), 0, "{:#?}", ran.report);
    let each = |node: &str| {
        [
            format!("cordon {node}"),
            format!("evict ml/done-{node}"),
            format!("evict ml/train-{node}"),
            format!("uncordon {node}"),
        ]
    };
    assert_eq!(api.log(), ["n1", "n2", "n3"].map(each).concat());
    assert_eq!(api.with_state(|state| (state.most, state.pods.len())), (1, 3));
    expect_released(&api);
    let window = ran.plan.hosts[0].window.as_ref().unwrap();
    assert_eq!(window.kubernetes, Some(ObservedNode::Node { name: "n1".into(), left: None, obstacles: Vec::new() }));
    let report = &ran.report.hosts[0].node;
    assert_eq!(*report, Some(DrainedNode { name: "n1".into(), pods: 2, returned: true }));
    assert_eq!(
        list_node_events(&ran)[..2],
        [NodeDrainEvent::Drained { pods: 2, cordoned: true }, NodeDrainEvent::Returned { cordoned: false }]
    );
    let again = stage.run_once();
    assert_eq!((again.exit_code(), again.plan.count_steps().windows, api.log().len()), (0, 0, 12));
}

#[test]
fn servers_before_1_22_use_the_v1beta1_eviction_api() {
    let (stage, api) = node_project(1, "timeout: 5s");
    api.with_state(|state| state.policy = "v1beta1");
    api.add_pod("n1", "ml/train", json!({}));
    assert_eq!(stage.run_once().exit_code(), 0);
    assert_eq!(api.log(), ["cordon n1", "evict ml/train", "uncordon n1"]);
}

#[test]
fn node_cordoned_by_another_user_is_drained_and_stays_cordoned() {
    let (stage, api) = node_project(1, "timeout: 5s");
    api.patch_as_person("n1", json!({ "spec": { "unschedulable": true } }));
    api.add_pod("n1", "ml/train", json!({}));
    let ran = stage.run_once();
    assert_eq!((ran.exit_code(), api.node_status("n1")), (0, (true, false)), "{:#?}", ran.report);
    assert_eq!(api.log(), ["note n1", "evict ml/train", "note n1"]);
    assert_eq!(
        list_node_events(&ran),
        [NodeDrainEvent::Drained { pods: 1, cordoned: false }, NodeDrainEvent::Returned { cordoned: true }]
    );
}

#[test]
fn node_without_the_claim_annotation_is_not_uncordoned() {
    let (stage, api) = node_project(1, "timeout: 5s");
    let person = api.clone();
    let ran = stage.run_with(
        |_| (),
        move |event, _| {
            if matches!(event, Event::WindowOpened { .. }) {
                person.patch_as_person("n1", json!({ "metadata": { "annotations": { CLAIM: null } } }));
            }
        },
    );
    assert_eq!((ran.exit_code(), api.node_status("n1")), (0, (true, false)), "{:#?}", ran.report);
}

#[test]
fn drain_blocked_by_a_disruption_budget_is_undone() {
    let (stage, api) = node_project(2, "timeout: 1s");
    api.add_pod("n1", "ml/train", json!({}));
    api.add_pod("n1", "ml/free", json!({}));
    api.add_budget("ml/all-ranks", "train", 0);
    api.add_budget("ml/other", "free", 1);
    let ran = stage.run_once();
    let why = "Kubernetes node n1 was not drained within 1 s: cannot evict pod ml/train: disruption budget ml/all-ranks \
               allows 0 disruptions";
    assert_eq!(ran.describe_step("n1", "driver/packages"), format!("blocked: {why}"));
    let warned: Vec<&str> = ran.plan.hosts[0].warnings.iter().map(|warning| warning.why.raw()).collect();
    let held = "the drain of node n1 is held up: cannot evict pod ml/train now: disruption budget ml/all-ranks allows 0 \
                disruptions";
    assert_eq!(warned, [held]);
    assert!(ran.plan.hosts[1].warnings.is_empty(), "{:?}", ran.plan.hosts[1].warnings);
    assert_eq!(
        (ran.host_outcome("n1"), ran.host_outcome("n2"), ran.exit_code()),
        (HostOutcome::Blocked, HostOutcome::Changed, 3)
    );
    assert!(!stage.has_file("n1", "driver"), "nothing is changed on a node that is not drained");
    expect_released(&api);
    assert_eq!(api.log()[..3], ["cordon n1", "evict ml/free", "uncordon n1"]);
    let waits = NodeDrainEvent::Waits {
        pods: vec!["cannot evict pod ml/train: disruption budget ml/all-ranks allows 0 disruptions".into()],
    };
    assert!(list_node_events(&ran).contains(&waits), "{:?}", list_node_events(&ran));
}

#[test]
fn drain_waits_for_the_disruption_budget() {
    let (stage, api) = node_project(1, "timeout: 30s");
    api.add_pod("n1", "ml/train", json!({}));
    api.add_budget("ml/all-ranks", "train", 0);
    let person = api.clone();
    let ran = stage.run_with(
        |_| (),
        move |event, _| {
            if matches!(event, Event::Node { news: NodeDrainEvent::Waits { .. }, .. }) {
                person.add_budget("ml/all-ranks", "train", 1);
            }
        },
    );
    assert_eq!(ran.exit_code(), 0, "{:#?}", ran.report);
    expect_released(&api);
}

#[test]
fn pods_that_do_not_terminate_are_named() {
    let (stage, api) = node_project(1, "timeout: 1s");
    api.with_state(|state| state.lingers = true);
    api.add_pod("n1", "ml/train", json!({}));
    let ran = stage.run_once();
    let why = "blocked: Kubernetes node n1 was not drained within 1 s: pod ml/train has not terminated";
    assert_eq!(ran.describe_step("n1", "driver/packages"), why);
    expect_released(&api);
}

#[test]
fn drain_is_refused_if_pods_would_be_lost() {
    let (stage, api) = node_project(1, "timeout: 1s");
    api.add_pod("n1", "ml/alone", json!({ "metadata": { "ownerReferences": [] } }));
    api.add_pod("n1", "ml/scratch", json!({ "spec": { "volumes": [{ "name": "shm", "emptyDir": {} }] } }));
    let ran = stage.run_once();
    let why = "blocked: Kubernetes node n1 cannot be drained: pod ml/alone has no controller (set `delete_unmanaged: \
               true` to evict it); pod ml/scratch has data in an `emptyDir` (set `delete_emptydir_data: true` to evict it)";
    assert_eq!((ran.describe_step("n1", "driver/packages").as_str(), ran.exit_code()), (why, 3));
    assert_eq!(api.log(), [""; 0], "nothing is written");

    let (stage, bold) = self::node_project(1, "delete_unmanaged: true, delete_emptydir_data: true");
    bold.with_state(|state| state.pods = api.with_state(|state| state.pods.clone()));
    assert_eq!(stage.run_once().exit_code(), 0);
    assert_eq!(bold.log(), ["cordon n1", "evict ml/alone", "evict ml/scratch", "uncordon n1"]);
}

#[test]
fn conflicting_node_update_is_retried() {
    let (stage, api) = node_project(1, "timeout: 5s");
    api.with_state(|state| state.conflicts = 3);
    let ran = stage.run_once();
    assert_eq!(ran.exit_code(), 0, "{:#?}", ran.report);
    assert_eq!(api.log(), ["cordon n1", "uncordon n1"]);
    expect_released(&api);
}

#[test]
fn unavailable_api_leaves_the_host_unchanged() {
    let (stage, api) = node_project(1, "timeout: 5s");
    api.with_state(|state| state.away = true);
    let ran = stage.run_once();
    let told = ran.describe_step("n1", "driver/packages");
    assert!(told.starts_with("unknown: Kubernetes node: ") && told.contains("returned 503: away"), "{told}");
    assert_eq!(ran.exit_code(), 9, "{:#?}", ran.report);
    assert!(!stage.has_file("n1", "driver"));
    let window = ran.plan.hosts[0].window.as_ref().unwrap();
    assert!(matches!(window.kubernetes, Some(ObservedNode::Unknown { .. })), "{window:#?}");
    assert_eq!(stage.detect_drift().exit_code(), ExitCode::Unknown);
}

#[test]
fn api_lost_during_the_window_leaves_it_open() {
    let (stage, api) = node_project(1, "timeout: 5s");
    let person = api.clone();
    let ran = stage.run_with(
        |_| (),
        move |event, _| {
            if matches!(event, Event::WindowOpened { .. }) {
                person.with_state(|state| state.away = true);
            }
        },
    );
    assert_eq!((ran.host_outcome("n1"), ran.exit_code()), (HostOutcome::Failed, 3), "{:#?}", ran.report);
    assert!(
        ran.host_message("n1").starts_with("not brought back into service: Kubernetes node: "),
        "{}",
        ran.host_message("n1")
    );
    assert_eq!(api.node_status("n1"), (true, true));
    api.with_state(|state| state.away = false);
    let ran = stage.run_once();
    assert_eq!((ran.exit_code(), ran.plan.count_steps().change), (0, 0), "{:#?}", ran.report);
    expect_released(&api);
}

#[test]
fn host_that_is_not_a_node_is_not_drained() {
    let (stage, api) = node_project(1, "timeout: 5s");
    api.with_state(|state| state.nodes.clear());
    let ran = stage.run_once();
    assert_eq!((ran.exit_code(), list_node_events(&ran)), (0, vec![NodeDrainEvent::Absent]), "{:#?}", ran.report);
    assert_eq!(ran.plan.hosts[0].window.as_ref().unwrap().kubernetes, Some(ObservedNode::Absent));
}

#[test]
fn gpu_operator_pods_are_removed_and_restored() {
    let (stage, api) = node_project(1, "timeout: 5s");
    let operand = json!({
        "metadata": { "ownerReferences": [{ "apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "d", "controller": true }] },
        "spec": { "nodeSelector": { "nvidia.com/gpu.deploy.dcgm-exporter": "true" } },
    });
    api.add_pod("n1", "gpu-operator/dcgm-exporter", operand);
    api.patch_as_person("n1", json!({ "metadata": { "labels": { OPERANDS: "true" } } }));
    let ran = stage.run_once();
    assert_eq!(ran.exit_code(), 0, "{:#?}", ran.report);
    let expected = ["cordon n1", "note n1", "operands n1 false", "uncordon n1", "operands n1 true"];
    assert_eq!(api.log(), expected);
    assert_eq!(api.operand_label("n1").as_deref(), Some("true"));
    expect_released(&api);
}

#[test]
fn node_left_cordoned_is_drift_and_is_uncordoned_by_apply() {
    let (stage, api) = node_project(1, "timeout: 5s");
    assert_eq!(stage.run_once().exit_code(), 0);
    leave_claim(&api, "n1");
    let drift = stage.detect_drift();
    let found: Vec<_> =
        drift.findings.iter().map(|found| (found.aspect, found.title.raw(), found.reason.raw())).collect();
    assert_eq!(found, [(FindingAspect::Node, "node n1 of Kubernetes", "still drained by run r7")]);
    assert_eq!(drift.exit_code(), ExitCode::Changes);
    let ran = stage.run_once();
    let window = ran.plan.hosts[0].window.as_ref().unwrap();
    assert_eq!((window.left_open.as_ref().unwrap().raw(), window.steps.len(), ran.exit_code()), ("r7", 0, 0));
    expect_released(&api);
    let drift = stage.detect_drift();
    assert_eq!((drift.findings.len(), drift.resolved.len(), drift.exit_code()), (0, 1, ExitCode::Done));
}

#[test]
fn node_left_cordoned_stays_cordoned_while_its_host_fails() {
    let (stage, api) = node_project(1, "timeout: 5s");
    leave_claim(&api, "n1");
    stage.create_host_file("n1", "bad");
    let ran = stage.run_once();
    assert_eq!(
        (ran.host_outcome("n1"), api.node_status("n1")),
        (HostOutcome::Failed, (true, true)),
        "{:#?}",
        ran.report
    );
    std::fs::remove_file(stage.host_root("n1").join("bad")).unwrap();
    assert_eq!(stage.run_once().exit_code(), 0);
    expect_released(&api);
}

#[test]
fn node_is_uncordoned_by_the_next_run_after_a_kill() {
    for number in 0.. {
        let (mut stage, api) = node_project(1, "timeout: 5s");
        api.add_pod("n1", "ml/train", json!({}));
        let over = stage.run_killed_before("n1", number).is_some();
        stage.controller = "other".to_owned();
        let ran = stage.run_once();
        assert_eq!(ran.exit_code(), 0, "killed before script {number}: {:#?}", ran.report);
        expect_released(&api);
        if over {
            assert!(number > 2, "never killed");
            break;
        }
    }
}

#[test]
fn stopping_the_run_uncordons_the_node() {
    let (stage, api) = node_project(1, "timeout: 60s");
    api.add_pod("n1", "ml/train", json!({}));
    api.add_budget("ml/all-ranks", "train", 0);
    let began = Instant::now();
    let ran = stage.run_with(
        |_| (),
        |event, cancel| {
            if matches!(event, Event::Node { news: NodeDrainEvent::Waits { .. }, .. }) {
                cancel.raise_level();
            }
        },
    );
    assert_eq!(ran.exit_code(), 130, "{:#?}", ran.report);
    assert!(began.elapsed() < Duration::from_secs(30));
    expect_released(&api);
}
