//! Nodes and Secrets of a real API: declared fields are set and removed, fields of other users stay.

use super::support::{Cluster, Helm, Site};
use crate::support::Output;
use serde_json::{Value, json};

fn site(api: &Cluster, name: &str, recipe: &str, rest: &str) -> Site {
    let site = Site::new(api, &api.kubeconfig, "test", Helm::No);
    std::fs::create_dir(site.path("recipes")).expect("a folder");
    declare(&site, api, name, rest);
    site.write("recipes/own.yaml", recipe);
    site
}

fn declare(site: &Site, api: &Cluster, name: &str, rest: &str) {
    let kubeconfig = api.kubeconfig.display();
    site.write(
        "inventory.yaml",
        &format!(
            "cluster: {name}\nconnect: {{ transport: sandbox }}\nhosts: {{ box: }}\nkubernetes: {{ kubeconfig: {kubeconfig}, context: test }}\napply: [{{ recipe: own, on: all{rest} }}]\n"
        ),
    );
}

fn apply(site: &Site) -> Output {
    site.forge(&["apply", "inventory.yaml", "--yes"])
}

fn node(api: &Cluster, name: &str) -> Value {
    api.nodes().into_iter().find(|node| node["metadata"]["name"] == *name).expect("the node")
}

fn taints(node: &Value) -> Vec<String> {
    let list = node["spec"]["taints"].as_array().cloned().unwrap_or_default();
    let text = |taint: &Value, key: &str| taint[key].as_str().unwrap_or_default().to_owned();
    let mut all: Vec<String> =
        list.iter().map(|t| format!("{}={}:{}", text(t, "key"), text(t, "value"), text(t, "effect"))).collect();
    // Controllers set these taints on nodes without a kubelet.
    all.retain(|taint| !taint.starts_with("node.kubernetes.io/"));
    all.sort();
    all
}

const RACKS: &str = "recipe: own\nsummary: Racks.\nparams: { racks: { type: map, default: { marks-1: r1, marks-2: r2 }, doc: Racks of nodes. } }\nsteps:\n\
     \x20 - name: racks\n    each: params.racks\n    node: { name: '{{ key }}', labels: { example.com/rack: '{{ item }}' }, annotations: { example.com/note: two words }, \
     taints: { spare: { effect: PreferNoSchedule, value: '{{ item }}' } } }\n";

#[test]
fn declared_node_fields_are_set_and_foreign_fields_kept() {
    let Some(api) = Cluster::require() else { return };
    let site = site(api, "marks", RACKS, "");
    let missing = site.forge(&["plan", "inventory.yaml"]);
    assert!(missing.stdout.contains("node marks-1 does not exist"), "{missing}");
    for name in ["marks-1", "marks-2"] {
        let node = json!({ "apiVersion": "v1", "kind": "Node", "metadata": { "name": name, "labels": { "theirs": "x" }, "annotations": { "forge/cordoned": "{}" } } });
        api.kubectl_with(&["create", "-f", "-"], &node.to_string());
    }
    api.kubectl(&["taint", "node", "marks-1", "gone=bad:NoSchedule"]);
    let out = apply(&site);
    assert_eq!(out.code, 0, "{out}");
    let own = "spare=r1:PreferNoSchedule".to_owned();
    assert_eq!(taints(&node(api, "marks-1")), ["gone=bad:NoSchedule".to_owned(), own.clone()]);
    let labels = |name: &str| node(api, name)["metadata"]["labels"].clone();
    assert_eq!(labels("marks-2"), json!({ "example.com/rack": "r2", "theirs": "x" }));
    let again = apply(&site);
    assert!(again.stdout.contains("no changes:"), "{again}");
    // A person's change is drift with a name; a person's addition stays.
    api.kubectl(&["label", "node", "marks-1", "--overwrite", "example.com/rack=r9", "mine=1"]);
    api.kubectl(&["taint", "node", "marks-1", "spare:PreferNoSchedule-", "mine=1:PreferNoSchedule"]);
    let drift = site.forge(&["drift", "inventory.yaml"]);
    assert_eq!(drift.code, 2, "{drift}");
    assert!(drift.stdout.contains("`kubectl-label` set label example.com/rack at 20"), "{drift}");
    apply(&site).must_exit(0);
    let kept = ["gone=bad:NoSchedule".to_owned(), "mine=1:PreferNoSchedule".to_owned(), own];
    assert_eq!(taints(&node(api, "marks-1")), kept);
    assert_eq!(labels("marks-1"), json!({ "example.com/rack": "r1", "theirs": "x", "mine": "1" }));
    // A label that is no longer declared is removed; with the recipe, everything is removed.
    site.write("recipes/own.yaml", &RACKS.replace("annotations: { example.com/note: two words }, ", ""));
    let plan = site.forge(&["plan", "inventory.yaml"]);
    assert!(plan.stdout.contains("annotation example.com/note of node marks-1 is no longer declared"), "{plan}");
    apply(&site).must_exit(0);
    assert_eq!(node(api, "marks-1")["metadata"]["annotations"]["example.com/note"], Value::Null);
    let again = apply(&site);
    assert!(again.stdout.contains("no changes:"), "{again}");
    declare(&site, api, "marks", ", ensure: absent");
    let out = apply(&site);
    assert_eq!(out.code, 0, "{out}");
    assert_eq!(taints(&node(api, "marks-1")), kept[..2]);
    assert_eq!(labels("marks-1"), json!({ "theirs": "x", "mine": "1" }));
    assert_eq!(node(api, "marks-1")["metadata"]["annotations"]["forge/cordoned"], "{}");
    api.kubectl(&["delete", "node", "marks-1", "marks-2"]);
    crate::proof::mark_api("node");
}

#[test]
fn secret_value_is_stored_only_in_the_cluster() {
    let Some(api) = Cluster::require() else { return };
    let recipe = "recipe: own\nsummary: A token.\nparams: { token: { type: secret, doc: A token. } }\nsteps:\n\
         \x20 - name: space\n    namespace: { name: kind-secret }\n\
         \x20 - name: token\n    secret: { name: token, namespace: kind-secret, values: { token: '{{ params.token }}', plain: hunter2-plain } }\n";
    let site = site(api, "kind-secret", recipe, ", with: { token: { env: TOKEN } }");
    let run = |args: &[&str], token: &str| Output::of(site.command(args).env("TOKEN", token), b"");
    for (token, args) in [
        ("hunter2-first", &["plan", "inventory.yaml", "-vv", "-o", "plan.json"][..]),
        ("hunter2-first", &["apply", "inventory.yaml", "--yes", "-vv"]),
        ("hunter2-second", &["drift", "inventory.yaml", "-vv"]),
        ("hunter2-second", &["apply", "inventory.yaml", "--yes", "-vv"]),
    ] {
        let out = run(args, token);
        assert!(!out.to_string().contains("hunter2"), "{out}");
        assert!(out.code == 0 || out.code == 2, "{args:?}: {out}");
    }
    let value = |key: &str| {
        api.kubectl(&["get", "secret", "-n", "kind-secret", "token", "-o", &format!("jsonpath={{.data.{key}}}")])
    };
    assert_eq!((value("token").as_str(), value("plain").as_str()), ("aHVudGVyMi1zZWNvbmQ=", "aHVudGVyMi1wbGFpbg=="));
    let records =
        api.kubectl(&["get", "configmap", "-n", "forge-provisioner", "forge-applied-kind-secret", "-o", "yaml"]);
    assert!(records.contains("keyed:") && !records.contains("hunter2"), "{records}");
    let last = run(&["plan", "inventory.yaml"], "hunter2-second");
    assert!(last.stdout.contains("no changes:"), "{last}");
    api.kubectl(&[
        "patch",
        "secret",
        "-n",
        "kind-secret",
        "token",
        "--type=merge",
        "-p",
        "{\"data\":{\"plain\":\"YQ==\",\"mine\":\"YQ==\"}}",
    ]);
    let drift = run(&["drift", "inventory.yaml"], "hunter2-second");
    assert_eq!(drift.code, 2, "{drift}");
    assert!(drift.stdout.contains("`kubectl-patch` added .data.mine"), "{drift}");
    run(&["apply", "inventory.yaml", "--yes"], "hunter2-second").must_exit(0);
    assert_eq!((value("plain").as_str(), value("mine").as_str()), ("aHVudGVyMi1wbGFpbg==", ""));
    // The command that ends the sandbox runs without the token.
    let inventory = std::fs::read_to_string(site.path("inventory.yaml")).expect("an inventory");
    site.write("inventory.yaml", inventory.split("apply:").next().unwrap_or_default());
    crate::proof::mark_api("secret");
}
