//! The built-in recipes, each with its proof: `tests/recipes/NAME.yaml`, evaluated on hosts made of answers.
//!
//! A proof has `cases`. The input of a case: a `host` (a file in `tests/recipes/hosts`), `facts` merged over those of
//! the host, and the applied recipe (`with` for the recipe of the file's name, or `apply`). The expected result:
//! `steps` (name to verdict; those of other recipes as `recipe/step`), `verify` (name to verdict), `says` (parts of
//! reasons), or `refused` (parts of the messages of `validate`, whose number of errors is `problems`), `order` (steps that come after each other), `reboots`
//! (for each planned reboot the steps that need it), `stops` (units and modules that the window stops), `declares`
//! (parts of the declared state, with the text of files), `images` (exactly those of the plan, sources in a mirror as
//! `IMAGE < SOURCE`, steps with unknown ones as `? RECIPE/STEP`) and `warns` (parts of warnings and accepted rules). `settled: true` gives the
//! host everything that is declared: then there must be no changes. `probes` answers the probe of a step, by the step's
//! name: a command's check, an installer's probe. `printed` has the host's output for a fact, which goes through the
//! fact's own parser: `@@` stands for the record separator, and a line `<NAME>` for `tests/samples/NAME`.
//!
//! `groups` are groups of the inventory, whose host is `n1`.
//!
//! `kubernetes` adds the API of a cluster to the case: its steps, verifications and warnings are listed together with
//! those of the host, under the same keys. It has `facts` (`kubernetes_version: v1.30.6`, and `nodes`, each merged over
//! a default node) and `answers`:
//! - `object ConfigMap web/settings`: an object that a step declares: `declared`, `unserved`, or attributes of
//!   `ObjectInfo`;
//! - `live Pod web/a`, `live Node *`, `live Pod web/* (app=x)`: objects that verification reads: the whole object with
//!   its status, a list of them, `absent` (the default) or `unserved`;
//! - `object Node gpu-1`: a node that a step marks, `proof Job ml/smoke`: attributes of `ProofState`;
//! - `release gpu-operator/gpu-operator`: attributes of `ReleaseState`; by default there is no release.
//!
//! `runs` executes the scripts of command steps, `apply`, or with `script: check` the check, with stubs in place of
//! programs (`script_runs`).
//!
//! `files` are texts in the inventory's folder, by name. The declared state of a release includes its values, as JSON.
//!
//! With `settled: true` objects and releases of the cluster match the declaration too, except those that have an
//! answer.

use super::{Case, Look, look, plan_of, script_runs};
use camino::{Utf8Path, Utf8PathBuf};
use forge::config::{
    self, ConditionOutcome, ExpansionInputs, ExpansionState, FactSource, LoadOptions, Project, StepFilter, builtin_data,
};
use forge::diag::{DiagCode, DiagSeverity, render_diag};
use forge::plan::{self, Plan, PlanContext};
use forge::probe::ProbeOutput;
use serde_json::{Map, Value, json};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Mutex;

pub fn root() -> Utf8PathBuf {
    Utf8Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/recipes")
}

pub fn yaml(path: &Utf8Path) -> Value {
    let text = std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{path}: {e}"));
    serde_saphyr::from_str(&text).unwrap_or_else(|e| panic!("{path}: {e}"))
}

/// Merges `over` into `base`, recursively in maps.
pub fn laid(base: &Value, over: &Value) -> Value {
    let (Value::Object(base), Value::Object(over)) = (base, over) else { return over.clone() };
    let mut both = base.clone();
    for (key, value) in over {
        let value = both.get(key).map_or_else(|| value.clone(), |own| laid(own, value));
        both.insert(key.clone(), value);
    }
    Value::Object(both)
}

/// Returns the facts of a case: those of its host with `facts` merged over them; `each` merges a map over every element
/// of a list.
fn facts(case: &Value) -> Value {
    let host = case["host"].as_str().map_or_else(|| json!({}), |name| yaml(&root().join(format!("hosts/{name}.yaml"))));
    let mut facts = laid(&host, case.get("facts").unwrap_or(&json!({})));
    for (name, text) in case["printed"].as_object().into_iter().flatten() {
        facts[name] = read(name, text.as_str().unwrap());
    }
    for (name, over) in case["each"].as_object().into_iter().flatten() {
        let items = facts[name].as_array_mut().unwrap_or_else(|| panic!("the fact `{name}` is not a list"));
        items.iter_mut().for_each(|item| *item = laid(item, over));
    }
    facts
}

/// Parses a host's output for a fact like forge. The fact is unknown if it cannot be parsed.
pub fn read(name: &str, text: &str) -> Value {
    let fact =
        forge::facts::all_facts().iter().find(|fact| fact.name == name).unwrap_or_else(|| panic!("no fact `{name}`"));
    let sample = |line: &str| match line.strip_prefix('<').and_then(|line| line.strip_suffix('>')) {
        Some(name) => std::fs::read_to_string(root().join("../samples").join(name)).unwrap(),
        None => format!("{line}\n"),
    };
    let text: String = text.replace("@@", "\u{1e}").lines().map(sample).collect();
    let output = ProbeOutput { stdout: text.into(), ..ProbeOutput::default() };
    (fact.parse)(&output).unwrap_or_else(|unknown| json!({ "unknown": unknown.why }))
}

fn inventory(recipe: &str, case: &Value) -> Value {
    let with = case.get("with").cloned().unwrap_or_else(|| json!({}));
    let own = json!([{ "recipe": recipe, "on": "all", "with": with }]);
    let others = case["beside"].as_array().cloned().unwrap_or_default();
    let mut apply: Vec<Value> = case.get("apply").unwrap_or(&own).as_array().unwrap().clone();
    apply.extend(others);
    apply.iter_mut().filter(|entry| entry.get("on").is_none()).for_each(|entry| entry["on"] = json!("all"));
    let rollout = case.get("rollout").cloned().unwrap_or_else(|| json!({}));
    let mut inventory = json!({ "cluster": "proof", "hosts": { "n1": { "address": "10.0.14.31" } }, "apply": apply, "rollout": rollout });
    if let Some(groups) = case.get("groups") {
        inventory["groups"] = groups.clone();
    }
    if case.get("kubernetes").is_some() {
        inventory["kubernetes"] = json!({ "kubeconfig": "/etc/kubernetes/admin.conf", "context": "proof" });
    }
    inventory
}

/// A case loaded like by the command line: the project with the text of its warnings, or the text of all messages if the
/// case is refused.
type Loaded = Rc<Result<(Project, String), String>>;

/// Loads a case. Cases of a recipe with the same inventory and files share the project: loading takes longer than planning.
fn load(recipe: &str, case: &Value) -> Loaded {
    thread_local!(static LOADED: RefCell<(String, BTreeMap<String, Loaded>)> = RefCell::default());
    let key = json!([inventory(recipe, case), case["files"]]).to_string();
    LOADED.with_borrow_mut(|(of, known)| {
        if of != recipe {
            (*of, *known) = (recipe.to_owned(), BTreeMap::new());
        }
        known.entry(key).or_insert_with(|| Rc::new(read_case(recipe, case))).clone()
    })
}

fn read_case(recipe: &str, case: &Value) -> Result<(Project, String), String> {
    let folder = tempfile::tempdir().unwrap();
    let path = Utf8Path::from_path(folder.path()).unwrap().join("inventory.yaml");
    for (name, text) in case["files"].as_object().into_iter().flatten() {
        std::fs::write(path.with_file_name(name), text.as_str().unwrap()).unwrap();
    }
    // JSON is YAML.
    std::fs::write(&path, serde_json::to_string_pretty(&inventory(recipe, case)).unwrap()).unwrap();
    let options = LoadOptions {
        trust: false,
        embedded: builtin_data::BUILTIN_RECIPES,
        env: &|_| None,
        programs: forge::config::SecretPrograms::Skip,
    };
    let (project, diags, sources) = config::load_project(&path, &options);
    let said: Vec<String> = diags.0.iter().map(|diag| render_diag(diag, &sources, false)).collect();
    let said = said.join("\n");
    // A valid case may have warnings of rules only.
    let mistaken = diags.0.iter().any(|diag| diag.severity == DiagSeverity::Error || diag.code != DiagCode::RuleFailed);
    project.filter(|_| !mistaken).map(|project| (project, said.clone())).ok_or(said)
}

/// The answers of the host and of the cluster of a case.
#[derive(Clone)]
struct Given {
    host: Map<String, Value>,
    cluster: Option<Map<String, Value>>,
}

impl Given {
    fn of(written: &Value) -> Self {
        Self { host: answers(written), cluster: written.get("kubernetes").map(of_cluster) }
    }

    /// Adds answers as if everything that is declared had been applied.
    fn settle(&mut self, declared: &[Declared]) {
        settle(declared, &mut self.host);
        if let Some(answers) = &mut self.cluster {
            answers.insert("settled".to_owned(), json!(true));
            let told = nodes(declared).into_iter().chain(gone(declared)).chain(declared.iter().filter_map(proof));
            for (key, answer) in told {
                answers.entry(key).or_insert(answer);
            }
        }
    }

    fn made(&self) -> Case {
        let mut answers = json!({ "hosts": { "n1": self.host } });
        if let Some(cluster) = &self.cluster {
            answers["hosts"]["kubernetes"] = json!(cluster);
        }
        Case { answers, filter: StepFilter::new(&[], &[]), verbose: 0 }
    }
}

/// Returns the API's answers for nodes that have all declared marks.
fn nodes(declared: &[Declared]) -> Vec<(String, Value)> {
    let mut all: BTreeMap<&str, Map<String, Value>> = BTreeMap::new();
    for own in declared.iter().filter(|own| own.kind == "node" && own.desired["absent"] != true) {
        let marks = own.desired["marks"].as_object().unwrap().clone();
        all.entry(own.desired["node"].as_str().unwrap()).or_default().extend(marks);
    }
    let told = |(name, marks): (&str, Map<String, Value>)| {
        (format!("object Node {name}"), json!({ "live": marked(name, &marks), "uid": "u" }))
    };
    all.into_iter().map(told).collect()
}

/// Returns the API's answers for objects that are declared absent.
fn gone(declared: &[Declared]) -> Vec<(String, Value)> {
    use forge::object::ObjectId;
    let absent = declared.iter().filter(|own| own.desired["absent"] == true);
    let objects = absent.flat_map(|own| own.desired["objects"].as_array().into_iter().flatten());
    let id =
        |object: &Value| ObjectId::from_object(object).or_else(|| ObjectId::from_claim(object["object"].as_str()?));
    objects.filter_map(id).map(|id| (format!("object {id}"), json!({ "live": null }))).collect()
}

/// Returns the API's answer for a workload that was proven in its declared form.
fn proof(declared: &Declared) -> Option<(String, Value)> {
    let id = forge::object::ObjectId::from_object(&declared.desired["object"]).filter(|_| declared.kind == "job")?;
    let digest = format!("sha256:{}", super::host::sha256(&declared.desired.to_string()));
    let proven = json!({ "digest": digest, "time": "2026-11-21T10:00:00Z", "run": "r1", "said": "succeeded" });
    Some((format!("proof {id}"), json!({ "proven": proven })))
}

fn marked(name: &str, marks: &Map<String, Value>) -> Value {
    let mut node =
        json!({ "apiVersion": "v1", "kind": "Node", "metadata": { "name": name }, "spec": { "taints": [] } });
    for (mark, value) in marks {
        match mark.split_once(' ').unwrap() {
            ("label", key) => node["metadata"]["labels"][key] = value.clone(),
            ("annotation", key) => node["metadata"]["annotations"][key] = value.clone(),
            (_, taint) => {
                let (key, effect) = taint.split_once(':').unwrap();
                let taint = json!({ "key": key, "effect": effect, "value": value });
                node["spec"]["taints"].as_array_mut().unwrap().push(taint);
            }
        }
    }
    node
}

/// Returns the answers of a cluster.
fn of_cluster(written: &Value) -> Map<String, Value> {
    let mut answers = written["answers"].as_object().cloned().unwrap_or_default();
    for (name, told) in written["facts"].as_object().into_iter().flatten() {
        let fact = match (name.as_str(), told) {
            ("kubernetes_version", Value::String(text)) => version(text),
            ("nodes", Value::Array(nodes)) => nodes.iter().map(|node| laid(&ordinary_node(), node)).collect(),
            _ => told.clone(),
        };
        answers.insert(format!("fact {name}"), fact);
    }
    answers
}

fn version(text: &str) -> Value {
    let fact = forge::facts::cluster_facts().iter().find(|fact| fact.name == "kubernetes_version").unwrap();
    (fact.parse)(&json!({ "gitVersion": text })).unwrap()
}

fn ordinary_node() -> Value {
    json!({
        "name": "n1", "ready": true, "schedulable": true, "labels": {}, "annotations": {}, "taints": [], "capacity": {},
        "allocatable": {}, "kubelet": "v1.30.6", "runtime": "containerd://1.7.22", "kernel": "5.15.0-130-generic",
        "boot_id": "b-1", "addresses": ["10.0.14.31"],
    })
}

fn answers(written: &Value) -> Map<String, Value> {
    let mut answers = written["answers"].as_object().cloned().unwrap_or_default();
    for (name, value) in facts(written).as_object().into_iter().flatten() {
        answers.insert(format!("fact {name}"), value.clone());
    }
    for path in [
        "/etc",
        "/etc/apt",
        "/etc/apt/preferences.d",
        "/etc/default",
        "/etc/default/grub.d",
        "/etc/modprobe.d",
        "/etc/security/limits.d",
        "/etc/modules-load.d",
        "/etc/systemd/system",
        "/usr/local/sbin",
        "/usr/local/src",
        "/etc/apt/apt.conf.d",
        "/etc/udev/rules.d",
        "/etc/yum.repos.d",
        "/etc/profile.d",
    ] {
        answers.entry(format!("path {path}")).or_insert_with(|| json!({ "kind": "directory", "mode": "0755" }));
    }
    answers
}

/// The declared state of a step, on the host or on the cluster.
struct Declared {
    /// `recipe/step[key]`
    id: String,
    kind: &'static str,
    desired: Value,
}

/// Returns the declared states for the host and for the cluster.
fn declared(project: &Project, case: &Case, look: &Look) -> Vec<Declared> {
    let expander = config::StepExpander::new(project);
    let ground = PlanContext {
        project,
        expander: &expander,
        filter: &case.filter,
        policy: plan::PlanPolicy::default(),
        exports: &look.exports,
        chosen: &look.chosen,
        secrets: &look.secrets,
    };
    let members: Vec<_> =
        look.seen.iter().map(|seen| plan::HostContext::new(ground, &seen.host, seen).unwrap()).collect();
    members
        .iter()
        .flat_map(plan::HostContext::expand_local_steps)
        .filter_map(|turn| match &turn.expanded.state {
            ExpansionState::Resource(resource) => {
                let (id, kind) = (turn.expanded.id.to_string(), turn.step.kind);
                Some(Declared { id, kind, desired: resource.desired_value() })
            }
            _ => None,
        })
        .collect()
}

/// Adds the declared states to the answers of a host, as if they had been applied.
fn settle(declared: &[Declared], answers: &mut Map<String, Value>) {
    answers.insert("settled".to_owned(), json!(true));
    for step in declared.iter().filter(|step| step.desired["absent"] != true) {
        stand(step.kind, &step.desired, answers);
    }
    folders(answers);
    read_units(answers);
}

/// Adds a case's answers for the probes of steps: the check of a command, the probe of an installer.
fn told(recipe: &str, written: &Value, declared: &[Declared], answers: &mut Map<String, Value>) {
    for (name, answer) in written["probes"].as_object().into_iter().flatten() {
        let id = if name.contains('/') { name.clone() } else { format!("{recipe}/{name}") };
        let step = declared.iter().find(|step| step.id == id).unwrap_or_else(|| panic!("no step `{id}`"));
        let script = step.desired["probe"].as_str().or(step.desired["check"]["check"].as_str());
        answers.insert(format!("sh {}", script.unwrap_or_else(|| panic!("{}", step.desired))), answer.clone());
    }
}

/// Adds the parent folders of every path.
fn folders(answers: &mut Map<String, Value>) {
    let paths: Vec<Utf8PathBuf> = answers.keys().filter_map(|key| key.strip_prefix("path ").map(Into::into)).collect();
    for path in paths.iter().flat_map(|path| path.ancestors().skip(1)) {
        let folder = || json!({ "kind": "directory", "mode": "0755" });
        answers.entry(format!("path {path}")).or_insert_with(folder);
    }
}

/// Adds to the answers about units that systemd has read them from the administrator's files.
fn read_units(answers: &mut Map<String, Value>) {
    let written = |state: &Value| state["as_wanted"] == true || state["text"].is_string();
    let files: Vec<String> = answers.iter().filter(|(_, state)| written(state)).map(|(key, _)| key.clone()).collect();
    for path in files.iter().filter_map(|key| key.strip_prefix("path ")) {
        let Some(name) = path.strip_prefix("/etc/systemd/system/") else { continue };
        let unit = name.split_once(".d/").map_or(name, |(unit, _)| unit);
        let Some(state) = answers.get_mut(&format!("unit {unit}")).filter(|state| state["load"] == "loaded") else {
            continue;
        };
        if unit == name {
            state["fragment"] = json!(path);
        } else {
            let mut drop_ins = state["drop_ins"].as_array().cloned().unwrap_or_default();
            drop_ins.push(json!(path));
            state["drop_ins"] = json!(drop_ins);
        }
    }
}

/// Adds the answer that the declared state of a resource exists.
fn stand(kind: &str, desired: &Value, answers: &mut Map<String, Value>) {
    let text = |key: &str| desired[key].as_str().unwrap_or_default().to_owned();
    let rpm = super::host::has_dnf(answers);
    let mut say = |key: String, value: Value| answers.insert(key, value);
    match kind {
        "file" | "unit" => {
            let file = json!({
                "as_wanted": true, "mode": desired["mode"], "owner": desired["owner"], "group": desired["group"],
            });
            say(format!("path {}", text("path")), file);
        }
        "directory" => {
            let mut folder = desired.clone();
            folder["kind"] = json!("directory");
            folder.as_object_mut().unwrap().remove("path");
            say(format!("path {}", text("path")), folder);
        }
        "package" => {
            for name in desired["names"].as_array().unwrap() {
                let upstream = desired["upstream"].as_str().map(|version| format!("{version}-1"));
                let version = desired["version"].as_str().or(upstream.as_deref()).unwrap_or("1.0");
                let held = desired["hold"] == true;
                let state = json!({ "status": "installed", "version": version, "held": held, "candidate": version, "available": [version] });
                let state = if rpm {
                    json!({ "status": "installed", "version": version, "held": held, "manager": "rpm" })
                } else {
                    state
                };
                say(format!("package {}", name.as_str().unwrap()), state);
                let list = json!({ "text": "", "ctime": 1000.0 });
                say(format!("path /var/lib/dpkg/info/{}.list", name.as_str().unwrap()), list);
            }
        }
        "service" => {
            let (active, sub) =
                if desired["state"] == "running" { ("active", "running") } else { ("inactive", "dead") };
            let enabled = if desired["enabled"] == false { "disabled" } else { "enabled" };
            let state = json!({
                "load": "loaded", "active": active, "sub": sub, "file_state": enabled, "main_pid": 7, "result": "success",
                "fragment": "/lib/systemd/system/x.service", "active_since": 2000.0, "main_started": 2000.0,
                "service_type": "forking", "invocation": "aa",
            });
            let name = text("name");
            say(format!("unit {}", if name.contains('.') { name } else { format!("{name}.service") }), state);
        }
        "user" => {
            let user = json!({
                "uid": 990, "gid": 990, "group": text("name"), "gecos": "", "home": text("home"), "shell": text("shell"),
                "groups": [], "locked": true,
            });
            say(format!("user {}", text("name")), user);
        }
        "sysctl" => {
            let line = format!("{} = {}", text("key").replace('/', "."), text("value"));
            let state = json!({
                "value": { "set": { "value": desired["value"], "fixed": false } },
                "lines": [{ "file": desired["path"], "line": 1, "text": line }],
            });
            say(format!("sysctl {}", text("key")), state);
            say(format!("path {}", text("path")), json!({ "as_wanted": true }));
        }
        "nftables" => {
            let unit = format!("forge-nftables-{}.service", text("table").replace(' ', "-"));
            say(format!("path {}", text("path")), json!({ "as_wanted": true }));
            say(format!("path /etc/systemd/system/{unit}"), json!({ "as_wanted": true }));
            say(format!("unit {unit}"), json!({ "load": "loaded", "active": "active", "file_state": "enabled" }));
        }
        "kernel_module" => module(desired, answers),
        "ssh_authorized_key" => _ = say(format!("keys {}", text("user")), account_keys(desired)),
        "artifact" => {
            say(format!("path {}", text("path")), json!({ "sha256": desired["sha256"] }));
        }
        "installer" => {
            say(format!("sh {}", text("probe")), json!({ "status": 0, "stdout": desired["version"] }));
        }
        "initramfs" => early_image(desired, answers),
        "kernel_cmdline" => {
            let words: Vec<&str> = desired["args"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
            let args = format!("ro {}", words.join(" "));
            let entry = json!({ "title": "Linux", "args": args, "rescue": false });
            let loader = json!({ "update_grub": { "lines": [], "entries": [entry] } });
            say("cmdline".to_owned(), json!({ "loaded": args, "loader": loader }));
            say(format!("path {}", text("path")), json!({ "as_wanted": true }));
        }
        "line" => {
            let key = format!("path {}", text("path"));
            let before = answers.get(&key).and_then(|file| file["text"].as_str()).unwrap_or_default().to_owned();
            answers.insert(key, json!({ "text": format!("{before}{}\n", text("line")) }));
        }
        "toml" => {
            let mut lines = String::new();
            toml_lines(&desired["content"], "", &mut lines);
            say(format!("path {}", text("path")), json!({ "text": lines }));
        }
        "command" => {
            if let Some(path) = desired["check"]["creates"].as_str() {
                answers.insert(format!("path {path}"), json!({ "text": "" }));
            }
        }
        _ => {}
    }
}

/// Adds a line for each value of a nested table. Text, numbers and lists are written in TOML as in JSON.
fn toml_lines(table: &Value, path: &str, lines: &mut String) {
    for (key, value) in table.as_object().into_iter().flatten() {
        let path = format!("{path}{}{}", if path.is_empty() { "" } else { "." }, json!(key));
        match value.is_object() {
            true => toml_lines(value, &path, lines),
            false => lines.push_str(&format!("{path} = {value}\n")),
        }
    }
}

/// Returns the answer that the account has the keys, in files that it owns.
fn account_keys(desired: &Value) -> Value {
    let user = desired["user"].as_str().unwrap();
    let at = |kind: &str, mode: u32, body: Option<String>| {
        json!({ "present": {
            "kind": kind, "owner": user, "group": user, "mode": mode, "size": 0, "mtime": 0.0, "ctime": 0.0, "sha256": null,
            "body": body, "target": null,
        } })
    };
    let keys: String =
        desired["keys"].as_array().unwrap().iter().map(|key| format!("{}\n", key.as_str().unwrap())).collect();
    json!({ "account": {
        "home": format!("/home/{user}"), "home_at": at("directory", 0o700, None), "folder": at("directory", 0o700, None),
        "file": at("file", 0o600, Some(keys)),
    } })
}

/// Adds the answer for the initramfs image, which several steps may share: it contains what each step declares, and
/// nothing else.
fn early_image(desired: &Value, answers: &mut Map<String, Value>) {
    let kernel = "5.15.0-130-generic";
    let image = json!({
        "kernel": kernel, "path": format!("/boot/initrd.img-{kernel}"), "made": 500.0, "trouble": "",
        "files": {}, "modules": {},
    });
    let bare =
        json!({ "maker": "initramfs-tools", "running": kernel, "booted": 1000.0, "images": [image], "files": {} });
    let state = answers.entry("initramfs").or_insert(bare);
    let modules = ["modules", "lacks_modules", "current_modules"].map(|key| desired[key].as_array().unwrap());
    for name in modules.into_iter().flatten() {
        let module = json!({ "builtin": false, "host": null, "inside": null });
        say(&mut state["images"][0]["modules"], name.as_str().unwrap(), &module);
    }
    let wanted = desired["files"].as_array().unwrap().iter().map(|path| (path, json!("aa")));
    let unwanted = desired["lacks"].as_array().unwrap().iter().map(|path| (path, Value::Null));
    for (path, digest) in wanted.chain(unwanted) {
        let path = path.as_str().unwrap();
        say(&mut state["images"][0]["files"], path, &digest);
        say(&mut state["files"], path, &digest);
    }
}

/// Sets an entry, unless the case has it.
fn say(map: &mut Value, key: &str, value: &Value) {
    if map.get(key).is_none() {
        map[key] = value.clone();
    }
}

fn module(desired: &Value, answers: &mut Map<String, Value>) {
    let name = desired["name"].as_str().unwrap();
    let options = desired["options"].as_object().cloned().unwrap_or_default();
    if desired["blacklisted"] == true || !options.is_empty() {
        answers.insert(format!("path /etc/modprobe.d/forge-{name}.conf"), json!({ "as_wanted": true }));
    }
    if desired["at_boot"] == true {
        answers.insert(format!("path /etc/modules-load.d/forge-{name}.conf"), json!({ "as_wanted": true }));
    }
    let presence = if desired["loaded"] == true { "loaded" } else { "not-loaded" };
    let state = json!({ "presence": presence, "available": true, "loadable": true, "parameters": {} });
    answers.insert(format!("module {name}"), state);
}

/// Returns the steps of the host, then those of the cluster.
fn steps_of(plan: &Plan) -> impl Iterator<Item = &plan::StepPlan> {
    plan.hosts.iter().flat_map(|host| &host.steps)
}

fn verify_of(plan: &Plan) -> impl Iterator<Item = &plan::VerifyPlan> {
    plan.hosts.iter().flat_map(|host| &host.verify)
}

fn verdicts(plan: &Plan, recipe: &str) -> Map<String, Value> {
    let named = |id: String| id.strip_prefix(&format!("{recipe}/")).map(str::to_owned).unwrap_or(id);
    steps_of(plan).map(|step| (named(step.id.to_string()), json!(step.verdict.name()))).collect()
}

fn texts(plan: &Plan) -> String {
    let steps = steps_of(plan).map(|step| format!("{}: {} ({})", step.id, step.verdict.name(), step.reason.raw()));
    let verify =
        verify_of(plan).map(|v| format!("{}: {}: {} ({})", v.recipe, v.name, v.verdict.name(), v.reason.raw()));
    steps.chain(verify).collect::<Vec<_>>().join("\n")
}

/// Returns the parts of texts that a case lists under `key`.
fn parts<'v>(written: &'v Value, key: &str) -> Vec<&'v str> {
    written[key].as_array().into_iter().flatten().map(|part| part.as_str().unwrap()).collect()
}

/// Returns the problems of a case's refusal: refused for other reasons than expected, or valid although a refusal is
/// expected.
fn refusal(written: &Value, said: Option<&str>) -> Vec<String> {
    let refused = parts(written, "refused");
    let Some(said) = said else {
        return refused.first().map(|_| "it is valid".to_owned()).into_iter().collect();
    };
    let missing: Vec<&&str> = refused.iter().filter(|part| !said.contains(**part)).collect();
    let errors = said.lines().filter(|line| line.starts_with("error[")).count();
    if written["problems"].as_u64().is_some_and(|wanted| wanted != errors as u64) {
        return vec![format!("{errors} errors, not {}:\n{said}", written["problems"])];
    }
    match refused.is_empty() || !missing.is_empty() {
        true => vec![format!("it is refused, but not with {missing:?}:\n{said}")],
        false => Vec::new(),
    }
}

/// Returns the problems of one case.
pub fn mistakes(recipe: &str, written: &Value) -> Vec<String> {
    match &*load(recipe, written) {
        Err(said) => refusal(written, Some(said)),
        Ok((project, warned)) => {
            let mut wrong = refusal(written, None);
            wrong.extend(planned(recipe, written, project, warned.clone()));
            wrong
        }
    }
}

fn planned(recipe: &str, written: &Value, project: &Project, mut warned: String) -> Vec<String> {
    let mut given = Given::of(written);
    let mut made = given.made();
    let mut seen = look(project, &made, false);
    told(recipe, written, &declared(project, &made, &seen), &mut given.host);
    if written.get("probes").is_some() && written["settled"] != true {
        made = given.made();
        seen = look(project, &made, false);
    }
    if written["settled"] == true {
        // Steps that read what other steps export are declared once those match.
        for _ in 0..2 {
            given.settle(&declared(project, &made, &seen));
            // Answers of the case take precedence, except for images, which several steps share.
            let own = written["answers"].as_object().cloned().unwrap_or_default();
            given.host.extend(own.into_iter().filter(|(key, _)| key != "initramfs"));
            told(recipe, written, &declared(project, &made, &seen), &mut given.host);
            made = given.made();
            seen = look(project, &made, false);
        }
    }
    let plan = plan_of(project, &made, &seen);
    let mut wrong = compare(recipe, written, &plan);
    let text = texts(&plan);
    wrong.extend(absent(written, "says", &text));
    wrong.extend(out_of_order(&parts(written, "order"), &plan));
    wrong.extend(windows(written, &plan));
    wrong.extend(scripts(recipe, written, &declared(project, &made, &seen)));
    let all = format!("{}{}", declarations(&declared(project, &made, &seen)), diffs(&plan));
    wrong.extend(absent(written, "declares", &all));
    wrong.extend(images(written, &plan));
    let windows = plan.hosts.iter().filter(|host| host.host.is_cluster() && host.window.is_some());
    wrong.extend(windows.map(|_| "the cluster has a window".to_owned()));
    let warnings = plan.hosts.iter().flat_map(|host| host.warnings.iter().chain(&host.accepted));
    warnings.for_each(|warning| warned += warning.why.raw());
    wrong.extend(absent(written, "warns", &warned));
    if !wrong.is_empty() {
        wrong.push(text);
    }
    wrong
}

/// Runs the scripts that a case names under `runs`, and returns what they do differently.
fn scripts(recipe: &str, written: &Value, declared: &[Declared]) -> Vec<String> {
    let runs = written["runs"].as_array().into_iter().flatten();
    let run = |run: &Value| {
        let id = format!("{recipe}/{}", run["step"].as_str().unwrap());
        let step = declared.iter().find(|step| step.id == id).unwrap_or_else(|| panic!("no step `{id}`"));
        let script = match run["script"].as_str() {
            Some(check) => &step.desired["check"][check],
            None => &step.desired["apply"],
        };
        script_runs::check_run(run, script.as_str().unwrap_or_else(|| panic!("{}", step.desired)))
    };
    runs.flat_map(run).collect()
}

/// Returns a problem for each part under `key` that `text` does not contain.
fn absent(written: &Value, key: &str, text: &str) -> Vec<String> {
    let missing = parts(written, key).into_iter().filter(|part| !text.contains(part));
    missing.map(|part| format!("{key}: `{part}` not found in: {text}")).collect()
}

fn declarations(declared: &[Declared]) -> String {
    let values = declared.iter().flat_map(|step| step.desired.as_object()).flat_map(Map::values);
    values.map(text_of).collect::<Vec<_>>().join("\n")
}

/// Returns a text as it is, the words of a list in one line, or a map as JSON.
fn text_of(value: &Value) -> String {
    if value.is_object() {
        return value.to_string();
    }
    let words = value.as_array().into_iter().flatten().chain([value]).filter_map(Value::as_str);
    words.collect::<Vec<_>>().join(" ")
}

/// Returns the diffs of all changes, which have the text of new files.
fn diffs(plan: &Plan) -> String {
    let changes = steps_of(plan).flat_map(|step| &step.changes);
    changes.filter_map(|change| change.diff.as_ref()).map(|diff| diff.raw()).collect()
}

/// Returns a problem for each step that does not come after its predecessor in the list.
fn out_of_order(order: &[&str], plan: &Plan) -> Vec<String> {
    let at = |step: &str| steps_of(plan).position(|planned| planned.id.to_string() == step);
    let late = order.windows(2).filter(|pair| at(pair[0]).is_none() || at(pair[0]) >= at(pair[1]));
    late.map(|pair| format!("`{}` does not come after `{}`", pair[1], pair[0])).collect()
}

/// Returns the differences between the host's window and the case.
fn windows(written: &Value, plan: &Plan) -> Vec<String> {
    let window = plan.hosts[0].window.clone().unwrap_or_default();
    let names = |reboot: &plan::PlannedReboot| reboot.steps.iter().map(ToString::to_string).collect::<Vec<_>>();
    let reboots: Vec<Vec<String>> = window.reboots.iter().map(names).collect();
    let stops: Vec<&String> = window.stops.iter().chain(&window.unloads).map(|stop| &stop.name).collect();
    let found = [("reboots", json!(reboots)), ("stops", json!(stops))];
    let other = found.iter().filter(|(key, found)| written.get(*key).is_some_and(|said| said != found));
    other.map(|(key, found)| format!("{key}: {found}, not {}", written[*key])).collect()
}

/// Returns the difference between the container images of a plan and those of the case.
fn images(written: &Value, plan: &Plan) -> Option<String> {
    let wanted = written.get("images")?;
    let found = plan.list_images();
    let image = |image: &String| match found.sources.get(image) {
        Some(source) => format!("{image} < {source}"),
        None => image.clone(),
    };
    let all = found.images.keys().map(image).chain(found.open.iter().map(|step| format!("? {step}")));
    let all = json!(all.collect::<Vec<_>>());
    (all != *wanted).then(|| format!("images: {all}, not {wanted}"))
}

fn compare(recipe: &str, written: &Value, plan: &Plan) -> Vec<String> {
    let found = verdicts(plan, recipe);
    let mut wrong = Vec::new();
    let mut named = BTreeSet::new();
    for (step, verdict) in written["steps"].as_object().into_iter().flatten() {
        named.insert(step.clone());
        if found.get(step) != Some(verdict) {
            wrong.push(format!("step {step}: {:?}, not {verdict}", found.get(step)));
        }
    }
    if written["settled"] == true {
        let quiet = |verdict: &Value| verdict == "ok" || verdict == "not-applicable";
        let left = found.iter().filter(|(step, verdict)| !named.contains(*step) && !quiet(verdict));
        wrong.extend(left.map(|(step, verdict)| format!("step {step}: {verdict} on a settled host")));
    }
    for (name, verdict) in written["verify"].as_object().into_iter().flatten() {
        let judged = verify_of(plan).find(|verify| verify.name == *name);
        let judged = judged.map(|verify| json!(verify.verdict.name()));
        if judged.as_ref() != Some(verdict) {
            wrong.push(format!("verify {name}: {judged:?}, not {verdict}"));
        }
    }
    wrong
}

/// Returns the steps of a case that would still have a change after everything that it declares is applied, although
/// the host's facts stay the same.
pub fn again(recipe: &str, written: &Value) -> Vec<String> {
    let loaded = load(recipe, written);
    let (project, _) = loaded.as_ref().as_ref().unwrap();
    let mut given = Given::of(written);
    // By then objects match the declaration, whatever their state was.
    given.cluster.iter_mut().for_each(|cluster| cluster.retain(|key, _| !key.starts_with("object ")));
    // Steps that use an exported value declare their state only when the value exists.
    for _ in 0..2 {
        let made = given.made();
        given.settle(&declared(project, &made, &look(project, &made, false)));
    }
    let made = given.made();
    let plan = plan_of(project, &made, &look(project, &made, false));
    let left = steps_of(&plan).filter(|step| step.verdict.name() == "change");
    left.map(|step| format!("{}: {}", step.id, step.reason.raw())).collect()
}

/// Returns the lines that a step adds to its file, and its declared state, as a case renders them.
pub fn rendered(recipe: &str, written: &Value, name: &str) -> (String, Value) {
    let loaded = load(recipe, written);
    let (project, _) = loaded.as_ref().as_ref().unwrap();
    let made = Given::of(written).made();
    let seen = look(project, &made, false);
    let id = format!("{recipe}/{name}");
    let plan = plan_of(project, &made, &seen);
    let step = steps_of(&plan).find(|step| step.id.to_string() == id).unwrap_or_else(|| panic!("no step `{id}`"));
    let diff: String = step.changes.iter().filter_map(|change| change.diff.as_ref()).map(|diff| diff.raw()).collect();
    let added = diff.lines().filter_map(|line| line.strip_prefix('+')).collect::<Vec<_>>().join("\n");
    let desired = declared(project, &made, &seen).into_iter().find(|step| step.id == id).unwrap().desired;
    (added, desired)
}

/// Returns the script of a verification, as a case renders it.
pub fn rendered_check(recipe: &str, written: &Value, name: &str) -> String {
    let loaded = load(recipe, written);
    let (project, _) = loaded.as_ref().as_ref().unwrap();
    let seen = look(project, &Given::of(written).made(), false);
    let observed = &seen.seen[0];
    let instance = project.instances[&observed.host].iter().find(|own| own.recipe.name == recipe).unwrap();
    let verify = instance.recipe.verify.iter().find(|verify| verify.name == name).unwrap();
    let known = ExpansionInputs { facts: FactSource::Known(&observed.facts), exports: &seen.exports };
    let host = &project.hosts[&observed.host];
    match config::StepExpander::new(project).evaluate_verify(host, instance, verify, &known) {
        ConditionOutcome::Check { script, .. } => script,
        other => panic!("`{name}`: {other:?}"),
    }
}

/// Returns the script of the `effective` part of a step instance, as a case renders it.
pub fn rendered_effect(recipe: &str, written: &Value, name: &str) -> String {
    let loaded = load(recipe, written);
    let (project, _) = loaded.as_ref().as_ref().unwrap();
    let made = Given::of(written).made();
    let seen = look(project, &made, false);
    let observed = &seen.seen[0];
    let instance = project.instances[&observed.host].iter().find(|own| own.recipe.name == recipe).unwrap();
    let id = format!("{recipe}/{name}");
    let turn = steps_of(&plan_of(project, &made, &seen)).find(|step| step.id.to_string() == id).unwrap().id.clone();
    let step = instance.recipe.steps.iter().find(|step| *step.name == *turn.step).unwrap();
    let known = ExpansionInputs { facts: FactSource::Known(&observed.facts), exports: &seen.exports };
    let host = &project.hosts[&observed.host];
    match config::StepExpander::new(project).evaluate_effective(host, instance, step, &turn, &known) {
        ConditionOutcome::Check { script, .. } => script,
        other => panic!("`{id}`: {other:?}"),
    }
}

/// Returns the cases of a recipe's proof, merged over the common part `all`.
pub fn cases(recipe: &str) -> Vec<Value> {
    let proof = yaml(&root().join(format!("{recipe}.yaml")));
    let all = proof.get("all").cloned().unwrap_or_else(|| json!({}));
    let cases = proof["cases"].as_array().unwrap_or_else(|| panic!("{recipe}: no `cases`"));
    cases.iter().map(|written| laid(&all, written)).collect()
}

/// Runs as many recipes in parallel as there are cores.
#[test]
fn every_recipe_passes_its_cases() {
    let (left, wrong) = (Mutex::new(builtin_data::BUILTIN_RECIPES.iter()), Mutex::new(Vec::new()));
    let next = || left.lock().unwrap().next();
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                while let Some((recipe, _)) = next() {
                    // Before the lock: otherwise only one case would run at a time.
                    let found = mistakes_of(recipe);
                    wrong.lock().unwrap().extend(found);
                }
            });
        }
    });
    let wrong = wrong.into_inner().unwrap();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Returns the problems of all cases of a recipe.
fn mistakes_of(recipe: &str) -> Vec<String> {
    let name = |written: &Value| {
        written["name"].as_str().unwrap_or_else(|| panic!("{recipe}: a case without a name")).to_owned()
    };
    let told = |written: Value| {
        let name = name(&written);
        mistakes(recipe, &written).into_iter().map(move |why| format!("{recipe}: {name}: {why}"))
    };
    cases(recipe).into_iter().flat_map(told).collect()
}

/// Output of programs, and the cause that forge must report: each row of each recipe has a sample, and no sample
/// matches another row first.
#[test]
fn fails_as_rows_report_their_cause() {
    let samples = yaml(&root().join("fails.yaml"));
    let shelf = config::builtin_project();
    let mut wrong = Vec::new();
    for recipe in shelf.library.values() {
        let own = samples[&recipe.name].as_array().cloned().unwrap_or_default();
        let mut proven = BTreeSet::new();
        for sample in &own {
            let (said, part) = (sample["said"].as_str().unwrap(), sample["cause"].as_str().unwrap());
            match recipe.fails_as.iter().position(|row| row.matches_output(said)) {
                Some(row) if recipe.fails_as[row].cause.contains(part) => _ = proven.insert(row),
                other => {
                    wrong.push(format!("{}: `{said}` gave {:?}", recipe.name, other.map(|row| &recipe.fails_as[row])))
                }
            }
        }
        let open = recipe.fails_as.iter().enumerate().filter(|(row, _)| !proven.contains(row));
        wrong.extend(open.map(|(_, row)| format!("{}: no sample of `{}`", recipe.name, row.text)));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The plugin reads its configuration once. Its pods are replaced if their template changes, so the template must follow
/// the configuration, and nothing else may change with it.
#[test]
fn changed_plugin_configuration_changes_its_pods() {
    let recipe = "rdma-shared-device-plugin";
    let objects_for = |count: u64| {
        let mut case = cases(recipe)[0].clone();
        case["with"]["via"] = json!("manifest");
        case["with"]["resources"] = json!({ "ib": count });
        let loaded = load(recipe, &case);
        let (project, _) = loaded.as_ref().as_ref().unwrap_or_else(|said| panic!("{said}"));
        let made = Given::of(&case).made();
        let seen = look(project, &made, false);
        let steps = declared(project, &made, &seen);
        let step = steps.iter().find(|step| step.id == format!("{recipe}/objects")).expect("is declared");
        let object = |kind: &str| {
            let mut objects = step.desired["objects"].as_array().expect("a list").iter();
            objects
                .find(|object| object["kind"] == kind)
                .cloned()
                .unwrap_or_else(|| panic!("no {kind}: {}", step.desired))
        };
        (object("ConfigMap"), object("DaemonSet"))
    };
    let ((old_config, mut old), (new_config, new)) = (objects_for(128), objects_for(1024));
    assert_ne!(old_config["data"]["config.json"], new_config["data"]["config.json"]);
    let annotation = "/spec/template/metadata/annotations/forge.config~1text";
    assert_eq!(new.pointer(annotation), Some(&new_config["data"]["config.json"]));
    *old.pointer_mut(annotation).expect("is annotated") = new.pointer(annotation).expect("is annotated").clone();
    assert_eq!(old, new);
}

/// An inventory's own recipe may lack something that a built-in recipe reads from it. This is an error only if the
/// built-in recipe is applied.
#[test]
fn unapplied_builtin_recipe_reports_no_errors() {
    let folder = tempfile::tempdir().unwrap();
    let root = Utf8Path::from_path(folder.path()).unwrap();
    std::fs::create_dir(root.join("recipes")).unwrap();
    let own =
        "# before nvidia-gsp\nrecipe: nvidia-driver\nsteps:\n  - { name: a, file: { path: /etc/a, content: a } }\n";
    std::fs::write(root.join("recipes/nvidia-driver.yaml"), own).unwrap();
    let said = |more: &str| {
        let path = root.join("inventory.yaml");
        let text = format!("cluster: lab\nhosts: [n1]\napply:\n  - {{ recipe: nvidia-driver, on: all }}\n{more}");
        std::fs::write(&path, text).unwrap();
        let (_, diags, sources) = config::load_project(
            &path,
            &LoadOptions {
                trust: false,
                embedded: builtin_data::BUILTIN_RECIPES,
                env: &|_| None,
                programs: forge::config::SecretPrograms::Skip,
            },
        );
        diags.0.iter().map(|diag| render_diag(diag, &sources, false)).collect::<String>()
    };
    assert_eq!(said(""), "");
    let applied = said("  - { recipe: nvidia-gsp, on: all }\n");
    assert!(applied.contains("`recipes[\"nvidia-driver\"].flavor` does not exist"), "{applied}");
}
