//! A node returns only with its declared state, and the cluster's verification is evaluated after its hosts.

use super::super::super::{Event, NodeDrainEvent};
use super::super::stage::{SimulatedProject, this_machine};
use super::super::window::DRIVER_ALONE;
use super::api::FakeClusterApi;
use super::{is_free, news, stage};
use crate::model::{HostName, HostOutcome};
use serde_json::{Value, json};
use std::sync::{Arc, Mutex};

/// A kubelet's status for the current boot of the hosts.
fn status(gpus: &str) -> Value {
    json!({ "status": {
        "nodeInfo": {
            "bootID": this_machine(), "architecture": "", "containerRuntimeVersion": "", "kernelVersion": "", "kubeProxyVersion": "",
            "kubeletVersion": "", "machineID": "", "operatingSystem": "", "osImage": "", "systemUUID": "",
        },
        "conditions": [{ "type": "Ready", "status": "True" }],
        "capacity": { "nvidia.com/gpu": "8", "rdma/ib": "1k" },
        "allocatable": { "nvidia.com/gpu": gpus, "rdma/ib": "1k" },
    } })
}

const RETURNS: &str = "timeout: 5s, returns: { nvidia.com/gpu: 8, rdma/ib: capacity }";

#[test]
fn a_node_takes_pods_again_once_it_offers_what_is_declared() {
    let (stage, api) = stage(1, &format!("{RETURNS}, returns_within: 30s"));
    let kubelet = api.clone();
    let ran = stage.run_with(
        |_| (),
        move |event, _| match event {
            Event::Node { news: NodeDrainEvent::Lacks { what }, .. } if what.len() > 1 => {
                kubelet.person("n1", status("7"))
            }
            Event::Node { news: NodeDrainEvent::Lacks { .. }, .. } => {
                assert_eq!(kubelet.standing("n1"), (true, true), "it stays cordoned meanwhile");
                kubelet.person("n1", status("8"));
            }
            _ => {}
        },
    );
    assert_eq!(ran.code(), 0, "{:#?}", ran.report);
    let lacks = |what: &[&str]| NodeDrainEvent::Lacks { what: what.iter().map(|what| (*what).into()).collect() };
    let none =
        ["a kubelet started after the last boot", "a ready kubelet", "nvidia.com/gpu (0 of 8)", "rdma/ib (0 of 1)"];
    let expected = [
        NodeDrainEvent::Drained { pods: 0, cordoned: true },
        lacks(&none),
        lacks(&["nvidia.com/gpu (7 of 8)"]),
        NodeDrainEvent::Returned { cordoned: false },
    ];
    assert_eq!(news(&ran), expected);
    let window = ran.plan.hosts[0].window.as_ref().unwrap();
    assert_eq!(window.returns, ["nvidia.com/gpu 8", "rdma/ib all of its capacity"]);
    is_free(&api);
}

#[test]
fn a_node_that_lacks_something_stays_cordoned_and_the_next_run_goes_on() {
    let (stage, api) = stage(1, &format!("{RETURNS}, returns_within: 1s"));
    api.person("n1", status("7"));
    let ran = stage.run();
    assert_eq!((ran.outcome("n1"), ran.code()), (HostOutcome::Failed, 3), "{:#?}", ran.report);
    let why = "not brought back into service: Kubernetes node n1 stays cordoned: missing after 1 s: nvidia.com/gpu (7 \
               of 8)\n\
               its window is open and it is out of service; the next successful apply closes the window";
    assert_eq!(ran.told("n1"), why);
    assert_eq!(api.standing("n1"), (true, true));
    let ran = stage.run();
    assert_eq!((ran.code(), api.standing("n1")), (3, (true, true)), "nothing changes, and it still lacks one");
    api.person("n1", status("8"));
    let ran = stage.run();
    assert_eq!((ran.code(), ran.plan.counts().change), (0, 0), "{:#?}", ran.report);
    is_free(&api);
}

#[test]
fn pods_of_the_operator_come_back_before_the_node_does() {
    let (stage, api) = stage(1, &format!("{RETURNS}, returns_within: 30s"));
    let operand = json!({
        "metadata": { "ownerReferences": [{ "apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "d", "controller": true }] },
        "spec": { "nodeSelector": { "nvidia.com/gpu.deploy.device-plugin": "true" } },
    });
    api.pod("n1", "gpu-operator/device-plugin", operand);
    let kubelet = api.clone();
    let ran = stage.run_with(
        |_| (),
        move |event, _| {
            if matches!(event, Event::Node { news: NodeDrainEvent::Lacks { .. }, .. }) {
                assert_eq!((kubelet.label("n1"), kubelet.standing("n1")), (None, (true, true)));
                kubelet.person("n1", status("8"));
            }
        },
    );
    assert_eq!(ran.code(), 0, "{:#?}", ran.report);
    assert_eq!(api.log(), ["cordon n1", "note n1", "operands n1 false", "note n1", "operands n1 -", "uncordon n1"]);
}

/// Hosts with a change, and a recipe that only verifies the nodes' resources.
fn verified(within: &str) -> (SimulatedProject, FakeClusterApi) {
    let gpus = format!(
        "verify:\n  - name: offered\n    scope: cluster\n    within: {within}\n    \
         expect: facts.nodes | map(attribute='allocatable') | map('attr', 'nvidia.com/gpu') | map('default', 0) | unique | list == [8]\n    \
         shows: \"{{{{ facts.nodes | map(attribute='allocatable') | map('attr', 'nvidia.com/gpu') | map('default', 0) | join(' ') }}}}\"\n"
    );
    let inventory = "kubernetes: { kubeconfig: kubeconfig, context: test }\n\
                     apply:\n  - { recipe: driver, on: all }\n  - { recipe: gpus, on: all }\n";
    let mut stage = SimulatedProject::new(1, inventory, &[("driver", DRIVER_ALONE), ("gpus", &gpus)]);
    let (api, kubeconfig) = FakeClusterApi::start(&stage.hosts);
    stage.lay("kubeconfig", &kubeconfig);
    stage.hosts.push(HostName::cluster().to_string());
    (stage, api)
}

const FAILS: &str = "expectation failed: facts.nodes | map(attribute='allocatable') | map('attr', 'nvidia.com/gpu') | map('default', 0) | \
                     unique | list == [8]";

#[test]
fn the_cluster_is_judged_after_its_hosts_and_looked_at_until_it_holds() {
    let (stage, api) = verified("30s");
    let (kubelet, waited) = (api.clone(), Arc::new(Mutex::new(Vec::new())));
    let heard = waited.clone();
    let ran = stage.run_with(
        |_| (),
        move |event, _| match event {
            // The driver provides the devices.
            Event::HostFinished { host, .. } if host.as_str() == "n1" => kubelet.person("n1", status("7")),
            Event::AwaitingVerification { why, .. } => {
                heard.lock().unwrap().push(why.raw().to_owned());
                kubelet.person("n1", status("8"));
            }
            _ => {}
        },
    );
    assert_eq!(ran.code(), 0, "{:#?}", ran.report);
    assert!(ran.finished("n1") < ran.finished("kubernetes"));
    let told = waited.lock().unwrap().join("\n");
    assert!(told == format!("{FAILS} (7)") || told == format!("{FAILS} (0)"), "{told}");
    let again = stage.run();
    assert_eq!((again.code(), again.plan.counts().change), (0, 0));
}

#[test]
fn what_does_not_hold_in_time_has_failed_with_its_values() {
    let (stage, api) = verified("1s");
    api.person("n1", status("7"));
    let ran = stage.run();
    assert_eq!(
        (ran.outcome("n1"), ran.outcome("kubernetes"), ran.code()),
        (HostOutcome::Changed, HostOutcome::Failed, 5),
        "{:#?}",
        ran.report
    );
    assert_eq!(ran.told("kubernetes"), format!("verification `offered` of `gpus` failed: {FAILS} (7)\n"));
}
