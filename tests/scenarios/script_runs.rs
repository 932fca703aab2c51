//! The scripts of command steps, run with stubs in place of programs: `runs` of a case in `tests/recipes`. A run has
//! `step`, `programs` (name to the body of a stub, whose calls are recorded), `answers` (name to the body of a stub that
//! only prints what the host would), and the expected `ends` (exit status), `calls` (every recorded call, in order) and
//! `prints` (a part of the output). A program that is neither a stub nor a plain text tool does not exist for the script.

use super::script_host::ScriptHost;
use serde_json::Value;

/// Returns the differences between what a script does and what the run expects.
pub fn check_run(run: &Value, script: &str) -> Vec<String> {
    let host = ScriptHost::with_text_tools();
    let bodies = |key: &str| run[key].as_object().cloned().unwrap_or_default();
    bodies("programs").iter().for_each(|(name, body)| host.add_recorded_program(name, body.as_str().unwrap()));
    bodies("answers").iter().for_each(|(name, body)| host.add_program(name, body.as_str().unwrap()));
    let ran = host.run(script);
    let said = format!("{}{}", ran.stdout, ran.stderr);
    let expected: Vec<&str> = run["calls"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    let mut wrong = Vec::new();
    if host.calls() != expected {
        wrong.push(format!("`{}` called {:?}, not {expected:?}", run["step"], host.calls()));
    }
    if ran.status.map(i64::from) != run["ends"].as_i64() {
        wrong.push(format!("`{}` ends with {:?}, not {}: {said}", run["step"], ran.status, run["ends"]));
    }
    let part = run["prints"].as_str().unwrap_or_default();
    if !said.contains(part) {
        wrong.push(format!("`{}` does not print `{part}`: {said}", run["step"]));
    }
    wrong
}
