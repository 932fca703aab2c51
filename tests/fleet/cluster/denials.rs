//! Requests that the API denies with 403: rejections by admission, and accounts without forge's records.

use super::support::{Cluster, Helm, Site};
use std::path::Path;

/// Creates a site with one recipe: a namespace of the cluster's name, and these objects in it.
fn site(api: &Cluster, name: &str, objects: &str) -> Site {
    let site = Site::new(api, &api.kubeconfig, "test", Helm::No);
    std::fs::create_dir(site.path("recipes")).expect("a folder");
    site.write("inventory.yaml", &inventory(name, &api.kubeconfig));
    declare(&site, name, objects);
    site
}

fn inventory(name: &str, kubeconfig: &Path) -> String {
    format!(
        "cluster: {name}\nconnect: {{ transport: sandbox }}\nhosts: {{ box: }}\n\
         kubernetes: {{ kubeconfig: {}, context: test, namespace: forge-{name} }}\napply: [{{ recipe: web, on: all }}]\n",
        kubeconfig.display()
    )
}

fn declare(site: &Site, name: &str, objects: &str) {
    site.write(
        "recipes/web.yaml",
        &format!(
            "recipe: web\nsummary: A page.\nsteps:\n  - name: space\n    namespace: {{ name: {name} }}\n  - name: objects\n    \
             manifest: {{ namespace: {name}, objects: [{objects}] }}\n"
        ),
    );
}

fn map(name: &str) -> String {
    format!("{{ apiVersion: v1, kind: ConfigMap, metadata: {{ name: {name} }}, data: {{ text: hello }} }}")
}

/// A quota answers with 403, like a missing permission.
#[test]
fn quota_rejects_an_object_in_the_plan() {
    let Some(api) = Cluster::require() else { return };
    let quota = |count: u32| {
        format!(
            "{{ apiVersion: v1, kind: ResourceQuota, metadata: {{ name: rq }}, spec: {{ hard: {{ count/configmaps: \"{count}\" }} }} }}"
        )
    };
    // Namespaces of later versions have a ConfigMap of their own.
    let site = site(api, "quotas", &quota(0));
    site.forge(&["apply", "--yes"]).must_exit(0);
    let used = ["get", "resourcequota", "-n", "quotas", "rq", "-o", "jsonpath={.status.hard}"];
    let end = std::time::Instant::now() + std::time::Duration::from_secs(30);
    while api.kubectl(&used).is_empty() && std::time::Instant::now() < end {
        std::thread::sleep(std::time::Duration::from_millis(200));
    }
    declare(&site, "quotas", &format!("{}, {}", quota(0), map("settings")));
    for verb in [&["plan"][..], &["drift"], &["apply", "--yes"]] {
        let out = site.forge(verb);
        assert!(out.stdout.contains("the API rejects ConfigMap quotas/settings: "), "{out}");
        assert!(out.stdout.contains("exceeded quota: rq"), "{out}");
        assert!(!out.stdout.contains("may not `patch`") && !out.stdout.contains("grant this permission"), "{out}");
    }
    // A change of the quota in the same step ends the rejection.
    declare(&site, "quotas", &format!("{}, {}", quota(5), map("settings")));
    let plan = site.forge(&["plan"]);
    assert!(plan.stdout.contains("rejects ConfigMap quotas/settings at the moment"), "{plan}");
}

/// An account that may manage the objects, but may not read forge's records, does not see what lost its declaration.
#[test]
fn unread_records_are_unknown_and_resolve_nothing() {
    let Some(api) = Cluster::require() else { return };
    let site = site(api, "closed-records", &format!("{}, {}", map("a"), map("b")));
    site.forge(&["apply", "--yes"]).must_exit(0);
    declare(&site, "closed-records", &map("a"));
    let drift = site.forge(&["drift"]);
    assert_eq!(drift.code, 2, "{drift}");
    for args in [
        &["create", "rolebinding", "-n", "closed-records", "all", "--clusterrole=admin", "--user=nobody"][..],
        &["create", "clusterrole", "closed-records", "--verb=get,patch", "--resource=namespaces"],
        &["create", "clusterrolebinding", "closed-records", "--clusterrole=closed-records", "--user=nobody"],
    ] {
        api.kubectl(args);
    }
    site.write("inventory.yaml", &inventory("closed-records", &api.nobody));
    let unread = "forge's records in the cluster could not be read: ";
    for (verb, code) in [(&["drift"][..], 9), (&["verify"], 9), (&["apply", "--yes"], 9)] {
        let out = site.forge(verb);
        assert!(out.code == code && out.stdout.contains(unread), "{verb:?}: {out}");
        assert!(!out.stdout.contains("resolved") && !out.stdout.contains("no drift"), "{out}");
    }
    let plan = site.forge(&["plan"]);
    assert!(plan.code == 9 && plan.stdout.contains(unread) && plan.stdout.contains("2 unknown"), "{plan}");
    // With the records and a change, the apply is denied the lock: the API answers, so it is not unreachable.
    let (store, role) = ("forge-closed-records", "--verb=get,list");
    api.kubectl(&["create", "role", "-n", store, "records", role, "--resource=configmaps,leases"]);
    api.kubectl(&["create", "rolebinding", "-n", store, "records", "--role=records", "--user=nobody"]);
    declare(&site, "closed-records", &map("a").replace("hello", "bye"));
    let out = site.forge(&["apply", "--yes"]);
    assert!(out.code == 3 && !out.stdout.contains("unreachable"), "{out}");
    assert_eq!(api.kubectl(&["get", "configmap", "-n", "closed-records", "a", "-o", "jsonpath={.data.text}"]), "hello");
    site.write("inventory.yaml", &inventory("closed-records", &api.kubeconfig));
    let drift = site.forge(&["drift"]);
    assert!(drift.code == 2 && drift.stdout.contains("ConfigMap closed-records/b"), "{drift}");
}
