//! Evaluates a Helm release.

use super::declaration::HelmReleaseResource;
use super::release_changes::{self, HookTrigger};
use super::release_diff::{InstallDiff, ReleaseDiff, UpgradeDiff};
use crate::model::{BlockClass, DisruptionClass, Value};
use crate::object::{
    ChartHook, ChartInfo, DoomedDefinition, LiveObject, ObjectChange, ReleaseInfo, ReleaseState, ReleaseStatus,
};
use crate::resource::ValueChange;
use crate::resource::shared::support::join_quoted;

type ReleaseAssessment = crate::resource::Assessment<ReleaseDiff>;

/// Returns the observed state without attributes that change with time alone.
fn release_basis(release: &HelmReleaseResource, state: &ReleaseState) -> Value {
    let mut state = state.clone();
    let stale = state.release.as_ref().is_some_and(|info| is_stale(release, info));
    if let Some(info) = &mut state.release {
        info.age_s = 0;
    }
    // Jobs come and go: it only matters whether there are any.
    state.doomed.iter_mut().for_each(|crd| crd.objects = crd.objects.min(1));
    // The text may differ from time to time, and nothing depends on it.
    state.unrendered = state.unrendered.map(|_| "".into());
    // Plain data: it always serializes.
    serde_json::json!({ "state": serde_json::to_value(&state).unwrap_or_default(), "stale": stale })
}

fn is_stale(release: &HelmReleaseResource, info: &ReleaseInfo) -> bool {
    info.status.is_pending() && info.age_s >= release.stale_s
}

pub(super) fn assess_absent(release: &HelmReleaseResource, state: &ReleaseState) -> ReleaseAssessment {
    let (title, basis) = (release.qualified_name(), release_basis(release, state));
    let Some(info) = state.release.as_ref().filter(|info| info.status != ReleaseStatus::Uninstalled) else {
        return ReleaseAssessment::ok(format!("release `{title}` does not exist"), basis);
    };
    if let Some(blocked) = block_if_busy(release, info, &basis).or_else(|| block_if_foreign(release, info, &basis)) {
        return blocked;
    }
    if let Some(blocked) = block_data_loss(release, state, "uninstalling", &basis) {
        return blocked;
    }
    let mut reason = format!("release `{title}` is {}", info.status.name());
    let hooks = due_hooks(release, &state.hooks, HookTrigger::Uninstall);
    let stays = [describe_crds(state.chart.as_ref()), describe_kept(state)];
    let stays: Vec<String> = stays.into_iter().flatten().collect();
    if !stays.is_empty() {
        // The chart of the GPU operator can delete its CRDs in a hook.
        let unless = if hooks.is_empty() { "" } else { ", unless a hook deletes them" };
        reason.push_str(&format!("; uninstalling keeps {}{unless}", stays.join(" and ")));
    }
    if let Some(why) = &state.unrendered {
        let more = "; the CustomResourceDefinitions of its chart are unknown";
        reason.push_str(&format!("{more}: {}", why.raw()));
    }
    let (chart, version) = (info.chart.clone(), info.version.clone());
    let diff = ReleaseDiff::Uninstall { chart, version, doomed: state.doomed.clone(), hooks };
    let consequences: Vec<&str> =
        release.disruptive_fields.iter().map(|(_, consequence)| consequence.as_str()).collect();
    let disruption = if consequences.is_empty() { DisruptionClass::D1 } else { DisruptionClass::D2 };
    consequences.iter().for_each(|consequence| reason.push_str(&format!("; {consequence}")));
    ReleaseAssessment::differs(reason, diff, disruption, basis)
}

pub(super) fn assess_present(release: &HelmReleaseResource, state: &ReleaseState) -> ReleaseAssessment {
    let Some(chart) = &state.chart else {
        return ReleaseAssessment::unknown(&crate::probe::UnansweredReason::new("the chart was not read"));
    };
    let (mut images, mut image_sources) = (chart.images.clone(), chart.sources.clone());
    images.extend(release.images.iter().map(|(image, _)| image.clone()));
    image_sources.extend(release.images.iter().filter(|(image, source)| image != source).cloned());
    ReleaseAssessment { images, image_sources, ..assess_with_chart(release, state, chart) }
}

fn assess_with_chart(release: &HelmReleaseResource, state: &ReleaseState, chart: &ChartInfo) -> ReleaseAssessment {
    let basis = release_basis(release, state);
    if let Some(blocked) = block_unpinned_images(chart, &basis) {
        return blocked;
    }
    match state.release.as_ref().filter(|info| info.status != ReleaseStatus::Uninstalled) {
        None => assess_first_install(release, state, chart, basis),
        Some(info) => assess_installed(release, state, chart, info, basis),
    }
}

/// Blocks the step while another Helm process may be working on the release.
fn block_if_busy(release: &HelmReleaseResource, info: &ReleaseInfo, basis: &Value) -> Option<ReleaseAssessment> {
    let live = info.status.is_pending() && !is_stale(release, info);
    let status = info.status.name();
    let reason = format!(
        "another Helm operation is in progress: revision {} has been {status} for {} s",
        info.revision, info.age_s
    );
    live.then(|| {
        ReleaseAssessment::blocked(BlockClass::Busy, reason, basis.clone()).host_hint(format!(
            "wait for it to finish; after {} s forge treats it as killed and recovers the release",
            release.stale_s
        ))
    })
}

fn block_if_foreign(release: &HelmReleaseResource, info: &ReleaseInfo, basis: &Value) -> Option<ReleaseAssessment> {
    let reason = format!("release `{}` ({}) was not installed by forge", release.qualified_name(), format_chart(info));
    (!info.ours && !release.adopt).then(|| {
        ReleaseAssessment::blocked(BlockClass::Host, reason, basis.clone()).hint("set `adopt: true` to take it over")
    })
}

fn block_unpinned_images(chart: &ChartInfo, basis: &Value) -> Option<ReleaseAssessment> {
    let loose = release_changes::find_unpinned_images(&chart.images);
    let reason = format!(
        "{} without a tag or digest, or with tag `latest`: {}",
        if loose.len() == 1 { "an image" } else { "images" },
        join_quoted(&loose)
    );
    (!loose.is_empty()).then(|| {
        ReleaseAssessment::blocked(BlockClass::Declaration, reason, basis.clone())
            .hint("set a tag or digest for each image in `values`")
    })
}

fn assess_first_install(
    release: &HelmReleaseResource,
    state: &ReleaseState,
    chart: &ChartInfo,
    basis: Value,
) -> ReleaseAssessment {
    if let Some(other) = state.foreign.first().filter(|_| !release.beside) {
        let reason = format!(
            "chart `{}` is already installed as release `{}/{}` ({}, {})",
            chart.name, other.namespace, other.name, other.version, other.status
        );
        return ReleaseAssessment::blocked(BlockClass::Host, reason, basis)
            .hint("declare that release with `adopt: true`, uninstall it, or set `beside: true` to keep both");
    }
    if let Some(blocked) = block_unowned_definitions(release, state, &basis) {
        return blocked;
    }
    let diff = ReleaseDiff::Install(InstallDiff {
        revision: state.release.as_ref().map_or(0, |former| former.revision),
        chart: chart.name.clone(),
        version: chart.version.clone(),
        crds: missing_crds(chart),
        adopted: unowned_names(state),
        hooks: due_hooks(release, &chart.hooks, HookTrigger::Install),
    });
    let reason = format!("release `{}` does not exist", release.qualified_name());
    ReleaseAssessment::differs(reason, diff, DisruptionClass::D0, basis)
}

/// Blocks an action that deletes CustomResourceDefinitions which still have objects.
fn block_data_loss(
    release: &HelmReleaseResource,
    state: &ReleaseState,
    action: &str,
    basis: &Value,
) -> Option<ReleaseAssessment> {
    let lost: Vec<String> = state.doomed.iter().filter(|crd| crd.objects > 0).map(describe_doomed).collect();
    let reason = format!("{action} deletes CustomResourceDefinitions with all their objects: {}", lost.join(", "));
    (!lost.is_empty() && !release.delete_definitions).then(|| {
        ReleaseAssessment::blocked(BlockClass::Declaration, reason, basis.clone())
            .hint("set `definitions: delete` to delete these objects too")
    })
}

fn describe_doomed(crd: &DoomedDefinition) -> String {
    let objects = if crd.objects == 1 { "object" } else { "objects" };
    format!("`{}` ({} {objects})", crd.name, crd.objects)
}

/// Blocks a step whose chart declares CustomResourceDefinitions that exist outside of the release.
fn block_unowned_definitions(
    release: &HelmReleaseResource,
    state: &ReleaseState,
    basis: &Value,
) -> Option<ReleaseAssessment> {
    let blocked = |reason: String, hint: &str| {
        Some(ReleaseAssessment::blocked(BlockClass::Host, reason, basis.clone()).hint(hint))
    };
    if let Some((name, owner)) = state.unowned.iter().find_map(|crd| Some((&crd.name, crd.owner.as_ref()?))) {
        let reason = format!("CustomResourceDefinition `{name}` belongs to the release `{}`", owner.raw());
        return blocked(reason, "uninstall that release, or switch its CustomResourceDefinitions off in `values`");
    }
    if state.unowned.is_empty() || release.adopt {
        return None;
    }
    let names: Vec<&str> = state.unowned.iter().map(|crd| crd.name.as_str()).collect();
    let reason = format!("the chart declares CustomResourceDefinitions that no release owns: {}", join_quoted(&names));
    blocked(reason, "set `adopt: true` to make them part of the release: helm rejects the change otherwise")
}

/// Returns the hooks that run, if the declaration lets them.
fn due_hooks(release: &HelmReleaseResource, hooks: &[ChartHook], trigger: HookTrigger) -> Vec<ChartHook> {
    if release.hooks { release_changes::list_hooks(hooks, trigger) } else { Vec::new() }
}

/// Returns the CustomResourceDefinitions that are created.
fn missing_crds(chart: &ChartInfo) -> Vec<String> {
    chart.crds.iter().filter(|crd| !crd.present).map(|crd| crd.name.clone()).collect()
}

fn assess_installed(
    release: &HelmReleaseResource,
    state: &ReleaseState,
    chart: &ChartInfo,
    info: &ReleaseInfo,
    basis: Value,
) -> ReleaseAssessment {
    if let Some(blocked) = block_if_busy(release, info, &basis) {
        return blocked;
    }
    if info.status == ReleaseStatus::Unknown {
        return ReleaseAssessment::blocked(
            BlockClass::Host,
            "Helm reports a release status that forge does not know",
            basis,
        )
        .host_hint("check it with `helm status`");
    }
    let upgrade = compare_release(state, chart, info);
    let matches = upgrade.matches_declaration();
    if matches && !state.live.iter().any(differs_live) {
        return ReleaseAssessment::ok(describe_unchanged(release, state, info), basis);
    }
    if let Some(blocked) = block_if_foreign(release, info, &basis) {
        return blocked;
    }
    if let Some(blocked) = block_skipped_majors(release, chart, info, &basis) {
        return blocked;
    }
    if matches {
        return assess_repair(release, state, basis);
    }
    let blocked = block_unowned_definitions(release, state, &basis)
        .or_else(|| block_data_loss(release, state, "the upgrade", &basis));
    if let Some(blocked) = blocked {
        return blocked;
    }
    let hooks = due_hooks(release, &chart.hooks, HookTrigger::Upgrade);
    assess_upgrade(release, UpgradeDiff { hooks, ..upgrade }, basis)
}

fn differs_live(live: &LiveObject) -> bool {
    live.missing || !live.changed.is_empty() || !live.added.is_empty()
}

/// Blocks an upgrade across more major versions than `majors` allows.
fn block_skipped_majors(
    release: &HelmReleaseResource,
    chart: &ChartInfo,
    info: &ReleaseInfo,
    basis: &Value,
) -> Option<ReleaseAssessment> {
    let most = release.majors?;
    if info.version == chart.version {
        return None;
    }
    let step = format!("from {} to {}", info.version, chart.version);
    let (Some(from), Some(to)) = (parse_major(&info.version), parse_major(&chart.version)) else {
        let reason = format!("the major version distance {step} could not be evaluated: not a `MAJOR.…` version");
        return Some(ReleaseAssessment::blocked(BlockClass::Declaration, reason, basis.clone()));
    };
    let (reason, hint) = match to - from {
        up if up > most => (
            format!("{step} is an upgrade by {up} major versions, the maximum is {most}"),
            "upgrade to an intermediate version first",
        ),
        up if up < 0 => (
            format!("{step} is a downgrade by a major version"),
            "uninstall the release first: an upgrade does not revert newer cluster state",
        ),
        _ => return None,
    };
    Some(ReleaseAssessment::blocked(BlockClass::Rule, reason, basis.clone()).hint(hint))
}

/// Returns the major version: 24 for `v24.9.1`.
fn parse_major(version: &str) -> Option<i64> {
    version.trim_start_matches('v').split('.').next()?.parse().ok()
}

/// Compares everything but the hooks, which are no difference.
fn compare_release(state: &ReleaseState, chart: &ChartInfo, info: &ReleaseInfo) -> UpgradeDiff {
    let text = |from: &String, to: &String| (from != to).then(|| ValueChange::new(from.clone(), to.clone()));
    let deployed = info.status == ReleaseStatus::Deployed;
    UpgradeDiff {
        revision: info.revision,
        chart: text(&info.chart, &chart.name),
        version: text(&info.version, &chart.version),
        status: (!deployed).then(|| ValueChange::new(info.status, ReleaseStatus::Deployed)),
        values: state.values.clone(),
        manifest: state.manifest.clone(),
        crds: missing_crds(chart),
        renewed_crds: chart.crds.iter().filter(|crd| crd.outdated).map(|crd| crd.name.clone()).collect(),
        live: state.live.clone(),
        conflicts: state.conflicts.clone(),
        adopted: unowned_names(state),
        doomed: state.doomed.clone(),
        hooks: Vec::new(),
    }
}

fn describe_unchanged(release: &HelmReleaseResource, state: &ReleaseState, info: &ReleaseInfo) -> String {
    let mut reason = format!("{} is deployed, live objects match", format_chart(info));
    if state.random {
        reason = format!(
            "{} is deployed, values, version and live objects match (the chart renders differently each time)",
            format_chart(info)
        );
    }
    if !info.ours {
        reason.push_str(&format!("; `{}` was not installed by forge", release.qualified_name()));
    }
    reason
}

fn assess_repair(release: &HelmReleaseResource, state: &ReleaseState, basis: Value) -> ReleaseAssessment {
    let objects = state.live.len();
    let mut reason = match objects {
        1 => "1 live object differs from the release".to_owned(),
        _ => format!("{objects} live objects differ from the release"),
    };
    let added: usize = state.live.iter().map(|live| live.added.len()).sum();
    if added > 0 {
        reason.push_str(&format!(
            "; {added} of the fields {} not be removed by an upgrade",
            if added == 1 { "was added and will" } else { "were added and will" }
        ));
    }
    let disruption = classify_change(release, &[], &state.live, &mut reason);
    let diff = ReleaseDiff::Repair { live: state.live.clone() };
    ReleaseAssessment::differs(reason, diff, disruption, basis)
}

/// Returns the class of a change, and adds to the reason what makes it higher than that of a restart.
fn classify_change(
    release: &HelmReleaseResource,
    manifest: &[ObjectChange],
    live: &[LiveObject],
    reason: &mut String,
) -> DisruptionClass {
    match release_changes::describe_disruption(&release.disruptive_fields, manifest, live) {
        None => DisruptionClass::D1,
        Some(why) => {
            reason.push_str(&format!("; {why}"));
            DisruptionClass::D2
        }
    }
}

fn assess_upgrade(release: &HelmReleaseResource, upgrade: UpgradeDiff, basis: Value) -> ReleaseAssessment {
    let mut reason = "the release differs".to_owned();
    if let Some(taken) = release_changes::describe_conflicts(&upgrade.conflicts) {
        reason.push_str(&format!("; the upgrade takes over {taken}"));
    }
    let disruption = classify_change(release, &upgrade.manifest, &upgrade.live, &mut reason);
    ReleaseAssessment::differs(reason, ReleaseDiff::Upgrade(Box::new(upgrade)), disruption, basis)
}

fn format_chart(info: &ReleaseInfo) -> String {
    format!("{} {}", info.chart, info.version)
}

/// Returns the CustomResourceDefinitions that become part of the release.
fn unowned_names(state: &ReleaseState) -> Vec<String> {
    state.unowned.iter().map(|crd| crd.name.clone()).collect()
}

/// Lists the objects that the chart's annotations keep.
fn describe_kept(state: &ReleaseState) -> Option<String> {
    let names: Vec<&str> = state.kept.iter().map(String::as_str).collect();
    (!names.is_empty()).then(|| join_quoted(&names))
}

/// Lists the existing CustomResourceDefinitions of a chart.
fn describe_crds(chart: Option<&ChartInfo>) -> Option<String> {
    let names: Vec<&str> = chart?.crds.iter().filter(|crd| crd.present).map(|crd| crd.name.as_str()).collect();
    (!names.is_empty()).then(|| format!("the CustomResourceDefinitions {}", join_quoted(&names)))
}
