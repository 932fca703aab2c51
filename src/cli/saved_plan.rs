//! Saved plans: written by the verbs that plan, read by `forge apply`.

use super::atomic_file;
use super::backend::{Backend, ObservePurpose};
use super::error::CliError;
use super::settings::CliSettings;
use super::verb_context::{LoadedProject, VerbContext};
use crate::engine::{Recording, ReplayOptions, SavedPlan, UsedRecording};
use crate::plan::Plan;
use crate::view::progress::ProgressDetail;
use camino::{Utf8Path, Utf8PathBuf};
use std::io::Write;
use std::sync::Arc;

/// The file that a plan is saved to.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct PlanOutputArgs {
    /// Save the plan to this file, for `forge apply FILE` and `forge show FILE`; secrets are left out
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<Utf8PathBuf>,
}

impl PlanOutputArgs {
    /// Returns the settings that a saved plan requires, if the plan is saved.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn apply_to_settings(&self, settings: &CliSettings) -> Result<CliSettings, CliError> {
        self.output.iter().try_for_each(|path| atomic_file::check_writable(path))?;
        let mut settings = settings.clone();
        settings.replay.keep |= self.output.is_some();
        settings.policy.bases |= self.output.is_some();
        Ok(settings)
    }

    /// Returns the plan with all its inputs, if it is saved.
    pub async fn build_saved_plan<B: Backend>(
        &self,
        cx: &VerbContext<'_, B>,
        loaded: &LoadedProject<B::Project>,
        seen: &B::HostObservations,
        plan: &Plan,
    ) -> Option<SavedPlan> {
        match &self.output {
            Some(_) => Some(assemble_saved_plan(cx, loaded, seen, plan).await),
            None => None,
        }
    }

    /// Writes the plan if it is saved: atomically, and readable for its owner only.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write_saved_plan(&self, saved: Option<&SavedPlan>) -> Result<(), CliError> {
        let Some((path, saved)) = self.output.as_ref().zip(saved) else { return Ok(()) };
        atomic_file::replace_private_file(path, |out| crate::view::write_saved_plan(saved, out))
    }

    /// Reports the file of the saved plan, if there is one.
    pub fn report_saved_plan<B>(&self, cx: &VerbContext<'_, B>, saved: Option<&SavedPlan>) {
        let Some((path, saved)) = self.output.as_ref().zip(saved) else { return };
        if cx.settings.detail > ProgressDetail::Quiet {
            // Ignore a closed stderr: no other stream could report it.
            let _ = writeln!((cx.console.err)(), "plan saved to {path}, {}", saved.digest);
        }
    }
}

/// Returns the plan with all its inputs.
async fn assemble_saved_plan<B: Backend>(
    cx: &VerbContext<'_, B>,
    loaded: &LoadedProject<B::Project>,
    seen: &B::HostObservations,
    plan: &Plan,
) -> SavedPlan {
    let recording = match &cx.settings.replay.observed {
        Some(given) => given.narrow_to_hosts(&loaded.1),
        None => cx.backend.build_recording(&loaded.0, seen),
    };
    let recording = Arc::new(recording.without_commands());
    let (_, again) = plan_from_recording(cx, loaded, &recording).await;
    let recording = Arc::unwrap_or_clone(recording);
    let saved = cx.backend.build_saved_plan(&loaded.0, seen, (plan, &again), recording, cx.settings);
    let used = cx.settings.recordings.iter().map(|file| UsedRecording {
        path: file.path.to_string(),
        recorded: file.recorded.map(|time| time.to_string()).unwrap_or_default(),
    });
    saved.with_recordings(used.collect())
}

/// Plans from recorded answers, with the policy and the step filter of `cx`. Opens no session.
pub async fn plan_from_recording<B: Backend>(
    cx: &VerbContext<'_, B>,
    (project, hosts): &LoadedProject<B::Project>,
    recording: &Arc<Recording>,
) -> (B::HostObservations, Plan) {
    let replay = ReplayOptions { observed: Some(recording.clone()), ..ReplayOptions::default() };
    let mut settings = cx.settings.clone();
    settings.replay = replay;
    // No listener: replaying a recording has no progress to report.
    let (events, _) = tokio::sync::mpsc::unbounded_channel();
    let seen = cx.backend.observe_hosts(project, hosts, ObservePurpose::Declared, &settings, events).await;
    let plan = cx.backend.plan(project, &seen, &settings);
    (seen, plan)
}

/// Returns the text of a file whose content is meant as a saved plan; `None` for an inventory or a missing file.
pub fn read_given_plan(path: Option<&Utf8Path>) -> Option<String> {
    let text = atomic_file::read_text(path?).ok()?;
    SavedPlan::is_plan_text(&text).then_some(text)
}

/// Why a saved plan is neither applied nor shown.
pub const ALTERED_PLAN: &str = "altered after it was saved: digest mismatch";

/// Parses a saved plan to apply.
///
/// # Errors
/// The text is not a saved plan, has another format version, or was altered.
pub fn parse_saved_plan(path: &Utf8Path, text: &str) -> Result<SavedPlan, CliError> {
    const CREATE: &str = "create one with `forge plan INVENTORY -o FILE`";
    const CREATE_OR_SHOW: &str =
        "create one with `forge plan INVENTORY -o FILE`, or print this one with `forge show FILE`";
    let wrong = |why: &str, hint| CliError::input(format!("cannot apply `{path}`: {why}")).hint(hint);
    let saved = SavedPlan::parse(text).map_err(|why| wrong(&why, CREATE_OR_SHOW))?;
    match saved.is_unaltered() {
        true => Ok(saved),
        false => Err(wrong(ALTERED_PLAN, CREATE)),
    }
}
