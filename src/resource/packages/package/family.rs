//! The packages that belong to the declared ones: which of them change or go, and why.

use super::declaration::PackageResource;
use super::diff::{InstallationChange, PackageEntryDiff, VersionReplacement};
use super::version::VersionRequirement;
use crate::model::Value;
use crate::probe::{FamilyMember, PackageFamilyState, PackageManagerKind};
use serde_json::json;
use std::cmp::Ordering;

/// Returns the changes of the family: packages of another version are replaced if the declared one is offered, else
/// removed; with the declared packages, all are removed. dnf's metadata may be old: nothing is removed unless it has the
/// declared packages in their version (`is_offered`).
pub(super) fn list_changes(
    want: &PackageResource,
    state: &PackageFamilyState,
    is_offered: bool,
) -> Vec<PackageEntryDiff> {
    if !want.absent && want.family_upstream().is_none() {
        return Vec::new();
    }
    let upstream = want.family_upstream().map(|upstream| VersionRequirement::Upstream(upstream.to_owned()));
    let others = state.members.iter().filter(|member| !want.names.contains(&member.name));
    let changed = others.filter_map(|member| {
        let installation = change_member(upstream.as_ref(), state.manager, member)?;
        let removed = matches!(installation, InstallationChange::Remove { .. });
        if removed && !want.absent && !state.manager.is_dpkg() && !is_offered {
            return None;
        }
        Some(PackageEntryDiff { name: member.name.clone(), installation: Some(installation), hold: None })
    });
    changed.collect()
}

/// Returns the reason for `count` changes of the family; `None` without any.
pub(super) fn describe_changes(want: &PackageResource, count: usize) -> Option<String> {
    let (packages, are) = if count == 1 { ("package", "is") } else { ("packages", "are") };
    let state = want.family_upstream().map_or_else(|| "installed".to_owned(), |upstream| format!("not of {upstream}"));
    (count > 0).then(|| format!("{count} {packages} of the family {are} {state}"))
}

/// Returns the names and versions of the family. The declared packages are in the basis already.
pub(super) fn family_basis(want: &PackageResource, family: &PackageFamilyState) -> Value {
    let members = family.members.iter().filter(|member| !want.names.contains(&member.name));
    Value::Object(members.map(|member| (member.name.clone(), json!(member.version))).collect())
}

/// Returns how an installed package of the family changes; `None` if it is of the declared version.
fn change_member(
    upstream: Option<&VersionRequirement>,
    manager: PackageManagerKind,
    member: &FamilyMember,
) -> Option<InstallationChange> {
    let from = member.version.clone();
    let Some(upstream) = upstream else { return Some(InstallationChange::Remove { version: from, status: None }) };
    if upstream.is_met(manager, &from) {
        return None;
    }
    let downgrade = upstream.compare(manager, &from) == Some(Ordering::Less);
    Some(match upstream.choose(manager, None, &member.available) {
        Some(to) => InstallationChange::Replace(VersionReplacement { from, to: to.to_owned(), downgrade }),
        None => InstallationChange::Remove { version: from, status: None },
    })
}
