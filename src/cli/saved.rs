//! Plans that are kept in a file: written by the verbs that plan, read by the verb that carries them out.

use super::backend::{Ask, Backend};
use super::error::CliError;
use super::file;
use super::run::{Cx, Loaded};
use super::settings::Settings;
use crate::engine::{Recording, Replay, SavedPlan};
use crate::plan::Plan;
use crate::view::progress::Detail;
use camino::{Utf8Path, Utf8PathBuf};
use std::io::Write;
use std::sync::Arc;

/// Where a plan is kept.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct Keep {
    /// Keep the plan in a file, which `forge apply FILE` carries out and `forge show FILE` prints; secrets are left out
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<Utf8PathBuf>,
}

impl Keep {
    /// Returns the settings under which a plan can be kept, where it is to be.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn settings(&self, settings: &Settings) -> Result<Settings, CliError> {
        self.output.iter().try_for_each(|path| file::check(path))?;
        let mut settings = settings.clone();
        settings.replay.keep |= self.output.is_some();
        settings.policy.bases |= self.output.is_some();
        Ok(settings)
    }

    /// Returns a plan with everything that it was made from, if it is to be kept.
    pub async fn bind<B: Backend>(
        &self,
        cx: &Cx<'_, B>,
        loaded: &Loaded<B::Project>,
        seen: &B::Seen,
        plan: &Plan,
    ) -> Option<SavedPlan> {
        match &self.output {
            Some(_) => Some(bound(cx, loaded, seen, plan).await),
            None => None,
        }
    }

    /// Keeps a plan, if it is to be kept: whole, and readable for its owner only.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write(&self, saved: Option<&SavedPlan>) -> Result<(), CliError> {
        let Some((path, saved)) = self.output.as_ref().zip(saved) else { return Ok(()) };
        file::replace_private(path, |out| crate::view::save(saved, out))
    }

    /// Says where a plan is kept, if it is.
    pub fn tell<B>(&self, cx: &Cx<'_, B>, saved: Option<&SavedPlan>) {
        let Some((path, saved)) = self.output.as_ref().zip(saved) else { return };
        if cx.settings.detail > Detail::Quiet {
            // A stderr that is gone leaves nobody to tell.
            let _ = writeln!((cx.console.err)(), "plan kept in {path}, {}", saved.digest);
        }
    }
}

/// Returns a plan with everything that it was made from.
async fn bound<B: Backend>(cx: &Cx<'_, B>, loaded: &Loaded<B::Project>, seen: &B::Seen, plan: &Plan) -> SavedPlan {
    let recording = match &cx.settings.replay.observed {
        Some(given) => given.narrowed(&loaded.1),
        None => cx.backend.recording(&loaded.0, seen),
    };
    let recording = Arc::new(recording.without_commands());
    let (_, again) = again(cx, loaded, &recording).await;
    cx.backend.save(&loaded.0, seen, (plan, &again), Arc::unwrap_or_clone(recording), cx.settings)
}

/// Plans from recorded answers, with the policy and the steps of `cx`. No session is opened.
pub async fn again<B: Backend>(
    cx: &Cx<'_, B>,
    (project, hosts): &Loaded<B::Project>,
    recording: &Arc<Recording>,
) -> (B::Seen, Plan) {
    let replay = Replay { observed: Some(recording.clone()), ..Replay::default() };
    let mut settings = cx.settings.clone();
    settings.replay = replay;
    // Nothing happens that anybody would want to be told of.
    let (events, _) = tokio::sync::mpsc::unbounded_channel();
    let seen = cx.backend.observe(project, hosts, Ask::Declared, &settings, events).await;
    let plan = cx.backend.plan(project, &seen, &settings);
    (seen, plan)
}

/// Returns the text of a file that is meant as a plan, by what it holds; nothing for an inventory, or where there is
/// no file.
pub fn given(path: Option<&Utf8Path>) -> Option<String> {
    let text = file::read_text(path?).ok()?;
    SavedPlan::is_meant(&text).then_some(text)
}

/// Reads a saved plan that is to be carried out.
///
/// # Errors
/// It is none, of another form, or was altered.
pub fn parse(path: &Utf8Path, text: &str) -> Result<SavedPlan, CliError> {
    const HINT: &str = "`forge plan INVENTORY -o FILE` makes one; `forge show FILE` prints this one";
    let wrong = |why: &str| CliError::input(format!("`{path}` cannot be carried out: {why}")).hint(HINT);
    let saved = SavedPlan::parse(text).map_err(|why| wrong(&why))?;
    match saved.is_whole() {
        true => Ok(saved),
        false => Err(wrong("it was altered after it was written: its digest does not fit")),
    }
}
