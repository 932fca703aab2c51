//! Compares the kernel's mount table with the declared mount.

use super::declaration::{DesiredMountState, MountResource};
use super::fstab;
use super::mount_diff::{CurrentMountDiff, MaskedUnitDiff, MountDiff};
use super::options::{MountOptionMatch, can_be_remounted, match_option, undeclared_restrictions};
use crate::model::{BlockClass, DisruptionClass, UntrustedText, Value};
use crate::probe::{MountState, Observation, ObservedMount, UnansweredReason, UnitState};
use crate::resource::shared::support::{join_quoted, join_words, output, parent_path, unit_state};
use crate::resource::{Assessment, AssessmentContext, EarlierStepEffects, ProvidedItem, ValueChange};
use serde_json::json;

/// Compares the current mount.
fn assess_mounted(
    want: &MountResource,
    state: &MountState,
    predicted: Option<&EarlierStepEffects>,
) -> Assessment<CurrentMountDiff> {
    let Some(top) = state.mounts.last() else { return assess_unmounted_point(want, state, predicted) };
    if top.fstype == "autofs" && want.options.iter().any(|option| option == "x-systemd.automount") {
        return Assessment::ok("mounted on first use", json!({ "fstype": "autofs" }));
    }
    let basis = json!({ "source": top.source, "fstype": top.fstype, "root": top.root, "options": top.options });
    match describe_other_mount(want, state, top) {
        Some(what) => Assessment::blocked(BlockClass::Host, format!("mounted at `{}`: {what}", want.path), basis)
            .hint("unmount it with an earlier step: forge neither mounts over it nor unmounts it"),
        None => assess_options(want, state, top, basis),
    }
}

/// Blocks a mount point that the kernel's table, fstab and systemd name differently.
pub(super) fn block_linked_path(want: &MountResource, real: &UntrustedText) -> Assessment<MountDiff> {
    let reason = format!("`{}` leads through a symbolic link to `{}`", want.path, real.raw());
    Assessment::blocked(BlockClass::Host, reason, json!({ "path": real }))
        .hint(format!("declare the mount at `{}`", real.raw()))
}

/// Evaluates a mount point at which nothing is mounted.
fn assess_unmounted_point(
    want: &MountResource,
    state: &MountState,
    predicted: Option<&EarlierStepEffects>,
) -> Assessment<CurrentMountDiff> {
    let diff = CurrentMountDiff::Mount { source: want.source.clone(), fstype: want.fstype.clone() };
    let change = |reason| Assessment::differs(reason, diff, DisruptionClass::D0, json!(null));
    let reason = "nothing is mounted".to_owned();
    if RUNNING_DIRECTORIES.contains(&want.path.as_str()) {
        let reason = format!("{reason}, and a mount at `{}` would hide the files of the running host", want.path);
        return Assessment::blocked(BlockClass::Host, reason, json!(null))
            .hint("declare `state: fstab`, copy the files to the file system, and reboot");
    }
    match &state.lack {
        None => change(reason),
        Some(lack) if predicted.is_some_and(|earlier| may_provide_lacking(want, earlier)) => {
            change(format!("{reason}; {}, which an earlier step may change", lack.raw())).mark_predicted()
        }
        Some(lack) => Assessment::blocked(BlockClass::Host, format!("{reason}, and {}", lack.raw()), json!(null))
            .hint("add a step that provides it before this one"),
    }
}

/// Directories that can be file systems of their own, but are full of files that run the host until it reboots.
const RUNNING_DIRECTORIES: [&str; 7] = ["/dev", "/proc", "/run", "/sys", "/usr", "/var", "/var/lib"];

/// Reports whether an earlier step may provide the mount point, a directory above it, or the source.
fn may_provide_lacking(want: &MountResource, earlier: &EarlierStepEffects) -> bool {
    let provides = |path: &str| earlier.will_provide(&ProvidedItem::Path(path.to_owned()));
    let above = std::iter::successors(Some(want.path.as_str()), |path| parent_path(path));
    earlier.is_opaque
        || earlier.takes_more
        || above.chain([want.source.as_str()]).any(|path| provides(path) || earlier.will_go.contains(path))
}

/// Describes the current mount if it is not the declared one.
fn describe_other_mount(want: &MountResource, state: &MountState, top: &ObservedMount) -> Option<String> {
    let what = describe_current_mount(want, top);
    if want.is_bind() {
        let right = state.bind.as_deref() == Some(top.root.as_str());
        return (!right).then(|| format!("{what}, not `{}`", want.source));
    }
    let type_fits = want.fstype == "auto" || top.fstype == want.fstype || top.fstype == format!("{}4", want.fstype);
    let trimmed = |name: &str| name.trim_end_matches('/').to_owned();
    let same_name = trimmed(&top.source) == trimmed(&want.source);
    let same_device =
        state.device.is_some() && (state.device == top.device || state.device.as_ref() == Some(&top.source));
    match (type_fits, same_name || same_device) {
        (true, true) if is_bound_directory(top) => Some(format!("{what}, not the whole file system")),
        (true, true) => None,
        (false, _) => Some(format!("{what}, not {}", want.fstype)),
        (true, false) => Some(format!("{what}, not `{}`", want.source)),
    }
}

/// File systems that are mounted with their own root, unless a directory of them is bound.
const WHOLE_TYPES: [&str; 9] = ["ext2", "ext3", "ext4", "xfs", "vfat", "exfat", "f2fs", "tmpfs", "squashfs"];

/// Reports whether the mount is a directory of its file system that is bound elsewhere.
fn is_bound_directory(top: &ObservedMount) -> bool {
    WHOLE_TYPES.contains(&top.fstype.as_str()) && root_directory(top) != "/"
}

/// Returns the path within the file system that is visible at the mount point.
fn root_directory(top: &ObservedMount) -> &str {
    top.root.split_once(' ').map_or("/", |(_, root)| root)
}

/// Describes a mount by its source and type; a bound directory by its path within the file system.
fn describe_current_mount(want: &MountResource, top: &ObservedMount) -> String {
    match want.is_bind() || is_bound_directory(top) {
        true => format!("`{}` of `{}` ({})", root_directory(top), top.source, top.fstype),
        false => format!("`{}` ({})", top.source, top.fstype),
    }
}

fn assess_options(
    want: &MountResource,
    state: &MountState,
    top: &ObservedMount,
    basis: Value,
) -> Assessment<CurrentMountDiff> {
    let mut options = Vec::new();
    let mut hidden = Vec::new();
    for option in &want.options {
        match match_option(option, &top.fstype, &top.options) {
            MountOptionMatch::Holds => {}
            MountOptionMatch::Differs(found) if !can_be_remounted(&top.fstype, option) => {
                return block_fixed_option(want, &found, option, basis);
            }
            MountOptionMatch::Differs(found) => options.push(ValueChange::new(found, option.clone())),
            // The entry is written after the mount, so that it has the value of the current mount.
            MountOptionMatch::ShownInBytes(_) if fstab::has_option(state, option) => hidden.push(option),
            MountOptionMatch::ShownInBytes(found) => options.push(ValueChange::new(found, option.clone())),
            MountOptionMatch::NotShown if is_mount_only_option(option) => {}
            MountOptionMatch::NotShown => hidden.push(option),
        }
    }
    let mut restricted = undeclared_restrictions(&want.options, &top.options);
    if want.is_bind() {
        restricted.retain(|(_, bad)| !state.source_restrictions.iter().any(|inherited| inherited == bad));
    }
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

/// Blocks a change that only a new mount makes.
fn block_fixed_option(want: &MountResource, found: &str, option: &str, basis: Value) -> Assessment<CurrentMountDiff> {
    let reason = format!("mounted at `{}` with `{found}`: a remount does not change it to `{option}`", want.path);
    Assessment::blocked(BlockClass::Host, reason, basis)
        .host_hint("unmount it when nothing uses it, then run forge again: forge mounts it with the declared options")
}

/// Blocks: the kernel remounts a file system read-only when its disk fails, and forge must not write to it again.
fn block_read_only(top: &ObservedMount, basis: Value) -> Assessment<CurrentMountDiff> {
    let reason = format!("`{}` is mounted read-only, but `ro` is not declared", top.source);
    Assessment::blocked(BlockClass::Hardware, reason, basis)
        .host_hint("check the kernel log for I/O errors; if an administrator did it, run `mount -o remount,rw`")
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
            .host_hint("stop its users, for example with an earlier step: forge never kills a process"),
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

/// Evaluates whether systemd mounts the file system at boot: a masked unit is not mounted, whatever fstab says.
/// A file in `/etc/systemd/system` precedes the unit that systemd makes of fstab.
pub(super) fn assess_unit(
    want: &MountResource,
    seen: &Observation,
    cx: &AssessmentContext<'_>,
) -> Option<Assessment<MaskedUnitDiff>> {
    let probe = want.unit_probe()?;
    Some(match unit_state(seen, &probe) {
        Err(unknown) => Assessment::unknown(&unknown),
        // A mask in `/run` ends with the next boot.
        Ok(unit) if unit.file_state == "masked" => {
            let diff = MaskedUnitDiff { unit: want.unit_name() };
            let reason = format!("`{}` is masked: it is not mounted at boot", diff.unit);
            Assessment::differs(reason, diff, DisruptionClass::D0, json!("masked"))
        }
        Ok(unit) => match find_overriding_file(want, unit) {
            Some(path) if !cx.predicted.is_some_and(|earlier| earlier.may_change_path(path)) => {
                let reason = format!("`{path}` can override the entry in fstab at boot");
                Assessment::blocked(BlockClass::Host, reason, json!({ "file": path }))
                    .hint("remove it with an earlier `absent` step")
            }
            _ => Assessment::ok("", json!(null)),
        },
    })
}

/// Returns the administrator's unit for the mount point, or a drop-in of that unit. One in `/run` ends with the next boot,
/// and a drop-in for all mounts cannot name a file system.
fn find_overriding_file<'u>(want: &MountResource, unit: &'u UnitState) -> Option<&'u str> {
    let own_folder = format!("/{}.d/", want.unit_name());
    let is_own = |path: &&String| path.starts_with("/etc/") && path.contains(&own_folder);
    let whole = Some(&unit.fragment).filter(|path| path.starts_with("/etc/"));
    whole.or_else(|| unit.drop_ins.iter().find(is_own)).map(String::as_str)
}

/// Evaluates the current mount as one part of the judgement.
pub(super) fn assess_current(
    want: &MountResource,
    state: &MountState,
    seen: &Observation,
    cx: &AssessmentContext<'_>,
) -> Option<Assessment<CurrentMountDiff>> {
    match want.state {
        DesiredMountState::Mounted => Some(assess_mounted(want, state, cx.predicted)),
        DesiredMountState::Unmounted => Some(assess_unmounted(want, state, seen, cx)),
        DesiredMountState::Fstab => None,
    }
}
