//! A backend with fixed answers, for whole verbs.

use super::*;

/// A backend with fixed answers.
pub(super) struct FakeBackend {
    pub plan: Plan,
    pub report: RunReport,
    pub broken: bool,
    pub applied: Mutex<bool>,
    pub lacking: Vec<ArtifactReport>,
}

impl FakeBackend {
    pub fn new(plan: Plan) -> Self {
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

    fn list_host_keys(&self, _: &Vec<ObservedHost>) -> crate::engine::HostKeys {
        crate::engine::HostKeys::default()
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

    fn bind_shard_plan(
        &self,
        (): &(),
        _: &crate::engine::ShardPlan,
        _: &[HostName],
        _: &mut Vec<ObservedHost>,
        _: &CliSettings,
    ) -> Plan {
        unreachable!("workers are tested with the real library")
    }

    fn refuse_engine_kind(&self, (): &(), _: &CliSettings) -> Option<(String, &'static str)> {
        None
    }

    fn refuse_engine(&self, (): &(), _: &Plan, _: &Vec<ObservedHost>, _: &CliSettings) -> Option<String> {
        None
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

    async fn rehearse(
        &self,
        (): (),
        plan: &Plan,
        _: &Vec<ObservedHost>,
        _: &CliSettings,
        _: VerbEvents,
        (): (),
    ) -> RehearsalReport {
        sample::rehearsal_report(plan)
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
        _: super::backend::SetRequest<'_>,
        _: &CliSettings,
        _: VerbEvents,
        (): (),
    ) -> Result<crate::engine::AcceptanceReport, crate::engine::BaselineError> {
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
        _: crate::engine::UndoSelection<'_>,
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
