//! The backend that calls the real library.

use super::backend::{Backend, ObservePurpose, ProjectSandboxes, SetRequest, VerbEvents};
use super::backend_hosts::{add_cluster_host, list_sandbox_hosts, list_simulated_hosts};
use super::engine_args::refuse_engine_kind;
use super::history_start::HistoryStart;
use super::library_engine::{self, EngineRun};
use super::load_options::build_load_options;
use super::sandbox::find_sandbox_root;
use super::settings::CliSettings;
use crate::artifact::{ArtifactCache, ArtifactFetcher};
use crate::config::{self, Project};
use crate::diag::{Diag, DiagList, SourceMap};
use crate::drift::{DriftHistory, DriftReport};
use crate::engine::{
    self, ArtifactReport, CancelSignal, DoctorReport, Event, ExecCommand, ExecReport, FetchReport, HostKeys,
    JournalEntry, ObservedHosts, PastDurations, Recording, RunOptions, RunReport, SavedPlan, ShardPlan,
};
use crate::kube::ChartAnswers;
use crate::model::HostName;
use crate::plan::{Plan, RehearsalReport};
use crate::state::{RUN_VERSION, RunInfo, RunJournal, StateStore};
use crate::transport;
use crate::view::InventorySize;
use camino::Utf8Path;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// The library, with the state that the whole verb shares.
pub struct LibraryBackend {
    /// The name of this run.
    run: String,
    /// Shared by the whole verb: an artifact is fetched once.
    depot: OnceLock<Arc<ArtifactFetcher>>,
    /// Shared by the whole verb: a chart is rendered once.
    chart_answers: ChartAnswers,
}

/// Returns the ID of a run that begins now: the second, and its 65,536th part. IDs are in the order of the runs, also of
/// several in a second: an undo and a list of runs rely on that. Two controllers that begin within the same 15
/// microseconds would share an ID.
fn make_run_id(now: jiff::Timestamp) -> String {
    let part = i64::from(now.subsec_nanosecond().max(0)) * 65_536 / 1_000_000_000;
    format!("{}-{part:04x}", now.strftime("%Y%m%dT%H%M%S"))
}

impl LibraryBackend {
    pub fn new() -> Self {
        Self { run: make_run_id(read_clock()), depot: OnceLock::new(), chart_answers: ChartAnswers::default() }
    }

    fn engine_options(&self, project: &Project, settings: &CliSettings) -> RunOptions {
        RunOptions {
            parallel: settings.parallel,
            timeout: settings.timeout,
            confined: false,
            filter: settings.filter.clone(),
            policy: settings.policy,
            evict_busy: settings.evict_busy.clone(),
            run: settings.worker.as_ref().map_or(&self.run, |worker| &worker.run).clone(),
            boot_id: read_boot_id(),
            controller: rustix::system::uname().nodename().to_string_lossy().into_owned(),
            user: settings.user.clone().unwrap_or_else(|| format!("uid {}", rustix::process::getuid().as_raw())),
            clock: read_clock,
            control_dir: transport::control_dir(settings.runtime.as_deref()),
            ssh_variables: settings.ssh_variables.clone(),
            sandboxes: find_sandbox_root(&project.inventory, &project.cluster, settings),
            connector: engine::transport_connector(),
            rehearsal: false,
            undo: settings.undo.clone(),
            worker: settings.worker.clone(),
            replay: settings.replay.clone(),
            depot: self.depot.get_or_init(|| open_depot(project, settings)).clone(),
            chart_answers: self.chart_answers.clone(),
        }
    }

    fn run_info(&self, project: &Project, plan: &Plan, settings: &CliSettings) -> RunInfo {
        let options = self.engine_options(project, settings);
        let verb = options.verb_name().to_owned();
        let RunOptions { run, controller, user, .. } = options;
        RunInfo {
            version: RUN_VERSION,
            run,
            verb,
            cluster: project.cluster.clone(),
            inventory: project.inventory.to_string(),
            began: read_clock().to_string(),
            user,
            controller,
            simulated: list_simulated_hosts(project),
            hosts: plan.hosts.iter().map(|host| host.host.clone()).collect(),
            plan_file: settings.plan_file.clone(),
        }
    }

    /// Opens the run's directory. If that fails, the run continues and reports that it has no history.
    fn open_journal(
        &self,
        project: &Project,
        plan: &Plan,
        settings: &CliSettings,
        events: &VerbEvents,
    ) -> Option<RunJournal> {
        let begun = open_store(project, settings).create_run(&self.run);
        match begun.and_then(|run| run.write_json("run.json", &self.run_info(project, plan, settings)).map(|_| run)) {
            Ok(run) => Some(run),
            Err(error) => {
                // The receiver is closed only when the process is about to exit.
                let _ = events.send(Event::NoHistory { why: error.to_string().into() });
                None
            }
        }
    }
}

fn open_store(project: &Project, settings: &CliSettings) -> StateStore {
    StateStore::new(&settings.state_folder(&project.inventory), &project.cluster)
}

fn open_depot(project: &Project, settings: &CliSettings) -> Arc<ArtifactFetcher> {
    let folder = open_store(project, settings).root().join("artifacts");
    Arc::new(ArtifactFetcher::new(ArtifactCache::new(folder), settings.offline))
}

/// Returns the boot id of this machine, if it has one.
fn read_boot_id() -> Option<String> {
    let text = fs_err::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    Some(text.trim().to_owned())
}

#[expect(clippy::disallowed_methods, reason = "the only place that reads the clock and hands it in")]
fn read_clock() -> jiff::Timestamp {
    jiff::Timestamp::now()
}

impl Backend for LibraryBackend {
    type Project = Project;
    type HostObservations = ObservedHosts;
    type Cancel = CancelSignal;

    fn load_project(&self, path: &Utf8Path, settings: &CliSettings) -> (Option<Project>, DiagList, SourceMap) {
        match &settings.undo {
            Some(undo) => config::load_for_undo(path, &undo.recipes, &build_load_options(settings)),
            None => config::load_project(path, &build_load_options(settings)),
        }
    }

    fn project<'p>(&self, project: &'p Project) -> &'p Project {
        project
    }

    fn project_size(&self, project: &Project) -> InventorySize {
        InventorySize::from_project(project)
    }

    fn select_hosts(
        &self,
        project: &Project,
        settings: &CliSettings,
        past: Option<&engine::PastHosts>,
    ) -> Result<Vec<HostName>, Box<Diag>> {
        if let Some(diag) = settings.filter.find_mistake(project) {
            return Err(Box::new(diag));
        }
        match &settings.on {
            Some(selector) => config::select_hosts(project, selector, past.map_or(&[], |past| &past.sets)),
            None => Ok(project.machine_names().cloned().collect()),
        }
    }

    fn find_past_hosts(&self, project: &Project, settings: &CliSettings) -> Result<Option<engine::PastHosts>, String> {
        let state = settings.state_folder(&project.inventory);
        engine::find_past_hosts(&state, &project.cluster, settings.past_run.as_deref())
    }

    fn list_sandboxes(&self, project: &Project, settings: &CliSettings) -> ProjectSandboxes {
        ProjectSandboxes {
            root: find_sandbox_root(&project.inventory, &project.cluster, settings),
            hosts: list_sandbox_hosts(project),
        }
    }

    async fn observe_hosts(
        &self,
        project: &Project,
        hosts: &[HostName],
        ask: ObservePurpose,
        settings: &CliSettings,
        events: VerbEvents,
    ) -> ObservedHosts {
        let options = self.engine_options(project, settings);
        let all = match ask {
            ObservePurpose::Facts => hosts.to_vec(),
            _ => add_cluster_host(project, hosts, settings),
        };
        if let Some(engine) = settings.engine.filter(|_| settings.replay.observed.is_none()) {
            let state = &open_store(project, settings);
            let run = EngineRun { project, options: &options, settings, engine, state, events: &events };
            let began = Instant::now();
            let replay = async |recording| {
                let mut options = options.clone();
                (options.replay.observed, options.replay.keep) = (Some(recording), false);
                observe_for_purpose(project, &all, ask, &options, &events).await
            };
            let (mut observed, recording) = run.observe_hosts(&all, ask, replay).await;
            // Without a saved plan the answers are not needed any more, and those of many hosts are large.
            observed.recorded = (settings.replay.keep || settings.replay.record).then_some(recording);
            observed.took = began.elapsed();
            return observed;
        }
        library_engine::await_left_workers(&open_store(project, settings), settings, ask, &events).await;
        observe_for_purpose(project, &all, ask, &options, &events).await
    }

    fn build_recording(&self, project: &Project, seen: &ObservedHosts) -> Recording {
        Recording::from_observed(project, seen)
    }

    fn list_host_keys(&self, seen: &ObservedHosts) -> HostKeys {
        seen.list_host_keys()
    }

    fn build_redacted_recording(&self, project: &Project, seen: &ObservedHosts) -> Result<Recording, String> {
        let facts = seen.seen.iter().map(|host| &host.facts);
        let redacted = self.build_recording(project, seen).redact_identifiers(facts, &project.list_source_texts());
        redacted.map_err(|error| format!("cannot redact the recording: {error}"))
    }

    fn plan(&self, project: &Project, seen: &ObservedHosts, settings: &CliSettings) -> Plan {
        engine::plan(project, seen, &self.engine_options(project, settings))
    }

    fn build_saved_plan(
        &self,
        project: &Project,
        seen: &ObservedHosts,
        (plan, again): (&Plan, &Plan),
        recording: Recording,
        settings: &CliSettings,
    ) -> SavedPlan {
        let options = self.engine_options(project, settings);
        SavedPlan::new(project, plan.clone(), again, seen, recording, settings.on.as_deref(), &options)
    }

    fn list_changed_inputs(
        &self,
        project: &Project,
        saved: &SavedPlan,
        seen: &ObservedHosts,
        settings: &CliSettings,
    ) -> Vec<String> {
        let artifacts = saved.list_changed_artifacts(project, seen, &self.engine_options(project, settings));
        saved.list_changed_inputs(project).into_iter().chain(artifacts).collect()
    }

    fn bind_saved_plan(
        &self,
        project: &Project,
        saved: &SavedPlan,
        seen: &mut ObservedHosts,
        replay: bool,
        settings: &CliSettings,
    ) -> Plan {
        engine::bind_saved_plan(project, saved, seen, &self.engine_options(project, settings), replay)
    }

    fn bind_shard_plan(
        &self,
        project: &Project,
        shard: &ShardPlan,
        hosts: &[HostName],
        seen: &mut ObservedHosts,
        settings: &CliSettings,
    ) -> Plan {
        engine::bind_shard_plan(project, shard, hosts, seen, &self.engine_options(project, settings))
    }

    fn refuse_engine_kind(&self, project: &Project, settings: &CliSettings) -> Option<(String, &'static str)> {
        refuse_engine_kind(settings.engine?.kind, project, settings)
    }

    fn refuse_engine(
        &self,
        project: &Project,
        plan: &Plan,
        seen: &ObservedHosts,
        settings: &CliSettings,
    ) -> Option<String> {
        settings.engine?;
        engine::find_cross_host_step(project, plan, &settings.filter, &seen.chosen).map(|refusal| refusal.to_string())
    }

    fn detect_drift(&self, project: &Project, seen: &ObservedHosts, settings: &CliSettings) -> DriftReport {
        // A recording describes an earlier state.
        let log = settings.replay.observed.is_none().then(|| open_store(project, settings).drift_log());
        engine::detect_drift(project, seen, &self.engine_options(project, settings), log.as_ref())
    }

    async fn attribute_changes(
        &self,
        project: &Project,
        seen: &ObservedHosts,
        drift: &mut DriftReport,
        settings: &CliSettings,
    ) {
        engine::attribute_changes(project, seen, drift, &self.engine_options(project, settings)).await;
    }

    fn plan_notifications(
        &self,
        project: &Project,
        drift: &DriftReport,
        settings: &CliSettings,
    ) -> Result<engine::NoticeQueue, String> {
        engine::queue_notices(project, drift, &open_store(project, settings).drift_log())
    }

    async fn store_findings(
        &self,
        project: &Project,
        seen: &ObservedHosts,
        settings: &CliSettings,
    ) -> Vec<(HostName, String)> {
        // What a recording tells is not of today.
        if settings.replay.observed.is_some() {
            return Vec::new();
        }
        engine::store_host_findings(
            project,
            seen,
            &self.engine_options(project, settings),
            &open_store(project, settings).drift_log(),
        )
        .await
    }

    fn current_time(&self) -> jiff::Timestamp {
        read_clock()
    }

    fn read_drift_history(
        &self,
        project: &Project,
        since: Option<HistoryStart>,
        settings: &CliSettings,
    ) -> Result<DriftHistory, String> {
        let since = match since {
            None => None,
            Some(HistoryStart::Day(day)) => day.to_zoned(jiff::tz::TimeZone::UTC).ok().map(|day| day.timestamp()),
            // A time out of range selects the whole history.
            Some(HistoryStart::Ago(ago)) => read_clock().checked_sub(ago).ok(),
        };
        engine::read_drift_history(project, &open_store(project, settings).drift_log(), since)
    }

    fn read_past_durations(&self, project: &Project, settings: &CliSettings) -> PastDurations {
        PastDurations::read_from_state(&settings.state_folder(&project.inventory), &project.cluster)
    }

    async fn apply(
        &self,
        project: &Project,
        plan: &Plan,
        seen: ObservedHosts,
        settings: &CliSettings,
        events: VerbEvents,
        cancel: CancelSignal,
    ) -> RunReport {
        let options = self.engine_options(project, settings);
        // The journal of a worker's run is that of its coordinator.
        let mut journal = match &settings.worker {
            Some(_) => None,
            None => self.open_journal(project, plan, settings, &events),
        };
        let (sender, receiver) = tokio::sync::mpsc::unbounded_channel();
        let state = &open_store(project, settings);
        let work = async {
            let sender = sender;
            match settings.engine {
                Some(engine) => {
                    let run = EngineRun { project, options: &options, settings, engine, state, events: &sender };
                    run.apply(plan, seen, &cancel).await
                }
                None => engine::apply(project, plan, seen, &options, &sender, &cancel).await,
            }
        };
        let (report, ()) = tokio::join!(work, forward_events(receiver, &events, journal.as_mut()));
        if let Some(Err(error)) =
            journal.map(|run| run.write_json("plan.json", plan).and_then(|_| run.write_json("report.json", &report)))
        {
            let _ = events.send(Event::NoHistory { why: error.to_string().into() });
        }
        report
    }

    async fn rehearse(
        &self,
        project: Project,
        plan: &Plan,
        seen: &ObservedHosts,
        settings: &CliSettings,
        events: VerbEvents,
        cancel: CancelSignal,
    ) -> RehearsalReport {
        let options = self.engine_options(&project, settings);
        engine::rehearse(project, plan, seen, &options, &events, &cancel).await
    }

    async fn verify(
        &self,
        project: &Project,
        seen: ObservedHosts,
        settings: &CliSettings,
        events: VerbEvents,
        _: CancelSignal,
    ) -> RunReport {
        let plan = engine::plan(project, &seen, &self.engine_options(project, settings));
        engine::verify(project, &plan, &seen, &self.engine_options(project, settings), &events)
    }

    async fn exec_command(
        &self,
        project: &Project,
        hosts: &[HostName],
        command: &ExecCommand,
        settings: &CliSettings,
        events: VerbEvents,
        cancel: CancelSignal,
    ) -> ExecReport {
        engine::exec(project, hosts, command, &self.engine_options(project, settings), &events, &cancel).await
    }

    async fn set_hold(
        &self,
        project: &Project,
        hosts: &[HostName],
        hold: Option<(&str, Option<engine::HoldEnd>)>,
        settings: &CliSettings,
        events: VerbEvents,
        cancel: CancelSignal,
    ) -> Result<engine::HoldReport, String> {
        let options = self.engine_options(project, settings);
        let hold = hold.map(|(why, until)| engine::build_hold(why, until, &options)).transpose()?;
        Ok(engine::set_hold(project, hosts, hold, &options, &events, &cancel).await)
    }

    async fn read_undo(
        &self,
        project: &Project,
        hosts: &[HostName],
        selection: engine::UndoSelection<'_>,
        settings: &CliSettings,
        events: VerbEvents,
        cancel: CancelSignal,
    ) -> engine::GeneratedUndo {
        let options = self.engine_options(project, settings);
        engine::read_undo(project, hosts, selection, &options, &events, &cancel).await
    }

    fn load_for_tests(&self, path: &Utf8Path, settings: &CliSettings) -> (Option<Project>, DiagList, SourceMap) {
        config::load_for_tests(path, &build_load_options(settings))
    }

    async fn run_tests(
        &self,
        project: &Project,
        request: SetRequest<'_>,
        settings: &CliSettings,
        events: VerbEvents,
        cancel: CancelSignal,
    ) -> Result<engine::AcceptanceReport, engine::BaselineError> {
        let SetRequest { set, hosts, skipped, against, drain } = request;
        let state = settings.state_folder(&project.inventory);
        let baseline = match against {
            Some(run) => Some(engine::read_acceptance(&state, &project.cluster, set, run)?),
            None => engine::find_baseline(&state, &project.cluster, set),
        };
        let request = engine::AcceptanceRequest { set, hosts, skipped, baseline, drain };
        let options = self.engine_options(project, settings);
        let report = engine::run_acceptance(project, request, &options, &events, &cancel).await;
        if let Err(why) = engine::store_acceptance(&state, &report) {
            let _ = events.send(Event::NoHistory { why: why.into() });
        }
        Ok(report)
    }

    async fn find_slow_causes(
        &self,
        project: &Project,
        hosts: &[HostName],
        job: Option<(&str, &str)>,
        pause: Duration,
        settings: &CliSettings,
        events: VerbEvents,
    ) -> Result<engine::SlowDiagnosis, String> {
        let request = engine::WhySlowRequest { hosts, job, pause };
        engine::diagnose_slow_job(project, &request, &self.engine_options(project, settings), &events).await
    }

    async fn check_hosts(
        &self,
        project: &Project,
        hosts: &[HostName],
        can_ask: bool,
        settings: &CliSettings,
        events: VerbEvents,
    ) -> DoctorReport {
        let state = settings.state_folder(&project.inventory);
        engine::doctor(project, hosts, &self.engine_options(project, settings), &state, can_ask, &events).await
    }

    fn load_for_digests(&self, path: &Utf8Path, settings: &CliSettings) -> (Option<Project>, DiagList, SourceMap) {
        config::load_to_learn_digests(path, &build_load_options(settings))
    }

    async fn fetch_artifacts(
        &self,
        project: &Project,
        hosts: &[HostName],
        lock: bool,
        settings: &CliSettings,
        events: VerbEvents,
    ) -> Result<FetchReport, String> {
        let hosts = add_cluster_host(project, hosts, settings);
        engine::fetch(project, &hosts, &self.engine_options(project, settings), lock, &events).await
    }

    async fn fetch_plan_artifacts(
        &self,
        project: &Project,
        plan: &Plan,
        seen: &ObservedHosts,
        settings: &CliSettings,
        events: VerbEvents,
    ) -> Vec<ArtifactReport> {
        engine::fetch_for_plan(project, plan, seen, &self.engine_options(project, settings), &events).await
    }

    fn request_stop(&self, cancel: &CancelSignal) {
        cancel.raise_level();
    }
}

async fn observe_for_purpose(
    project: &Project,
    hosts: &[HostName],
    ask: ObservePurpose,
    options: &RunOptions,
    events: &VerbEvents,
) -> ObservedHosts {
    match ask {
        ObservePurpose::Declared => engine::observe_hosts(project, hosts, options, events).await,
        ObservePurpose::Change => engine::observe_for_change(project, hosts, options, events).await,
        ObservePurpose::Drift { outliers } => {
            engine::observe_for_drift(project, hosts, outliers, options, events).await
        }
        // A recording is planned from later, so it also needs the answers of the declared steps.
        ObservePurpose::Facts if options.replay.record => engine::observe_hosts(project, hosts, options, events).await,
        ObservePurpose::Facts => engine::observe_facts(project, hosts, options, events).await,
    }
}

/// Forwards events, after appending each to the journal.
async fn forward_events(
    mut from: tokio::sync::mpsc::UnboundedReceiver<Event>,
    to: &VerbEvents,
    mut journal: Option<&mut RunJournal>,
) {
    while let Some(event) = from.recv().await {
        // Events that only `-vv` shows would multiply the size of the journal.
        let kept = !matches!(
            event,
            Event::StepCommands { .. } | Event::StepPrinted { .. } | Event::Fetching { .. } | Event::Sending { .. }
        );
        if let Some(Err(error)) = journal
            .as_mut()
            .filter(|_| kept)
            .map(|run| run.append_entry(&JournalEntry::at(read_clock(), event.clone())))
        {
            journal = None;
            let _ = to.send(Event::NoHistory { why: error.to_string().into() });
        }
        let _ = to.send(event);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_of_runs_are_in_the_order_of_their_times() {
        let times = ["10:00:00Z", "10:00:00.0001Z", "10:00:00.5Z", "10:00:00.99999Z", "10:00:01Z"];
        let ids = times.map(|time| make_run_id(format!("2026-11-27T{time}").parse().expect("a time")));
        assert_eq!(ids[0], "20261127T100000-0000");
        assert_eq!(ids[2], "20261127T100000-8000");
        assert!(ids.is_sorted() && ids.windows(2).all(|two| two[0] != two[1]), "{ids:?}");
    }
}
