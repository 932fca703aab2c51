//! Saved plans without hosts: saved from a recording, shown again, and refused if they do not match.

use super::support::Place;
use forge::engine::SavedPlan;
use std::os::unix::fs::PermissionsExt;

const SEEN: &str = r#"{"version": 1, "forge": "0.1.0", "origin": "reconstructed", "hosts": [
  {"host": "a", "reach": "observed", "answers": [
    {"asked": "the records", "probes": ["account", "records"], "limit_s": 20,
     "answer": {"printed": {"end": {"exited": 0}, "began": false, "stdout": {"text": "account\u0000\u0000key\u0000\u0000units\u0000\u0000lines\u0000"},
                "stderr": {"text": ""}, "truncated": false}}},
    {"asked": "`stat`", "probes": [{"path": {"path": "/etc", "want": null}}, {"path": {"path": "/etc/x", "want": null}}], "limit_s": 20,
     "answer": {"printed": {"end": {"exited": 0}, "began": true, "stdout": {"text": "41ed\u00004096\u00001.5\u00001.5\u0000root\u0000root\u00000\u00000\u0000/etc\u0000/etc\u0000errors\u0000stat: cannot statx '/etc/x': No such file or directory\u0000sums\u0000\u0000"},
                "stderr": {"text": ""}, "truncated": false}}}]}]}"#;

const RECIPE: &str = "recipe: r\nsteps:\n  - name: x\n    file: { path: /etc/x, source: ../files/x }\n";

/// No process listens on port 1: commands that contact the host exit with 4.
fn place() -> Place {
    Place::new()
        .file("seen.json", SEEN)
        .file(
            "site/inventory.yaml",
            "cluster: c\nhosts: { a: { address: 127.0.0.1, connect: { port: 1 } } }\napply: [{ recipe: r, on: all }]\n",
        )
        .file("site/recipes/r.yaml", RECIPE)
        .file("site/files/x", "hello\n")
}

fn kept() -> Place {
    let place = place();
    let said = place.forge(&["plan", "site/inventory.yaml", "--observed", "seen.json", "-o", "plan.json"]);
    assert!(said.starts_with("exit "), "{said}");
    place
}

fn stdout(said: &str) -> &str {
    said.split_once("--- stdout\n").unwrap().1.split("--- stderr\n").next().unwrap()
}

#[test]
fn saved_plan_is_private_and_shown_unchanged() {
    let place = place();
    let said = place.forge(&["plan", "site/inventory.yaml", "--observed", "seen.json", "-o", "plan.json"]);
    insta::assert_snapshot!(said.split("sha256:").next().unwrap());
    assert_eq!(stdout(&said), stdout(&place.forge(&["show", "plan.json"])));
    let mode = std::fs::metadata(place.path().join("plan.json")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let saved = SavedPlan::parse(&place.read("plan.json")).unwrap();
    assert!(saved.is_unaltered());
    let inputs: Vec<&str> = saved.inputs.iter().map(|input| input.path.as_str()).collect();
    assert_eq!(inputs, ["files/x", "inventory.yaml", "recipes/r.yaml"]);
    assert_eq!(saved.inputs[0].sha256, "5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03");
    let step = &saved.plan.hosts[0].steps[0];
    assert!(!step.before.is_empty() && step.after.is_some(), "{step:?}");
}

#[test]
fn saved_plan_matches_its_schema() {
    let schema = forge::view::schemas::find_schema("saved-plan").unwrap().to_value();
    let validator = jsonschema::validator_for(&schema).unwrap();
    let value: serde_json::Value = serde_json::from_str(&kept().read("plan.json")).unwrap();
    let mistakes: Vec<String> = validator.iter_errors(&value).map(|error| error.to_string()).collect();
    assert!(mistakes.is_empty(), "{mistakes:#?}");
}

#[test]
fn markdown_shows_the_digest_of_the_saved_plan() {
    let place = kept();
    let saved = SavedPlan::parse(&place.read("plan.json")).unwrap();
    let said = place.forge(&["show", "plan.json", "--format", "markdown"]);
    assert!(stdout(&said).contains(&saved.digest), "{said}");
    let said = place.forge(&["show", "last", "--format", "markdown"]);
    assert!(said.starts_with("exit 64\n"), "{said}");
}

fn refused(place: &Place, arguments: &[&str]) -> String {
    place.forge(&[&["apply", "plan.json", "--yes"], arguments].concat())
}

const OTHER: &str =
    "exit 65\n--- stdout\n--- stderr\nerror: the inputs of `plan.json` have changed; nothing was contacted\n";

#[test]
fn saved_plan_is_rejected_after_an_input_changed() {
    for (file, text, what) in [
        ("site/recipes/r.yaml", &*format!("{RECIPE}# later\n"), "`recipes/r.yaml` changed"),
        ("site/files/x", "hallo\n", "`files/x` changed"),
        (
            "site/recipes/s.yaml",
            "recipe: s\nsteps: [{ name: x, file: { path: /etc/y, content: x } }]\n",
            "`recipes/s.yaml` was not read before",
        ),
    ] {
        let place = kept().file(file, text);
        let said = refused(&place, &[]);
        let expected = format!(
            "{OTHER}  note: {what}\n  hint: make a new plan with `forge plan INVENTORY -o FILE` and have it reviewed\n"
        );
        assert_eq!(said, expected);
    }
}

#[test]
fn matching_saved_plan_contacts_its_hosts() {
    let said = refused(&kept(), &[]);
    assert!(said.starts_with("exit 4\n"), "{said}");
}

#[test]
fn altered_plan_is_rejected_even_with_a_new_digest() {
    let place = kept();
    let text = place.read("plan.json").replace("does not exist", "is correct");
    let place = place.file("plan.json", &text);
    let said = refused(&place, &[]);
    assert!(said.contains("exit 65\n") && said.contains("altered after it was saved: digest mismatch"), "{said}");
    let shown = place.forge(&["show", "plan.json"]);
    assert!(shown.starts_with("exit 65\n--- stdout\n--- stderr\nerror: cannot show `plan.json`: altered"), "{shown}");

    let sealed = SavedPlan::parse(&text).unwrap().with_digest();
    assert!(sealed.is_unaltered());
    let mut out = Vec::new();
    forge::view::write_saved_plan(&sealed, &mut out).unwrap();
    let place = place.file("plan.json", std::str::from_utf8(&out).unwrap());
    let said = refused(&place, &[]);
    insta::assert_snapshot!(said);
}

/// The SHA-256 of `before`.
const BEFORE: &str = "6db7d803e74f1ffa7d8f5adc0bf95b3e15bf4c8373fffadf546227cc6c6742cb";

#[test]
fn changed_secret_is_named_as_a_possible_cause_of_a_difference() {
    let recipe = "recipe: r\nparams: { tok: { type: secret } }\nsteps:\n  - name: x\n    \
                  file: { path: /etc/x, content: \"{{ params.tok }}\" }\n";
    let inventory = "cluster: c\nhosts: { a: { address: 127.0.0.1, connect: { port: 1 } } }\n\
                     apply: [{ recipe: r, on: all, with: { tok: { env: TOK } } }]\n";
    let gone = r"errors\u0000stat: cannot statx '/etc/x': No such file or directory\u0000sums\u0000\u0000";
    let state = r"8180\u00006\u00001.5\u00001.5\u0000root\u0000root\u00000\u00000\u0000/etc/x\u0000/etc/x\u0000";
    let found = format!(r"{state}errors\u0000\u0000sums\u0000{BEFORE}  /etc/x\n\u0000");
    let seen = SEEN.replace(gone, &found);
    let place = place()
        .file("seen.json", &seen)
        .file("site/recipes/r.yaml", recipe)
        .file("site/inventory.yaml", inventory)
        .env("TOK", "before");
    place.forge(&["plan", "site/inventory.yaml", "--observed", "seen.json", "-o", "plan.json"]);
    assert!(refused(&place, &[]).starts_with("exit 4\n"));
    let place = place.env("TOK", "after");
    insta::assert_snapshot!(refused(&place, &[]));
}

#[test]
fn selection_flags_are_rejected_with_a_saved_plan() {
    let place = kept();
    for arguments in [&["--step", "r"][..], &["--skip", "r/x"], &["--max-disruption", "D1"]] {
        let said = refused(&place, arguments);
        let expected =
            format!("exit 64\n--- stdout\n--- stderr\nerror: `{}` cannot be used with a saved plan", arguments[0]);
        assert!(said.starts_with(&expected), "{said}");
    }
    let said = place.forge(&["apply", "site/inventory.yaml", "--yes", "--replay"]);
    assert!(said.starts_with("exit 64\n") && said.contains("`--replay` requires a saved plan"), "{said}");
}

#[test]
fn moved_inventory_must_be_passed_for_a_saved_plan() {
    let place = kept();
    std::fs::rename(place.path().join("site"), place.path().join("moved")).unwrap();
    let said = refused(&place, &[]);
    insta::assert_snapshot!(said);
    let said = refused(&place, &["-i", "moved/inventory.yaml"]);
    assert!(said.starts_with("exit 4\n"), "{said}");
}

#[test]
fn no_unknown_rejects_a_plan_with_unknown_steps() {
    let place =
        place().file("site/recipes/r.yaml", "recipe: r\nsteps:\n  - name: y\n    file: { path: /etc/y, content: y }\n");
    place.forge(&["plan", "site/inventory.yaml", "--observed", "seen.json", "-o", "plan.json"]);
    let said = refused(&place, &["--no-unknown"]);
    insta::assert_snapshot!(said);
}

/// Plans from before there were saved plans, and plans of a future forge.
#[test]
fn old_plans_are_shown_and_future_versions_rejected() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/plans");
    let text = |name: &str| std::fs::read_to_string(folder.join(name)).unwrap();
    let place = Place::new().file("bare.json", &text("version-1.json")).file("document.json", &text("document-1.json"));
    let shown = place.forge(&["show", "bare.json"]);
    insta::assert_snapshot!(shown);
    assert_eq!(place.forge(&["show", "document.json"]), shown);
    let said = place.forge(&["apply", "bare.json", "--yes"]);
    insta::assert_snapshot!(said);

    let later = kept();
    let text = later.read("plan.json").replacen("\"version\": 2", "\"version\": 3", 1);
    let later = later.file("plan.json", &text);
    let why = "it has version 3; this forge supports up to version 2";
    assert!(refused(&later, &[]).contains(&format!("error: cannot apply `plan.json`: {why}\n")));
    assert!(later.forge(&["show", "plan.json"]).contains(&format!("error: cannot show `plan.json`: {why}\n")));
}

fn key(place: &Place, name: &str) -> String {
    let file = place.path().join(name);
    let made = std::process::Command::new("ssh-keygen")
        .args(["-q", "-t", "ed25519", "-N", "", "-C", name, "-f"])
        .arg(&file)
        .status();
    assert!(made.unwrap().success());
    let line = place.read(&format!("{name}.pub"));
    format!("{name}@example.com namespaces=\"forge-plan\" {line}")
}

/// Returns a place with PATH set: a signature needs `ssh-keygen`.
fn signed_place() -> Place {
    let place = place().env("PATH", &std::env::var("PATH").unwrap());
    place.forge(&["plan", "site/inventory.yaml", "--observed", "seen.json", "-o", "plan.json"]);
    place
}

#[test]
fn only_allowed_signers_are_accepted() {
    let place = signed_place();
    let (alice, eve) = (key(&place, "alice"), key(&place, "eve"));
    let place = place.file("signers", &alice).file("others", &eve);
    let required = |list: &str| refused(&place, &["--require-signature", list]);
    let start = "exit 65\n--- stdout\n--- stderr\nerror: ";
    let said = required("signers");
    assert!(said.starts_with(&format!("{start}`plan.json` is not signed: `plan.json.sig` not found; nothing was contacted\n  hint: review it, then run `forge sign plan.json --key FILE`\n")), "{said}");

    let said = place.forge(&["sign", "plan.json", "--key", "alice"]);
    assert_eq!(said, "exit 0\n--- stdout\n--- stderr\nsignature written to plan.json.sig\n");
    let said = required("signers");
    assert!(said.starts_with("exit 4\n") && said.contains("\nsigned by alice@example.com\n"), "{said}");
    let said = required("others");
    assert!(
        said.starts_with(&format!(
            "{start}no allowed signer signed `plan.json`: no signer in `others` matches the signature `plan.json.sig`: "
        )),
        "{said}"
    );
    let said = required("nothing");
    assert!(said.starts_with("exit 64\n") && said.contains("allowed-signers file `nothing` not found"), "{said}");
}

#[test]
fn signature_of_another_plan_or_namespace_is_rejected() {
    let place = signed_place();
    let alice = key(&place, "alice");
    let place = place.file("signers", &alice);
    place.forge(&["sign", "plan.json", "--key", "alice"]);
    place.forge(&["plan", "site/inventory.yaml", "--observed", "seen.json", "-o", "plan.json"]);
    let start = "exit 65\n--- stdout\n--- stderr\nerror: no allowed signer signed `plan.json`: ";
    let said = refused(&place, &["--require-signature", "signers"]);
    assert!(
        said.starts_with(&format!("{start}the signature `plan.json.sig` of `alice@example.com` is invalid: ")),
        "{said}"
    );

    assert!(said.contains("hint: the plan was changed after it was signed, or signed for another purpose"), "{said}");

    std::fs::remove_file(place.path().join("plan.json.sig")).unwrap();
    let mut other = std::process::Command::new("ssh-keygen");
    other.args(["-q", "-Y", "sign", "-n", "file", "-f", "alice", "plan.json"]).current_dir(place.path());
    assert!(other.status().unwrap().success());
    let said = refused(&place, &["--require-signature", "signers"]);
    assert!(said.starts_with(start), "{said}");
    assert!(said.contains("hint: the plan was changed after it was signed, or signed for another purpose"), "{said}");

    // The signature is good, but its signer may only sign for git.
    std::fs::remove_file(place.path().join("plan.json.sig")).unwrap();
    place.forge(&["sign", "plan.json", "--key", "alice"]);
    let for_git = alice.replace("namespaces=\"forge-plan\"", "namespaces=\"git\"");
    let place = place.file("git-signers", &for_git);
    let said = refused(&place, &["--require-signature", "git-signers"]);
    assert!(said.starts_with(start) && !said.contains("sign it again"), "{said}");
    let hint = "hint: the signature matches the plan, but `git-signers` does not permit it: `namespaces` of \
                `alice@example.com` must include `forge-plan`";
    assert!(said.contains(hint), "{said}");
}

#[test]
fn sign_rejects_missing_keys_and_non_plan_files() {
    let place = signed_place();
    let said = place.forge(&["sign", "plan.json", "--key", "nothing"]);
    assert!(said.starts_with("exit 1\n") && said.contains("error: cannot sign with `nothing`: "), "{said}");
    let said = place.forge(&["sign", "seen.json", "--key", "nothing"]);
    assert!(
        said.starts_with("exit 65\n") && said.contains("cannot apply `seen.json`: it is not a saved plan"),
        "{said}"
    );
}

/// The plan is a sparse file: it has the size, but takes no disk space.
#[test]
fn oversized_plan_is_not_read() {
    let place = place().file("site/large.json", "");
    let large = std::fs::File::options().write(true).open(place.path().join("site/large.json")).unwrap();
    large.set_len((1 << 30) + 1).unwrap();
    for verb in [&["show", "site/large.json"][..], &["sign", "site/large.json", "--key", "alice"]] {
        let said = place.forge(verb);
        assert!(said.starts_with("exit 65\n") && said.contains("larger than 1024 MiB"), "{said}");
    }
}
