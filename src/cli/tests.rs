//! Whole verbs against a fake backend: exit code, stdout and stderr in one text.

use super::args::Cli;
use super::backend::{Backend, ObservePurpose, ProjectSandboxes, VerbEvents};
use super::console::{Console, ConsoleStream};
use super::*;
use crate::diag::{Diag, DiagCode, DiagList, SourceMap};
use crate::drift::{DriftHistory, DriftReport};
use crate::engine::{
    ArtifactFetchState, ArtifactReport, DoctorReport, Event, ExecCommand, ExecReport, FetchReport, PastDurations,
    Recording, RunReport, StepResult,
};
use crate::model::{HostName, HostOutcome};
use crate::plan::{ObservedHost, Plan, RehearsalReport};
use crate::view::{InventorySize, sample};
use camino::Utf8Path;
use clap::Parser;
use std::io::{self, Write};
use std::sync::{Arc, Mutex};

mod fake_backend;
use fake_backend::FakeBackend;

/// Both streams in one text, each part with the stream it went to.
#[derive(Clone, Default)]
struct Transcript(Arc<Mutex<Vec<(&'static str, String)>>>);

struct TranscriptStream(Transcript, &'static str);

impl Write for TranscriptStream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let text = anstream::adapter::strip_str(std::str::from_utf8(bytes).unwrap()).to_string();
        let mut said = self.0.0.lock().unwrap();
        match said.last_mut() {
            Some((side, last)) if *side == self.1 => last.push_str(&text),
            _ => said.push((self.1, text)),
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Transcript {
    fn open_stream(&self, side: &'static str) -> Box<dyn Fn() -> ConsoleStream> {
        let transcript = self.clone();
        Box::new(move || Box::new(TranscriptStream(transcript.clone(), side)))
    }

    fn to_text(&self) -> String {
        let said = self.0.lock().unwrap();
        said.iter()
            .map(|(side, text)| format!("--- {side}\n{text}{}", if text.ends_with('\n') { "" } else { "\n" }))
            .collect()
    }
}

/// Runs a verb; `answer` is the user's input, `None` without a terminal.
fn run_forge(fake: &FakeBackend, arguments: &[&str], answer: Option<&'static str>) -> (u8, String) {
    let cli = Cli::parse_from(["forge"].iter().chain(arguments));
    let environment = CliEnvironment::default();
    let settings = CliSettings::new(&cli.global, &environment);
    let transcript = Transcript::default();
    let console = Console {
        out: transcript.open_stream("stdout"),
        err: transcript.open_stream("stderr"),
        answer: Arc::new(move || Ok(answer.unwrap_or_default().to_owned())),
        can_ask: answer.is_some(),
        live: false,
        live_colour: false,
    };
    let cx = VerbContext {
        backend: fake,
        console: &console,
        typed: &cli.global,
        environment: &environment,
        settings: &settings,
    };
    let exit = finish_verb(&cx, run_verb(&cx, &cli.verb));
    (exit.code(), transcript.to_text())
}

fn changing_backend() -> FakeBackend {
    FakeBackend::new(sample::plan(vec![sample::observed_host(
        "node-01",
        vec![sample::nginx_step(), sample::unchanged_step("hosts")],
    )]))
}

fn unchanged_backend() -> FakeBackend {
    let fake =
        FakeBackend::new(sample::plan(vec![sample::observed_host("node-01", vec![sample::unchanged_step("hosts")])]));
    let ok = StepResult::AlreadyOk { reason: sample::untrusted_text("as declared") };
    let host = sample::host_report("node-01", vec![sample::step_report("hosts", ok)], vec![]);
    FakeBackend { report: sample::report("apply", vec![host]), ..fake }
}

#[test]
fn plan_names_the_next_command() {
    let (exit, said) = run_forge(&changing_backend(), &["plan", "c.yaml", "--on", "node-01", "-q"], None);
    assert_eq!(exit, 0);
    insta::assert_snapshot!(said);
}

#[test]
fn detailed_exitcode_is_2_if_the_plan_has_changes() {
    assert_eq!(run_forge(&changing_backend(), &["plan", "c.yaml", "--detailed-exitcode"], None).0, 2);
    assert_eq!(run_forge(&unchanged_backend(), &["plan", "c.yaml", "--detailed-exitcode"], None).0, 0);
}

#[test]
fn dry_run_plans_without_confirmation() {
    let fake = changing_backend();
    let (exit, said) = run_forge(&fake, &["apply", "c.yaml", "--dry-run", "-q"], None);
    assert_eq!((exit, *fake.applied.lock().unwrap()), (0, false));
    assert!(said.ends_with("next: forge apply c.yaml\n"), "{said}");
}

#[test]
fn apply_continues_after_confirmation() {
    let fake = changing_backend();
    let (exit, said) = run_forge(&fake, &["apply", "c.yaml", "-q"], Some("y\n"));
    assert_eq!((exit, *fake.applied.lock().unwrap()), (0, true));
    insta::assert_snapshot!(said);
}

#[test]
fn apply_changes_no_host_if_an_artifact_is_unavailable() {
    let had = ArtifactFetchState::Failed {
        why: "`https://h/x.run` cannot be fetched: no".into(),
        hint: Some("try later".into()),
    };
    let (steps, hosts) = (vec![crate::model::StepId::new("driver", "file")], vec![sample::host("node-01")]);
    let line = ArtifactReport { name: "https://h/x.run".to_owned(), steps, hosts, had, computed: None };
    let fake = FakeBackend { lacking: vec![line], ..changing_backend() };
    let (code, text) = run_forge(&fake, &["apply", "x.yaml", "--yes"], None);
    assert_eq!(code, 69, "{text}");
    let told = "error: 1 artifact unavailable; nothing was changed
  note: `https://h/x.run` cannot be fetched: no; needed by `driver/file` on 1 host
  hint: try later";
    assert!(text.contains(told), "{text}");
    assert!(!*fake.applied.lock().unwrap());
}

#[test]
fn apply_changes_nothing_without_confirmation() {
    for answer in ["", "\n", "n\n"] {
        let fake = changing_backend();
        let (exit, said) = run_forge(&fake, &["apply", "c.yaml", "-q"], Some(answer));
        assert_eq!((exit, *fake.applied.lock().unwrap()), (130, false));
        assert!(said.ends_with("error: not applied; nothing was changed\n"), "{said}");
        // forge ends the line of the prompt if the answer did not.
        assert_eq!(said.contains("[y/N] \nerror"), answer.is_empty(), "{said}");
    }
}

#[test]
fn apply_without_changes_prints_one_line_and_does_not_ask() {
    let (exit, said) = run_forge(&unchanged_backend(), &["apply", "c.yaml", "-q"], Some(""));
    assert_eq!((exit, said.as_str()), (0, "--- stdout\nno changes: 1 host, 1 step matches\n"));
}

#[test]
fn apply_reports_failed_hosts_even_without_planned_changes() {
    let mut fake = unchanged_backend();
    fake.report.hosts = vec![sample::ended_host_report("node-01", HostOutcome::Locked, "held by root@ci-7")];
    let (exit, said) = run_forge(&fake, &["apply", "c.yaml", "--yes", "-q"], None);
    assert_eq!(exit, 7);
    assert!(said.contains("x locked: held by root@ci-7\n"), "{said}");
}

#[test]
fn json_is_the_only_output_on_stdout() {
    let (exit, said) = run_forge(&changing_backend(), &["apply", "c.yaml", "--yes", "--format", "json", "-q"], None);
    assert_eq!(exit, 0);
    let stdout: String = said.split("--- stdout\n").nth(1).unwrap().to_owned();
    let document: serde_json::Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!(document["result"], "report");
    assert!(said.starts_with("--- stderr\ncluster h100-prod"), "{said}");
}

#[test]
fn json_file_is_written_in_addition_to_the_text() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("out.json");
    let (_, said) = run_forge(
        &unchanged_backend(),
        &["apply", "c.yaml", "--yes", "-q", "--json-into", file.to_str().unwrap()],
        None,
    );
    let document: serde_json::Value = serde_json::from_str(&fs_err::read_to_string(&file).unwrap()).unwrap();
    assert_eq!(document["result"], "report");
    assert_eq!(said, "--- stdout\nno changes: 1 host, 1 step matches\n");
}

#[test]
fn invalid_inventory_contacts_no_host() {
    let fake = FakeBackend { broken: true, ..changing_backend() };
    for verb in ["plan", "verify", "facts"] {
        let (exit, said) = run_forge(&fake, &[verb, "c.yaml"], None);
        assert_eq!(exit, 65);
        assert!(!said.contains("observing"), "{said}");
        assert!(said.ends_with("error: 1 error in `c.yaml`; nothing was contacted\n"), "{said}");
    }
}

#[test]
fn invalid_inventory_is_reported_as_json() {
    let fake = FakeBackend { broken: true, ..changing_backend() };
    let (exit, said) = run_forge(&fake, &["plan", "c.yaml", "--format", "json"], None);
    assert_eq!(exit, 65);
    let stdout = said.split("--- stdout\n").nth(1).unwrap().split("--- stderr").next().unwrap();
    let document: serde_json::Value = serde_json::from_str(stdout).unwrap();
    assert_eq!(document["inventories"][0]["diagnostics"][0]["place"]["line"], 2);
}

#[test]
fn selector_without_matches_is_a_usage_error() {
    let (exit, said) = run_forge(&changing_backend(), &["plan", "c.yaml", "--on", "nobody"], None);
    assert_eq!(exit, 64);
    assert!(said.starts_with("--- stderr\nerror[F0203]: selector `nobody` selects no host"), "{said}");
}

#[test]
fn validate_checks_every_inventory() {
    let (exit, said) = run_forge(&changing_backend(), &["validate", "a.yaml", "b.yaml"], None);
    let line = |file: &str| format!("valid: {file}: 1 host, 2 recipes, 3 steps\n");
    assert_eq!((exit, said), (0, format!("--- stdout\n{}{}", line("a.yaml"), line("b.yaml"))));
    let fake = FakeBackend { broken: true, ..changing_backend() };
    let (exit, said) = run_forge(&fake, &["validate", "a.yaml", "b.yaml"], None);
    assert_eq!(exit, 65);
    assert!(said.ends_with("--- stdout\ninvalid: a.yaml: 1 error\ninvalid: b.yaml: 1 error\n"), "{said}");
}

#[test]
fn progress_goes_to_stderr() {
    let (exit, said) = run_forge(&changing_backend(), &["facts", "c.yaml"], None);
    assert_eq!(exit, 0);
    let (stderr, stdout) = said.split_once("--- stdout\n").unwrap();
    assert!(stderr.ends_with(" observing 1 host\n"), "{said}");
    assert_eq!(stdout, "\nfacts: 1 host\n");
}

#[test]
fn verify_exits_with_the_exit_code_of_the_report() {
    let (exit, said) = run_forge(&changing_backend(), &["verify", "c.yaml", "-q"], None);
    assert_eq!(exit, 0);
    assert!(said.contains("\nverified: 1 host: 1 changed;"), "{said}");
}

#[test]
fn facts_exit_code_reports_only_unreachable_hosts() {
    use crate::probe::UnansweredReason;
    let host = |name: &str| ObservedHost::from_observation(&sample::host(name), Default::default(), 1);
    let mut unknown = host("a");
    unknown.facts.0.insert("gpus", Err(UnansweredReason::new("timed out after 10 s")));
    let why = crate::plan::UnreachableReason::new("no route to host", None);
    let silent = ObservedHost::from_unreachable(&sample::host("b"), why);
    assert_eq!(facts::facts_exit_code(&[host("c")]), ExitCode::Done);
    assert_eq!(facts::facts_exit_code(&[host("c"), unknown.clone()]), ExitCode::Done);
    assert_eq!(facts::facts_exit_code(&[unknown, silent]), ExitCode::Unreachable);
}

#[test]
fn exec_runs_on_one_host_without_asking() {
    let fake = changing_backend();
    let (exit, said) = run_forge(&fake, &["exec", "-i", "c.yaml", "-q", "--", "hostname", "-f"], None);
    assert_eq!((exit, *fake.applied.lock().unwrap()), (0, true));
    assert_eq!(said, "--- stdout\nnode-01: hostname -f\n\ndone: 1 host: 1 ok (0.0 s)\n");
}

#[test]
fn exec_asks_before_more_than_one_host() {
    let arguments = ["exec", "two", "-i", "c.yaml", "-q", "--", "systemctl", "restart", "a b"];
    let fake = changing_backend();
    let (exit, said) = run_forge(&fake, &arguments, Some("y\n"));
    assert_eq!((exit, *fake.applied.lock().unwrap()), (0, true));
    assert!(said.starts_with("--- stderr\nrun `systemctl restart 'a b'` on 2 hosts: node-[01:02]? [y/N] "), "{said}");
    let fake = changing_backend();
    let (exit, said) = run_forge(&fake, &arguments, Some("\n"));
    assert_eq!((exit, *fake.applied.lock().unwrap()), (130, false));
    assert!(said.ends_with("error: not run; nothing was contacted\n"), "{said}");
    let (exit, said) = run_forge(&fake, &arguments, None);
    assert_eq!((exit, *fake.applied.lock().unwrap()), (64, false));
    assert_eq!(
        said,
        "--- stderr\nerror: exec on more than one host (2 hosts) requires confirmation, but there is no terminal\n  \
         hint: pass `--yes` to skip the confirmation, or select one host\n"
    );
}

#[test]
fn doctor_exit_code_reflects_its_findings() {
    let (exit, said) = run_forge(&changing_backend(), &["doctor", "c.yaml", "--on", "two", "-q"], None);
    assert_eq!(exit, 3);
    assert_eq!(
        said,
        "--- stdout\nhosts\n  x room: no room in `/var`\n      hint: free some there\n      = same on 2 hosts: node-[01:02]\n\n\
         doctor: 2 hosts: 2 not ready (0.0 s)\n"
    );
    let (exit, said) = run_forge(&changing_backend(), &["doctor", "c.yaml", "-q", "--format", "json"], None);
    let document: serde_json::Value = serde_json::from_str(said.strip_prefix("--- stdout\n").unwrap()).unwrap();
    assert_eq!((exit, &document["exit"]["name"]), (3, &"hosts_failed".into()));
    assert_eq!(document["doctor"]["hosts"][0]["findings"][0]["weight"], "problem");
}
