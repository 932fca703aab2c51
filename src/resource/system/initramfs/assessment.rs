//! Evaluates images by their content, and whether the host booted with the current image.

use super::InitramfsResource;
use crate::model::{BlockClass, DisruptionClass, StepVerdict, Value};
use crate::probe::{EarlyImage, InitramfsMaker, InitramfsState, UnansweredReason};
use crate::resource::shared::support::{join_quoted, join_words};
use crate::resource::{Assessment, AssessmentContext, AttributeChange, ProvidedItem};
use serde_json::{Map, json};

/// Attribute prefix for the image of a kernel.
pub(super) const IMAGE_PREFIX: &str = "image ";

pub(super) fn assess_images(
    want: &InitramfsResource,
    state: &InitramfsState,
    cx: &AssessmentContext<'_>,
) -> Assessment {
    let stopped = block_without_maker(want, state, cx)
        .or_else(|| block_without_kernel(state))
        .or_else(|| block_unknown_image(want, state))
        .or_else(|| find_unreadable_image(want, state))
        .or_else(|| block_missing_file(want, state, cx));
    if let Some(judgement) = stopped {
        return judgement;
    }
    let coming = predicted_changes(want, state, cx);
    let found: Vec<(&EarlyImage, Vec<String>)> =
        state.images.iter().map(|image| (image, list_differences(want, state, image))).collect();
    let changes: Vec<AttributeChange> = found
        .iter()
        .filter(|(image, differ)| !differ.is_empty() || image.made.is_none() || !coming.is_empty())
        .map(|(image, _)| image_change(image))
        .collect();
    if changes.is_empty() {
        return assess_unchanged(want, state);
    }
    let by_reboot = want.booted && affects_running_kernel(&changes, state);
    let judgement =
        Assessment::change(describe_reasons(&found, &coming), changes, DisruptionClass::D0, images_basis(want, state));
    let judgement = Assessment { by_reboot, ..judgement };
    let certain = coming.is_empty() && want.files.iter().all(|path| host_digest(state, path).is_some());
    if certain { judgement } else { judgement.mark_predicted() }
}

fn image_change(image: &EarlyImage) -> AttributeChange {
    let from = if image.made.is_some() { "outdated" } else { "none" };
    AttributeChange::new(&format!("{IMAGE_PREFIX}{}", image.kernel), Some(from), Some("rebuilt"))
}

/// Reports whether the changes need a reboot: they rebuild the running kernel's image, or it has none.
fn affects_running_kernel(changes: &[AttributeChange], state: &InitramfsState) -> bool {
    let running = state.images.iter().find(|image| image.kernel == state.running);
    running.is_none_or(|running| is_newer_than_boot(running, state) || changes.contains(&image_change(running)))
}

fn describe_reasons(found: &[(&EarlyImage, Vec<String>)], coming: &[String]) -> String {
    let mut reasons: Vec<String> = found.iter().filter_map(|(image, differ)| describe_image(image, differ)).collect();
    if reasons.is_empty() {
        reasons.push(format!("{} changes in an earlier step", join_quoted(coming)));
    }
    reasons.join("; ")
}

fn describe_image(image: &EarlyImage, differ: &[String]) -> Option<String> {
    match image.made {
        None => Some(format!("the image of {} does not exist", image.kernel)),
        Some(_) => (!differ.is_empty()).then(|| format!("the image of {} {}", image.kernel, join_words(differ))),
    }
}

fn block_without_maker(
    want: &InitramfsResource,
    state: &InitramfsState,
    cx: &AssessmentContext<'_>,
) -> Option<Assessment> {
    if state.maker != InitramfsMaker::Unknown {
        return None;
    }
    if state.container.is_empty()
        && let Some(step) = cx.predicted.and_then(|p| p.after.as_deref())
    {
        let reason = format!("neither update-initramfs nor dracut is installed, but `{step}` runs before");
        let change = AttributeChange::new("image", None, Some("rebuilt"));
        let judgement =
            Assessment::change(reason, vec![change], DisruptionClass::D0, json!({ "maker": null })).mark_predicted();
        return Some(Assessment { by_reboot: want.booted, ..judgement });
    }
    let reason = "neither update-initramfs nor dracut is installed";
    Some(block_on_host(state, reason, "install `initramfs-tools` or `dracut` with a `package` step before this one"))
}

fn block_without_kernel(state: &InitramfsState) -> Option<Assessment> {
    state.images.is_empty().then(|| {
        let reason = format!("no kernel found in `/boot`; the host booted {} from elsewhere", state.running);
        block_on_host(state, &reason, "change the image at its source: the hypervisor or the boot server")
    })
}

fn block_on_host(state: &InitramfsState, reason: &str, hint: &str) -> Assessment {
    let basis = json!({ "maker": state.maker, "container": state.container });
    let block = |reason: String| Assessment::blocked(BlockClass::Host, reason, basis.clone());
    match state.container.is_empty() {
        true => block(reason.to_owned()).hint(hint),
        false => block(format!("{reason}: this host is a container ({})", state.container))
            .hint("a container uses its machine's image: declare the step for that machine"),
    }
}

/// Blocks a declared image path that this host does not use, such as the file name of another distribution.
fn block_unknown_image(want: &InitramfsResource, state: &InitramfsState) -> Option<Assessment> {
    let meant = want.image.as_deref()?;
    if state.images.iter().any(|image| image.path == meant) {
        return None;
    }
    let names: Vec<&str> = state.images.iter().map(|image| image.path.as_str()).collect();
    let reason = format!("`{meant}` is not an image of this host; its images are {}", join_quoted(&names));
    Some(
        Assessment::blocked(BlockClass::Rule, reason, json!({ "images": names }))
            .hint("remove `image`: forge detects the image"),
    )
}

fn find_unreadable_image(want: &InitramfsResource, state: &InitramfsState) -> Option<Assessment> {
    let bad = |image: &&EarlyImage| {
        image.made.is_some() && (!image.trouble.raw().is_empty() || !is_fully_answered(want, image))
    };
    let image = state.images.iter().find(bad)?;
    let why = format!("image `{}` could not be read", image.path);
    Some(
        Assessment::unknown(&UnansweredReason::new(why).with_message(image.trouble.raw()))
            .hint("a decompression program may be missing; a truncated image does not boot: rebuild it manually"),
    )
}

/// Reports whether the probe answered everything about an image; a missing answer does not mean absence.
fn is_fully_answered(want: &InitramfsResource, image: &EarlyImage) -> bool {
    want.files.iter().chain(&want.lacks).all(|path| image.files.contains_key(path))
        && want.declared_modules().all(|name| image.modules.contains_key(name))
}

/// Blocks a file that does not exist on the host, unless an earlier step creates it.
fn block_missing_file(
    want: &InitramfsResource,
    state: &InitramfsState,
    cx: &AssessmentContext<'_>,
) -> Option<Assessment> {
    let brought = |path: &String| cx.predicted.is_some_and(|p| p.will_provide(&ProvidedItem::Path(path.clone())));
    let lost = want.files.iter().find(|path| host_digest(state, path).is_none() && !brought(path))?;
    let reason = format!("file `{lost}` does not exist on the host");
    Some(
        Assessment::blocked(BlockClass::Host, reason, json!({ "missing": lost }))
            .hint("add a `file` or `kernel_module` step that writes it before this one"),
    )
}

fn host_digest<'s>(state: &'s InitramfsState, path: &str) -> Option<&'s String> {
    state.files.get(path).and_then(Option::as_ref)
}

/// Returns the files that an earlier step writes, and the contained modules that one may change. Their future content
/// is not known.
fn predicted_changes(want: &InitramfsResource, state: &InitramfsState, cx: &AssessmentContext<'_>) -> Vec<String> {
    let exact =
        |path: &&String| cx.predicted.is_some_and(|p| p.will_exist.contains(&ProvidedItem::Path((*path).clone())));
    let may_change = cx.predicted.is_some_and(|p| p.after.is_some());
    let has = |image: &EarlyImage, name: &String| image.modules.get(name).is_some_and(|m| m.inside.is_some());
    let inside = |name: &&String| may_change && state.images.iter().any(|image| has(image, name));
    want.files.iter().filter(exact).chain(want.current_modules.iter().filter(inside)).cloned().collect()
}

/// Returns the differences of an image as phrases: `lacks …`, `has …`.
fn list_differences(want: &InitramfsResource, state: &InitramfsState, image: &EarlyImage) -> Vec<String> {
    if image.made.is_none() {
        return Vec::new();
    }
    let inside = |path: &String| image.files.get(path).and_then(Option::as_ref);
    let module = |name: &String| image.modules.get(name).cloned().unwrap_or_default();
    let pick = |names: &[String], wanted: &dyn Fn(&String) -> bool| -> Vec<String> {
        names.iter().filter(|name| wanted(name)).cloned().collect()
    };
    let mut lacks = pick(&want.files, &|path| inside(path).is_none());
    lacks.extend(pick(&want.modules, &|name| !module(name).builtin && module(name).inside.is_none()));
    let mut old = pick(&want.files, &|path| inside(path).is_some() && inside(path) != host_digest(state, path));
    old.extend(pick(&want.modules, &|name| is_outdated(&module(name))));
    old.extend(pick(&want.current_modules, &|name| is_outdated(&module(name))));
    let mut has = pick(&want.lacks, &|path| inside(path).is_some());
    has.extend(pick(&want.lacks_modules, &|name| module(name).inside.is_some()));
    let says = |word: &str, names: &[String]| (!names.is_empty()).then(|| format!("{word} {}", join_quoted(names)));
    [says("lacks", &lacks), says("has an outdated", &old), says("has", &has)].into_iter().flatten().collect()
}

/// Reports whether the module in the image is outdated. Modules without a source digest cannot be compared.
fn is_outdated(module: &crate::probe::ModuleInside) -> bool {
    match (&module.host, &module.inside) {
        (Some(host), Some(inside)) => !host.is_empty() && !inside.is_empty() && host != inside,
        _ => false,
    }
}

/// Evaluates images that match.
fn assess_unchanged(want: &InitramfsResource, state: &InitramfsState) -> Assessment {
    let kernels: Vec<&str> = state.images.iter().map(|image| image.kernel.as_str()).collect();
    let reason = match kernels.as_slice() {
        [one] => format!("the image of {one} matches"),
        many => format!("the images of {} match", join_words(many)),
    };
    let judgement = Assessment::ok(reason, images_basis(want, state));
    let Some(running) = state.images.iter().find(|image| image.kernel == state.running) else {
        let reason = format!("{}; the running kernel {} is not in `/boot`", judgement.reason.raw(), state.running);
        return match want.booted {
            true => mark_pending(judgement, &format!("{reason}: needs a reboot")),
            false => Assessment { reason: reason.into(), ..judgement },
        };
    };
    if !want.booted || !is_newer_than_boot(running, state) {
        return judgement;
    }
    let reason = format!("{}; `{}` was rebuilt after boot: needs a reboot", judgement.reason.raw(), running.path);
    mark_pending(judgement, &reason)
}

fn mark_pending(judgement: Assessment, reason: &str) -> Assessment {
    Assessment { verdict: StepVerdict::Pending, reason: reason.into(), ..judgement }
        .mark_reboot_required()
        .hint("set `booted: false` if reloading the module is sufficient")
}

/// The kernel reports its boot time in whole seconds.
fn is_newer_than_boot(image: &EarlyImage, state: &InitramfsState) -> bool {
    image.made.is_some_and(|made| made > state.booted + 1.0)
}

/// Returns what was observed of the host and of each image; a change reads its images from here.
fn images_basis(want: &InitramfsResource, state: &InitramfsState) -> Value {
    let image = |image: &EarlyImage| {
        let differ = list_differences(want, state, image);
        let newer = want.booted && is_newer_than_boot(image, state);
        (
            image.kernel.clone(),
            json!({ "path": image.path, "there": image.made.is_some(), "differs": differ, "newer": newer }),
        )
    };
    let images: Map<String, Value> = state.images.iter().map(image).collect();
    let files: Map<String, Value> =
        want.files.iter().map(|path| (path.clone(), json!(host_digest(state, path)))).collect();
    json!({ "maker": state.maker, "images": images, "files": files })
}
