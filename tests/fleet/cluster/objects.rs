//! Cluster steps together with host steps: applied, applied again, drifted, repaired, pruned, blocked, killed.

use super::support::{Cluster, Helm, Site};
use crate::support::{JournalWatch, Output};
use std::io::{BufRead as _, BufReader};
use std::process::Stdio;
use std::time::{Duration, Instant};

/// Creates a site of two sandboxes; `name` is the name of its cluster and namespace.
fn site(api: &Cluster, name: &str, rest: &str) -> Site {
    let site = Site::new(api, &api.kubeconfig, "test", Helm::No);
    std::fs::create_dir(site.path("recipes")).expect("a folder");
    let kubeconfig = api.kubeconfig.display();
    site.write(
        "inventory.yaml",
        &format!(
            "cluster: {name}\nconnect: {{ transport: sandbox }}\nhosts: {{ 'box[1:2]': }}\nkubernetes: {{ kubeconfig: {kubeconfig}, context: test }}\n{rest}"
        ),
    );
    site
}

fn settings(name: &str, data: &str) -> String {
    format!(
        "recipe: web\nsummary: A page.\nsteps:\n\
         \x20 - name: marker\n    file: {{ path: /etc/marker, content: \"x\\n\" }}\n\
         \x20 - name: space\n    namespace: {{ name: {name}, labels: {{ team: ml }} }}\n\
         \x20 - name: settings\n    manifest: {{ namespace: {name}, objects: [{data}] }}\n\
         \x20 - name: after\n    file: {{ path: /etc/after, content: \"y\\n\" }}\n"
    )
}

const MAP: &str = "{ apiVersion: v1, kind: ConfigMap, metadata: { name: settings }, data: { text: hello } }";
const OTHER: &str = "{ apiVersion: v1, kind: ConfigMap, metadata: { name: other }, data: { text: other } }";
const FRONT: &str = "{ apiVersion: apps/v1, kind: Deployment, metadata: { name: front }, spec: { replicas: 2, selector: { matchLabels: { app: front } }, \
     template: { metadata: { labels: { app: front } }, spec: { containers: [{ name: main, image: 'nginx:1.27', \
     resources: { limits: { memory: 1024Mi } } }] } } } }";
const APPLY: &str = "apply:\n  - { recipe: web, on: all }\n";

fn apply(site: &Site) -> Output {
    site.forge(&["apply", "inventory.yaml", "--yes"])
}

fn version(api: &Cluster, what: &[&str]) -> String {
    let mut args = vec!["get"];
    args.extend(what);
    args.extend(["-o", "jsonpath={.metadata.resourceVersion}"]);
    api.kubectl(&args)
}

#[test]
fn second_apply_of_hosts_and_cluster_writes_nothing() {
    let Some(api) = Cluster::require() else { return };
    let site = site(api, "whole", APPLY);
    site.write("recipes/web.yaml", &settings("whole", &format!("{MAP}, {FRONT}")));
    let plan = site.forge(&["plan", "inventory.yaml"]);
    assert!(plan.stdout.contains("cluster whole, 2 hosts and the cluster, declared in inventory.yaml"), "{plan}");
    assert!(plan.stdout.contains("6 changes (1 predicted) on 2 of 2 hosts and the cluster"), "{plan}");
    let out = apply(&site);
    assert_eq!(out.code, 0, "{out}");
    assert!(out.stdout.contains("2 hosts and the cluster: 3 changed"), "{out}");
    assert_eq!(api.kubectl(&["get", "deployment", "-n", "whole", "front", "-o", "jsonpath={.spec.replicas}"]), "2");
    let before = version(api, &["deployment", "-n", "whole", "front"]);
    let again = apply(&site);
    assert_eq!(again.code, 0, "{again}");
    assert!(again.stdout.contains("no changes: 2 hosts and the cluster, 6 steps match"), "{again}");
    // The status changes by itself; the declared fields were not written.
    let managers = api.kubectl(&[
        "get",
        "configmap",
        "-n",
        "whole",
        "settings",
        "-o",
        "jsonpath={.metadata.managedFields[*].manager}",
    ]);
    assert_eq!(managers, "forge");
    assert!(!before.is_empty());
    let map = version(api, &["configmap", "-n", "whole", "settings"]);
    apply(&site);
    assert_eq!(version(api, &["configmap", "-n", "whole", "settings"]), map);
    let drift = site.forge(&["drift", "inventory.yaml"]);
    assert_eq!(drift.code, 0, "{drift}");
    assert!(drift.stdout.contains("no drift: 2 hosts and the cluster, 6 checks match"), "{drift}");
}

/// Each inventory has its own records in the API.
#[test]
fn object_that_another_inventory_declares_is_named() {
    let Some(api) = Cluster::require() else { return };
    let (first, second) = (site(api, "shared-a", APPLY), site(api, "shared-b", APPLY));
    first.write("recipes/web.yaml", &settings("shared", MAP));
    second.write("recipes/web.yaml", &settings("shared", &MAP.replace("hello", "bye")));
    apply(&first).must_exit(0);
    let plan = second.forge(&["plan", "inventory.yaml"]);
    let said =
        "cluster `shared-a` was applied here with another declaration: ConfigMap shared/settings by `web/settings`";
    assert!(plan.stdout.contains(said), "{plan}");
    assert!(!plan.stdout.contains("`web/space`"), "the namespace is declared equally: {plan}");
    apply(&second).must_exit(0);
    let text = ["get", "configmap", "-n", "shared", "settings", "-o", "jsonpath={.data.text}"];
    assert_eq!(api.kubectl(&text), "bye");
    let drift = first.forge(&["drift", "inventory.yaml"]);
    let said = "cluster `shared-b` was applied here with another declaration: ConfigMap shared/settings";
    assert!(
        drift.code == 2 && drift.stdout.contains(said) && drift.stdout.contains("applied after this one"),
        "{drift}"
    );
}

#[test]
fn edited_object_is_drift_with_its_manager_and_is_repaired() {
    let Some(api) = Cluster::require() else { return };
    let site = site(api, "edited", APPLY);
    site.write("recipes/web.yaml", &settings("edited", &format!("{MAP}, {FRONT}")));
    apply(&site).must_exit(0);
    api.kubectl(&[
        "patch",
        "configmap",
        "-n",
        "edited",
        "settings",
        "--type=merge",
        "-p",
        "{\"data\":{\"text\":\"bye\",\"mine\":\"1\"}}",
    ]);
    api.kubectl(&["set", "image", "-n", "edited", "deployment/front", "main=nginx:1.28"]);
    let drift = site.forge(&["drift", "inventory.yaml"]);
    assert_eq!(drift.code, 2, "{drift}");
    let told = &drift.stdout;
    assert!(told.contains("`kubectl-patch` set .data.text at 20"), "{drift}");
    assert!(told.contains("`kubectl-patch` added .data.mine at 20"), "{drift}");
    assert!(told.contains("main") && told.contains("nginx:1.28"), "{drift}");
    let plan = site.forge(&["plan", "inventory.yaml", "-o", "plan.json"]);
    assert_eq!(plan.code, 0, "{plan}");
    let out = site.forge(&["apply", "plan.json", "--yes"]);
    assert_eq!(out.code, 0, "{out}");
    assert_eq!(
        api.kubectl(&["get", "configmap", "-n", "edited", "settings", "-o", "jsonpath={.data}"]),
        "{\"text\":\"hello\"}"
    );
    let image = "jsonpath={.spec.template.spec.containers[0].image}";
    assert_eq!(api.kubectl(&["get", "deployment", "-n", "edited", "front", "-o", image]), "nginx:1.27");
    site.forge(&["drift", "inventory.yaml"]).must_exit(0);
    crate::proof::mark_api("manifest");
}

#[test]
fn custom_resource_and_its_crd_are_applied_and_repaired() {
    let Some(api) = Cluster::require() else { return };
    let site = site(api, "custom", APPLY);
    let definition = "{ apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: { name: pages.custom.example }, \
         spec: { group: custom.example, scope: Namespaced, names: { plural: pages, singular: page, kind: Page }, \
         versions: [{ name: v1, served: true, storage: true, schema: { openAPIV3Schema: { type: object, \
         x-kubernetes-preserve-unknown-fields: true } } }] } }";
    let page =
        "{ apiVersion: custom.example/v1, kind: Page, metadata: { name: home }, spec: { title: hello, size: 3 } }";
    site.write("recipes/web.yaml", &settings("custom", &format!("{page}, {definition}")));
    let out = apply(&site);
    assert_eq!(out.code, 0, "{out}");
    api.kubectl(&["patch", "page", "-n", "custom", "home", "--type=merge", "-p", "{\"spec\":{\"title\":\"bye\"}}"]);
    let drift = site.forge(&["drift", "inventory.yaml"]);
    assert_eq!(drift.code, 2, "{drift}");
    assert!(drift.stdout.contains("`kubectl-patch` set .spec.title"), "{drift}");
    apply(&site).must_exit(0);
    assert_eq!(api.kubectl(&["get", "page", "-n", "custom", "home", "-o", "jsonpath={.spec.title}"]), "hello");
}

#[test]
fn objects_of_others_are_not_deleted_with_a_manifest() {
    let Some(api) = Cluster::require() else { return };
    let site = site(api, "guests", "apply: [{ recipe: web, on: all }]\n");
    let recipe = "recipe: web
summary: A kind, and an object of it.
steps:
  - name: objects
    manifest:
      namespace: guests
      objects:
        - { apiVersion: v1, kind: Namespace, metadata: { name: guests } }
        - apiVersion: apiextensions.k8s.io/v1
          kind: CustomResourceDefinition
          metadata: { name: pages.guests.example }
          spec:
            group: guests.example
            scope: Namespaced
            names: { plural: pages, singular: page, kind: Page }
            versions:
              - name: v1
                served: true
                storage: true
                schema: { openAPIV3Schema: { type: object, x-kubernetes-preserve-unknown-fields: true } }
        - { apiVersion: guests.example/v1, kind: Page, metadata: { name: home }, spec: { title: hello } }
";
    site.write("recipes/web.yaml", recipe);
    apply(&site).must_exit(0);
    let page = "{ apiVersion: guests.example/v1, kind: Page, metadata: { name: theirs, namespace: default } }";
    api.kubectl_with(&["apply", "-f", "-"], page);
    let inventory = std::fs::read_to_string(site.path("inventory.yaml")).expect("an inventory");
    site.write("inventory.yaml", &inventory.replace("on: all", "on: all, ensure: absent"));
    let blocked = |why: &str| {
        for verb in [&["plan", "inventory.yaml"][..], &["apply", "inventory.yaml", "--yes"]] {
            let out = site.forge(verb);
            assert!(out.code != 0 && out.stdout.contains(why), "no `{why}` in {out}");
        }
        let pages = api.kubectl(&["get", "pages.guests.example", "-A", "-o", "name"]);
        assert!(pages.contains("page.guests.example/home"), "{pages}");
    };
    blocked("objects of CustomResourceDefinition pages.guests.example exist: Page default/theirs");
    api.kubectl(&["delete", "pages.guests.example", "theirs"]);
    api.kubectl(&["create", "configmap", "-n", "guests", "theirs"]);
    blocked("Namespace guests is not empty: ConfigMap theirs");
    site.write(
        "recipes/web.yaml",
        &recipe.replace("objects:\n        -", "contents: delete\n      objects:\n        -"),
    );
    let plan = site.forge(&["plan", "inventory.yaml"]);
    assert!(plan.stdout.contains("contents of namespaces and definitions are deleted with them"), "{plan}");
    apply(&site).must_exit(0);
    let left = api.kubectl(&["get", "ns,crd", "-o", "name"]);
    assert!(!left.contains("guests"), "{left}");
}

/// An operator says `ready` of before the change, then of the change, then ready again.
#[test]
fn state_of_before_the_change_does_not_verify_it() {
    let Some(api) = Cluster::require() else { return };
    let site = site(api, "settling", APPLY);
    let verify = "verify:
  - name: ready
    object: { api_version: v1, kind: ConfigMap, namespace: default, name: settling }
    expect: object.data.state == 'ready'
    within: 60s
    settle: 5s
";
    site.write("recipes/web.yaml", &(settings("settling", MAP) + verify));
    let say = |state: &str| {
        let map = format!(
            "{{ apiVersion: v1, kind: ConfigMap, metadata: {{ name: settling }}, data: {{ state: {state} }} }}"
        );
        api.kubectl_with(&["apply", "-f", "-"], &map)
    };
    say("ready");
    let mut run = site.command(&["apply", "inventory.yaml", "--yes"]);
    let mut run = run.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("forge");
    let began = Instant::now();
    let mut heard = Vec::new();
    for line in BufReader::new(run.stderr.take().expect("a pipe")).lines().map_while(Result::ok) {
        let Some((_, why)) = line.split_once("waits for web: ready: ") else { continue };
        if heard.last().map(String::as_str) != Some(why) {
            heard.push(why.to_owned());
            say(if heard.len() == 1 { "rolling" } else { "ready" });
        }
    }
    assert!(run.wait().expect("its end").success() && began.elapsed() >= Duration::from_secs(5), "{heard:?}");
    let unsettled = "it passes, perhaps still because of the state before the change";
    assert!(heard[0] == unsettled && heard[1].starts_with("expectation failed"), "{heard:?}");
    // Nothing changes: the state is of long ago.
    let again = apply(&site);
    assert!(again.code == 0 && !again.stderr.contains(unsettled), "{again}");
}

/// Moves the records of an inventory to the namespace of earlier versions of forge, which also contains objects of
/// another product.
fn move_to_former_namespace(api: &Cluster, inventory: &str) {
    let name = format!("forge-applied-{inventory}");
    let records = api.kubectl(&["get", "configmap", "-n", "forge-provisioner", &name, "-o", "json"]);
    let mut records: serde_json::Value = serde_json::from_str(&records).expect("JSON");
    records["metadata"] = serde_json::json!({ "name": name });
    api.kubectl(&["create", "ns", "forge-system"]);
    let create = ["create", "-n", "forge-system", "--field-manager=forge", "-f", "-"];
    api.kubectl_with(&create, &records.to_string());
    api.kubectl(&["delete", "configmap", "-n", "forge-provisioner", &name]);
    api.kubectl(&["create", "configmap", "-n", "forge-system", "forge-applied-theirs", "--from-literal=a=b"]);
}

/// Simulates a run of an earlier version, which holds its lock in the former namespace.
fn lock_of_an_earlier_version_excludes(api: &Cluster, site: &Site, inventory: &str) {
    let name = format!("forge-lock-{inventory}");
    let lease = serde_json::json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": { "name": name, "annotations": { "forge/owner": "run r1 of me@elsewhere" } },
        "spec": { "holderIdentity": "r1 me@elsewhere 7", "leaseDurationSeconds": 300 },
    });
    api.kubectl_with(&["create", "-n", "forge-system", "--field-manager=forge", "-f", "-"], &lease.to_string());
    let out = apply(site);
    assert_eq!(out.code, 7, "{out}");
    api.kubectl(&["delete", "lease", "-n", "forge-system", &name]);
}

#[test]
fn objects_no_longer_declared_are_deleted() {
    let Some(api) = Cluster::require() else { return };
    let site = site(api, "pruned", APPLY);
    site.write("recipes/web.yaml", &settings("pruned", &format!("{MAP}, {OTHER}")));
    apply(&site).must_exit(0);
    move_to_former_namespace(api, "pruned");
    // In the object that stays, one key is removed and another one is added.
    let map = MAP.replace("text: hello", "other: hello");
    site.write("recipes/web.yaml", &settings("pruned", &map));
    let plan = site.forge(&["plan", "inventory.yaml"]);
    assert!(plan.stdout.contains("ConfigMap pruned/other is no longer declared"), "{plan}");
    lock_of_an_earlier_version_excludes(api, &site, "pruned");
    let out = apply(&site);
    assert_eq!(out.code, 0, "{out}");
    assert!(
        out.to_string().contains("moved ConfigMap forge-applied-pruned from forge-system to forge-provisioner"),
        "{out}"
    );
    let others = "metadata.name!=kube-root-ca.crt";
    let left = ["get", "configmap,lease", "-n", "forge-system", "-o", "name", "--field-selector", others];
    assert_eq!(api.kubectl(&left), "configmap/forge-applied-theirs");
    api.kubectl(&["delete", "ns", "forge-system"]);
    assert_eq!(
        api.kubectl(&["get", "configmap", "-n", "pruned", "settings", "-o", "jsonpath={.data}"]),
        "{\"other\":\"hello\"}"
    );
    let left = api.kubectl(&["get", "configmap", "-n", "pruned", "-o", "name", "--ignore-not-found"]);
    assert!(!left.contains("configmap/other"), "{left}");
    let again = apply(&site);
    assert!(again.stdout.contains("no changes:"), "{again}");
    // Everything is removed with its recipe.
    let inventory = std::fs::read_to_string(site.path("inventory.yaml")).expect("an inventory");
    site.write("inventory.yaml", &inventory.replace("on: all", "on: all, ensure: absent"));
    let out = apply(&site);
    assert_eq!(out.code, 0, "{out}");
    assert_eq!(api.kubectl(&["get", "ns", "pruned", "--ignore-not-found"]), "");
}

/// The step that loses the object runs after the one that gets it, then before it.
#[test]
fn object_that_moves_into_another_step_stays() {
    let Some(api) = Cluster::require() else { return };
    let site = site(api, "moved", APPLY);
    let whole = settings("moved", &format!("{MAP}, {OTHER}"));
    site.write("recipes/web.yaml", &whole);
    apply(&site).must_exit(0);
    let uid = || api.kubectl(&["get", "configmap", "-n", "moved", "other", "-o", "jsonpath={.metadata.uid}"]);
    let before = uid();
    let extra = format!("  - name: extra\n    manifest: {{ namespace: moved, objects: [{OTHER}] }}\n");
    let rest = settings("moved", MAP);
    for recipe in [rest.replace("  - name: settings", &format!("{extra}  - name: settings")), format!("{rest}{extra}")]
    {
        site.write("recipes/web.yaml", &recipe);
        let out = apply(&site);
        assert_eq!((out.code, uid()), (0, before.clone()), "{out}");
        assert!(out.stdout.contains("no changes:"), "{out}");
    }
    // No step declares it any more.
    site.write("recipes/web.yaml", &rest);
    let out = apply(&site);
    assert_eq!(out.code, 0, "{out}");
    let left = api.kubectl(&["get", "configmap", "-n", "moved", "-o", "name"]);
    assert!(left.contains("configmap/settings") && !left.contains("configmap/other"), "{left}");
}

#[test]
fn non_empty_namespace_is_not_deleted() {
    let Some(api) = Cluster::require() else { return };
    let site = site(api, "kept", &APPLY.replace("on: all", "on: all, ensure: absent"));
    site.write(
        "recipes/web.yaml",
        "recipe: web\nsummary: A page.\nsteps:\n  - name: space\n    namespace: { name: kept, labels: { team: ml } }\n",
    );
    api.kubectl(&["create", "ns", "kept"]);
    api.kubectl(&["create", "configmap", "-n", "kept", "theirs"]);
    let out = apply(&site);
    assert_eq!(out.code, 3, "{out}");
    assert!(out.stdout.contains("the namespace is not empty: ConfigMap theirs"), "{out}");
    // An object that is being deleted does not block the removal, however long its deletion takes.
    api.kubectl(&["patch", "configmap", "-n", "kept", "theirs", "-p", r#"{"metadata":{"finalizers":["test/slow"]}}"#]);
    api.kubectl(&["delete", "configmap", "-n", "kept", "theirs", "--wait=false"]);
    let said = "s: delete Namespace kept: Some resources are remaining: configmaps. has 1 resource instances; \
                Some content in the namespace has finalizers remaining: test/slow in 1 resource instances";
    let out = site.forge(&["apply", "inventory.yaml", "--yes", "--timeout", "15s"]);
    assert_eq!(out.code, 3, "{out}");
    let found = "Namespace kept exists";
    assert!(out.stdout.contains(found) && out.stdout.contains(said), "no `{found}` and `{said}` in {out}");
    // The second time the namespace is already being deleted, and forge waits again, until TERM.
    let (out, took) = stopped_apply(&site);
    assert_eq!(out.code, 130, "{out}");
    assert!(took < Duration::from_secs(10), "{took:?}: {out}");
    let found = "Namespace kept is being deleted, but still exists";
    let said = format!("stopped with the run: {}", &said[3..]);
    assert!(out.stdout.contains(found) && out.stdout.contains(&said), "no `{found}` and `{said}` in {out}");
    api.kubectl(&["patch", "configmap", "-n", "kept", "theirs", "-p", r#"{"metadata":{"finalizers":null}}"#]);
    let out = apply(&site);
    assert_eq!(out.code, 0, "{out}");
    assert_eq!(api.kubectl(&["get", "ns", "kept", "--ignore-not-found"]), "");
    // Created, and changed without forge.
    let inventory = std::fs::read_to_string(site.path("inventory.yaml")).expect("an inventory");
    site.write("inventory.yaml", &inventory.replace(", ensure: absent", ""));
    apply(&site).must_exit(0);
    api.kubectl(&["label", "ns", "kept", "by=hand"]);
    site.forge(&["drift", "inventory.yaml"]).must_exit(2);
    apply(&site).must_exit(0);
    let again = apply(&site);
    assert!(again.stdout.contains("no changes:"), "{again}");
    crate::proof::mark_api("namespace");
}

/// Starts an apply, sends TERM when its step has started, and returns how long it ran after that.
fn stopped_apply(site: &Site) -> (Output, Duration) {
    let watch = JournalWatch::new(site.path("state"));
    let mut command = site.command(&["apply", "inventory.yaml", "--yes"]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("forge");
    watch.until(&["step_started"]);
    let pid = rustix::process::Pid::from_raw(child.id().try_into().expect("a pid")).expect("a pid");
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).expect("a signal");
    let began = Instant::now();
    let out = child.wait_with_output().expect("its end");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let code = out.status.code().expect("an exit code");
    (Output { code, stdout: text(&out.stdout), stderr: text(&out.stderr) }, began.elapsed())
}

#[test]
fn secret_parameters_do_not_leak_into_plans_or_records() {
    let Some(api) = Cluster::require() else { return };
    let site = site(api, "secrets", "apply:\n  - { recipe: web, on: all, with: { token: { env: TOKEN } } }\n");
    site.write(
        "recipes/web.yaml",
        "recipe: web\nsummary: A page.\nparams: { token: { type: secret, doc: A token. } }\nsteps:\n\
         \x20 - name: space\n    namespace: { name: secrets }\n\
         \x20 - name: token\n    manifest: { namespace: secrets, objects: [{ apiVersion: v1, kind: Secret, metadata: { name: token }, \
         stringData: { token: '{{ params.token }}' } }, { apiVersion: v1, kind: ConfigMap, metadata: { name: leak }, data: { url: 'x://{{ params.token }}@h' } }] }\n",
    );
    let run = |args: &[&str], token: &str| Output::of(site.command(args).env("TOKEN", token), b"");
    for (token, args) in [
        ("hunter2-first", &["plan", "inventory.yaml", "-vv", "-o", "plan.json"][..]),
        ("hunter2-first", &["apply", "inventory.yaml", "--yes", "-vv"]),
        ("hunter2-second", &["plan", "inventory.yaml", "-vv", "-o", "plan2.json"]),
        ("hunter2-second", &["drift", "inventory.yaml", "-vv"]),
        ("hunter2-second", &["apply", "inventory.yaml", "--yes", "-vv"]),
        ("hunter2-second", &["plan", "inventory.yaml"]),
    ] {
        let out = run(args, token);
        assert!(!out.to_string().contains("hunter2"), "{out}");
        assert!(out.code == 0 || out.code == 2, "{args:?}: {out}");
    }
    for file in ["plan.json", "plan2.json"] {
        assert!(!std::fs::read_to_string(site.path(file)).expect("a plan").contains("hunter2"), "{file}");
    }
    assert_eq!(
        api.kubectl(&["get", "configmap", "-n", "secrets", "leak", "-o", "jsonpath={.data.url}"]),
        "x://hunter2-second@h"
    );
    let records = api.kubectl(&["get", "configmap", "-n", "forge-provisioner", "forge-applied-secrets", "-o", "yaml"]);
    assert!(records.contains("keyed:") && !records.contains("hunter2"), "{records}");
    let last = run(&["plan", "inventory.yaml"], "hunter2-second");
    assert!(last.stdout.contains("no changes:"), "{last}");
    // The command that ends the sandboxes runs without the token.
    let inventory = std::fs::read_to_string(site.path("inventory.yaml")).expect("an inventory");
    site.write("inventory.yaml", inventory.split("apply:").next().unwrap_or_default());
}

#[test]
fn barrier_with_a_missing_host_blocks_the_cluster_step() {
    let Some(api) = Cluster::require() else { return };
    let site = site(api, "barrier", "apply:\n  - { recipe: driver, on: all }\n  - { recipe: web, on: all }\n");
    let driver = "recipe: driver\nsummary: A driver.\nsteps:\n  - name: install\n    command: { apply: 'test -e /etc/ok && touch /etc/installed', check: test -e /etc/installed }\n";
    site.write("recipes/driver.yaml", driver);
    let web = |needs: &str| {
        format!(
            "recipe: web\nsummary: A page.\nsteps:\n  - name: space\n    needs: {needs}\n    namespace: {{ name: barrier }}\n  - name: last\n    needs: [web/space]\n    file: {{ path: /etc/last, content: \"x\\n\" }}\n"
        )
    };
    site.write("recipes/web.yaml", &web("{ driver: { of: selected, least: 100% } }"));
    site.forge(&["exec", "box1", "--yes", "--", "touch", "/etc/ok"]);
    let ok = site.forge(&["exec", "--on", "box1", "--yes", "--", "touch", "/etc/ok"]);
    assert_eq!(ok.code, 0, "{ok}");
    let out = apply(&site);
    assert_eq!(out.code, 3, "{out}");
    assert!(out.to_string().contains("needs `driver/install` on 2 hosts, got 1; missing: box2"), "{out}");
    assert_eq!(api.kubectl(&["get", "ns", "barrier", "--ignore-not-found"]), "");
    site.write("recipes/web.yaml", &web("{ driver: { of: selected, least: 50% } }"));
    let out = apply(&site);
    assert_eq!(out.code, 3, "{out}");
    assert!(api.kubectl(&["get", "ns", "barrier", "-o", "name"]).contains("barrier"), "{out}");
    // A run of the cluster only: the hosts that count are not in this run.
    site.write(
        "recipes/web.yaml",
        &web("{ driver: { of: selected, least: 100% } }").replace("name: barrier", "name: barrier-2"),
    );
    let out = site.forge(&["plan", "inventory.yaml", "--on", "kubernetes"]);
    assert!(out.stdout.contains("not in this run: box1, box2"), "{out}");
}

#[test]
fn unreachable_api_does_not_block_host_steps() {
    let Some(api) = Cluster::require() else { return };
    let site = site(api, "away", APPLY);
    site.write("recipes/web.yaml", "recipe: web\nsummary: A page.\nsteps:\n  - name: marker\n    file: { path: /etc/marker, content: \"x\\n\" }\n  - name: space\n    namespace: { name: away }\n");
    let inventory = std::fs::read_to_string(site.path("inventory.yaml")).expect("an inventory");
    site.write("inventory.yaml", &inventory.replace("context: test", "context: closed"));
    let out = apply(&site);
    assert_eq!(out.code, 4, "{out}");
    assert!(out.to_string().contains("request to `https://127.0.0.1:1` failed"), "{out}");
    assert!(out.stdout.contains("2 hosts and the cluster: 2 changed, 1 unreachable"), "{out}");
    let hosts = site.forge(&["plan", "inventory.yaml", "--on", "all"]);
    assert_eq!(hosts.code, 0, "{hosts}");
    assert!(hosts.stdout.contains("no changes: 2 hosts,"), "{hosts}");
}

#[test]
fn cluster_lock_of_a_killed_run_expires_and_next_apply_finishes() {
    let Some(api) = Cluster::require() else { return };
    let site = site(api, "killed", APPLY);
    // A condition that never becomes true: without a kubelet, no pod runs.
    site.write(
        "recipes/web.yaml",
        &format!(
            "recipe: web\nsummary: A page.\nsteps:\n  - name: space\n    namespace: {{ name: killed }}\n\
             \x20 - name: front\n    manifest: {{ namespace: killed, wait: Available, limit: 2m, objects: [{FRONT}] }}\n"
        ),
    );
    let mut child = site
        .command(&["apply", "inventory.yaml", "--yes"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("forge");
    let began = Instant::now();
    while api.kubectl(&["get", "deployment", "-n", "killed", "front", "-o", "name", "--ignore-not-found"]).is_empty() {
        assert!(began.elapsed() < Duration::from_secs(60), "the deployment was not created within 60 s");
        std::thread::sleep(Duration::from_millis(300));
    }
    let other = apply(&site);
    assert_eq!(other.code, 7, "{other}");
    assert!(
        other.to_string().contains("the cluster is locked by another run: `forge apply inventory.yaml`"),
        "{other}"
    );
    child.kill().expect("killed");
    child.wait().expect("its end");
    api.kubectl(&[
        "patch",
        "deployment",
        "-n",
        "killed",
        "front",
        "--subresource=status",
        "--type=merge",
        "-p",
        "{\"status\":{}}",
    ]);
    let recipe = std::fs::read_to_string(site.path("recipes/web.yaml"))
        .expect("a recipe")
        .replace("wait: Available, limit: 2m, ", "");
    site.write("recipes/web.yaml", &recipe);
    let end = Instant::now() + Duration::from_secs(60);
    let out = loop {
        let out = apply(&site);
        if out.code != 7 || Instant::now() > end {
            break out;
        }
        std::thread::sleep(Duration::from_secs(2));
    };
    assert_eq!(out.code, 0, "{out}");
    let again = apply(&site);
    assert!(again.stdout.contains("no changes:"), "{again}");
}
