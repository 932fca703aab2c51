//! The steps that verbs share: load, select, observe, with progress and interrupts.

use super::backend::{Backend, ObservePurpose, VerbEvents};
use super::console::Console;
use super::env::CliEnvironment;
use super::error::CliError;
use super::interrupt::InterruptSignals;
use super::inventory::{self, InventoryTarget};
use super::output::VerbOutput;
use super::settings::CliSettings;
use super::shared_args::{GlobalArgs, InventoryArg, OutputFormat};
use crate::diag::{DiagList, SourceMap};
use crate::engine::PastHosts;
use crate::model::{ExitCode, HostName};
use crate::view;
use crate::view::progress::{ProgressDetail, ProgressState, show_events};
use anyhow::Context as _;
use camino::Utf8Path;
use std::future::Future;
use std::io::Write;

/// The context of every verb.
pub struct VerbContext<'a, B> {
    pub backend: &'a B,
    pub console: &'a Console,
    pub typed: &'a GlobalArgs,
    pub environment: &'a CliEnvironment,
    pub settings: &'a CliSettings,
}

/// A project and its selected hosts.
pub type LoadedProject<P> = (P, Vec<HostName>);

/// Reads an inventory.
pub type ProjectLoader<B> = fn(&B, &Utf8Path, &CliSettings) -> (Option<<B as Backend>::Project>, DiagList, SourceMap);

/// The result of a verb.
pub type VerbResult = Result<ExitCode, CliError>;

impl<'a, B: Backend> VerbContext<'a, B> {
    /// Returns the same with other settings.
    pub fn with_settings<'s>(&'s self, settings: &'s CliSettings) -> VerbContext<'s, B> {
        VerbContext { settings, ..*self }
    }

    /// Returns the inventory, after checking that the file of `--json-into` can be written.
    pub fn resolve_target(&self, argument: &InventoryArg) -> Result<InventoryTarget, CliError> {
        self.settings.json_into.iter().try_for_each(|path| super::atomic_file::check_writable(path))?;
        inventory::resolve_inventory(argument, self.typed, self.environment, |path| path.exists())
    }

    /// Returns the inventory, or `None` if none is given, for verbs that can run without one.
    pub fn resolve_optional_target(&self, argument: &InventoryArg) -> Result<Option<InventoryTarget>, CliError> {
        let exists = |path: &camino::Utf8Path| path.exists();
        match inventory::is_inventory_given(argument, self.typed, self.environment, exists) {
            true => self.resolve_target(argument).map(Some),
            false => self
                .settings
                .json_into
                .iter()
                .try_for_each(|path| super::atomic_file::check_writable(path))
                .map(|()| None),
        }
    }

    /// Returns the outputs for results that suggest a next command on `target`. A verb that selected the hosts of a past run
    /// suggests none: the typed arguments select others.
    pub fn output_for(&self, target: &InventoryTarget) -> VerbOutput<'a> {
        let typed = Some(target).filter(|_| self.settings.past_run.is_none());
        let (target, resume) = typed.map(|typed| (typed.arguments.clone(), typed.resume_arguments.clone())).unzip();
        VerbOutput { console: self.console, settings: self.settings, target, resume }
    }

    /// Loads the inventory and selects the hosts. Contacts nothing.
    pub fn load_project(&self, target: &InventoryTarget) -> Result<LoadedProject<B::Project>, CliError> {
        self.load_project_with(target, B::load_project)
    }

    /// Like [`load_project`](Self::load_project), with another loader.
    pub fn load_project_with(
        &self,
        target: &InventoryTarget,
        load: ProjectLoader<B>,
    ) -> Result<LoadedProject<B::Project>, CliError> {
        let output = self.output_for(target);
        let (project, diags, sources) = load(self.backend, &target.path, self.settings);
        let project = match project {
            Some(project) if !diags.has_errors() => project,
            _ => return Err(output.report_failed_load(&target.path, diags, sources)?),
        };
        output.write_diags(&diags, &sources)?;
        if let Some((why, hint)) = self.backend.refuse_engine_kind(&project, self.settings) {
            return Err(CliError::usage(why).hint(hint));
        }
        let past = self.find_past_hosts(&project)?;
        let hosts = self.backend.select_hosts(&project, self.settings, past.as_ref());
        let hosts = hosts.map_err(|diag| output.report_selection_error(&diag, &sources))?;
        Ok((project, hosts))
    }

    /// Reads the last run if the selector refers to it, and says which run that is.
    pub fn find_past_hosts(&self, project: &B::Project) -> Result<Option<PastHosts>, CliError> {
        let Some(selector) = self.settings.on.as_deref().filter(|on| on.contains('@')) else { return Ok(None) };
        let past = self.backend.find_past_hosts(project, self.settings).map_err(CliError::usage)?;
        let Some(past) = past else {
            let error = CliError::usage(format!("`{selector}` refers to the last run, and there was no run"));
            return Err(error.hint("the history is in the folder `--state`, by default `.forge` next to the inventory"));
        };
        // A verb that chooses the run names it itself.
        if self.settings.detail > ProgressDetail::Quiet && self.settings.past_run.is_none() {
            // Ignore a closed stderr: no other stream could report it.
            let _ = writeln!((self.console.err)(), "hosts of the last run: {} {}", past.verb, past.run);
        }
        Ok(Some(past))
    }

    /// Observes hosts. An interrupt ends the verb: observing leaves nothing behind.
    pub async fn observe_hosts(
        &self,
        stop: &mut InterruptSignals,
        output: &VerbOutput<'_>,
        (project, hosts): &LoadedProject<B::Project>,
        ask: ObservePurpose,
    ) -> Result<B::HostObservations, CliError> {
        if self.settings.replay.observed.is_some() && self.settings.detail > ProgressDetail::Quiet {
            // Ignore a closed stderr: no other stream could report it.
            let _ = writeln!((self.console.err)(), "using recorded answers; no host is contacted");
        }
        let work = self
            .run_with_progress(output, |events| self.backend.observe_hosts(project, hosts, ask, self.settings, events));
        tokio::select! {
            seen = work => Ok(seen),
            () = stop.next_interrupt() => Err(CliError::interrupted("interrupted while observing; nothing was changed")),
        }
    }

    /// Returns a description of each recording that answered.
    pub fn list_recordings(&self) -> Vec<String> {
        view::list_recording_files(&self.settings.recordings, self.backend.current_time())
    }

    /// Returns lines about the recordings that answered, for the head of a result in text: it holds as of their time.
    pub fn render_recordings(&self) -> String {
        view::render_recording_files(&self.settings.recordings, self.backend.current_time())
    }

    /// Writes these lines if stdout carries text.
    pub fn write_recordings(&self, output: &VerbOutput<'_>) -> Result<(), CliError> {
        match self.settings.format {
            OutputFormat::Text => output.write_raw(&|out| write!(out, "{}", self.render_recordings())),
            _ => Ok(()),
        }
    }

    /// Runs `work` and shows its events as they arrive.
    pub async fn run_with_progress<T, F: Future<Output = T>>(
        &self,
        output: &VerbOutput<'_>,
        work: impl FnOnce(VerbEvents) -> F,
    ) -> T {
        self.run_with_progress_from(ProgressState::default(), output, work).await
    }

    /// Like [`run_with_progress`](Self::run_with_progress), starting from a known run state.
    pub async fn run_with_progress_from<T, F: Future<Output = T>>(
        &self,
        state: ProgressState,
        output: &VerbOutput<'_>,
        work: impl FnOnce(VerbEvents) -> F,
    ) -> T {
        let (sender, receiver) = tokio::sync::mpsc::unbounded_channel();
        let mut progress = output.create_progress(state);
        let (result, ()) = tokio::join!(work(sender), show_events(receiver, progress.as_mut()));
        result
    }

    /// Runs `work`; each interrupt is one request to stop.
    pub async fn run_stoppable<T>(
        &self,
        stop: &mut InterruptSignals,
        work: impl Future<Output = T>,
        cancel: &B::Cancel,
    ) -> T {
        tokio::pin!(work);
        loop {
            tokio::select! {
                result = &mut work => return result,
                () = stop.next_interrupt() => self.backend.request_stop(cancel),
            }
        }
    }
}

/// Builds the runtime, which short verbs do not need, and runs `work` on it.
///
/// # Errors
/// Errors of `work`; unexpected if the system provides no threads or descriptors.
pub fn block_on(work: impl Future<Output = VerbResult>) -> VerbResult {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.context("cannot start the runtime").map_err(CliError::unexpected)?;
    let ending = runtime.block_on(work);
    // An interrupted prompt still reads stdin on its thread; do not wait for it.
    runtime.shutdown_background();
    ending
}
