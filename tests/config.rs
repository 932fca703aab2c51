//! Loads complete projects: the recipes in `tests/data`, and the invalid projects in `tests/errors` with their exact
//! messages. `FORGE_BLESS=1` writes the messages of the run.

#![allow(
    clippy::disallowed_methods,
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::panic,
    reason = "tests may start programs, and a panic fails the test"
)]

#[path = "config/kinds.rs"]
mod kinds;
#[path = "config/pages.rs"]
mod pages;
#[path = "config/schemas.rs"]
mod schemas;

use camino::{Utf8Path, Utf8PathBuf};
use forge::config::{
    self, ConditionOutcome, ExpandedStep, ExpansionInputs, ExpansionState, ExportedValue, ExportedValues, FactSource,
    InapplicableReason, LoadOptions, PendingInput, Project, RecipeInstance, StepExpander,
};
use forge::diag::{DiagList, SourceMap, render_diag};
use forge::facts::Facts;
use forge::model::HostName;
use proptest::prelude::*;
use serde_json::json;
use std::sync::Arc;

fn env(name: &str) -> Option<String> {
    match name {
        "FORGE_TEST_SECRET" => Some("hunter2!".to_owned()),
        "FORGE_TEST_EMPTY" => Some(String::new()),
        _ => None,
    }
}

fn load(path: &Utf8Path) -> (Option<config::Project>, DiagList, SourceMap) {
    config::load_project(
        path,
        &LoadOptions { trust: false, embedded: &[], env: &env, programs: forge::config::SecretPrograms::Skip },
    )
}

fn rendered(diags: &DiagList, sources: &SourceMap, root: &Utf8Path) -> String {
    let texts: Vec<String> = diags.0.iter().map(|diag| render_diag(diag, sources, false)).collect();
    (texts.join("\n\n") + "\n").replace(&format!("{root}/"), "")
}

fn folders(of: &str) -> Vec<Utf8PathBuf> {
    let root = Utf8Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(of);
    let mut found: Vec<Utf8PathBuf> = root.read_dir_utf8().unwrap().map(|entry| entry.unwrap().into_path()).collect();
    found.sort();
    found
}

#[test]
fn example_projects_load() {
    for folder in folders("data") {
        let (project, diags, sources) = load(&folder.join("inventory.yaml"));
        assert!(project.is_some() && diags.0.is_empty(), "{folder}:\n{}", rendered(&diags, &sources, &folder));
    }
}

#[test]
fn error_messages_match_the_expected_files() {
    let bless = std::env::var_os("FORGE_BLESS").is_some();
    let mut wrong = Vec::new();
    for folder in folders("errors") {
        let (_, diags, sources) = load(&folder.join("inventory.yaml"));
        let text = rendered(&diags, &sources, &folder);
        let expected = folder.join("expected.txt");
        if bless {
            std::fs::write(&expected, &text).unwrap();
        } else if std::fs::read_to_string(&expected).unwrap_or_default() != text {
            wrong.push(format!("{folder} gave:\n{text}"));
        }
        assert!(!diags.0.is_empty(), "{folder} has no error");
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// A built-in recipe that cannot be read must not be read again forever, because it names itself.
#[test]
fn unreadable_builtin_recipe_is_reported_once() {
    let folder = tempfile::tempdir().unwrap();
    let root = Utf8Path::from_path(folder.path()).unwrap();
    let path = root.join("inventory.yaml");
    std::fs::write(&path, "cluster: a\nhosts: { n1: }\napply: [{ recipe: broken, on: all }]\n").unwrap();
    for text in ["recipe: broken\nsteps: [", "recipe: broken\n"] {
        let options = LoadOptions {
            trust: false,
            embedded: &[("broken", text)],
            env: &env,
            programs: forge::config::SecretPrograms::Skip,
        };
        let (_, diags, sources) = config::load_project(&path, &options);
        let said = rendered(&diags, &sources, root);
        assert!(diags.0.len() == 1 && said.contains("broken.yaml:"), "{said}");
    }
}

fn example(name: &str) -> Project {
    let folder = Utf8Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name);
    load(&folder.join("inventory.yaml")).0.unwrap()
}

fn instance<'p>(project: &'p Project, host: &str, recipe: &str) -> &'p Arc<RecipeInstance> {
    project.instances[&HostName::new(host)].iter().find(|instance| instance.recipe.name == recipe).unwrap()
}

fn expand(
    project: &Project,
    host: &str,
    id: &str,
    facts: FactSource<'_>,
    exports: &ExportedValues,
) -> Vec<ExpandedStep> {
    let (recipe, step) = id.split_once('/').unwrap();
    let instance = instance(project, host, recipe);
    let step = instance.recipe.steps.iter().find(|s| s.name == step).unwrap();
    let known = ExpansionInputs { facts, exports };
    StepExpander::new(project).expand_step(&project.hosts[&HostName::new(host)], instance, step, &known).to_vec()
}

fn one(project: &Project, host: &str, id: &str) -> ExpandedStep {
    let mut turns = expand(project, host, id, FactSource::NotYet, &ExportedValues::new());
    assert_eq!(turns.len(), 1);
    turns.remove(0)
}

fn sha256(text: &str) -> String {
    use sha2::Digest;
    sha2::Sha256::digest(text).iter().map(|byte| format!("{byte:02x}")).collect()
}

fn desired(turn: &ExpandedStep) -> serde_json::Value {
    match &turn.state {
        ExpansionState::Resource(resource) => resource.desired_value(),
        other => panic!("{}: {other:?}", turn.id),
    }
}

#[test]
fn stacks_pass_parameters_and_values_record_their_origin() {
    let project = example("gpu");
    let driver = instance(&project, "h100-node-14-31", "nvidia-driver");
    assert_eq!(driver.params["version"].value, json!("560.35.03"));
    assert_eq!(driver.params["version"].from.to_string(), "stack gpu-node");
    assert_eq!(driver.stack.as_deref(), Some("gpu-node"));
    let fm = instance(&project, "h100-node-14-31", "nvidia-fabricmanager");
    assert_eq!(
        (&fm.params["interval"].value, fm.params["interval"].from.to_string()),
        (&json!(45), "group gpu".to_owned())
    );
    let gsp = instance(&project, "h100-node-14-31", "nvidia-gsp");
    assert_eq!(gsp.params["gsp"].value, json!("off"));
    assert!(Arc::ptr_eq(driver, instance(&project, "h100-node-14-34", "nvidia-driver")), "equal instances are shared");
    assert_eq!(driver.selection.len(), 4);
    assert_eq!(project.hosts[&HostName::new("h100-node-14-33")].connect.address, "10.0.14.33");
    let order: Vec<_> =
        project.instances[&HostName::new("h100-node-14-31")].iter().map(|i| i.recipe.name.as_str()).collect();
    assert_eq!(order, ["nvidia-driver", "nvidia-gsp", "nvidia-fabricmanager", "motd"]);
}

#[test]
fn steps_become_resources() {
    let project = example("gpu");
    let node = "h100-node-14-31";
    let text = |id: &str| desired(&one(&project, node, id)).to_string();
    assert!(text("nvidia-fabricmanager/package").contains("560.35.03-1"), "{}", text("nvidia-fabricmanager/package"));
    assert!(text("nvidia-driver/packages").contains("nvidia-dkms"), "{}", text("nvidia-driver/packages"));
    let body = |host: &str, id: &str| desired(&one(&project, host, id))["content"]["sha256"].clone();
    assert_eq!(body(node, "motd/file"), sha256("a on h100-node-14-31\n"));
    assert_eq!(body("login", "motd/file"), sha256("no rack on login\n"));
    let config = "# h100-node-14-31\nLOG_LEVEL=4\nINTERVAL=45\nOPTION_A=1\nOPTION_B=1\n";
    assert_eq!(body(node, "nvidia-fabricmanager/config"), sha256(config));
    assert!(!one(&project, node, "nvidia-gsp/module option").absent);
    assert!(one(&project, "login", "legacy-agent/package").absent);
    let driver = instance(&project, node, "nvidia-driver");
    let known = ExpansionInputs { facts: FactSource::NotYet, exports: &ExportedValues::new() };
    let judged = StepExpander::new(&project).evaluate_verify(
        &project.hosts[&HostName::new(node)],
        driver,
        &driver.recipe.verify[0],
        &known,
    );
    assert_eq!(
        judged,
        ConditionOutcome::Check { script: "test \"$(cat /sys/module/nvidia/version)\" = 560.35.03".into() }
    );
}

#[test]
fn step_is_deferred_until_its_exports_are_known() {
    let project = example("mesh");
    let turn = one(&project, "n2", "ssh-mesh/authorized keys");
    let ExpansionState::Deferred(deferred) = turn.state else { panic!("{:?}", turn.state) };
    assert_eq!(
        deferred.need,
        PendingInput::Export { recipe: "ssh-mesh".into(), name: "public_key".into(), missing: Default::default() }
    );
    assert_eq!(
        (deferred.title.as_deref(), deferred.fields),
        (Some("/home/train/.ssh/authorized_keys"), vec!["content".to_owned()])
    );
    let mut exports = ExportedValues::new();
    let made = exports.entry("ssh-mesh".to_owned()).or_default();
    made.insert("public_key".into(), ExportedValue::Single(Some(json!("ssh-ed25519 AAAA mesh"))));
    let known = ["n1", "n2", "n3"].map(|host| (host.to_owned(), json!(host.replace('n', "k")))).into();
    let (pending, missing) = Default::default();
    made.insert("host_key".into(), ExportedValue::ByHost { known, pending, missing });
    let turn = &expand(&project, "n2", "ssh-mesh/known hosts", FactSource::NotYet, &exports)[0];
    assert_eq!(desired(turn)["content"]["sha256"], sha256("n1,10.0.0.1 k1\nn2,10.0.0.2 k2\nn3,10.0.0.3 k3\n"));
    assert!(matches!(
        expand(&project, "n2", "ssh-mesh/authorized keys", FactSource::NotYet, &exports)[0].state,
        ExpansionState::Resource(_)
    ));
}

#[test]
fn each_expands_to_steps_and_when_waits_for_facts() {
    let project = example("kube");
    let turns = expand(&project, "w01", "kube-packages/sysctl", FactSource::NotYet, &ExportedValues::new());
    let ids: Vec<_> = turns.iter().map(|turn| turn.id.to_string()).collect();
    assert_eq!(
        ids,
        ["kube-packages/sysctl[net.ipv4.ip_forward]", "kube-packages/sysctl[net.bridge.bridge-nf-call-iptables]"]
    );
    assert!(
        matches!(&one(&project, "w01", "kube-packages/load module").state, ExpansionState::Deferred(d) if d.need == PendingInput::Facts)
    );
    let mut facts = Facts::default();
    facts.0.insert("virtualization", Ok(json!("lxc")));
    let turn = expand(&project, "w01", "kube-packages/load module", FactSource::Known(&facts), &ExportedValues::new())
        .remove(0);
    assert!(matches!(&turn.state, ExpansionState::NotApplicable(InapplicableReason::WhenFalse)));
    assert_eq!(turn.reads.into_iter().collect::<Vec<_>>(), ["virtualization"]);
    let control = instance(&project, "cp", "kube-control");
    assert_eq!(control.params["endpoint"].value, json!("10.1.0.1:6443"));
}

#[test]
fn debug_output_hides_secrets() {
    let folder = tempfile::tempdir().unwrap();
    let root = Utf8Path::from_path(folder.path()).unwrap();
    let recipe = "recipe: r\nparams: { t: { type: secret } }\nsteps:\n  - { name: s, file: { path: /t, content: \"x={{ params.t }}\" } }\n";
    let inventory = "cluster: c\nhosts: [h]\napply: [{ recipe: r, on: h, with: { t: { env: FORGE_TEST_SECRET } } }]\n";
    write(root, inventory, recipe);
    let project = load(&root.join("inventory.yaml")).0.unwrap();
    let turn = one(&project, "h", "r/s");
    assert!(!format!("{project:?} {turn:?}").contains("hunter2!"));
    let ExpansionState::Resource(resource) = &turn.state else { panic!("{turn:?}") };
    assert_eq!(resource.title(), "/t");
}

fn write(root: &Utf8Path, inventory: &str, recipe: &str) {
    std::fs::create_dir_all(root.join("recipes")).unwrap();
    std::fs::write(root.join("inventory.yaml"), inventory).unwrap();
    std::fs::write(root.join("recipes/r.yaml"), recipe).unwrap();
}

#[test]
fn symlinks_out_of_the_tree_are_rejected() {
    let folder = tempfile::tempdir().unwrap();
    let root = Utf8Path::from_path(folder.path()).unwrap();
    write(
        root,
        "cluster: c\nhosts: [h]\napply: [{ recipe: r, on: h }]\n",
        "recipe: r\nsteps:\n  - { name: s, file: { path: /t, source: link } }\n",
    );
    std::os::unix::fs::symlink("/etc/passwd", root.join("recipes/link")).unwrap();
    let (project, diags, _) = load(&root.join("inventory.yaml"));
    assert!(project.is_none());
    assert_eq!(
        (diags.0[0].code.id(), diags.0[0].notes.as_slice()),
        ("F0501", ["a symbolic link leads out of it".to_owned()].as_slice())
    );
}

#[test]
fn hosts_share_equal_recipe_instances() {
    let folder = tempfile::tempdir().unwrap();
    let root = Utf8Path::from_path(folder.path()).unwrap();
    let steps: String = (0..40)
        .map(|n| format!("  - {{ name: s{n}, file: {{ path: /etc/f{n}, content: \"{{{{ params.a }}}} {n}\" }} }}\n"))
        .collect();
    let inventory = "cluster: c\nhosts:\n  n[0001:2000]: { address: \"10.0.[0:19].[1:100]\" }\ngroups: { all: { vars: { a: x } } }\napply: [{ recipe: r, on: all }]\n";
    write(root, inventory, &format!("recipe: r\nparams: {{ a: {{ type: text }} }}\nsteps:\n{steps}"));
    let project = load(&root.join("inventory.yaml")).0.unwrap();
    let expander = StepExpander::new(&project);
    let known = ExpansionInputs { facts: FactSource::NotYet, exports: &ExportedValues::new() };
    let mut count = 0;
    for (name, own) in &project.instances {
        for step in own.iter().flat_map(|instance| instance.recipe.steps.iter().map(move |step| (instance, step))) {
            count += expander.expand_step(&project.hosts[name], step.0, step.1, &known).len();
        }
    }
    assert_eq!(count, 80_000);
    let first = &project.instances[0][0];
    assert!(project.instances.values().all(|own| Arc::ptr_eq(&own[0], first)));
}

/// Truncates a text, deletes, duplicates and swaps parts of it, and inserts syntax.
fn mutate(text: &str, edits: &[(u8, usize, usize)]) -> String {
    const BITS: [&str; 24] = [
        "",
        " ",
        "\n",
        ":",
        "- ",
        "{",
        "}",
        "[",
        "]",
        "\"",
        "{{",
        "}}",
        "{% if",
        "&a ",
        "*a",
        "<<: ",
        "!!int ",
        "\t",
        "é",
        "\u{0}",
        "null",
        "-1",
        "[9:1]",
        "&gpu:!all",
    ];
    let mut chars: Vec<char> = text.chars().collect();
    for (kind, at, other) in edits {
        if chars.is_empty() {
            break;
        }
        let (at, other) = (at % chars.len(), other % chars.len());
        match kind % 5 {
            0 => chars.truncate(at),
            1 => {
                chars.splice(at..at, BITS[other % BITS.len()].chars());
            }
            2 => {
                chars.drain(at.min(other)..at.max(other).min(at.min(other) + 30));
            }
            3 => chars.swap(at, other),
            _ => {
                let part: Vec<char> = chars[at.min(other)..at.max(other).min(at.min(other) + 60)].to_vec();
                chars.splice(at..at, part);
            }
        }
    }
    chars.into_iter().collect()
}

fn texts_of(name: &str) -> Vec<(String, String)> {
    let folder = Utf8Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name);
    let mut texts =
        vec![("inventory.yaml".to_owned(), std::fs::read_to_string(folder.join("inventory.yaml")).unwrap())];
    for entry in
        folder.join("recipes").read_dir_utf8().unwrap().map(Result::unwrap).filter(|e| e.file_type().unwrap().is_file())
    {
        texts.push((format!("recipes/{}", entry.file_name()), std::fs::read_to_string(entry.path()).unwrap()));
    }
    texts.sort();
    texts
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, max_shrink_iters: 200, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn loader_never_panics_on_mutated_projects(
        name in prop::sample::select(vec!["gpu", "mesh", "kube"]),
        file in 0usize..8,
        edits in prop::collection::vec((any::<u8>(), any::<usize>(), any::<usize>()), 0..4),
    ) {
        let folder = tempfile::tempdir().unwrap();
        let root = Utf8Path::from_path(folder.path()).unwrap();
        std::fs::create_dir_all(root.join("recipes/files")).unwrap();
        std::fs::write(root.join("recipes/files/fabricmanager.cfg"), "x {{ host.name }}\n").unwrap();
        let mut texts = texts_of(name);
        let at = file % texts.len();
        texts[at].1 = mutate(&texts[at].1, &edits);
        texts.iter().for_each(|(path, text)| std::fs::write(root.join(path), text).unwrap());
        let (project, diags, sources) = load(&root.join("inventory.yaml"));
        prop_assert_eq!(project.is_none(), diags.has_errors());
        let text = rendered(&diags, &sources, root);
        let acts = text.contains(['\0', '\x1b']);
        prop_assert!(!acts);
        if edits.is_empty() {
            prop_assert!(project.is_some(), "{}", text);
        }
    }
}

/// A fact that only a template file reads is requested as well.
#[test]
fn facts_read_by_template_files_are_collected() {
    let folder = tempfile::tempdir().unwrap();
    let root = Utf8Path::from_path(folder.path()).unwrap();
    let read = |step: &str, template: &str| {
        write(root, INVENTORY_OF_R, &format!("recipe: r\nparams:\n  n: {{ type: text, default: f }}\nsteps:\n{step}"));
        std::fs::write(root.join("recipes/f"), template).unwrap();
        let (project, diags, sources) = load(&root.join("inventory.yaml"));
        assert!(diags.0.is_empty(), "{}", rendered(&diags, &sources, root));
        project.unwrap().collect_read_facts().map(|names| names.into_iter().collect::<Vec<_>>().join(" "))
    };
    let file = "  - { name: s, file: { path: /a, template: f } }\n";
    assert_eq!(read(file, "no facts here").as_deref(), Some(""));
    assert_eq!(read(file, "{{ facts.cpu.count }}").as_deref(), Some("cpu"));
    assert_eq!(read(file, "{{ facts['cpu'].count }} {{ facts . os.id }}").as_deref(), Some("cpu os"));
    let waiting = "  - { name: s, when: facts.os.id == \"debian\", file: { path: /a, template: f } }\n";
    assert_eq!(read(waiting, "{{ facts.cpu.count }}").as_deref(), Some("cpu os"));
    let named_by_value = "  - { name: s, file: { path: /a, template: \"{{ params.n }}\" } }\n";
    assert_eq!(read(named_by_value, "{{ facts.cpu.count }}"), None, "the name of the file depends on values");
}

const INVENTORY_OF_R: &str = "cluster: c\nhosts: [a]\napply: [{ recipe: r, on: all }]\n";

/// Returns the processor time of this thread: other load on the machine does not count.
fn busy() -> std::time::Duration {
    const TICK_MS: u64 = 10;
    let stat = std::fs::read_to_string("/proc/thread-self/stat").unwrap();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
    let ticks = |at: usize| fields[at].parse::<u64>().unwrap();
    std::time::Duration::from_millis((ticks(11) + ticks(12)) * TICK_MS)
}

/// Loads an untrusted project: the inventory after `cluster`, and recipes by name. Returns the messages, the processor
/// time, and the peak of allocated memory in bytes.
fn hostile(inventory: &str, recipes: &[(String, String)]) -> (String, std::time::Duration, u64) {
    let folder = tempfile::tempdir().unwrap();
    let root = Utf8Path::from_path(folder.path()).unwrap();
    std::fs::create_dir(root.join("recipes")).unwrap();
    let path = root.join("inventory.yaml");
    std::fs::write(&path, format!("cluster: c\n{inventory}")).unwrap();
    recipes.iter().for_each(|(name, text)| std::fs::write(root.join(format!("recipes/{name}.yaml")), text).unwrap());
    let begun = busy();
    let mut said = String::new();
    let used = allocation_counter::measure(|| {
        let (_, diags, _) = load(&path);
        said = diags.0.iter().map(|diag| diag.message.clone()).collect::<Vec<_>>().join("\n");
    });
    (said, busy().saturating_sub(begun), used.bytes_max)
}

#[test]
fn oversized_projects_are_rejected_quickly() {
    let nested = |levels: usize| {
        let group = |at: usize| format!("  g{at}: {{ groups: [g{}] }}\n", at + 1);
        let all: String = (0..levels).map(group).collect();
        format!("hosts: [n1]\ngroups:\n{all}  g{levels}: {{ hosts: [n1] }}\napply: []\n")
    };
    let crowded: String = (0..2000).map(|at| format!("  g{at}: {{ hosts: [\"h[1:50000]\"] }}\n")).collect();
    let many: String = (0..40).map(|at| format!("  h{at}-[1:99999]: {{}}\n")).collect();
    let chain = |count: usize, uses: usize| -> Vec<(String, String)> {
        let uses = |at: usize| vec![format!("{{ recipe: r{} }}", at + 1); uses].join(", ");
        let mut all: Vec<_> =
            (0..count).map(|at| (format!("r{at}"), format!("recipe: r{at}\nuses: [{}]\n", uses(at)))).collect();
        let last = format!("recipe: r{count}\nsteps:\n  - {{ name: a, file: {{ path: /etc/a, content: a }} }}\n");
        all.push((format!("r{count}"), last));
        all
    };
    let applied = "hosts: [n1]\napply: [{ recipe: r0, on: all }]\n".to_owned();
    let layered = |layers: usize| -> Vec<(String, String)> {
        let next =
            |layer: usize| (0..10).map(move |at| format!("{{ recipe: r{layer}-{at} }}")).collect::<Vec<_>>().join(", ");
        let one = |layer: usize, at: usize| {
            (format!("r{layer}-{at}"), format!("recipe: r{layer}-{at}\nuses: [{}]\n", next(layer + 1)))
        };
        (0..layers).flat_map(|layer| (0..10).map(move |at| one(layer, at))).collect()
    };
    let mut ring = chain(1000, 1);
    ring[1000].1 = "recipe: r1000\nuses: [{ recipe: r0 }]\n".to_owned();
    let too_many_uses = "recipes use each other more than 10000 times";
    let cases = [
        (nested(3000), Vec::new(), "groups are nested more than 100 levels deep"),
        (
            format!("hosts: [\"h[1:50000]\"]\ngroups:\n{crowded}apply: []\n"),
            Vec::new(),
            "groups contain more than 2000000 groups and hosts, counted once per group",
        ),
        (format!("hosts:\n{many}apply: []\n"), Vec::new(), "the inventory has more than 200000 hosts"),
        (
            format!("hosts: [\"{}\"]\napply: []\n", "a[1:99999]".repeat(1000)),
            Vec::new(),
            "expands to at most 100000 names",
        ),
        (applied.clone(), chain(30, 2), too_many_uses),
        (applied.clone(), chain(3000, 1), "recipes use each other more than 32 levels deep"),
        (applied.clone(), layered(12), "recipe `r12-0` not found"),
        (applied.clone(), ring, "recipes use each other: "),
    ];
    for (inventory, recipes, expected) in cases {
        let (said, took, bytes) = hostile(&inventory, &recipes);
        assert!(
            said.lines().any(|line| line.contains(expected)),
            "{expected}:\n{}",
            said.chars().take(2000).collect::<String>()
        );
        assert!(bytes < 600 << 20, "{expected}: {bytes} bytes");
        // For a build without optimization; twice the time of an idle machine.
        assert!(took < std::time::Duration::from_secs(5), "{expected}: {took:?}");
    }
}
