//! The CI files that ship with forge: they have the documented restrictions, and their scripts run.

use super::support::Place;
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Stdio};

fn file(name: &str) -> (String, Value) {
    let text = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy/ci").join(name)).unwrap();
    let value = serde_saphyr::from_str(&text).unwrap();
    (text, value)
}

/// Returns the script of a workflow's step, by the step's name.
fn step(file: &Value, job: &str, name: &str) -> String {
    let steps = file["jobs"][job]["steps"].as_array().unwrap();
    let step = steps.iter().find(|step| step["name"] == name).unwrap_or_else(|| panic!("{job}/{name}"));
    step["run"].as_str().unwrap().to_owned()
}

/// Returns the script lines of a pipeline's job, except downloads with `curl`.
fn script(file: &Value, job: &str) -> String {
    let lines = file[job]["script"].as_array().unwrap().iter();
    lines.map(|line| line.as_str().unwrap()).filter(|line| !line.contains("curl")).collect::<Vec<_>>().join("\n")
}

fn forge_lines(script: &str) -> Vec<&str> {
    script.lines().map(str::trim).filter(|line| line.starts_with("forge ")).collect()
}

#[test]
fn pull_request_jobs_contact_no_host_and_get_no_secrets() {
    let (text, review) = file("github/forge-review.yml");
    assert!(!text.contains("secrets.") && !text.contains("pull_request_target") && !text.contains(": write"), "{text}");
    assert!(
        text.contains("\non: pull_request\n") && text.contains("\npermissions:\n  contents: read\n  actions: read\n")
    );
    let (_, gitlab) = file("gitlab/.gitlab-ci.yml");
    for script in [step(&review, "review", "plan"), script(&gitlab, "forge review")] {
        let lines = forge_lines(&script);
        assert!(lines.len() == 1 && lines[0].contains(" --observed ") && !lines[0].contains("--trust"), "{lines:?}");
    }
    let merge = r#"$CI_PIPELINE_SOURCE == "merge_request_event""#;
    assert_eq!(gitlab["forge review"]["rules"], serde_json::json!([{ "if": merge }]));
}

#[test]
fn jobs_that_contact_hosts_run_on_protected_refs() {
    for (name, jobs) in [("github/forge-observe.yml", &["observe"][..]), ("github/forge-apply.yml", &["plan", "apply"])]
    {
        let (text, workflow) = file(name);
        assert!(!text.contains("pull_request"), "{name}");
        for job in jobs {
            let job = &workflow["jobs"][*job];
            assert!(job["environment"].is_string() && job["runs-on"][0] == "self-hosted", "{name}: {job}");
            assert!(job["if"] == "github.ref == 'refs/heads/main'" || job["needs"] == "plan", "{name}: {job}");
        }
    }
    let (_, gitlab) = file("gitlab/.gitlab-ci.yml");
    for job in ["forge observe", "forge plan", "forge apply"] {
        let rule = gitlab[job]["rules"][0]["if"].as_str().unwrap();
        assert!(rule.starts_with(r#"$CI_COMMIT_REF_PROTECTED == "true" && "#), "{job}: {rule}");
    }
}

#[test]
fn comment_workflow_runs_no_pull_request_code() {
    let (text, comment) = file("github/forge-comment.yml");
    assert!(!text.contains("uses: actions/checkout") && text.contains("workflow_run"), "{text}");
    let steps = comment["jobs"]["comment"]["steps"].as_array().unwrap();
    assert!(steps.iter().all(|step| step.get("run").is_none()), "{text}");
}

const SEEN: &str = r#"{"version": 1, "forge": "0.1.0", "origin": "reconstructed", "hosts": [{"host": "a", "reach": "observed", "answers": []}]}"#;

fn place() -> Place {
    Place::new()
        .file(
            "inventory.yaml",
            "cluster: c\nhosts: { a: { address: 127.0.0.1, connect: { port: 1 } } }\napply: [{ recipe: r, on: all }]\n",
        )
        .file("recipes/r.yaml", "recipe: r\nsteps:\n  - name: x\n    file: { path: /etc/x, content: hello }\n")
        .file("observed.json", SEEN)
        .file("tmp/observed/observed.json", SEEN)
}

/// Runs a script like a runner does. Returns its exit code and its output.
fn run(place: &Place, script: &str) -> (i32, String) {
    let bin = Path::new(env!("CARGO_BIN_EXE_forge")).parent().unwrap().display().to_string();
    let at = |name: &str| place.path().join(name);
    let mut command = Command::new("bash");
    command.args(["-eo", "pipefail", "-c", script]).current_dir(place.path()).stdin(Stdio::null()).env_clear();
    command.env("PATH", format!("{bin}:{}", std::env::var("PATH").unwrap())).env("RUNNER_TEMP", at("tmp"));
    command.env("GITHUB_STEP_SUMMARY", at("summary.md")).env("GITHUB_OUTPUT", at("output"));
    let output = command.output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    (output.status.code().unwrap(), format!("{}{}", text(&output.stdout), text(&output.stderr)))
}

#[test]
fn review_script_writes_the_plan_comment() {
    let (_, review) = file("github/forge-review.yml");
    let (_, gitlab) = file("gitlab/.gitlab-ci.yml");
    for script in [step(&review, "review", "plan"), script(&gitlab, "forge review")] {
        let place = place();
        let (code, said) = run(&place, &script);
        assert_eq!(code, 0, "{said}");
        let first = "### forge plan: no changes on 1 host, 1 unknown (?): ` r/x ` on ` a `\n";
        assert!(place.read("plan.md").starts_with(first), "{}", place.read("plan.md"));
        let broken = place.file("inventory.yaml", "cluster: c\nhots: {}\n");
        assert_eq!(run(&broken, &script).0, 65, "an invalid inventory fails the check");
    }
}

#[test]
fn protected_ref_scripts_save_and_apply_a_plan() {
    let (_, observe) = file("github/forge-observe.yml");
    let (_, apply) = file("github/forge-apply.yml");
    let (_, gitlab) = file("gitlab/.gitlab-ci.yml");
    for script in [step(&observe, "observe", "ask"), script(&gitlab, "forge observe")] {
        let place = place();
        let (code, said) = run(&place, &script);
        assert!(code == 0 && place.read("observed.json").contains("unreachable"), "{said}");
    }
    for (plan, carry) in [
        (step(&apply, "plan", "plan"), step(&apply, "apply", "apply")),
        (script(&gitlab, "forge plan"), script(&gitlab, "forge apply")),
    ] {
        let place = place();
        let (code, said) = run(&place, &plan);
        assert_eq!(code, 0, "{said}");
        let (code, said) = run(&place, &carry);
        assert_eq!(code, 4, "the host does not answer: {said}");
    }
}
