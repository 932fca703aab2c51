//! Barriers, `one` steps, exported values, verified edges.

use super::simulated_project::SimulatedProject;
use crate::model::HostOutcome;

pub(super) const ALL: &str = "apply:\n  - { recipe: first, on: all }\n  - { recipe: second, on: all }\n";
pub(super) const FIRST: &str = "steps:
  - name: try
    command: { check: 'test -e @root/first', apply: 'test ! -e @root/bad && touch @root/first' }
";
const SECOND: &str = "needs:
  first: { of: selected, least: 100% }
steps:
  - name: go
    command: { check: 'test -e @root/second', apply: 'touch @root/second' }
";

#[test]
fn barrier_names_the_missing_hosts() {
    let stage = SimulatedProject::new(3, ALL, &[("first", FIRST), ("second", SECOND)]);
    stage.create_host_file("n2", "bad");
    let ran = stage.run_once();
    assert_eq!(ran.describe_step("n2", "first/try"), "failed: exit status 1");
    assert_eq!(ran.describe_step("n1", "second/go"), "skipped: needs `first/try` on 3 hosts, got 2; missing: n2");
    assert_eq!((ran.exit_code(), stage.has_file("n3", "second")), (3, false));
    std::fs::remove_file(stage.host_root("n2").join("bad")).unwrap();
    let ran = stage.run_once();
    assert_eq!((ran.exit_code(), ran.host_outcome("n1")), (0, HostOutcome::Changed));
    assert_eq!(stage.run_once().plan.count_steps().change, 0);
}

/// Right after the first step of a host, its second one is observed ahead. What another host then changes, before the
/// barrier opens, counts.
#[test]
fn step_behind_a_barrier_is_judged_by_what_other_hosts_left() {
    let first = "steps:
  - name: slow
    when: host.name == \"n2\"
    command: { check: 'test -e @root/../n1/second', apply: 'sleep 0.5; touch @root/../n1/second' }
  - name: quick
    when: host.name == \"n1\"
    command: { check: 'test -e @root/first', apply: 'touch @root/first' }
";
    let second = SECOND.replace("touch @root/second", "touch @root/second @root/acted");
    let stage = SimulatedProject::new(2, ALL, &[("first", first), ("second", &second)]);
    let ran = stage.run_once();
    assert_eq!((ran.exit_code(), stage.has_file("n1", "second")), (0, true), "{:?}", ran.report);
    assert_eq!((stage.has_file("n1", "acted"), stage.has_file("n2", "acted")), (false, true));
}

/// The host that waits for its turn is judged by what the one before it left.
#[test]
fn step_with_a_limit_is_judged_when_its_turn_comes() {
    let steps = |limit: &str| {
        format!(
            "steps:
  - name: own
    file: {{ path: '@root/own', content: x, @own }}
  - name: shared
    {limit}
    command: {{ check: 'test -e @root/../shared', apply: 'sleep 0.3; touch @root/../shared @root/acted' }}
"
        )
    };
    for (limit, rollout) in [("at_once: 1", ""), ("disruption: D1", "rollout: { max_restarting: 1 }\n")] {
        let apply = format!("{rollout}apply:\n  - {{ recipe: r, on: all }}\n");
        let stage = SimulatedProject::new(2, &apply, &[("r", &steps(limit))]);
        let ran = stage.run_once();
        let acted = ["n1", "n2"].iter().filter(|host| stage.has_file(host, "acted")).count();
        assert_eq!((ran.exit_code(), acted), (0, 1), "{limit}: {:?}", ran.report);
    }
}

#[test]
fn skipped_steps_are_not_waited_for() {
    let stage = SimulatedProject {
        skip: vec!["first".to_owned()],
        ..SimulatedProject::new(2, ALL, &[("first", FIRST), ("second", SECOND)])
    };
    let ran = stage.run_once();
    assert_eq!((ran.describe_step("n1", "second/go").as_str(), ran.exit_code()), ("changed", 0));
}

#[test]
fn barrier_ignores_hosts_without_the_recipe() {
    let stack = "uses:\n  - { recipe: first, when: host.name != \"n2\" }\n";
    let apply = "apply:\n  - { recipe: stack, on: all }\n  - { recipe: second, on: all }\n";
    let stage = SimulatedProject::new(2, apply, &[("first", FIRST), ("second", SECOND), ("stack", stack)]);
    let ran = stage.run_once();
    assert_eq!(
        (ran.describe_step("n1", "second/go").as_str(), ran.describe_step("n2", "second/go").as_str()),
        ("changed", "changed")
    );
}

#[test]
fn barrier_fails_if_hosts_are_not_in_the_run() {
    let mut stage = SimulatedProject::new(3, ALL, &[("first", FIRST), ("second", SECOND)]);
    stage.hosts.truncate(2);
    let ran = stage.run_once();
    let reason = "skipped: needs `first/try` on 3 hosts, got 2; not in this run: n3";
    assert_eq!(
        (ran.describe_step("n1", "second/go").as_str(), ran.host_outcome("n1"), ran.exit_code()),
        (reason, HostOutcome::Skipped, 3)
    );
}

/// While a host waits, others take its place in the window. With a window of one, only that avoids a deadlock.
#[test]
fn waiting_host_frees_its_parallel_slot() {
    let stage =
        SimulatedProject { parallel: 1, ..SimulatedProject::new(3, ALL, &[("first", FIRST), ("second", SECOND)]) };
    assert_eq!(stage.run_once().exit_code(), 0);
}

/// `two` waits for `key`, which waits for `one` on all hosts: the steps of `files` must not wait as a whole.
#[test]
fn step_group_does_not_wait_for_its_own_dependents() {
    let files = "steps:
  - { name: one, file: { path: '@root/one', content: x, @own } }
  - { name: two, needs: [key], file: { path: '@root/two', content: x, @own } }
";
    let key = "steps:
  - name: make
    scope: one
    needs: [{ recipe: files, step: one, of: selected, least: 100% }]
    command: { check: 'test -e @root/key', apply: 'touch @root/key' }
";
    let apply = "apply:\n  - { recipe: files, on: all }\n  - { recipe: key, on: all }\n";
    let stage = SimulatedProject::new(2, apply, &[("files", files), ("key", key)]);
    let ran = stage.run_once();
    assert_eq!((ran.exit_code(), stage.has_file("n2", "two")), (0, true), "{:?}", ran.report);
}

/// The first turn matches; other hosts continue only when the second one is done too.
#[test]
fn step_is_done_when_all_its_instances_are() {
    let first = "steps:
  - name: try
    each: '[\"a\", \"b\"]'
    command: { check: 'test -e @root/{{ item }}', apply: 'sleep 0.5; touch @root/{{ item }}' }
";
    let second = "needs:
  first: { of: selected, least: 100% }
steps:
  - name: go
    command: { check: 'test -e @root/second', apply: 'test -e @root/../n1/b && touch @root/second' }
";
    let stage = SimulatedProject::new(2, ALL, &[("first", first), ("second", second)]);
    ["n1/a", "n2/a", "n2/b"].iter().for_each(|file| stage.create_host_file("", file));
    let ran = stage.run_once();
    assert_eq!(ran.describe_step("n2", "second/go"), "changed");
}

const MESH: &str = "steps:
  - name: key
    scope: one
    command: { check: 'test -e @root/key', apply: 'test ! -e @root/bad && echo secret > @root/key' }
    export:
      value: { read: 'cat @root/key' }
  - name: accept
    file: { path: '@root/accepted', content: \"{{ exports['mesh'].value }}\\n\", @own }
";

#[test]
fn value_exported_by_one_host_is_read_by_all() {
    let stage = SimulatedProject::new(3, "apply:\n  - { recipe: mesh, on: all }\n", &[("mesh", MESH)]);
    assert_eq!(stage.run_once().exit_code(), 0);
    assert_eq!(stage.read_file("n3", "accepted"), "secret\n");
    assert!(stage.has_file("n1", "key") && !stage.has_file("n2", "key"));
    assert_eq!(stage.run_once().plan.count_steps().change, 0);
}

#[test]
fn failed_exporter_is_named_by_waiting_hosts() {
    let stage = SimulatedProject::new(3, "apply:\n  - { recipe: mesh, on: all }\n", &[("mesh", MESH)]);
    stage.create_host_file("n1", "bad");
    let ran = stage.run_once();
    assert_eq!(ran.describe_step("n1", "mesh/key"), "failed: exit status 1");
    assert_eq!(ran.describe_step("n2", "mesh/accept"), "skipped: needs `mesh/key` on n1");
    assert_eq!((ran.host_outcome("n2"), ran.exit_code()), (HostOutcome::Skipped, 3));
}

/// The key was created between plan and apply: its value is known nevertheless.
#[test]
fn value_created_after_the_plan_is_exported() {
    let stage = SimulatedProject::new(2, "apply:\n  - { recipe: mesh, on: all }\n", &[("mesh", MESH)]);
    let ran = stage.run_with(|stage| stage.create_host_file("n1", "key"), |_, _| ());
    assert_eq!((ran.describe_step("n1", "mesh/key").as_str(), ran.exit_code()), ("ok", 0));
    assert_eq!(stage.read_file("n2", "accepted"), "x\n");
}

/// The roles of a cluster are entries of one recipe, and a value belongs to the recipe: its readers wait for its
/// writer.
#[test]
fn entries_of_one_recipe_read_each_others_exports() {
    let join = "params: { role: { type: text } }
steps:
  - name: waits
    command: { check: 'true', apply: 'true' }
    export: { waits: { read: 'test -e @root/joined && echo no || echo yes' } }
  - name: token
    when: params.role == 'control'
    scope: one
    command:
      check: \"{% if 'yes' in (exports['join'].waits | items | map('last')) %}test -e @root/token{% else %}true{% endif %}\"
      apply: 'sleep 1; echo t-42 > @root/token'
    export: { token: { read: 'cat @root/token' } }
  - name: join
    when: params.role == 'worker'
    command:
      creates: '@root/joined'
      apply: 'echo $TOKEN > @root/joined'
      env: { TOKEN: \"{{ exports['join'].token if exports['join'].waits[host.name] == 'yes' else '' }}\" }
";
    let apply = "apply:
  - { recipe: join, on: n1, with: { role: worker } }
  - { recipe: join, on: n2, with: { role: control } }
";
    let stage = SimulatedProject::new(2, apply, &[("join", join)]);
    stage.create_host_file("n2", "joined");
    let ran = stage.run_once();
    assert_eq!((ran.describe_step("n1", "join/join").as_str(), ran.exit_code()), ("changed", 0));
    assert_eq!(stage.read_file("n1", "joined"), "t-42\n");
    assert_eq!(stage.run_once().plan.count_steps().change, 0);
    // No step waits any more, so the exported file may be removed.
    std::fs::remove_file(stage.host_root("n2").join("token")).unwrap();
    let again = stage.run_once();
    assert_eq!((again.plan.count_steps().change, again.exit_code()), (0, 0));
}

#[test]
fn exported_stdout_excludes_stderr_and_stays_secret() {
    let join = "steps:
  - name: token
    scope: one
    command: { check: 'test -e @root/made', apply: 'touch @root/made; echo deprecated >&2; echo join-$((6 * 7))' }
    export:
      join: { stdout: true, secret: true }
";
    let reader = "steps:
  - { name: file, file: { path: '@root/join', content: \"{{ exports['join'].join }}\", @own } }
";
    let apply = "apply:\n  - { recipe: join, on: n1 }\n  - { recipe: reader, on: n2 }\n";
    let stage = SimulatedProject::new(2, apply, &[("join", join), ("reader", reader)]);
    let ran = stage.run_once();
    assert_eq!((ran.exit_code(), stage.read_file("n2", "join").as_str()), (0, "join-42"));
    let said = serde_json::to_string(&(&ran.report, &ran.events)).unwrap();
    assert!(!said.contains("join-42"), "{said}");
}

const KEYS: &str = "steps:
  - name: own
    command: { check: 'test -e @root/own', apply: 'test ! -e @root/bad && echo {{ host.name }} > @root/own' }
    export:
      name: { read: 'cat @root/own' }
";
const LIST: &str = "steps:
  - name: all
    file: { path: '@root/all', content: \"{{ exports['keys'].name | length }}\", @own }
  - name: apart
    each: exports['keys'].name
    file: { path: '@root/name-{{ key }}', content: '{{ item }}', @own }
";
const LISTS: &str = "apply:\n  - { recipe: keys, on: all }\n  - { recipe: list, on: all }\n";

/// A list of all hosts that lacks one would take that host out of every file made from it.
#[test]
fn readers_of_all_values_wait_for_a_host_that_failed() {
    let stage = SimulatedProject::new(3, LISTS, &[("keys", KEYS), ("list", LIST)]);
    stage.create_host_file("n2", "bad");
    let ran = stage.run_once();
    assert_eq!((ran.exit_code(), ran.host_outcome("n2")), (3, HostOutcome::Failed));
    assert_eq!(
        ran.describe_step("n1", "list/all"),
        "unknown: `name` of `keys` is not known on every host; no value: n2"
    );
    assert!(!stage.has_file("n1", "all"));
    std::fs::remove_file(stage.host_root("n2").join("bad")).unwrap();
    assert_eq!((stage.run_once().exit_code(), stage.read_file("n1", "all").as_str()), (0, "3"));
}

/// Neither a host where the exporting recipe is removed nor one that its condition leaves out lacks a value.
#[test]
fn hosts_that_export_nothing_are_not_waited_for() {
    let apply = "apply:\n  - { recipe: keys, on: 'n[1:2]' }\n  - { recipe: keys, on: n3, ensure: absent }\n  - { recipe: list, on: n1 }\n";
    let keys = KEYS.replace("apply: 'test", "removed: 'test ! -e @root/own', remove: 'rm @root/own', apply: 'test");
    let stage = SimulatedProject::new(3, apply, &[("keys", &keys), ("list", LIST)]);
    stage.create_host_file("n3", "own");
    for _ in 0..2 {
        let ran = stage.run_once();
        assert_eq!(
            (ran.exit_code(), stage.read_file("n1", "all").as_str()),
            (0, "2"),
            "{}",
            ran.describe_step("n1", "list/all")
        );
    }
    let keys = KEYS.replace("  - name: own\n", "  - name: own\n    when: host.name != 'n3'\n");
    let stage = SimulatedProject::new(3, LISTS, &[("keys", &keys), ("list", LIST)]);
    assert_eq!((stage.run_once().exit_code(), stage.read_file("n3", "all").as_str()), (0, "2"));
}

/// The value of one host is known without the others.
#[test]
fn value_of_one_host_needs_no_other_host() {
    let own = "steps:\n  - { name: own, file: { path: '@root/copy', content: \"{{ exports['keys'].name[host.name] }}\", @own } }\n";
    let stage = SimulatedProject::new(3, LISTS, &[("keys", KEYS), ("list", own)]);
    stage.create_host_file("n2", "bad");
    let ran = stage.run_once();
    assert_eq!(
        (ran.describe_step("n1", "list/own").as_str(), stage.read_file("n1", "copy").as_str()),
        ("changed", "n1")
    );
    assert!(!stage.has_file("n2", "copy"));
}

#[test]
fn partial_export_contains_only_hosts_that_exported() {
    let keys = KEYS.replace("{ read:", "{ partial: true, read:");
    let stage = SimulatedProject::new(3, LISTS, &[("keys", &keys), ("list", LIST)]);
    stage.create_host_file("n2", "bad");
    let ran = stage.run_once();
    assert_eq!((ran.exit_code(), ran.host_outcome("n2")), (3, HostOutcome::Failed));
    assert_eq!((stage.read_file("n1", "all").as_str(), stage.read_file("n2", "all").as_str()), ("2", "2"));
    // Its turns were not known when the plan was made.
    assert_eq!(ran.describe_step("n1", "list/apart[n3]"), "changed");
    assert_eq!(stage.read_file("n1", "name-n3"), "n3");
}

const BASE: &str = "steps:
  - name: make
    command: { check: 'test -e @root/base', apply: 'touch @root/base' }
verify:
  - { name: it answers, check: 'test ! -e @root/mute' }
";
const PROOF: &str = "needs: [base@verified]
steps:
  - name: go
    command: { check: 'test -e @root/proof', apply: 'touch @root/proof' }
";

#[test]
fn verified_need_requires_the_verification_to_pass() {
    let apply = "apply:\n  - { recipe: base, on: all }\n  - { recipe: proof, on: all }\n";
    let stage = SimulatedProject::new(3, apply, &[("base", BASE), ("proof", PROOF)]);
    stage.create_host_file("n2", "mute");
    stage.create_host_file("n3", "base");
    let ran = stage.run_once();
    assert_eq!(ran.describe_step("n1", "proof/go"), "changed");
    assert_eq!(
        ran.describe_step("n2", "proof/go"),
        "skipped: needs `base/make`: verification `it answers`: the check exited 1"
    );
    assert_eq!((ran.describe_step("n3", "proof/go").as_str(), ran.exit_code()), ("changed", 5));
}

#[test]
fn a_barrier_may_wait_for_verification() {
    let proof = PROOF
        .replace("needs: [base@verified]", "needs: [{ recipe: base, phase: verified, of: selected, least: 100% }]");
    let apply = "apply:\n  - { recipe: base, on: all }\n  - { recipe: proof, on: all }\n";
    let stage = SimulatedProject::new(3, apply, &[("base", BASE), ("proof", &proof)]);
    stage.create_host_file("n2", "mute");
    stage.create_host_file("n3", "base");
    let ran = stage.run_once();
    assert_eq!(ran.describe_step("n3", "proof/go"), "skipped: needs `base/make` on 3 hosts, got 2; missing: n2");
    std::fs::remove_file(stage.host_root("n2").join("mute")).unwrap();
    assert_eq!(stage.run_once().exit_code(), 0);
}

/// The step in between belongs to another host: the order of declaration still applies.
#[test]
fn declaration_order_holds_across_a_step_on_another_host() {
    let steps = "steps:
  - { name: odd, command: { check: 'test ! -e @root/odd || exit 7', apply: 'true' } }
  - { name: once, scope: one, command: { check: 'test -e @root/once', apply: 'touch @root/once' } }
  - { name: last, command: { check: 'test -e @root/last', apply: 'touch @root/last' } }
";
    let stage = SimulatedProject::new(2, "apply:\n  - { recipe: r, on: all }\n", &[("r", steps)]);
    stage.create_host_file("n2", "odd");
    let ran = stage.run_once();
    assert_eq!((ran.describe_step("n1", "r/last").as_str(), ran.exit_code()), ("changed", 9));
    assert_eq!(
        (ran.describe_step("n2", "r/last").as_str(), stage.has_file("n2", "last")),
        ("skipped: needs `r/odd`", false)
    );
}

/// The host that created the key is unreachable: no second key is created.
#[test]
fn one_scope_step_is_not_repeated_while_a_host_is_unreachable() {
    let stage = SimulatedProject::new(3, "apply:\n  - { recipe: mesh, on: all }\n", &[("mesh", MESH)]);
    assert_eq!(stage.run_once().exit_code(), 0);
    stage.create_host_file("n1", ".sim/refuse");
    let ran = stage.run_once();
    assert_eq!(ran.describe_step("n2", "mesh/key"), "unknown: `n1` is unreachable, and the step may have run there");
    let step = &ran.report.hosts[1].steps[0];
    let hint = "bring `n1` back; if the step never ran there, remove it from the entry's `on`";
    assert_eq!((step.hint.as_deref(), ran.exit_code()), (Some(hint), 4));
    assert!(!stage.has_file("n2", "key") && !stage.has_file("n3", "key"));
    // The same in the first run of all: the result is unknown.
    let first = SimulatedProject::new(2, "apply:\n  - { recipe: mesh, on: all }\n", &[("mesh", MESH)]);
    first.create_host_file("n2", ".sim/refuse");
    assert!(first.run_once().describe_step("n1", "mesh/key").starts_with("unknown: `n2` is unreachable"));
    // The way out, as the hint describes.
    let without = SimulatedProject::new(2, "apply:\n  - { recipe: mesh, on: n1 }\n", &[("mesh", MESH)]);
    without.create_host_file("n2", ".sim/refuse");
    assert_eq!(without.run_once().describe_step("n1", "mesh/key"), "changed");
}

#[test]
fn one_scope_step_stays_on_its_matching_or_recorded_host() {
    let stage = SimulatedProject::new(3, "apply:\n  - { recipe: mesh, on: all }\n", &[("mesh", MESH)]);
    stage.create_host_file("n2", "key");
    stage.create_host_file("n1", ".sim/refuse");
    let ran = stage.run_once();
    assert_eq!(
        (ran.describe_step("n2", "mesh/key").as_str(), stage.read_file("n3", "accepted").as_str()),
        ("ok", "x\n")
    );
    // An action that ran on this host runs on the same host again.
    std::fs::remove_file(stage.host_root("n2").join("key")).unwrap();
    assert_eq!(stage.run_once().describe_step("n2", "mesh/key"), "changed");
}

#[test]
fn plan_counts_non_root_hosts_as_missing_at_a_barrier() {
    let stage = SimulatedProject::new(3, ALL, &[("first", FIRST), ("second", SECOND)]);
    stage.create_host_file("n2", ".sim/plain");
    let ran = stage.run_once();
    let waits = ran.plan.hosts[0].steps[1].waits_for.as_ref().map(ToString::to_string);
    assert_eq!(waits.as_deref(), Some("first/try (on 3 hosts, got 2; missing: n2)"));
    assert_eq!(ran.describe_step("n1", "second/go"), "skipped: needs `first/try` on 3 hosts, got 2; missing: n2");
}

/// A step below a changed one is evaluated again. A result that only the plan can determine keeps its planned value.
#[test]
fn one_scope_step_below_a_change_stays_unknown() {
    let steps = "steps:
  - { name: above, command: { check: 'test -e @root/above', apply: 'touch @root/above' } }
  - { name: init, scope: one, needs: [above], command: { check: 'test -e @root/init', apply: 'touch @root/init' } }
";
    let stage = SimulatedProject::new(2, "apply:\n  - { recipe: r, on: all }\n", &[("r", steps)]);
    stage.create_host_file("n1", ".sim/refuse");
    let ran = stage.run_once();
    assert_eq!(ran.describe_step("n2", "r/above"), "changed");
    assert!(
        ran.describe_step("n2", "r/init").starts_with("unknown: `n1` is unreachable"),
        "{}",
        ran.describe_step("n2", "r/init")
    );
    assert!(!stage.has_file("n2", "init"));
}

/// A step that runs once, on the host that an earlier step chose: its `when` excludes all other hosts.
#[test]
fn one_step_runs_on_the_host_that_its_condition_names() {
    let steps = "steps:
  - name: first
    scope: one
    command: { check: 'test -e @root/first', apply: 'touch @root/first' }
    export: { founder: { value: host.name } }
  - name: second
    when: exports[\"r\"].founder == host.name
    scope: one
    command: { check: 'test -e @root/second', apply: 'touch @root/second' }
";
    let stage = SimulatedProject::new(3, "apply:\n  - { recipe: r, on: all }\n", &[("r", steps)]);
    stage.create_host_file("n2", "first");
    let ran = stage.run_once();
    assert_eq!(ran.exit_code(), 0, "{:#?}", ran.report);
    assert_eq!(["n1", "n2", "n3"].map(|host| stage.has_file(host, "second")), [false, true, false]);
    assert_eq!(ran.describe_step("n2", "r/second"), "changed");
}

/// One recipe exports the version, another one changes it, and a third one reads it.
const VERSION: &str = "steps:
  - name: made
    command: { check: 'test -e @root/version', apply: 'echo 1 > @root/version' }
    export: { v: { read: 'cat @root/version' } }
";
const NEWER: &str = "needs: [version]
steps:
  - { name: newer, command: { check: 'grep -q 2 @root/version', apply: 'echo 2 > @root/version' } }
";
const VERSION_READER: &str = "needs: [version, newer]
steps:
  - { name: file, file: { path: '@root/read', content: \"{{ exports['version'].v[host.name] }}\\n\", @own } }
  - { name: late, when: \"exports['version'].v[host.name] == '2'\", file: { path: '@root/late', content: '', @own } }
  - { name: each, each: \"exports['version'].v[host.name] | list\", file: { path: '@root/each-{{ item }}', content: '', @own } }
";

/// A step that has written the former value is not reported as applied.
#[test]
fn exported_value_that_changes_during_the_run_is_reported() {
    let apply =
        "apply:\n  - { recipe: version, on: n1 }\n  - { recipe: newer, on: n1 }\n  - { recipe: reader, on: n1 }\n";
    let recipes = [("version", VERSION), ("newer", NEWER), ("reader", VERSION_READER)];
    let stage = SimulatedProject::new(1, apply, &recipes);
    let ran = stage.run_once();
    assert_eq!(stage.read_file("n1", "version"), "2\n");
    let applies = "stale: it applies since a value that it reads has changed during the run";
    assert_eq!(
        ran.describe_step("n1", "reader/file"),
        "failed: a value that it reads has changed during the run: content differs"
    );
    assert!(ran.describe_step("n1", "reader/late").starts_with(applies), "{}", ran.describe_step("n1", "reader/late"));
    assert!(
        ran.describe_step("n1", "reader/each[2]").starts_with(applies),
        "{}",
        ran.describe_step("n1", "reader/each[2]")
    );
    assert_eq!(ran.exit_code(), 3);
    let again = stage.run_once();
    assert_eq!((again.exit_code(), stage.read_file("n1", "read").as_str()), (0, "2\n"));
    assert!(stage.has_file("n1", "late") && stage.has_file("n1", "each-2"));
}
