//! Evaluates a module: its files, overrides in other files, whether it is loaded, and its effective options.

use super::config::{ModuleOption, find_loader_lines, is_in_force, list_options};
use super::declaration::KernelModuleResource;
use super::load_rules::{LoadRule, LoadRuleKind, list_load_rules};
use super::module_diff::{LoadedDiff, ModuleDiff, OverrideDiff};
use crate::model::{BlockClass, DisruptionClass, StepVerdict, Value};
use crate::probe::{ModulePresence, ModuleState, Observation, UnansweredReason};
use crate::resource::shared::composite::PartAssessments;
use crate::resource::shared::file_target::{FileDiff, FileTarget};
use crate::resource::shared::support::{join_quoted, join_words};
use crate::resource::{Assessment, AssessmentContext};
use serde_json::json;

/// Compares one of the step's own files.
pub(super) fn assess_file(
    folder: &str,
    target: &FileTarget,
    wanted: bool,
    seen: &Observation,
    cx: &AssessmentContext<'_>,
) -> Assessment<FileDiff> {
    if wanted {
        let judgement = target.assess(seen, cx, true);
        return match judgement.verdict {
            StepVerdict::Ok => Assessment { reason: format!("the file in {folder} matches").into(), ..judgement },
            _ => judgement,
        };
    }
    let judgement = target.assess_absent(seen);
    match judgement.verdict {
        StepVerdict::Ok => Assessment { reason: format!("no file is needed in {folder}").into(), ..judgement },
        _ => judgement,
    }
}

/// A link to `/dev/null` masks the unit that reads `modules-load.d` at boot.
const MASK: &str = "/etc/systemd/system/systemd-modules-load.service";

/// Combines the files, in `parts` and `files`, with the observed state of the module.
pub(super) fn assess_module(
    want: &KernelModuleResource,
    state: &ModuleState,
    (parts, files): (PartAssessments, ModuleDiff),
    cx: &AssessmentContext<'_>,
) -> Assessment<ModuleDiff> {
    let mut others = assess_other_sources(want, state, cx);
    let mut diff = ModuleDiff { others: others.diff.take(), ..files };
    let mut parts = parts.with_part("others", others);
    if want.loaded.is_some() || want.blacklisted {
        let mut loaded = assess_loaded(want, state, cx);
        diff.loaded = loaded.diff.take();
        parts = parts.with_part("loaded", loaded);
    }
    if !want.options.is_empty() && !want.blacklisted {
        parts = parts.with_part("options", assess_options(want, state));
    }
    parts.combine_with(Some(diff))
}

/// Evaluates other files and the kernel command line.
fn assess_other_sources(
    want: &KernelModuleResource,
    state: &ModuleState,
    cx: &AssessmentContext<'_>,
) -> Assessment<OverrideDiff> {
    let settings = list_options(state, &want.name);
    let others: Vec<&ModuleOption> = settings.iter().filter(|s| s.file != want.modprobe.path).collect();
    let rules = list_load_rules(state, &want.name, &want.modprobe.path);
    let options = others.iter().map(|s| format!("{}={} {}", s.key, s.value, s.place));
    let basis =
        json!(options.chain(rules.iter().map(|r| format!("{} {}", describe_rule(r), r.place))).collect::<Vec<_>>());
    let blocked = |(file, place): (&str, &str), reason: String, hint: &str| match find_changing_step(file, cx) {
        // It may be gone when this step runs, and is evaluated again then.
        Some(step) => {
            let reason = format!("{reason}; `{step}` runs first and may change that");
            let diff = OverrideDiff { place: place.to_owned() };
            Assessment::differs(reason, diff, DisruptionClass::D0, basis.clone()).mark_predicted()
        }
        None => Assessment::blocked(BlockClass::Host, reason, basis.clone()).hint(hint),
    };
    if let Some(over) = find_override(want, &others) {
        let reason = format!(
            "{} sets `{}={}` for `{}` after `{}`",
            format_place(&over.file, &over.place),
            over.key,
            over.value,
            want.name,
            want.modprobe.path
        );
        return blocked((&over.file, &over.place), reason, "remove that option with an earlier step");
    }
    if let Some(found) = find_denied(want, &others) {
        let place = format_place(&found.file, &found.place);
        let reason = format!("{place} sets `{}={}` for `{}`, which must not be set", found.key, found.value, want.name);
        return blocked((&found.file, &found.place), reason, "remove that option with an earlier step");
    }
    if want.at_boot == Some(true) && state.is_load_masked {
        let reason = "`systemd-modules-load.service` is masked: no file of `modules-load.d` is read at boot".to_owned();
        return blocked(
            (MASK, MASK),
            reason,
            "remove the mask with an earlier `absent` step, or run `systemctl unmask`",
        );
    }
    let loaders = find_loader_lines(state, &want.name);
    let foreign = loaders.iter().find(|line| line.file != want.modules_load.path);
    if let Some(line) = foreign.filter(|_| want.at_boot == Some(false) || want.blacklisted) {
        let reason = format!("`{}` loads `{}` at boot", line.format_location(), want.name);
        return blocked((&line.file, &line.format_location()), reason, "remove that line with an earlier step");
    }
    if lacks_module_at_boot(want, state, &rules) {
        return assess_missing_at_boot(want, basis, cx);
    }
    if let Some((rule, effect)) = find_contrary_rule(want, state, &rules) {
        let reason = format!("{} {effect}", format_place(&rule.file, &rule.place));
        return blocked((&rule.file, &rule.place), reason, "remove that with an earlier step");
    }
    Assessment::ok(describe_other_sources(want, &others, &rules), basis)
}

/// Reports whether no boot with this kernel loads the declared module, because there is none of its name. A rule may lead
/// to another module. With `loaded: true` its loading is compared too, and says so.
fn lacks_module_at_boot(want: &KernelModuleResource, state: &ModuleState, rules: &[LoadRule]) -> bool {
    let leads_elsewhere =
        |rule: &LoadRule| matches!(rule.kind, LoadRuleKind::OtherModule { .. } | LoadRuleKind::InstallCommand(_));
    let is_compared = want.at_boot == Some(true) && want.loaded != Some(true);
    is_compared && state.is_missing && !rules.iter().any(leads_elsewhere)
}

/// Evaluates a module that the running kernel lacks. An earlier step, or the kernel that starts next, may have it.
fn assess_missing_at_boot(
    want: &KernelModuleResource,
    basis: Value,
    cx: &AssessmentContext<'_>,
) -> Assessment<OverrideDiff> {
    let reason = format!("the running kernel has no module `{}`", want.name);
    if let Some(step) = cx.predicted.and_then(|earlier| earlier.after.as_deref()) {
        let diff = OverrideDiff { place: reason.clone() };
        let reason = format!("{reason} yet; `{step}` runs first");
        return Assessment::differs(reason, diff, DisruptionClass::D0, basis).mark_predicted();
    }
    Assessment::pending(reason, basis)
        .hint("check its name, or add a `package` step that installs it for this kernel before this one")
}

/// Returns the earlier step after which a file of module settings may be another one: a step changes it, or one of its
/// name in another directory, of which only the first is read. `file` is empty for the kernel command line.
fn find_changing_step<'c>(file: &str, cx: &AssessmentContext<'c>) -> Option<&'c str> {
    let earlier = cx.predicted?;
    let file_name = |path: &str| path.rsplit('/').next().unwrap_or_default().to_owned();
    let is_same = |path: &String| file_name(path) == file_name(file);
    let may_change = file.is_empty()
        || earlier.may_touch_other_files
        || earlier.will_touch.iter().chain(&earlier.will_go).any(is_same);
    earlier.after.as_deref().filter(|_| may_change)
}

/// Returns the rule of another source that prevents what the step declares, with its effect.
fn find_contrary_rule<'r>(
    want: &KernelModuleResource,
    state: &ModuleState,
    rules: &'r [LoadRule],
) -> Option<(&'r LoadRule, String)> {
    let name = &want.name;
    if state.presence == ModulePresence::Builtin {
        return None;
    }
    if want.blacklisted {
        // Its `install` line comes first, so that the step's own has no effect.
        let loads = |rule: &&LoadRule| matches!(rule.kind, LoadRuleKind::InstallCommand(_)) && !rule.denies_boot();
        let effect = format!("comes before `{}` and lets `modprobe {name}` run another command", want.modprobe.path);
        return rules.iter().find(loads).map(|rule| (rule, effect));
    }
    if want.at_boot == Some(true) {
        let rule = rules.iter().find(|rule| rule.denies_boot());
        return rule.map(|rule| (rule, format!("prevents `{name}` from being loaded at boot")));
    }
    let loads = want.loaded == Some(true) && state.presence == ModulePresence::NotLoaded;
    let rule = rules.iter().find(|rule| loads && rule.denies_modprobe());
    rule.map(|rule| (rule, format!("prevents `{name}` from being loaded")))
}

/// Formats a place whose `file` is empty if it is the kernel command line.
fn format_place(file: &str, place: &str) -> String {
    if file.is_empty() { place.to_owned() } else { format!("`{place}`") }
}

/// Returns the setting that overrides the step's own with another value.
fn find_override<'s>(want: &KernelModuleResource, others: &[&'s ModuleOption]) -> Option<&'s ModuleOption> {
    let name = |path: &str| path.rsplit('/').next().unwrap_or_default().to_owned();
    let own = name(&want.modprobe.path);
    let later = |s: &&&ModuleOption| s.file.is_empty() || name(&s.file) > own;
    want.options.iter().find_map(|(key, value)| {
        let last = others.iter().filter(later).rfind(|s| s.key == *key)?;
        (!is_in_force(&last.value, value) && !is_in_force(value, &last.value)).then_some(*last)
    })
}

/// Returns the setting that gives an option the denied value. The last one takes effect.
fn find_denied<'s>(want: &KernelModuleResource, others: &[&'s ModuleOption]) -> Option<&'s ModuleOption> {
    want.denied.iter().filter(|_| !want.absent).find_map(|(key, value)| {
        let last = others.iter().rfind(|setting| setting.key == *key)?;
        is_in_force(&last.value, value).then_some(*last)
    })
}

/// Lists options that other sources set and the step does not declare, and their rules about loading.
fn describe_other_sources(want: &KernelModuleResource, others: &[&ModuleOption], rules: &[LoadRule]) -> String {
    let strange = others.iter().filter(|s| !want.options.contains_key(&s.key));
    let options = strange.map(|s| format!("{} also sets `{}={}`", format_place(&s.file, &s.place), s.key, s.value));
    let rules = rules.iter().map(|rule| format!("{} {}", format_place(&rule.file, &rule.place), describe_rule(rule)));
    let words: Vec<String> = options.chain(rules).collect();
    match words.is_empty() {
        true => "no other file configures it".to_owned(),
        false => join_words(&words),
    }
}

fn describe_rule(rule: &LoadRule) -> String {
    match &rule.kind {
        LoadRuleKind::Denylisted => "also blacklists it".to_owned(),
        LoadRuleKind::KernelRefuses => "lets the kernel refuse it".to_owned(),
        LoadRuleKind::OtherModule { module, .. } => format!("has `{module}` loaded in its place"),
        LoadRuleKind::InstallCommand(command) => format!("runs `{command}` instead of loading it"),
    }
}

fn assess_loaded(
    want: &KernelModuleResource,
    state: &ModuleState,
    cx: &AssessmentContext<'_>,
) -> Assessment<LoadedDiff> {
    let basis = json!(state.presence);
    match (state.presence, want.loaded) {
        (ModulePresence::Changing, _) => {
            Assessment::unknown(&UnansweredReason::new("the module is being loaded or unloaded"))
        }
        (ModulePresence::Hidden, _) => assess_hidden(),
        (ModulePresence::Loaded, Some(true)) => Assessment::ok("it is loaded", basis),
        (ModulePresence::Builtin, Some(true)) => Assessment::ok("it is built into the kernel", basis),
        (ModulePresence::NotLoaded, Some(true)) => assess_load(want, state, cx),
        (ModulePresence::NotLoaded, _) => Assessment::ok("it is not loaded", basis),
        (ModulePresence::Builtin, _) => {
            let reason = format!("`{}` is built into the kernel, so it is always loaded", want.name);
            Assessment::blocked(BlockClass::Hardware, reason, basis)
        }
        (ModulePresence::Loaded, Some(false)) => assess_unload(want, state, cx),
        (ModulePresence::Loaded, None) => Assessment::pending(STILL_LOADED, basis)
            .mark_reboot_required()
            .hint("reboot the host, or set `loaded: false` if nothing uses it"),
    }
}

const STILL_LOADED: &str = "blacklisted, but loaded until it is unloaded or the host reboots";

fn assess_hidden<D>() -> Assessment<D> {
    Assessment::unknown(&UnansweredReason::new("loaded modules could not be read: `/sys/module` does not exist"))
        .hint("a container uses the modules of its machine: declare them on the machine")
}

fn assess_load(want: &KernelModuleResource, state: &ModuleState, cx: &AssessmentContext<'_>) -> Assessment<LoadedDiff> {
    let change =
        |reason: String| Assessment::differs(reason, LoadedDiff::Load, DisruptionClass::D0, json!("not loaded"));
    if !state.loadable {
        let reason = "this kernel does not support loadable modules".to_owned();
        return Assessment::blocked(BlockClass::Hardware, reason, json!("not-loaded"));
    }
    if state.available {
        return change("it is not loaded".to_owned());
    }
    if let Some(step) = cx.predicted.and_then(|p| p.after.as_deref()) {
        return change(format!("the running kernel has no module `{}` yet; `{step}` runs first", want.name))
            .mark_predicted();
    }
    let reason = format!("the running kernel has no module `{}`", want.name);
    Assessment::blocked(BlockClass::Host, reason, json!("not-available"))
        .hint("add a `package` step that installs it for this kernel before this one")
}

fn assess_unload(
    want: &KernelModuleResource,
    state: &ModuleState,
    cx: &AssessmentContext<'_>,
) -> Assessment<LoadedDiff> {
    let change = |reason: String| Assessment::differs(reason, LoadedDiff::Unload, DisruptionClass::D2, json!("loaded"));
    if state.holders.is_empty() && state.refcount == Some(0) {
        return change("it is loaded".to_owned());
    }
    let reason = match (state.refcount, state.holders.as_slice()) {
        (None, _) => format!("`{}` cannot be unloaded: this kernel does not support unloading", want.name),
        (Some(count), []) => format!("`{}` is in use {count} times", want.name),
        (Some(count), holders) => {
            format!("`{}` is in use {count} times, including by {}", want.name, join_quoted(holders))
        }
    };
    match cx.predicted.is_some_and(|p| p.after.is_some()) {
        true => change(reason).mark_predicted(),
        false => Assessment::blocked(BlockClass::Busy, reason, json!({ "loaded": true, "holders": state.holders }))
            .hint("stop its users, and unload the modules that depend on it, with earlier steps"),
    }
}

/// Compares the effective options. They cannot be compared while the module is not loaded.
fn assess_options(want: &KernelModuleResource, state: &ModuleState) -> Assessment {
    if state.presence == ModulePresence::NotLoaded {
        return Assessment::ok("it is not loaded, so its options have not taken effect yet", json!(null));
    }
    if state.presence == ModulePresence::Hidden {
        return assess_hidden();
    }
    let seen: Vec<_> = want.options.iter().filter(|(key, _)| !want.hidden.contains(key)).collect();
    let basis = json!(seen.iter().map(|(key, _)| (key, state.parameters.get(*key))).collect::<Vec<_>>());
    let unseen: Vec<&String> =
        seen.iter().map(|(key, _)| *key).filter(|key| !state.parameters.contains_key(*key)).collect();
    let differ: Vec<String> = seen
        .iter()
        .filter_map(|(key, value)| Some((key, value, state.parameters.get(*key)?.raw())))
        .filter(|(_, value, found)| !is_in_force(found, value))
        .map(|(key, value, found)| format!("`{key}` is `{found}` instead of `{value}`"))
        .collect();
    if !differ.is_empty() {
        return assess_not_in_force(want, state, &join_words(&differ), basis);
    }
    if !unseen.is_empty() {
        let why = format!("the kernel does not show whether {} effective", join_with_verb(&unseen));
        return Assessment::unknown(&UnansweredReason::new(why))
            .hint("list it in `hidden` to compare only its configuration");
    }
    let reason = match want.hidden.as_slice() {
        [] => "loaded with the configured options".to_owned(),
        hidden => {
            format!("loaded with the configured options; the kernel does not show {}", join_quoted(hidden))
        }
    };
    Assessment::ok(reason, basis)
}

fn join_with_verb(options: &[&String]) -> String {
    format!("{} {}", join_quoted(options), if options.len() == 1 { "is" } else { "are" })
}

fn assess_not_in_force(
    want: &KernelModuleResource,
    state: &ModuleState,
    differ: &str,
    basis: crate::model::Value,
) -> Assessment {
    if state.presence == ModulePresence::Builtin {
        let reason = format!("`{}` is built into the kernel, so modprobe.d has no effect on it: {differ}", want.name);
        return Assessment::blocked(BlockClass::Host, reason, basis)
            .hint(format!("set it on the kernel command line as `{}.OPTION=VALUE`", want.name));
    }
    let reason = format!("{differ}; needs a reload of the module or a reboot");
    Assessment { verdict: StepVerdict::Pending, ..Assessment::ok(reason, basis) }
}
