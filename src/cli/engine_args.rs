//! `--engine`, `--workers`, `--shard-size`: whether workers observe and change the hosts.

use super::engine_settings::{EngineKind, EngineSettings};
use super::error::CliError;
use super::settings::CliSettings;
use crate::config::Project;
use crate::engine::WorkerSettings;
use camino::Utf8Path;

/// Workers.
#[derive(Clone, Debug, clap::Args)]
pub struct EngineArgs {
    /// Divide the hosts among workers, with one plan and one rollout for all: see docs/scale.md
    #[arg(long, value_enum, value_name = "ENGINE")]
    pub engine: Option<EngineKind>,
    /// With --engine: how many workers run at once; they share --parallel
    #[arg(long, value_name = "N", default_value_t = 2, requires = "engine", value_parser = clap::value_parser!(u16).range(1..))]
    pub workers: u16,
    /// With --engine: how many hosts one worker gets at most
    #[arg(long, value_name = "HOSTS", default_value_t = 256, requires = "engine", value_parser = clap::value_parser!(u32).range(1..))]
    pub shard_size: u32,
}

impl EngineArgs {
    /// Returns the settings of a run with workers, if they are requested.
    ///
    /// # Errors
    /// Usage: answers are read from a recording, so there is no work for workers.
    pub fn apply_to_settings(&self, settings: &CliSettings) -> Result<CliSettings, CliError> {
        let engine = self.engine.map(|kind| EngineSettings {
            kind,
            workers: self.workers.into(),
            shard_size: self.shard_size as usize,
        });
        if engine.is_some() && settings.replay.observed.is_some() {
            return Err(CliError::usage("`--engine` cannot be used with `--observed`, which contacts no host"));
        }
        let mut settings = settings.clone();
        settings.engine = engine;
        Ok(settings)
    }
}

/// Returns why the inventory's settings do not allow workers of this kind, if so: an error and a hint. A pod finds the
/// inventory and the state folder only on the volume.
pub fn refuse_engine_kind(
    kind: EngineKind,
    project: &Project,
    settings: &CliSettings,
) -> Option<(String, &'static str)> {
    if kind == EngineKind::Local {
        return None;
    }
    let Some(pods) = &project.worker_pods else {
        let why = "`--engine kubernetes` needs `worker_pods` in the inventory".to_owned();
        return Some((why, "it names the API, the image and the volume: see docs/scale.md"));
    };
    let absolute = |path: &Utf8Path| camino::absolute_utf8(path).unwrap_or_else(|_| path.to_owned());
    let state = settings.state_folder(&project.inventory);
    let paths = [("the inventory", project.inventory.as_path()), ("the state folder", &state)];
    let outside = paths.into_iter().find(|(_, path)| !absolute(path).starts_with(&pods.volume.path));
    outside.map(|(what, path)| {
        let (path, volume) = (absolute(path), &pods.volume.path);
        let hint = "workers have only this volume: move it there, or mount the volume at another path";
        (format!("{what} `{path}` is not on the volume of the workers, `{volume}`"), hint)
    })
}

/// Returns the settings of each worker. `state` and the inventory's folder are made absolute: a worker may run anywhere.
pub fn build_worker_settings(settings: &CliSettings, engine: EngineSettings, inventory: &Utf8Path) -> WorkerSettings {
    let state = settings.state_folder(inventory);
    let state = camino::absolute_utf8(&state).unwrap_or(state);
    let (step, skip) = settings.filter.written_patterns();
    WorkerSettings {
        state: state.into_string(),
        trust: settings.trust,
        parallel: settings.parallel.div_ceil(engine.workers),
        timeout: settings.timeout,
        offline: settings.offline,
        step,
        skip,
        max_disruption: settings.policy.max_disruption,
        bases: settings.policy.bases,
        all_facts: settings.replay.record,
        evict_busy: settings.evict_busy.clone(),
    }
}
