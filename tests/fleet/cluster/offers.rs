//! Facts, rules and verifications of the cluster on a real API. Nothing runs pods there: the test simulates the
//! kubelet.

use super::support::{Cluster, Helm, Site};
use crate::support::JournalWatch;
use serde_json::json;
use std::time::{Duration, Instant};

fn site(api: &Cluster, recipe: &str) -> Site {
    let site = Site::new(api, &api.kubeconfig, "test", Helm::No);
    std::fs::create_dir(site.path("recipes")).expect("a folder");
    let inventory = format!(
        "cluster: offers\nconnect: {{ transport: sandbox }}\nhosts: [box]\nkubernetes: {{ kubeconfig: {}, context: test }}\n\
         apply:\n  - {{ recipe: offers, on: all }}\n",
        api.kubeconfig.display()
    );
    site.write("inventory.yaml", &inventory);
    site.write("recipes/offers.yaml", recipe);
    site
}

fn node(api: &Cluster, name: &str) {
    api.try_kubectl(&["delete", "node", name], "");
    let node = json!({ "apiVersion": "v1", "kind": "Node", "metadata": { "name": name, "labels": { "pool": name } } });
    api.kubectl_with(&["create", "-f", "-"], &node.to_string());
}

/// Reports resources like a device plugin. The API returns quantities in another format than they were written in.
fn offer(api: &Cluster, name: &str, gpus: &str, rdma: &str) {
    let offer = json!({ "nvidia.com/gpu": gpus, "rdma/ib": rdma });
    let status = json!({ "status": { "capacity": offer, "allocatable": offer } }).to_string();
    api.kubectl_with(&["patch", "node", name, "--subresource=status", "--type=merge", "-p", &status], "");
}

/// Returns a recipe that verifies the nodes of one pool: other tests have their own pool.
fn recipe(pool: &str, more: &str) -> String {
    let own = format!("facts.nodes | selectattr('labels.pool', 'defined') | selectattr('labels.pool', 'eq', '{pool}')");
    let of =
        |name: &str| format!("{own} | map(attribute='allocatable') | map('attr', '{name}') | map('default', 0) | list");
    format!(
        "recipe: offers\nsummary: What nodes offer.\n{more}verify:\n  - name: devices\n    scope: cluster\n    within: 60s\n    \
         expect: ({}) == [8] and ({}) == [1000]\n    shows: \"{{{{ {} | join }}}} GPUs\"\n",
        of("nvidia.com/gpu"),
        of("rdma/ib"),
        of("nvidia.com/gpu")
    )
}

#[test]
fn apply_waits_for_node_devices_but_plan_and_verify_do_not() {
    let Some(api) = Cluster::require() else { return };
    node(api, "offers-1");
    offer(api, "offers-1", "7", "1000");
    let site = site(api, &recipe("offers-1", ""));
    let began = Instant::now();
    let plan = site.forge(&["plan", "inventory.yaml", "--detailed-exitcode", "--record", "seen.json"]);
    assert_eq!(plan.code, 5, "{plan}");
    assert!(plan.stdout.contains("offers: devices: failed") && plan.stdout.contains("(7 GPUs)"), "{plan}");
    let verify = site.forge(&["verify", "inventory.yaml"]);
    assert!(verify.code == 5 && verify.stdout.contains("(7 GPUs)"), "{verify}");
    assert!(began.elapsed() < Duration::from_secs(40), "plan and verify must not wait");

    let watch = JournalWatch::new(site.path("state"));
    let mut apply = site.command(&["apply", "inventory.yaml", "--yes"]);
    let child = apply.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped()).spawn().expect("forge");
    watch.until(&["awaiting_verification"]);
    offer(api, "offers-1", "8", "1000");
    let out = child.wait_with_output().expect("forge ends");
    let told = format!("{}{}", String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr));
    assert_eq!(out.status.code(), Some(0), "{told}");
    assert!(told.contains("waits for offers: devices: expectation failed: ") && told.contains("(7 GPUs)"), "{told}");
    let raw = api.kubectl(&["get", "node", "offers-1", "-o", "jsonpath={.status.allocatable['rdma/ib']}"]);
    assert_eq!(raw, "1k", "the API's own format of the quantity");
    site.forge(&["plan", "inventory.yaml", "--detailed-exitcode"]).must_exit(0);

    // The recording gives the former state, without any request.
    let again = site.forge(&["plan", "inventory.yaml", "--detailed-exitcode", "--observed", "seen.json"]);
    assert!(again.code == 5 && again.stdout.contains("(7 GPUs)"), "{again}");
    api.kubectl_with(&["delete", "node", "offers-1"], "");
}

#[test]
fn a_rule_blocks_steps_by_the_version_of_the_server() {
    let Some(api) = Cluster::require() else { return };
    let minor: u32 =
        api.version().split('.').nth(1).and_then(|minor| minor.parse().ok()).expect("a version like v1.20.2");
    let with = |least: u32| {
        format!(
            "recipe: offers\nsummary: A setting.\nrules:\n  - scope: cluster\n    \
             require: facts.kubernetes_version.minor >= {least}\n    else: a later Kubernetes is needed\nsteps:\n  \
             - name: map\n    manifest:\n      namespace: default\n      objects: [{{ apiVersion: v1, kind: ConfigMap, metadata: {{ name: offers }}, \
             data: {{ version: \"{{{{ facts.kubernetes_version.text }}}}\" }} }}]\n  - name: here\n    file: {{ path: /etc/here, content: x }}\n"
        )
    };
    let site = site(api, &with(minor + 1));
    let out = site.forge(&["apply", "inventory.yaml", "--yes"]);
    assert_eq!(out.code, 3, "{out}");
    assert!(out.stdout.contains("a later Kubernetes is needed"), "{out}");
    assert!(!api.try_kubectl(&["get", "configmap", "offers"], "").ok(), "the step ran although a rule blocks it");
    site.write("recipes/offers.yaml", &with(minor));
    let out = site.forge(&["apply", "inventory.yaml", "--yes"]);
    assert_eq!(out.code, 0, "{out}");
    assert_eq!(api.kubectl(&["get", "configmap", "offers", "-o", "jsonpath={.data.version}"]), api.version());
    api.kubectl_with(&["delete", "configmap", "offers"], "");
}

#[test]
fn object_verification_reports_missing_objects_and_fields() {
    let Some(api) = Cluster::require() else { return };
    let about = |kind: &str, version: &str| {
        format!(
            "recipe: offers\nsummary: A deployment is there.\nverify:\n  - name: runs\n    \
             object: {{ api_version: {version}, kind: {kind}, namespace: default, name: offers }}\n    \
             expect: object.status.readyReplicas == 1\n    shows: \"{{{{ object.status.replicas }}}} replicas\"\n"
        )
    };
    let site = site(api, &about("Deployment", "apps/v1"));
    let told = |expected: &str| {
        let out = site.forge(&["verify", "inventory.yaml"]);
        assert!(out.code == 5 && out.stdout.contains(expected), "{expected}: {out}");
    };
    told("Deployment default/offers not found");
    api.kubectl_with(&["create", "deployment", "offers", "--image=none:1"], "");
    api.wait(|| api.kubectl(&["get", "deployment", "offers", "-o", "jsonpath={.status.replicas}"]) == "1");
    told("(`object.status.readyReplicas` does not exist)");
    site.write("recipes/offers.yaml", &about("ClusterPolicy", "nvidia.com/v1"));
    told("the API serves no `ClusterPolicy` of `nvidia.com/v1`");
    api.kubectl_with(&["delete", "deployment", "offers"], "");
}
