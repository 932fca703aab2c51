//! Compares the file at the path with the declared digest.

use super::{Artifact, content};
use crate::artifact::Artifact as Source;
use crate::model::{BlockClass, Disruption};
use crate::probe::{Observation, PathInfo, PathState, PathType, Unknown};
use crate::resource::body::{Parent, differ, missing_parent, ownership, put_ownership, type_basis, type_words};
use crate::resource::support::octal;
use crate::resource::{Change, Context, Judgement};
use serde_json::json;

impl Artifact {
    pub(super) fn judge_present(
        &self,
        source: &Source,
        seen: &Observation,
        cx: &Context<'_>,
    ) -> Result<Judgement, Unknown> {
        match content::state(seen, &self.path, true)? {
            PathState::Absent => match missing_parent(&self.path, seen, cx.predicted)? {
                Parent::There => Ok(self.create(source)),
                Parent::Comes => Ok(self.create(source).predicted()),
                Parent::Blocks(judgement) => Ok(*judgement),
            },
            PathState::Present(info) => match info.kind {
                PathType::File => self.compare(source, &info),
                PathType::Directory => Ok(self.directory(&info, "replaces")),
                PathType::Symlink | PathType::Other => Ok(self.replace(source, &info)),
            },
        }
    }

    fn create(&self, source: &Source) -> Judgement {
        let reason = format!("file `{}` does not exist", self.path);
        Judgement::change(reason, self.all_new(source), Disruption::D0, json!({ "type": "absent" }))
    }

    fn replace(&self, source: &Source, info: &PathInfo) -> Judgement {
        let what = type_words(info);
        let mut changes = vec![Change::new("type", Some(&what), Some("file"))];
        changes.extend(self.all_new(source));
        Judgement::change(format!("`{}` is a {what}", self.path), changes, Disruption::D0, type_basis(info))
    }

    fn all_new(&self, source: &Source) -> Vec<Change> {
        vec![
            Change::new("content", None, Some(&described(source))),
            Change::new("owner", None, Some(&self.owner)),
            Change::new("group", None, Some(&self.group)),
            Change::new("mode", None, Some(&octal(self.mode))),
        ]
    }

    fn compare(&self, source: &Source, info: &PathInfo) -> Result<Judgement, Unknown> {
        let found = info.sha256.as_ref().ok_or_else(|| Unknown::new(format!("`{}` could not be read", self.path)))?;
        let mut changes = Vec::new();
        if found != source.sha256.as_str() {
            let from = format!("{} bytes, sha256 {:.12}", info.size, found);
            changes.push(Change::new("content", Some(&from), Some(&described(source))));
        }
        changes.extend(ownership(info, &self.owner, &self.group, self.mode));
        let mut basis = json!({ "type": "file", "content": found });
        put_ownership(&mut basis, info);
        Ok(match changes.is_empty() {
            true => Judgement::ok("content, owner and mode match", basis),
            false => Judgement::change(differ(&changes), changes, Disruption::D0, basis),
        })
    }

    fn directory(&self, info: &PathInfo, does: &str) -> Judgement {
        Judgement::blocked(BlockClass::Host, format!("`{}` is a directory", self.path), type_basis(info))
            .hint(format!("an `artifact` step never {does} a directory; remove it with a `directory` step first"))
    }

    pub(super) fn judge_absent(&self, seen: &Observation) -> Result<Judgement, Unknown> {
        let info = match content::state(seen, &self.path, true)? {
            PathState::Absent => {
                let reason = format!("file `{}` does not exist", self.path);
                return Ok(Judgement::ok(reason, json!({ "type": "absent" })));
            }
            PathState::Present(info) => info,
        };
        if info.kind == PathType::Directory {
            return Ok(self.directory(&info, "removes"));
        }
        let from = match info.kind {
            PathType::File => format!("file, {} bytes", info.size),
            _ => type_words(&info),
        };
        let mut basis = type_basis(&info);
        basis["content"] = json!(info.sha256);
        let changes = vec![Change::new("file", Some(&from), None)];
        Ok(Judgement::change(format!("`{}` exists", self.path), changes, Disruption::D0, basis))
    }
}

/// Describes an artifact by its digest and source.
fn described(source: &Source) -> String {
    format!("sha256 {}, from {}", source.sha256.short(), source.source.short())
}
