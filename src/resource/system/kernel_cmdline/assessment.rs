//! Compares a kernel command line: the step's own file, the arguments of the next boot and those of the running kernel.

use super::cmdline_diff::{CmdlineDiff, NEXT_BOOT, NextBootDiff};
use super::declaration::KernelCmdlineResource;
use super::grub::{GrubOverride, find_override, is_set_elsewhere};
use super::kernel_arguments::{ArgumentMismatch, DeclaredArguments, KernelArgument, join_arguments, split_cmdline};
use crate::model::{BlockClass, DisruptionClass, StepVerdict};
use crate::probe::{BootEntry, BootLoader, CmdlineState, Observation, UnansweredReason};
use crate::resource::shared::composite::PartAssessments;
use crate::resource::shared::file_target::FileDiff;
use crate::resource::shared::support::join_quoted;
use crate::resource::{Assessment, AssessmentContext};
use serde_json::json;

/// Compares declared arguments.
pub(super) fn assess_declared(
    want: &KernelCmdlineResource,
    state: &CmdlineState,
    seen: &Observation,
    cx: &AssessmentContext<'_>,
) -> Assessment<CmdlineDiff> {
    let loaded = assess_loaded(&want.wanted, state);
    match &state.loader {
        BootLoader::Other { found } => assess_without_loader(&loaded, state, found, cx),
        BootLoader::UpdateGrub { lines, entries } => {
            let file = want.target.assess(seen, cx, true);
            let over = find_override(lines, &want.target.path, &want.wanted);
            let next = match over {
                Some(over) => assess_overridden(want, over, cx),
                None => assess_next_boot(&want.wanted, entries),
            };
            combine_update_grub(file, next, Some(loaded))
        }
        BootLoader::Grubby { entries } => combine_grubby(assess_next_boot(&want.wanted, entries), Some(loaded)),
    }
}

/// Evaluates a removal: the next boot has no argument of the step, except those that another file sets.
pub(super) fn assess_removal(
    want: &KernelCmdlineResource,
    state: &CmdlineState,
    seen: &Observation,
) -> Assessment<CmdlineDiff> {
    let own = want.wanted.parse_present();
    match &state.loader {
        BootLoader::Other { found } => Assessment::unknown(&UnansweredReason::new(format!(
            "the arguments of the next boot could not be determined: {}",
            describe_missing_loader(state, found)
        ))),
        BootLoader::UpdateGrub { lines, entries } => {
            let others = |word: &KernelArgument| is_set_elsewhere(lines, &want.target.path, word);
            let own: Vec<KernelArgument> = own.into_iter().filter(|word| !others(word)).collect();
            let file = note_loaded_arguments(want.target.assess_absent(seen), &own, state);
            combine_update_grub(file, assess_leftovers(&own, entries), None)
        }
        BootLoader::Grubby { entries } => {
            combine_grubby(note_loaded_arguments(assess_leftovers(&own, entries), &own, state), None)
        }
    }
}

fn combine_update_grub(
    mut file: Assessment<FileDiff>,
    mut next_boot: Assessment<NextBootDiff>,
    loaded: Option<Assessment>,
) -> Assessment<CmdlineDiff> {
    let diff = CmdlineDiff::UpdateGrub { file: file.diff.take().map(Box::new), next_boot: next_boot.diff.take() };
    let parts = loader_part("update-grub").with_part("file", file).with_part(NEXT_BOOT, next_boot);
    add_loaded(parts, loaded).combine_with(Some(diff))
}

fn combine_grubby(mut next_boot: Assessment<NextBootDiff>, loaded: Option<Assessment>) -> Assessment<CmdlineDiff> {
    let diff = next_boot.diff.take().map(CmdlineDiff::Grubby);
    add_loaded(loader_part("grubby").with_part(NEXT_BOOT, next_boot), loaded).combine_with(diff)
}

/// Records the loader in the basis: a plan for another loader is stale.
fn loader_part(loader: &str) -> PartAssessments {
    PartAssessments::default().with_part("loader", <Assessment>::ok("", json!(loader)))
}

fn add_loaded(parts: PartAssessments, loaded: Option<Assessment>) -> PartAssessments {
    match loaded {
        Some(loaded) => parts.with_part("loaded", loaded),
        None => parts,
    }
}

/// Adds to the reason that the running kernel keeps its arguments.
fn note_loaded_arguments<D>(judgement: Assessment<D>, own: &[KernelArgument], state: &CmdlineState) -> Assessment<D> {
    let loaded = split_cmdline(state.loaded.raw());
    match own.iter().any(|word| loaded.contains(word)) {
        true => Assessment {
            reason: format!("{}; loaded arguments remain until the next boot", judgement.reason.raw()).into(),
            ..judgement
        },
        false => judgement,
    }
}

fn assess_loaded(wanted: &DeclaredArguments, state: &CmdlineState) -> Assessment {
    let lacks = wanted.find_mismatches(state.loaded.raw());
    let basis = json!(lacks.iter().map(|lack| join_arguments(&lack.have)).collect::<Vec<_>>());
    if lacks.is_empty() {
        return Assessment::ok(format!("running kernel: arguments match{}", describe_surplus(state)), basis);
    }
    let reason = format!("configured, not loaded: {}; needs a reboot", describe_mismatches(&lacks));
    let pending = Assessment::pending(reason, basis);
    match state.container.is_empty() {
        true => pending.mark_reboot_required(),
        // A reboot of the container does not change the arguments.
        false => pending.host_hint(format!(
            "this is a container ({}): it uses the kernel command line of its machine",
            state.container
        )),
    }
}

/// Names the arguments of the running kernel that no entry of the boot menu has: ones that a step declared before, for
/// example. The boot loader adds the names of its files, and `grubby` prints the root file system separately. Nothing is
/// known of entries with variables, such as `$tuned_params`, which the boot loader replaces.
fn describe_surplus(state: &CmdlineState) -> String {
    let (BootLoader::UpdateGrub { entries, .. } | BootLoader::Grubby { entries }) = &state.loader else {
        return String::new();
    };
    let next: Vec<KernelArgument> = entries.iter().flat_map(|entry| split_cmdline(entry.args.raw())).collect();
    let is_surplus =
        |word: &KernelArgument| !["BOOT_IMAGE", "initrd", "root"].contains(&&*word.name) && !next.contains(word);
    let surplus: Vec<KernelArgument> = split_cmdline(state.loaded.raw()).into_iter().filter(is_surplus).collect();
    let has_variables = entries.iter().any(|entry| entry.args.raw().contains('$'));
    match surplus.is_empty() || entries.is_empty() || has_variables || !state.container.is_empty() {
        true => String::new(),
        false => format!("; until the next boot it also has `{}`", join_arguments(&surplus)),
    }
}

fn describe_mismatches(lacks: &[ArgumentMismatch]) -> String {
    lacks.iter().map(ArgumentMismatch::describe).collect::<Vec<_>>().join(", ")
}

/// Evaluates a host without a supported boot loader. Never `ok`: the next boot may lack the arguments.
fn assess_without_loader(
    loaded: &Assessment,
    state: &CmdlineState,
    found: &[String],
    cx: &AssessmentContext<'_>,
) -> Assessment<CmdlineDiff> {
    let basis = json!({ "loader": "other", "loaded": loaded.basis });
    let why = describe_missing_loader(state, found);
    let earlier = cx.predicted.and_then(|p| p.after.as_deref());
    if let Some(step) = earlier.filter(|_| state.container.is_empty()) {
        let reason = format!("{why}; `{step}` runs first and may change that");
        let judgement = Assessment::differs(reason, CmdlineDiff::NoLoader, DisruptionClass::D0, basis).mark_predicted();
        return Assessment { by_reboot: loaded.by_reboot, ..judgement };
    }
    let judgement = match loaded.verdict {
        StepVerdict::Ok => Assessment {
            basis,
            ..Assessment::unknown(&UnansweredReason::new(format!(
                "running kernel: arguments match; next boot could not be checked: {why}"
            )))
        },
        _ => Assessment::blocked(BlockClass::Host, format!("cannot be configured here: {why}"), basis),
    };
    judgement.hint(loader_hint(state, found))
}

fn describe_missing_loader(state: &CmdlineState, found: &[String]) -> String {
    match (state.container.as_str(), found) {
        ("", []) => "this host has neither GRUB's menu with `update-grub` nor `grubby`".to_owned(),
        ("", found) => {
            format!("this host has neither GRUB's menu with `update-grub` nor `grubby`; it has {}", join_quoted(found))
        }
        (container, _) => format!("this host is a container ({container}), which does not boot a kernel"),
    }
}

fn loader_hint(state: &CmdlineState, found: &[String]) -> &'static str {
    let has = |part: &str| found.iter().any(|path| path.contains(part));
    if !state.container.is_empty() {
        "declare the arguments on the container's machine"
    } else if has("kernel/cmdline") || has("loader.conf") {
        "systemd-boot reads `/etc/kernel/cmdline`: write it with a `file` step, and run `kernel-install` or \
         `bootctl` in a `command` step"
    } else if has("grub2/grub.cfg") || has("default/grub") {
        "install `grubby`, or set `GRUB_CMDLINE_LINUX` with a `line` step and regenerate the menu in a `command` step"
    } else {
        "set the arguments where the host gets its kernel: the hypervisor, the network boot server or the \
         loader's own file"
    }
}

fn assess_overridden(
    want: &KernelCmdlineResource,
    over: GrubOverride,
    cx: &AssessmentContext<'_>,
) -> Assessment<NextBootDiff> {
    let reason = format!("`{}` {} after `{}`", over.place, over.does, want.target.path);
    let basis = json!({ "overridden": over.place, "does": over.does });
    match cx.predicted.and_then(|p| p.after.as_deref()) {
        // An earlier step may remove it; forge evaluates this step again when it runs.
        Some(step) => {
            let reason = format!("{reason}; `{step}` runs first and may change that");
            Assessment::differs(reason, NextBootDiff::Overridden(over), DisruptionClass::D0, basis).mark_predicted()
        }
        None => Assessment::blocked(BlockClass::Host, reason, basis).hint(format!(
            "remove that line with an earlier step, or set `file: {}/zz-forge.cfg`, which is read later",
            super::grub::FOLDER
        )),
    }
}

/// Compares the arguments of the next boot: of all entries except rescue entries, because any of them may boot.
fn assess_next_boot(wanted: &DeclaredArguments, entries: &[BootEntry]) -> Assessment<NextBootDiff> {
    let plain: Vec<&BootEntry> = entries.iter().filter(|entry| !entry.rescue).collect();
    if plain.is_empty() {
        return Assessment::unknown(&UnansweredReason::new("no kernel entry in the boot loader's menu"))
            .host_hint("install a kernel, or regenerate the menu with `update-grub`");
    }
    let all: Vec<(&BootEntry, Vec<ArgumentMismatch>)> =
        plain.iter().map(|e| (*e, wanted.find_mismatches(e.args.raw()))).collect();
    if let Some((entry, _)) = all.iter().find(|(e, lacks)| !lacks.is_empty() && e.args.raw().contains("$kernelopts")) {
        let why = format!("the entry `{}` reads `$kernelopts` from GRUB's environment", entry.title.raw());
        return Assessment::unknown(&UnansweredReason::new(why));
    }
    let bad: Vec<&(&BootEntry, Vec<ArgumentMismatch>)> = all.iter().filter(|(_, lacks)| !lacks.is_empty()).collect();
    let Some((_, lacks)) = bad.first() else {
        return Assessment::ok(
            format!("next boot: arguments match ({})", format_entry_count(plain.len())),
            json!("as declared"),
        );
    };
    let remove = bad.iter().flat_map(|(_, lacks)| lacks).flat_map(|lack| &lack.have);
    next_boot_change(
        format!("{} in {} of {}", describe_mismatches(lacks), bad.len(), format_entry_count(plain.len())),
        NextBootDiff::new(lacks.clone(), remove, all.iter().all(|(_, other)| other == lacks)),
    )
}

fn format_entry_count(entries: usize) -> String {
    if entries == 1 { "1 entry".to_owned() } else { format!("{entries} entries") }
}

fn next_boot_change(why: String, diff: NextBootDiff) -> Assessment<NextBootDiff> {
    let basis = json!({ "remove": diff.arguments_to_remove() });
    Assessment::differs(format!("next boot: {why}"), diff, DisruptionClass::D0, basis)
}

/// Reports the step's arguments that remain in the menu.
fn assess_leftovers(own: &[KernelArgument], entries: &[BootEntry]) -> Assessment<NextBootDiff> {
    let has = |entry: &BootEntry, word: &KernelArgument| split_cmdline(entry.args.raw()).contains(word);
    let in_menu = |word: &&KernelArgument| entries.iter().any(|entry| has(entry, word));
    let left: Vec<KernelArgument> = own.iter().filter(in_menu).cloned().collect();
    let mut plain = entries.iter().filter(|entry| !entry.rescue);
    let uniform = plain.all(|entry| left.iter().all(|word| has(entry, word)));
    if left.is_empty() {
        return Assessment::ok("next boot: no arguments of this step", json!("none"));
    }
    let lacks: Vec<ArgumentMismatch> =
        left.iter().map(|word| ArgumentMismatch { have: vec![word.clone()], want: Vec::new() }).collect();
    next_boot_change(describe_mismatches(&lacks), NextBootDiff::new(lacks, left.iter(), uniform))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn make_entry(args: &str, rescue: bool) -> BootEntry {
        BootEntry { title: "Linux".into(), args: args.into(), rescue }
    }

    fn make_arguments(args: &[&str]) -> DeclaredArguments {
        DeclaredArguments::new(args.iter().map(|w| (*w).to_owned()).collect(), Vec::new()).unwrap()
    }

    #[test]
    fn rescue_boot_entries_are_ignored() {
        let entries = [make_entry("ro iommu=pt", false), make_entry("ro single", true)];
        assert_eq!(assess_next_boot(&make_arguments(&["iommu=pt"]), &entries).verdict, StepVerdict::Ok);
        let judged = assess_next_boot(
            &make_arguments(&["iommu=pt"]),
            &[make_entry("ro iommu=pt", false), make_entry("ro iommu=off", false)],
        );
        assert_eq!(judged.reason.raw(), "next boot: `iommu=off` instead of `iommu=pt` in 1 of 2 entries");
        assert_eq!(judged.basis, json!({ "remove": ["iommu=off"] }));
    }

    #[test]
    fn unreadable_boot_arguments_are_assessed_as_unknown() {
        assert_eq!(assess_next_boot(&make_arguments(&["iommu=pt"]), &[]).verdict, StepVerdict::Unknown);
        let hidden = [make_entry("root=/dev/sda1 $kernelopts $tuned_params", false)];
        assert_eq!(assess_next_boot(&make_arguments(&["iommu=pt"]), &hidden).verdict, StepVerdict::Unknown);
    }
}
