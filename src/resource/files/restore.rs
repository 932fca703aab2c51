//! `restore`: a file or link as it was before a run, from the copy on the host; or nothing, if nothing existed.

use crate::diag::Diag;
use crate::model::{BlockClass, DisruptionClass, StepVerdict, UndoDeclaration, UndoEffect, UntrustedText, Value};
use crate::probe::{CheckProbe, Observation, PathInfo, PathState, PathType, Probe, UnansweredReason};
use crate::resource::shared::diff;
use crate::resource::shared::file_target::{
    OwnershipDiff, add_ownership_basis, describe_differences, describe_type, path_probe, type_basis,
};
use crate::resource::shared::shell;
use crate::resource::shared::support::{bad_value, output, path_state, required_text};
use crate::resource::shared::system_directories::{describe_device_path, is_device_path};
use crate::resource::system::unit::{
    UNITS_FOLDER, is_drop_in_path, is_unit_path, make_drop_in_folder, remove_empty_drop_in_folder,
};
use crate::resource::traits::KindTraits;
use crate::resource::{
    Action, ActionScript, Assessment, AssessmentContext, AttributeChange, ChangeAspect, ChangeMark, ChangedObject,
    DeclaredResource, FieldSpec, FieldType, FieldValues, ProvidedItem, Resource, ResourceDiff, ResourceKind,
    TypedResource,
};
use crate::script::ShellFragment;
use serde::Serialize;
use serde_json::json;

pub(in crate::resource) const KIND: ResourceKind = ResourceKind {
    name: "restore",
    summary: "A file or link as it was before a run.",
    example: include_str!("../examples/restore.yaml"),
    doc: "\
`forge undo` declares this kind; recipes rarely need it. Before a run changes a file or link, it copies it, with owner,
mode and attributes, into a directory that only root can enter.

**Compares** type, content, owner, group and mode with the copy; without `copy`, whether nothing exists at the path. An
unchanged step reports `as before the run`.

**A change** writes the copy next to the path, syncs it and renames it into place. Without `copy` it removes the file or
link, and the directory of a drop-in of systemd with its last file. If the path is a unit of systemd, systemd reads its
units again. If it contains settings of GRUB, `update-grub` generates the boot menu again, also if the path matches and
the menu is older.

**Blocked** is a step whose copy is missing, and one whose path is a directory: the state before is not known, or other
changes would be lost.

**Removal** of the recipe changes nothing.",
    fields: &[
        FieldSpec::required("path", FieldType::Path, "Path of the file or link."),
        FieldSpec::optional(
            "copy",
            FieldType::Path,
            "The copy, below `/var/lib/forge/undo`. Default: nothing existed at the path.",
        ),
        FieldSpec::optional("secret", FieldType::Bool, "Whether plans omit the lines that differ. Default `false`."),
    ],
    build,
    traits: KindTraits::WRITES_FILES,
};

/// Declares the former state of a path: its `copy`, or nothing. With `secret`, plans omit the lines that differ.
pub fn declare_former_path(path: &str, copy: Option<&str>, secret: bool) -> UndoDeclaration {
    let mut fields = json!({ "path": path });
    if let Some(copy) = copy {
        fields["copy"] = json!(copy);
    }
    if secret {
        fields["secret"] = json!(true);
    }
    UndoDeclaration::present(KIND.name, fields)
}

/// Settings of GRUB, from which `update-grub` generates the menu.
const GRUB_SETTINGS: &str = "/etc/default/grub";

/// Exits 1 if GRUB's menu is older than its settings. A removed file changes the time of its directory.
const MENU_IS_CURRENT: &str = r#"command -v update-grub >/dev/null 2>&1 || exit 0
[ -e /boot/grub/grub.cfg ] || exit 0
newer=$(find /etc/default/grub /etc/default/grub.d -newer /boot/grub/grub.cfg 2>/dev/null)
[ -z "$newer" ]"#;

const UPDATE_MENU: &str = r#"if command -v update-grub >/dev/null 2>&1 && [ -e /boot/grub/grub.cfg ]; then update-grub >&2 || exit 1; fi
"#;

/// The directory of all copies.
const COPIES: &str = "/var/lib/forge/undo/";

/// A digest that no file has: the answer then includes the content, if it is small text.
const NO_DIGEST: &str = "-";

#[derive(Debug)]
struct RestoreResource {
    path: String,
    copy: Option<String>,
    secret: bool,
    /// The recipe itself is being removed.
    idle: bool,
}

fn build(fields: &FieldValues, absent: bool) -> Result<Box<dyn Resource>, Diag> {
    let path = required_text(fields, "path")?.to_owned();
    let copy = fields.get_text("copy").map(str::to_owned);
    if let Some(copy) = copy.as_deref().filter(|copy| !copy.starts_with(COPIES)) {
        return Err(bad_value(format!("`{copy}` is not below `{COPIES}`")));
    }
    Ok(Box::new(RestoreResource { path, copy, secret: fields.get_bool("secret").unwrap_or(false), idle: absent }))
}

impl RestoreResource {
    fn content_probe(&self, path: &str) -> Probe {
        Probe::Path { path: path.to_owned(), want: (!self.secret).then(|| NO_DIGEST.to_owned()) }
    }

    /// Returns the name of the file, if systemd reads it as that of a unit.
    fn unit_file(&self) -> Option<&str> {
        self.path.strip_prefix(UNITS_FOLDER)?.strip_prefix('/').filter(|name| !name.contains('/'))
    }

    /// Returns the probe of GRUB's menu, if the path contains settings of GRUB.
    fn menu_probe(&self) -> Option<Probe> {
        let rest = self.path.strip_prefix(GRUB_SETTINGS)?;
        (rest.is_empty() || rest.starts_with(".d/")).then(|| {
            Probe::Check(Box::new(CheckProbe {
                id: "menu of GRUB".to_owned(),
                script: MENU_IS_CURRENT.to_owned(),
                user: None,
                cwd: None,
                env: Vec::new(),
                timeout_s: None,
            }))
        })
    }

    /// Adds the generation of a menu that is older than its settings.
    fn add_menu(
        &self,
        assessment: Assessment<RestoreDiff>,
        seen: &Observation,
    ) -> Result<Assessment<RestoreDiff>, UnansweredReason> {
        let Some(probe) = self.menu_probe().filter(|_| assessment.verdict == StepVerdict::Ok) else {
            return Ok(assessment);
        };
        match output(seen, &probe)?.status {
            0 => Ok(assessment),
            1 => Ok(self.differs(
                "GRUB's menu is older than its settings".to_owned(),
                RestoreDiff { menu: true, ..RestoreDiff::default() },
                json!({ "path": assessment.basis, "menu": "old" }),
            )),
            status => Err(UnansweredReason::new(format!("the check of GRUB's menu exited with {status}"))),
        }
    }

    fn try_assess(&self, seen: &Observation) -> Result<Assessment<RestoreDiff>, UnansweredReason> {
        let Some(copy) = &self.copy else { return self.assess_removal(seen) };
        let kept = match path_state(seen, &self.content_probe(copy))? {
            PathState::Present(info) => info,
            PathState::Absent => {
                return Ok(Assessment::blocked(BlockClass::Host, format!("the copy `{copy}` is missing"), Value::Null)
                    .host_hint("the host keeps the copies of the last runs only; restore the file from a backup"));
            }
        };
        match path_state(seen, &self.content_probe(&self.path))? {
            PathState::Absent => {
                let diff = RestoreDiff { from: None, to: Some(kept.clone()), menu: false };
                Ok(self.differs(format!("`{}` does not exist", self.path), diff, json!({ "type": "absent" })))
            }
            PathState::Present(info) if info.kind == PathType::Directory => Ok(self.block_directory(info)),
            PathState::Present(info) => self.compare_with_copy(info, kept),
        }
    }

    fn compare_with_copy(&self, info: &PathInfo, kept: &PathInfo) -> Result<Assessment<RestoreDiff>, UnansweredReason> {
        let mut basis = type_basis(info);
        add_ownership_basis(&mut basis, info);
        basis["content"] = json!(info.sha256);
        basis["target"] = json!(info.target);
        let diff = RestoreDiff { from: Some(Box::new(info.clone())), to: Some(Box::new(kept.clone())), menu: false };
        if info.kind == PathType::File && info.sha256.is_none() {
            return Err(UnansweredReason::new(format!("`{}` could not be read", self.path)));
        }
        let changes = diff.render_changes();
        match changes.is_empty() {
            true => Ok(Assessment::ok("as before the run", basis)),
            false => Ok(self.differs(describe_differences(&changes), diff, basis)),
        }
    }

    fn assess_removal(&self, seen: &Observation) -> Result<Assessment<RestoreDiff>, UnansweredReason> {
        Ok(match path_state(seen, &path_probe(&self.path))? {
            PathState::Absent => Assessment::ok(
                format!("`{}` does not exist, as before the run", self.path),
                json!({ "type": "absent" }),
            ),
            PathState::Present(info) if info.kind == PathType::Directory => self.block_directory(info),
            PathState::Present(info) => {
                let mut basis = type_basis(info);
                basis["content"] = json!(info.sha256);
                let diff = RestoreDiff { from: Some(info.clone()), to: None, menu: false };
                self.differs(format!("`{}` did not exist before the run", self.path), diff, basis)
            }
        })
    }

    /// Blocks the change of an entry that the kernel or udev makes.
    fn refuse_device(&self, assessment: Assessment<RestoreDiff>) -> Assessment<RestoreDiff> {
        match assessment.verdict == StepVerdict::Change && is_device_path(&self.path) {
            true => Assessment::blocked(BlockClass::Host, describe_device_path(&self.path), assessment.basis)
                .host_hint("an undo changes nothing there; `udevadm trigger` on the host makes missing entries again"),
            false => assessment,
        }
    }

    fn differs(&self, reason: String, diff: RestoreDiff, basis: Value) -> Assessment<RestoreDiff> {
        Assessment::differs(reason, diff, DisruptionClass::D0, basis)
    }

    fn block_directory(&self, info: &PathInfo) -> Assessment<RestoreDiff> {
        Assessment::blocked(BlockClass::Host, format!("`{}` is a directory", self.path), type_basis(info))
            .host_hint("it was a file or a link, or did not exist; remove the directory yourself if nothing needs it")
    }
}

/// The path now, and its former state; `None` for nothing.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
struct RestoreDiff {
    from: Option<Box<PathInfo>>,
    to: Option<Box<PathInfo>>,
    /// The path matches, and GRUB's menu is generated again from it.
    menu: bool,
}

/// Reports whether an earlier step creates an account or a group.
fn creates_accounts(cx: &AssessmentContext<'_>) -> bool {
    let is_account = |item: &ProvidedItem| matches!(item, ProvidedItem::User(_) | ProvidedItem::Group(_));
    cx.predicted.is_some_and(|effects| effects.will_exist.iter().any(is_account))
}

impl RestoreDiff {
    /// Reports whether the host has no name for an owner or a group: then it is a number.
    fn names_missing_account(&self) -> bool {
        let is_number = |name: &UntrustedText| name.raw().parse::<u32>().is_ok();
        let sides = [&self.from, &self.to].into_iter().flatten();
        sides.into_iter().any(|info| is_number(&info.owner) || is_number(&info.group))
    }

    /// Returns the type of a file that a link or nothing takes the place of, or the other way round.
    fn render_type_change(&self) -> Option<AttributeChange> {
        let describe = |info: &Option<Box<PathInfo>>| info.as_ref().map(|info| describe_type(info));
        let kinds = [&self.from, &self.to].map(|info| info.as_ref().map(|info| info.kind));
        let (from, to) = (describe(&self.from), describe(&self.to));
        (kinds[0] != kinds[1])
            .then(|| AttributeChange::new("type", from.as_deref(), to.as_deref()).with_aspect(ChangeAspect::Existence))
    }

    fn render_content_change(&self) -> Option<AttributeChange> {
        let is_file = |info: &&PathInfo| info.kind == PathType::File;
        let from = self.from.as_deref().filter(is_file);
        let to = self.to.as_deref().filter(is_file);
        if from.map(|info| &info.sha256) == to.map(|info| &info.sha256) {
            return None;
        }
        let text = |info: Option<&PathInfo>| match info {
            None => Some(String::new()),
            Some(info) => info.body.as_ref().map(|body| body.raw().to_owned()),
        };
        let lines = text(from).zip(text(to)).and_then(|(old, new)| diff::unified_diff(old.as_bytes(), new.as_bytes()));
        let describe = |info: Option<&PathInfo>| {
            info.map(|info| {
                let digest = info.sha256.as_deref().and_then(|digest| digest.get(..12)).unwrap_or_default();
                format!("{} bytes, sha256 {digest}", info.size)
            })
        };
        Some(AttributeChange {
            diff: lines.map(UntrustedText::from),
            ..AttributeChange::new("content", describe(from).as_deref(), describe(to).as_deref())
                .with_aspect(ChangeAspect::Content)
        })
    }

    fn render_target_change(&self) -> Option<AttributeChange> {
        let target = |info: &Option<Box<PathInfo>>| info.as_ref().and_then(|info| info.target.clone());
        let (from, to) = (target(&self.from), target(&self.to));
        let raw = |target: &Option<UntrustedText>| target.as_ref().map(|target| target.raw().to_owned());
        (from != to).then(|| {
            AttributeChange::new("target", raw(&from).as_deref(), raw(&to).as_deref())
                .with_aspect(ChangeAspect::Content)
        })
    }

    fn render_ownership_changes(&self) -> Vec<AttributeChange> {
        match (&self.from, &self.to) {
            (Some(from), Some(to)) => {
                let mode = if to.kind == PathType::Symlink { from.mode } else { to.mode };
                OwnershipDiff::compare(from, to.owner.raw(), to.group.raw(), mode).render_changes()
            }
            (None, Some(to)) if to.kind == PathType::File => {
                OwnershipDiff::of_new_file(to.owner.raw(), to.group.raw(), to.mode).render_changes()
            }
            _ => Vec::new(),
        }
    }
}

impl ResourceDiff for RestoreDiff {
    fn render_changes(&self) -> Vec<AttributeChange> {
        let kind = self.render_type_change();
        let content = self.render_content_change().into_iter().chain(self.render_target_change());
        let menu = self.menu.then(|| AttributeChange::new("menu", Some("older than the settings"), Some("current")));
        kind.into_iter().chain(content).chain(self.render_ownership_changes()).chain(menu).collect()
    }
}

const EXPLAIN: &[(&str, &str)] = &[
    shell::EXPLAIN_UNSAFE_PATH,
    ("is a directory", "it became a directory after it was observed; run forge again"),
    ("Read-only file system", "the file system is mounted read-only; check the kernel log for I/O errors"),
];

const RELOAD_UNITS: &str = "systemctl daemon-reload || exit 1\n";

/// systemd keeps a failed unit in memory without its file. The run made the unit, so the failure is of the run, too.
const FORGET_FAILURE: &str = r#" 2>/dev/null |
while read -r unit _; do systemctl reset-failed -- "$unit" 2>/dev/null || :; done
"#;

/// Returns the action that makes systemd forget failed units whose file, or whose template, is removed.
fn forget_failed_units(file: &str) -> ShellFragment {
    let pattern = file.replacen("@.", "@*.", 1);
    let list = "systemctl list-units --all --full --plain --no-legend --state=not-found --";
    ShellFragment::new().code(list).word(pattern).code(FORGET_FAILURE)
}

impl DeclaredResource for RestoreResource {
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
        let mut probes = match &self.copy {
            _ if self.idle => return Vec::new(),
            Some(copy) => vec![self.content_probe(&self.path), self.content_probe(copy)],
            None => vec![path_probe(&self.path)],
        };
        probes.extend(self.menu_probe());
        probes
    }

    fn desired_value(&self) -> Value {
        json!({ "path": self.path, "copy": self.copy })
    }

    fn provided_items(&self) -> Vec<ProvidedItem> {
        if self.copy.is_none() {
            return Vec::new();
        }
        let unit = self.unit_file().map(|name| ProvidedItem::Unit(name.to_owned()));
        [ProvidedItem::Path(self.path.clone())].into_iter().chain(unit).collect()
    }

    fn restart_input_paths(&self) -> Vec<String> {
        vec![self.path.clone()]
    }

    fn absent_paths(&self) -> Vec<String> {
        if self.idle || self.copy.is_some() { Vec::new() } else { vec![self.path.clone()] }
    }

    fn withholds_content(&self) -> bool {
        self.secret
    }

    fn exclusive_claims(&self) -> Vec<(&'static str, String)> {
        vec![("path", self.path.clone())]
    }
}

impl TypedResource for RestoreResource {
    type Diff = RestoreDiff;

    fn diff(&self, seen: &Observation, cx: &AssessmentContext<'_>) -> Assessment<RestoreDiff> {
        if self.idle {
            return Assessment::ok("restored paths stay as they are", json!({}));
        }
        let assessment =
            self.try_assess(seen).and_then(|found| self.add_menu(found, seen)).map(|found| self.refuse_device(found));
        let assessment = assessment.unwrap_or_else(|unknown| Assessment::unknown(&unknown));
        match assessment.diff.as_ref().is_some_and(|diff| diff.names_missing_account()) && creates_accounts(cx) {
            // The owner is compared by name, which the account gives to its number.
            true => assessment.mark_predicted(),
            false => assessment,
        }
    }

    fn act(&self, diff: &RestoreDiff, cx: &AssessmentContext<'_>) -> Action {
        let restored = match &self.copy {
            _ if diff.menu => ShellFragment::new().code(":\n"),
            Some(copy) if is_drop_in_path(&self.path) => {
                make_drop_in_folder(&self.path).append_fragment(shell::install_copy(&self.path, copy, cx.run))
            }
            Some(copy) => shell::install_copy(&self.path, copy, cx.run),
            None if is_drop_in_path(&self.path) => shell::remove_file(&self.path, cx.run, false)
                .code("[ $? -eq 0 ] &&\n")
                .append_fragment(remove_empty_drop_in_folder(&self.path)),
            None => shell::remove_file(&self.path, cx.run, false),
        };
        let reload = is_unit_path(&self.path).then_some(RELOAD_UNITS);
        let menu = self.menu_probe().map(|_| UPDATE_MENU);
        let and = |body: ShellFragment, code| body.code("[ $? -eq 0 ] &&\n").code(code);
        let body = reload.into_iter().chain(menu).fold(restored, and);
        let body = match self.unit_file().filter(|_| self.copy.is_none()) {
            Some(file) => body.code("[ $? -eq 0 ] &&\n").append_fragment(forget_failed_units(file)),
            None => body,
        };
        Action::Script(ActionScript { body, long: false, explain: EXPLAIN })
    }

    fn undo(&self, diff: &RestoreDiff) -> UndoEffect {
        if diff.menu {
            return UndoEffect::default();
        }
        UndoEffect::restore_paths([&self.path])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::ProbeReading;

    const COPY: &str = "/var/lib/forge/undo/r/0/etc/motd";

    fn restore(copy: Option<&str>) -> RestoreResource {
        RestoreResource { path: "/etc/motd".into(), copy: copy.map(str::to_owned), secret: false, idle: false }
    }

    fn file(text: &str) -> PathState {
        let digest = crate::resource::shared::support::sha256_hex(text.as_bytes());
        let size = text.len() as u64;
        PathState::Present(Box::new(PathInfo {
            sha256: Some(digest),
            body: Some(text.into()),
            size,
            ..PathInfo::root_file()
        }))
    }

    fn assess(copy: Option<&str>, readings: &[(&str, PathState)]) -> Assessment<RestoreDiff> {
        let resource = restore(copy);
        let mut seen = Observation::default();
        for (path, state) in readings {
            let probe = if copy.is_some() { resource.content_probe(path) } else { path_probe(path) };
            seen.insert(probe, Ok(ProbeReading::Path(state.clone())));
        }
        resource.diff(&seen, &AssessmentContext::default())
    }

    #[test]
    fn content_owner_and_mode_of_the_copy_are_declared() {
        let same = assess(Some(COPY), &[("/etc/motd", file("a\n")), (COPY, file("a\n"))]);
        assert_eq!((same.verdict, same.reason.raw()), (crate::model::StepVerdict::Ok, "as before the run"));
        let differs = assess(Some(COPY), &[("/etc/motd", file("b\n")), (COPY, file("a\n"))]);
        assert_eq!(differs.reason.raw(), "content differs");
        assert_eq!(differs.changes[0].diff.as_ref().map(|diff| diff.raw()), Some("@@ -1 +1 @@\n-b\n+a\n"));
    }

    #[test]
    fn restored_unit_is_there_for_later_steps() {
        let provided = |path: &str| RestoreResource { path: path.into(), ..restore(Some(COPY)) }.provided_items();
        let unit = provided("/etc/systemd/system/a.service");
        assert!(unit.contains(&ProvidedItem::Unit("a.service".into())), "{unit:?}");
        assert_eq!(provided("/etc/systemd/system/a.service.d/x.conf").len(), 1);
    }

    #[test]
    fn missing_copy_blocks_the_step() {
        let blocked = assess(Some(COPY), &[("/etc/motd", file("b\n")), (COPY, PathState::Absent)]);
        assert_eq!(blocked.reason.raw(), format!("the copy `{COPY}` is missing"));
        assert_eq!(blocked.verdict, crate::model::StepVerdict::Blocked(BlockClass::Host));
    }

    #[test]
    fn file_that_did_not_exist_is_removed() {
        let exists = assess(None, &[("/etc/motd", file("b\n"))]);
        assert_eq!(exists.reason.raw(), "`/etc/motd` did not exist before the run");
        let gone = assess(None, &[("/etc/motd", PathState::Absent)]);
        assert_eq!(gone.reason.raw(), "`/etc/motd` does not exist, as before the run");
    }
}
