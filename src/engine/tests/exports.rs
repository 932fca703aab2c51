//! Exported values whose step changes in the run.

use super::simulated_project::SimulatedProject;
use crate::model::HostOutcome;

const ALL_RECIPES: &str = "apply:\n  - { recipe: a, on: n1 }\n  - { recipe: b, on: n2 }\n  - { recipe: c, on: n3 }\n";

/// Exports the content of a file.
fn write_exporter(content: &str) -> String {
    format!(
        "steps:
  - name: file
    scope: one
    file: {{ path: '@root/value', content: \"{content}\", @own }}
    export: {{ value: {{ read: 'cat @root/value' }} }}
"
    )
}

/// In the steady state every value is known, and nothing waits. A change of the first one reaches the last one.
#[test]
fn chain_of_exports_settles_and_carries_a_change_to_its_end() {
    let b = write_exporter("{{ exports['a'].value }}b");
    let c = write_exporter("{{ exports['b'].value }}c");
    let stage = SimulatedProject::new(3, ALL_RECIPES, &[("a", &write_exporter("1")), ("b", &b), ("c", &c)]);
    assert_eq!(stage.run_once().exit_code(), 0);
    assert_eq!(stage.read_file("n3", "value"), "1bc");
    let again = stage.run_once();
    assert_eq!((again.exit_code(), again.plan.count_steps().change), (0, 0), "{:?}", again.report);
    assert_eq!(again.describe_step("n3", "c/file"), "ok");
    stage.write_recipe("a", &write_exporter("2"));
    let changed = stage.run_once();
    let steps = [("n1", "a/file"), ("n2", "b/file"), ("n3", "c/file")];
    assert_eq!(steps.map(|(host, step)| changed.describe_step(host, step)), ["changed", "changed", "changed"]);
    assert_eq!((changed.exit_code(), stage.read_file("n3", "value").as_str()), (0, "2bc"));
}

/// The host keeps the value that it has: readers on good hosts go on with it.
#[test]
fn value_of_a_step_that_fails_is_read_as_before() {
    let recipe = |mark: &str| {
        format!(
            "steps:
  - name: key
    command: {{ check: 'test -e @root/key && test ! -e @root/bad', apply: 'test ! -e @root/bad && echo k > @root/key' }}
    export: {{ key: {{ read: 'cat @root/key' }} }}
  - name: all
    needs: []
    file: {{ path: '@root/all', content: \"{{% for host, key in exports['r'].key | items %}}{{{{ host }}}}={{{{ key }}}} {{% endfor %}}{mark}\", @own }}
"
        )
    };
    let stage = SimulatedProject::new(2, "apply:\n  - { recipe: r, on: all }\n", &[("r", &recipe("1"))]);
    assert_eq!(stage.run_once().exit_code(), 0);
    assert_eq!(stage.read_file("n2", "all"), "n1=k n2=k 1");
    stage.create_host_file("n1", "bad");
    stage.write_recipe("r", &recipe("2"));
    let ran = stage.run_once();
    assert_eq!(ran.describe_step("n1", "r/key"), "failed: exit status 1");
    assert_eq!(ran.describe_step("n2", "r/all"), "changed", "{:?}", ran.report);
    assert_eq!((stage.read_file("n2", "all").as_str(), ran.exit_code()), ("n1=k n2=k 2", 3));
}

/// Readers wait for a step that changes, although its former value can be read: they are applied in the same run.
#[test]
fn value_whose_step_changes_reaches_its_readers_in_the_same_run() {
    let token = |text: &str| {
        format!(
            "steps:
  - name: token
    scope: one
    file: {{ path: '@root/token', content: {text}, @own }}
    export: {{ token: {{ read: 'cat @root/token' }} }}
  - name: join
    file: {{ path: '@root/join', content: \"{{{{ exports['r'].token }}}}\", @own }}
"
        )
    };
    let stage = SimulatedProject::new(3, "apply:\n  - { recipe: r, on: all }\n", &[("r", &token("one"))]);
    assert_eq!(stage.run_once().exit_code(), 0);
    stage.write_recipe("r", &token("two"));
    let ran = stage.run_once();
    let planned = |host: usize| ran.plan.hosts[host].steps.iter().find(|step| &*step.id.step == "join").unwrap();
    assert!([0, 1, 2].iter().all(|host| planned(*host).will_run() && planned(*host).envelope.is_some()), "predicted");
    assert_eq!((ran.describe_step("n3", "r/join").as_str(), ran.exit_code()), ("changed", 0));
    assert_eq!(["n1", "n2", "n3"].map(|host| stage.read_file(host, "join")), ["two", "two", "two"]);
    assert_eq!(stage.run_once().plan.count_steps().change, 0);
    stage.write_host_file("n1", "token", "tampered");
    let repaired = stage.run_once();
    assert_eq!(["r/token", "r/join"].map(|step| repaired.describe_step("n1", step)), ["changed", "ok"]);
    assert_eq!((repaired.describe_step("n3", "r/join").as_str(), repaired.exit_code()), ("ok", 0));
}

/// One recipe exports the version, and another one changes it.
const VERSION: &str = "steps:
  - name: made
    command: { check: 'test -e @root/version', apply: 'echo 1 > @root/version' }
    export: { v: { read: 'cat @root/version' } }
";
const NEWER: &str = "after: [version]
steps:
  - { name: newer, command: { check: 'grep -q 2 @root/version', apply: 'echo 2 > @root/version' } }
";

/// The run changes nothing on the host that reads the value, so it is not observed again; what it declares is compared.
#[test]
fn host_without_changes_is_stale_if_a_value_that_it_reads_changes() {
    let reader = "steps:
  - { name: file, file: { path: '@root/read', content: \"{{ exports['version'].v['n1'] }}\\n\", @own } }
  - { name: own, file: { path: '@root/other', content: x, @own } }
";
    let recipes = [("version", VERSION), ("newer", NEWER), ("reader", reader)];
    let before = "apply:\n  - { recipe: version, on: n1 }\n  - { recipe: reader, on: n2 }\n";
    let stage = SimulatedProject::new(2, before, &recipes);
    assert_eq!(stage.run_once().exit_code(), 0);
    stage.replace_apply(&before.replace("apply:\n", "apply:\n  - { recipe: newer, on: n1 }\n"));
    let ran = stage.run_once();
    let why = "stale: a value that it reads has changed during the run";
    assert_eq!(["reader/file", "reader/own"].map(|step| ran.describe_step("n2", step)), [why, "ok"]);
    assert_eq!((ran.host_outcome("n2"), ran.exit_code()), (HostOutcome::Stale, 6));
    assert_eq!((stage.run_once().exit_code(), stage.read_file("n2", "read").as_str()), (0, "2\n"));
}
