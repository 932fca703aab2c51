//! Evaluates images by their content, and whether the host booted with the current image.

use super::declaration::InitramfsResource;
use super::image_diff::{ImageMismatch, ImageRebuild, InitramfsDiff, host_digest};
use crate::model::{BlockClass, DisruptionClass, StepVerdict, Value};
use crate::probe::{EarlyImage, InitramfsMaker, InitramfsState, UnansweredReason};
use crate::resource::shared::support::{join_quoted, join_words};
use crate::resource::{Assessment, AssessmentContext, ProvidedItem};
use serde_json::{Map, json};

pub(super) fn assess_images(
    want: &InitramfsResource,
    state: &InitramfsState,
    cx: &AssessmentContext<'_>,
) -> Assessment<InitramfsDiff> {
    let stopped = block_without_maker(want, state, cx)
        .or_else(|| block_without_kernel(state))
        .or_else(|| block_unknown_image(want, state))
        .or_else(|| find_unreadable_image(want, state))
        .or_else(|| block_missing_file(want, state, cx));
    if let Some(judgement) = stopped {
        return judgement;
    }
    let coming = predicted_changes(want, state, cx);
    let images: Vec<ImageRebuild> = state
        .images
        .iter()
        .map(|image| compare_image(want, state, image))
        .filter(|image| image.describe_reason().is_some() || !coming.is_empty())
        .collect();
    if images.is_empty() {
        return assess_unchanged(want, state);
    }
    let by_reboot = want.booted && affects_running_kernel(&images, state);
    let reason = describe_reasons(&images, &coming);
    let diff = InitramfsDiff::Rebuild { maker: state.maker, images };
    let judgement = Assessment::differs(reason, diff, DisruptionClass::D0, images_basis(want, state));
    let judgement = Assessment { by_reboot, ..judgement };
    let certain = coming.is_empty() && want.files.iter().all(|path| host_digest(state, path).is_some());
    if certain { judgement } else { judgement.mark_predicted() }
}

fn compare_image(want: &InitramfsResource, state: &InitramfsState, image: &EarlyImage) -> ImageRebuild {
    ImageRebuild {
        kernel: image.kernel.clone(),
        path: image.path.clone(),
        existing: image.made.map(|_| ImageMismatch::compare(want, state, image)),
    }
}

/// Reports whether the rebuilds need a reboot: one is of the running kernel's image, or that kernel has none.
fn affects_running_kernel(rebuilt: &[ImageRebuild], state: &InitramfsState) -> bool {
    let running = state.images.iter().find(|image| image.kernel == state.running);
    running.is_none_or(|running| {
        is_newer_than_boot(running, state) || rebuilt.iter().any(|image| image.kernel == running.kernel)
    })
}

fn describe_reasons(images: &[ImageRebuild], coming: &[String]) -> String {
    let mut reasons: Vec<String> = images.iter().filter_map(ImageRebuild::describe_reason).collect();
    if reasons.is_empty() {
        reasons.push(format!("{} changes in an earlier step", join_quoted(coming)));
    }
    reasons.join("; ")
}

fn block_without_maker(
    want: &InitramfsResource,
    state: &InitramfsState,
    cx: &AssessmentContext<'_>,
) -> Option<Assessment<InitramfsDiff>> {
    if state.maker != InitramfsMaker::Unknown {
        return None;
    }
    if state.container.is_empty()
        && let Some(step) = cx.predicted.and_then(|p| p.after.as_deref())
    {
        let reason = format!("neither update-initramfs nor dracut is installed, but `{step}` runs before");
        let basis = json!({ "maker": null });
        let judgement =
            Assessment::differs(reason, InitramfsDiff::NoMaker, DisruptionClass::D0, basis).mark_predicted();
        return Some(Assessment { by_reboot: want.booted, ..judgement });
    }
    let reason = "neither update-initramfs nor dracut is installed";
    Some(block_on_host(state, reason, "install `initramfs-tools` or `dracut` with a `package` step before this one"))
}

fn block_without_kernel(state: &InitramfsState) -> Option<Assessment<InitramfsDiff>> {
    state.images.is_empty().then(|| {
        let reason = format!("no kernel found in `/boot`; the host booted {} from elsewhere", state.running);
        block_on_host(state, &reason, "change the image at its source: the hypervisor or the boot server")
    })
}

fn block_on_host(state: &InitramfsState, reason: &str, hint: &str) -> Assessment<InitramfsDiff> {
    let basis = json!({ "maker": state.maker, "container": state.container });
    let block = |reason: String| Assessment::blocked(BlockClass::Host, reason, basis.clone());
    match state.container.is_empty() {
        true => block(reason.to_owned()).hint(hint),
        false => block(format!("{reason}: this host is a container ({})", state.container))
            .hint("a container uses its machine's image: declare the step for that machine"),
    }
}

/// Blocks a declared image path that this host does not use, such as the file name of another distribution.
fn block_unknown_image(want: &InitramfsResource, state: &InitramfsState) -> Option<Assessment<InitramfsDiff>> {
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

fn find_unreadable_image(want: &InitramfsResource, state: &InitramfsState) -> Option<Assessment<InitramfsDiff>> {
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
    want.declared_files().all(|path| image.files.contains_key(path))
        && want.declared_modules().all(|name| image.modules.contains_key(name))
}

/// Blocks a file that does not exist on the host, unless an earlier step creates it.
fn block_missing_file(
    want: &InitramfsResource,
    state: &InitramfsState,
    cx: &AssessmentContext<'_>,
) -> Option<Assessment<InitramfsDiff>> {
    let brought = |path: &String| cx.predicted.is_some_and(|p| p.will_provide(&ProvidedItem::Path(path.clone())));
    let lost = want.files.iter().find(|path| host_digest(state, path).is_none() && !brought(path))?;
    let reason = format!("file `{lost}` does not exist on the host");
    Some(
        Assessment::blocked(BlockClass::Host, reason, json!({ "missing": lost }))
            .hint("add a `file` or `kernel_module` step that writes it before this one"),
    )
}

/// Returns the files that an earlier step writes, and the contained modules that one may change. Their future content
/// is not known.
fn predicted_changes(want: &InitramfsResource, state: &InitramfsState, cx: &AssessmentContext<'_>) -> Vec<String> {
    let exact =
        |path: &&String| cx.predicted.is_some_and(|p| p.will_exist.contains(&ProvidedItem::Path((*path).clone())));
    let may_change = cx.predicted.is_some_and(|p| p.after.is_some());
    let has = |image: &EarlyImage, name: &String| image.modules.get(name).is_some_and(|m| m.inside.is_some());
    let inside = |name: &&String| may_change && state.images.iter().any(|image| has(image, name));
    let touched = |path: &&String| {
        cx.predicted.is_some_and(|p| p.will_touch.contains(path.as_str()) || p.will_go.contains(path.as_str()))
    };
    let restored = want.as_host.iter().filter(|path| exact(path) || touched(path));
    let written = want.files.iter().filter(exact).chain(restored);
    written.chain(want.current_modules.iter().filter(inside)).cloned().collect()
}

/// Evaluates images that match.
fn assess_unchanged(want: &InitramfsResource, state: &InitramfsState) -> Assessment<InitramfsDiff> {
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

fn mark_pending(judgement: Assessment<InitramfsDiff>, reason: &str) -> Assessment<InitramfsDiff> {
    Assessment { verdict: StepVerdict::Pending, reason: reason.into(), ..judgement }
        .mark_reboot_required()
        .hint("set `booted: false` if reloading the module is sufficient")
}

/// The kernel reports its boot time in whole seconds.
fn is_newer_than_boot(image: &EarlyImage, state: &InitramfsState) -> bool {
    image.made.is_some_and(|made| made > state.booted + 1.0)
}

/// Returns what was observed of the host and of each image.
fn images_basis(want: &InitramfsResource, state: &InitramfsState) -> Value {
    let image = |image: &EarlyImage| {
        let differ = compare_image(want, state, image).existing.unwrap_or_default().describe();
        let newer = want.booted && is_newer_than_boot(image, state);
        (
            image.kernel.clone(),
            json!({ "path": image.path, "there": image.made.is_some(), "differs": differ, "newer": newer }),
        )
    };
    let images: Map<String, Value> = state.images.iter().map(image).collect();
    let files: Map<String, Value> =
        want.files.iter().chain(&want.as_host).map(|path| (path.clone(), json!(host_digest(state, path)))).collect();
    json!({ "maker": state.maker, "images": images, "files": files })
}
