//! `absent`: removes whatever exists at a path.

use crate::diag::{Diag, DiagCode};
use crate::model::{BlockClass, DisruptionClass, UndoDeclaration, UndoEffect, Value};
use crate::probe::{Observation, PathInfo, PathState, PathType, Probe, UnansweredReason};
use crate::resource::shared::file_target::{describe_lost_special_file, describe_type, path_probe};
use crate::resource::shared::mounted_paths::{mounts_probe, refuse_mounted_paths};
use crate::resource::shared::shell;
use crate::resource::shared::support::{format_mode, parent_path, path_state};
use crate::resource::shared::system_directories::check_removable;
use crate::resource::system::unit::{RELOAD_MANAGER, is_read_by_manager};
use crate::resource::traits::{EffectReach, GuardSupport, KindTraits, PackageExposure};
use crate::resource::{
    Action, ActionScript, Assessment, AssessmentContext, AttributeChange, ChangeMark, ChangedObject, DeclaredResource,
    FieldSpec, FieldType, FieldValues, ProvidedItem, Resource, ResourceDiff, ResourceKind, TypedResource,
};
use crate::script::ShellFragment;
use serde::Serialize;
use serde_json::json;

pub(in crate::resource) const KIND: ResourceKind = ResourceKind {
    name: "absent",
    summary: "Removes one or more paths.",
    example: include_str!("../examples/absent.yaml"),
    doc: "\
Use it for leftovers of a package, an older recipe or manual work. To remove something that a recipe creates, use
`ensure: absent` or `otherwise: absent` in that recipe.

**Compares** whether each path exists. An unchanged step reports `PATH does not exist`. Every path is listed explicitly:
patterns are not supported, because they could match unintended files.

**A change** removes files, links (never their targets) and special files. Files are backed up to
`/var/lib/forge/backups/RUN/PATH` unless `backup: false`. A directory blocks the step unless `recursive: true`, which
removes it with its contents, without a backup. A mount at a path, or in a directory, blocks the step. systemd is
reloaded after the removal of a unit or a drop-in. An undo restores the paths that the step lists, also in such a
directory, and no other contents.

**Never removed**: `/`, its direct children (`/etc`), system directories (such as `/usr/lib`, `/var/log`, `/etc/ssh`)
and forge's own directories.

**Removal** of the recipe changes nothing: forge does not restore what it removed.",
    fields: &[
        FieldSpec::optional("path", FieldType::Path, "Path to remove. Excludes `paths`."),
        FieldSpec::optional("paths", FieldType::List(&FieldType::Path), "Paths to remove. Excludes `path`."),
        FieldSpec::optional("recursive", FieldType::Bool, "Remove directories with their contents. Default `false`."),
        FieldSpec::optional("backup", FieldType::Bool, "Keep a backup of removed files on the host. Default `true`."),
    ],
    build,
    traits: KindTraits {
        only_removes: true,
        guard: GuardSupport::Own,
        reach: EffectReach::Resource,
        exposure: PackageExposure::Removal,
        ..KindTraits::DEFAULT
    },
};

/// Files larger than this are not copied for an undo. Bytes.
const KEPT_SIZE_LIMIT: u64 = 64 << 20;

#[derive(Debug)]
struct AbsentResource {
    paths: Vec<String>,
    recursive: bool,
    backup: bool,
    /// The recipe itself is being removed; removed paths are not restored.
    idle: bool,
}

fn build(fields: &FieldValues, absent: bool) -> Result<Box<dyn Resource>, Diag> {
    let (written, paths) = match (fields.get_text("path"), fields.get_text_list("paths")) {
        (Some(_), Some(_)) => return Err(Diag::error(DiagCode::Exclusive, "`path` and `paths` exclude each other")),
        (Some(path), None) => ("path", vec![path.to_owned()]),
        (None, Some(paths)) if !paths.is_empty() => ("paths", paths),
        (None, _) => return Err(Diag::error(DiagCode::MissingKey, "an `absent` step needs `path` or `paths`")),
    };
    paths.iter().try_for_each(|path| check_removable(path)).map_err(|diag| diag.with_field(written))?;
    Ok(Box::new(AbsentResource {
        paths,
        recursive: fields.get_bool("recursive").unwrap_or(false),
        backup: fields.get_bool("backup").unwrap_or(true),
        idle: absent,
    }))
}

impl AbsentResource {
    /// Returns the paths that exist.
    fn find_existing(&self, seen: &Observation) -> Result<Vec<ExistingPath>, UnansweredReason> {
        let mut left = Vec::new();
        for path in &self.paths {
            match path_state(seen, &path_probe(path)) {
                Ok(PathState::Absent) => {}
                Ok(PathState::Present(info)) => {
                    left.push(ExistingPath { path: path.clone(), info: PathInfo::clone(info) })
                }
                Err(unknown) => return Err(UnansweredReason { why: format!("`{path}`: {}", unknown.why), ..unknown }),
            }
        }
        Ok(left)
    }

    fn assess_existing(&self, left: Vec<ExistingPath>) -> Assessment<AbsentDiff> {
        let seen = |ExistingPath { path, info }: &ExistingPath| {
            (path.clone(), json!({ "type": info.kind, "target": info.target, "content": info.sha256 }))
        };
        let basis = Value::Object(left.iter().map(seen).collect());
        if left.is_empty() {
            let verb = if self.paths.len() == 1 { "does" } else { "do" };
            return Assessment::ok(
                format!("{} {verb} not exist", crate::resource::shared::support::join_quoted(&self.paths)),
                basis,
            );
        }
        let directory = left.iter().find(|at| at.info.kind == PathType::Directory);
        if let Some(at) = directory.filter(|_| !self.recursive) {
            return Assessment::blocked(BlockClass::Host, format!("`{}` is a directory", at.path), basis)
                .hint("set `recursive: true` to remove it with its contents");
        }
        let names: Vec<&str> = left.iter().map(|at| at.path.as_str()).collect();
        let verb = if names.len() == 1 { "exists" } else { "exist" };
        let reason = format!("{} {verb}", crate::resource::shared::support::join_quoted(&names));
        Assessment::differs(reason, AbsentDiff { existing: left }, DisruptionClass::D0, basis)
    }

    /// Renders a removal for each path according to the type that was observed.
    fn render_script(&self, diff: &AbsentDiff, run: &str) -> ShellFragment {
        let one = |ExistingPath { path, info }: &ExistingPath| match info.kind {
            PathType::Directory => shell::remove_tree(path),
            kind => shell::remove_file(path, run, self.backup && kind == PathType::File),
        };
        let mut action = ShellFragment::new();
        for (number, removal) in diff.existing.iter().map(one).enumerate() {
            let before =
                if number == 0 { ShellFragment::new() } else { ShellFragment::new().code("[ $? -eq 0 ] &&\n") };
            action = action.append_fragment(before).append_fragment(removal);
        }
        action
    }
}

const EXPLAIN: &[(&str, &str)] = &[
    shell::EXPLAIN_UNSAFE_PATH,
    ("is a directory", "it became a directory after it was observed; run forge again"),
    ("a file system is mounted", "unmount it first"),
    ("Device or resource busy", "it is a mount point: unmount it first"),
    ("Operation not permitted", "the file may be immutable; check with `lsattr`"),
    ("Read-only file system", "the file system is mounted read-only; check the kernel log for I/O errors"),
];

impl DeclaredResource for AbsentResource {
    fn kind(&self) -> &'static str {
        KIND.name
    }

    fn title(&self) -> String {
        match self.paths.as_slice() {
            [first, _, ..] => format!("{first} and {} more", self.paths.len() - 1),
            _ => self.paths.concat(),
        }
    }

    fn changed_object(&self, mark: &ChangeMark) -> ChangedObject {
        let path = mark.member.as_deref().or(self.paths.first().map(String::as_str));
        path.map_or(ChangedObject::Nameless, |path| ChangedObject::Path(path.to_owned()))
    }

    fn probes(&self) -> Vec<Probe> {
        if self.idle {
            return Vec::new();
        }
        self.paths.iter().map(|path| path_probe(path)).chain([mounts_probe(&self.paths)]).collect()
    }

    fn desired_value(&self) -> Value {
        json!({ "paths": self.paths, "absent": true })
    }

    fn provided_items(&self) -> Vec<ProvidedItem> {
        Vec::new()
    }

    fn restart_input_paths(&self) -> Vec<String> {
        self.paths.clone()
    }

    fn exclusive_claims(&self) -> Vec<(&'static str, String)> {
        if self.idle { Vec::new() } else { self.paths.iter().map(|path| ("path", path.clone())).collect() }
    }

    fn removed_trees(&self) -> Vec<String> {
        if self.idle || !self.recursive { Vec::new() } else { self.paths.clone() }
    }
}

/// The declared paths at which something exists, in the declared order.
#[derive(Clone, Debug, PartialEq, Serialize)]
struct AbsentDiff {
    existing: Vec<ExistingPath>,
}

/// A path, and what was observed there.
#[derive(Clone, Debug, PartialEq, Serialize)]
struct ExistingPath {
    path: String,
    info: PathInfo,
}

impl ExistingPath {
    fn render_removal(&self) -> AttributeChange {
        let Self { path, info } = self;
        let (what, from) = match info.kind {
            PathType::Directory => ("directory", format!("{path}, with its contents")),
            PathType::Symlink => ("link", format!("{path}, a {}", describe_type(info))),
            PathType::File => ("file", format!("{path}, {} bytes", info.size)),
            PathType::Other => ("special file", path.clone()),
        };
        AttributeChange::new(what, Some(&from), None).with_member(path)
    }
}

impl AbsentDiff {
    /// Returns how files, links and listed directories are restored. Of the contents of a directory, only listed paths
    /// are kept.
    fn restore_kept(&self) -> UndoEffect {
        let (mut directories, kept): (Vec<_>, Vec<_>) =
            self.existing.iter().partition(|at| at.info.kind == PathType::Directory);
        // A directory precedes those in it.
        directories.sort_by_key(|at| &at.path);
        let kept_paths: Vec<&str> = kept.iter().map(|at| at.path.as_str()).collect();
        let Some(first) = directories.first() else { return UndoEffect::restore_paths(kept_paths) };
        let why = format!("the contents of `{}` are not kept", first.path);
        let is_listed = |path: &str| directories.iter().any(|at| at.path == path);
        let goes = |path: &str| directories.iter().any(|at| path.starts_with(&format!("{}/", at.path)));
        // A path can only be restored in a directory that is restored too.
        let is_restorable = |at: &&ExistingPath| {
            let above = parent_path(&at.path).unwrap_or_default();
            is_listed(above) || !goes(&at.path)
        };
        if kept.is_empty() || !self.existing.iter().all(|at| is_restorable(&at)) {
            return UndoEffect::irreversible(&why);
        }
        let declare = |at: &&ExistingPath| {
            let mode = format_mode(at.info.mode);
            let fields = json!({ "path": at.path, "owner": at.info.owner, "group": at.info.group, "mode": mode });
            UndoDeclaration::present("directory", fields)
        };
        let count = match kept_paths.iter().filter(|path| goes(path)).count() {
            0 => String::new(),
            1 => ", except for one listed path".to_owned(),
            several => format!(", except for {several} listed paths"),
        };
        UndoEffect {
            steps: directories.iter().map(declare).collect(),
            lost: Some(format!("{why}{count}")),
            ..UndoEffect::restore_paths(kept_paths)
        }
    }
}

impl ResourceDiff for AbsentDiff {
    fn render_changes(&self) -> Vec<AttributeChange> {
        self.existing.iter().map(ExistingPath::render_removal).collect()
    }
}

impl TypedResource for AbsentResource {
    type Diff = AbsentDiff;

    fn diff(&self, seen: &Observation, cx: &AssessmentContext<'_>) -> Assessment<AbsentDiff> {
        if self.idle {
            return Assessment::ok("removed paths are not restored", json!({}));
        }
        match self.find_existing(seen) {
            Ok(left) => refuse_mounted_paths(self.assess_existing(left), &self.paths, seen, cx),
            Err(unknown) => Assessment::unknown(&unknown),
        }
    }

    fn act(&self, diff: &AbsentDiff, cx: &AssessmentContext<'_>) -> Action {
        let removed = self.render_script(diff, cx.run);
        let body = match diff.existing.iter().any(|at| is_read_by_manager(&at.path)) {
            true => removed.code(RELOAD_MANAGER),
            false => removed,
        };
        Action::Script(ActionScript { body, long: false, explain: EXPLAIN })
    }

    fn undo(&self, diff: &AbsentDiff) -> UndoEffect {
        let lost = diff.existing.iter().find_map(|at| match at.info.kind {
            PathType::Other => Some(describe_lost_special_file(&at.path)),
            PathType::File if !self.backup => Some("the step declares `backup: false`".to_owned()),
            PathType::File if at.info.size > KEPT_SIZE_LIMIT => {
                Some(format!("`{}` is larger than {} MiB and is not kept", at.path, KEPT_SIZE_LIMIT >> 20))
            }
            PathType::File | PathType::Symlink | PathType::Directory => None,
        });
        match lost {
            Some(why) => UndoEffect::irreversible(&why),
            None => diff.restore_kept(),
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
    fn protected_directories_are_never_removed() {
        assert_eq!(build_error(&[("path", json!("/etc"))]), "`/etc` is a top-level directory and is never removed");
        assert_eq!(
            build_error(&[("paths", json!(["/tmp/x", "/usr/lib"]))]),
            "`/usr/lib` is a system directory and is never removed"
        );
    }

    #[test]
    fn exactly_one_of_path_and_paths_is_required() {
        assert_eq!(build_error(&[]), "an `absent` step needs `path` or `paths`");
        assert_eq!(build_error(&[("paths", json!([]))]), "an `absent` step needs `path` or `paths`");
        assert_eq!(
            build_error(&[("path", json!("/a/b")), ("paths", json!(["/a/b"]))]),
            "`path` and `paths` exclude each other"
        );
    }
}
