//! The guard of a reboot: armed on the host before it, confirmed over the new session after it.

use super::own_script::run_own_script;
use super::window_refusal::WindowRefusal;
use crate::engine::event::{StepFailure, StepResult};
use crate::engine::host_session::SHORT_SCRIPT_LIMIT;
use crate::engine::host_work::HostWork;
use crate::engine::undo_journals::parse_journal;
use crate::engine::undo_recipe::JournalGroup;
use crate::model::{BootUndo, StepId, format_guard_time};
use crate::script::ShellFragment;
use crate::state::{
    BootGuard, BootGuardAnswer, BootGuardOutcome, BootRestoration, FormerFile, FormerState, READ_BOOT_GROUPS,
    UndoGroup, UndoStep, parse_boot_answer,
};
use std::collections::BTreeSet;
use std::time::Duration;

/// How long the host may take to write what the guard needs, and to ask its gateway.
const ARM_LIMIT: Duration = Duration::from_secs(60);

const HINT: &str = "correct the declaration before the next apply: it makes the same change and reboots again";

/// Arms the guard of the reboot that `waiting` needs, if one is declared and there is something to restore.
///
/// # Errors
/// The host cannot keep what the guard needs: it is not rebooted.
pub(super) async fn arm_reboot_guard(
    work: &mut HostWork<'_>,
    waiting: &[StepId],
) -> Result<Option<BootGuard>, WindowRefusal> {
    let Some(seconds) = work.run.project.rollout.reboot_guard_s else { return Ok(None) };
    let printed = run_own_script(work, ShellFragment::new().code(READ_BOOT_GROUPS), SHORT_SCRIPT_LIMIT).await?;
    let Some(journal) = parse_journal(&printed) else {
        return Err(WindowRefusal::Failed(
            "not rebooted: the undo journal, which its guard needs, cannot be read".into(),
        ));
    };
    let (cluster, run) = (&work.run.project.cluster, &work.run.options.run);
    let restoration = collect_restoration(cluster, run, waiting, journal.groups);
    if restoration.is_empty() {
        return Ok(None);
    }
    let guard = BootGuard::new(cluster, run, seconds, restoration);
    run_own_script(work, guard.build_arm_script(), ARM_LIMIT).await?;
    Ok(Some(guard))
}

/// Confirms the boot over the session that is open now, or removes the guard of a reboot that did not happen.
///
/// # Errors
/// The host gave no answer.
pub(super) async fn confirm_boot(work: &mut HostWork<'_>, guard: &BootGuard) -> Result<BootGuardAnswer, WindowRefusal> {
    let printed = run_own_script(work, guard.build_confirm_script(), SHORT_SCRIPT_LIMIT).await?;
    let unclear = || WindowRefusal::Failed("the host gave no valid answer about the guard of its reboot".to_owned());
    parse_boot_answer(&printed).ok_or_else(unclear)
}

/// Marks the steps as failed whose changes the host took back. Returns why the window ends.
pub(super) fn report_restoration(
    work: &mut HostWork<'_>,
    guard: &BootGuard,
    outcome: &BootGuardOutcome,
) -> WindowRefusal {
    let time = format_guard_time(guard.seconds());
    let cause = outcome.why.raw().trim();
    let cause = if cause.is_empty() { "no reason was kept" } else { cause };
    let why = format!("the guard of the reboot ({time}) restored the state before: {cause}");
    let failure = StepFailure {
        why: why.as_str().into(),
        tail: outcome.problems.clone(),
        hint: Some(HINT.into()),
        log: None,
        artifact: false,
    };
    let restored: BTreeSet<&StepId> = guard.steps().iter().collect();
    work.results.revise_results(|report, _| {
        restored.contains(&report.id).then(|| StepResult::Failed { failure: failure.clone() })
    });
    WindowRefusal::Failed(why)
}

/// Collects what a boot before the changes needs: all that this run changed since the last boot, and what earlier runs
/// changed for steps that take effect by this reboot. Each object gets its oldest state.
fn collect_restoration(cluster: &str, run: &str, waiting: &[StepId], mut groups: Vec<JournalGroup>) -> BootRestoration {
    groups.retain(|group| group.group.cluster == cluster);
    groups.sort_by(|one, other| (&one.group.run, one.number).cmp(&(&other.group.run, other.number)));
    let mut all = BootRestoration::default();
    for group in &groups {
        let paths = group.group.paths();
        let concerned = |step: &&UndoStep| group.group.run == run || waiting.contains(&step.step);
        for step in group.group.steps.iter().filter(concerned) {
            add_step(&mut all, group, &paths, step);
        }
    }
    all.menu.reverse();
    all
}

fn add_step(all: &mut BootRestoration, group: &JournalGroup, paths: &[&str], step: &UndoStep) {
    let run = &group.group.run;
    let mut concerned = false;
    for path in step.effect.list_copied_paths() {
        let state = group.before.get(path).copied().filter(|state| *state != FormerState::Other);
        let Some((state, at)) = state.zip(paths.iter().position(|own| *own == path)) else { continue };
        concerned = true;
        if !all.files.iter().any(|file| file.path == path) {
            let copy = UndoGroup::copy_path(run, group.number, at);
            all.files.push(FormerFile { path: path.to_owned(), state, copy });
        }
    }
    let BootUndo { units, images, menu, .. } = &step.effect.boot;
    concerned |= !units.is_empty() || !images.is_empty() || menu.is_some();
    if !concerned {
        return;
    }
    for unit in units {
        if !all.units.iter().any(|known| known.name == unit.name) {
            all.units.push(unit.clone());
        }
    }
    for image in images {
        if !all.images.iter().any(|(known, _)| known == image) {
            all.images.push((image.clone(), format!("{image}.forge-{run}")));
        }
    }
    all.menu.extend(menu.clone());
    if !all.steps.contains(&step.step) {
        all.steps.push(step.step.clone());
    }
    for record in &step.records {
        if !all.records.iter().any(|known| known.step == record.step) {
            all.records.push(record.clone());
        }
    }
}
