//! Evaluates a unit: existence, mask, enablement, activity, and inputs.

use super::declaration::ServiceResource;
use super::diff::{EnablementChange, ProcessChange, ServiceDiff};
use super::renewal::ServiceRenewal;
use super::restarts;
use crate::model::{BlockClass, DisruptionClass, Value};
use crate::probe::{Observation, RelatedUnit, UnansweredReason, UnitState};
use crate::resource::shared::support::{join_quoted, join_words, provides_unit, will_be_provided};
use crate::resource::{Assessment, AssessmentContext, EarlierStepEffects, ProvidedItem};
use serde_json::json;

pub(super) fn assess_service(
    want: &ServiceResource,
    unit: &UnitState,
    seen: &Observation,
    cx: &AssessmentContext<'_>,
) -> Assessment<ServiceDiff> {
    match unit.load.as_str() {
        "loaded" | "merged" | "masked" => {
            compare_unit(want, unit, seen, cx).unwrap_or_else(|unknown| Assessment::unknown(&unknown))
        }
        "not-found" => assess_not_found(want, unit, cx),
        load => assess_unloadable(want, unit, load, cx),
    }
}

fn assess_not_found(want: &ServiceResource, unit: &UnitState, cx: &AssessmentContext<'_>) -> Assessment<ServiceDiff> {
    let basis = json!({ "load": "not-found" });
    if want.enabled == Some(false) && !want.running && is_enabled(unit, false) {
        let reason = format!("unit `{}` does not exist, but links enable it", want.unit);
        let enabled = EnablementChange { from: Some(unit.file_state.clone()), missing_in: Vec::new(), to: false };
        let diff = ServiceDiff { file_missing: true, enabled: Some(enabled), ..ServiceDiff::default() };
        let basis = json!({ "load": "not-found", "file": unit.file_state });
        let judgement = Assessment::differs(reason, diff, DisruptionClass::D0, basis);
        return match will_be_provided(cx.predicted, &ProvidedItem::Unit(want.unit.clone())) {
            true => judgement.mark_predicted(),
            false => judgement,
        };
    }
    if !want.running && want.enabled != Some(true) {
        return Assessment::ok(format!("unit `{}` does not exist, so it is not running", want.unit), basis);
    }
    if will_be_provided(cx.predicted, &ProvidedItem::Unit(want.unit.clone())) {
        let reason = format!("unit `{}` does not exist yet; an earlier step provides it", want.unit);
        return Assessment { reason: reason.into(), ..assess_new_unit(want) }.mark_predicted();
    }
    let reason = format!("unit `{}` does not exist and no earlier step provides it", want.unit);
    Assessment::blocked(BlockClass::Host, reason, basis)
        .hint("check its name, or add a `package` or `unit` step for it before this one, or list it in `provides`")
}

/// Evaluates a unit that does not exist yet and that a change will create.
pub(super) fn assess_new_unit(want: &ServiceResource) -> Assessment<ServiceDiff> {
    let reason = format!("unit `{}` does not exist", want.unit);
    Assessment::differs(reason, creation_diff(want), DisruptionClass::D0, json!({ "load": "not-found" }))
}

fn creation_diff(want: &ServiceResource) -> ServiceDiff {
    ServiceDiff::new_unit(want.running, want.enabled)
}

fn assess_unloadable(
    want: &ServiceResource,
    unit: &UnitState,
    load: &str,
    cx: &AssessmentContext<'_>,
) -> Assessment<ServiceDiff> {
    let basis = json!({ "load": load });
    if unit.need_daemon_reload || will_be_provided(cx.predicted, &ProvidedItem::Unit(want.unit.clone())) {
        let reason = format!("unit `{}` is {load}, and its files change", want.unit);
        return Assessment::differs(reason, creation_diff(want), DisruptionClass::D0, basis).mark_predicted();
    }
    Assessment::blocked(BlockClass::Host, format!("systemd cannot load unit `{}`: {load}", want.unit), basis)
        .host_hint(format!("run `systemctl status {}` and `systemd-analyze verify` on the host", want.unit))
}

/// Results of the comparisons that form a judgement.
#[derive(Default)]
struct ServiceFindings {
    diff: ServiceDiff,
    reasons: Vec<String>,
    disruption: DisruptionClass,
    renewal: ServiceRenewal,
}

fn compare_unit(
    want: &ServiceResource,
    unit: &UnitState,
    seen: &Observation,
    cx: &AssessmentContext<'_>,
) -> Result<Assessment<ServiceDiff>, UnansweredReason> {
    let files_change = will_change_files(want, cx.predicted);
    if let Some(blocked) = block_impossible_state(want, unit).filter(|_| !files_change) {
        return Ok(blocked);
    }
    let mut parts = ServiceFindings::default();
    parts.check_mask(want, unit);
    parts.check_manager_reload(unit);
    parts.check_enablement(want, unit);
    let installed = parts.predict_enablement(want, unit, cx.predicted);
    parts.check_activity(want, unit, cx.predicted)?;
    // Without inputs, a step that declares any state leaves the process alone.
    let renews = want.running || want.any_state && !cx.inputs.is_empty();
    if renews && is_active(unit) {
        parts.check_renewal(want, unit, seen, cx)?;
    }
    if unit.related_unread && (parts.diff.process.is_some() || parts.diff.enabled.is_some()) {
        return Err(UnansweredReason::new("the units that change together with it could not be read"));
    }
    let mut basis = service_basis(want, unit, &parts.renewal);
    if !parts.diff.stops.is_empty() {
        basis["stops"] = json!(parts.diff.stops.iter().map(|other| &other.name).collect::<Vec<_>>());
    }
    if want.running && restarts::keeps_restarting(unit) {
        let waits = restarts::waits_for_restart(unit) && parts.diff.is_only_start() && !files_change;
        // With new inputs it may stay up.
        if parts.diff.is_empty() || waits && want.running_service(unit, seen, cx).find_renewal()?.is_empty() {
            return Ok(restarts::block_restarting(want, unit));
        }
    }
    if parts.diff.is_empty() {
        let missing = list_missing_targets(want, unit, cx.predicted);
        if !missing.is_empty() {
            basis["missing_targets"] = json!(missing);
            return Ok(Assessment::pending(describe_missing_targets(missing), basis).hint(MISSING_TARGET_HINT));
        }
        return Ok(Assessment::ok(describe_unchanged(want, unit), basis));
    }
    // Only a restart or reload, links of new targets, and what files decide that change before can be predicted; other
    // changes are observed.
    let only_coming = parts.diff.is_only_coming(parts.renewal.predicted, installed)
        || files_change && block_impossible_state(want, unit).is_some();
    let judgement = Assessment::differs(parts.reasons.join("; "), parts.diff, parts.disruption, basis);
    Ok(if only_coming { judgement.mark_predicted() } else { judgement })
}

/// Returns the targets that are to start the unit at boot, if none of them exists and no earlier step may bring one.
fn list_missing_targets<'u>(
    want: &ServiceResource,
    unit: &'u UnitState,
    predicted: Option<&EarlierStepEffects>,
) -> &'u [String] {
    let is_coming = |target: &String| will_be_provided(predicted, &ProvidedItem::Unit(target.clone()));
    match want.enabled == Some(true) && !unit.missing_targets.iter().any(is_coming) {
        true => &unit.missing_targets,
        false => &[],
    }
}

fn describe_missing_targets(targets: &[String]) -> String {
    let verb = if targets.len() == 1 { "does" } else { "do" };
    format!("enabled, but {} {verb} not exist, and no other link starts it at boot", join_quoted(targets))
}

const MISSING_TARGET_HINT: &str =
    "correct `WantedBy=` in the `[Install]` section of the unit, or declare the target with a `unit` step";

/// Reports whether an earlier step writes the unit's file or a drop-in of it, which may bring what it lacks now.
fn will_change_files(want: &ServiceResource, predicted: Option<&EarlierStepEffects>) -> bool {
    let folder = format!("/{}.d/", want.unit);
    predicted.is_some_and(|earlier| {
        earlier.will_exist.iter().any(|item| match item {
            ProvidedItem::Unit(name) => provides_unit(name, &want.unit),
            ProvidedItem::Path(path) => path.contains(&folder),
            _ => false,
        })
    })
}

fn block_impossible_state(want: &ServiceResource, unit: &UnitState) -> Option<Assessment<ServiceDiff>> {
    let basis = || json!({ "load": unit.load, "type": unit.service_type, "file": unit.file_state });
    // Only services have a type, whatever systemd reports.
    let is_service = want.unit.ends_with(".service");
    if is_service && want.running && unit.service_type == "oneshot" && !unit.remain_after_exit && !is_active(unit) {
        let reason = format!("`{}` is a oneshot without `RemainAfterExit=yes`: it never stays running", want.unit);
        return Some(Assessment::blocked(BlockClass::Host, reason, basis()).hint(
            "declare `state: stopped` with `enabled: true`, or add a `unit` drop-in with `RemainAfterExit=yes`",
        ));
    }
    if want.running && is_active(unit) && unit.frozen_by_parent {
        let reason = format!("`{}` is frozen with the slice that contains it", want.unit);
        let hint = "run `systemctl thaw` on the slice";
        return Some(Assessment::blocked(BlockClass::Host, reason, basis()).host_hint(hint));
    }
    if want.enabled == Some(true) && unit.file_state == "static" {
        let reason = format!("`{}` has no `[Install]` section, so it cannot be enabled", want.unit);
        return Some(Assessment::blocked(BlockClass::Host, reason, basis()).hint("omit `enabled`"));
    }
    None
}

impl ServiceFindings {
    fn add_reason(&mut self, reason: String, disruption: DisruptionClass) {
        self.reasons.push(reason);
        self.disruption = self.disruption.max(disruption);
    }

    fn check_mask(&mut self, want: &ServiceResource, unit: &UnitState) {
        if is_masked(unit) && (want.running || want.enabled == Some(true)) {
            self.diff.masked = true;
            self.add_reason("it is masked".into(), DisruptionClass::D0);
        }
    }

    fn check_manager_reload(&mut self, unit: &UnitState) {
        if unit.need_daemon_reload {
            self.diff.files_unread = true;
            self.add_reason("its files changed since systemd read them".into(), DisruptionClass::D0);
        }
    }

    fn check_enablement(&mut self, want: &ServiceResource, unit: &UnitState) {
        let differs = |enabled: &bool| *enabled != is_enabled(unit, *enabled) || *enabled && !unit.unlinked.is_empty();
        let Some(to) = want.enabled.filter(differs) else { return };
        let missing_in = unit.unlinked.clone();
        let change = EnablementChange { from: Some(unit.file_state.clone()), missing_in, to };
        // The reason of the mask covers this.
        if let (false, Some(found)) = (is_masked(unit), change.describe_before()) {
            self.reasons.push(format!("it is {found}"));
        }
        self.diff.enabled = Some(change);
        self.diff.also.clone_from(&unit.also);
        let names: Vec<String> = self.diff.list_changed_units().map(|other| format!("`{}`", other.name)).collect();
        if !names.is_empty() {
            self.reasons.push(format!("its `Also=` names {}", join_words(&names)));
        }
    }

    /// Predicts the links of targets that an earlier step adds to the unit. Returns whether there are any.
    fn predict_enablement(
        &mut self,
        want: &ServiceResource,
        unit: &UnitState,
        predicted: Option<&EarlierStepEffects>,
    ) -> bool {
        let targets = predicted.and_then(|earlier| earlier.will_install.get(&want.unit));
        let Some(targets) = targets.filter(|_| want.enabled == Some(true) && self.diff.enabled.is_none()) else {
            return false;
        };
        let (from, missing_in) = (Some(unit.file_state.clone()), targets.clone());
        self.reasons.push(format!("an earlier step installs it in {}", join_words(&missing_in)));
        self.diff.enabled = Some(EnablementChange { from, missing_in, to: true });
        true
    }

    fn check_activity(
        &mut self,
        want: &ServiceResource,
        unit: &UnitState,
        predicted: Option<&EarlierStepEffects>,
    ) -> Result<(), UnansweredReason> {
        if want.any_state {
            return Ok(());
        }
        let down = match unit.active.as_str() {
            "active" | "reloading" | "refreshing" => false,
            "inactive" | "failed" | "deactivating" | "activating" | "maintenance" => true,
            other => return Err(UnansweredReason::new(format!("systemd reports the unknown state `{other}`"))),
        };
        // A unit that systemd keeps restarting is `activating`, so it can still be stopped.
        let at_rest = down && unit.active != "activating";
        let as_declared = if want.running { !down } else { at_rest };
        if !as_declared {
            let disruption = if want.running { DisruptionClass::D0 } else { DisruptionClass::D1 };
            let found = describe_state(unit);
            self.add_reason(format!("it is {found}"), disruption);
            self.diff.process = Some(ProcessChange::activity(want.running, Some(found)));
            self.diff.stopped = (!want.running).then(|| want.unit.clone());
            self.add_stopped_units(want, unit, predicted);
        } else if want.running && unit.frozen {
            self.add_reason("it is frozen".to_owned(), DisruptionClass::D0);
            self.diff.process = Some(ProcessChange::Thaw);
        }
        Ok(())
    }

    /// Adds the other units that the start or the stop of this one stops, unless an earlier step stops them.
    fn add_stopped_units(&mut self, want: &ServiceResource, unit: &UnitState, predicted: Option<&EarlierStepEffects>) {
        let related = if want.running { &unit.conflicting } else { &unit.dependents };
        let is_up = |other: &&RelatedUnit| predicted.is_none_or(|earlier| !earlier.will_stop.contains(&other.name));
        let stopped: Vec<RelatedUnit> = related.iter().filter(is_up).cloned().collect();
        if stopped.is_empty() {
            return;
        }
        let names = join_words(&stopped.iter().map(|other| format!("`{}`", other.name)).collect::<Vec<_>>());
        let reason = match want.running {
            true => format!("systemd stops {names} to start it (`Conflicts=`)"),
            false => format!("systemd stops {names} with it (`Requires=`, `BindsTo=` or `PartOf=`)"),
        };
        self.add_reason(reason, DisruptionClass::D1);
        self.diff.stops = stopped;
    }

    fn check_renewal(
        &mut self,
        want: &ServiceResource,
        unit: &UnitState,
        seen: &Observation,
        cx: &AssessmentContext<'_>,
    ) -> Result<(), UnansweredReason> {
        let mut renewal = want.running_service(unit, seen, cx).find_renewal()?;
        if !renewal.restart.is_empty() {
            // A restart includes the effect of a reload.
            renewal.restart.append(&mut renewal.reload);
            self.add_reason(renewal.restart.join("; "), DisruptionClass::D1);
            self.diff.process = Some(ProcessChange::Restart { reasons: renewal.restart.clone() });
        } else if !renewal.reload.is_empty() {
            self.add_reason(renewal.reload.join("; "), DisruptionClass::D0);
            self.diff.process = Some(ProcessChange::Reload { reasons: renewal.reload.clone() });
        }
        self.renewal = renewal;
        Ok(())
    }
}

fn is_active(unit: &UnitState) -> bool {
    matches!(unit.active.as_str(), "active" | "reloading" | "refreshing")
}

fn is_masked(unit: &UnitState) -> bool {
    unit.load == "masked" || unit.file_state.starts_with("masked")
}

/// Reports whether the unit starts at boot. For an ambiguous state the declaration decides: `systemctl` neither enables
/// nor disables an `indirect` or `generated` unit.
fn is_enabled(unit: &UnitState, declared: bool) -> bool {
    match unit.file_state.as_str() {
        "enabled" | "alias" => true,
        "indirect" => declared,
        "generated" => true,
        // `enabled-runtime` lasts until the next boot.
        _ => false,
    }
}

fn describe_state(unit: &UnitState) -> String {
    match unit.active.as_str() {
        "activating" | "deactivating" => format!("{} ({})", unit.active, unit.sub),
        "failed" if !unit.result.is_empty() && unit.result != "success" => format!("failed ({})", unit.result),
        other => other.to_owned(),
    }
}

/// Returns the reason of a step without changes.
fn describe_unchanged(want: &ServiceResource, unit: &UnitState) -> String {
    let mut words = match (want.running, want.any_state) {
        (true, _) => vec!["running".to_owned()],
        (false, false) => vec![format!("not running ({})", describe_state(unit))],
        (false, true) => Vec::new(),
    };
    match want.enabled {
        Some(true) => words.push("enabled".to_owned()),
        Some(false) => words.push("not enabled".to_owned()),
        None if want.any_state => words.push("the unit exists".to_owned()),
        None => {}
    }
    let words = join_words(&words);
    match want.running {
        true => format!("{words}; no input changed since it started{}", restarts::describe_past(unit)),
        false => words,
    }
}

fn service_basis(want: &ServiceResource, unit: &UnitState, renewal: &ServiceRenewal) -> Value {
    let mut basis = json!({
        "load": unit.load,
        "active": unit.active,
        "daemon_reload": unit.need_daemon_reload,
    });
    if want.enabled.is_some() {
        basis["file"] = json!(unit.file_state);
    }
    if !renewal.restart.is_empty() {
        // A restart for another reason is the same change.
        basis["restart"] = json!(true);
    }
    if !renewal.reload.is_empty() {
        basis["reload"] = json!(true);
    }
    if unit.frozen {
        basis["frozen"] = json!(true);
    }
    basis
}
