//! Runs with workers: where their store is, which locks a coordinator holds, and what it hands to the engine.

use super::backend::{ObservePurpose, VerbEvents};
use super::engine_args::build_worker_settings;
use super::engine_driver::EngineDriver;
use super::engine_settings::EngineSettings;
use super::settings::CliSettings;
use crate::config::Project;
use crate::engine::{
    self, CancelSignal, Event, HostKeys, ObservationKind, ObservedHosts, Recording, RunOptions, RunReport,
    ShardedApply, ShardedObservation, StopLevel,
};
use crate::model::HostName;
use crate::object::WorkerRoleLabel;
use crate::plan::Plan;
use crate::state::{ObjectStore, StateStore, StoreLock, StoreLockKind};
use camino::Utf8Path;
use std::sync::Arc;
use std::time::Duration;

/// How long a coordinator waits for workers of an earlier one. They stop when it is gone, after their running steps.
const WORKERS_LIMIT: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(200);
/// Folders of runs that only observe. They may be removed if no such run is active.
const OBSERVER_PREFIX: &str = "observe-";

/// The parts of a run with workers that the verbs share.
pub(super) struct EngineRun<'a> {
    pub project: &'a Project,
    pub options: &'a RunOptions,
    pub settings: &'a CliSettings,
    pub engine: EngineSettings,
    pub state: &'a StateStore,
    pub events: &'a VerbEvents,
}

impl EngineRun<'_> {
    fn open_store(&self, prefix: &str) -> ObjectStore {
        let root = self.state.root().join("engine").join(format!("{prefix}{}", self.options.run));
        ObjectStore::new(&camino::absolute_utf8(&root).unwrap_or(root))
    }

    /// Observes hosts with workers. Returns what `replay` reads from their answers, and the answers.
    pub async fn observe_hosts(
        &self,
        hosts: &[HostName],
        ask: ObservePurpose,
        replay: impl AsyncFn(Arc<Recording>) -> ObservedHosts,
    ) -> (ObservedHosts, Arc<Recording>) {
        let first = self.record_hosts(hosts, ask, None).await;
        let record = async |hosts: &[HostName], known: &ObservedHosts| self.record_hosts(hosts, ask, Some(known)).await;
        engine::complete_observation(self.project, first, replay, record).await
    }

    /// Observes hosts with workers and returns their answers and keys.
    async fn record_hosts(
        &self,
        hosts: &[HostName],
        ask: ObservePurpose,
        known: Option<&ObservedHosts>,
    ) -> (Recording, HostKeys) {
        let store = self.open_store(OBSERVER_PREFIX);
        // Without a lock, another run may remove the store; then the observation fails, and says so.
        let _lock = lock_observers(&store);
        let mut driver = self.open_driver(WorkerRoleLabel::Observe).await;
        // Hosts that workers of a killed coordinator still change would be observed halfway. Those of a coordinator that
        // is alive may be at work for hours; the apply that follows is refused then.
        if ask == ObservePurpose::Change && matches!(store.try_lock(StoreLockKind::Coordinator, true), Ok(Some(_))) {
            driver.end_earlier_workers().await;
            let _ = await_workers(&store, self.events, &CancelSignal::default()).await;
        }
        let recorded = engine::observe_in_shards(&ShardedObservation {
            project: self.project,
            hosts,
            kind: match ask {
                ObservePurpose::Drift { outliers } => ObservationKind::Drift { outliers },
                _ => ObservationKind::Declared,
            },
            known,
            settings: &build_worker_settings(self.settings, self.engine, &self.project.inventory),
            run: &self.options.run,
            driver: driver.as_worker_driver(),
            store: &store,
            workers: self.engine.workers,
            shard_size: self.engine.shard_size,
            events: self.events,
        })
        .await;
        driver.close().await;
        store.remove();
        recorded
    }

    async fn open_driver(&self, role: WorkerRoleLabel) -> EngineDriver {
        EngineDriver::open(self.engine.kind, self.project, self.options, role).await
    }

    /// Carries out a plan with workers.
    pub async fn apply(&self, plan: &Plan, seen: ObservedHosts, cancel: &CancelSignal) -> RunReport {
        let store = self.open_store("");
        let mut driver = self.open_driver(WorkerRoleLabel::Apply).await;
        let _lock = match self.lock_store(&store, &mut driver, cancel).await {
            Ok(lock) => lock,
            Err(why) => {
                driver.close().await;
                return engine::report_locked_run(self.project, plan, self.options, &why);
            }
        };
        let report = engine::apply_in_shards(
            &ShardedApply {
                project: self.project,
                options: self.options,
                settings: &build_worker_settings(self.settings, self.engine, &self.project.inventory),
                driver: driver.as_worker_driver(),
                store: &store,
                workers: self.engine.workers,
                shard_size: self.engine.shard_size,
                once: self.settings.plan_file.is_some(),
                events: self.events,
                cancel,
            },
            plan,
            seen,
        )
        .await;
        driver.close().await;
        store.remove();
        report
    }

    /// Makes this process the only coordinator, once no worker of an earlier one is left, and removes stores that killed
    /// runs have left.
    async fn lock_store(
        &self,
        store: &ObjectStore,
        driver: &mut EngineDriver,
        cancel: &CancelSignal,
    ) -> Result<StoreLock, String> {
        let lock = store.try_lock(StoreLockKind::Coordinator, true)?;
        let lock = lock.ok_or("another run of this cluster with workers is in progress on this machine")?;
        driver.take_over(cancel).await?;
        await_workers(store, self.events, cancel).await?;
        remove_siblings(store, |name| !name.starts_with(OBSERVER_PREFIX));
        Ok(lock)
    }
}

/// Waits until no worker of an earlier run is left.
async fn await_workers(store: &ObjectStore, events: &VerbEvents, cancel: &CancelSignal) -> Result<(), String> {
    let waited = async {
        if store.try_lock(StoreLockKind::Workers, true)?.is_some() {
            return Ok(());
        }
        // A display that is gone stops no run.
        let _ = events.send(Event::AwaitingWorkers { limit: WORKERS_LIMIT });
        while store.try_lock(StoreLockKind::Workers, true)?.is_none() {
            tokio::time::sleep(PAUSE).await;
        }
        Ok::<(), String>(())
    };
    tokio::select! {
        waited = tokio::time::timeout(WORKERS_LIMIT, waited) => {
            waited.unwrap_or_else(|_| Err("workers of an earlier run are still active on this machine".to_owned()))
        }
        () = cancel.wait_for_level(StopLevel::Finish) => Err("the run was stopped while workers of an earlier run were active".to_owned()),
    }
}

/// Before hosts are changed without workers, waits until those that a killed coordinator left on this machine have
/// ended: they hold the locks of their hosts. Those of a living coordinator may work for hours; then the locks decide.
pub(super) async fn await_left_workers(
    state: &StateStore,
    settings: &CliSettings,
    ask: ObservePurpose,
    events: &VerbEvents,
) {
    let root = state.root().join("engine");
    let is_change = ask == ObservePurpose::Change && settings.replay.observed.is_none() && settings.worker.is_none();
    if !is_change || !root.is_dir() {
        return;
    }
    let store = ObjectStore::new(&root.join("none"));
    if matches!(store.try_lock(StoreLockKind::Coordinator, true), Ok(Some(_))) {
        // After the limit, the lock of a host says who holds it.
        let _ = await_workers(&store, events, &CancelSignal::default()).await;
    }
}

fn lock_observers(store: &ObjectStore) -> Option<StoreLock> {
    if let Ok(Some(_alone)) = store.try_lock(StoreLockKind::Observers, true) {
        remove_siblings(store, |name| name.starts_with(OBSERVER_PREFIX));
    }
    store.try_lock(StoreLockKind::Observers, false).ok().flatten()
}

/// Removes other stores. What cannot be removed is tried again by the next run.
fn remove_siblings(store: &ObjectStore, is_old: impl Fn(&str) -> bool) {
    let Some(folder) = store.root().parent() else { return };
    let entries = folder.read_dir_utf8().into_iter().flatten().flatten();
    let old = entries.filter(|entry| entry.path() != store.root() && is_old(entry.file_name()));
    old.filter(|entry| entry.path().is_dir()).for_each(|entry| ObjectStore::new(Utf8Path::new(entry.path())).remove());
}
