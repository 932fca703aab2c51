//! `package_file`: a package from a `.deb` or `.rpm` file.

mod action_script;
mod assessment;
mod declaration;
mod diff;
mod undo;

use crate::diag::{Diag, DiagCode};
use crate::model::{UndoEffect, Value};
use crate::probe::{Observation, PackageManagerKind, Probe};
use crate::resource::packages::package::{check_package_name, file_list_paths, version};
use crate::resource::shared::file_target::FileBody;
use crate::resource::shared::package_lock;
use crate::resource::shared::support::{bad_value, sha256_hex};
use crate::resource::traits::{EffectReach, KindTraits, PackageListing};
use crate::resource::{
    Action, Assessment, AssessmentContext, ChangeMark, ChangedObject, DeclaredResource, FieldSpec, FieldType,
    FieldValues, ProvidedItem, Resource, ResourceKind, TypedResource,
};
use declaration::{PackageFileResource, PackageFileSource};
use diff::PackageFileDiff;
use serde_json::json;

pub(in crate::resource) const KIND: ResourceKind = ResourceKind {
    name: "package_file",
    summary: "A package from a `.deb` or `.rpm` file, with its dependencies.",
    example: include_str!("../examples/package_file.yaml"),
    doc: "\
The file is `source`, a file of the inventory's tree of at most 16 MiB, or `path`, a file on the host (for large files,
which an earlier step provides). forge reads name and version from a file on the host. For a `source`, declare both;
they are compared with the file's own metadata before it is installed.

**Compared** is the installed version with the file's. An unchanged step reports `forge-tool 1.0 is installed`. In
that case the file itself is not needed if `name` and `version` are declared.

**A change** is one transaction of apt or dnf, which installs the dependencies from the declared repositories. It waits
for other lock holders and prints them, and first finishes an interrupted dpkg run. Two cases block the step: a version
lower than the installed one without `allow_downgrade: true`, and a held package. **`sha256`** is checked before
anything is installed, for a `source` when the inventory is loaded. A file on the host is not installed if users other
than root can change or replace it. forge does not verify the signature of the file, unless dnf's `localpkg_gpgcheck` is
on: use `sha256` to pin the file.

**Disruption** is D1 if an installed version changes or is removed.

**Removal** removes only this package, and needs `name` unless the file is on the host.

The proof below covers a `.deb`, and a `.rpm` with Debian's dnf and rpm.",
    fields: FIELDS,
    build,
    traits: KindTraits { reach: EffectReach::Unknown, packages: PackageListing::Unlisted, ..KindTraits::DEFAULT },
};

const FIELDS: &[FieldSpec] = &[
    FieldSpec::optional("source", FieldType::LocalFile, "A package file of the inventory's tree. Excludes `path`."),
    FieldSpec::optional("path", FieldType::Path, "A package file on the host, `*.deb` or `*.rpm`. Excludes `source`."),
    FieldSpec::optional("name", FieldType::Name, "Name of the package; required with `source`."),
    FieldSpec::optional("version", FieldType::Version, "Version of the package; required with `source`."),
    FieldSpec::optional("sha256", FieldType::Line, "SHA-256 of the file in hex."),
    FieldSpec::optional(
        "allow_downgrade",
        FieldType::Bool,
        "Allow replacing a higher installed version. Default `false`.",
    ),
    package_lock::LOCK_TIMEOUT_FIELD,
];

fn build(fields: &FieldValues, absent: bool) -> Result<Box<dyn Resource>, Diag> {
    let name = fields.get_text("name").map(str::to_owned);
    name.as_deref().map_or(Ok(()), check_package_name)?;
    let package_version = fields.get_text("version").map(str::to_owned);
    package_version.as_deref().map_or(Ok(()), version::check_version)?;
    let (from, manager) = parse_source(fields, absent && name.is_some())?;
    if matches!(from, PackageFileSource::Source(_)) && (name.is_none() || (package_version.is_none() && !absent)) {
        return Err(Diag::error(DiagCode::MissingKey, "`source` needs `name` and `version`")
            .hint("run `dpkg-deb --field FILE` or `rpm -qp FILE` to see both"));
    }
    let sha256 = fields.get_text("sha256").map(parse_digest).transpose()?;
    if let (PackageFileSource::Source(body), Some(wanted)) = (&from, &sha256) {
        check_digest(body, wanted)?;
    }
    Ok(Box::new(PackageFileResource {
        from,
        manager,
        name,
        version: package_version,
        sha256,
        allow_downgrade: fields.get_bool("allow_downgrade").unwrap_or(false),
        lock_timeout: package_lock::parse_lock_timeout(fields),
        absent,
    }))
}

fn parse_source(fields: &FieldValues, by_name: bool) -> Result<(PackageFileSource, PackageManagerKind), Diag> {
    match (fields.0.get("source"), fields.get_text("path")) {
        (Some(_), Some(_)) => Err(Diag::error(DiagCode::Exclusive, "`source` and `path` exclude each other")),
        (None, None) if by_name => Ok((PackageFileSource::Nothing, PackageManagerKind::Dpkg)),
        (None, None) => Err(Diag::error(DiagCode::MissingKey, "`source` or `path` is required")),
        (Some(source), None) => {
            let body = FileBody::from_value("source", source)?;
            let manager = detect_format(body.bytes())
                .ok_or_else(|| bad_value("`source` is neither a .deb nor a .rpm").with_field("source"))?;
            Ok((PackageFileSource::Source(body), manager))
        }
        (None, Some(path)) => {
            let manager = match path.rsplit_once('.') {
                Some((_, "deb")) => PackageManagerKind::Dpkg,
                Some((_, "rpm")) => PackageManagerKind::Rpm,
                _ => return Err(bad_value(format!("`{path}` does not end in .deb or .rpm")).with_field("path")),
            };
            Ok((PackageFileSource::Path(path.to_owned()), manager))
        }
    }
}

/// Detects the format by the first bytes.
fn detect_format(bytes: &[u8]) -> Option<PackageManagerKind> {
    if bytes.starts_with(b"!<arch>\ndebian-binary") {
        return Some(PackageManagerKind::Dpkg);
    }
    bytes.starts_with(&[0xed, 0xab, 0xee, 0xdb]).then_some(PackageManagerKind::Rpm)
}

fn parse_digest(text: &str) -> Result<String, Diag> {
    let text = text.to_ascii_lowercase();
    match text.len() == 64 && text.bytes().all(|b| b.is_ascii_hexdigit()) {
        true => Ok(text),
        false => Err(bad_value("`sha256` is not 64 hex digits").with_field("sha256")),
    }
}

fn check_digest(body: &FileBody, wanted: &str) -> Result<(), Diag> {
    let found = sha256_hex(body.bytes());
    match found == *wanted {
        true => Ok(()),
        false => Err(bad_value(format!("`source` has the sha256 {found}, declared is {wanted}"))
            .with_field("source")
            .hint("fix the file or `sha256`")),
    }
}

impl DeclaredResource for PackageFileResource {
    fn kind(&self) -> &'static str {
        KIND.name
    }

    fn title(&self) -> String {
        let name = self.name.as_deref().or(self.host_path()).unwrap_or("package");
        self.version.as_ref().map_or_else(|| name.to_owned(), |version| format!("{name} {version}"))
    }

    fn changed_object(&self, _mark: &ChangeMark) -> ChangedObject {
        ChangedObject::Packages(self.name.iter().cloned().collect())
    }

    fn probes(&self) -> Vec<Probe> {
        [self.file_probe(), self.digest_probe(), self.package_probe()].into_iter().flatten().collect()
    }

    fn desired_value(&self) -> Value {
        let from = match &self.from {
            PackageFileSource::Source(body) => body.desired_value(),
            PackageFileSource::Path(path) => json!({ "path": path }),
            PackageFileSource::Nothing => Value::Null,
        };
        json!({ "from": from, "name": self.name, "version": self.version, "sha256": self.sha256, "absent": self.absent })
    }

    fn provided_items(&self) -> Vec<ProvidedItem> {
        let name = self.name.as_deref().or(self.host_path()).filter(|_| !self.absent);
        name.map(|name| ProvidedItem::Package(name.to_owned())).into_iter().collect()
    }

    fn restart_input_value(&self) -> Value {
        json!({ "name": self.name, "version": self.version, "sha256": self.sha256, "absent": self.absent })
    }

    fn restart_input_paths(&self) -> Vec<String> {
        match (&self.name, self.host_path()) {
            (Some(name), _) => file_list_paths(name),
            (None, Some(path)) => vec![path.to_owned()],
            (None, None) => Vec::new(),
        }
    }

    fn exclusive_claims(&self) -> Vec<(&'static str, String)> {
        match &self.name {
            Some(name) => vec![("package", name.clone())],
            None => vec![(KIND.name, self.title())],
        }
    }
}

impl TypedResource for PackageFileResource {
    type Diff = PackageFileDiff;

    fn diff(&self, seen: &Observation, cx: &AssessmentContext<'_>) -> Assessment<PackageFileDiff> {
        assessment::assess_package_file(self, seen, cx).unwrap_or_else(|unknown| Assessment::unknown(&unknown))
    }

    fn act(&self, diff: &PackageFileDiff, _cx: &AssessmentContext<'_>) -> Action {
        action_script::render_action(self, diff)
    }

    fn undo(&self, diff: &PackageFileDiff) -> UndoEffect {
        undo::undo_package(diff)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn build_error(entries: &[(&'static str, Value)]) -> String {
        build(&FieldValues(entries.iter().cloned().collect()), false).unwrap_err().message
    }

    #[test]
    fn invalid_package_file_fields_are_rejected() {
        let deb = json!("!<arch>\ndebian-binary   ");
        assert_eq!(build_error(&[]), "`source` or `path` is required");
        assert_eq!(
            build_error(&[("path", json!("/a.deb")), ("source", deb.clone())]),
            "`source` and `path` exclude each other"
        );
        assert_eq!(build_error(&[("path", json!("/a.tar"))]), "`/a.tar` does not end in .deb or .rpm");
        assert_eq!(build_error(&[("source", json!("#!/bin/sh"))]), "`source` is neither a .deb nor a .rpm");
        assert_eq!(build_error(&[("source", deb.clone())]), "`source` needs `name` and `version`");
        assert_eq!(
            build_error(&[("path", json!("/a.deb")), ("sha256", json!("abc"))]),
            "`sha256` is not 64 hex digits"
        );
        let declared =
            [("source", deb.clone()), ("name", json!("a")), ("version", json!("1")), ("sha256", json!("0".repeat(64)))];
        let found = sha256_hex(deb.as_str().unwrap().as_bytes());
        let expected = format!("`source` has the sha256 {found}, declared is {}", "0".repeat(64));
        assert_eq!(build_error(&declared), expected);
    }

    #[test]
    fn removal_requires_a_name_but_no_file() {
        assert!(build(&FieldValues([("name", json!("a"))].into_iter().collect()), true).is_ok());
        assert!(build(&FieldValues::default(), true).is_err());
    }
}
