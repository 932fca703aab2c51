//! Former identities of a step are remembered after its declaration was changed to another object.

use super::simulated_project::SimulatedProject;

const APPLY: &str = "apply:\n  - { recipe: base, on: all }\n";
const GONE: &str = "apply:\n  - { recipe: base, on: all, ensure: absent }\n";

fn file_step(step: &str, path: &str) -> String {
    format!("  - name: {step}\n    file: {{ path: '@root/{path}', content: x, @own }}\n")
}

fn removed_file_step(step: &str, path: &str) -> String {
    file_step(step, path) + "    when: \"false\"\n    otherwise: absent\n"
}

fn leftover_project(steps: &str) -> SimulatedProject {
    let stage = SimulatedProject::new(1, APPLY, &[("base", &format!("steps:\n{steps}"))]);
    assert_eq!(stage.run_once().exit_code(), 0);
    stage
}

/// Returns the leftovers in a plan of these steps, without the host's folder.
fn plan_leftovers(stage: &SimulatedProject, steps: &str) -> Vec<String> {
    stage.write_recipe("base", &format!("steps:\n{steps}"));
    run_again(stage)
}

/// Runs and returns the leftovers in the plan and in the report.
fn run_again(stage: &SimulatedProject) -> Vec<String> {
    let ran = stage.run_once();
    let root = format!("{}/", stage.host_root("n1"));
    let told = |left: &[crate::plan::UndeclaredResource]| -> Vec<String> {
        let line =
            |l: &crate::plan::UndeclaredResource| format!("{}: {} {}", l.step.raw(), l.kind.raw(), l.title.raw());
        left.iter().map(line).map(|line| line.replace(&root, "")).collect()
    };
    let plan = told(&ran.plan.hosts[0].undeclared);
    assert_eq!(told(&ran.report.hosts[0].undeclared), plan);
    plan
}

const NOTHING: [&str; 0] = [];

#[test]
fn changed_path_reports_the_old_file_until_it_is_removed() {
    let stage = leftover_project(&file_step("page", "one"));
    let told = ["base/page: file one"];
    assert_eq!(plan_leftovers(&stage, &file_step("page", "two")), told, "before the other one is there");
    assert!(stage.has_file("n1", "one") && stage.has_file("n1", "two"));
    assert_eq!(run_again(&stage), told, "and after");
    let third = ["base/page: file two", "base/page: file one"];
    assert_eq!(plan_leftovers(&stage, &file_step("page", "three")), third);
    // The removal that the hint recommends.
    let removing = file_step("page", "three") + &removed_file_step("old", "one");
    assert_eq!(plan_leftovers(&stage, &removing), ["base/page: file two"], "the plan says that it goes");
    assert!(!stage.has_file("n1", "one"));
    assert_eq!(plan_leftovers(&stage, &file_step("page", "three")), ["base/page: file two"], "its removal is recorded");
    std::fs::remove_file(stage.host_root("n1").join("two")).unwrap();
    assert_eq!(run_again(&stage), NOTHING, "the host says that it is gone");
}

/// On Debian, `/var/run` is a link to `/run`.
#[test]
fn same_file_through_a_link_is_no_leftover() {
    for (before, after) in [("real/one", "alias/one"), ("alias/one", "real/one")] {
        let stage = SimulatedProject::new(1, APPLY, &[("base", &format!("steps:\n{}", file_step("page", before)))]);
        stage.create_host_file("n1", "real/other");
        std::os::unix::fs::symlink("real", stage.host_root("n1").join("alias")).unwrap();
        assert_eq!(stage.run_once().exit_code(), 0);
        assert_eq!(plan_leftovers(&stage, &file_step("page", after)), NOTHING, "{before}");
        assert_eq!(run_again(&stage), NOTHING, "{before}");
        let moved = plan_leftovers(&stage, &file_step("page", "real/two"));
        assert_eq!(moved, [format!("base/page: file {after}")]);
        assert_eq!(plan_leftovers(&stage, &file_step("page", "other/one")).len(), 2, "another folder");
    }
}

#[test]
fn step_redeclared_as_a_removal_clears_its_leftover() {
    let stage = leftover_project(&(file_step("page", "one") + &file_step("other", "two")));
    assert_eq!(plan_leftovers(&stage, &file_step("other", "two")), ["base/page: file one"]);
    assert_eq!(plan_leftovers(&stage, &(file_step("other", "two") + &removed_file_step("page", "one"))), NOTHING);
    assert_eq!((stage.has_file("n1", "one"), plan_leftovers(&stage, &file_step("other", "two"))), (false, vec![]));
}

#[test]
fn another_kind_at_the_same_path_leaves_no_leftover() {
    let stage = leftover_project(&file_step("page", "one"));
    let link = "  - name: page\n    link: { path: '@root/one', target: /nowhere, force: true }\n";
    stage.write_recipe("base", &format!("steps:\n{link}"));
    assert_eq!(run_again(&stage), NOTHING);
    let command = "  - name: page\n    command: { creates: '@root/three', apply: 'touch @root/three' }\n";
    assert_eq!(plan_leftovers(&stage, command), ["base/page: link one"]);
}

/// A command has no name: it is the same if its declaration is.
#[test]
fn renamed_command_leaves_no_leftover_and_another_one_does() {
    let step = |name: &str, file: &str| {
        format!("  - name: {name}\n    command: {{ check: 'test -e @root/{file}', apply: 'touch @root/{file}' }}\n")
    };
    let stage = leftover_project(&step("made", "one"));
    assert_eq!(plan_leftovers(&stage, &step("built", "one")), NOTHING);
    assert_eq!(plan_leftovers(&stage, &step("built", "one")), NOTHING, "nor does the next plan");
    assert_eq!(plan_leftovers(&stage, &step("other", "two")).len(), 2);
}

#[test]
fn renamed_step_or_key_leaves_no_leftover() {
    let stage = leftover_project(&file_step("page", "one"));
    assert_eq!(plan_leftovers(&stage, &file_step("site", "one")), NOTHING);
    let each =
        "  - name: site\n    each: \"['one', 'two']\"\n    file: { path: '@root/{{ item }}', content: x, @own }\n";
    assert_eq!(plan_leftovers(&stage, each), NOTHING);
    let keyed = each.replace("['one', 'two']", "{'a': 'one', 'b': 'two'}");
    assert_eq!(plan_leftovers(&stage, &keyed), NOTHING);
    assert_eq!(plan_leftovers(&stage, &keyed.replace(", 'b': 'two'", "")), ["base/site[b]: file two"]);
}

/// A condition on facts may be false because of what the step did, or because of a fault.
#[test]
fn step_that_its_condition_drops_is_left_behind() {
    let page = file_step("page", "one");
    let each = "  - name: page\n    each: \"['one']\"\n    file: { path: '@root/{{ item }}', content: x, @own }\n";
    for (step, told) in [(page.as_str(), "base/page: file one"), (each, "base/page[one]: file one")] {
        let stage = leftover_project(step);
        let when = |condition: &str| format!("{step}    when: \"{condition}\"\n");
        assert_eq!(plan_leftovers(&stage, &when("facts.os.id == 'none'")), NOTHING, "{told}");
        assert_eq!(plan_leftovers(&stage, &when("host.name == 'n2'")), [told]);
        let removed = format!("{}    otherwise: absent\n", when("host.name == 'n2'"));
        assert_eq!((plan_leftovers(&stage, &removed), stage.has_file("n1", "one")), (vec![], false), "{told}");
        assert_eq!(plan_leftovers(&stage, &when("host.name == 'n2'")), NOTHING);
    }
}

/// The content waits for an exported value; the condition does not.
#[test]
fn condition_of_a_step_that_reads_exports_can_drop_it() {
    let recipe = |when: &str| {
        format!(
            "  - name: id\n    command: {{ check: 'test -s @root/id', apply: 'echo 4 >@root/id' }}\n    \
             export: {{ v: {{ read: 'cat @root/id' }} }}\n  - name: page\n{when}    \
             file: {{ path: '@root/page', content: \"{{{{ exports.base.v[host.name] }}}}\", @own }}\n"
        )
    };
    let stage = leftover_project(&recipe(""));
    let exported = "    when: exports.base.v[host.name] == '5'\n";
    assert_eq!(plan_leftovers(&stage, &recipe(exported)), NOTHING, "the value may be another one tomorrow");
    assert_eq!(plan_leftovers(&stage, &recipe("    when: host.name == 'n2'\n")), ["base/page: file page"]);
}

#[test]
fn removed_item_is_left_behind_whatever_facts_say_of_others() {
    let each = |items: &str| {
        format!(
            "  - name: page\n    each: \"[{items}]\"\n    when: item != 'two' or facts.os.id == 'none'\n    \
             file: {{ path: '@root/{{{{ item }}}}', content: x, @own }}\n"
        )
    };
    let stage = leftover_project(&each("'one', 'two', 'three'"));
    assert_eq!(plan_leftovers(&stage, &each("'one', 'two'")), ["base/page[three]: file three"]);
}

#[test]
fn command_that_its_condition_drops_is_left_behind() {
    let step = "  - name: made\n    command: { check: 'test -e @root/one', apply: 'touch @root/one' }\n";
    let stage = leftover_project(step);
    let told = plan_leftovers(&stage, &format!("{step}    when: \"host.name == 'n2'\"\n"));
    assert_eq!(told, ["base/made: command touch one"]);
}

#[test]
fn kept_resource_is_no_leftover_once_its_recipe_was_removed() {
    let each = "  - name: two\n    each: \"['two']\"\n    keep: true\n    \
                file: { path: '@root/{{ item }}', content: x, @own }\n";
    let steps = file_step("page", "one") + "    keep: true\n" + each;
    let stage = leftover_project(&steps);
    stage.replace_apply("");
    assert_eq!(run_again(&stage).len(), 2, "the recipe was not removed");
    stage.replace_apply(GONE);
    assert_eq!((run_again(&stage), run_again(&stage)), (vec![], vec![]));
    stage.replace_apply("");
    assert_eq!((run_again(&stage), stage.has_file("n1", "one")), (vec![], true));
    stage.replace_apply(APPLY);
    assert_eq!(run_again(&stage), NOTHING);
    stage.replace_apply("");
    assert_eq!(run_again(&stage).len(), 2, "it was declared again");
}

#[test]
fn leftover_is_reported_after_its_recipe_is_removed() {
    let stage = leftover_project(&file_step("page", "one"));
    assert_eq!(plan_leftovers(&stage, &file_step("page", "two")), ["base/page: file one"]);
    stage.replace_apply(GONE);
    assert_eq!(run_again(&stage), ["base/page: file one"]);
    assert!(stage.has_file("n1", "one") && !stage.has_file("n1", "two"));
    stage.replace_apply("");
    assert_eq!(run_again(&stage), ["base/page: file one"]);
}

#[test]
fn removal_of_a_different_path_reports_the_old_file() {
    let stage = leftover_project(&file_step("page", "one"));
    stage.write_recipe("base", &format!("steps:\n{}", file_step("page", "two")));
    stage.replace_apply(GONE);
    assert_eq!(run_again(&stage), ["base/page: file one"]);
    assert_eq!(run_again(&stage), ["base/page: file one"]);
}

#[test]
fn failed_step_still_reports_its_leftover() {
    let stage = leftover_project(&file_step("page", "one"));
    stage.create_host_file("n1", "two/in the way");
    let ran = |stage: &SimulatedProject| (run_again(stage), stage.run_once().exit_code());
    stage.write_recipe("base", &format!("steps:\n{}", file_step("page", "two")));
    assert_eq!(ran(&stage), (vec!["base/page: file one".to_owned()], 3));
    assert_eq!(ran(&stage), (vec!["base/page: file one".to_owned()], 3));
}

#[test]
fn skipped_steps_still_count_as_declared() {
    let mut stage = leftover_project(&(file_step("page", "one") + &file_step("other", "two")));
    stage.skip = vec!["other".into()];
    assert_eq!(
        plan_leftovers(&stage, &(file_step("page", "two") + &file_step("other", "one"))),
        NOTHING,
        "they changed places"
    );
}

/// A record of a version without identities is read, and rewritten by an apply that changes nothing.
#[test]
fn record_without_identity_is_matched_by_path() {
    let stage = leftover_project(&file_step("page", "one"));
    let record = stage.host_root("n1").join("state/applied/test@base%2Fpage.json");
    let whole = std::fs::read_to_string(&record).unwrap();
    let mut old: serde_json::Value = serde_json::from_str(&whole).unwrap();
    assert!(old.as_object_mut().unwrap().remove("identity").is_some());
    let old = old.to_string();
    std::fs::write(&record, &old).unwrap();
    assert_eq!(stage.run_once().plan.count_steps().change, 0);
    assert!(std::fs::read_to_string(&record).unwrap().contains("\"identity\""));
    std::fs::write(&record, &old).unwrap();
    assert_eq!(plan_leftovers(&stage, &file_step("page", "two")), ["base/page: file one"]);
    assert_eq!(run_again(&stage), ["base/page: file one"]);
}
