//! Compares the file at the path with the declared digest.

use super::{ArtifactResource, content};
use crate::artifact::Artifact as Source;
use crate::model::{BlockClass, DisruptionClass};
use crate::probe::{Observation, PathInfo, PathState, PathType, UnansweredReason};
use crate::resource::shared::file_target::{
    ParentState, add_ownership_basis, check_parent, describe_differences, describe_type, ownership_changes, type_basis,
};
use crate::resource::shared::support::format_mode;
use crate::resource::{Assessment, AssessmentContext, AttributeChange};
use serde_json::json;

impl ArtifactResource {
    pub(super) fn assess_present(
        &self,
        source: &Source,
        seen: &Observation,
        cx: &AssessmentContext<'_>,
    ) -> Result<Assessment, UnansweredReason> {
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

    fn assess_missing(&self, source: &Source) -> Assessment {
        let reason = format!("file `{}` does not exist", self.path);
        Assessment::change(reason, self.creation_changes(source), DisruptionClass::D0, json!({ "type": "absent" }))
    }

    fn assess_replacement(&self, source: &Source, info: &PathInfo) -> Assessment {
        let what = describe_type(info);
        let mut changes = vec![AttributeChange::new("type", Some(&what), Some("file"))];
        changes.extend(self.creation_changes(source));
        Assessment::change(format!("`{}` is a {what}", self.path), changes, DisruptionClass::D0, type_basis(info))
    }

    fn creation_changes(&self, source: &Source) -> Vec<AttributeChange> {
        vec![
            AttributeChange::new("content", None, Some(&describe_source(source))),
            AttributeChange::new("owner", None, Some(&self.owner)),
            AttributeChange::new("group", None, Some(&self.group)),
            AttributeChange::new("mode", None, Some(&format_mode(self.mode))),
        ]
    }

    fn assess_existing(&self, source: &Source, info: &PathInfo) -> Result<Assessment, UnansweredReason> {
        let found =
            info.sha256.as_ref().ok_or_else(|| UnansweredReason::new(format!("`{}` could not be read", self.path)))?;
        let mut changes = Vec::new();
        if found != source.sha256.as_str() {
            let from = format!("{} bytes, sha256 {:.12}", info.size, found);
            changes.push(AttributeChange::new("content", Some(&from), Some(&describe_source(source))));
        }
        changes.extend(ownership_changes(info, &self.owner, &self.group, self.mode));
        let mut basis = json!({ "type": "file", "content": found });
        add_ownership_basis(&mut basis, info);
        Ok(match changes.is_empty() {
            true => Assessment::ok("content, owner and mode match", basis),
            false => Assessment::change(describe_differences(&changes), changes, DisruptionClass::D0, basis),
        })
    }

    fn block_directory(&self, info: &PathInfo, does: &str) -> Assessment {
        Assessment::blocked(BlockClass::Host, format!("`{}` is a directory", self.path), type_basis(info))
            .hint(format!("an `artifact` step never {does} a directory; remove it with a `directory` step first"))
    }

    pub(super) fn assess_absent(&self, seen: &Observation) -> Result<Assessment, UnansweredReason> {
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
        let changes = vec![AttributeChange::new("file", Some(&from), None)];
        Ok(Assessment::change(format!("`{}` exists", self.path), changes, DisruptionClass::D0, basis))
    }
}

/// Describes an artifact by its digest and source.
fn describe_source(source: &Source) -> String {
    format!("sha256 {}, from {}", source.sha256.short_hex(), source.source.short_name())
}
