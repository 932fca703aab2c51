//! `archive`: a tar archive, unpacked into a dedicated directory.

mod assessment;
mod declaration;
mod diff;
mod script;

use crate::diag::{Diag, DiagCode};
use crate::model::{UndoDeclaration, UndoEffect, Value};
use crate::probe::{Observation, Probe};
use crate::resource::shared::accounts::{AccountName, account_probes, require_accounts};
use crate::resource::shared::file_target::{FileBody, path_probe};
use crate::resource::shared::mounted_paths::{mounts_probe, refuse_mounted_paths};
use crate::resource::shared::support::{
    ONLY_UNCHANGED, bad_value, format_mode, parse_owner_and_group, required_text, sha256_hex,
};
use crate::resource::shared::system_directories::check_removable;
use crate::resource::traits::{KindTraits, PackageExposure};
use crate::resource::{
    Action, ActionScript, Assessment, AssessmentContext, ChangeMark, ChangedObject, DeclaredResource, FieldSpec,
    FieldType, FieldValues, ProvidedItem, Resource, ResourceKind, TypedResource, ValueChange,
};
use declaration::{ArchiveResource, ArchiveSource, INTO_MODE};
use diff::ArchiveDiff;
use serde_json::json;

pub(in crate::resource) const KIND: ResourceKind = ResourceKind {
    name: "archive",
    summary: "A tar archive, unpacked into a dedicated directory.",
    example: include_str!("../../examples/archive.yaml"),
    doc: "\
The archive is a file in the inventory's tree (`source`) or on the host (`path`): a tar file, uncompressed or compressed
with gzip, bzip2, xz or zstd. The host's `tar` needs the matching program. Zip archives are rejected.

**`into` belongs to the archive.** It is replaced as a whole, so it must not exist, be empty, or contain what an earlier
run unpacked. A directory with other entries blocks the step. To unpack `tool-1.2/bin` as `/opt/tool/bin`, set
`into: /opt/tool` and `strip: 1`.

**Compares** the archive's SHA-256, `strip`, owner and group with those of the last unpacking, which is recorded in
`/var/lib/forge/archives`, then every member with its unpacked state: type, mode, owner, size, modification time, link
target, and owner, group and mode (0755) of `into`; if only those differ, they are set without unpacking. An unchanged step reports `214 members match`. Missing and modified members are listed. **Not detected**:
changed content with the same size and modification time. Entries that are not part of the archive stay until the
archive is unpacked again; the plan then lists them as lost.

**A change** lists the archive first. forge rejects it before anything is unpacked, and names the member, if it contains
absolute names, `..`, devices or pipes, set-user-id or set-group-id bits, links that point outside `into` or whose
target uses `..` after another name, or members below a link. It then unpacks the archive into a directory next to
`into` that only root can enter, changes ownership to `owner` and `group`, and renames it into place: a partial archive
is never visible. An archive on the host that other users can modify is copied there first. Modes come from the archive;
the directory `into` itself has mode 0755. The old directory is removed afterwards. For a moment between the two renames
`into` does not exist.

**Disruption** is that of the step's `disruption` key. Use `restart_on` to restart a service after the archive was
unpacked again.

**Removal** removes `into` with its contents, if forge unpacked it. The plan lists entries that are lost with it. With
`only_unchanged: true`, other entries and modified members block it.",
    fields: FIELDS,
    build,
    traits: KindTraits { removes_more: true, unpacks_files: true, exposure: PackageExposure::Unknown, ..KindTraits::DEFAULT },
};

const FIELDS: &[FieldSpec] = &[
    FieldSpec::required(
        "into",
        FieldType::Path,
        "Directory of the archive, replaced as a whole; other entries in it are not detected, and lost when it is unpacked again.",
    ),
    FieldSpec::optional("source", FieldType::LocalFile, "Archive in the inventory's tree. Excludes `path`."),
    FieldSpec::optional("path", FieldType::Path, "Archive on the host. Excludes `source`."),
    FieldSpec::optional("sha256", FieldType::Line, "Expected SHA-256 of the archive, in hex."),
    FieldSpec::optional(
        "strip",
        FieldType::Int { min: 0, max: 32 },
        "Number of leading path components to remove from member names; shorter names are skipped. Default `0`.",
    ),
    FieldSpec::optional(
        ONLY_UNCHANGED,
        FieldType::Bool,
        "Whether a removal is blocked if `into` contains other entries, or members that were modified. Default `false`.",
    ),
    FieldSpec::optional("owner", FieldType::Name, "Owner of all members. Default `root`."),
    FieldSpec::optional("group", FieldType::Name, "Group of all members. Default `root`."),
];

fn build(fields: &FieldValues, absent: bool) -> Result<Box<dyn Resource>, Diag> {
    let into = required_text(fields, "into")?.to_owned();
    check_removable(&into)
        .map_err(|diag| Diag { message: format!("`into` is replaced as a whole: {}", diag.message), ..diag })
        .map_err(|diag| diag.with_field("into"))?;
    let (owner, group) = parse_owner_and_group(fields)?;
    let (from, pinned) = (parse_source(fields, absent)?, parse_pinned_digest(fields)?);
    if let (ArchiveSource::Tree(_, found), Some(wanted)) = (&from, &pinned)
        && found != wanted
        && !absent
    {
        return Err(
            bad_value(format!("`source` has SHA-256 {found}, which does not match `sha256`")).with_field("source")
        );
    }
    if let ArchiveSource::Host(path) = &from
        && path.strip_prefix(&into).is_some_and(|rest| rest.starts_with('/'))
    {
        return Err(bad_value("the archive is inside `into`, which is replaced as a whole").with_field("into"));
    }
    Ok(Box::new(ArchiveResource {
        from,
        into,
        pinned,
        strip: fields.get_int("strip").unwrap_or(0).unsigned_abs(),
        owner,
        group,
        absent,
        only_unchanged: fields.get_bool(ONLY_UNCHANGED).unwrap_or(false),
    }))
}

fn parse_source(fields: &FieldValues, absent: bool) -> Result<ArchiveSource, Diag> {
    match (fields.0.get("source"), fields.get_text("path")) {
        (Some(_), Some(_)) => Err(Diag::error(DiagCode::Exclusive, "`source` and `path` exclude each other")),
        (None, Some(path)) => Ok(ArchiveSource::Host(path.to_owned())),
        (Some(value), None) => {
            let body = FileBody::from_value("source", value)?;
            if !absent {
                check_archive_format(body.bytes())?;
            }
            let digest = sha256_hex(body.bytes());
            Ok(ArchiveSource::Tree(body, digest))
        }
        (None, None) => Err(Diag::error(DiagCode::MissingKey, "an archive needs `source` or `path`")),
    }
}

fn parse_pinned_digest(fields: &FieldValues) -> Result<Option<String>, Diag> {
    let Some(text) = fields.get_text("sha256") else { return Ok(None) };
    match text.len() == 64 && text.bytes().all(|b| b.is_ascii_hexdigit()) {
        true => Ok(Some(text.to_ascii_lowercase())),
        false => Err(bad_value("`sha256` is not 64 hexadecimal digits").with_field("sha256")),
    }
}

/// Checks the first bytes for an archive format that `tar` detects by itself.
fn check_archive_format(bytes: &[u8]) -> Result<(), Diag> {
    const PACKED: [&[u8]; 4] = [b"\x1f\x8b", b"BZh", b"\xfd7zXZ\0", b"\x28\xb5\x2f\xfd"];
    if bytes.starts_with(b"PK") {
        return Err(bad_value("`source` is a zip archive; only tar archives are supported")
            .with_field("source")
            .hint("repack it with `tar`"));
    }
    let is_tar = bytes.get(257..262) == Some(b"ustar") || PACKED.iter().any(|magic| bytes.starts_with(magic));
    is_tar.then_some(()).ok_or_else(|| bad_value("`source` is not a tar archive").with_field("source"))
}

impl DeclaredResource for ArchiveResource {
    fn kind(&self) -> &'static str {
        KIND.name
    }

    fn title(&self) -> String {
        self.into.clone()
    }

    fn changed_object(&self, _mark: &ChangeMark) -> ChangedObject {
        ChangedObject::Path(self.into.clone())
    }

    fn probes(&self) -> Vec<Probe> {
        let into = std::slice::from_ref(&self.into);
        let mut probes = vec![path_probe(&self.into), self.unpacked_probe(), mounts_probe(into)];
        if !self.absent {
            probes.extend(self.archive_probe());
            probes.extend(crate::resource::shared::support::parent_path(&self.into).map(path_probe));
            probes.extend(account_probes(&AccountName::list_owners(&self.owner, &self.group)));
        }
        probes
    }

    fn desired_value(&self) -> Value {
        if self.absent {
            return json!({ "path": self.into, "absent": true });
        }
        let from = match &self.from {
            ArchiveSource::Tree(_, digest) => json!({ "sha256": digest }),
            ArchiveSource::Host(path) => json!({ "path": path, "sha256": self.pinned }),
        };
        json!({ "into": self.into, "from": from, "strip": self.strip, "owner": self.owner, "group": self.group })
    }

    fn provided_items(&self) -> Vec<ProvidedItem> {
        (!self.absent).then(|| ProvidedItem::Path(self.into.clone())).into_iter().collect()
    }

    /// The stamp file is rewritten by every unpacking and by nothing else.
    fn restart_input_paths(&self) -> Vec<String> {
        vec![self.stamp_path()]
    }

    fn exclusive_claims(&self) -> Vec<(&'static str, String)> {
        vec![("path", self.into.clone())]
    }
}

impl TypedResource for ArchiveResource {
    type Diff = ArchiveDiff;

    fn diff(&self, seen: &Observation, cx: &AssessmentContext<'_>) -> Assessment<ArchiveDiff> {
        let judged = match self.absent {
            true => self.assess_absent(seen),
            false => self.assess_present(seen, cx).map(|judgement| {
                let judgement = self.add_archive_size(judgement, seen);
                require_accounts(judgement, &AccountName::list_owners(&self.owner, &self.group), seen, cx)
            }),
        };
        let judged = judged.unwrap_or_else(|unknown| Assessment::unknown(&unknown));
        match judged.diff.as_ref().is_some_and(ArchiveDiff::removes_directory) {
            true => refuse_mounted_paths(judged, std::slice::from_ref(&self.into), seen, cx),
            false => judged,
        }
    }

    fn act(&self, diff: &ArchiveDiff, cx: &AssessmentContext<'_>) -> Action {
        let body = match diff {
            ArchiveDiff::Unpack(diff) => self.render_unpack(&diff.wanted, diff.bytes, cx),
            ArchiveDiff::Await { .. } => self.render_unpack(script::NO_ARCHIVE, 0, cx),
            ArchiveDiff::Ownership(_) => self.render_ownership_change(cx),
            ArchiveDiff::Remove { .. } => self.render_removal(),
        };
        Action::Script(ActionScript { body, long: false, explain: script::EXPLAIN })
    }

    fn undo(&self, diff: &ArchiveDiff) -> UndoEffect {
        match diff {
            ArchiveDiff::Unpack(diff) if diff.creates => {
                // A removal reads no archive, but needs the name of one: a host must not name a file of the controller.
                let fields = json!({ "into": self.into, "path": self.stamp_path(), (ONLY_UNCHANGED): true });
                UndoEffect::declare(vec![UndoDeclaration::absent(KIND.name, fields)])
            }
            ArchiveDiff::Ownership(changes) => {
                let before = |change: &Option<ValueChange<String>>, same: &str| {
                    change.as_ref().and_then(|change| change.from.clone()).unwrap_or_else(|| same.to_owned())
                };
                let fields = json!({
                    "path": self.into, "owner": before(&changes.owner, &self.owner),
                    "group": before(&changes.group, &self.group),
                    "mode": before(&changes.mode, &format_mode(INTO_MODE)),
                });
                UndoEffect::declare(vec![UndoDeclaration::present("directory", fields)])
            }
            ArchiveDiff::Unpack(_) | ArchiveDiff::Remove { .. } => {
                UndoEffect::irreversible(&format!("the former contents of `{}` are not kept", self.into))
            }
            ArchiveDiff::Await { path } => UndoEffect::irreversible(&format!("archive `{path}` did not exist yet")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn build_error(fields: &[(&'static str, Value)]) -> String {
        build(&FieldValues(fields.iter().cloned().collect()), false).unwrap_err().message
    }

    #[test]
    fn invalid_archive_source_is_rejected() {
        let into = ("into", json!("/opt/x"));
        assert_eq!(build_error(std::slice::from_ref(&into)), "an archive needs `source` or `path`");
        assert_eq!(
            build_error(&[into.clone(), ("source", json!("PK\u{3}\u{4}"))]),
            "`source` is a zip archive; only tar archives are supported"
        );
        assert_eq!(build_error(&[into.clone(), ("source", json!("text"))]), "`source` is not a tar archive");
        assert_eq!(
            build_error(&[into.clone(), ("path", json!("/srv/a.tar")), ("sha256", json!("12"))]),
            "`sha256` is not 64 hexadecimal digits"
        );
        assert_eq!(
            build_error(&[into, ("path", json!("/opt/x/a.tar"))]),
            "the archive is inside `into`, which is replaced as a whole"
        );
    }

    #[test]
    fn protected_directories_are_never_replaced() {
        assert_eq!(
            build_error(&[("into", json!("/opt")), ("path", json!("/srv/a.tar"))]),
            "`into` is replaced as a whole: `/opt` is a top-level directory and is never removed"
        );
        assert_eq!(
            build_error(&[("into", json!("/usr/local")), ("path", json!("/srv/a.tar"))]),
            "`into` is replaced as a whole: `/usr/local` is a system directory and is never removed"
        );
    }
}
