//! The JSON document of every verb, from the real binary and simulated hosts, matches the schema printed by
//! `forge schema document`.

use super::host::{Lab, Who};
use super::{ONE, RECIPE};
use jsonschema::Validator;
use serde_json::Value;
use std::collections::BTreeSet;

/// Returns the `result` of a document. Fails if the document does not match the schema.
fn result(lab: &Lab, schema: &Validator, arguments: &[&str]) -> String {
    lab.shell("rm -f document.json");
    let told = lab.forge(&[&["--json-into", "document.json"], arguments].concat());
    let document: Value =
        serde_json::from_str(&lab.shell("cat document.json")).unwrap_or_else(|_| panic!("{arguments:?}: {told}"));
    let mistakes: Vec<String> = schema.iter_errors(&document).map(|e| format!("{}: {e}", e.instance_path())).collect();
    assert!(mistakes.is_empty(), "{arguments:?}:\n{}\n{document:#}", mistakes.join("\n"));
    document["result"].as_str().expect("every document has `result`").to_owned()
}

#[test]
fn json_documents_of_every_verb_match_their_schema() {
    let who = Who::all().into_iter().next().expect("at least one user");
    let lab = match Lab::new(who, &[("inventory.yaml", ONE), ("recipes/r.yaml", RECIPE)]) {
        Ok(lab) => lab,
        Err(why) => return eprintln!("skipped: a sandbox as {who:?}: {why}"),
    };
    let schema = lab.forge(&["schema", "document"]);
    let schema: Value = serde_json::from_str(schema.strip_prefix("exit 0\n").expect("the schema")).unwrap();
    let results: BTreeSet<String> = schema["oneOf"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["properties"]["result"]["const"].as_str().unwrap().to_owned())
        .collect();
    let schema = jsonschema::validator_for(&schema).unwrap();
    lab.file("inventory.yaml", &format!("{ONE}groups: {{ all: {{ vars: {{ x: 1 }} }} }}\n"));
    lab.file("bad.yaml", "cluster: lab\nhosts: [a]\napply: [{ recipe: none, on: all }]\n");
    lab.file("files/x", "x");
    lab.file("fetched.yaml", &ONE.replace("recipe: r,", "recipe: fetched,"));
    lab.file(
        "recipes/fetched.yaml",
        "recipe: fetched\nsteps: [{ name: x, artifact: { path: /opt/x, file: ../files/x } }]\n",
    );
    // Without changes, the machine makes no view: a user could not make one.
    lab.file("local.yaml", "cluster: lab\nconnect: { transport: local }\nhosts: [a]\napply: []\n");
    let mut seen = BTreeSet::new();
    for arguments in [
        vec!["init", "--into", "new.yaml", "a"],
        vec!["validate"],
        vec!["validate", "bad.yaml"],
        vec!["plan", "bad.yaml"],
        vec!["doctor"],
        vec!["rehearse", "local.yaml", "--on", "a"],
        vec!["plan"],
        vec!["plan", "--images"],
        vec!["apply", "--yes"],
        vec!["verify"],
        vec!["drift"],
        vec!["drift", "--history"],
        vec!["facts"],
        vec!["facts", "--outliers"],
        vec!["fetch", "fetched.yaml"],
        vec!["exec", "all", "--yes", "--", "true"],
        vec!["test", "--set", "quick", "--yes"],
        vec!["hold", "a", "--why", "a test"],
        vec!["release", "a"],
        vec!["why-slow", "--seconds", "1"],
        vec!["graph"],
        vec!["recipes"],
        vec!["recipes", "nvidia-driver"],
        vec!["explain", "vars.x"],
        vec!["explain", "r/f"],
        vec!["explain", "F0301"],
        vec!["explain", "file"],
        vec!["runs"],
        vec!["show", "last"],
        vec!["sandbox", "list"],
    ] {
        seen.insert(result(&lab, &schema, &arguments));
    }
    lab.inside("inventory.yaml", "a", "rm /etc/lab");
    seen.insert(result(&lab, &schema, &["apply", "--yes"]));
    seen.insert(result(&lab, &schema, &["runs"]));
    let listed: Value = serde_json::from_str(&lab.shell("cat document.json")).unwrap();
    // Runs of tests are listed too, and have no such record.
    let runs = listed["runs"].as_array().unwrap().iter();
    let names: Vec<&str> = runs.filter_map(|entry| entry["run"]["info"]["run"].as_str()).collect();
    seen.insert(result(&lab, &schema, &["runs", "--compare", names[1], names[0]]));
    lab.inside("inventory.yaml", "a", "echo moved >/etc/lab");
    seen.insert(result(&lab, &schema, &["undo", "last", "--dry-run"]));
    seen.insert(result(&lab, &schema, &["sandbox", "reset"]));
    assert_eq!(seen, results, "this test runs a verb for every result of the schema");
    lab.nothing_is_left();
}
