//! Compares the kernel's mount table with the declared mount.

use super::options::{Found, compare, undeclared};
use super::{Mount, State};
use crate::model::{BlockClass, Disruption, Value};
use crate::probe::{MountState, Mounted, Observation, Unknown};
use crate::resource::support::{join, output, ticked};
use crate::resource::{Change, Context, Judgement};
use serde_json::json;

/// Compares the current mount.
pub(super) fn mounted(want: &Mount, state: &MountState) -> Judgement {
    let Some(top) = state.mounts.last() else {
        let change = Change::new("mounted", None, Some(&want.title_of_source()));
        return Judgement::change("nothing is mounted", vec![change], Disruption::D0, json!(null));
    };
    if top.fstype == "autofs" && want.options.iter().any(|option| option == "x-systemd.automount") {
        return Judgement::ok("mounted on first use", json!({ "fstype": "autofs" }));
    }
    let basis = json!({ "source": top.source, "fstype": top.fstype, "root": top.root, "options": top.options });
    match is_other(want, state, top) {
        Some(what) => Judgement::blocked(BlockClass::Host, format!("mounted at `{}`: {what}", want.path), basis)
            .hint("unmount it with an earlier step: forge neither mounts over it nor unmounts it"),
        None => options(want, top, basis),
    }
}

/// Describes the current mount if it is not the declared one.
fn is_other(want: &Mount, state: &MountState, top: &Mounted) -> Option<String> {
    let what = format!("`{}` ({})", top.source, top.fstype);
    if want.is_bind() {
        let right = state.bind.as_deref() == Some(top.root.as_str());
        return (!right).then(|| format!("{what}, which is not `{}`", want.source));
    }
    let type_fits = want.fstype == "auto" || top.fstype == want.fstype || top.fstype == format!("{}4", want.fstype);
    let trimmed = |name: &str| name.trim_end_matches('/').to_owned();
    let same_name = trimmed(&top.source) == trimmed(&want.source);
    let same_device =
        state.device.is_some() && (state.device == top.device || state.device.as_ref() == Some(&top.source));
    match (type_fits, same_name || same_device) {
        (true, true) => None,
        (false, _) => Some(format!("{what}, not {}", want.fstype)),
        (true, false) => Some(format!("{what}, not `{}`", want.source)),
    }
}

fn options(want: &Mount, top: &Mounted, basis: Value) -> Judgement {
    let mut changes = Vec::new();
    let mut hidden = Vec::new();
    for option in &want.options {
        match compare(option, &top.options) {
            Found::Holds => {}
            Found::Differs(found) => changes.push(Change::new("options", Some(&found), Some(option))),
            Found::NotShown if is_for_mount(option) => {}
            Found::NotShown => hidden.push(option),
        }
    }
    let restricted = undeclared(&want.options, &top.options);
    if restricted.contains(&("rw", "ro")) && top.source.starts_with("/dev/") {
        return read_only(top, basis);
    }
    changes.extend(restricted.into_iter().map(|(good, bad)| Change::new("options", Some(bad), Some(good))));
    if !changes.is_empty() {
        return Judgement::change("mount options differ", changes, Disruption::D1, basis);
    }
    match hidden.is_empty() {
        true => Judgement::ok("mounted", basis),
        false => Judgement::ok(format!("mounted; the kernel does not show {}", ticked(&hidden)), basis),
    }
}

/// Blocks: the kernel remounts a file system read-only when its disk fails, and forge must not write to it again.
fn read_only(top: &Mounted, basis: Value) -> Judgement {
    let reason = format!("`{}` is mounted read-only, but `ro` is not declared", top.source);
    Judgement::blocked(BlockClass::Hardware, reason, basis)
        .hint("check the kernel log for I/O errors; if an administrator did it, run `mount -o remount,rw`")
}

/// Reports whether an option is for `mount` or systemd and never reaches the kernel.
fn is_for_mount(option: &str) -> bool {
    const WORDS: [&str; 13] = [
        "defaults", "auto", "noauto", "nofail", "_netdev", "user", "nouser", "users", "owner", "group", "bind",
        "rbind", "loop",
    ];
    WORDS.contains(&option) || ["x-", "X-", "comment=", "loop=", "offset="].iter().any(|p| option.starts_with(p))
}

/// Evaluates an unmount.
pub(super) fn unmounted(want: &Mount, state: &MountState, seen: &Observation, cx: &Context<'_>) -> Judgement {
    try_unmounted(want, state, seen, cx).unwrap_or_else(|unknown| Judgement::unknown(&unknown))
}

fn try_unmounted(want: &Mount, state: &MountState, seen: &Observation, cx: &Context<'_>) -> Result<Judgement, Unknown> {
    let Some(top) = state.mounts.last() else { return Ok(Judgement::ok("nothing is mounted", json!(null))) };
    let holders = holders(want, seen)?;
    let basis = json!({ "source": top.source, "holders": !holders.is_empty(), "below": state.below });
    let change = |reason: String| {
        let from = format!("{} ({})", top.source, top.fstype);
        Judgement::change(reason, vec![Change::new("mounted", Some(&from), None)], Disruption::D1, basis.clone())
    };
    let reason = match (state.below.as_slice(), holders.as_slice()) {
        ([], []) => return Ok(change(format!("`{}` is mounted", top.source))),
        ([], holders) => format!("`{}` is in use by {}", want.path, join(holders)),
        (below, _) => format!("{} is mounted below `{}`", ticked(below), want.path),
    };
    Ok(match cx.predicted.and_then(|p| p.after.as_deref()) {
        Some(step) => change(format!("{reason}; `{step}` runs first and may change that")).predicted(),
        None => Judgement::blocked(BlockClass::Busy, reason, basis)
            .hint("stop its users with an earlier step: forge never kills a process"),
    })
}

/// Returns the processes that use the mount, as `bash (812)`.
fn holders(want: &Mount, seen: &Observation) -> Result<Vec<String>, Unknown> {
    let output = output(seen, &want.holders_probe())?;
    match output.status {
        0 => Ok(output.stdout.raw().lines().map(str::to_owned).collect()),
        status => Err(Unknown::new(format!("users of `{}` could not be listed (exit status {status})", want.path))
            .said(output.stderr.clone())),
    }
}

/// Evaluates the current mount as one part of the judgement.
pub(super) fn now(want: &Mount, state: &MountState, seen: &Observation, cx: &Context<'_>) -> Option<Judgement> {
    match want.state {
        State::Mounted => Some(mounted(want, state)),
        State::Unmounted => Some(unmounted(want, state, seen, cx)),
        State::Fstab => None,
    }
}
