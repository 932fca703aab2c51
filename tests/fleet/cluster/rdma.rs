//! The recipes of RDMA in the cluster, through a real API. Nobody runs pods there: the test says what kubelets would.

use super::support::{Cluster, Helm, Site};
use crate::support::Output;

/// A site of one sandbox that applies `entries`.
fn site(api: &Cluster, name: &str, helm: Helm, entries: &str) -> Site {
    let site = Site::new(api, &api.kubeconfig, "test", helm);
    declare(api, &site, name, entries);
    site
}

fn declare(api: &Cluster, site: &Site, name: &str, entries: &str) {
    let kubeconfig = api.kubeconfig.display();
    site.write(
        "inventory.yaml",
        &format!(
            "cluster: {name}\nconnect: {{ transport: sandbox }}\nhosts: {{ box: }}\n\
             kubernetes: {{ kubeconfig: {kubeconfig}, context: test }}\napply: [{entries}]\n"
        ),
    );
}

fn plugin(name: &str, more: &str) -> String {
    format!(
        "{{ recipe: rdma-shared-device-plugin, on: all, with: {{ image: forge.local/rdma-plugin, namespace: {name}, \
         resources: {{ ib: 128 }}{more} }} }}"
    )
}

fn forge(site: &Site, args: &[&str]) -> Output {
    site.forge(args)
}

fn must_apply(site: &Site) -> Output {
    let out = forge(site, &["apply", "--yes"]);
    assert_eq!(out.code, 0, "{out}");
    out
}

fn has(out: &Output, text: &str) {
    assert!(out.stdout.contains(text), "no `{text}` in {out}");
}

fn asked(api: &Cluster, name: &str, what: &[&str], path: &str) -> String {
    let path = format!("jsonpath={path}");
    api.kubectl(&[&["-n", name, "get"], what, &["-o", &path]].concat())
}

/// Returns what the ConfigMap and the DaemonSet are called.
fn names(via: &str) -> (&'static str, &'static str) {
    match via {
        "chart" => ("rdma-shared-device-plugin", "rdma-shared-device-plugin"),
        _ => ("rdma-devices", "rdma-shared-dp-ds"),
    }
}

const CONFIG: &str = r#"{"periodicUpdateInterval": 60, "configList": [{"resourceName": "ib", "rdmaHcaMax": 128, "selectors": {"vendors": ["15b3"], "linkTypes": ["infiniband"]}}]}"#;

/// From nothing to nothing to do, tampered with, repaired, changed and removed, with each helm and without.
#[test]
fn the_shared_plugin_is_kept_as_declared() {
    let Some(api) = Cluster::require() else { return };
    for (helm, name, via) in
        [(Helm::Three, "plugin3", "chart"), (Helm::Four, "plugin4", "chart"), (Helm::No, "plugin0", "manifest")]
    {
        eprintln!("with {helm:?}");
        kept(api, helm, name, via);
    }
}

fn kept(api: &Cluster, helm: Helm, name: &str, via: &str) {
    let site = site(api, name, helm, &plugin(name, &format!(", via: {via}")));
    let (config, set) = names(via);
    must_apply(&site);
    assert_eq!(asked(api, name, &["configmap", config], r"{.data.config\.json}"), CONFIG);
    let annotations = "{.spec.template.metadata.annotations}";
    let read = asked(api, name, &["daemonset", set], annotations);
    let image = "{.spec.template.spec.containers[0].image}";
    assert_eq!(asked(api, name, &["daemonset", set], image), "forge.local/rdma-plugin:v1.5.3");
    has(&must_apply(&site), "nothing to do");
    // Somebody sets another number, which no running plugin reads.
    let edited = CONFIG.replace("128", "1024").replace('"', "\\\"");
    let patch = format!(r#"{{"data":{{"config.json":"{edited}"}}}}"#);
    api.kubectl(&["-n", name, "patch", "configmap", config, "--type=merge", "-p", &patch]);
    let drift = forge(&site, &["drift"]);
    assert_eq!(drift.code, 2, "{drift}");
    has(&drift, "kubectl-patch");
    must_apply(&site);
    assert_eq!(asked(api, name, &["configmap", config], r"{.data.config\.json}"), CONFIG);
    assert_eq!(forge(&site, &["drift"]).code, 0);
    // A declared change starts the plugin anew.
    let more = plugin(name, &format!(", via: {via}")).replace("ib: 128", "ib: 1024");
    declare(api, &site, name, &more);
    must_apply(&site);
    assert_ne!(asked(api, name, &["daemonset", set], annotations), read);
    declare(api, &site, name, &more.replace("on: all", "on: all, ensure: absent"));
    must_apply(&site);
    let left = api.kubectl(&["-n", name, "get", "daemonset,configmap", "-o", "name"]);
    assert!(!left.contains("rdma-"), "{left}");
    has(&must_apply(&site), "nothing to do");
}

/// One way follows the other without a time in which both, or none, are declared.
#[test]
fn the_shared_plugin_goes_from_one_way_to_the_other_in_one_run() {
    let Some(api) = Cluster::require() else { return };
    let name = "pluginways";
    let ways = |via: &str| plugin(name, &format!(", via: {via}"));
    let site = site(api, name, Helm::Four, &ways("chart"));
    must_apply(&site);
    for via in ["manifest", "chart"] {
        declare(api, &site, name, &ways(via));
        must_apply(&site);
        has(&must_apply(&site), "nothing to do");
        let left = api.kubectl(&["-n", name, "get", "daemonset", "-o", "name"]);
        assert_eq!(left, format!("daemonset.apps/{}", names(via).1));
    }
}
