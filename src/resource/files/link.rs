//! `link`: a symbolic link.

use crate::diag::Diag;
use crate::model::{BlockClass, DisruptionClass, UndoEffect, Value};
use crate::probe::{Observation, PathInfo, PathState, PathType, Probe, UnansweredReason};
use crate::resource::shared::file_target::{
    ParentState, check_parent, describe_differences, describe_type, path_probe, resolve_link_target, restore_path,
    type_basis,
};
use crate::resource::shared::shell::{self, SymlinkSpec};
use crate::resource::shared::support::{
    bad_value, check_account_name, parent_path, path_state, required_text, will_be_provided,
};
use crate::resource::shared::system_directories::check_writable;
use crate::resource::traits::KindTraits;
use crate::resource::{
    Action, ActionScript, Assessment, AssessmentContext, AttributeChange, ChangeAspect, ChangeMark, ChangedObject,
    DeclaredResource, FieldSpec, FieldType, FieldValues, ProvidedItem, Resource, ResourceDiff, ResourceKind,
    TypedResource, ValueChange,
};
use serde::Serialize;
use serde_json::json;

pub(in crate::resource) const KIND: ResourceKind = ResourceKind {
    name: "link",
    summary: "A symbolic link with its target.",
    example: include_str!("../examples/link.yaml"),
    doc: "\
**Compared** are the target, as text, and owner and group if they are declared. An unchanged step reports `the link
points to TARGET`.

**The target** is absolute, or relative to the directory of the link. It need not exist; if it does not, and no earlier
step creates it, the reason says so.

**A change** makes a new link next to the path and renames it over the existing entry, so that a process that opens the
path gets either the old target or the new one. A link to another target is replaced. A file or a special file blocks
the step unless `force: true`; forge then saves it under `/var/lib/forge/backups/RUN/PATH`. A directory is never
replaced. The parent directory must exist, or an earlier step must create it.

**Removal** removes the link, wherever it points, but not its target. Anything else at the path blocks the step.",
    fields: &[
        FieldSpec::required("path", FieldType::Path, "Path of the link on the host."),
        FieldSpec::required(
            "target",
            FieldType::Line,
            "Target: an absolute path, or one relative to the link's directory.",
        ),
        FieldSpec::optional("force", FieldType::Bool, "Replace a file at the path. Default `false`."),
        FieldSpec::optional("owner", FieldType::Name, "Owner of the link itself. Default: not compared."),
        FieldSpec::optional("group", FieldType::Name, "Group of the link itself. Default: not compared."),
    ],
    build,
    traits: KindTraits::WRITES_FILES,
};

#[derive(Debug)]
struct LinkResource {
    path: String,
    target: String,
    force: bool,
    owner: Option<String>,
    group: Option<String>,
    absent: bool,
}

fn build(fields: &FieldValues, absent: bool) -> Result<Box<dyn Resource>, Diag> {
    let path = required_text(fields, "path")?.to_owned();
    let target = required_text(fields, "target")?.to_owned();
    if path == "/" {
        return Err(bad_value("`/` is not a link").with_field("path"));
    }
    if !absent {
        check_writable(&path)?;
    }
    if target.is_empty() {
        return Err(bad_value("`target` is empty").with_field("target"));
    }
    if target == path {
        return Err(bad_value(format!("`{path}` cannot link to itself")).with_field("target"));
    }
    let name = |field: &str| fields.get_text(field).map(str::to_owned);
    let (owner, group) = (name("owner"), name("group"));
    owner.iter().try_for_each(|owner| check_account_name("owner", owner))?;
    group.iter().try_for_each(|group| check_account_name("group", group))?;
    Ok(Box::new(LinkResource { path, target, force: fields.get_bool("force").unwrap_or(false), owner, group, absent }))
}

impl LinkResource {
    fn resolved_target(&self) -> String {
        resolve_link_target(&self.path, &self.target)
    }

    /// Returns a note for the reason if nothing exists at the target. A target that could not be observed gets no note.
    fn dangling_note(&self, seen: &Observation, cx: &AssessmentContext<'_>) -> &'static str {
        let resolved = self.resolved_target();
        let gone = matches!(path_state(seen, &path_probe(&resolved)), Ok(PathState::Absent));
        let comes = will_be_provided(cx.predicted, &ProvidedItem::Path(resolved));
        if gone && !comes { "; its target does not exist" } else { "" }
    }

    fn assess_present(
        &self,
        seen: &Observation,
        cx: &AssessmentContext<'_>,
    ) -> Result<Assessment<LinkDiff>, UnansweredReason> {
        let dangling = self.dangling_note(seen, cx);
        let info = match path_state(seen, &path_probe(&self.path))? {
            PathState::Present(info) => info,
            PathState::Absent => {
                let reason = format!("link `{}` does not exist", self.path);
                let missing = || self.assess_missing(reason, dangling, None, json!({ "type": "absent" }));
                return Ok(match check_parent(&self.path, seen, cx.predicted)? {
                    ParentState::There => missing(),
                    ParentState::Comes => missing().mark_predicted(),
                    ParentState::Blocks(parent) => parent.block(),
                });
            }
        };
        Ok(match info.kind {
            PathType::Symlink => self.assess_existing(info, dangling),
            PathType::Directory => {
                self.block_wrong_type(info, "a `link` step never replaces a directory: move its contents and remove it")
            }
            PathType::File | PathType::Other if !self.force => {
                self.block_wrong_type(info, "set `force: true` to replace it and keep a backup")
            }
            PathType::File | PathType::Other => {
                let mut basis = type_basis(info);
                basis["content"] = json!(info.sha256);
                let reason = format!("`{}` is a {} and is replaced", self.path, describe_type(info));
                self.assess_missing(reason, dangling, Some(info), basis)
            }
        })
    }

    fn block_wrong_type(&self, info: &PathInfo, hint: &str) -> Assessment<LinkDiff> {
        let reason = format!("`{}` is a {}, not a link", self.path, describe_type(info));
        Assessment::blocked(BlockClass::Host, reason, type_basis(info)).hint(hint)
    }

    /// Evaluates a path without a link; `other` is what the link replaces.
    fn assess_missing(
        &self,
        reason: String,
        dangling: &str,
        other: Option<&PathInfo>,
        basis: Value,
    ) -> Assessment<LinkDiff> {
        let created = |value: &Option<String>| value.clone().map(ValueChange::create);
        let attributes = LinkAttributes {
            target: Some(ValueChange::create(self.target.clone())),
            owner: created(&self.owner),
            group: created(&self.group),
        };
        let diff = LinkDiff::Create { other: other.cloned(), attributes };
        Assessment::differs(format!("{reason}{dangling}"), diff, DisruptionClass::D0, basis)
    }

    fn assess_existing(&self, info: &PathInfo, dangling: &str) -> Assessment<LinkDiff> {
        let found = info.target.as_ref().map(|target| target.raw()).unwrap_or_default();
        let mut basis = type_basis(info);
        let mut compare = |attribute: &str, found: &str, wanted: Option<&String>| {
            let wanted = wanted?;
            basis[attribute] = json!(found);
            (found != wanted).then(|| ValueChange::new(found.to_owned(), wanted.clone()))
        };
        let attributes = LinkAttributes {
            target: compare("target", found, Some(&self.target)),
            owner: compare("owner", info.owner.raw(), self.owner.as_ref()),
            group: compare("group", info.group.raw(), self.group.as_ref()),
        };
        if attributes == LinkAttributes::default() {
            return Assessment::ok(format!("the link points to `{}`{dangling}", self.target), basis);
        }
        let diff = LinkDiff::Modify(attributes);
        let reason = format!("{}{dangling}", describe_differences(&diff.render_changes()));
        Assessment::differs(reason, diff, DisruptionClass::D0, basis)
    }

    fn assess_absent(&self, seen: &Observation) -> Result<Assessment<LinkDiff>, UnansweredReason> {
        Ok(match path_state(seen, &path_probe(&self.path))? {
            PathState::Absent => {
                let reason = format!("link `{}` does not exist", self.path);
                Assessment::ok(reason, json!({ "type": "absent" }))
            }
            PathState::Present(info) if info.kind == PathType::Symlink => {
                let diff = LinkDiff::Remove { before: PathInfo::clone(info) };
                Assessment::differs(format!("`{}` exists", self.path), diff, DisruptionClass::D0, type_basis(info))
            }
            PathState::Present(info) => {
                self.block_wrong_type(info, "use an `absent` step to remove anything at a path")
            }
        })
    }

    /// Returns `OWNER:GROUP` in the syntax of `chown`, or an empty text if neither is declared.
    fn chown_spec(&self) -> String {
        match (&self.owner, &self.group) {
            (None, None) => String::new(),
            (Some(owner), None) => owner.clone(),
            (owner, Some(group)) => format!("{}:{group}", owner.as_deref().unwrap_or_default()),
        }
    }
}

/// How a link differs.
#[derive(Clone, Debug, PartialEq, Serialize)]
enum LinkDiff {
    /// There is no link; `other` (a file, a special file) stands in its place.
    Create {
        other: Option<PathInfo>,
        attributes: LinkAttributes,
    },
    Modify(LinkAttributes),
    Remove {
        before: PathInfo,
    },
}

impl ResourceDiff for LinkDiff {
    fn render_changes(&self) -> Vec<AttributeChange> {
        match self {
            Self::Create { other, attributes } => {
                let other = other.as_ref().map(describe_type);
                let other = other.map(|other| AttributeChange::new("type", Some(&other), Some("symbolic link")));
                other.into_iter().chain(attributes.render_changes()).collect()
            }
            Self::Modify(attributes) => attributes.render_changes(),
            Self::Remove { before } => {
                vec![AttributeChange::new("link", before.target.as_ref().map(|target| target.raw()), None)]
            }
        }
    }

    fn leads_elsewhere(&self) -> bool {
        matches!(self, Self::Modify(attributes) if attributes.target.is_some())
    }
}

/// Target, owner and group of a link, as far as they differ.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
struct LinkAttributes {
    target: Option<ValueChange<String>>,
    owner: Option<ValueChange<String>>,
    group: Option<ValueChange<String>>,
}

impl LinkAttributes {
    fn render_changes(&self) -> Vec<AttributeChange> {
        let all = [
            ("target", ChangeAspect::Content, &self.target),
            ("owner", ChangeAspect::Owner, &self.owner),
            ("group", ChangeAspect::Other, &self.group),
        ];
        let render = |(name, aspect, change): (&str, _, &Option<ValueChange<String>>)| {
            Some(change.as_ref()?.render_change(name).with_aspect(aspect))
        };
        all.into_iter().filter_map(render).collect()
    }
}

const EXPLAIN: &[(&str, &str)] = &[
    shell::EXPLAIN_UNSAFE_PATH,
    ("invalid user", "the owner does not exist on the host: add a `user` step before this one"),
    ("invalid group", "the group does not exist on the host: add a `group` step before this one"),
    ("Read-only file system", "the file system is mounted read-only; look for I/O errors in the kernel log"),
];

impl DeclaredResource for LinkResource {
    fn kind(&self) -> &'static str {
        KIND.name
    }

    fn title(&self) -> String {
        self.path.clone()
    }

    fn changed_object(&self, _mark: &ChangeMark) -> ChangedObject {
        ChangedObject::Path(self.path.clone())
    }

    fn probes(&self) -> Vec<Probe> {
        let mut probes = vec![path_probe(&self.path)];
        if !self.absent {
            probes.extend(parent_path(&self.path).map(path_probe));
            probes.push(path_probe(&self.resolved_target()));
        }
        probes
    }

    /// A link is the same whatever its target is.
    fn deciding_probes(&self) -> Vec<Probe> {
        [Some(self.path.as_str()), parent_path(&self.path)].into_iter().flatten().map(path_probe).collect()
    }

    fn desired_value(&self) -> Value {
        match self.absent {
            true => json!({ "path": self.path, "absent": true }),
            false => json!({ "path": self.path, "target": self.target, "owner": self.owner, "group": self.group }),
        }
    }

    /// It may lead to the program.
    fn is_read_at_start(&self) -> bool {
        true
    }

    fn provided_items(&self) -> Vec<ProvidedItem> {
        (!self.absent).then(|| ProvidedItem::Path(self.path.clone())).into_iter().collect()
    }

    fn restart_input_paths(&self) -> Vec<String> {
        vec![self.path.clone()]
    }

    fn exclusive_claims(&self) -> Vec<(&'static str, String)> {
        vec![("path", self.path.clone())]
    }

    fn declared_link(&self) -> Option<(&str, &str)> {
        (!self.absent).then_some((&self.path, &self.target))
    }
}

impl TypedResource for LinkResource {
    type Diff = LinkDiff;

    fn diff(&self, seen: &Observation, cx: &AssessmentContext<'_>) -> Assessment<LinkDiff> {
        let judged = match self.absent {
            true => self.assess_absent(seen),
            false => self.assess_present(seen, cx),
        };
        judged.unwrap_or_else(|unknown| Assessment::unknown(&unknown))
    }

    fn act(&self, diff: &LinkDiff, cx: &AssessmentContext<'_>) -> Action {
        let body = match diff {
            LinkDiff::Remove { .. } => shell::remove_file(&self.path, cx.run, false),
            LinkDiff::Create { .. } | LinkDiff::Modify(_) => shell::replace_symlink(&SymlinkSpec {
                path: &self.path,
                target: &self.target,
                own: &self.chown_spec(),
                run: cx.run,
                force: self.force,
            }),
        };
        Action::Script(ActionScript { body, long: false, explain: EXPLAIN })
    }

    fn undo(&self, diff: &LinkDiff) -> UndoEffect {
        match diff {
            LinkDiff::Create { other, .. } => restore_path(&self.path, other.as_ref().map(|info| info.kind)),
            LinkDiff::Modify(_) | LinkDiff::Remove { .. } => UndoEffect::restore_paths([&self.path]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn build_error(path: &str, target: &str) -> String {
        build(&FieldValues([("path", json!(path)), ("target", json!(target))].into_iter().collect()), false)
            .unwrap_err()
            .message
    }

    #[test]
    fn invalid_link_fields_are_rejected() {
        assert_eq!(build_error("/", "/srv"), "`/` is not a link");
        assert_eq!(build_error("/a", ""), "`target` is empty");
        assert_eq!(build_error("/a/b", "/a/b"), "`/a/b` cannot link to itself");
        let device = "`/dev/null` is below /dev, where the kernel and udev make the entries";
        assert_eq!(build_error("/dev/null", "/dev/zero"), device);
    }
}
