//! Usage errors exit with 64 and say what to do.

use super::support::Place;

fn said(arguments: &[&str]) -> String {
    Place::new().forge(arguments)
}

#[test]
fn missing_verb_prints_the_help() {
    let said = said(&[]);
    assert!(said.starts_with("exit 64\n--- stdout\n--- stderr\nDeclarative provisioning"), "{said}");
}

#[test]
fn unknown_verb_is_rejected_with_a_suggestion() {
    insta::assert_snapshot!(said(&["aply"]));
}

#[test]
fn unknown_flag_is_rejected_with_a_suggestion() {
    insta::assert_snapshot!(said(&["plan", "--onn", "gpu"]));
}

/// For flags of other tools the error names forge's flag.
#[test]
fn flags_of_other_tools_get_a_hint() {
    let cases = [
        ("--limit", "to select hosts, use `--on SELECTOR`"),
        ("-l", "to select hosts, use `--on SELECTOR`"),
        ("--check", "for a dry run, use `forge plan`"),
        ("--diff", "to show differences, use `forge plan`"),
        ("--tags", "to select steps, use `--step PATTERN`"),
        ("--skip-tags=x", "to skip steps, use `--skip PATTERN`"),
        ("-b", "set it in the inventory: `connect: { sudo: true }`"),
        ("--become", "set it in the inventory: `connect: { sudo: true }`"),
        ("--extra-vars=a=b", "set it in the inventory: `vars` of a host or group, or `with` in `apply`"),
        (
            "--ask-become-pass",
            "set it in the inventory: `connect: { sudo: { password: { env: NAME } } }`; ssh logs in with keys",
        ),
        ("--forks=5", "to work on N hosts at once, use `--parallel N`"),
        ("--auto-approve", "to skip the confirmation, use `--yes`"),
        ("-auto-approve", "to skip the confirmation, use `--yes`"),
        ("-out=plan.json", "to save the plan, use `-o FILE`"),
        ("-var-file=x", "set it in the inventory: `vars` of a host or group, or `with` in `apply`"),
    ];
    for (flag, hint) in cases {
        let said = said(&["apply", "inventory.yaml", flag]);
        let name = flag.split('=').next().unwrap();
        let expected =
            format!("exit 64\n--- stdout\n--- stderr\nerror: unexpected argument '{name}' found\n\n  tip: {hint}\n\n");
        assert!(said.starts_with(&expected), "{flag}: {said}");
    }
}

#[test]
fn invalid_duration_is_rejected() {
    insta::assert_snapshot!(said(&["plan", "--timeout", "10"]));
}

#[test]
fn parallel_zero_is_rejected() {
    insta::assert_snapshot!(said(&["plan", "--parallel", "0"]));
}

#[test]
fn quiet_and_verbose_are_mutually_exclusive() {
    insta::assert_snapshot!(said(&["plan", "-q", "-v"]));
}

#[test]
fn missing_inventory_error_lists_tried_sources() {
    insta::assert_snapshot!(said(&["plan"]));
}

#[test]
fn environment_variable_sets_the_inventory() {
    let said = Place::new().env("FORGE_INVENTORY", "there.yaml").forge(&["validate"]);
    assert!(said.starts_with("exit 65\n") && said.contains("there.yaml"), "{said}");
}

#[test]
fn working_directory_inventory_is_the_default() {
    let said = Place::new().file("inventory.yaml", "").forge(&["validate"]);
    assert!(said.starts_with("exit 65\n") && said.contains("inventory.yaml"), "{said}");
}

#[test]
fn two_inventories_are_rejected() {
    insta::assert_snapshot!(said(&["plan", "a.yaml", "-i", "b.yaml"]));
}

#[test]
fn apply_without_a_terminal_needs_yes() {
    insta::assert_snapshot!(place().forge(&["apply"]));
    // A missing file is reported first.
    assert!(said(&["apply", "a.yaml"]).contains("`a.yaml` cannot be read: no such file"));
}

#[test]
fn json_never_implies_yes() {
    let said = place().forge(&["apply", "--format", "json"]);
    assert!(said.starts_with("exit 64\n--- stdout\n--- stderr\nerror: apply requires confirmation"), "{said}");
}

const INVENTORY: &str = "cluster: c
hosts: [node-1]
groups: { all: { vars: { x: y } } }
apply: [{ recipe: motd, on: all }]
";

const RECIPE: &str = "recipe: motd
steps:
  - name: greeting
    file: { path: /etc/motd, content: hello }
";

fn place() -> Place {
    Place::new().file("inventory.yaml", INVENTORY).file("recipes/motd.yaml", RECIPE)
}

/// A selection that matches nothing is an error of every verb, including `validate`.
#[test]
fn selection_that_matches_nothing_is_rejected() {
    let said = |arguments: &[&str]| place().forge(arguments);
    let exit = |hint: &str, text: &str| format!("exit 64\n--- stdout\n--- stderr\nerror[{text}\n = hint: {hint}\n\n");
    assert_eq!(
        said(&["plan", "--step", "greeting"]),
        exit("write the step with its recipe: `motd/greeting`", "F0203]: `greeting` matches no step of the inventory")
    );
    assert_eq!(
        said(&["plan", "--on", "nobody"]),
        exit("expected one of: `all`, `node-1`", "F0202]: `nobody` is neither a host nor a group")
    );
    assert_eq!(
        said(&["plan", "--skip", "motd"]),
        "exit 64\n--- stdout\n--- stderr\nerror[F0203]: `--step` and `--skip` together select no step\n\n"
    );
    for wrong in [["--step", "nothing"], ["--on", "nobody"]] {
        let said = said(&["validate", wrong[0], wrong[1]]);
        assert!(said.starts_with("exit 64\n--- stdout\n--- stderr\nerror[F020"), "{said}");
    }
}

/// A verb that works on whole hosts, or on none, does not ignore a selection of steps.
#[test]
fn step_selection_is_rejected_where_it_has_no_effect() {
    let hint = "`--step` and `--skip` select steps for plan, rehearse, apply, resume, verify, undo, drift, test, validate, \
                fetch and graph";
    let verbs: [&[&str]; 14] = [
        &["hold", "node-1", "--why", "x"],
        &["release", "node-1"],
        &["exec", "node-1"],
        &["doctor"],
        &["facts"],
        &["why-slow"],
        &["recipes"],
        &["explain", "rollout"],
        &["runs"],
        &["show", "last"],
        &["sign", "plan.json", "--key", "k"],
        &["schema", "recipe"],
        &["man"],
        &["sandbox", "list"],
    ];
    for verb in verbs {
        for flag in ["--step", "--skip"] {
            let given = place().forge(&[verb, &[flag, "motd"]].concat());
            let expected = format!(
                "exit 64\n--- stdout\n--- stderr\nerror: `{flag}` is not supported by this verb\n  hint: {hint}\n"
            );
            assert_eq!(given, expected, "{verb:?}");
        }
    }
    assert!(place().forge(&["graph", "--step", "motd"]).starts_with("exit 0\n"));
    assert!(place().forge(&["validate", "--step", "motd"]).starts_with("exit 0\n"));
}

/// The argument of `exec` is a host selector, as with similar tools.
#[test]
fn exec_rejects_an_inventory_as_host_selector() {
    let usage = |message: &str| format!("exit 64\n--- stdout\n--- stderr\nerror: {message}\n");
    let hint = "`c.yaml` is not a host selector\n  hint: pass the inventory as `-i c.yaml`";
    assert_eq!(said(&["exec", "c.yaml", "--", "uptime"]), usage(hint));
    let hint = "hosts are selected twice: `a` and `--on b`\n  hint: pass only one of them";
    assert_eq!(said(&["exec", "a", "--on", "b", "--", "uptime"]), usage(hint));
    let wrong = place().forge(&["exec", "gpu-99", "--", "uptime"]);
    assert!(wrong.starts_with("exit 64\n") && wrong.contains("gpu-99"), "{wrong}");
}

/// An output file that cannot be written is reported before any host is contacted.
#[test]
fn unwritable_output_file_fails_before_hosts_are_contacted() {
    for verb in ["validate", "plan"] {
        let said = place().forge(&[verb, "--json-into", "/nonexistent/x.json"]);
        assert!(
            said.starts_with("exit 1\n--- stdout\n--- stderr\nerror: cannot write `/nonexistent/x.json`"),
            "{said}"
        );
        assert!(!said.contains("observing"), "{said}");
    }
}

/// Other tools take hosts as the argument where forge takes the inventory.
#[test]
fn host_name_as_inventory_gets_a_hint() {
    for arguments in [&["doctor", "gpu-01"], &["plan", "gpu-01"]] {
        assert_eq!(
            said(arguments),
            "exit 65\n--- stdout\n--- stderr\nerror[F0101]: `gpu-01` cannot be read: no such file\n \
             = hint: to select hosts, use `--on gpu-01`\n\n\
             error: 1 error in `gpu-01`; nothing was contacted\n"
        );
    }
    assert!(!said(&["doctor", "gpu.yaml"]).contains("hint"));
}

#[test]
fn mistyped_inventory_name_gets_a_suggestion() {
    for typed in ["inventory.yml", "invetory.yaml"] {
        assert_eq!(
            Place::new().file("inventory.yaml", "cluster: c\n").forge(&["plan", typed]),
            format!(
                "exit 65\n--- stdout\n--- stderr\nerror[F0101]: `{typed}` cannot be read: no such file\n \
                 = hint: did you mean `inventory.yaml`?\n\nerror: 1 error in `{typed}`; nothing was contacted\n"
            )
        );
    }
}

#[test]
fn exec_without_a_command_is_rejected() {
    let usage = |message: &str| format!("exit 64\n--- stdout\n--- stderr\nerror: {message}\n");
    let hint = "no command given\n  hint: pass it after `--`, as in `forge exec gpu-01 -- uptime`";
    assert_eq!(said(&["exec"]), usage(hint));
    assert_eq!(said(&["exec", "uptime"]), usage(hint));
    assert_eq!(said(&["exec", "--", " "]), usage("the command is empty"));
}

/// No network is used: `local` runs the command on this machine.
#[test]
fn exec_runs_on_the_local_machine() {
    let inventory = "cluster: c\nhosts: { me: { connect: { transport: local } } }\n";
    let place = || Place::new().file("inventory.yaml", inventory);
    let out = place().forge(&["exec", "-q", "--", "echo out; echo err >&2; exit 3"]);
    assert!(
        out.starts_with(
            "exit 3\n--- stdout\nme: exit status 3\n    out\n    ! err\n\nnot all done: 1 host: 1 failed ("
        ),
        "{out}"
    );
    assert!(place().forge(&["exec", "-q", "--", "echo", "$HOME", "a b"]).contains("\nme: $HOME a b\n"));
}

/// The name of the run is checked first: without it there is nothing to confirm.
#[test]
fn undo_reports_an_unknown_run_before_it_asks_for_confirmation() {
    let place = Place::new().file("inventory.yaml", "cluster: c\nhosts: [n1]\napply: []\n");
    let said = place.forge(&["undo", "lst"]);
    assert!(said.starts_with("exit 64\n") && said.contains("lst") && !said.contains("confirmation"), "{said}");
    let said = place.forge(&["undo", "20260101T000000-aaaa"]);
    assert!(said.contains("error: undo requires confirmation, but there is no terminal\n"), "{said}");
}
