//! Changes of a real API are undone, and so is the undo: kubectl shows the objects before and after.

use super::support::{Cluster, Helm, Site};
use crate::support::{Output, limited};
use serde_json::{Value, json};

fn site(api: &Cluster, name: &str, recipe: &str) -> Site {
    let site = Site::new(api, &api.kubeconfig, "test", Helm::No);
    std::fs::create_dir(site.path("recipes")).expect("a folder");
    declare(&site, api, name, "");
    site.write("recipes/own.yaml", recipe);
    site
}

/// Writes the inventory; `rest` is at its end.
fn declare(site: &Site, api: &Cluster, name: &str, rest: &str) {
    let kubeconfig = api.kubeconfig.display();
    site.write(
        "inventory.yaml",
        &format!(
            "cluster: {name}\nconnect: {{ transport: sandbox }}\nhosts: {{ box: }}\nkubernetes: {{ kubeconfig: {kubeconfig}, context: test }}\napply: [{{ recipe: own, on: all }}]\n{rest}"
        ),
    );
}

fn apply(site: &Site) -> Output {
    let out = site.forge(&["apply", "inventory.yaml", "--yes"]);
    assert_eq!(out.code, 0, "{out}");
    out
}

fn undo(site: &Site, arguments: &[&str]) -> Output {
    let mut all = vec!["undo", "last", "-i", "inventory.yaml"];
    all.extend(arguments);
    site.forge(&all)
}

/// Returns the ID of the newest run that changed something.
fn last_run(site: &Site) -> String {
    let out = site.forge(&["runs", "--format", "json"]);
    let runs: Value = serde_json::from_str(&out.stdout).expect("JSON");
    runs["runs"][0]["run"]["info"]["run"].as_str().expect("a run").to_owned()
}

/// Returns the names of the ConfigMaps with journals of the inventory's cluster, and their data.
fn journals(api: &Cluster, name: &str) -> Vec<(String, Value)> {
    let path = "/api/v1/namespaces/forge-provisioner/configmaps?labelSelector=forge%2Fundo-run";
    let own = format!("forge-undo-{name}-2");
    let maps = api.list(path).into_iter();
    let named = maps.map(|map| (map["metadata"]["name"].as_str().expect("a name").to_owned(), map["data"].clone()));
    named.filter(|(name, _)| name.starts_with(&own)).collect()
}

fn create_node(api: &Cluster, name: &str) {
    api.forget(name);
    let node = json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": { "name": name, "labels": { "theirs": "x", "team": "ops" }, "annotations": { "note": "two words" } },
        "spec": { "taints": [{ "key": "spare", "effect": "NoSchedule", "value": "old" }] },
    });
    api.kubectl_with(&["create", "-f", "-"], &node.to_string());
}

/// Returns the labels, annotations and taints of a node that are not those of controllers.
fn marks(api: &Cluster, name: &str) -> Value {
    let node = api.ask("GET", &format!("/api/v1/nodes/{name}"), &Value::Null).expect("the node");
    let own = |part: &str| {
        let mut map = node["metadata"][part].as_object().cloned().unwrap_or_default();
        map.retain(|key, _| !key.contains("kubernetes.io/") && !key.contains("volumes."));
        map.sort_keys();
        map
    };
    let mut taints = node["spec"]["taints"].as_array().cloned().unwrap_or_default();
    taints.retain(|taint| !taint["key"].as_str().unwrap_or_default().starts_with("node.kubernetes.io/"));
    taints.sort_by_key(Value::to_string);
    json!({ "labels": own("labels"), "annotations": own("annotations"), "taints": taints })
}

const NODES: &str = "recipe: own\nsummary: Nodes.\nparams: { nodes: { type: list, default: [NAME-1, NAME-2], doc: Nodes. } }\nsteps:\n\
     \x20 - name: marks\n    each: params.nodes\n    key: item\n    node: { name: '{{ item }}', labels: { team: ml, new: '1' }, \
     annotations: { note: changed }, taints: { spare: { effect: NoSchedule, value: new }, more: PreferNoSchedule } }\n";

#[test]
fn changed_nodes_are_undone_and_so_is_the_undo() {
    let Some(api) = Cluster::require() else { return };
    let (name, nodes) = ("undo-nodes", ["undo-nodes-1", "undo-nodes-2"]);
    nodes.iter().for_each(|node| create_node(api, node));
    let site = site(api, name, &NODES.replace("NAME", name));
    let all = || nodes.map(|node| marks(api, node));
    let before = all();
    let plan = site.forge(&["plan", "inventory.yaml"]);
    assert!(plan.code == 0 && !plan.stdout.contains("cannot be undone"), "{plan}");
    apply(&site);
    let after = all();
    assert_eq!(after[1]["labels"], json!({ "new": "1", "team": "ml", "theirs": "x" }));
    assert_eq!(journals(api, name).len(), 1, "one journal of the run");

    let shown = undo(&site, &["--dry-run"]);
    assert!(shown.code == 0 && shown.stdout.contains("label team") && shown.stdout.contains("ml → ops"), "{shown}");
    assert_eq!(all(), after, "a dry run changes nothing");
    // Saved, reviewed and applied like any other plan.
    let saved = undo(&site, &["-o", "undo.json"]);
    assert!(saved.code == 0 && saved.stdout.contains("next: forge apply undo.json"), "{saved}");
    let undone = site.forge(&["apply", "undo.json", "--yes"]);
    assert_eq!(undone.code, 0, "{undone}");
    assert_eq!(all(), before, "{undone}");
    let records =
        api.kubectl(&["get", "configmap", "-n", "forge-provisioner", "forge-applied-undo-nodes", "-o", "json"]);
    assert!(!records.contains("own"), "nothing of the run is recorded as applied: {records}");

    let redone = undo(&site, &["--yes"]);
    assert_eq!(redone.code, 0, "{redone}");
    assert_eq!(all(), after, "{redone}");
    let matching = site.forge(&["plan", "inventory.yaml", "--detailed-exitcode"]);
    assert_eq!(matching.code, 0, "the records are valid again: {matching}");
    nodes.iter().for_each(|node| api.forget(node));
    crate::proof::mark_api("restore_node");
}

#[test]
fn node_that_was_changed_after_the_run_is_refused_by_name() {
    let Some(api) = Cluster::require() else { return };
    let (name, nodes) = ("undo-moved", ["undo-moved-1", "undo-moved-2"]);
    nodes.iter().for_each(|node| create_node(api, node));
    let site = site(api, name, &NODES.replace("NAME", name));
    let before = nodes.map(|node| marks(api, node));
    apply(&site);
    let run = last_run(&site);
    api.kubectl(&["label", "node", nodes[0], "--overwrite", "team=web"]);
    let moved = nodes.map(|node| marks(api, node));
    let refused = undo(&site, &["--yes"]);
    let why = format!(
        "own/marks[{0}]: label team of node {0} was changed after the run (`kubectl-label` set label team at 20",
        nodes[0]
    );
    assert!(refused.code == 3 && refused.stderr.contains(&why), "{refused}");
    assert!(refused.stderr.contains("(on kubernetes)") && refused.stderr.contains("nothing was changed"), "{refused}");
    assert_eq!(nodes.map(|node| marks(api, node)), moved, "nothing was changed");
    // The other node is undone; this one keeps every entry, also those that nobody else changed.
    let partial = undo(&site, &["--yes", "--partial"]);
    assert_eq!(partial.code, 0, "{partial}");
    assert_eq!(marks(api, nodes[0]), moved[0], "{partial}");
    assert_eq!(marks(api, nodes[1]), before[1], "{partial}");
    // The rest of the first run is undone if the later change may be lost.
    let forced = site.forge(&["undo", &run, "-i", "inventory.yaml", "--yes", "--overwrite", "--step", "own/marks"]);
    assert_eq!(forced.code, 0, "{forced}");
    assert_eq!(nodes.map(|node| marks(api, node)), before, "{forced}");
    nodes.iter().for_each(|node| api.forget(node));
}

#[test]
fn changed_label_is_overwritten_if_wanted() {
    let Some(api) = Cluster::require() else { return };
    let (name, node) = ("undo-forced", "undo-forced-1");
    [node, "undo-forced-2"].iter().for_each(|node| create_node(api, node));
    let site = site(api, name, &NODES.replace("NAME", name));
    let before = marks(api, node);
    apply(&site);
    api.kubectl(&["label", "node", node, "--overwrite", "team=web", "new=2"]);
    undo(&site, &["--yes"]).must_exit(3);
    let forced = undo(&site, &["--yes", "--overwrite"]);
    assert_eq!(forced.code, 0, "{forced}");
    assert_eq!(marks(api, node), before, "{forced}");
    [node, "undo-forced-2"].iter().for_each(|node| api.forget(node));
}

#[test]
fn journals_are_kept_as_long_as_the_inventory_declares() {
    let Some(api) = Cluster::require() else { return };
    let (name, nodes) = ("undo-kept", ["undo-kept-1", "undo-kept-2"]);
    nodes.iter().for_each(|node| create_node(api, node));
    let site = site(api, name, &NODES.replace("NAME", name));
    declare(&site, api, name, "undo: { runs: 2 }\n");
    let mut first = String::new();
    for number in 0..4 {
        site.write("recipes/own.yaml", &NODES.replace("NAME", name).replace("team: ml", &format!("team: t{number}")));
        apply(&site);
        first = if number == 0 { last_run(&site) } else { first };
    }
    let kept = journals(api, name);
    assert_eq!(kept.len(), 2, "{kept:?}");
    let gone = site.forge(&["undo", &first, "-i", "inventory.yaml", "--yes"]);
    assert!(gone.code == 64 && gone.stderr.contains("no changes of run"), "{gone}");
    nodes.iter().for_each(|node| api.forget(node));
}

const OBJECTS: &str = "recipe: own\nsummary: Objects.\nsteps:\n\
     \x20 - name: space\n    namespace: { name: NAME, labels: { team: ml } }\n\
     \x20 - name: settings\n    manifest: { namespace: NAME, objects: [MAP, FRONT] }\n";
const MAP: &str =
    "{ apiVersion: v1, kind: ConfigMap, metadata: { name: settings }, data: { text: hello, level: '1' } }";
const FRONT: &str = "{ apiVersion: apps/v1, kind: Deployment, metadata: { name: front }, spec: { replicas: 2, selector: { matchLabels: { app: front } }, \
     template: { metadata: { labels: { app: front } }, spec: { containers: [{ name: main, image: 'nginx:1.27', args: ['-a', '-b'], \
     env: [{ name: MODE, value: one }] }] } } } }";

fn objects(name: &str) -> String {
    OBJECTS.replace("MAP", MAP).replace("FRONT", FRONT).replace("NAME", name)
}

/// Returns an object without what the API and controllers write by themselves; `null` if it does not exist.
fn object(api: &Cluster, path: &str) -> Value {
    let Some(mut object) = api.ask("GET", path, &Value::Null) else { return Value::Null };
    object.as_object_mut().expect("an object").remove("status");
    let metadata = object["metadata"].as_object_mut().expect("metadata");
    for key in ["managedFields", "resourceVersion", "generation"] {
        metadata.remove(key);
    }
    if let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut) {
        annotations.remove("deployment.kubernetes.io/revision");
    }
    object
}

fn map_path(name: &str) -> String {
    format!("/api/v1/namespaces/{name}/configmaps/settings")
}

fn front_path(name: &str) -> String {
    format!("/apis/apps/v1/namespaces/{name}/deployments/front")
}

#[test]
fn changed_objects_are_undone_and_so_is_the_undo() {
    let Some(api) = Cluster::require() else { return };
    let name = "undo-objects";
    let site = site(api, name, &objects(name));
    apply(&site);
    // Fields of another manager, which neither the run nor its undo may touch.
    let theirs = json!({ "metadata": { "labels": { "theirs": "x" } } });
    api.ask("PATCH", &format!("{}?fieldManager=controller", map_path(name)), &theirs).expect("a label");
    let all =
        || [map_path(name), front_path(name), format!("/api/v1/namespaces/{name}")].map(|path| object(api, &path));
    let before = all();
    let changed = objects(name)
        .replace("text: hello, level: '1'", "text: bye, more: new")
        .replace("args: ['-a', '-b']", "args: ['-a', '-b', '-c']")
        .replace("value: one }", "value: two }, { name: NEW, value: x }")
        .replace("replicas: 2", "replicas: 3")
        .replace("team: ml", "team: web, more: '1'");
    site.write("recipes/own.yaml", &changed);
    let plan = site.forge(&["plan", "inventory.yaml"]);
    assert!(plan.code == 0 && !plan.stdout.contains("cannot be undone"), "{plan}");
    apply(&site);
    let after = all();
    assert_eq!(after[0]["data"], json!({ "more": "new", "text": "bye" }));
    assert_eq!(after[1]["spec"]["replicas"], 3);

    let shown = undo(&site, &["--dry-run"]);
    assert!(shown.code == 0 && shown.stdout.contains(".data.text"), "{shown}");
    assert_eq!(all(), after, "a dry run changes nothing");
    let saved = undo(&site, &["-o", "undo.json"]);
    assert_eq!(saved.code, 0, "{saved}");
    let undone = site.forge(&["apply", "undo.json", "--yes"]);
    assert_eq!(undone.code, 0, "{undone}");
    assert_eq!(all(), before, "uids, values and fields of others: {undone}");
    let redone = undo(&site, &["--yes"]);
    assert_eq!(redone.code, 0, "{redone}");
    assert_eq!(all(), after, "{redone}");
    let matching = site.forge(&["plan", "inventory.yaml", "--detailed-exitcode"]);
    assert_eq!(matching.code, 0, "{matching}");

    // A person's change after the run is not overwritten unless that is wanted.
    let partly = site.forge(&["apply", "inventory.yaml", "--yes", "--step", "own/settings"]);
    assert_eq!(partly.code, 0, "{partly}");
    site.write("recipes/own.yaml", &changed.replace("text: bye", "text: later"));
    apply(&site);
    api.kubectl(&[
        "patch",
        "configmap",
        "-n",
        name,
        "settings",
        "--type=merge",
        "-p",
        r#"{"data":{"text":"by hand","mine":"1"}}"#,
    ]);
    let refused = undo(&site, &["--yes"]);
    let why = format!(
        "own/settings: .data.text of ConfigMap {name}/settings was changed after the run (by `kubectl-patch` at 20"
    );
    assert!(refused.code == 3 && refused.stderr.contains(&why), "{refused}");
    let forced = undo(&site, &["--yes", "--overwrite"]);
    assert_eq!(forced.code, 0, "{forced}");
    assert_eq!(object(api, &map_path(name))["data"], json!({ "mine": "1", "more": "new", "text": "bye" }), "{forced}");
    api.kubectl(&["delete", "namespace", name, "--wait=false"]);
    crate::proof::mark_api("restore_object");
}

/// Each undo takes back one run more, as the API says.
#[test]
fn runs_are_undone_one_after_another() {
    let Some(api) = Cluster::require() else { return };
    let name = "undo-chain";
    let site = site(api, name, &objects(name));
    let mut states = Vec::new();
    let mut runs = Vec::new();
    for text in ["hello", "two", "three"] {
        site.write("recipes/own.yaml", &objects(name).replace("text: hello", &format!("text: {text}")));
        apply(&site);
        runs.push(last_run(&site));
        states.push(object(api, &map_path(name))["data"].clone());
    }
    let undo = |run: &str| site.forge(&["undo", run, "-i", "inventory.yaml", "--yes"]);
    let early = undo(&runs[1]);
    let why = format!("run {} changed it again: undo that run first", runs[2]);
    assert!(early.code == 3 && early.stderr.contains(&why), "{early}");
    for at in [2, 1] {
        let undone = undo(&runs[at]);
        assert_eq!(undone.code, 0, "{undone}");
        assert_eq!(object(api, &map_path(name))["data"], states[at - 1], "{undone}");
    }
    let undone = undo(&runs[0]);
    assert_eq!(undone.code, 0, "{undone}");
    api.wait(|| api.ask("GET", &format!("/api/v1/namespaces/{name}"), &Value::Null).is_none());
}

#[test]
fn new_objects_are_removed_by_the_undo_unless_others_depend_on_them() {
    let Some(api) = Cluster::require() else { return };
    let name = "undo-created";
    let site = site(api, name, &objects(name));
    apply(&site);
    let uid = object(api, &map_path(name))["metadata"]["uid"].clone();
    let notes = journals(api, name).into_iter().map(|(_, data)| data.to_string()).collect::<String>();
    assert!(notes.contains(uid.as_str().expect("a uid")), "{notes}");
    api.kubectl(&["create", "configmap", "-n", name, "theirs"]);
    let refused = undo(&site, &["--yes"]);
    let why = format!("own/space: Namespace {name} is not empty: ConfigMap theirs");
    assert!(refused.code == 3 && refused.stderr.contains(&why), "{refused}");
    assert_eq!(object(api, &map_path(name))["metadata"]["uid"], uid, "nothing was changed");
    api.kubectl(&["delete", "configmap", "-n", name, "theirs"]);
    // An object of the same name that somebody else created is not removed.
    api.kubectl(&["delete", "configmap", "-n", name, "settings"]);
    api.kubectl(&["create", "configmap", "-n", name, "settings"]);
    let replaced = undo(&site, &["--yes"]);
    assert!(
        replaced.code == 3 && replaced.stderr.contains("was deleted after the run and created again"),
        "{replaced}"
    );
    api.kubectl(&["delete", "configmap", "-n", name, "settings"]);
    let undone = undo(&site, &["--yes"]);
    assert_eq!(undone.code, 0, "{undone}");
    api.wait(|| api.ask("GET", &format!("/api/v1/namespaces/{name}"), &Value::Null).is_none());

    // The definition of a kind stays while an object of it exists.
    let recipe = "recipe: own\nsummary: A kind.\nsteps:\n  - name: kind\n    manifest:\n      objects:\n\
         \x20       - apiVersion: apiextensions.k8s.io/v1\n          kind: CustomResourceDefinition\n          metadata: { name: parts.undo.test }\n\
         \x20         spec: { group: undo.test, scope: Cluster, names: { kind: Part, plural: parts }, versions: [{ name: v1, served: true, storage: true, \
         schema: { openAPIV3Schema: { type: object } } }] }\n";
    site.write("recipes/own.yaml", recipe);
    apply(&site);
    api.kubectl_with(
        &["create", "-f", "-"],
        r#"{"apiVersion":"undo.test/v1","kind":"Part","metadata":{"name":"one"}}"#,
    );
    let used = undo(&site, &["--yes"]);
    assert!(
        used.code == 3 && used.stderr.contains("objects of CustomResourceDefinition parts.undo.test exist: Part one"),
        "{used}"
    );
    api.kubectl(&["delete", "parts.undo.test", "one"]);
    let undone = undo(&site, &["--yes"]);
    assert_eq!(undone.code, 0, "{undone}");
    assert!(!api.try_kubectl(&["get", "crd", "parts.undo.test"], "").ok(), "{undone}");
}

#[test]
fn deleted_object_is_created_again_but_not_its_secrets() {
    let Some(api) = Cluster::require() else { return };
    let name = "undo-deleted";
    let secret = "{ apiVersion: v1, kind: Secret, metadata: { name: key }, stringData: { a: hunter2 } }";
    let with = |extra: &str| objects(name).replace("objects: [", &format!("objects: [{extra}"));
    let site = site(api, name, &with(&format!("{secret}, ")));
    apply(&site);
    let map = object(api, &map_path(name));
    // The Secret stays as it is: only the map is no longer declared.
    let without = with(&format!("{secret}, ")).replace(&format!("{MAP}, "), "");
    site.write("recipes/own.yaml", &without);
    apply(&site);
    assert_eq!(object(api, &map_path(name)), Value::Null);
    let undone = undo(&site, &["--yes"]);
    assert_eq!(undone.code, 0, "{undone}");
    let again = object(api, &map_path(name));
    assert_eq!((&again["data"], &again["metadata"]["labels"]), (&map["data"], &map["metadata"]["labels"]));
    assert_ne!(again["metadata"]["uid"], map["metadata"]["uid"], "it is a new object");
    // A secret is never part of a journal; the plan says so before.
    site.write("recipes/own.yaml", &with(&format!("{}, ", secret.replace("hunter2", "hunter3"))));
    let plan = site.forge(&["plan", "inventory.yaml"]);
    let why = format!("(cannot be undone: Secret {name}/key contains secret values, which no journal keeps)");
    assert!(plan.stdout.contains(&why), "{plan}");
    apply(&site);
    let refused = undo(&site, &["--yes"]);
    assert!(
        refused.code == 3 && refused.stderr.contains("contains secret values, which no journal keeps"),
        "{refused}"
    );
    let kept = journals(api, name).into_iter().map(|(_, data)| data.to_string()).collect::<String>();
    assert!(kept.contains("hello") && !kept.contains("hunter") && !kept.contains("aHVudGVy"), "{kept}");
    api.kubectl(&["delete", "namespace", name, "--wait=false"]);
}

/// A run that is killed leaves one of these states: its journal is written and the change not made, or the change is made
/// and neither its record nor the note of its end is written.
#[test]
fn run_that_was_killed_is_undone() {
    let Some(api) = Cluster::require() else { return };
    let name = "undo-killed";
    let site = site(api, name, &objects(name));
    apply(&site);
    let before = object(api, &map_path(name));
    site.write("recipes/own.yaml", &objects(name).replace("text: hello", "text: bye"));
    apply(&site);
    let run = last_run(&site);
    // The journal is written, but the API still has the former state.
    let patch = |data: &Value| {
        api.ask("PATCH", &format!("{}?fieldManager=forge", map_path(name)), &json!({ "data": data })).expect("a change")
    };
    patch(&json!({ "text": "hello" }));
    let nothing = site.forge(&["undo", &run, "-i", "inventory.yaml", "--yes"]);
    assert!(nothing.code == 0 && nothing.stdout.contains("no changes"), "{nothing}");
    assert_eq!(object(api, &map_path(name)), before);
    patch(&json!({ "text": "bye" }));
    let undone = site.forge(&["undo", &run, "-i", "inventory.yaml", "--yes"]);
    assert_eq!(undone.code, 0, "{undone}");
    assert_eq!(object(api, &map_path(name))["data"], before["data"], "{undone}");

    // New objects, without the note of their uids and without records.
    let other = "undo-killed-new";
    declare(&site, api, other, "");
    site.write("recipes/own.yaml", &objects(other));
    apply(&site);
    let (journal, data) = journals(api, other).remove(0);
    let notes: Vec<&String> = data.as_object().expect("data").keys().filter(|key| key.ends_with(".created")).collect();
    assert_eq!(notes.len(), 2, "{data}");
    let forget = notes.iter().map(|key| ((*key).clone(), Value::Null)).collect::<serde_json::Map<_, _>>();
    let path = format!("/api/v1/namespaces/forge-provisioner/configmaps/{journal}");
    api.ask("PATCH", &path, &json!({ "data": forget })).expect("no notes");
    api.kubectl(&["delete", "configmap", "-n", "forge-provisioner", &format!("forge-applied-{other}")]);
    let undone = undo(&site, &["--yes"]);
    assert_eq!(undone.code, 0, "{undone}");
    api.wait(|| api.ask("GET", &format!("/api/v1/namespaces/{other}"), &Value::Null).is_none());
    api.kubectl(&["delete", "namespace", name, "--wait=false"]);
}

/// Without its journal, a step must not act.
#[test]
fn step_fails_before_it_acts_if_its_journal_cannot_be_written() {
    let Some(api) = Cluster::require() else { return };
    let (name, node, space) = ("undo-full", "undo-full-1", "undo-full-forge");
    [node, "undo-full-2"].iter().for_each(|node| create_node(api, node));
    let before = marks(api, node);
    api.kubectl(&["create", "namespace", space]);
    api.kubectl(&["create", "quota", "none", "-n", space, "--hard=count/configmaps=0"]);
    // The quota applies once its controller has counted.
    api.wait(|| !api.try_kubectl(&["create", "configmap", "-n", space, "probe", "--dry-run=server"], "").ok());
    let site = site(api, name, &NODES.replace("NAME", name));
    let inventory = std::fs::read_to_string(site.path("inventory.yaml")).expect("an inventory");
    site.write(
        "inventory.yaml",
        &inventory.replace("context: test }", &format!("context: test, namespace: {space} }}")),
    );
    let out = site.forge(&["apply", "inventory.yaml", "--yes"]);
    assert_eq!(out.code, 3, "{out}");
    assert!(
        out.stdout.contains("the state before the change cannot be kept:") && out.stdout.contains("quota"),
        "{out}"
    );
    assert_eq!(marks(api, node), before, "{out}");
    api.kubectl(&["delete", "namespace", space, "--wait=false"]);
    [node, "undo-full-2"].iter().for_each(|node| api.forget(node));
}

/// Returns the number, the status and the description of each revision of the release.
fn history(api: &Cluster, helm: &std::path::Path, name: &str) -> Vec<(i64, String, String)> {
    let mut command = limited(helm);
    command.arg("--kubeconfig").arg(&api.kubeconfig).args(["--kube-context", "test"]);
    let out = Output::of(command.args(["history", "r", "-n", name, "-o", "json"]), b"");
    let list: Vec<Value> = serde_json::from_str(&out.stdout).unwrap_or_default();
    let text = |one: &Value, key: &str| one[key].as_str().expect("text").to_owned();
    list.iter()
        .map(|one| (one["revision"].as_i64().expect("a number"), text(one, "status"), text(one, "description")))
        .collect()
}

fn release(name: &str, values: &str) -> String {
    format!(
        "recipe: own\nsummary: A release.\nsteps:\n  - name: space\n    namespace: {{ name: {name} }}\n  - name: chart\n    \
         helm_release: {{ name: r, namespace: {name}, path: chart, version: 0.1.0, values: {values}, wait: false, hooks: false }}\n"
    )
}

fn undo_releases(api: &Cluster, which: Helm, name: &str) {
    let site = Site::new(api, &api.kubeconfig, "test", which);
    std::fs::create_dir(site.path("recipes")).expect("a folder");
    declare(&site, api, name, "");
    super::helm::copy(super::helm::CHART.as_ref(), &site.path("recipes/chart"), name);
    let helm = api.helm(which).expect("a helm");
    let map = || object(api, &format!("/api/v1/namespaces/{name}/configmaps/r-greeting"))["data"].clone();
    site.write("recipes/own.yaml", &release(name, "{ greeting: hello }"));
    apply(&site);
    let before = map();
    assert_ne!(before, Value::Null);
    site.write("recipes/own.yaml", &release(name, "{ greeting: bye }"));
    let plan = site.forge(&["plan", "inventory.yaml"]);
    assert!(plan.code == 0 && !plan.stdout.contains("cannot be undone"), "{plan}");
    apply(&site);
    let after = map();
    assert_ne!(after, before);
    assert_eq!(history(api, helm, name).len(), 2);

    let undone = undo(&site, &["--yes"]);
    assert_eq!(undone.code, 0, "{undone}");
    assert_eq!(map(), before, "{undone}");
    let revisions = history(api, helm, name);
    assert_eq!(revisions.last(), Some(&(3, "deployed".to_owned(), "Rollback to 1".to_owned())), "{revisions:?}");
    let redone = undo(&site, &["--yes"]);
    assert_eq!(redone.code, 0, "{redone}");
    assert_eq!((map(), history(api, helm, name).len()), (after, 4), "{redone}");

    // A release that moved on is not rolled back.
    site.write("recipes/own.yaml", &release(name, "{ greeting: later }"));
    apply(&site);
    let mut command = limited(helm);
    command.arg("--kubeconfig").arg(&api.kubeconfig).args(["--kube-context", "test", "rollback", "r", "1", "-n", name]);
    let out = Output::of(&mut command, b"");
    assert!(out.ok(), "{out}");
    let refused = undo(&site, &["--yes"]);
    let why = format!("own/chart: release `{name}/r` was changed after the run: revision 6, the run made 5");
    assert!(refused.code == 3 && refused.stderr.contains(&why), "{refused}");
    assert_eq!(history(api, helm, name).len(), 6);
    let forced = undo(&site, &["--yes", "--overwrite"]);
    assert_eq!(forced.code, 0, "{forced}");
    api.kubectl(&["delete", "namespace", name, "--wait=false"]);
}

#[test]
fn upgraded_release_is_rolled_back_and_so_is_the_rollback() {
    let Some(api) = Cluster::require() else { return };
    for (which, name) in [(Helm::Three, "undo-helm3"), (Helm::Four, "undo-helm4")] {
        undo_releases(api, which, name);
    }
    crate::proof::mark_api("restore_release");
}

#[test]
fn installed_release_is_uninstalled_with_its_namespace() {
    let Some(api) = Cluster::require() else { return };
    let name = "undo-install";
    let site = Site::new(api, &api.kubeconfig, "test", Helm::Four);
    std::fs::create_dir(site.path("recipes")).expect("a folder");
    declare(&site, api, name, "");
    super::helm::copy(super::helm::CHART.as_ref(), &site.path("recipes/chart"), name);
    site.write("recipes/own.yaml", &release(name, "{ greeting: hello }"));
    apply(&site);
    let helm = api.helm(Helm::Four).expect("a helm");
    assert_eq!(history(api, helm, name).len(), 1);
    let undone = undo(&site, &["--yes"]);
    assert_eq!(undone.code, 0, "{undone}");
    assert_eq!(history(api, helm, name), [], "{undone}");
    api.wait(|| api.ask("GET", &format!("/api/v1/namespaces/{name}"), &Value::Null).is_none());
    let again = undo(&site, &["--yes"]);
    assert!(again.code == 3 && again.stderr.contains("Helm keeps nothing of a release that is uninstalled"), "{again}");
}
