//! A node returns only with its declared state, and the cluster's verification is evaluated after its hosts.

use super::super::super::{Event, NodeDrainEvent};
use super::super::simulated_project::{SimulatedProject, controller_boot_id};
use super::super::window::DRIVER_ALONE;
use super::fake_cluster::FakeClusterApi;
use super::{expect_released, list_node_events, node_project};
use crate::model::{HostName, HostOutcome};
use serde_json::{Value, json};
use std::sync::{Arc, Mutex};

/// A kubelet's status for the current boot of the hosts.
fn kubelet_status(gpus: &str) -> Value {
    json!({ "status": {
        "nodeInfo": {
            "bootID": controller_boot_id(), "architecture": "", "containerRuntimeVersion": "", "kernelVersion": "", "kubeProxyVersion": "",
            "kubeletVersion": "", "machineID": "", "operatingSystem": "", "osImage": "", "systemUUID": "",
        },
        "conditions": [{ "type": "Ready", "status": "True" }],
        "capacity": { "nvidia.com/gpu": "8", "rdma/ib": "1k" },
        "allocatable": { "nvidia.com/gpu": gpus, "rdma/ib": "1k" },
    } })
}

const RETURNS: &str = "timeout: 5s, returns: { nvidia.com/gpu: 8, rdma/ib: capacity }";

#[test]
fn node_is_uncordoned_once_it_offers_the_declared_resources() {
    let (stage, api) = node_project(1, &format!("{RETURNS}, returns_within: 30s"));
    let kubelet = api.clone();
    let ran = stage.run_with(
        |_| (),
        move |event, _| match event {
            Event::Node { news: NodeDrainEvent::Lacks { what }, .. } if what.len() > 1 => {
                kubelet.patch_as_person("n1", kubelet_status("7"))
            }
            Event::Node { news: NodeDrainEvent::Lacks { .. }, .. } => {
                assert_eq!(kubelet.node_status("n1"), (true, true), "it stays cordoned meanwhile");
                kubelet.patch_as_person("n1", kubelet_status("8"));
            }
            _ => {}
        },
    );
    assert_eq!(ran.exit_code(), 0, "{:#?}", ran.report);
    let lacks = |what: &[&str]| NodeDrainEvent::Lacks { what: what.iter().map(|what| (*what).into()).collect() };
    let none =
        ["a kubelet started after the last boot", "a ready kubelet", "nvidia.com/gpu (0 of 8)", "rdma/ib (0 of 1)"];
    let expected = [
        NodeDrainEvent::Drained { pods: 0, cordoned: true },
        lacks(&none),
        lacks(&["nvidia.com/gpu (7 of 8)"]),
        NodeDrainEvent::Returned { cordoned: false },
    ];
    assert_eq!(list_node_events(&ran), expected);
    let window = ran.plan.hosts[0].window.as_ref().unwrap();
    assert_eq!(window.returns, ["nvidia.com/gpu 8", "rdma/ib all of its capacity"]);
    expect_released(&api);
}

#[test]
fn node_with_missing_resources_stays_cordoned() {
    let (stage, api) = node_project(1, &format!("{RETURNS}, returns_within: 1s"));
    api.patch_as_person("n1", kubelet_status("7"));
    let ran = stage.run_once();
    assert_eq!((ran.host_outcome("n1"), ran.exit_code()), (HostOutcome::Failed, 3), "{:#?}", ran.report);
    let why = "not brought back into service: Kubernetes node n1 stays cordoned: missing after 1 s: nvidia.com/gpu (7 \
               of 8)\n\
               its window is open and it is out of service; the next successful apply closes the window";
    assert_eq!(ran.host_message("n1"), why);
    assert_eq!(api.node_status("n1"), (true, true));
    let ran = stage.run_once();
    assert_eq!((ran.exit_code(), api.node_status("n1")), (3, (true, true)), "nothing changes, and it still lacks one");
    api.patch_as_person("n1", kubelet_status("8"));
    let ran = stage.run_once();
    assert_eq!((ran.exit_code(), ran.plan.count_steps().change), (0, 0), "{:#?}", ran.report);
    expect_released(&api);
}

#[test]
fn operator_pods_are_restored_before_the_node_is_uncordoned() {
    let (stage, api) = node_project(1, &format!("{RETURNS}, returns_within: 30s"));
    let operand = json!({
        "metadata": { "ownerReferences": [{ "apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "d", "controller": true }] },
        "spec": { "nodeSelector": { "nvidia.com/gpu.deploy.device-plugin": "true" } },
    });
    api.add_pod("n1", "gpu-operator/device-plugin", operand);
    let kubelet = api.clone();
    let ran = stage.run_with(
        |_| (),
        move |event, _| {
            if matches!(event, Event::Node { news: NodeDrainEvent::Lacks { .. }, .. }) {
                assert_eq!((kubelet.operand_label("n1"), kubelet.node_status("n1")), (None, (true, true)));
                kubelet.patch_as_person("n1", kubelet_status("8"));
            }
        },
    );
    assert_eq!(ran.exit_code(), 0, "{:#?}", ran.report);
    assert_eq!(api.log(), ["cordon n1", "note n1", "operands n1 false", "note n1", "operands n1 -", "uncordon n1"]);
}

/// Hosts with a change, and a recipe that only verifies the nodes' resources.
fn verified_project(within: &str) -> (SimulatedProject, FakeClusterApi) {
    let gpus = format!(
        "verify:\n  - name: offered\n    scope: cluster\n    within: {within}\n    \
         expect: facts.nodes | map(attribute='allocatable') | map('attr', 'nvidia.com/gpu') | map('default', 0) | unique | list == [8]\n    \
         shows: \"{{{{ facts.nodes | map(attribute='allocatable') | map('attr', 'nvidia.com/gpu') | map('default', 0) | join(' ') }}}}\"\n"
    );
    let inventory = "kubernetes: { kubeconfig: kubeconfig, context: test }\n\
                     apply:\n  - { recipe: driver, on: all }\n  - { recipe: gpus, on: all }\n";
    let mut stage = SimulatedProject::new(1, inventory, &[("driver", DRIVER_ALONE), ("gpus", &gpus)]);
    let (api, kubeconfig) = FakeClusterApi::start(&stage.hosts);
    stage.write_input_file("kubeconfig", &kubeconfig);
    stage.hosts.push(HostName::cluster_api().to_string());
    (stage, api)
}

const FAILS: &str = "expectation failed: facts.nodes | map(attribute='allocatable') | map('attr', 'nvidia.com/gpu') | map('default', 0) | \
                     unique | list == [8]";

#[test]
fn cluster_is_verified_after_its_hosts_until_it_passes() {
    let (stage, api) = verified_project("30s");
    let (kubelet, waited) = (api.clone(), Arc::new(Mutex::new(Vec::new())));
    let heard = waited.clone();
    let ran = stage.run_with(
        |_| (),
        move |event, _| match event {
            // The driver provides the devices.
            Event::HostFinished { host, .. } if host.as_str() == "n1" => {
                kubelet.patch_as_person("n1", kubelet_status("7"))
            }
            Event::AwaitingVerification { why, .. } => {
                heard.lock().unwrap().push(why.raw().to_owned());
                kubelet.patch_as_person("n1", kubelet_status("8"));
            }
            _ => {}
        },
    );
    assert_eq!(ran.exit_code(), 0, "{:#?}", ran.report);
    assert!(ran.find_host_finish("n1") < ran.find_host_finish("kubernetes"));
    let told = waited.lock().unwrap().join("\n");
    assert!(told == format!("{FAILS} (7)") || told == format!("{FAILS} (0)"), "{told}");
    let again = stage.run_once();
    assert_eq!((again.exit_code(), again.plan.count_steps().change), (0, 0));
}

#[test]
fn verification_that_times_out_fails_with_its_values() {
    let (stage, api) = verified_project("1s");
    api.patch_as_person("n1", kubelet_status("7"));
    let ran = stage.run_once();
    assert_eq!(
        (ran.host_outcome("n1"), ran.host_outcome("kubernetes"), ran.exit_code()),
        (HostOutcome::Changed, HostOutcome::Failed, 5),
        "{:#?}",
        ran.report
    );
    assert_eq!(ran.host_message("kubernetes"), format!("verification `offered` of `gpus` failed: {FAILS} (7)\n"));
}
