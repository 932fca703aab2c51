//! Evaluates packages from the package manager's output.

use super::PackageResource;
use super::version::compare_versions;
use crate::model::{BlockClass, DisruptionClass, Value};
use crate::probe::{Observation, PackageManagerKind, PackageState, Probe, UnansweredReason};
use crate::resource::shared::support::{join_quoted, join_words, manager_state, will_be_provided};
use crate::resource::{Assessment, AssessmentContext, AttributeChange, ProvidedItem};
use serde_json::{Map, json};
use std::cmp::Ordering;

/// Maximum number of offered versions in a message.
const MAX_LISTED: usize = 5;

/// Findings about all packages of a step.
#[derive(Default)]
struct PackageFindings {
    changes: Vec<AttributeChange>,
    /// Reasons for the changes.
    reasons: Vec<String>,
    /// Packages that match.
    settled: Vec<String>,
    disruption: DisruptionClass,
    /// Packages that apt does not offer in the wanted version: the name and a description of the offers.
    missing: Vec<(String, String)>,
    /// Why apt's offers could not be read, if they are needed.
    offers_unknown: Option<String>,
    /// Why a declared hold cannot be set.
    cannot_hold: Option<String>,
    manager: PackageManagerKind,
}

pub(super) fn assess_packages(
    want: &PackageResource,
    states: &[(&str, &PackageState)],
    seen: &Observation,
    cx: &AssessmentContext<'_>,
) -> Assessment {
    let mut findings = PackageFindings::default();
    for (name, state) in states {
        findings.manager = state.manager;
        match want.absent {
            true => findings.add_unwanted(want, name, state),
            false => findings.add_wanted(want, name, state),
        }
    }
    conclude_findings(want, findings, packages_basis(want, states), seen, cx)
}

fn conclude_findings(
    want: &PackageResource,
    findings: PackageFindings,
    basis: Value,
    seen: &Observation,
    cx: &AssessmentContext<'_>,
) -> Assessment {
    if findings.changes.is_empty() {
        return Assessment::ok(findings.settled.join("; "), basis);
    }
    let reason = findings.reasons.join("; ");
    if let Some(why) = findings.offers_unknown {
        return Assessment { basis, ..Assessment::unknown(&UnansweredReason::new(why)) };
    }
    if let Some(why) = findings.cannot_hold {
        return block_unsupported_hold(
            why,
            Assessment::change(reason, findings.changes, findings.disruption, basis),
            cx,
        );
    }
    if findings.missing.is_empty() {
        return Assessment::change(
            add_manager_state(want, reason, seen, findings.manager),
            findings.changes,
            findings.disruption,
            basis,
        );
    }
    let offers: Vec<&str> = findings.missing.iter().map(|(_, offer)| offer.as_str()).collect();
    let offers = offers.join("; ");
    let change = |why: String| Assessment::change(why, findings.changes.clone(), findings.disruption, basis.clone());
    let missing = findings.missing.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>();
    if may_be_provided(&missing, cx) {
        return change(format!("{offers}; an earlier step may change that")).mark_predicted();
    }
    if want.update {
        return change(add_manager_state(
            want,
            format!("{offers}; apt's lists are updated first"),
            seen,
            findings.manager,
        ));
    }
    Assessment::blocked(BlockClass::Host, offers, basis)
        .hint("add an `apt_repository` step before this one, or set `update: if-missing`")
}

/// Blocks a declared hold that the host cannot keep, unless an earlier step may install the plugin.
fn block_unsupported_hold(why: String, judgement: Assessment, cx: &AssessmentContext<'_>) -> Assessment {
    if may_be_provided(&[VERSIONLOCK_PLUGIN.to_owned()], cx) {
        return judgement.mark_predicted();
    }
    Assessment::blocked(BlockClass::Rule, format!("a hold is declared, but {why}"), judgement.basis)
        .hint(format!("install `{VERSIONLOCK_PLUGIN}` with an earlier step"))
}

/// Package with dnf's `versionlock` plugin.
const VERSIONLOCK_PLUGIN: &str = "python3-dnf-plugin-versionlock";

/// Reports whether an earlier step may provide the packages that apt does not offer now.
fn may_be_provided(missing: &[String], cx: &AssessmentContext<'_>) -> bool {
    let provided = missing.iter().all(|name| will_be_provided(cx.predicted, &ProvidedItem::Package(name.clone())));
    provided || cx.predicted.is_some_and(|p| p.after.is_some())
}

/// Adds current obstacles to the reason. They change from minute to minute and are not part of the basis.
fn add_manager_state(want: &PackageResource, reason: String, seen: &Observation, whose: PackageManagerKind) -> String {
    let lock = if whose.is_dpkg() { "dpkg's" } else { "rpm's" };
    let Ok(manager) = manager_state(seen, &Probe::PackageManager) else { return reason };
    let mut reason = reason;
    if let Some((pid, command)) = &manager.lock_holder {
        reason.push_str(&format!("; {lock} lock is held by pid {pid} (`{}`)", command.raw()));
    }
    let names: Vec<&String> = manager.broken.keys().filter(|name| !want.names.contains(name)).collect();
    if !names.is_empty() {
        reason.push_str(&format!("; dpkg left {} unfinished; this is repaired first", join_quoted(&names)));
    }
    reason
}

impl PackageFindings {
    fn add_wanted(&mut self, want: &PackageResource, name: &str, state: &PackageState) {
        match (unpacked_version(state), state.status.as_str()) {
            (Some(installed), "installed" | "triggers-pending" | "triggers-awaited") => {
                self.add_installed(want, name, installed, state);
            }
            (Some(found), status) => self.add_unfinished(want, name, found, status, state),
            (None, _) => self.add_missing(want, name, state),
        }
        self.check_hold(want, name, state);
    }

    fn add_installed(&mut self, want: &PackageResource, name: &str, installed: &str, state: &PackageState) {
        if !self.add_version_mismatch(want, name, installed, state) {
            self.settled.push(format!("`{name}` {installed} is installed"));
        }
    }

    fn add_unfinished(&mut self, want: &PackageResource, name: &str, found: &str, status: &str, state: &PackageState) {
        self.push_change(name, want, "status", Some(status), Some("installed"));
        self.reasons.push(format!("`{name}` is {status}"));
        self.add_version_mismatch(want, name, found, state);
    }

    /// Adds a change if the declared version differs from the installed one; reports whether it does.
    fn add_version_mismatch(&mut self, want: &PackageResource, name: &str, found: &str, state: &PackageState) -> bool {
        let Some(version) = want.version.as_deref() else { return false };
        let attribute = match compare_versions(state.manager, version, found) {
            Some(Ordering::Equal) => return false,
            Some(Ordering::Less) => "downgrade",
            _ => "version",
        };
        self.push_change(name, want, attribute, Some(found), Some(version));
        self.reasons.push(format!("`{name}` is {found}, not {version}"));
        self.disruption = DisruptionClass::D1;
        self.check_offered(want, name, state);
        true
    }

    fn add_missing(&mut self, want: &PackageResource, name: &str, state: &PackageState) {
        let any = if state.manager.is_dpkg() { "latest from apt" } else { "latest from dnf" };
        let version = want.version.as_deref().or(state.candidate.as_deref()).unwrap_or(any);
        self.push_change(name, want, "version", None, Some(version));
        self.reasons.push(format!("`{name}` is not installed"));
        self.check_offered(want, name, state);
    }

    /// Records a version that apt's lists do not contain. dnf is not queried.
    fn check_offered(&mut self, want: &PackageResource, name: &str, state: &PackageState) {
        if state.manager == PackageManagerKind::Rpm {
            return;
        }
        if let Some(why) = &state.offers_unknown {
            self.offers_unknown = Some(format!("apt's offers of `{name}` could not be read: {why}"));
            return;
        }
        let equals =
            |offer: &String, version: &str| compare_versions(state.manager, version, offer) == Some(Ordering::Equal);
        let offer = match want.version.as_deref() {
            None if state.candidate.is_some() => return,
            None => format!("apt offers no version of `{name}`"),
            Some(version) if state.available.iter().any(|offer| equals(offer, version)) => return,
            Some(version) if state.available.is_empty() => {
                format!("apt offers no version of `{name}`; {version} is declared")
            }
            Some(version) => {
                format!("apt does not offer `{name}` {version}; it offers {}", join_versions(&state.available))
            }
        };
        self.missing.push((name.to_owned(), offer));
    }

    fn check_hold(&mut self, want: &PackageResource, name: &str, state: &PackageState) {
        let Some(hold) = want.hold.filter(|hold| *hold != state.held) else { return };
        let word = |held: bool| if held { "held" } else { "not held" };
        self.push_change(name, want, "hold", Some(word(state.held)), Some(word(hold)));
        self.cannot_hold = self.cannot_hold.take().or_else(|| state.cannot_hold.clone());
        if unpacked_version(state).is_some() {
            self.reasons.push(format!("`{name}` is {}", word(state.held)));
        }
    }

    fn add_unwanted(&mut self, want: &PackageResource, name: &str, state: &PackageState) {
        match (unpacked_version(state), state.status.as_str()) {
            (Some(version), _) => {
                self.push_change(name, want, "version", Some(version), None);
                self.reasons.push(format!("`{name}` {version} is installed"));
                self.disruption = DisruptionClass::D1;
            }
            (None, "config-files") if want.purge => {
                self.push_change(name, want, "configuration", Some("left"), None);
                self.reasons.push(format!("the configuration of `{name}` exists"));
            }
            (None, _) => self.settled.push(format!("`{name}` is not installed")),
        }
    }

    /// Adds a change. With several packages the attribute includes the package.
    fn push_change(
        &mut self,
        name: &str,
        want: &PackageResource,
        attribute: &str,
        from: Option<&str>,
        to: Option<&str>,
    ) {
        let attribute = match want.names.len() {
            1 => attribute.to_owned(),
            _ => format!("{attribute} of {name}"),
        };
        self.changes.push(AttributeChange::new(&attribute, from, to));
    }
}

/// Returns the version whose files are on the host, even if its installation is unfinished.
fn unpacked_version(state: &PackageState) -> Option<&str> {
    let gone = matches!(state.status.as_str(), "not-installed" | "config-files");
    state.version.as_deref().filter(|_| !gone)
}

fn join_versions(versions: &[String]) -> String {
    let mut shown: Vec<String> = versions.iter().take(MAX_LISTED).cloned().collect();
    if versions.len() > MAX_LISTED {
        shown.push(format!("{} more", versions.len() - MAX_LISTED));
    }
    join_words(&shown)
}

/// Returns the observed state that the judgement depends on. It excludes apt's offers: a new version in the archive
/// must not make a plan stale that does not install it.
fn packages_basis(want: &PackageResource, states: &[(&str, &PackageState)]) -> Value {
    let entry = |(name, state): &(&str, &PackageState)| {
        let mut seen = json!({ "version": state.version, "status": state.status });
        if want.hold.is_some() {
            seen["held"] = json!(state.held);
        }
        if state.manager == PackageManagerKind::Rpm {
            seen["manager"] = json!("rpm");
        }
        ((*name).to_owned(), seen)
    };
    Value::Object(states.iter().map(entry).collect::<Map<_, _>>())
}

/// Returns the package manager of the judgement; the action must use the same one.
pub(super) fn assessed_manager(judgement: &Assessment) -> PackageManagerKind {
    let of_rpm = |entry: &Value| entry["manager"] == "rpm";
    match judgement.basis.as_object().is_some_and(|packages| packages.values().any(of_rpm)) {
        true => PackageManagerKind::Rpm,
        false => PackageManagerKind::Dpkg,
    }
}
