//! Tables of what forge must judge rightly without hardware, each row with the place that proves it: recordings of hosts
//! (`fixtures.yaml`), mistakes of manuals (`mistakes.yaml`), rules of compatibility (`rules.yaml`), and a bare and a
//! converged host of every built-in recipe. All lie in `tests/recipes`.

use super::recipes::{again, cases, mistakes, read, root, yaml};
use camino::Utf8Path;
use forge::config::shipped;
use serde_json::Value;

fn rows(file: &str, key: &str) -> Vec<Value> {
    yaml(&root().join(file))[key].as_array().unwrap_or_else(|| panic!("{file}: no `{key}`")).clone()
}

fn text<'v>(row: &'v Value, key: &str) -> Option<&'v str> {
    row[key].as_str()
}

/// Fails where rows are not numbered one after the other, up to `last`.
#[track_caller]
fn numbered(rows: &[Value], last: u64) {
    let found: Vec<u64> = rows.iter().filter_map(|row| row["number"].as_u64()).collect();
    assert_eq!(found, (1..=last).collect::<Vec<_>>());
}

#[track_caller]
fn nothing(wrong: &[String]) {
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Returns the verdicts that a case names, of steps and verifications.
fn verdicts(case: &Value) -> Vec<&str> {
    let named = ["steps", "verify"].into_iter().filter_map(|key| case[key].as_object());
    let mut found: Vec<&str> = named.flat_map(|map| map.values()).filter_map(Value::as_str).collect();
    found.extend(case["refused"].as_array().filter(|parts| !parts.is_empty()).map(|_| "refused"));
    found
}

/// What recorded and rebuilt answers of hosts must be judged as.
#[test]
fn fixtures_are_judged_as_they_must_be() {
    let rows = rows("fixtures.yaml", "fixtures");
    numbered(&rows, 22);
    let told = |row: &Value, why: String| format!("{}: {why}", text(row, "fixture").unwrap());
    let wrong: Vec<String> =
        rows.iter().flat_map(|row| fixture(row).into_iter().map(move |why| told(row, why))).collect();
    nothing(&wrong);
}

/// A fixture is judged by a recipe, read by facts, pinned by tests beside their parsers, or open for a reason.
fn fixture(row: &Value) -> Vec<String> {
    let mut wrong = Vec::new();
    let verdict = text(row, "verdict").unwrap_or("none");
    if !matches!(text(row, "origin"), Some("field" | "source" | "reconstructed")) {
        wrong.push("no `origin`".to_owned());
    }
    let ways = ["judged", "reads", "tests", "open"].map(|key| row.get(key).is_some());
    if !ways.contains(&true) || (ways[3] && ways[..3].contains(&true)) {
        wrong.push("either `open`, or proven by `judged`, `reads` or `tests`".to_owned());
    }
    let judged = row["judged"].as_array().into_iter().flatten();
    judged.for_each(|case| wrong.extend(judge(case, verdict)));
    row["reads"].as_array().into_iter().flatten().for_each(|row| wrong.extend(reads(row)));
    row["tests"].as_array().into_iter().flatten().for_each(|test| wrong.extend(untested(test.as_str().unwrap())));
    wrong
}

/// A case of a recipe that stands in the fixture itself, of which one verdict at least is that of the fixture.
fn judge(case: &Value, verdict: &str) -> Vec<String> {
    let mut wrong = mistakes(text(case, "recipe").unwrap(), case);
    let own = text(case, "verdict").unwrap_or(verdict);
    if !verdicts(case).contains(&own) {
        wrong.push(format!("the case does not name a verdict `{own}`"));
    }
    wrong
}

/// What a fact's parser makes of what a host prints: values by JSON pointer.
fn reads(row: &Value) -> Vec<String> {
    let value = read(text(row, "fact").unwrap(), text(row, "printed").unwrap());
    let gives = row["gives"].as_object().filter(|gives| !gives.is_empty()).expect("`gives` names a value");
    let other = gives.iter().filter(|(at, expected)| value.pointer(at) != Some(expected));
    other.map(|(at, expected)| format!("`{at}` is {:?}, not {expected}", value.pointer(at))).collect()
}

/// A test of the library, `src/facts/command/dkms.rs both_forms_are_read`, or a file that is a test by itself.
fn untested(test: &str) -> Option<String> {
    let (file, name) = test.split_once(' ').unwrap_or((test, ""));
    let text = std::fs::read_to_string(Utf8Path::new(env!("CARGO_MANIFEST_DIR")).join(file)).unwrap_or_default();
    let is_there = match name {
        "" => file.ends_with(".json") && !text.is_empty(),
        name => ["    ", ""].iter().any(|indent| text.contains(&format!("#[test]\n{indent}fn {name}()"))),
    };
    (!is_there).then(|| format!("no test `{test}`"))
}

/// What manuals get wrong: each mistake is shown by cases not to be made here, or it is said who is to show it, or why no
/// tool can make it.
#[test]
fn mistakes_of_manuals_are_not_made() {
    let rows = rows("mistakes.yaml", "mistakes");
    numbered(&rows, 40);
    let mut wrong = Vec::new();
    for row in &rows {
        assert!(row["manual"].is_string(), "{row}");
        let said = ["open", "human"].into_iter().filter_map(|key| text(row, key)).count();
        match row["shown"].as_array().filter(|shown| !shown.is_empty()) {
            Some(shown) if said == 0 => wrong.extend(shown.iter().filter_map(missing)),
            None if said == 1 => {}
            _ => wrong.push(format!("one of `shown`, `open`, `human`: {row}")),
        }
    }
    nothing(&wrong);
}

/// Names a case that does not exist: `{ recipe: NAME, case: NAME }`, or a test as fixtures name it.
fn missing(shown: &Value) -> Option<String> {
    if let Some(test) = text(shown, "test") {
        return untested(test);
    }
    let recipe = text(shown, "recipe").unwrap_or_else(|| panic!("{shown}"));
    cases(recipe).iter().all(|case| case["name"] != shown["case"]).then(|| format!("no case {shown}"))
}

/// The rules of compatibility: each has cases that show who says it, and when. What needs no facts is refused by `validate`,
/// what fails on facts blocks the host; both say it in words of their own, with the place in the inventory.
#[test]
fn rules_are_kept() {
    let rows = rows("rules.yaml", "rules");
    numbered(&rows, 18);
    let mut wrong = Vec::new();
    for row in &rows {
        assert!(row["rule"].is_string(), "{row}");
        let kept = row["kept"].as_array().into_iter().flatten();
        let count = kept.clone().count();
        wrong.extend(kept.flat_map(keeps).map(|why| format!("rule {}: {why}", row["number"])));
        if (count == 0) != row["open"].is_string() {
            wrong.push(format!("either `kept` or `open`: {row}"));
        }
    }
    nothing(&wrong);
}

/// Compares a row with its case: `by` tells whether `validate` refuses, the host is blocked, or it is merely warned, planned
/// otherwise, or left unknown.
fn keeps(kept: &Value) -> Vec<String> {
    if let Some(why) = missing(kept) {
        return vec![why];
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

/// Hosts of `tests/recipes/hosts` as they are installed.
const BARE: [&str; 3] = ["debian", "h100-bare", "rhel"];

/// A bare host has something to do and, applied again, nothing more; a host with all of it has nothing to do at once. Both
/// are planned for every built-in recipe.
#[test]
fn every_recipe_is_planned_on_a_bare_and_on_a_converged_host() {
    let mut wrong = Vec::new();
    for (recipe, _) in shipped::RECIPES {
        let cases = cases(recipe);
        let changes = |case: &Value| verdicts(case).contains(&"change") && case["settled"] != true;
        let bare = |case: &&Value| BARE.iter().any(|host| case["host"] == **host) && changes(case);
        match cases.iter().find(bare) {
            None => wrong.push(format!("{recipe}: no case of a bare host with a change")),
            Some(case) => {
                wrong.extend(again(recipe, case).iter().map(|left| format!("{recipe}: applied again: {left}")))
            }
        }
        let left =
            |case: &Value| ["change", "blocked", "unknown"].iter().any(|verdict| verdicts(case).contains(verdict));
        if !cases.iter().any(|case| case["settled"] == true && !left(case)) {
            wrong.push(format!("{recipe}: no case of a host where nothing is left to do"));
        }
    }
    nothing(&wrong);
}
