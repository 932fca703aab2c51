//! Compares a package file with the installed package.

use super::declaration::PackageFileResource;
use super::diff::PackageFileDiff;
use crate::model::{BlockClass, DisruptionClass, Value};
use crate::probe::{
    Observation, PackageFileInfo, PackageFileState, PackageManagerKind, PackageState, PathState, UnansweredReason,
};
use crate::resource::packages::package::version::compare_versions;
use crate::resource::shared::support::{package_file_state, package_state, path_state, will_be_provided};
use crate::resource::{Assessment, AssessmentContext, ProvidedItem, ValueChange};
use serde_json::json;
use std::cmp::Ordering;

/// dpkg's status of a removed package whose configuration is left.
const LEFT_CONFIGURATION: &str = "config-files";

/// The desired package and its state.
struct ExpectedPackage<'a> {
    name: &'a str,
    version: &'a str,
    state: &'a PackageState,
}

pub(super) fn assess_package_file(
    want: &PackageFileResource,
    seen: &Observation,
    cx: &AssessmentContext<'_>,
) -> Result<Assessment<PackageFileDiff>, UnansweredReason> {
    if want.absent {
        return assess_removal(want, seen);
    }
    let declared = find_declared(want, seen)?;
    if let Some(pair) = declared.as_ref().filter(|pair| is_installed(want.manager, pair)) {
        return Ok(assess_unchanged(pair));
    }
    let file = match want.file_probe() {
        Some(probe) => Some(package_file_state(seen, &probe)?),
        None => None,
    };
    match (file, declared) {
        (None, Some(pair)) => Ok(compare_installed(want, &pair)),
        (None, None) => Err(UnansweredReason::new("the package name is not known")),
        (Some(PackageFileState::Absent), declared) => Ok(assess_missing_file(want, declared, cx)),
        (Some(PackageFileState::Bad(why)), _) => {
            Ok(block_by_rule(format!("`{}` is not a package: {}", package_path(want), why.raw()), Value::Null))
        }
        (Some(PackageFileState::Present(info)), _) => assess_file(want, info, seen),
    }
}

/// Returns the declared package if name and version are declared.
fn find_declared<'a>(
    want: &'a PackageFileResource,
    seen: &'a Observation,
) -> Result<Option<ExpectedPackage<'a>>, UnansweredReason> {
    let (Some(name), Some(version), Some(probe)) = (&want.name, &want.version, want.package_probe()) else {
        return Ok(None);
    };
    Ok(Some(ExpectedPackage { name, version, state: package_state(seen, &probe)? }))
}

fn assess_file(
    want: &PackageFileResource,
    info: &PackageFileInfo,
    seen: &Observation,
) -> Result<Assessment<PackageFileDiff>, UnansweredReason> {
    let pair = ExpectedPackage { name: &info.name, version: &info.version, state: &info.installed };
    let other = |declared: &Option<String>, found: &str| declared.as_ref().filter(|d| *d != found).cloned();
    let version =
        want.version.as_ref().filter(|v| compare_versions(want.manager, v, &info.version) != Some(Ordering::Equal));
    if let Some(declared) = other(&want.name, &info.name).or(version.cloned()) {
        let reason =
            format!("`{}` contains {} {}, but `{declared}` is declared", package_path(want), info.name, info.version);
        return Ok(block_by_rule(reason, json!({ "file": info.name, "version": info.version })));
    }
    if is_installed(want.manager, &pair) {
        return Ok(assess_unchanged(&pair));
    }
    if let Some(why) = find_wrong_digest(want, seen)? {
        return Ok(block_by_rule(why, package_basis(&pair)).hint("fix the file or `sha256`"));
    }
    Ok(compare_installed(want, &pair))
}

fn find_wrong_digest(want: &PackageFileResource, seen: &Observation) -> Result<Option<String>, UnansweredReason> {
    let (Some(probe), Some(wanted)) = (want.digest_probe(), &want.sha256) else { return Ok(None) };
    let PathState::Present(info) = path_state(seen, &probe)? else { return Ok(None) };
    let found = info
        .sha256
        .as_ref()
        .ok_or_else(|| UnansweredReason::new(format!("`{}` could not be read", package_path(want))))?;
    let why = || format!("`{}` has the sha256 {found}, declared is {wanted}", package_path(want));
    Ok((found != wanted).then(why))
}

fn is_installed(manager: PackageManagerKind, pair: &ExpectedPackage<'_>) -> bool {
    let same = |found: &str| compare_versions(manager, pair.version, found) == Some(Ordering::Equal);
    is_whole(pair.state) && pair.state.version.as_deref().is_some_and(same)
}

/// Reports whether the manager has finished the installation.
fn is_whole(state: &PackageState) -> bool {
    matches!(state.status.as_str(), "installed" | "triggers-pending" | "triggers-awaited")
}

fn assess_unchanged(pair: &ExpectedPackage<'_>) -> Assessment<PackageFileDiff> {
    Assessment::ok(format!("`{}` {} is installed", pair.name, pair.version), package_basis(pair))
}

fn compare_installed(want: &PackageFileResource, pair: &ExpectedPackage<'_>) -> Assessment<PackageFileDiff> {
    let ExpectedPackage { name, version, state } = pair;
    if state.manager != want.manager {
        let (ends, has) = if want.manager.is_dpkg() { (".deb", "rpm") } else { (".rpm", "dpkg") };
        return block_by_rule(format!("a {ends} cannot be installed here: the host uses {has}"), package_basis(pair));
    }
    let (name, wanted) = (|| (*name).to_owned(), || (*version).to_owned());
    let Some(found) = &state.version else {
        let diff = PackageFileDiff::Install {
            name: name(),
            version: ValueChange::create(wanted()),
            downgrade: false,
            configured: state.status == LEFT_CONFIGURATION,
        };
        let reason = format!("`{}` is not installed", pair.name);
        return Assessment::differs(reason, diff, DisruptionClass::D0, package_basis(pair));
    };
    let order = compare_versions(want.manager, version, found);
    if order == Some(Ordering::Equal) {
        let diff = PackageFileDiff::Finish { name: name(), version: wanted(), status: state.status.clone() };
        let reason = format!("`{}` is {}", pair.name, state.status);
        return Assessment::differs(reason, diff, DisruptionClass::D0, package_basis(pair));
    }
    let reason = format!("`{}` is {found}, not {version}", pair.name);
    if state.has_hold() {
        return block_by_rule(format!("{reason}, and it is held"), package_basis(pair))
            .hint("release the hold with a `package` step before this one, or do not change the version");
    }
    let downgrade = order == Some(Ordering::Less);
    if downgrade && !want.allow_downgrade {
        return block_by_rule(format!("{reason}, which is lower"), package_basis(pair))
            .hint("set `allow_downgrade: true` to downgrade");
    }
    let version = ValueChange::new(found.clone(), wanted());
    let diff = PackageFileDiff::Install { name: name(), version, downgrade, configured: false };
    Assessment::differs(reason, diff, DisruptionClass::D1, package_basis(pair))
}

/// Evaluates a missing file: it blocks the step unless an earlier step may provide it.
fn assess_missing_file(
    want: &PackageFileResource,
    declared: Option<ExpectedPackage<'_>>,
    cx: &AssessmentContext<'_>,
) -> Assessment<PackageFileDiff> {
    let reason = format!("file `{}` does not exist", package_path(want));
    let comes = will_be_provided(cx.predicted, &ProvidedItem::Path(package_path(want).to_owned()));
    let basis = json!({ "file": null, "package": declared.as_ref().map(package_basis) });
    if !comes && cx.predicted.is_none_or(|p| p.after.is_none()) {
        return block_by_rule(reason, basis).hint("provide it with an earlier step");
    }
    let disruption = if declared.as_ref().is_some_and(|pair| pair.state.version.is_none()) {
        DisruptionClass::D0
    } else {
        DisruptionClass::D1
    };
    let diff = PackageFileDiff::Await {
        name: want.name.clone(),
        installed: declared.and_then(|pair| pair.state.version.clone()),
        version: want.version.clone(),
    };
    let reason = format!("{reason} yet; an earlier step may provide it");
    Assessment::differs(reason, diff, disruption, basis).mark_predicted()
}

fn assess_removal(
    want: &PackageFileResource,
    seen: &Observation,
) -> Result<Assessment<PackageFileDiff>, UnansweredReason> {
    let (name, state) = match (&want.name, want.package_probe(), want.file_probe()) {
        (Some(name), Some(probe), _) => (name.as_str(), package_state(seen, &probe)?),
        (_, _, Some(probe)) => match package_file_state(seen, &probe)? {
            PackageFileState::Present(info) => (info.name.as_str(), &info.installed),
            _ => {
                let reason = format!("`{}` does not exist, so the package to remove is not known", package_path(want));
                return Ok(block_by_rule(reason, Value::Null).hint("set `name`"));
            }
        },
        _ => return Err(UnansweredReason::new("the package name is not known")),
    };
    let basis = json!({ "package": name, "version": state.version, "manager": state.manager });
    let gone = matches!(state.status.as_str(), "not-installed" | LEFT_CONFIGURATION);
    Ok(match state.version.as_deref().filter(|_| !gone) {
        None => Assessment::ok(format!("`{name}` is not installed"), basis),
        Some(version) => {
            let diff = PackageFileDiff::Remove {
                name: name.to_owned(),
                version: version.to_owned(),
                status: (!is_whole(state)).then(|| state.status.clone()),
                manager: state.manager,
            };
            Assessment::differs(format!("`{name}` {version} is installed"), diff, DisruptionClass::D1, basis)
        }
    })
}

fn block_by_rule(reason: String, basis: Value) -> Assessment<PackageFileDiff> {
    Assessment::blocked(BlockClass::Rule, reason, basis)
}

fn package_path(want: &PackageFileResource) -> &str {
    want.host_path().unwrap_or_default()
}

fn package_basis(pair: &ExpectedPackage<'_>) -> Value {
    let ExpectedPackage { name, version, state } = pair;
    json!({ "package": name, "wanted": version, "version": state.version, "status": state.status, "held": state.held })
}
