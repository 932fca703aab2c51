//! The scripts of command steps, run with stubs in place of programs: `runs` of a case in `tests/recipes`. A run has
//! `step`, `programs` (name to the body of a stub, whose calls are recorded), `answers` (name to the body of a stub that
//! only prints what the host would), and the expected `ends` (exit status), `calls` (every recorded call, in order) and
//! `prints` (a part of the output). A program that is neither a stub nor a plain text tool does not exist for the script.

use serde_json::Value;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::{Command, Stdio};

/// Tools that change nothing.
const TEXT_TOOLS: [&str; 12] = ["sh", "cat", "cut", "tr", "grep", "sed", "sort", "uniq", "head", "tail", "awk", "find"];

/// Returns the differences between what the script `apply` does and what the run expects.
pub fn check_run(run: &Value, script: &str) -> Vec<String> {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("calls.log");
    std::fs::write(&log, "").unwrap();
    let programs = folder.path().join("bin");
    std::fs::create_dir(&programs).unwrap();
    let bodies = |key: &str| run[key].as_object().cloned().unwrap_or_default();
    for (name, body) in bodies("programs") {
        let call = format!("printf '%s\\n' \"{name} $*\" >>'{}'", log.display());
        write_stub(&programs.join(&name), &format!("{call}\n{}", body.as_str().unwrap()));
    }
    for (name, body) in bodies("answers") {
        write_stub(&programs.join(&name), body.as_str().unwrap());
    }
    for tool in TEXT_TOOLS.iter().filter(|tool| !programs.join(tool).exists()) {
        let real = ["/usr/bin", "/bin"].iter().map(|folder| Path::new(folder).join(tool)).find(|path| path.exists());
        symlink(real.unwrap_or_else(|| panic!("no `{tool}`")), programs.join(tool)).unwrap();
    }
    let mut command = Command::new("/bin/sh");
    command.env_clear().env("PATH", &programs).current_dir(folder.path()).stdin(Stdio::null());
    let output = command.arg("-c").arg(script).output().unwrap();
    let said = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let called = std::fs::read_to_string(&log).unwrap();
    let expected: Vec<&str> = run["calls"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    let mut wrong = Vec::new();
    if called.lines().collect::<Vec<_>>() != expected {
        wrong.push(format!("`{}` called {:?}, not {expected:?}", run["step"], called.lines().collect::<Vec<_>>()));
    }
    if output.status.code().map(i64::from) != run["ends"].as_i64() {
        wrong.push(format!("`{}` ends with {}, not {}: {said}", run["step"], output.status, run["ends"]));
    }
    let part = run["prints"].as_str().unwrap_or_default();
    if !said.contains(part) {
        wrong.push(format!("`{}` does not print `{part}`: {said}", run["step"]));
    }
    wrong
}

fn write_stub(path: &Path, body: &str) {
    std::fs::write(path, format!("#!/bin/sh\n{body}\n")).unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
}
