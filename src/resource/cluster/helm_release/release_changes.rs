//! What a plan says about the charts of a release: its hooks, its conflicts, its images.

use crate::object::{ChartHook, FieldChange, LiveObject, ObjectChange, ObjectChangeKind, ReleaseFieldConflict};
use std::collections::BTreeSet;

/// The actions that run hooks.
#[derive(Clone, Copy, Debug)]
pub(super) enum HookTrigger {
    Install,
    Upgrade,
    Uninstall,
}

impl HookTrigger {
    fn events(self) -> [&'static str; 2] {
        match self {
            Self::Install => ["pre-install", "post-install"],
            Self::Upgrade => ["pre-upgrade", "post-upgrade"],
            Self::Uninstall => ["pre-delete", "post-delete"],
        }
    }
}

/// Returns the hooks that an action runs, each with the events that make it run. Those that run a program are first:
/// charts precede a Job by its account and its rights, and a plan shortens long lists.
pub(super) fn list_hooks(hooks: &[ChartHook], trigger: HookTrigger) -> Vec<ChartHook> {
    let due = hooks.iter().map(|hook| {
        let events = hook.events.iter().filter(|event| trigger.events().contains(&event.as_str()));
        ChartHook { object: hook.object.clone(), events: events.cloned().collect() }
    });
    let (mut programs, others): (Vec<ChartHook>, Vec<ChartHook>) =
        due.filter(|hook| !hook.events.is_empty()).partition(runs_program);
    programs.extend(others);
    programs
}

fn runs_program(hook: &ChartHook) -> bool {
    ["Job ", "Pod "].iter().any(|kind| hook.object.starts_with(kind))
}

/// Returns the fields that are taken over, by owner: `2 fields of kubectl-set`. Fields that Helm itself owns are
/// omitted.
pub(super) fn describe_conflicts(conflicts: &[ReleaseFieldConflict]) -> Option<String> {
    let theirs: Vec<&str> = conflicts.iter().map(|conflict| conflict.by.raw()).filter(|by| *by != "helm").collect();
    let fields = if theirs.len() == 1 { "field" } else { "fields" };
    let owners: Vec<&str> = theirs.iter().copied().collect::<BTreeSet<_>>().into_iter().collect();
    (!theirs.is_empty()).then(|| format!("{} {fields} of {}", theirs.len(), owners.join(", ")))
}

/// Returns the first declared field that a change touches, with its consequence: `spec.driver.version: the operator …`.
pub(super) fn describe_disruption(
    declared: &[(String, String)],
    manifest: &[ObjectChange],
    live: &[LiveObject],
) -> Option<String> {
    let planned = manifest.iter().flat_map(|object| match &object.what {
        ObjectChangeKind::Changed(fields) => fields.as_slice(),
        ObjectChangeKind::Added | ObjectChangeKind::Removed => &[],
    });
    let changed: Vec<&FieldChange> = planned.chain(live.iter().flat_map(|object| &object.changed)).collect();
    declared.iter().find_map(|(path, consequence)| {
        let touched = changed.iter().find(|change| is_within(&change.path, path))?;
        Some(format!("`{}` changes: {consequence}", touched.path))
    })
}

/// Returns whether a path is that of a field, or of one below it.
fn is_within(path: &str, field: &str) -> bool {
    path.strip_prefix(field).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
}

/// Returns the images without a fixed tag or digest.
pub(super) fn find_unpinned_images(images: &[String]) -> Vec<&str> {
    images.iter().map(String::as_str).filter(|image| !is_pinned(image)).collect()
}

fn is_pinned(image: &str) -> bool {
    if image.contains('@') {
        return true;
    }
    // A colon before the last slash is a registry's port.
    let name = image.rsplit('/').next().unwrap_or(image);
    name.split_once(':').is_some_and(|(_, tag)| !tag.is_empty() && tag != "latest")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn make_hook(object: &str, event: &str) -> ChartHook {
        ChartHook { object: object.to_owned(), events: vec![event.to_owned()] }
    }

    #[test]
    fn hooks_that_run_a_program_are_listed_first() {
        // The order of volcano 1.15.1, and the removal hook of node-feature-discovery 0.19.0.
        let hooks = vec![
            make_hook("ServiceAccount init", "pre-install"),
            make_hook("Role init", "pre-install"),
            make_hook("Job init", "pre-install"),
            make_hook("Job prune", "post-delete"),
        ];
        let names = |trigger| list_hooks(&hooks, trigger).into_iter().map(|hook| hook.object).collect::<Vec<_>>();
        assert_eq!(names(HookTrigger::Install), ["Job init", "ServiceAccount init", "Role init"]);
        assert_eq!(names(HookTrigger::Uninstall), ["Job prune"]);
    }

    #[test]
    fn images_without_tag_or_digest_are_unpinned() {
        let all = ["a:1", "a", "r:5000/a", "r:5000/a:1", "a:latest", "a@sha256:00", "a:"].map(str::to_owned);
        assert_eq!(find_unpinned_images(&all), ["a", "r:5000/a", "a:latest", "a:"]);
    }
}
