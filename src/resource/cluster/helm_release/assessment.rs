//! Evaluates a Helm release.

use super::HelmReleaseResource;
use super::release_changes;
use crate::model::{BlockClass, DisruptionClass, Value};
use crate::object::ReleaseAction;
use crate::object::{ChartInfo, ReleaseInfo, ReleaseState, ReleaseStatus};
use crate::resource::shared::support::join_quoted;
use crate::resource::{Assessment, AttributeChange};

/// Returns the observed state without attributes that change with time alone.
fn release_basis(release: &HelmReleaseResource, state: &ReleaseState) -> Value {
    let mut state = state.clone();
    let stale = state.release.as_ref().is_some_and(|info| is_stale(release, info));
    if let Some(info) = &mut state.release {
        info.age_s = 0;
    }
    // Plain data: it always serializes.
    serde_json::json!({ "state": serde_json::to_value(&state).unwrap_or_default(), "stale": stale })
}

fn is_stale(release: &HelmReleaseResource, info: &ReleaseInfo) -> bool {
    info.status.is_pending() && info.age_s >= release.stale_s
}

pub(super) fn assess_absent(release: &HelmReleaseResource, state: &ReleaseState) -> Assessment {
    let (title, basis) = (release.qualified_name(), release_basis(release, state));
    let Some(info) = state.release.as_ref().filter(|info| info.status != ReleaseStatus::Uninstalled) else {
        return Assessment::ok(format!("release `{title}` does not exist"), basis);
    };
    if let Some(blocked) = block_if_busy(release, info, &basis).or_else(|| block_if_foreign(release, info, &basis)) {
        return blocked;
    }
    let mut reason = format!("release `{title}` is {}", info.status.name());
    if let Some(stays) = describe_crds(state.chart.as_ref()) {
        reason.push_str(&format!("; uninstalling keeps {stays}"));
    }
    let changes = vec![AttributeChange::new("release", Some(&format_chart(info)), None)];
    with_release_call(
        Assessment::change(reason, changes, DisruptionClass::D1, basis),
        release,
        ReleaseAction::Uninstall,
    )
}

pub(super) fn assess_present(release: &HelmReleaseResource, state: &ReleaseState) -> Assessment {
    let Some(chart) = &state.chart else {
        return Assessment::unknown(&crate::probe::UnansweredReason::new("the chart was not read"));
    };
    Assessment { images: chart.images.clone(), ..assess_with_chart(release, state, chart) }
}

fn assess_with_chart(release: &HelmReleaseResource, state: &ReleaseState, chart: &ChartInfo) -> Assessment {
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
fn block_if_busy(release: &HelmReleaseResource, info: &ReleaseInfo, basis: &Value) -> Option<Assessment> {
    let live = info.status.is_pending() && !is_stale(release, info);
    let status = info.status.name();
    let reason = format!(
        "another Helm operation is in progress: revision {} has been {status} for {} s",
        info.revision, info.age_s
    );
    live.then(|| {
        Assessment::blocked(BlockClass::Busy, reason, basis.clone()).hint(format!(
            "wait for it to finish; after {} s forge treats it as killed and recovers the release",
            release.stale_s
        ))
    })
}

fn block_if_foreign(release: &HelmReleaseResource, info: &ReleaseInfo, basis: &Value) -> Option<Assessment> {
    let reason = format!("release `{}` ({}) was not installed by forge", release.qualified_name(), format_chart(info));
    (!info.ours && !release.adopt)
        .then(|| Assessment::blocked(BlockClass::Host, reason, basis.clone()).hint("set `adopt: true` to take it over"))
}

fn block_unpinned_images(chart: &ChartInfo, basis: &Value) -> Option<Assessment> {
    let loose = release_changes::find_unpinned_images(&chart.images);
    let reason = format!(
        "{} without a tag or digest, or with tag `latest`: {}",
        if loose.len() == 1 { "an image" } else { "images" },
        join_quoted(&loose)
    );
    (!loose.is_empty()).then(|| {
        Assessment::blocked(BlockClass::Declaration, reason, basis.clone())
            .hint("set a tag or digest for each image in `values`")
    })
}

fn assess_first_install(
    release: &HelmReleaseResource,
    state: &ReleaseState,
    chart: &ChartInfo,
    basis: Value,
) -> Assessment {
    if let Some(other) = state.foreign.first().filter(|_| !release.beside) {
        let reason = format!(
            "chart `{}` is already installed as release `{}/{}` ({}, {})",
            chart.name, other.namespace, other.name, other.version, other.status
        );
        return Assessment::blocked(BlockClass::Host, reason, basis)
            .hint("declare that release with `adopt: true`, uninstall it, or set `beside: true` to keep both");
    }
    let told = format!("{} {}", chart.name, chart.version);
    let mut changes = vec![AttributeChange::new("release", None, Some(&told))];
    changes.extend(crd_changes(chart));
    changes.extend(hooks_change(release, state, "install"));
    let reason = format!("release `{}` does not exist", release.qualified_name());
    with_release_call(
        Assessment::change(reason, changes, DisruptionClass::D0, basis),
        release,
        ReleaseAction::Upgrade { force: false },
    )
}

/// Returns the hooks that run as a change.
fn hooks_change(release: &HelmReleaseResource, state: &ReleaseState, verb: &str) -> Option<AttributeChange> {
    let hooks = release_changes::list_hooks(state, verb);
    (release.hooks && !hooks.is_empty()).then(|| AttributeChange::new("hooks", None, Some(&hooks.join(", "))))
}

/// Returns the CustomResourceDefinitions that are created.
fn crd_changes(chart: &ChartInfo) -> impl Iterator<Item = AttributeChange> {
    let new = chart.crds.iter().filter(|crd| !crd.present);
    new.map(|crd| AttributeChange::new(&format!("CustomResourceDefinition {}", crd.name), None, Some("new")))
}

fn assess_installed(
    release: &HelmReleaseResource,
    state: &ReleaseState,
    chart: &ChartInfo,
    info: &ReleaseInfo,
    basis: Value,
) -> Assessment {
    if let Some(blocked) = block_if_busy(release, info, &basis) {
        return blocked;
    }
    if info.status == ReleaseStatus::Unknown {
        return Assessment::blocked(BlockClass::Host, "Helm reports a release status that forge does not know", basis)
            .hint("check it with `helm status`");
    }
    let mut upgrade = chart_changes(chart, info);
    upgrade.extend(release_changes::declared_changes(state));
    upgrade.extend(crd_changes(chart));
    let live = release_changes::live_changes(state);
    if upgrade.is_empty() && live.is_empty() {
        return Assessment::ok(describe_unchanged(release, state, info), basis);
    }
    if let Some(blocked) = block_if_foreign(release, info, &basis) {
        return blocked;
    }
    if let Some(blocked) = block_skipped_majors(release, chart, info, &basis) {
        return blocked;
    }
    match upgrade.is_empty() {
        true => assess_repair(release, state, live, basis),
        false => assess_upgrade(release, state, upgrade, live, basis),
    }
}

/// Blocks an upgrade across more major versions than `majors` allows.
fn block_skipped_majors(
    release: &HelmReleaseResource,
    chart: &ChartInfo,
    info: &ReleaseInfo,
    basis: &Value,
) -> Option<Assessment> {
    let most = release.majors?;
    if info.version == chart.version {
        return None;
    }
    let step = format!("from {} to {}", info.version, chart.version);
    let (Some(from), Some(to)) = (parse_major(&info.version), parse_major(&chart.version)) else {
        let reason = format!("the major version distance {step} could not be evaluated: not a `MAJOR.…` version");
        return Some(Assessment::blocked(BlockClass::Declaration, reason, basis.clone()));
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
    Some(Assessment::blocked(BlockClass::Rule, reason, basis.clone()).hint(hint))
}

/// Returns the major version: 24 for `v24.9.1`.
fn parse_major(version: &str) -> Option<i64> {
    version.trim_start_matches('v').split('.').next()?.parse().ok()
}

/// Compares chart, version and status.
fn chart_changes(chart: &ChartInfo, info: &ReleaseInfo) -> Vec<AttributeChange> {
    let differs = |attribute: &str, from: &str, to: &str| {
        (from != to).then(|| AttributeChange::new(attribute, Some(from), Some(to)))
    };
    let all = [
        differs("chart", &info.chart, &chart.name),
        differs("version", &info.version, &chart.version),
        differs("status", info.status.name(), ReleaseStatus::Deployed.name()),
    ];
    all.into_iter().flatten().collect()
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

fn assess_repair(
    release: &HelmReleaseResource,
    state: &ReleaseState,
    live: Vec<AttributeChange>,
    basis: Value,
) -> Assessment {
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
    with_release_call(Assessment::change(reason, live, DisruptionClass::D1, basis), release, ReleaseAction::Repair)
}

fn assess_upgrade(
    release: &HelmReleaseResource,
    state: &ReleaseState,
    declared: Vec<AttributeChange>,
    live: Vec<AttributeChange>,
    basis: Value,
) -> Assessment {
    let mut reason = "the release differs".to_owned();
    if let Some(taken) = release_changes::describe_conflicts(&state.conflicts) {
        reason.push_str(&format!("; the upgrade takes over {taken}"));
    }
    let mut changes = release_changes::merge_changes(declared, live);
    changes.extend(hooks_change(release, state, "upgrade"));
    let deed = ReleaseAction::Upgrade { force: !state.conflicts.is_empty() };
    with_release_call(Assessment::change(reason, changes, DisruptionClass::D1, basis), release, deed)
}

fn with_release_call(judgement: Assessment, release: &HelmReleaseResource, deed: ReleaseAction) -> Assessment {
    Assessment { calls: vec![release.release_call(deed)], ..judgement }
}

fn format_chart(info: &ReleaseInfo) -> String {
    format!("{} {}", info.chart, info.version)
}

/// Lists the existing CustomResourceDefinitions of a chart.
fn describe_crds(chart: Option<&ChartInfo>) -> Option<String> {
    let names: Vec<&str> = chart?.crds.iter().filter(|crd| crd.present).map(|crd| crd.name.as_str()).collect();
    (!names.is_empty()).then(|| format!("the CustomResourceDefinitions {}", join_quoted(&names)))
}
