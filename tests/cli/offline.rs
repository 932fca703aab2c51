//! Verbs that contact no host: graphs, recipes, explanations, schemas, scripts for shells, pages.

use super::support::Place;

const INVENTORY: &str = "cluster: lab
hosts:
  gpu-[1:3]: {}
  login: { vars: { greeting: here } }
groups:
  all: { vars: { greeting: all } }
  gpu: { hosts: ['gpu-*'], vars: { greeting: gpu } }
apply:
  - { recipe: node, on: gpu, with: { version: 560.10 } }
  - { recipe: motd, on: all }
  - { recipe: keys, on: gpu }
";

const FILES: &[(&str, &str)] = &[
    (
        "recipes/node.yaml",
        "recipe: node\nsummary: A GPU node\nparams:\n  version: { type: version }\nuses:\n  - { recipe: driver, with: { version: '{{ params.version }}' } }\n",
    ),
    (
        "recipes/driver.yaml",
        "recipe: driver
summary: The driver
params:
  version: { type: version, doc: Full version }
  flavor: { type: enum, values: [open, proprietary], default: open }
rules:
  - { when: params.flavor == 'open', require: params.version != '535', else: no open modules }
steps:
  - name: packages
    disruption: D2
    package: { name: nvidia-dkms, version: '{{ params.version }}-1' }
    effective: { by: [reload, reboot], check: 'true' }
    provides: { units: [nvidia.service] }
verify:
  - { name: it is loaded, level: L2, check: 'true' }
",
    ),
    (
        "recipes/motd.yaml",
        "recipe: motd
summary: The message that a login sees
params:
  greeting: { type: text, default: hello }
after: [driver@verified]
steps:
  - name: file
    when: host.name != 'gpu-3'
    file: { path: /etc/motd, content: \"{{ params.greeting }} on {{ facts.os.id }}\\n\" }
",
    ),
    (
        "recipes/keys.yaml",
        "recipe: keys
summary: Keys of all hosts
steps:
  - name: make
    scope: one
    command: { creates: /etc/key, apply: make-key }
    export: { public: { read: cat /etc/key.pub } }
  - name: spread
    needs: { make: { of: selected, least: 90% } }
    file: { path: /etc/keys, content: '{{ exports.keys.public }}' }
",
    ),
];

fn place() -> Place {
    FILES.iter().fold(Place::new().file("inventory.yaml", INVENTORY), |place, (name, text)| place.file(name, text))
}

fn document(arguments: &[&str]) -> serde_json::Value {
    let said = place().forge(arguments);
    let text = said.strip_prefix("exit 0\n--- stdout\n").and_then(|said| said.split("--- stderr").next());
    serde_json::from_str(text.unwrap_or_else(|| panic!("{said}"))).unwrap()
}

#[test]
fn graph_shows_waves() {
    insta::assert_snapshot!(place().forge(&["graph"]));
}

/// As an apply does: the last step first, and dependents before what they depend on.
#[test]
fn graph_shows_removals_in_reverse_order() {
    let recipe = |name: &str, needs: &str| {
        format!(
            "recipe: {name}\n{needs}steps:\n  - name: first\n    file: {{ path: /{name}/1, content: x }}\n  - name: second\n    \
             file: {{ path: /{name}/2, content: x }}\n"
        )
    };
    let graph = |entries: &str| {
        let inventory = format!("cluster: lab\nhosts: [n1, n2]\napply:\n{entries}");
        let place = Place::new().file("inventory.yaml", &inventory).file("recipes/base.yaml", &recipe("base", ""));
        place.file("recipes/app.yaml", &recipe("app", "needs: [base]\n")).forge(&["graph", "-v"])
    };
    insta::assert_snapshot!(graph(
        "  - { recipe: base, on: all, ensure: absent }\n  - { recipe: app, on: all, ensure: absent }\n"
    ));
    let mixed = graph("  - { recipe: base, on: n1, ensure: absent }\n  - { recipe: base, on: n2 }\n");
    assert!(mixed.contains("  base/first   file  on n2, removed in reverse order from n1\n"), "{mixed}");
}

#[test]
fn graph_respects_host_and_step_selection() {
    insta::assert_snapshot!(place().forge(&["graph", "--on", "login,gpu-1", "--skip", "keys/make", "-v"]));
}

#[test]
fn graph_renders_as_graphviz_dot() {
    insta::assert_snapshot!(place().forge(&["graph", "--format", "dot"]));
}

#[test]
fn graph_renders_as_mermaid() {
    insta::assert_snapshot!(place().forge(&["graph", "--format", "mermaid"]));
}

#[test]
fn graph_json_lists_waves_and_edges() {
    let graph = &document(&["graph", "--format", "json"])["graph"];
    assert_eq!(graph["waves"].as_array().unwrap().len(), 2);
    let edge = graph["edges"].as_array().unwrap().iter().find(|edge| edge["why"] == "barrier").unwrap();
    let expected = serde_json::json!({
        "from": {"recipe": "keys", "step": "make"},
        "to": {"recipe": "keys", "step": "spread"},
        "phase": "effective",
        "why": "barrier",
        "least": "90%",
        "place": "recipes/keys.yaml:9:14",
    });
    assert_eq!(*edge, expected);
}

#[test]
fn dot_format_is_rejected_outside_graph() {
    insta::assert_snapshot!(place().forge(&["recipes", "--format", "dot"]));
}

#[test]
fn recipes_verb_lists_recipes() {
    insta::assert_snapshot!(place().forge(&["recipes"]));
}

#[test]
fn recipes_verb_shows_one_recipe_in_full() {
    insta::assert_snapshot!(place().forge(&["recipes", "driver"]));
    let recipe = &document(&["recipes", "driver", "--format", "json"])["recipe"];
    assert_eq!(recipe["params"][0]["required"], true);
    assert_eq!(recipe["params"][1]["default"], "open");
    assert_eq!(recipe["steps"][0]["provides"], serde_json::json!(["unit nvidia.service"]));
}

#[test]
fn unknown_recipe_is_rejected_with_a_suggestion() {
    insta::assert_snapshot!(place().forge(&["recipes", "drivr"]));
}

#[test]
fn builtin_recipe_is_shown_without_an_inventory() {
    insta::assert_snapshot!(Place::new().forge(&["recipes", "nouveau"]));
    let listed = Place::new().forge(&["recipes"]);
    assert!(listed.contains("nvidia-driver"), "{listed}");
}

#[test]
fn own_recipe_overrides_a_builtin_one() {
    let inventory = "cluster: lab\nhosts: [n1]\napply:\n  - { recipe: nouveau, on: all }\n";
    let own = "recipe: nouveau\nsummary: Ours\nsteps:\n  - { name: a, file: { path: /etc/a, content: a } }\n";
    let place = Place::new().file("inventory.yaml", inventory).file("recipes/nouveau.yaml", own);
    let said = place.forge(&["recipes"]);
    let line = said.lines().find(|line| line.contains("Ours")).unwrap_or_else(|| panic!("{said}"));
    assert!(line.contains("recipes/nouveau.yaml, overrides the built-in recipe; on 1 host"), "{line}");
}

#[test]
fn explain_shows_a_value_and_overridden_sources() {
    insta::assert_snapshot!(place().forge(&["explain", "motd.greeting"]));
}

#[test]
fn explain_shows_a_variable_of_one_host() {
    insta::assert_snapshot!(place().forge(&["explain", "login:vars.greeting"]));
}

#[test]
fn explain_traces_a_value_through_a_stack() {
    insta::assert_snapshot!(place().forge(&["explain", "gpu-2:driver.version"]));
    let value = &document(&["explain", "gpu-2:driver.version", "--format", "json"])["values"][0];
    assert_eq!(value["winner"]["value"], "560.10");
    assert_eq!(value["reads"][0]["winner"]["place"], "inventory.yaml:9:47");
}

#[test]
fn explain_shows_the_dependencies_of_a_step() {
    insta::assert_snapshot!(place().forge(&["explain", "motd/file"]));
}

#[test]
fn explain_shows_cross_host_dependencies() {
    insta::assert_snapshot!(place().forge(&["explain", "keys/spread", "--on", "gpu-1"]));
}

#[test]
fn explain_error_code_needs_no_inventory() {
    insta::assert_snapshot!(Place::new().forge(&["explain", "f0203"]));
}

#[test]
fn explain_rejects_unknown_subjects() {
    let mut said = String::new();
    for thing in
        ["F0399", "driver", "driver/pakages", "nobody:motd.greeting", "gpu-1:motd.greting", "login:driver.version"]
    {
        said += &format!("== {thing}\n{}", place().forge(&["explain", thing]));
    }
    said += &place().forge(&["explain", "gpu-1:motd.greeting", "--on", "gpu-2"]);
    insta::assert_snapshot!(said);
}

#[test]
fn schemas_are_listed_and_printed() {
    let said = place().forge(&["schema"]);
    assert!(
        said.contains("\ninventory      an inventory\n") || said.contains("stdout\ninventory      an inventory\n"),
        "{said}"
    );
    let recipe = document(&["schema", "recipe"]);
    assert_eq!(recipe["title"], "recipe");
    assert_eq!(document(&["schema", "file"])["title"], "file");
    let expected =
        "exit 64\n--- stdout\n--- stderr\nerror: schema `recipes` not found\n  hint: did you mean `recipe`?\n";
    assert_eq!(place().forge(&["schema", "recipes"]), expected);
}

#[test]
fn every_shell_has_a_completion_script() {
    // Some scripts run forge at each completion, others contain all flags.
    let (asks, holds) = (["completions", "--complete"], ["explain", "json-into"]);
    for (shell, words) in [("bash", asks), ("zsh", asks), ("fish", asks), ("elvish", holds), ("powershell", holds)] {
        let said = place().forge(&["completions", shell]);
        assert!(said.starts_with("exit 0\n") && words.iter().all(|word| said.contains(word)), "{shell}: {said}");
    }
}

#[test]
fn man_writes_pages_for_forge_and_its_verbs() {
    let place = place().file("man/.keep", "");
    assert_eq!(place.forge(&["man", "--into", "man"]), "exit 0\n--- stdout\n--- stderr\n");
    assert!(place.read("man/forge.1").contains(".TH forge 1"));
    let page = place.read("man/forge-explain.1");
    assert!(page.contains(".TH forge-explain 1") && page.contains("forge explain"), "{page}");
    assert!(place.forge(&["man"]).contains(".TH forge 1"));
}

#[test]
fn version_prints_within_the_time_limit() {
    let place = Place::new();
    let once = |run: &dyn Fn()| {
        let began = std::time::Instant::now();
        run();
        began.elapsed()
    };
    let (mut forge, mut least) = (std::time::Duration::MAX, std::time::Duration::MAX);
    // Other tests run at the same time: measure the two alternately, and take the fastest run of each.
    for _ in 0..40 {
        forge = forge.min(once(&|| drop(place.forge(&["--version"]))));
        least = least.min(once(&|| drop(std::process::Command::new("true").output().unwrap())));
    }
    // Loading so large a program, which is not optimized here, takes most of the time: about 15 times as long as the
    // smallest program on an idle machine, and on one that runs the cluster's tests at the same time.
    let limit = std::time::Duration::from_millis(20).max(25 * least);
    assert!(forge < limit, "`--version` took {forge:?}; `true` took {least:?}");
}

/// Every verb and every format prints the name of a secret, never its value.
#[test]
fn offline_verbs_never_print_secrets() {
    let inventory = "cluster: c\nhosts: { a: { vars: { token: { env: CANARY } } } }\napply: [{ recipe: t, on: a }]\n";
    let recipe = "recipe: t\nparams: { token: { type: secret } }\nsteps:\n  - { name: s, file: { path: /t, content: '{{ params.token }}' } }\n";
    let place =
        Place::new().file("inventory.yaml", inventory).file("recipes/t.yaml", recipe).env("CANARY", "hunter2hunter2");
    let verbs: &[&[&str]] =
        &[&["explain", "t.token"], &["explain", "vars.token"], &["explain", "t/s"], &["recipes", "t"], &["graph"]];
    for arguments in verbs {
        for format in ["text", "json"] {
            let said = place.forge(&[*arguments, &["--format", format]].concat());
            assert!(said.starts_with("exit 0\n"), "{arguments:?}: {said}");
            assert!(!said.contains("hunter2") && !said.contains('\u{e000}'), "{arguments:?}: {said}");
        }
    }
    let said = place.forge(&["explain", "t.token"]);
    assert!(said.contains("t.token = \"(secret CANARY)\"  on a\n  from host"), "{said}");
}
