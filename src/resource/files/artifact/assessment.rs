//! Compares the file at the path with the declared digest.

use super::content;
use super::declaration::ArtifactResource;
use super::diff::{ArtifactContentDiff, ArtifactDiff, FoundContent};
use crate::model::{Artifact as Source, BlockClass, DisruptionClass};
use crate::probe::{Observation, PathInfo, PathState, PathType, UnansweredReason};
use crate::resource::shared::file_target::{
    OwnershipDiff, ParentState, add_ownership_basis, check_parent, describe_differences, describe_type, type_basis,
};
use crate::resource::{Assessment, AssessmentContext, ResourceDiff};
use serde_json::json;

impl ArtifactResource {
    pub(super) fn assess_present(
        &self,
        source: &Source,
        seen: &Observation,
        cx: &AssessmentContext<'_>,
    ) -> Result<Assessment<ArtifactDiff>, UnansweredReason> {
        match content::content_state(seen, &self.path, true)? {
            PathState::Absent => match check_parent(&self.path, seen, cx.predicted)? {
                ParentState::There => Ok(self.assess_missing(source)),
                ParentState::Comes => Ok(self.assess_missing(source).mark_predicted()),
                ParentState::Blocks(parent) => Ok(parent.block()),
            },
            PathState::Present(info) => match info.kind {
                PathType::File => self.assess_existing(source, &info),
                PathType::Directory => Ok(self.block_directory(&info, "replaces")),
                PathType::Symlink | PathType::Other => Ok(self.assess_replacement(source, &info)),
            },
        }
    }

    fn assess_missing(&self, source: &Source) -> Assessment<ArtifactDiff> {
        let reason = format!("file `{}` does not exist", self.path);
        let diff = self.creation_diff(source, None);
        Assessment::differs(reason, diff, DisruptionClass::D0, json!({ "type": "absent" }))
    }

    fn assess_replacement(&self, source: &Source, info: &PathInfo) -> Assessment<ArtifactDiff> {
        let what = describe_type(info);
        let reason = format!("`{}` is a {what}", self.path);
        Assessment::differs(reason, self.creation_diff(source, Some(what)), DisruptionClass::D0, type_basis(info))
    }

    /// Returns the differences of a file that does not exist; `other` stands in its place.
    fn creation_diff(&self, source: &Source, other: Option<String>) -> ArtifactDiff {
        ArtifactDiff::Write {
            other,
            content: ArtifactContentDiff { from: None, to: describe_source(source) },
            ownership: OwnershipDiff::of_new_file(&self.owner, &self.group, self.mode),
        }
    }

    fn assess_existing(&self, source: &Source, info: &PathInfo) -> Result<Assessment<ArtifactDiff>, UnansweredReason> {
        let found =
            info.sha256.as_ref().ok_or_else(|| UnansweredReason::new(format!("`{}` could not be read", self.path)))?;
        let ownership = OwnershipDiff::compare(info, &self.owner, &self.group, self.mode);
        let mut basis = json!({ "type": "file", "content": found });
        add_ownership_basis(&mut basis, info);
        let diff = match found == source.sha256.as_str() {
            true if ownership.is_empty() => return Ok(Assessment::ok("content, owner and mode match", basis)),
            true => ArtifactDiff::Ownership(ownership),
            false => {
                let from = Some(FoundContent { bytes: info.size, sha256: found.clone() });
                let content = ArtifactContentDiff { from, to: describe_source(source) };
                ArtifactDiff::Write { other: None, content, ownership }
            }
        };
        Ok(Assessment::differs(describe_differences(&diff.render_changes()), diff, DisruptionClass::D0, basis))
    }

    fn block_directory(&self, info: &PathInfo, does: &str) -> Assessment<ArtifactDiff> {
        Assessment::blocked(BlockClass::Host, format!("`{}` is a directory", self.path), type_basis(info))
            .hint(format!("an `artifact` step never {does} a directory: move its contents and remove it"))
    }

    pub(super) fn assess_absent(&self, seen: &Observation) -> Result<Assessment<ArtifactDiff>, UnansweredReason> {
        let info = match content::content_state(seen, &self.path, true)? {
            PathState::Absent => {
                let reason = format!("file `{}` does not exist", self.path);
                return Ok(Assessment::ok(reason, json!({ "type": "absent" })));
            }
            PathState::Present(info) => info,
        };
        if info.kind == PathType::Directory {
            return Ok(self.block_directory(&info, "removes"));
        }
        let from = match info.kind {
            PathType::File => format!("file, {} bytes", info.size),
            _ => describe_type(&info),
        };
        let mut basis = type_basis(&info);
        basis["content"] = json!(info.sha256);
        let diff = ArtifactDiff::Remove { before: from };
        Ok(Assessment::differs(format!("`{}` exists", self.path), diff, DisruptionClass::D0, basis))
    }
}

/// Describes an artifact by its digest and source.
fn describe_source(source: &Source) -> String {
    format!("sha256 {}, from {}", source.sha256.short_hex(), source.source.short_name())
}
