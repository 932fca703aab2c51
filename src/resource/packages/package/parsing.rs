//! The fields of a declaration, checked.

use super::version::{self, VersionRequirement};
use crate::diag::{Diag, DiagCode};
use crate::probe::is_family_pattern;
use crate::resource::FieldValues;
use crate::resource::shared::support::bad_value;

pub(super) fn parse_requirement(fields: &FieldValues) -> Result<Option<VersionRequirement>, Diag> {
    let requirement = match (fields.get_text("version"), fields.get_text("upstream")) {
        (Some(_), Some(_)) => {
            return Err(Diag::error(DiagCode::Exclusive, "`version` and `upstream` exclude each other"));
        }
        (Some(version), None) => VersionRequirement::Exact(version.to_owned()),
        (None, Some(version)) => VersionRequirement::Upstream(version.to_owned()),
        (None, None) => return Ok(None),
    };
    let field = if matches!(requirement, VersionRequirement::Upstream(_)) { "upstream" } else { "version" };
    version::check_version(requirement.text()).map_err(|diag| diag.with_field(field))?;
    match &requirement {
        VersionRequirement::Upstream(version) if version.contains([':', '-']) => {
            Err(bad_value(format!("`{version}` has an epoch or a revision"))
                .with_field("upstream")
                .hint("declare the exact version as `version`"))
        }
        _ => Ok(Some(requirement)),
    }
}

pub(super) fn parse_family(fields: &FieldValues) -> Result<Vec<String>, Diag> {
    let family = fields.get_text_list("family").unwrap_or_default();
    match family.iter().find(|pattern| !is_family_pattern(pattern)) {
        Some(pattern) => Err(bad_value(format!("`{pattern}` is not a pattern of package names")).with_field("family")),
        None => Ok(family),
    }
}

pub(super) fn parse_names(fields: &FieldValues) -> Result<Vec<String>, Diag> {
    let (written, names) = match (fields.get_text("name"), fields.get_text_list("names")) {
        (Some(_), Some(_)) => return Err(Diag::error(DiagCode::Exclusive, "`name` and `names` exclude each other")),
        (None, None) => return Err(Diag::error(DiagCode::MissingKey, "`name` or `names` is required")),
        (Some(name), None) => ("name", vec![name.to_owned()]),
        (None, Some(names)) => ("names", names),
    };
    if names.is_empty() {
        return Err(bad_value("`names` is empty").with_field("names"));
    }
    for (i, name) in names.iter().enumerate() {
        check_package_name(name).map_err(|diag| diag.with_field(written))?;
        if names[..i].contains(name) {
            return Err(
                Diag::error(DiagCode::Duplicate, format!("package `{name}` is listed twice")).with_field("names")
            );
        }
    }
    Ok(names)
}

/// Checks a package name of dpkg or rpm; the host's package manager is not known here. apt treats a trailing `-` as a
/// request to remove the package.
pub(in crate::resource) fn check_package_name(name: &str) -> Result<(), Diag> {
    let (bare, arch) = name.split_once(':').map_or((name, None), |(bare, arch)| (bare, Some(arch)));
    if arch == Some("all") {
        // dpkg and apt name such a package without it.
        return Err(bad_value(format!("`{name}` names the package `{bare}`: `all` is not an architecture to choose"))
            .hint(format!("write `{bare}`")));
    }
    let word = |text: &str| text.bytes().all(|b| b.is_ascii_alphanumeric() || b"+-._".contains(&b));
    let starts = bare.bytes().next().is_some_and(|b| b.is_ascii_alphanumeric());
    let arch_fits = arch.is_none_or(|arch| !arch.is_empty() && word(arch));
    if starts && word(bare) && arch_fits && !name.ends_with('-') {
        return Ok(());
    }
    Err(bad_value(format!("`{name}` is not a valid package name"))
        .hint("use letters, digits and `+-._`; set a version with `version`"))
}
