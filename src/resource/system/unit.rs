//! `unit`: a systemd unit file or drop-in, loaded by the manager.

use crate::diag::{Diag, DiagCode};
use crate::model::{StepVerdict, UndoEffect, Value};
use crate::probe::{Observation, Probe, UnansweredReason, UnitState};
use crate::resource::shared::file_target::{FileBody, FileDiff, FileTarget, path_probe};
use crate::resource::shared::shell;
use crate::resource::shared::support::{bad_value, join_quoted, reject_secrets, required_text, unit_name, unit_state};
use crate::resource::traits::KindTraits;
use crate::resource::{
    Action, ActionScript, Assessment, AssessmentContext, AttributeChange, ChangeMark, ChangedObject, DeclaredResource,
    FieldSpec, FieldType, FieldValues, ProvidedItem, Resource, ResourceDiff, ResourceKind, TypedResource,
};
use crate::script::ShellFragment;
use serde::Serialize;
use serde_json::json;

pub(in crate::resource) const KIND: ResourceKind = ResourceKind {
    name: "unit",
    summary: "A systemd unit file or a drop-in, loaded by the manager.",
    example: include_str!("../examples/unit.yaml"),
    doc: "\
With `content` the step declares the whole unit in `/etc/systemd/system/NAME`; with `drop_in` it declares a part of the
unit in `/etc/systemd/system/NAME.d/DROPIN.conf`.

**Compared** are the file, as with kind `file` (root, 0644), and `NeedDaemonReload` of the unit: a file that matches but
is not loaded is a change. An unchanged step reports `content, owner and mode match, and systemd has loaded it`.

**Other drop-ins** in `/etc` and `/run` can override what the step declares. They are not compared, because other steps
and tools may declare them; the reason names them: `drop-in /etc/systemd/system/app.service.d/zz.conf changes the unit`.
Remove one with an `absent` or `unit` step.

**A change** checks a whole unit with `systemd-analyze verify` if it is installed (only errors fail, not warnings; the
programs that the unit starts must exist), replaces the file atomically as `file` does, and reloads the manager. It
restarts nothing: list this step in the `restart_on` of a `service`. A mask (a link to `/dev/null`) at the path is
replaced, and the plan says so.

**Secrets** are rejected, because every account can read units with `systemctl cat` and `systemctl show`. Write them
with a `file` step of mode 0600, and name that file in `EnvironmentFile=` or `LoadCredential=`.

**Removal** removes the file and reloads the manager; it does not stop the unit.",
    fields: &[
        FieldSpec::required("name", FieldType::Name, "Name of the unit; the default type is `.service`."),
        FieldSpec::optional("content", FieldType::Text, "The whole unit. Excludes `drop_in`."),
        FieldSpec::optional(
            "drop_in",
            FieldType::Table(DROP_IN),
            "A part that extends or overrides the unit. Excludes `content`.",
        ),
        FieldSpec::optional(
            "backup",
            FieldType::Bool,
            "Keep a backup of the previous body on the host. Default `true`.",
        ),
    ],
    build,
    traits: KindTraits::WRITES_FILES,
};

const DROP_IN: &[FieldSpec] = &[
    FieldSpec::required("name", FieldType::Name, "Name of the drop-in; `.conf` is added."),
    FieldSpec::required("content", FieldType::Text, "The part of the unit, with its section headers."),
];

/// Every user can read units with `systemctl cat` and `systemctl show`, whatever the mode of the file.
pub(in crate::resource) const SECRET_HINT: &str =
    "write it with a `file` step of mode 0600, and name that file in `EnvironmentFile=` or `LoadCredential=`";

/// Directory of the administrator's units.
pub(in crate::resource) const UNITS_FOLDER: &str = "/etc/systemd/system";

#[derive(Debug)]
pub(in crate::resource) struct UnitResource {
    name: String,
    target: FileTarget,
    drop_in: bool,
    backup: bool,
    absent: bool,
}

fn build(fields: &FieldValues, absent: bool) -> Result<Box<dyn Resource>, Diag> {
    reject_secrets(KIND.name, fields, SECRET_HINT)?;
    let name = unit_name(required_text(fields, "name")?);
    let (path, content) = match (fields.get_text("content"), fields.get_table("drop_in")) {
        (Some(_), Some(_)) => {
            return Err(Diag::error(DiagCode::Exclusive, "`content` and `drop_in` exclude each other"));
        }
        (Some(content), None) => (format!("{UNITS_FOLDER}/{name}"), content),
        (None, Some(table)) => parse_drop_in(&name, table)?,
        (None, None) if absent => (format!("{UNITS_FOLDER}/{name}"), ""),
        (None, None) => return Err(Diag::error(DiagCode::MissingKey, "`content` or `drop_in` is required")),
    };
    let target =
        FileTarget { path, body: FileBody::new(content), owner: "root".into(), group: "root".into(), mode: 0o644 };
    let drop_in = fields.contains("drop_in");
    Ok(Box::new(UnitResource { name, target, drop_in, backup: fields.get_bool("backup").unwrap_or(true), absent }))
}

fn parse_drop_in<'a>(unit: &str, table: &'a serde_json::Map<String, Value>) -> Result<(String, &'a str), Diag> {
    let text = |key: &str| table.get(key).and_then(Value::as_str);
    let name = text("name").ok_or_else(|| Diag::error(DiagCode::MissingKey, "`drop_in` needs `name`"))?;
    let name = name.strip_suffix(".conf").unwrap_or(name);
    if name.is_empty() || name.starts_with('.') {
        return Err(bad_value(format!("`{name}` is not a valid drop-in name: systemd ignores hidden files")));
    }
    Ok((format!("{UNITS_FOLDER}/{unit}.d/{name}.conf"), text("content").unwrap_or_default()))
}

/// Reports whether an input's path is a unit or a drop-in.
pub(in crate::resource) fn is_unit_path(path: &str) -> bool {
    path.strip_prefix(UNITS_FOLDER).is_some_and(|rest| rest.starts_with('/'))
}

/// Reports whether a drop-in is the administrator's, not one of a package.
fn is_local_drop_in(path: &str) -> bool {
    path.starts_with("/etc/") || path.starts_with("/run/")
}

impl UnitResource {
    /// Builds a whole unit; `name` has its type.
    pub fn new_whole(name: &str, content: &str, absent: bool) -> Self {
        let path = format!("{UNITS_FOLDER}/{name}");
        let target =
            FileTarget { path, body: FileBody::new(content), owner: "root".into(), group: "root".into(), mode: 0o644 };
        Self { name: name.to_owned(), target, drop_in: false, backup: true, absent }
    }

    pub fn path(&self) -> &str {
        &self.target.path
    }

    fn probe(&self) -> Probe {
        Probe::Unit { name: self.name.clone() }
    }

    /// A template has no state, and systemd rejects queries for it.
    fn is_template(&self) -> bool {
        self.name.contains("@.")
    }

    /// Adds the need for a daemon-reload to a judgement of the file.
    fn add_manager_state(
        &self,
        file: Assessment<UnitDiff>,
        seen: &Observation,
    ) -> Result<Assessment<UnitDiff>, UnansweredReason> {
        if self.is_template() || !matches!(file.verdict, StepVerdict::Ok | StepVerdict::Change) {
            return Ok(file);
        }
        let unit = unit_state(seen, &self.probe())?;
        let unread = unit.need_daemon_reload;
        let mut basis = file.basis.clone();
        basis["daemon_reload"] = json!(unread);
        Ok(match (file.verdict, unread) {
            (StepVerdict::Ok, false) => {
                let reason = format!("{}, and systemd has loaded it", file.reason.raw());
                Assessment::ok(format!("{reason}{}", self.describe_other_drop_ins(unit)), basis)
            }
            (StepVerdict::Ok, true) => {
                Assessment::differs("systemd has not loaded it", UnitDiff::Reload, file.disruption, basis)
            }
            _ => Assessment { basis, ..file },
        })
    }

    /// Names the drop-ins of the administrator that systemd reads in addition to the declared file.
    fn describe_other_drop_ins(&self, unit: &UnitState) -> String {
        let local = |path: &&String| !self.absent && is_local_drop_in(path) && **path != self.target.path;
        let others: Vec<&String> = unit.drop_ins.iter().filter(local).collect();
        match others.as_slice() {
            [] => String::new(),
            [one] => format!("; drop-in `{one}` changes the unit"),
            many => format!("; drop-ins {} change the unit", join_quoted(many)),
        }
    }

    fn assess_file(&self, seen: &Observation, cx: &AssessmentContext<'_>) -> Assessment<FileDiff> {
        match self.absent {
            true => self.target.assess_absent(seen),
            false => self.target.assess(seen, cx, self.drop_in),
        }
    }

    fn render_write(&self, cx: &AssessmentContext<'_>) -> ShellFragment {
        let target = &self.target;
        let folder = match self.drop_in {
            true => shell::close_action(shell::open_private_action().word(&target.path).code(FOLDER))
                .code("[ $? -eq 0 ] &&\n"),
            false => ShellFragment::new(),
        };
        folder.append_fragment(target.render_write(cx, self.backup, if self.drop_in { "" } else { VERIFY }))
    }
}

const FOLDER: &str = r#"
dir=${1%/*}
[ -d "$dir" ] || mkdir -m 0755 -- "$dir" || fail "cannot make $dir"
"#;

/// systemd derives a unit's type from its file name, which the candidate has.
const VERIFY: &str = r#"command -v systemd-analyze >/dev/null 2>&1 || exit 0
systemd-analyze verify --man=no "$FORGE_FILE""#;

/// Reloads the manager if one is running.
const RELOAD: &str = r#"[ $? -eq 0 ] && if [ -d /run/systemd/system ]; then systemctl daemon-reload; fi
"#;

const REMOVE_EMPTY_FOLDER: &str = r#"
rmdir --ignore-fail-on-non-empty -- "${1%/*}"
"#;

const EXPLAIN: &[(&str, &str)] = &[
    ("is not executable", "a program that the unit starts is missing: install it with an earlier step"),
    ("Unknown key name", "a key of the unit is misspelt or in the wrong section"),
    ("No space left on device", "the file system is full; the old unit is unchanged"),
];

impl DeclaredResource for UnitResource {
    fn kind(&self) -> &'static str {
        KIND.name
    }

    fn title(&self) -> String {
        match self.drop_in {
            true => self.target.path.trim_start_matches(UNITS_FOLDER).trim_start_matches('/').to_owned(),
            false => self.name.clone(),
        }
    }

    fn changed_object(&self, _mark: &ChangeMark) -> ChangedObject {
        ChangedObject::Path(self.target.path.clone())
    }

    fn probes(&self) -> Vec<Probe> {
        let mut probes = match (self.absent, self.drop_in) {
            (true, _) => vec![path_probe(&self.target.path)],
            (false, true) => vec![self.target.probe()],
            (false, false) => self.target.probes(),
        };
        if !self.is_template() {
            probes.push(self.probe());
        }
        probes
    }

    fn desired_value(&self) -> Value {
        match self.absent {
            true => json!({ "path": self.target.path, "absent": true }),
            false => self.target.desired_value(),
        }
    }

    fn provided_items(&self) -> Vec<ProvidedItem> {
        match (self.absent, self.drop_in) {
            (true, _) => Vec::new(),
            (false, true) => vec![ProvidedItem::Path(self.target.path.clone())],
            (false, false) => vec![ProvidedItem::Path(self.target.path.clone()), ProvidedItem::Unit(self.name.clone())],
        }
    }

    fn restart_input_paths(&self) -> Vec<String> {
        vec![self.target.path.clone()]
    }

    fn exclusive_claims(&self) -> Vec<(&'static str, String)> {
        vec![("path", self.target.path.clone())]
    }
}

/// How a unit differs.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[allow(clippy::large_enum_variant, reason = "one per step, and a file that differs is the usual case")]
pub(in crate::resource) enum UnitDiff {
    /// The unit's file differs; the manager is reloaded with it.
    File(FileDiff),
    /// The file matches, but systemd has loaded an earlier one.
    Reload,
}

impl ResourceDiff for UnitDiff {
    fn render_changes(&self) -> Vec<AttributeChange> {
        match self {
            Self::File(file) => file.render_changes(),
            Self::Reload => vec![AttributeChange::new("daemon-reload", Some("needed"), Some("done"))],
        }
    }
}

impl TypedResource for UnitResource {
    type Diff = UnitDiff;

    fn diff(&self, seen: &Observation, cx: &AssessmentContext<'_>) -> Assessment<UnitDiff> {
        let file = self.assess_file(seen, cx).map_diff(UnitDiff::File);
        self.add_manager_state(file, seen).unwrap_or_else(|unknown| Assessment::unknown(&unknown))
    }

    fn act(&self, diff: &UnitDiff, cx: &AssessmentContext<'_>) -> Action {
        let files = match diff {
            UnitDiff::Reload => ShellFragment::new().code(":\n"),
            UnitDiff::File(FileDiff::Remove { .. }) => {
                let removed = shell::remove_file(&self.target.path, cx.run, self.backup);
                match self.drop_in {
                    true => removed.code("[ $? -eq 0 ] &&\n").append_fragment(shell::close_action(
                        shell::open_private_action().word(&self.target.path).code(REMOVE_EMPTY_FOLDER),
                    )),
                    false => removed,
                }
            }
            UnitDiff::File(_) => self.render_write(cx),
        };
        Action::Script(ActionScript { body: files.code(RELOAD), long: false, explain: EXPLAIN })
    }

    fn undo(&self, diff: &UnitDiff) -> UndoEffect {
        match diff {
            UnitDiff::File(_) => self.target.undo_write(self.backup),
            UnitDiff::Reload => UndoEffect::default(),
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
    fn secret_in_content_or_drop_in_is_rejected() {
        let mut secrets = crate::model::SecretStore::default();
        let secret = secrets.insert("key", "hunter2".to_owned().into()).0;
        let content = json!(format!("[Service]\nEnvironment=KEY={secret}\n"));
        let why = |field| format!("`{field}` of a `unit` contains a secret, and every account on the host can read it");
        assert_eq!(build_error(&[("name", json!("a")), ("content", content.clone())]), why("content"));
        let drop_in = json!({ "name": "b", "content": content });
        assert_eq!(build_error(&[("name", json!("a")), ("drop_in", drop_in)]), why("drop_in"));
    }

    #[test]
    fn exactly_one_of_content_and_drop_in_is_required() {
        assert_eq!(build_error(&[("name", json!("a"))]), "`content` or `drop_in` is required");
        assert_eq!(
            build_error(&[
                ("name", json!("a")),
                ("content", json!("")),
                ("drop_in", json!({ "name": "b", "content": "" }))
            ]),
            "`content` and `drop_in` exclude each other"
        );
        assert_eq!(
            build_error(&[("name", json!("a")), ("drop_in", json!({ "name": ".b", "content": "" }))]),
            "`.b` is not a valid drop-in name: systemd ignores hidden files"
        );
    }
}
