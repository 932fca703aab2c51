//! Removal: `ensure: absent` removes recipes in the reverse order of installation.

use super::simulated_project::SimulatedProject;
use crate::engine::Event;

const BASE: &str = "steps:
  - name: folder
    directory: { path: '@root/base', @own }
  - name: page
    file: { path: '@root/base/page', content: x, @own }
";
const APP: &str = "params:
  parts: { type: list, default: [a, a/b] }
needs: [base]
steps:
  - name: parts
    each: params.parts
    directory: { path: '@root/base/{{ item }}', @own }
  - name: mark
    command: { creates: '@root/base/a/b/mark', apply: 'touch @root/base/a/b/mark', remove: 'rm @root/base/a/b/mark' }
";

fn list_undeclared(stage: &SimulatedProject) -> Vec<String> {
    stage.run_once().plan.hosts[0].undeclared.iter().map(|left| left.step.raw().to_owned()).collect()
}

fn declare_both(stage: &SimulatedProject, ensure: &str) {
    let entry = |recipe: &str| format!("  - {{ recipe: {recipe}, on: all, ensure: {ensure} }}\n");
    stage.replace_apply(&format!("apply:\n{}{}", entry("base"), entry("app")));
}

fn removal_project() -> SimulatedProject {
    SimulatedProject::new(1, "", &[("base", BASE), ("app", APP)])
}

#[test]
fn removal_reverses_the_build_order_across_recipes() {
    let stage = removal_project();
    declare_both(&stage, "present");
    let ran = stage.run_once();
    assert_eq!((ran.exit_code(), stage.has_file("n1", "base/a/b/mark")), (0, true), "{:#?}", ran.report);
    declare_both(&stage, "absent");
    let ran = stage.run_once();
    let steps: Vec<String> = ran.report.hosts[0].steps.iter().map(|step| step.id.to_string()).collect();
    assert_eq!(steps, ["app/mark", "app/parts[a/b]", "app/parts[a]", "base/page", "base/folder"]);
    assert_eq!(
        (ran.describe_step("n1", "base/folder").as_str(), ran.exit_code(), stage.has_file("n1", "base")),
        ("changed", 0, false)
    );
    assert_eq!(stage.run_once().plan.count_steps().change, 0);
    stage.replace_apply("");
    assert_eq!(list_undeclared(&stage), [""; 0], "what is known to be gone is no leftover");
}

/// A configuration stops using another recipe's programs when that recipe is removed.
#[test]
fn removed_recipe_is_undefined_for_other_recipes() {
    let main = "steps:
  - { name: page, file: { path: '@root/page', content: \"{{ recipes.extra.word if recipes.extra is defined else 'alone' }}\", @own } }
";
    let extra = "params: { word: { type: text, default: beside } }
steps:
  - { name: own, file: { path: '@root/own', content: \"{{ recipes.extra.word }}\", @own } }
";
    let stage = SimulatedProject::new(1, "", &[("main", main), ("extra", extra)]);
    let declare = |ensure| {
        stage.replace_apply(&format!(
            "apply:\n  - {{ recipe: main, on: all }}\n  - {{ recipe: extra, on: all, ensure: {ensure} }}\n"
        ));
        assert_eq!(stage.run_once().exit_code(), 0);
        (stage.read_file("n1", "page"), stage.has_file("n1", "own"))
    };
    assert_eq!(declare("present"), ("beside".to_owned(), true));
    assert_eq!(declare("absent"), ("alone".to_owned(), false));
}

#[test]
fn leftovers_of_other_clusters_are_not_reported() {
    let stage = removal_project();
    declare_both(&stage, "present");
    stage.run_once();
    stage.replace_apply("");
    let left = ["app/mark", "app/parts[a/b]", "app/parts[a]", "base/folder", "base/page"];
    assert_eq!(list_undeclared(&stage), left);
    stage.rename_cluster("other");
    assert_eq!(list_undeclared(&stage), [""; 0]);
    declare_both(&stage, "present");
    assert_eq!((stage.run_once().exit_code(), stage.has_record("n1", "base/page")), (0, true));
    assert!(stage.has_file("n1", "state/applied/other@base%2Fpage.json"));
    stage.rename_cluster("test");
    stage.replace_apply("");
    assert_eq!(list_undeclared(&stage), left, "each cluster keeps its own record");
}

#[test]
fn record_without_a_cluster_counts_until_it_is_rewritten() {
    let stage = removal_project();
    declare_both(&stage, "present");
    stage.run_once();
    let applied = stage.host_root("n1").join("state/applied");
    let (new, old) = (applied.join("test@base%2Fpage.json"), applied.join("base%2Fpage.json"));
    let text = std::fs::read_to_string(&new).unwrap();
    assert!(text.contains(r#""cluster":"test","#), "{text}");
    std::fs::write(&old, text.replace(r#""cluster":"test","#, "")).unwrap();
    std::fs::remove_file(&new).unwrap();
    stage.rename_cluster("other");
    stage.replace_apply("");
    assert_eq!(list_undeclared(&stage), ["base/page"]);
    stage.rename_cluster("test");
    declare_both(&stage, "present");
    assert_eq!(stage.run_once().plan.count_steps().change, 0);
    assert_eq!((new.exists(), old.exists()), (true, false));
}

#[test]
fn failed_removal_keeps_its_dependencies() {
    let stage = removal_project();
    declare_both(&stage, "present");
    stage.run_once();
    declare_both(&stage, "absent");
    // It cannot be unlinked while it is a non-empty directory.
    let ran = stage.run_with(
        |stage| {
            std::fs::remove_file(stage.host_root("n1").join("base/a/b/mark")).unwrap();
            stage.create_host_file("n1", "base/a/b/mark/foreign");
        },
        |_, _| (),
    );
    assert_eq!(ran.describe_step("n1", "app/mark"), "failed: exit status 1");
    assert_eq!(ran.describe_step("n1", "base/folder"), "skipped: needs `app/mark`, which did not succeed");
    assert_eq!((ran.exit_code(), stage.has_file("n1", "base/page")), (3, true));
}

#[test]
fn removals_run_before_other_steps() {
    let new = "after: [old]\nsteps:\n  - name: make\n    file: { path: '@root/new', content: x, @own }\n";
    let old = "steps:\n  - name: made\n    file: { path: '@root/old', content: x, @own }\n";
    let apply = "apply:\n  - { recipe: new, on: all }\n  - { recipe: old, on: all, ensure: absent }\n";
    let stage = SimulatedProject::new(1, apply, &[("new", new), ("old", old)]);
    stage.create_host_file("n1", "old");
    let ran = stage.run_once();
    let started =
        |name: &str| ran.find_event(|e| matches!(e, Event::StepStarted { step, .. } if &*step.recipe == name));
    assert!(started("old") < started("new"));
    assert_eq!((ran.exit_code(), stage.has_file("n1", "old"), stage.has_file("n1", "new")), (0, false, true));
}

#[test]
fn one_scope_step_is_removed_from_every_host() {
    let key = "steps:
  - name: make
    scope: one
    command: { creates: '@root/key', apply: 'touch @root/key', remove: 'rm @root/key' }
";
    let stage = SimulatedProject::new(3, "apply:\n  - { recipe: key, on: all, ensure: absent }\n", &[("key", key)]);
    stage.create_host_file("n2", "key");
    stage.create_host_file("n3", "key");
    let ran = stage.run_once();
    assert_eq!((ran.exit_code(), stage.has_file("n2", "key"), stage.has_file("n3", "key")), (0, false, false));
}

const MARK: &str = "steps:
  - name: mark
    command: { check: 'test -e @root/mark', apply: 'touch @root/mark', remove: 'rm @root/mark' }
";

/// A command has no name of its own: its removal under the new name of its recipe is the removal of the old record too.
#[test]
fn removed_command_of_a_renamed_recipe_is_no_leftover() {
    let stage = SimulatedProject::new(1, "", &[("old", MARK), ("new", MARK)]);
    let declare = |recipe: &str, ensure: &str| {
        stage.replace_apply(&format!("apply:\n  - {{ recipe: {recipe}, on: all, ensure: {ensure} }}\n"));
        list_undeclared(&stage)
    };
    assert_eq!(declare("old", "present"), [""; 0]);
    assert_eq!(declare("new", "present"), [""; 0]);
    declare("new", "absent");
    assert!(!stage.has_file("n1", "mark"));
    assert_eq!(declare("new", "absent"), [""; 0]);
}

/// What a step with `keep` did stays on purpose.
#[test]
fn kept_work_of_a_step_whose_condition_became_false_is_no_leftover() {
    let recipe = |keep: bool| {
        format!(
            "params:\n  wanted: {{ type: bool, default: true }}\nsteps:\n  - name: built\n    keep: {keep}\n    \
             when: params.wanted\n    command: {{ check: 'test -e @root/built', apply: 'touch @root/built' }}\n"
        )
    };
    for (keep, expected) in [(true, vec![]), (false, vec!["r/built".to_owned()])] {
        let stage = SimulatedProject::new(1, "apply:\n  - { recipe: r, on: all }\n", &[("r", &recipe(keep))]);
        assert_eq!(stage.run_once().exit_code(), 0);
        stage.replace_apply("apply:\n  - { recipe: r, on: all, with: { wanted: false } }\n");
        assert_eq!(list_undeclared(&stage), expected, "{keep}");
    }
}
