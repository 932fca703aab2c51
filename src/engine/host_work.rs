//! What the stages of one host's run work with: the connection, the observed state, results and records.

use super::armed_guard::ArmedGuard;
use super::host_link::{HostLink, LinkLost};
use super::host_session::HostSession;
use super::host_view::HostView;
use super::planned_steps::PlannedSteps;
use super::run_context::ApplyContext;
use super::step_records::RecordQueue;
use super::step_results::StepResults;
use super::undo_log::UndoLog;
use crate::graph::Graph;
use crate::model::{HostName, SecretStore, StepId};
use crate::plan::{HostPlan, ObservedHost};
use crate::probe::Probe;
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

/// The parts that stages share. Each part owns its state; a stage uses it only through its methods.
pub(super) struct HostWork<'r> {
    pub run: &'r ApplyContext<'r>,
    pub plan: &'r HostPlan,
    pub planned: PlannedSteps<'r>,
    pub link: HostLink,
    pub view: HostView<'r>,
    pub results: StepResults<'r>,
    pub records: RecordQueue<'r>,
    pub undo: UndoLog,
    /// The guard of the script that ran last, until it is confirmed.
    pub guard: Option<ArmedGuard<'r>>,
    /// Whether an earlier run still worked on the host, or would restore something there, when this one was planned.
    pub began_busy: bool,
    /// Recipes whose changes controllers of the cluster have had time to notice.
    pub settled_recipes: BTreeSet<String>,
    /// Steps whose changes can bar later logins.
    pub doubtful_logins: Vec<StepId>,
    ahead: Option<ObservedAhead>,
}

/// How long answers that were observed ahead count as observed right before an action.
const AHEAD_LIMIT: Duration = Duration::from_secs(2);

/// Probes whose answers are newer than the last action.
struct ObservedAhead {
    probes: BTreeSet<Probe>,
    ended: Instant,
}

impl<'r> HostWork<'r> {
    /// Builds the state before the first stage.
    pub fn new(
        run: &'r ApplyContext<'r>,
        plan: &'r HostPlan,
        seen: ObservedHost,
        session: Box<dyn HostSession>,
    ) -> Self {
        let host = &plan.host;
        let began_busy = seen.activity.is_some() || !seen.guards.is_empty();
        Self {
            run,
            plan,
            planned: PlannedSteps::new(run, plan),
            link: HostLink::new(session),
            view: HostView::new(run, host, seen),
            results: StepResults::new(run, host),
            records: RecordQueue::new(run),
            undo: UndoLog::after_workers(run.options.worker.as_ref().map_or(0, |worker| worker.replaced)),
            guard: None,
            began_busy,
            settled_recipes: BTreeSet::new(),
            doubtful_logins: Vec::new(),
            ahead: None,
        }
    }

    pub fn host(&self) -> &'r HostName {
        &self.plan.host
    }

    /// Returns the graph of steps in this host's order.
    pub fn graph(&self) -> &'r Graph {
        self.run.project.graph_for_host(self.host())
    }

    /// Sends `probes` to the host and adds the answers to the observed state.
    ///
    /// # Errors
    /// The connection is lost.
    pub async fn observe(&mut self, probes: &BTreeSet<Probe>, secrets: &SecretStore) -> Result<(), LinkLost> {
        let observation = self.link.observe(probes, secrets).await?;
        self.view.merge_observation(observation);
        Ok(())
    }

    /// Observes what the last action changed, and with it what the next group is evaluated by: its steps then need no
    /// observation of their own.
    ///
    /// # Errors
    /// The connection is lost.
    pub async fn observe_ahead(
        &mut self,
        probes: &BTreeSet<Probe>,
        next: &BTreeSet<Probe>,
        secrets: &SecretStore,
    ) -> Result<(), LinkLost> {
        let all = probes | next;
        self.observe(&all, secrets).await?;
        self.ahead = Some(ObservedAhead { probes: all, ended: Instant::now() });
        Ok(())
    }

    /// Reports whether all `probes` were just observed, and this run changed nothing on the host since.
    pub fn is_observed(&self, probes: &BTreeSet<Probe>) -> bool {
        self.fresh_probes().is_some_and(|fresh| probes.is_subset(fresh))
    }

    /// Returns the probes that were just observed, if this run changed nothing on the host since.
    pub fn fresh_probes(&self) -> Option<&BTreeSet<Probe>> {
        self.ahead.as_ref().filter(|ahead| ahead.ended.elapsed() < AHEAD_LIMIT).map(|ahead| &ahead.probes)
    }

    /// Forgets what was observed ahead: something is about to change the host, or other hosts may have changed what it shows.
    pub fn forget_ahead(&mut self) {
        self.ahead = None;
    }

    /// Writes the queued records.
    pub async fn flush_records(&mut self) {
        self.records.flush(&mut self.link).await;
    }
}
