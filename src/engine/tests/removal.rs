//! Removal: `ensure: absent` removes recipes in the reverse order of installation.

use super::stage::SimulatedProject;
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

fn undeclared(stage: &SimulatedProject) -> Vec<String> {
    stage.run().plan.hosts[0].undeclared.iter().map(|left| left.step.raw().to_owned()).collect()
}

fn both(stage: &SimulatedProject, ensure: &str) {
    let entry = |recipe: &str| format!("  - {{ recipe: {recipe}, on: all, ensure: {ensure} }}\n");
    stage.declare(&format!("apply:\n{}{}", entry("base"), entry("app")));
}

fn stage() -> SimulatedProject {
    SimulatedProject::new(1, "", &[("base", BASE), ("app", APP)])
}

#[test]
fn what_was_built_last_is_removed_first_also_across_recipes() {
    let stage = stage();
    both(&stage, "present");
    let ran = stage.run();
    assert_eq!((ran.code(), stage.has("n1", "base/a/b/mark")), (0, true), "{:#?}", ran.report);
    both(&stage, "absent");
    let ran = stage.run();
    let steps: Vec<String> = ran.report.hosts[0].steps.iter().map(|step| step.id.to_string()).collect();
    assert_eq!(steps, ["app/mark", "app/parts[a/b]", "app/parts[a]", "base/page", "base/folder"]);
    assert_eq!((ran.step("n1", "base/folder").as_str(), ran.code(), stage.has("n1", "base")), ("changed", 0, false));
    assert_eq!(stage.run().plan.counts().change, 0);
    stage.declare("");
    assert_eq!(undeclared(&stage), [""; 0], "what is known to be gone is no leftover");
}

/// A configuration stops using another recipe's programs when that recipe is removed.
#[test]
fn what_is_removed_is_not_beside_what_stays() {
    let main = "steps:
  - { name: page, file: { path: '@root/page', content: \"{{ recipes.extra.word if recipes.extra is defined else 'alone' }}\", @own } }
";
    let extra = "params: { word: { type: text, default: beside } }
steps:
  - { name: own, file: { path: '@root/own', content: \"{{ recipes.extra.word }}\", @own } }
";
    let stage = SimulatedProject::new(1, "", &[("main", main), ("extra", extra)]);
    let declare = |ensure| {
        stage.declare(&format!(
            "apply:\n  - {{ recipe: main, on: all }}\n  - {{ recipe: extra, on: all, ensure: {ensure} }}\n"
        ));
        assert_eq!(stage.run().code(), 0);
        (stage.read("n1", "page"), stage.has("n1", "own"))
    };
    assert_eq!(declare("present"), ("beside".to_owned(), true));
    assert_eq!(declare("absent"), ("alone".to_owned(), false));
}

#[test]
fn leftovers_are_those_of_the_own_cluster() {
    let stage = stage();
    both(&stage, "present");
    stage.run();
    stage.declare("");
    let left = ["app/mark", "app/parts[a/b]", "app/parts[a]", "base/folder", "base/page"];
    assert_eq!(undeclared(&stage), left);
    stage.rename("other");
    assert_eq!(undeclared(&stage), [""; 0]);
    both(&stage, "present");
    assert_eq!((stage.run().code(), stage.record("n1", "base/page")), (0, true));
    assert!(stage.has("n1", "state/applied/other@base%2Fpage.json"));
    stage.rename("test");
    stage.declare("");
    assert_eq!(undeclared(&stage), left, "each cluster keeps its own record");
}

#[test]
fn a_record_without_a_cluster_counts_until_it_is_written_anew() {
    let stage = stage();
    both(&stage, "present");
    stage.run();
    let applied = stage.root("n1").join("state/applied");
    let (new, old) = (applied.join("test@base%2Fpage.json"), applied.join("base%2Fpage.json"));
    let text = std::fs::read_to_string(&new).unwrap();
    assert!(text.contains(r#""cluster":"test","#), "{text}");
    std::fs::write(&old, text.replace(r#""cluster":"test","#, "")).unwrap();
    std::fs::remove_file(&new).unwrap();
    stage.rename("other");
    stage.declare("");
    assert_eq!(undeclared(&stage), ["base/page"]);
    stage.rename("test");
    both(&stage, "present");
    assert_eq!(stage.run().plan.counts().change, 0);
    assert_eq!((new.exists(), old.exists()), (true, false));
}

#[test]
fn what_cannot_be_removed_keeps_what_it_stands_on() {
    let stage = stage();
    both(&stage, "present");
    stage.run();
    both(&stage, "absent");
    // It cannot be unlinked while it is a non-empty directory.
    let ran = stage.run_with(
        |stage| {
            std::fs::remove_file(stage.root("n1").join("base/a/b/mark")).unwrap();
            stage.put("n1", "base/a/b/mark/foreign");
        },
        |_, _| (),
    );
    assert_eq!(ran.step("n1", "app/mark"), "failed: exit status 1");
    assert_eq!(ran.step("n1", "base/folder"), "skipped: needs `base/page`, which did not succeed");
    assert_eq!((ran.code(), stage.has("n1", "base/page")), (3, true));
}

#[test]
fn what_goes_comes_before_what_stays() {
    let new = "after: [old]\nsteps:\n  - name: make\n    file: { path: '@root/new', content: x, @own }\n";
    let old = "steps:\n  - name: made\n    file: { path: '@root/old', content: x, @own }\n";
    let apply = "apply:\n  - { recipe: new, on: all }\n  - { recipe: old, on: all, ensure: absent }\n";
    let stage = SimulatedProject::new(1, apply, &[("new", new), ("old", old)]);
    stage.put("n1", "old");
    let ran = stage.run();
    let started = |name: &str| ran.at(|e| matches!(e, Event::StepStarted { step, .. } if &*step.recipe == name));
    assert!(started("old") < started("new"));
    assert_eq!((ran.code(), stage.has("n1", "old"), stage.has("n1", "new")), (0, false, true));
}

#[test]
fn what_one_host_made_for_all_is_removed_from_every_host() {
    let key = "steps:
  - name: make
    scope: one
    command: { creates: '@root/key', apply: 'touch @root/key', remove: 'rm @root/key' }
";
    let stage = SimulatedProject::new(3, "apply:\n  - { recipe: key, on: all, ensure: absent }\n", &[("key", key)]);
    stage.put("n2", "key");
    stage.put("n3", "key");
    let ran = stage.run();
    assert_eq!((ran.code(), stage.has("n2", "key"), stage.has("n3", "key")), (0, false, false));
}
