//! Evaluates a module: its files, overrides in other files, whether it is loaded, and its effective options.

use super::config::{Setting, in_force, loaders, settings};
use super::{Module, loaded_change};
use crate::model::{BlockClass, Disruption, Verdict};
use crate::probe::{ModuleState, Observation, Presence, Unknown};
use crate::resource::body::Target;
use crate::resource::parts::Parts;
use crate::resource::support::{join, ticked};
use crate::resource::{Change, Context, Judgement};
use serde_json::json;

/// Compares one of the step's own files.
pub(super) fn file(folder: &str, target: &Target, wanted: bool, seen: &Observation, cx: &Context<'_>) -> Judgement {
    if wanted {
        let judgement = target.judge(seen, cx, true);
        return match judgement.verdict {
            Verdict::Ok => Judgement { reason: format!("the file in {folder} matches").into(), ..judgement },
            _ => judgement,
        };
    }
    let judgement = target.judge_absent(seen);
    match judgement.verdict {
        Verdict::Ok => Judgement { reason: format!("no file is needed in {folder}").into(), ..judgement },
        _ => judgement,
    }
}

/// Adds the observed state of the module to the parts.
pub(super) fn module(want: &Module, state: &ModuleState, parts: Parts, cx: &Context<'_>) -> Parts {
    let mut parts = parts.with("others", others(want, state, cx));
    if want.loaded.is_some() || want.blacklisted {
        parts = parts.with("loaded", loaded(want, state, cx));
    }
    if !want.options.is_empty() && !want.blacklisted {
        parts = parts.with("options", options(want, state));
    }
    parts
}

/// Evaluates other files and the kernel command line.
fn others(want: &Module, state: &ModuleState, cx: &Context<'_>) -> Judgement {
    let settings = settings(state, &want.name);
    let others: Vec<&Setting> = settings.iter().filter(|s| s.file != want.modprobe.path).collect();
    let basis = json!(others.iter().map(|s| format!("{}={} {}", s.key, s.value, s.place)).collect::<Vec<_>>());
    let blocked = |place: &str, reason: String, hint: &str| match cx.predicted.and_then(|p| p.after.as_deref()) {
        // An earlier step may remove it; forge evaluates this step again when it runs.
        Some(step) => {
            let reason = format!("{reason}; `{step}` runs first and may change that");
            let change = Change::new("others", Some(place), None);
            Judgement::change(reason, vec![change], Disruption::D0, basis.clone()).predicted()
        }
        None => Judgement::blocked(BlockClass::Host, reason, basis.clone()).hint(hint),
    };
    if let Some(over) = overriding(want, &others) {
        let reason = format!(
            "{} sets `{}={}` for `{}` after `{}`",
            place(over),
            over.key,
            over.value,
            want.name,
            want.modprobe.path
        );
        return blocked(&over.place, reason, "remove that option with an earlier step");
    }
    let loaders = loaders(state, &want.name);
    let foreign = loaders.iter().find(|line| line.file != want.modules_load.path);
    if let Some(line) = foreign.filter(|_| want.at_boot == Some(false) || want.blacklisted) {
        let reason = format!("`{}` loads `{}` at boot", line.place(), want.name);
        return blocked(&line.place(), reason, "remove that line with an earlier step");
    }
    Judgement::ok(more(want, &others), basis)
}

fn place(setting: &Setting) -> String {
    if setting.file.is_empty() { setting.place.clone() } else { format!("`{}`", setting.place) }
}

/// Returns the setting that overrides the step's own with another value.
fn overriding<'s>(want: &Module, others: &[&'s Setting]) -> Option<&'s Setting> {
    let name = |path: &str| path.rsplit('/').next().unwrap_or_default().to_owned();
    let own = name(&want.modprobe.path);
    let later = |s: &&&Setting| s.file.is_empty() || name(&s.file) > own;
    want.options.iter().find_map(|(key, value)| {
        let last = others.iter().filter(later).rfind(|s| s.key == *key)?;
        (!in_force(&last.value, value) && !in_force(value, &last.value)).then_some(*last)
    })
}

/// Lists options that other files set and the step does not declare.
fn more(want: &Module, others: &[&Setting]) -> String {
    let strange = others.iter().filter(|s| !want.options.contains_key(&s.key));
    let words: Vec<String> = strange.map(|s| format!("{} also sets `{}={}`", place(s), s.key, s.value)).collect();
    match words.is_empty() {
        true => "no other file configures it".to_owned(),
        false => join(&words),
    }
}

fn loaded(want: &Module, state: &ModuleState, cx: &Context<'_>) -> Judgement {
    let basis = json!(state.presence);
    match (state.presence, want.loaded) {
        (Presence::Changing, _) => Judgement::unknown(&Unknown::new("the module is being loaded or unloaded")),
        (Presence::Hidden, _) => hidden(),
        (Presence::Loaded, Some(true)) => Judgement::ok("it is loaded", basis),
        (Presence::Builtin, Some(true)) => Judgement::ok("it is built into the kernel", basis),
        (Presence::NotLoaded, Some(true)) => load(want, state, cx),
        (Presence::NotLoaded, _) => Judgement::ok("it is not loaded", basis),
        (Presence::Builtin, _) => {
            let reason = format!("`{}` is built into the kernel, so it is always loaded", want.name);
            Judgement::blocked(BlockClass::Hardware, reason, basis)
        }
        (Presence::Loaded, Some(false)) => unload(want, state, cx),
        (Presence::Loaded, None) => Judgement::pending(STILL_LOADED, basis)
            .by_reboot()
            .hint("reboot the host, or set `loaded: false` if nothing uses it"),
    }
}

const STILL_LOADED: &str = "blacklisted, but loaded until it is unloaded or the host reboots";

fn hidden() -> Judgement {
    Judgement::unknown(&Unknown::new("loaded modules could not be read: `/sys/module` does not exist"))
        .hint("a container uses the modules of its machine: declare them on the machine")
}

fn load(want: &Module, state: &ModuleState, cx: &Context<'_>) -> Judgement {
    let change = |reason: String| loaded_change("not loaded", "loaded", reason, Disruption::D0);
    if !state.loadable {
        let reason = "this kernel does not support loadable modules".to_owned();
        return Judgement::blocked(BlockClass::Hardware, reason, json!("not-loaded"));
    }
    if state.available {
        return change("it is not loaded".to_owned());
    }
    if let Some(step) = cx.predicted.and_then(|p| p.after.as_deref()) {
        return change(format!("the running kernel has no module `{}` yet; `{step}` runs first", want.name))
            .predicted();
    }
    let reason = format!("the running kernel has no module `{}`", want.name);
    Judgement::blocked(BlockClass::Host, reason, json!("not-available"))
        .hint("add a `package` step that installs it for this kernel before this one")
}

fn unload(want: &Module, state: &ModuleState, cx: &Context<'_>) -> Judgement {
    let change = || loaded_change("loaded", "not loaded", "it is loaded".to_owned(), Disruption::D2);
    if state.holders.is_empty() && state.refcount == Some(0) {
        return change();
    }
    let reason = match (state.refcount, state.holders.as_slice()) {
        (None, _) => format!("`{}` cannot be unloaded: this kernel does not support unloading", want.name),
        (Some(count), []) => format!("`{}` is in use {count} times", want.name),
        (Some(count), holders) => {
            format!("`{}` is in use {count} times, including by {}", want.name, ticked(holders))
        }
    };
    match cx.predicted.is_some_and(|p| p.after.is_some()) {
        true => Judgement { reason: reason.into(), ..change() }.predicted(),
        false => Judgement::blocked(BlockClass::Busy, reason, json!({ "loaded": true, "holders": state.holders }))
            .hint("stop its users, and unload the modules that depend on it, with earlier steps"),
    }
}

/// Compares the effective options. They cannot be compared while the module is not loaded.
fn options(want: &Module, state: &ModuleState) -> Judgement {
    if state.presence == Presence::NotLoaded {
        return Judgement::ok("it is not loaded, so its options have not taken effect yet", json!(null));
    }
    if state.presence == Presence::Hidden {
        return hidden();
    }
    let seen: Vec<_> = want.options.iter().filter(|(key, _)| !want.hidden.contains(key)).collect();
    let basis = json!(seen.iter().map(|(key, _)| (key, state.parameters.get(*key))).collect::<Vec<_>>());
    let unseen: Vec<&String> =
        seen.iter().map(|(key, _)| *key).filter(|key| !state.parameters.contains_key(*key)).collect();
    let differ: Vec<String> = seen
        .iter()
        .filter_map(|(key, value)| Some((key, value, state.parameters.get(*key)?.raw())))
        .filter(|(_, value, found)| !in_force(found, value))
        .map(|(key, value, found)| format!("`{key}` is `{found}` instead of `{value}`"))
        .collect();
    if !differ.is_empty() {
        return not_in_force(want, state, &join(&differ), basis);
    }
    if !unseen.is_empty() {
        let why = format!("the kernel does not show whether {} effective", is_are(&unseen));
        return Judgement::unknown(&Unknown::new(why)).hint("list it in `hidden` to compare only its configuration");
    }
    let reason = match want.hidden.as_slice() {
        [] => "loaded with the configured options".to_owned(),
        hidden => {
            format!("loaded with the configured options; the kernel does not show {}", ticked(hidden))
        }
    };
    Judgement::ok(reason, basis)
}

fn is_are(options: &[&String]) -> String {
    format!("{} {}", ticked(options), if options.len() == 1 { "is" } else { "are" })
}

fn not_in_force(want: &Module, state: &ModuleState, differ: &str, basis: crate::model::Value) -> Judgement {
    if state.presence == Presence::Builtin {
        let reason = format!("`{}` is built into the kernel, so modprobe.d has no effect on it: {differ}", want.name);
        return Judgement::blocked(BlockClass::Host, reason, basis)
            .hint(format!("set it on the kernel command line as `{}.OPTION=VALUE`", want.name));
    }
    let reason = format!("configured, not yet effective: {differ}; needs a reload of the module or a reboot");
    Judgement { verdict: Verdict::Pending, ..Judgement::ok(reason, basis) }
}
