//! Evaluates packages from the package manager's output.

use super::declaration::PackageResource;
use super::diff::{InstallationChange, PackageDiff, PackageEntryDiff, VersionReplacement, describe_hold};
use super::family;
use super::version::VersionRequirement;
use crate::model::{BlockClass, DisruptionClass, Value};
use crate::probe::{
    HoldObstacle, Observation, PackageFamilyState, PackageManagerKind, PackageState, Probe, UnansweredReason,
};
use crate::resource::shared::support::{join_quoted, join_words, manager_state, will_be_provided};
use crate::resource::{Assessment, AssessmentContext, ProvidedItem, ValueChange};
use serde_json::{Map, json};
use std::cmp::Ordering;

/// Maximum number of offered versions in a message.
const MAX_LISTED: usize = 5;

/// Findings about all packages of a step.
#[derive(Default)]
struct PackageFindings {
    /// Packages that differ.
    packages: Vec<PackageEntryDiff>,
    /// Packages of the family that differ.
    family: Vec<PackageEntryDiff>,
    /// Reasons for the differences.
    reasons: Vec<String>,
    /// Packages that match.
    settled: Vec<String>,
    disruption: DisruptionClass,
    /// Packages that apt does not offer in the wanted version: the name and a description of the offers.
    missing: Vec<(String, String)>,
    /// Why apt's offers could not be read, if they are needed.
    offers_unknown: Option<String>,
    /// Why a declared hold cannot be set.
    cannot_hold: Option<HoldObstacle>,
    manager: PackageManagerKind,
}

pub(super) fn assess_packages(
    want: &PackageResource,
    states: &[(&str, &PackageState)],
    family: Option<&PackageFamilyState>,
    seen: &Observation,
    cx: &AssessmentContext<'_>,
) -> Assessment<PackageDiff> {
    let mut findings = PackageFindings::default();
    for (name, state) in states {
        findings.manager = state.manager;
        match want.absent {
            true => findings.add_unwanted(want, name, state),
            false => findings.add_wanted(want, name, state),
        }
    }
    let mut basis = packages_basis(want, states);
    if let Some(family) = family {
        findings.add_family(want, states, family);
        if let Value::Object(basis) = &mut basis {
            basis.insert("family".to_owned(), family::family_basis(want, family));
        }
    }
    conclude_findings(want, findings, basis, seen, cx)
}

fn conclude_findings(
    want: &PackageResource,
    findings: PackageFindings,
    basis: Value,
    seen: &Observation,
    cx: &AssessmentContext<'_>,
) -> Assessment<PackageDiff> {
    if findings.packages.is_empty() && findings.family.is_empty() {
        return Assessment::ok(findings.settled.join("; "), basis);
    }
    if let Some(why) = findings.offers_unknown {
        return Assessment { basis, ..Assessment::unknown(&UnansweredReason::new(why)) };
    }
    let manager = findings.manager;
    let diff = PackageDiff {
        manager,
        names_several: want.names.len() > 1,
        packages: findings.packages,
        family: findings.family,
    };
    let notes_only = diff.entries().all(|entry| entry.installation.is_none());
    let differs = |reason: String| Assessment {
        notes_only,
        ..Assessment::differs(reason, diff, findings.disruption, basis.clone())
    };
    let reason = findings.reasons.join("; ");
    if let Some(why) = findings.cannot_hold {
        return block_unsupported_hold(&why, differs(reason), cx);
    }
    if findings.missing.is_empty() {
        return differs(add_manager_state(want, reason, seen, manager));
    }
    let (missing, offers): (Vec<String>, Vec<String>) = findings.missing.into_iter().unzip();
    let offers = offers.join("; ");
    if cx.predicted.is_some_and(|earlier| earlier.is_undo && !earlier.may_change_repositories()) {
        let reason = format!("{offers}: the former version cannot be installed");
        return Assessment::blocked(BlockClass::Host, reason, basis).host_hint(UNDO_HINT);
    }
    if may_be_provided(&missing, cx) {
        return differs(format!("{offers}; an earlier step may change that")).mark_predicted();
    }
    if want.update && cx.predicted.is_some_and(|earlier| earlier.lists_updated) {
        return Assessment::blocked(BlockClass::Host, format!("{offers}, also after `apt-get update`"), basis)
            .hint("declare a version that its repositories offer, or add a `repository` step before this one");
    }
    if want.update {
        let reason = format!("{offers}; apt's lists are updated first");
        return differs(add_manager_state(want, reason, seen, manager));
    }
    Assessment::blocked(BlockClass::Host, offers, basis)
        .hint("add a `repository` step before this one, or set `update: if-missing`")
}

/// What to do about an undo that needs a version which repositories had at its time.
const UNDO_HINT: &str = "if a repository of the host offers it again, run `apt-get update` there; else install its \
                         file by hand, such as one in `/var/cache/apt/archives`";

/// Blocks a declared hold that the host cannot keep, unless an earlier step may install the plugin.
fn block_unsupported_hold(
    why: &HoldObstacle,
    judgement: Assessment<PackageDiff>,
    cx: &AssessmentContext<'_>,
) -> Assessment<PackageDiff> {
    let (may_go, hint) = match why {
        HoldObstacle::NotInstalled => (
            may_be_provided(&[VERSIONLOCK_PLUGIN.to_owned()], cx),
            format!("install `{VERSIONLOCK_PLUGIN}` with an earlier step"),
        ),
        HoldObstacle::Disabled { file, key, value } => (
            cx.predicted.is_some_and(|earlier| earlier.after.is_some() || earlier.may_change_path(file)),
            format!("replace `{key}={value}` by `{key}=1` with an earlier step: `line: {{ path: {file}, … }}`"),
        ),
    };
    if may_go {
        return judgement.mark_predicted();
    }
    Assessment::blocked(BlockClass::Rule, format!("a hold is declared, but {why}"), judgement.basis).hint(hint)
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
        let installation = match (unpacked_version(state), state.status.as_str()) {
            (Some(installed), status) if is_finished(status) => self.compare_installed(want, name, installed, state),
            (Some(found), status) => Some(self.find_unfinished(want, name, found, status, state)),
            (None, _) => Some(self.find_missing(want, name, state)),
        };
        let hold = self.compare_hold(want, name, state);
        if installation.is_some() && state.has_hold() && want.hold.is_none() {
            self.reasons.push(format!("`{name}` is held: the hold is released for the change, then set again"));
        }
        self.push_package(name, installation, hold);
    }

    fn compare_installed(
        &mut self,
        want: &PackageResource,
        name: &str,
        installed: &str,
        state: &PackageState,
    ) -> Option<InstallationChange> {
        let replacement = self.compare_version(want, name, installed, state);
        if replacement.is_none() {
            self.settled.push(format!("`{name}` {installed} is installed"));
        }
        replacement.map(InstallationChange::Replace)
    }

    fn find_unfinished(
        &mut self,
        want: &PackageResource,
        name: &str,
        found: &str,
        status: &str,
        state: &PackageState,
    ) -> InstallationChange {
        self.reasons.push(format!("`{name}` is {status}"));
        InstallationChange::Finish {
            status: status.to_owned(),
            version: self.compare_version(want, name, found, state),
        }
    }

    /// Returns the replacement if the declared version differs from the installed one.
    fn compare_version(
        &mut self,
        want: &PackageResource,
        name: &str,
        found: &str,
        state: &PackageState,
    ) -> Option<VersionReplacement> {
        let version = want.version.as_ref()?;
        let order = version.compare(state.manager, found);
        if order == Some(Ordering::Equal) {
            return None;
        }
        self.reasons.push(format!("`{name}` is {found}, not {}", version.text()));
        self.disruption = DisruptionClass::D1;
        self.check_offered(want, name, state);
        let downgrade = order == Some(Ordering::Less);
        Some(VersionReplacement { from: found.to_owned(), to: version_to_install(version, state), downgrade })
    }

    fn find_missing(&mut self, want: &PackageResource, name: &str, state: &PackageState) -> InstallationChange {
        self.reasons.push(format!("`{name}` is not installed"));
        self.check_offered(want, name, state);
        let declared = want.version.as_ref().map(|version| version_to_install(version, state));
        let configured = state.status == "config-files";
        InstallationChange::Install { version: declared.or_else(|| state.candidate.clone()), configured }
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
        let offer = match want.version.as_ref() {
            None if state.candidate.is_some() => return,
            None => format!("apt offers no version of `{name}`"),
            Some(version) if state.available.iter().any(|offer| version.is_met(state.manager, offer)) => return,
            Some(version) if state.available.is_empty() => {
                format!("apt offers no version of `{name}`; {} is declared", version.text())
            }
            Some(version) => {
                format!("apt does not offer `{name}` {}; it offers {}", version.text(), join_versions(&state.available))
            }
        };
        self.missing.push((name.to_owned(), offer));
    }

    fn compare_hold(&mut self, want: &PackageResource, name: &str, state: &PackageState) -> Option<ValueChange<bool>> {
        // A lock of another version is not a hold, but remains one that a declared `hold: false` removes.
        let held = if want.hold == Some(true) { state.held } else { state.has_hold() };
        let hold = want.hold.filter(|hold| *hold != held)?;
        self.cannot_hold = self.cannot_hold.take().or_else(|| state.cannot_hold.clone());
        match (unpacked_version(state), &state.other_lock) {
            (Some(version), Some(entry)) if hold => self.reasons.push(format!(
                "`{name}` is not held: dnf's versionlock `{entry}` allows another version than the installed {version}"
            )),
            (Some(_), _) => self.reasons.push(format!("`{name}` is {}", describe_hold(held))),
            (None, _) => {}
        }
        Some(ValueChange::new(held, hold))
    }

    fn add_unwanted(&mut self, want: &PackageResource, name: &str, state: &PackageState) {
        let installation = match (unpacked_version(state), state.status.as_str()) {
            (Some(version), status) => {
                let unfinished = (!is_finished(status)).then(|| status.to_owned());
                self.reasons.push(format!("`{name}` {version} is {}", unfinished.as_deref().unwrap_or("installed")));
                self.disruption = DisruptionClass::D1;
                Some(InstallationChange::Remove { version: version.to_owned(), status: unfinished })
            }
            (None, "config-files") if want.purge => {
                self.reasons.push(format!("the configuration of `{name}` exists"));
                Some(InstallationChange::PurgeConfiguration)
            }
            (None, _) => {
                self.settled.push(format!("`{name}` is not installed"));
                None
            }
        };
        if installation.is_some() && state.has_hold() && want.hold.is_none() {
            self.reasons.push(format!("`{name}` is held: the hold is released"));
        }
        let hold = (installation.is_some() && state.has_hold()).then(|| ValueChange::new(true, false));
        self.push_package(name, installation, hold);
    }

    fn add_family(&mut self, want: &PackageResource, states: &[(&str, &PackageState)], state: &PackageFamilyState) {
        let offered = |(_, state): &(&str, &PackageState)| {
            want.version.as_ref().is_some_and(|version| version.choose(state.manager, None, &state.available).is_some())
        };
        self.family = family::list_changes(want, state, states.iter().any(offered));
        let Some(reason) = family::describe_changes(want, self.family.len()) else { return };
        self.reasons.push(reason);
        self.disruption = DisruptionClass::D1;
        if let (Some(_), Some(why), true) = (want.family_upstream(), &state.offers_unknown, state.manager.is_dpkg()) {
            self.offers_unknown = Some(format!("apt's offers of the family could not be read: {why}"));
        }
    }

    fn push_package(&mut self, name: &str, installation: Option<InstallationChange>, hold: Option<ValueChange<bool>>) {
        if installation.is_some() || hold.is_some() {
            self.packages.push(PackageEntryDiff { name: name.to_owned(), installation, hold });
        }
    }
}

/// Returns the exact version that apt will install, if its lists contain one, else the declared one.
fn version_to_install(version: &VersionRequirement, state: &PackageState) -> String {
    let chosen = version.choose(state.manager, state.candidate.as_ref(), &state.available);
    chosen.unwrap_or_else(|| version.text()).to_owned()
}

/// Reports whether dpkg has configured the package.
fn is_finished(status: &str) -> bool {
    matches!(status, "installed" | "triggers-pending" | "triggers-awaited")
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
/// must not make a plan stale that does not install it. A removal does not depend on the hold, which an earlier step may
/// release.
fn packages_basis(want: &PackageResource, states: &[(&str, &PackageState)]) -> Value {
    let entry = |(name, state): &(&str, &PackageState)| {
        let mut seen = json!({ "version": state.version, "status": state.status });
        if want.hold.is_some() && !want.absent {
            seen["held"] = json!(state.held);
        }
        if state.manager == PackageManagerKind::Rpm {
            seen["manager"] = json!("rpm");
        }
        ((*name).to_owned(), seen)
    };
    Value::Object(states.iter().map(entry).collect::<Map<_, _>>())
}
