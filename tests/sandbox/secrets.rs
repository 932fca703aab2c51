//! A secret that a host keeps is shown by no verb, whatever the inventory declares by then.

use super::host::{Lab, Who};

const INVENTORY: &str = "cluster: lab\nconnect: { transport: sandbox }\nhosts: { a: }\napply:\n  - { recipe: r, on: all, with: { s: { file: token } } }\n";
const SECRET: &str = "recipe: r\nparams: { s: { type: secret } }\nsteps:\n  \
    - name: file\n    file: { path: /etc/own, content: \"token={{ params.s }}\\n\" }\n  \
    - name: job\n    file: { path: /etc/cron.d/own, content: \"@daily root true {{ params.s }}\\n\" }\n";
const PLAIN: &str =
    "recipe: r\nsteps:\n  - name: file\n    file: { path: /etc/own, content: \"token-file=/run/tok\\n\" }\n";

/// What forge keeps about its runs, and the files that it wrote.
const STORED: &str = "cat state/lab/runs/*/* *.json 2>/dev/null; true";

fn says(lab: &Lab, arguments: &[&str]) -> String {
    let said = lab.forge(arguments);
    let folder = lab.shell(STORED);
    for secret in ["alpha-111", "bravo-222"] {
        assert!(!said.contains(secret), "{arguments:?}: {said}");
        assert!(!folder.contains(secret), "stored by {arguments:?}");
    }
    said
}

#[test]
fn former_secret_is_shown_by_no_verb() {
    let files = [("inventory.yaml", INVENTORY), ("recipes/r.yaml", SECRET), ("token", "alpha-111")];
    let lab = match Lab::new(Who::all()[0], &files) {
        Ok(lab) => lab,
        Err(why) => return eprintln!("skipped: a sandbox: {why}"),
    };
    let content = || lab.inside("inventory.yaml", "a", "cat /etc/own");
    let apply: &[&str] = &["apply", "inventory.yaml", "--yes"];
    let undo: &[&str] = &["undo", "last", "-i", "inventory.yaml"];
    assert!(says(&lab, apply).starts_with("exit 0\n"));
    assert!(lab.shell(STORED).contains("/etc/own"), "what forge stored about the run");
    lab.file("token", "bravo-222");
    assert!(says(&lab, apply).starts_with("exit 0\n"));
    assert_eq!(content(), "token=bravo-222\n");

    // The undo of a rotation, and the undo of that.
    let shown = says(&lab, &[undo, &["--dry-run"]].concat());
    assert!(shown.contains("content: (secret, not shown)") && !shown.contains("sha256"), "{shown}");
    assert!(says(&lab, &[undo, &["-o", "undo.json"]].concat()).starts_with("exit 0\n"));
    assert!(says(&lab, &[undo, &["--yes"]].concat()).starts_with("exit 0\n"));
    assert_eq!(content(), "token=alpha-111\n");
    says(&lab, &[undo, &["--dry-run", "--format", "markdown"]].concat());
    assert!(says(&lab, &[undo, &["--yes"]].concat()).starts_with("exit 0\n"));
    assert_eq!(content(), "token=bravo-222\n");

    // The secret leaves the recipe, and stays in the file.
    lab.file("inventory.yaml", &INVENTORY.replace(", with: { s: { file: token } }", ""));
    lab.file("recipes/r.yaml", PLAIN);
    for verb in [&["plan", "inventory.yaml"][..], &["plan", "-o", "plan.json"], &["drift", "inventory.yaml"]] {
        let said = says(&lab, verb);
        assert!(verb.contains(&"-o") || said.contains("(secret, not shown)"), "{said}");
    }
    let recorded = says(&lab, &["plan", "inventory.yaml", "--record", "answers.json"]);
    assert!(recorded.contains("mode: 0600 → 0644"), "who may read it is no secret: {recorded}");
    assert!(!lab.shell("base64 -w0 <answers.json").is_empty());
    let encoded = lab.inside("inventory.yaml", "a", "base64 -w0 /etc/own");
    assert!(!lab.shell("cat answers.json").contains(encoded.trim()), "bodies are sent as base64");
    assert!(says(&lab, apply).starts_with("exit 0\n"));
    says(&lab, &[undo, &["--dry-run"]].concat());

    // A removal is undone.
    lab.file("inventory.yaml", INVENTORY);
    lab.file("recipes/r.yaml", SECRET);
    assert!(says(&lab, apply).starts_with("exit 0\n"));
    lab.file("inventory.yaml", &INVENTORY.replace("{ recipe: r,", "{ recipe: r, ensure: absent,"));
    let removal = says(&lab, &["plan", "inventory.yaml"]);
    assert!(removal.contains("/etc/own") && !removal.contains(" bytes"), "{removal}");
    assert!(says(&lab, apply).starts_with("exit 0\n"));
    says(&lab, &[undo, &["--dry-run"]].concat());
    let saved = says(&lab, &[undo, &["-o", "undo-2.json"]].concat());
    assert!(saved.starts_with("exit 0\n"), "{saved}");
    assert!(says(&lab, &[undo, &["--yes"]].concat()).starts_with("exit 0\n"));
    assert_eq!(content(), "token=bravo-222\n");
    lab.nothing_is_left();
}

/// A recording has no keys of hosts, but the workers tell them to their coordinator: a rotated secret restarts its reader,
/// and afterwards nothing differs.
#[test]
fn rotation_with_workers_restarts_the_reader() {
    let recipe = "recipe: r\nparams: { s: { type: secret } }\nsteps:\n  \
        - name: file\n    file: { path: /etc/own, content: \"token={{ params.s }}\\n\" }\n  \
        - name: unit\n    unit: { name: own.service, content: \"[Service]\\nExecStart=/bin/sleep 4911\\n\" }\n  \
        - name: run\n    service: { name: own.service, state: running }\n    restart_on: [file]\n";
    let files = [("inventory.yaml", INVENTORY), ("recipes/r.yaml", recipe), ("token", "alpha-111")];
    let lab = match Lab::new(Who::all()[0], &files) {
        Ok(lab) => lab,
        Err(why) => return eprintln!("skipped: a sandbox: {why}"),
    };
    let engine = ["--engine", "local", "--workers", "2"];
    let with = |verb: &[&str]| says(&lab, &[verb, &engine[..]].concat());
    let pid = || lab.inside("inventory.yaml", "a", "systemctl show -p MainPID own.service");
    assert!(with(&["apply", "--yes"]).starts_with("exit 0\n"));
    let first = pid();
    assert!(first.trim() != "MainPID=0", "{first}");
    for verb in [&["plan", "--detailed-exitcode"][..], &["drift"], &["plan", "--detailed-exitcode", "-o", "saved.json"]]
    {
        let said = with(verb);
        assert!(said.starts_with("exit 0\n"), "{said}");
    }
    lab.file("token", "bravo-222");
    let rotated = with(&["apply", "--yes"]);
    assert!(rotated.starts_with("exit 0\n"), "{rotated}");
    assert_ne!(pid(), first, "{rotated}");
    let drift = with(&["drift"]);
    assert!(drift.starts_with("exit 0\n"), "{drift}");
    let key = lab.inside("inventory.yaml", "a", "cat /var/lib/forge/key*");
    let found = lab.shell(&format!("grep -rl '{}' state saved.json | grep -v /sandbox; true", key.trim()));
    assert_eq!(found, "", "the key is stored in no file: {key}");
}
