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
use crate::plan::{ObservedHost, Plan};
use crate::view::{InventorySize, sample};
use camino::Utf8Path;
use clap::Parser;
use std::io::{self, Write};
use std::sync::{Arc, Mutex};

/// A backend with fixed answers.
struct FakeBackend {
    plan: Plan,
    report: RunReport,
    broken: bool,
    applied: Mutex<bool>,
    lacking: Vec<ArtifactReport>,
}

impl FakeBackend {
    fn new(plan: Plan) -> Self {
        let host = sample::host_report("node-01", vec![sample::step_report("banner", StepResult::Changed)], vec![]);
        Self {
            plan,
            report: sample::report("apply", vec![host]),
            broken: false,
            applied: Mutex::new(false),
            lacking: Vec::new(),
        }
    }
}

impl Backend for FakeBackend {
    type Project = ();
    type HostObservations = Vec<ObservedHost>;
    type Cancel = ();

    fn load_project(&self, path: &Utf8Path, _: &CliSettings) -> (Option<()>, DiagList, SourceMap) {
        let mut sources = SourceMap::default();
        let file = sources.add_file(path, "hosts: {}\nhots: {}\n");
        let span = crate::diag::Span { file, start: 10, end: 14 };
        let diag =
            Diag::error(DiagCode::UnknownKey, "key `hots` is not known").with_span(span).hint("did you mean `hosts`?");
        match self.broken {
            true => (None, DiagList(vec![diag]), sources),
            false => (Some(()), DiagList::default(), sources),
        }
    }

    fn project<'p>(&self, (): &'p ()) -> &'p crate::config::Project {
        unreachable!("verbs that read a project are tested with the real one")
    }

    fn project_size(&self, (): &()) -> InventorySize {
        InventorySize { hosts: 1, recipes: 2, steps: 3 }
    }

    fn find_past_hosts(&self, (): &(), _: &CliSettings) -> Result<Option<crate::engine::PastHosts>, String> {
        Ok(None)
    }

    fn select_hosts(
        &self,
        (): &(),
        settings: &CliSettings,
        _: Option<&crate::engine::PastHosts>,
    ) -> Result<Vec<HostName>, Box<Diag>> {
        match settings.on.as_deref() {
            Some("nobody") => Err(Box::new(Diag::error(DiagCode::EmptySelector, "selector `nobody` selects no host"))),
            Some("two") => Ok(vec![sample::host("node-01"), sample::host("node-02")]),
            _ => Ok(vec![sample::host("node-01")]),
        }
    }

    fn list_sandboxes(&self, (): &(), _: &CliSettings) -> ProjectSandboxes {
        ProjectSandboxes { root: "/nonexistent".into(), hosts: Vec::new() }
    }

    async fn observe_hosts(
        &self,
        (): &(),
        hosts: &[HostName],
        _: ObservePurpose,
        _: &CliSettings,
        events: VerbEvents,
    ) -> Vec<ObservedHost> {
        let _ = events.send(Event::ObserveStarted { hosts: hosts.len() });
        hosts.iter().map(|host| ObservedHost::from_observation(host, Default::default(), 1)).collect()
    }

    fn build_recording(&self, (): &(), _: &Vec<ObservedHost>) -> Recording {
        Recording::parse(r#"{"version": 1, "forge": "", "origin": "reconstructed", "hosts": []}"#).unwrap()
    }

    fn build_redacted_recording(&self, project: &(), seen: &Vec<ObservedHost>) -> Result<Recording, String> {
        Ok(self.build_recording(project, seen))
    }

    fn plan(&self, (): &(), _: &Vec<ObservedHost>, _: &CliSettings) -> Plan {
        self.plan.clone()
    }

    fn build_saved_plan(
        &self,
        (): &(),
        _: &Vec<ObservedHost>,
        _: (&Plan, &Plan),
        _: Recording,
        _: &CliSettings,
    ) -> crate::engine::SavedPlan {
        unreachable!("saved plans are tested with the real library")
    }

    fn list_changed_inputs(
        &self,
        (): &(),
        _: &crate::engine::SavedPlan,
        _: &Vec<ObservedHost>,
        _: &CliSettings,
    ) -> Vec<String> {
        unreachable!("saved plans are tested with the real library")
    }

    fn bind_saved_plan(
        &self,
        (): &(),
        _: &crate::engine::SavedPlan,
        _: &mut Vec<ObservedHost>,
        _: bool,
        _: &CliSettings,
    ) -> Plan {
        unreachable!("saved plans are tested with the real library")
    }

    fn detect_drift(&self, (): &(), _: &Vec<ObservedHost>, _: &CliSettings) -> DriftReport {
        sample::rich_drift()
    }

    async fn attribute_changes(&self, (): &(), _: &Vec<ObservedHost>, _: &mut DriftReport, _: &CliSettings) {}

    fn plan_notifications(
        &self,
        (): &(),
        _: &DriftReport,
        _: &CliSettings,
    ) -> Result<crate::engine::NoticeQueue, String> {
        Err("these tests send no notifications".to_owned())
    }

    async fn store_findings(&self, (): &(), _: &Vec<ObservedHost>, _: &CliSettings) -> Vec<(HostName, String)> {
        Vec::new()
    }

    fn current_time(&self) -> jiff::Timestamp {
        jiff::Timestamp::UNIX_EPOCH
    }

    fn read_drift_history(
        &self,
        (): &(),
        _: Option<super::history_start::HistoryStart>,
        _: &CliSettings,
    ) -> Result<DriftHistory, String> {
        Err("not found".to_owned())
    }

    fn read_past_durations(&self, (): &(), _: &CliSettings) -> PastDurations {
        PastDurations::default()
    }

    async fn apply(
        &self,
        (): &(),
        _: &Plan,
        _: Vec<ObservedHost>,
        _: &CliSettings,
        _: VerbEvents,
        (): (),
    ) -> RunReport {
        *self.applied.lock().unwrap() = true;
        self.report.clone()
    }

    async fn verify(&self, (): &(), _: Vec<ObservedHost>, _: &CliSettings, _: VerbEvents, (): ()) -> RunReport {
        RunReport { verb: "verify".into(), ..self.report.clone() }
    }

    async fn exec_command(
        &self,
        (): &(),
        hosts: &[HostName],
        command: &ExecCommand,
        _: &CliSettings,
        _: VerbEvents,
        (): (),
    ) -> ExecReport {
        *self.applied.lock().unwrap() = true;
        sample::exec_report(command, hosts)
    }

    fn load_for_tests(&self, path: &Utf8Path, settings: &CliSettings) -> (Option<()>, DiagList, SourceMap) {
        self.load_project(path, settings)
    }

    async fn run_tests(
        &self,
        (): &(),
        _: &str,
        _: &[HostName],
        _: Vec<crate::engine::SkippedHost>,
        _: Option<&str>,
        _: &CliSettings,
        _: VerbEvents,
        (): (),
    ) -> Result<crate::engine::AcceptanceReport, String> {
        unreachable!("tests are tested with the real library")
    }

    async fn set_hold(
        &self,
        (): &(),
        _: &[HostName],
        _: Option<(&str, Option<crate::engine::HoldEnd>)>,
        _: &CliSettings,
        _: VerbEvents,
        (): (),
    ) -> Result<crate::engine::HoldReport, String> {
        unreachable!("holds are tested with the real library")
    }

    async fn read_undo(
        &self,
        (): &(),
        _: &[HostName],
        _: &str,
        _: bool,
        _: &CliSettings,
        _: VerbEvents,
        (): (),
    ) -> crate::engine::GeneratedUndo {
        unreachable!("undo is tested with the real library")
    }

    async fn find_slow_causes(
        &self,
        (): &(),
        _: &[HostName],
        _: Option<(&str, &str)>,
        _: std::time::Duration,
        _: &CliSettings,
        _: VerbEvents,
    ) -> Result<crate::engine::SlowDiagnosis, String> {
        unreachable!("the diagnosis is tested with the real library")
    }

    async fn check_hosts(&self, (): &(), hosts: &[HostName], _: bool, _: &CliSettings, _: VerbEvents) -> DoctorReport {
        sample::full_disk_checkup(hosts)
    }

    fn load_for_digests(&self, path: &Utf8Path, settings: &CliSettings) -> (Option<()>, DiagList, SourceMap) {
        self.load_project(path, settings)
    }

    async fn fetch_artifacts(
        &self,
        (): &(),
        _: &[HostName],
        _: bool,
        _: &CliSettings,
        _: VerbEvents,
    ) -> Result<FetchReport, String> {
        Err("the lock file cannot be written".to_owned())
    }

    async fn fetch_plan_artifacts(
        &self,
        (): &(),
        _: &Plan,
        _: &Vec<ObservedHost>,
        _: &CliSettings,
        _: VerbEvents,
    ) -> Vec<ArtifactReport> {
        self.lacking.clone()
    }

    fn request_stop(&self, (): &()) {}
}

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
    unknown.facts.0.insert("gpus".into(), Err(UnansweredReason::new("timed out after 10 s")));
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
