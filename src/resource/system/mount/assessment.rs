//! Compares the kernel's mount table with the declared mount.

use super::declaration::{DesiredMountState, MountResource};
use super::mount_diff::CurrentMountDiff;
use super::options::{MountOptionMatch, match_option, undeclared_restrictions};
use crate::model::{BlockClass, DisruptionClass, Value};
use crate::probe::{MountState, Observation, ObservedMount, UnansweredReason};
use crate::resource::shared::support::{join_quoted, join_words, output};
use crate::resource::{Assessment, AssessmentContext, ValueChange};
use serde_json::json;

/// Compares the current mount.
fn assess_mounted(want: &MountResource, state: &MountState) -> Assessment<CurrentMountDiff> {
    let Some(top) = state.mounts.last() else {
        let diff = CurrentMountDiff::Mount { source: want.source.clone(), fstype: want.fstype.clone() };
        return Assessment::differs("nothing is mounted", diff, DisruptionClass::D0, json!(null));
    };
    if top.fstype == "autofs" && want.options.iter().any(|option| option == "x-systemd.automount") {
        return Assessment::ok("mounted on first use", json!({ "fstype": "autofs" }));
    }
    let basis = json!({ "source": top.source, "fstype": top.fstype, "root": top.root, "options": top.options });
    match describe_other_mount(want, state, top) {
        Some(what) => Assessment::blocked(BlockClass::Host, format!("mounted at `{}`: {what}", want.path), basis)
            .hint("unmount it with an earlier step: forge neither mounts over it nor unmounts it"),
        None => assess_options(want, top, basis),
    }
}

/// Describes the current mount if it is not the declared one.
fn describe_other_mount(want: &MountResource, state: &MountState, top: &ObservedMount) -> Option<String> {
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

fn assess_options(want: &MountResource, top: &ObservedMount, basis: Value) -> Assessment<CurrentMountDiff> {
    let mut options = Vec::new();
    let mut hidden = Vec::new();
    for option in &want.options {
        match match_option(option, &top.options) {
            MountOptionMatch::Holds => {}
            MountOptionMatch::Differs(found) => options.push(ValueChange::new(found, option.clone())),
            MountOptionMatch::NotShown if is_mount_only_option(option) => {}
            MountOptionMatch::NotShown => hidden.push(option),
        }
    }
    let restricted = undeclared_restrictions(&want.options, &top.options);
    if restricted.contains(&("rw", "ro")) && top.source.starts_with("/dev/") {
        return block_read_only(top, basis);
    }
    options.extend(restricted.into_iter().map(|(good, bad)| ValueChange::new(bad.to_owned(), good.to_owned())));
    if !options.is_empty() {
        let diff = CurrentMountDiff::Remount { options };
        return Assessment::differs("mount options differ", diff, DisruptionClass::D1, basis);
    }
    match hidden.is_empty() {
        true => Assessment::ok("mounted", basis),
        false => Assessment::ok(format!("mounted; the kernel does not show {}", join_quoted(&hidden)), basis),
    }
}

/// Blocks: the kernel remounts a file system read-only when its disk fails, and forge must not write to it again.
fn block_read_only(top: &ObservedMount, basis: Value) -> Assessment<CurrentMountDiff> {
    let reason = format!("`{}` is mounted read-only, but `ro` is not declared", top.source);
    Assessment::blocked(BlockClass::Hardware, reason, basis)
        .hint("check the kernel log for I/O errors; if an administrator did it, run `mount -o remount,rw`")
}

/// Reports whether an option is for `mount` or systemd and never reaches the kernel.
fn is_mount_only_option(option: &str) -> bool {
    const WORDS: [&str; 13] = [
        "defaults", "auto", "noauto", "nofail", "_netdev", "user", "nouser", "users", "owner", "group", "bind",
        "rbind", "loop",
    ];
    WORDS.contains(&option) || ["x-", "X-", "comment=", "loop=", "offset="].iter().any(|p| option.starts_with(p))
}

/// Evaluates an unmount.
fn assess_unmounted(
    want: &MountResource,
    state: &MountState,
    seen: &Observation,
    cx: &AssessmentContext<'_>,
) -> Assessment<CurrentMountDiff> {
    try_assess_unmounted(want, state, seen, cx).unwrap_or_else(|unknown| Assessment::unknown(&unknown))
}

fn try_assess_unmounted(
    want: &MountResource,
    state: &MountState,
    seen: &Observation,
    cx: &AssessmentContext<'_>,
) -> Result<Assessment<CurrentMountDiff>, UnansweredReason> {
    let Some(top) = state.mounts.last() else { return Ok(Assessment::ok("nothing is mounted", json!(null))) };
    let holders = list_holders(want, seen)?;
    let basis = json!({ "source": top.source, "holders": !holders.is_empty(), "below": state.below });
    let change = |reason: String| {
        let (source, fstype) = (top.source.clone(), top.fstype.clone());
        let diff = CurrentMountDiff::Unmount { source, fstype, options: top.options.clone() };
        Assessment::differs(reason, diff, DisruptionClass::D1, basis.clone())
    };
    let reason = match (state.below.as_slice(), holders.as_slice()) {
        ([], []) => return Ok(change(format!("`{}` is mounted", top.source))),
        ([], holders) => format!("`{}` is in use by {}", want.path, join_words(holders)),
        (below, _) => format!("{} is mounted below `{}`", join_quoted(below), want.path),
    };
    Ok(match cx.predicted.and_then(|p| p.after.as_deref()) {
        Some(step) => change(format!("{reason}; `{step}` runs first and may change that")).mark_predicted(),
        None => Assessment::blocked(BlockClass::Busy, reason, basis)
            .hint("stop its users with an earlier step: forge never kills a process"),
    })
}

/// Returns the processes that use the mount, as `bash (812)`.
fn list_holders(want: &MountResource, seen: &Observation) -> Result<Vec<String>, UnansweredReason> {
    let output = output(seen, &want.holders_probe())?;
    match output.status {
        0 => Ok(output.stdout.raw().lines().map(str::to_owned).collect()),
        status => {
            Err(UnansweredReason::new(format!("users of `{}` could not be listed (exit status {status})", want.path))
                .with_message(output.stderr.clone()))
        }
    }
}

/// Evaluates the current mount as one part of the judgement.
pub(super) fn assess_current(
    want: &MountResource,
    state: &MountState,
    seen: &Observation,
    cx: &AssessmentContext<'_>,
) -> Option<Assessment<CurrentMountDiff>> {
    match want.state {
        DesiredMountState::Mounted => Some(assess_mounted(want, state)),
        DesiredMountState::Unmounted => Some(assess_unmounted(want, state, seen, cx)),
        DesiredMountState::Fstab => None,
    }
}
