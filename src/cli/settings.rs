//! Settings of a run, from flags and environment.

use super::engine_settings::EngineSettings;
use super::env::CliEnvironment;
use super::error::CliError;
use super::secret_programs::SecretNeed;
use super::shared_args::{ColorMode, GlobalArgs, OutputFormat};
use crate::config::StepFilter;
use crate::engine::{ReplayOptions, UndoRequest, WorkerRole};
use crate::plan::PlanPolicy;
use crate::state::RunPlanFile;
use crate::view::RecordingFile;
use crate::view::progress::ProgressDetail;
use camino::{Utf8Path, Utf8PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Settings that apply to the whole run of a verb.
#[derive(Clone, Debug)]
pub struct CliSettings {
    /// A selector as typed; `None` for all hosts.
    pub on: Option<String>,
    pub filter: StepFilter,
    pub policy: PlanPolicy,
    /// The reason to terminate processes that hold devices; `None` leaves them running.
    pub evict_busy: Option<String>,
    pub format: OutputFormat,
    pub json_into: Option<Utf8PathBuf>,
    /// Maximum number of hosts to work on in parallel, at least 1.
    pub parallel: usize,
    /// Timeout of checks and steps that declare none.
    pub timeout: Option<Duration>,
    state: Option<Utf8PathBuf>,
    /// The user's runtime directory, for control sockets.
    pub runtime: Option<Utf8PathBuf>,
    /// Environment variables passed to ssh in addition to the default ones.
    pub ssh_variables: std::sync::Arc<[String]>,
    /// The user who runs forge.
    pub user: Option<String>,
    /// Whether hosts are probed or answers are replayed, and whether raw answers are kept.
    pub replay: ReplayOptions,
    /// The recordings whose answers are replayed.
    pub recordings: Vec<RecordingFile>,
    /// The run whose outcomes `@failed` and the like refer to; `None` for the newest.
    pub past_run: Option<String>,
    /// The saved plan that is applied.
    pub plan_file: Option<RunPlanFile>,
    /// How hosts are divided among workers; `None` if this process works on them itself.
    pub engine: Option<EngineSettings>,
    /// The role of this process, if it is a worker.
    pub worker: Option<Arc<WorkerRole>>,
    /// The run that an undo reverts; its recipes take the place of those of the inventory.
    pub undo: Option<Arc<UndoRequest>>,
    pub trust: bool,
    /// Whether programs that print secrets run.
    pub secrets: SecretNeed,
    /// Whether artifacts come from the cache only.
    pub offline: bool,
    pub color: ColorMode,
    pub detail: ProgressDetail,
    /// How often `-v` was given.
    pub verbose: u8,
}

impl CliSettings {
    /// Returns the settings with the positional selector of a verb, which means the same as `--on`.
    ///
    /// # Errors
    /// It is an inventory, or `--on` is given too.
    pub fn select_hosts(&self, selector: &str) -> Result<Self, CliError> {
        let mut settings = self.clone();
        if selector.ends_with(".yaml") || selector.ends_with(".yml") {
            let error = CliError::usage(format!("`{selector}` is not a host selector"));
            return Err(error.hint(format!("pass the inventory as `-i {selector}`")));
        }
        if let Some(on) = settings.on.replace(selector.to_owned()) {
            let error = CliError::usage(format!("hosts are selected twice: `{selector}` and `--on {on}`"));
            return Err(error.hint("pass only one of them"));
        }
        Ok(settings)
    }

    /// Builds the settings from flags and environment; a flag takes precedence.
    pub fn new(typed: &GlobalArgs, environment: &CliEnvironment) -> Self {
        Self {
            on: typed.on.clone(),
            filter: StepFilter::new(&typed.step, &typed.skip),
            policy: PlanPolicy::default(),
            evict_busy: None,
            format: typed.format,
            json_into: typed.json_into.clone(),
            parallel: typed.parallel.into(),
            timeout: typed.timeout,
            state: typed.state.clone().or_else(|| environment.state.clone()),
            runtime: environment.runtime.clone(),
            ssh_variables: environment.ssh_variables.clone().into(),
            user: environment.user.clone(),
            replay: ReplayOptions::default(),
            recordings: Vec::new(),
            past_run: None,
            plan_file: None,
            engine: None,
            worker: None,
            undo: None,
            trust: typed.trust,
            secrets: SecretNeed::No,
            offline: false,
            color: typed.color,
            detail: ProgressDetail::from_flags(typed.quiet, typed.verbose),
            verbose: typed.verbose,
        }
    }

    /// Returns the settings with another host selection.
    pub fn with_selection(&self, on: &str) -> Self {
        Self { on: Some(on.to_owned()), ..self.clone() }
    }

    /// Returns the settings with the policy of a verb.
    pub fn with_policy(&self, policy: PlanPolicy, evict_busy: Option<String>) -> Self {
        Self { policy, evict_busy, ..self.clone() }
    }

    /// Returns the settings with `offline`: artifacts then come from the cache only.
    pub fn with_offline(&self, offline: bool) -> Self {
        Self { offline, ..self.clone() }
    }

    /// Sets the state directory.
    pub fn set_state_folder(&mut self, folder: &Utf8Path) {
        self.state = Some(folder.to_owned());
    }

    /// Returns the state directory for runs and history of an inventory.
    pub fn state_folder(&self, inventory: &Utf8Path) -> Utf8PathBuf {
        let beside = || inventory.parent().unwrap_or(Utf8Path::new("")).join(".forge");
        self.state.clone().unwrap_or_else(beside)
    }
}
