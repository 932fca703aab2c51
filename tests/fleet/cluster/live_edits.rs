//! Changes by hand that the API merges or keeps: the order of list items, ties to other objects, immutable objects, and
//! objects that are being deleted.

use super::support::{Cluster, Helm, Site};

const FRONT: &str = "{ apiVersion: apps/v1, kind: Deployment, metadata: { name: front }, spec: { replicas: 0, selector: { matchLabels: { app: front } }, \
     template: { metadata: { labels: { app: front } }, spec: { \
     initContainers: [{ name: first, image: 'i:1' }, { name: second, image: 'i:1' }], \
     containers: [{ name: main, image: 'i:1', env: [{ name: BASE, value: /data }, { name: DIR, value: $(BASE)/x }] }] } } } }";
const MAP: &str = "{ apiVersion: v1, kind: ConfigMap, metadata: { name: settings }, data: { text: hello } }";
const OTHER: &str = "{ apiVersion: v1, kind: ConfigMap, metadata: { name: other }, data: { text: other } }";

/// Creates a site and applies its recipe: a namespace of the cluster's name, and these objects in it.
fn applied(api: &Cluster, name: &str, objects: &str) -> Site {
    let site = Site::new(api, &api.kubeconfig, "test", Helm::No);
    std::fs::create_dir(site.path("recipes")).expect("a folder");
    site.write(
        "inventory.yaml",
        &format!(
            "cluster: {name}\nconnect: {{ transport: sandbox }}\nhosts: {{ box: }}\n\
             kubernetes: {{ kubeconfig: {}, context: test }}\napply: [{{ recipe: web, on: all }}]\n",
            api.kubeconfig.display()
        ),
    );
    declare(&site, name, objects);
    site.forge(&["apply", "--yes"]).must_exit(0);
    site
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

/// Checks that drift reports `texts`, that an apply repairs it, and that nothing differs then.
fn must_repair(site: &Site, texts: &[&str]) {
    let drift = site.forge(&["drift"]);
    assert!(drift.code == 2 && texts.iter().all(|text| drift.stdout.contains(text)), "{drift}");
    let plan = site.forge(&["plan"]);
    assert!(plan.stdout.contains("~ manifest ") && !plan.stdout.contains("+ manifest "), "{plan}");
    site.forge(&["apply", "--yes"]).must_exit(0);
    site.forge(&["drift"]).must_exit(0);
    let again = site.forge(&["apply", "--yes"]);
    assert!(again.code == 0 && again.stdout.contains("no changes"), "{again}");
}

#[test]
fn order_of_variables_and_init_containers_is_restored() {
    let Some(api) = Cluster::require() else { return };
    let site = applied(api, "ordered", FRONT);
    let names = |list: &str| {
        let path = format!("jsonpath={{.spec.template.spec.{list}[*].name}}");
        api.kubectl(&["get", "deployment", "-n", "ordered", "front", "-o", &path])
    };
    let swap = r#"[{"op":"move","from":"/spec/template/spec/initContainers/0","path":"/spec/template/spec/initContainers/1"}]"#;
    api.kubectl(&["patch", "deployment", "-n", "ordered", "front", "--type=json", "-p", swap]);
    assert_eq!(names("initContainers"), "second first");
    must_repair(&site, &[".spec.template.spec.initContainers order"]);
    assert_eq!(names("initContainers"), "first second");
    // An apply of the API would append the missing variable.
    api.kubectl(&["set", "env", "-n", "ordered", "deployment/front", "BASE-"]);
    must_repair(&site, &["env[name=BASE]"]);
    assert_eq!(names("containers[0].env"), "BASE DIR");
    // An item of another program keeps its place.
    let inject = r#"[{"op":"move","from":"/spec/template/spec/initContainers/0","path":"/spec/template/spec/initContainers/1"},
        {"op":"add","path":"/spec/template/spec/initContainers/0","value":{"name":"mesh","image":"i:1"}}]"#;
    api.kubectl(&[
        "patch",
        "deployment",
        "-n",
        "ordered",
        "front",
        "--type=json",
        "--field-manager=mesh",
        "-p",
        inject,
    ]);
    must_repair(&site, &[".spec.template.spec.initContainers order"]);
    assert_eq!(names("initContainers"), "mesh first second");
}

#[test]
fn finalizers_and_owners_added_by_hand_are_removed() {
    let Some(api) = Cluster::require() else { return };
    let site = applied(api, "tied", &format!("{MAP}, {OTHER}"));
    let uid = api.kubectl(&["get", "configmap", "-n", "tied", "other", "-o", "jsonpath={.metadata.uid}"]);
    let tie = format!(
        r#"{{"metadata":{{"finalizers":["x.example/hold"],"ownerReferences":[{{"apiVersion":"v1","kind":"ConfigMap","name":"other","uid":"{uid}"}}]}}}}"#
    );
    api.kubectl(&["patch", "configmap", "-n", "tied", "settings", "--type=merge", "-p", &tie]);
    must_repair(&site, &[".metadata.finalizers", ".metadata.ownerReferences", "kubectl-patch"]);
    let left = [
        "get",
        "configmap",
        "-n",
        "tied",
        "settings",
        "-o",
        "jsonpath={.metadata.finalizers}{.metadata.ownerReferences}",
    ];
    assert_eq!(api.kubectl(&left), "");
}

#[test]
fn immutable_object_is_named_with_its_remedy() {
    let Some(api) = Cluster::require() else { return };
    let site = applied(api, "frozen", MAP);
    let freeze = r#"{"immutable":true}"#;
    api.kubectl(&["patch", "configmap", "-n", "frozen", "settings", "--type=merge", "-p", freeze]);
    let remedy = "`kubectl delete -n frozen configmap settings`";
    for (verb, code) in [(&["drift"][..], 2), (&["apply", "--yes"], 3)] {
        let out = site.forge(verb);
        let named = out.stdout.contains("`kubectl-patch` added .immutable") && out.stdout.contains(remedy);
        assert!(out.code == code && named, "{out}");
    }
    declare(&site, "frozen", &MAP.replace("hello", "bye"));
    let plan = site.forge(&["plan"]);
    assert!(plan.stdout.contains(remedy) && !plan.stdout.contains("fix the declaration of this object"), "{plan}");
    api.kubectl(&["delete", "-n", "frozen", "configmap", "settings"]);
    site.forge(&["apply", "--yes"]).must_exit(0);
}

#[test]
fn deletion_that_waits_names_its_finalizer() {
    let Some(api) = Cluster::require() else { return };
    let site = applied(api, "leaving", &format!("{MAP}, {OTHER}"));
    let hold = |finalizers: &str| {
        let patch = format!(r#"{{"metadata":{{"finalizers":[{finalizers}]}}}}"#);
        api.kubectl(&["patch", "configmap", "-n", "leaving", "settings", "--type=merge", "-p", &patch]);
    };
    hold(r#""x.example/hold""#);
    api.kubectl(&["delete", "configmap", "-n", "leaving", "settings", "--wait=false"]);
    let drift = site.forge(&["drift"]);
    let named = "ConfigMap leaving/settings is being deleted: waiting for finalizers `x.example/hold`";
    assert!(drift.code == 9 && drift.stdout.contains(named), "{drift}");
    hold("");
    site.forge(&["apply", "--yes"]).must_exit(0);
}

/// An object that the step does not declare any more, and deletes, is not listed as one that stays.
#[test]
fn object_that_the_step_deletes_is_not_listed_as_kept() {
    let Some(api) = Cluster::require() else { return };
    let site = applied(api, "fewer", &format!("{MAP}, {OTHER}"));
    declare(&site, "fewer", MAP);
    let plan = site.forge(&["plan"]);
    assert!(plan.stdout.contains("- ConfigMap fewer/other: exists"), "{plan}");
    assert!(
        !plan.stdout.contains("not removed") && plan.stdout.contains("~ manifest ConfigMap fewer/settings"),
        "{plan}"
    );
    let drift = site.forge(&["drift"]);
    assert!(drift.code == 2 && drift.stdout.contains("drift: 1 finding "), "{drift}");
    site.forge(&["apply", "--yes"]).must_exit(0);
    site.forge(&["drift"]).must_exit(0);
}

/// No controller serves this kind: the test writes the status.
const METERS: &str = "{ apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: { name: meters.lag.forge.test }, spec: { \
     group: lag.forge.test, scope: Namespaced, names: { kind: Meter, plural: meters, singular: meter }, \
     versions: [{ name: v1, served: true, storage: true, subresources: { status: {} }, \
     schema: { openAPIV3Schema: { type: object, x-kubernetes-preserve-unknown-fields: true } } }] } }";

/// A condition that the controller evaluated before the change: it is not known whether it still holds.
#[test]
fn condition_of_an_earlier_generation_is_not_accepted() {
    let Some(api) = Cluster::require() else { return };
    let meter = |size: u32| {
        format!(
            "{METERS}, {{ apiVersion: lag.forge.test/v1, kind: Meter, metadata: {{ name: m }}, spec: {{ size: {size} }} }}"
        )
    };
    let observe = |generation: u32| {
        let status = format!(
            r#"{{"status":{{"observedGeneration":{generation},"conditions":[{{"type":"Ready","status":"True","message":"ready"}}]}}}}"#
        );
        api.kubectl(&["patch", "meter", "-n", "lag", "m", "--subresource=status", "--type=merge", "-p", &status]);
    };
    let site = applied(api, "lag", &meter(1));
    observe(1);
    let wait = |size| {
        declare(&site, "lag", &meter(size));
        let recipe = std::fs::read_to_string(site.path("recipes/web.yaml")).expect("a recipe");
        site.write(
            "recipes/web.yaml",
            &recipe.replace("namespace: lag, objects", "namespace: lag, wait: Ready, limit: 4s, objects"),
        );
    };
    wait(1);
    site.forge(&["apply", "--yes"]).must_exit(0);
    wait(2);
    let why = "its controller has not evaluated generation 2 yet (status of generation 1)";
    let apply = site.forge(&["apply", "--yes"]);
    assert!(apply.code != 0 && apply.to_string().contains(&format!("is not Ready after 4 s: {why}")), "{apply}");
    for (verb, code) in [("drift", 2), ("verify", 5)] {
        let out = site.forge(&[verb]);
        assert!(out.code == code && out.to_string().contains(why), "{verb}: {out}");
    }
    observe(2);
    for verb in ["drift", "verify"] {
        site.forge(&[verb]).must_exit(0);
    }
}
