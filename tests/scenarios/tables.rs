//! Tables of cases that forge must evaluate correctly without hardware; each row refers to the test that proves it:
//! recordings of hosts (`fixtures.yaml`), mistakes in manuals (`mistakes.yaml`), compatibility rules (`rules.yaml`),
//! and a bare and a converged host of every built-in recipe. All files are in `tests/recipes`.

use super::recipes::{again, cases, mistakes, read, root, yaml};
use camino::Utf8Path;
use forge::config::builtin_data;
use serde_json::Value;

fn rows(file: &str, key: &str) -> Vec<Value> {
    yaml(&root().join(file))[key].as_array().unwrap_or_else(|| panic!("{file}: no `{key}`")).clone()
}

fn text<'v>(row: &'v Value, key: &str) -> Option<&'v str> {
    row[key].as_str()
}

/// Fails unless the rows are numbered consecutively from 1 to `last`.
#[track_caller]
fn numbered(rows: &[Value], last: u64) {
    let found: Vec<u64> = rows.iter().filter_map(|row| row["number"].as_u64()).collect();
    assert_eq!(found, (1..=last).collect::<Vec<_>>());
}

#[track_caller]
fn nothing(wrong: &[String]) {
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Returns the expected verdicts of a case, of steps and verifications.
fn verdicts(case: &Value) -> Vec<&str> {
    let named = ["steps", "verify"].into_iter().filter_map(|key| case[key].as_object());
    let mut found: Vec<&str> = named.flat_map(|map| map.values()).filter_map(Value::as_str).collect();
    found.extend(case["refused"].as_array().filter(|parts| !parts.is_empty()).map(|_| "refused"));
    found
}

/// Recorded and reconstructed answers of hosts give the expected verdicts.
#[test]
fn fixtures_give_the_expected_verdicts() {
    let rows = rows("fixtures.yaml", "fixtures");
    numbered(&rows, 22);
    let told = |row: &Value, why: String| format!("{}: {why}", text(row, "fixture").unwrap());
    let wrong: Vec<String> =
        rows.iter().flat_map(|row| fixture(row).into_iter().map(move |why| told(row, why))).collect();
    nothing(&wrong);
}

/// Returns the problems of a fixture. It has a recipe's verdict, facts that are read from it, or tests next to the
/// parsers; or it is open, with a reason.
fn fixture(row: &Value) -> Vec<String> {
    let mut wrong = Vec::new();
    let verdict = text(row, "verdict").unwrap_or("none");
    if !matches!(text(row, "origin"), Some("field" | "source" | "reconstructed")) {
        wrong.push("no `origin`".to_owned());
    }
    let ways = ["judged", "reads", "tests", "open"].map(|key| row.get(key).is_some());
    if !ways.contains(&true) || (ways[3] && ways[..3].contains(&true)) {
        wrong.push("needs either `open`, or `judged`, `reads` or `tests`".to_owned());
    }
    let judged = row["judged"].as_array().into_iter().flatten();
    judged.for_each(|case| wrong.extend(judge(case, verdict)));
    row["reads"].as_array().into_iter().flatten().for_each(|row| wrong.extend(reads(row)));
    row["tests"].as_array().into_iter().flatten().for_each(|test| wrong.extend(untested(test.as_str().unwrap())));
    wrong
}

/// Returns the problems of a recipe's case in the fixture itself. At least one verdict must be that of the fixture.
fn judge(case: &Value, verdict: &str) -> Vec<String> {
    let mut wrong = mistakes(text(case, "recipe").unwrap(), case);
    let own = text(case, "verdict").unwrap_or(verdict);
    if !verdicts(case).contains(&own) {
        wrong.push(format!("the case has no verdict `{own}`"));
    }
    wrong
}

/// Compares the values that a fact's parser reads from a host's output, by JSON pointer.
fn reads(row: &Value) -> Vec<String> {
    let value = read(text(row, "fact").unwrap(), text(row, "printed").unwrap());
    let gives = row["gives"].as_object().filter(|gives| !gives.is_empty()).expect("`gives` has a value");
    let other = gives.iter().filter(|(at, expected)| value.pointer(at) != Some(expected));
    other.map(|(at, expected)| format!("`{at}` is {:?}, not {expected}", value.pointer(at))).collect()
}

/// Returns a problem if a test does not exist: a test of the library, such as
/// `src/facts/command/dkms.rs both_forms_are_read`, or a file that is a test by itself.
fn untested(test: &str) -> Option<String> {
    let (file, name) = test.split_once(' ').unwrap_or((test, ""));
    let text = std::fs::read_to_string(Utf8Path::new(env!("CARGO_MANIFEST_DIR")).join(file)).unwrap_or_default();
    let is_there = match name {
        "" => file.ends_with(".json") && !text.is_empty(),
        name => ["    ", ""].iter().any(|indent| text.contains(&format!("#[test]\n{indent}fn {name}()"))),
    };
    (!is_there).then(|| format!("no test `{test}`"))
}

/// Mistakes in manuals: for each mistake, cases show that forge does not make it, or the table says why it is not shown
/// yet, or why only a human can make it.
#[test]
fn manual_mistakes_are_covered_by_cases() {
    let rows = rows("mistakes.yaml", "mistakes");
    numbered(&rows, 40);
    let mut wrong = Vec::new();
    for row in &rows {
        assert!(row["manual"].is_string(), "{row}");
        let said = ["open", "human"].into_iter().filter_map(|key| text(row, key)).count();
        match row["shown"].as_array().filter(|shown| !shown.is_empty()) {
            Some(shown) if said == 0 => wrong.extend(shown.iter().filter_map(missing)),
            None if said == 1 => {}
            _ => wrong.push(format!("needs exactly one of `shown`, `open`, `human`: {row}")),
        }
    }
    nothing(&wrong);
}

/// Returns a problem if a case does not exist: `{ recipe: NAME, case: NAME }`, or a test as in fixtures.
fn missing(shown: &Value) -> Option<String> {
    if let Some(test) = text(shown, "test") {
        return untested(test);
    }
    let recipe = text(shown, "recipe").unwrap_or_else(|| panic!("{shown}"));
    cases(recipe).iter().all(|case| case["name"] != shown["case"]).then(|| format!("no case {shown}"))
}

/// The compatibility rules: each has cases that show which check reports it, and when. `validate` refuses a rule
/// without facts that fails, a failed rule with facts blocks the host; both have their own message, with the place in
/// the inventory.
#[test]
fn compatibility_rules_are_enforced() {
    let rows = rows("rules.yaml", "rules");
    numbered(&rows, 18);
    let mut wrong = Vec::new();
    for row in &rows {
        assert!(row["rule"].is_string(), "{row}");
        let kept = row["kept"].as_array().into_iter().flatten();
        let count = kept.clone().count();
        wrong.extend(kept.flat_map(keeps).map(|why| format!("rule {}: {why}", row["number"])));
        let mut kept = row["kept"].as_array().into_iter().flatten();
        if !kept.any(|kept| matches!(text(kept, "by"), Some("validate" | "host"))) {
            wrong.push(format!("rule {}: no case is refused", row["number"]));
        }
        if (count == 0) != row["open"].is_string() {
            wrong.push(format!("needs either `kept` or `open`: {row}"));
        }
    }
    nothing(&wrong);
}

/// Compares a row with its case: `by` says whether `validate` refuses it, the host is blocked, forge only warns, plans
/// something else, or reports unknown.
fn keeps(kept: &Value) -> Vec<String> {
    if let Some(why) = missing(kept) {
        return vec![why];
    }
    if kept["test"].is_string() {
        return Vec::new();
    }
    let case = cases(text(kept, "recipe").unwrap()).into_iter().find(|case| case["name"] == kept["case"]).unwrap();
    let verdicts = verdicts(&case);
    let shows = match text(kept, "by") {
        Some("validate") => verdicts == ["refused"],
        Some("host") => verdicts.contains(&"blocked") && case["says"].is_array(),
        Some("warning") => case["warns"].is_array(),
        Some("unknown") => verdicts.contains(&"unknown"),
        Some("plan") => verdicts.iter().any(|verdict| ["ok", "change", "not-applicable"].contains(verdict)),
        other => panic!("`by: {other:?}` of {kept}"),
    };
    if shows { Vec::new() } else { vec![format!("the case does not show it: {kept}")] }
}

/// The freshly installed hosts in `tests/recipes/hosts`.
const BARE: [&str; 3] = ["debian", "h100-bare", "rhel"];

/// A bare host has changes and, after they are applied, no more; a converged host has no changes from the start. Both
/// are planned for every built-in recipe.
#[test]
fn every_recipe_has_bare_and_converged_host_cases() {
    let mut wrong = Vec::new();
    for (recipe, _) in builtin_data::BUILTIN_RECIPES {
        let cases = cases(recipe);
        let changes = |case: &Value| verdicts(case).contains(&"change") && case["settled"] != true;
        let bare = |case: &&Value| BARE.iter().any(|host| case["host"] == **host) && changes(case);
        match cases.iter().find(bare) {
            None => wrong.push(format!("{recipe}: no case of a bare host with changes")),
            Some(case) => {
                wrong.extend(again(recipe, case).iter().map(|left| format!("{recipe}: applied again: {left}")))
            }
        }
        let left =
            |case: &Value| ["change", "blocked", "unknown"].iter().any(|verdict| verdicts(case).contains(verdict));
        if !cases.iter().any(|case| case["settled"] == true && !left(case)) {
            wrong.push(format!("{recipe}: no case of a converged host"));
        }
    }
    nothing(&wrong);
}

/// A stack is removed as a whole: each command of its recipes says what undoes it, or that nothing has to.
#[test]
fn every_recipe_of_the_stacks_of_servers_can_be_removed() {
    let recipe = |name: &str| yaml(&root().join(format!("../../recipes/{name}.yaml")));
    let mut wrong = Vec::new();
    for stack in ["h100-node", "roce-node", "nvlink5-node"] {
        for used in recipe(stack)["uses"].as_array().unwrap() {
            let name = text(used, "recipe").unwrap();
            let steps = recipe(name)["steps"].as_array().cloned().unwrap_or_default();
            let stuck = |step: &Value| {
                step["command"].is_object() && step["command"]["remove"].is_null() && step["keep"] != true
            };
            let names = steps.iter().filter(|step| stuck(step)).filter_map(|step| text(step, "name"));
            wrong.extend(names.map(|step| format!("{stack}: {name}/{step} has neither `remove` nor `keep`")));
        }
    }
    nothing(&wrong);
}
