//! `unit`: a systemd unit file or drop-in, loaded by the manager.

mod check_script;
mod drop_in;
mod load_path;
mod unit_text;

use self::drop_in::{DROP_IN, lacks_unit, parse_drop_in};
pub(in crate::resource) use self::drop_in::{make_drop_in_folder, remove_empty_drop_in_folder};
pub(in crate::resource) use self::load_path::{is_drop_in_path, is_read_by_manager, is_unit_path};
use self::load_path::{is_earlier, is_later, is_local_drop_in, last_names};
pub(in crate::resource) use self::unit_text::UNITS_FOLDER;
use self::unit_text::{check_sections, list_installs};
use crate::diag::{Diag, DiagCode};
use crate::model::{BlockClass, StepVerdict, UndoEffect, Value};
use crate::probe::{Observation, PathState, Probe, UnansweredReason, UnitState};
use crate::resource::shared::file_target::{FileBody, FileDiff, FileTarget, path_probe};
use crate::resource::shared::shell;
use crate::resource::shared::support::{
    join_quoted, path_state, reject_secrets, required_text, unit_name, unit_state, will_be_provided,
};
use crate::resource::traits::KindTraits;
use crate::resource::{
    Action, ActionScript, Assessment, AssessmentContext, AttributeChange, ChangeMark, ChangedObject, DeclaredResource,
    EarlierStepEffects, FieldSpec, FieldType, FieldValues, ProvidedItem, Resource, ResourceDiff, ResourceKind,
    TypedResource,
};
use crate::script::ShellFragment;
use serde::Serialize;
use serde_json::json;

pub(in crate::resource) const KIND: ResourceKind = ResourceKind {
    name: "unit",
    summary: "A systemd unit file or a drop-in, loaded by the manager.",
    example: include_str!("../../examples/unit.yaml"),
    doc: "\
With `content` the step declares the whole unit in `/etc/systemd/system/NAME`; with `drop_in` it declares a part of the
unit in `/etc/systemd/system/NAME.d/DROPIN.conf`.

**Compared** are the file, as with kind `file` (root, 0644), `NeedDaemonReload` of the unit, and the files that systemd
has read it from: a file that matches but is not loaded is a change. An unchanged step reports
`content, owner and mode match, and systemd has loaded it`.

**Other drop-ins** in `/etc` and `/run` can override what the step declares. They are not compared, because other steps
and tools may declare them; the reason names them: `drop-in /etc/systemd/system/app.service.d/zz.conf changes the unit`.
Remove one with an `absent` or `unit` step, and list that step in the `restart_on` of the service: the running process
keeps the settings with which it started.

**Blocked**: systemd rejects the unit, for example because of another drop-in; or systemd reads a file of the same name
in place of the declared one: from `system.control` in `/etc/systemd` or `/run/systemd`, or of a transient unit.

**A drop-in of a unit that does not exist** is blocked too, unless an earlier step or a package may provide the unit:
systemd does not read it. With `unit_required: false` the file is written, and the reason of the unchanged step says that
the unit does not exist yet. Templates, names for several units (`app-.service`), and units that systemd makes itself
(mounts, swaps, slices, scopes, devices) are not checked.

**A change** checks the unit with `systemd-analyze verify` if it is installed, replaces the file atomically as `file`
does, and reloads the manager. The check fails for an error, and for a line that systemd ignores (an unknown key, a value
that it cannot read); other warnings do not count. The programs that the unit starts must exist. Units that it names need
not: a socket and its service name each other. A drop-in is checked together with its unit. It restarts nothing: list
this step in the `restart_on` of a `service`. If systemd has read the unit without this file, the change also sets the
ctime of the file, and a service that started without it restarts; forge cannot tell this if something else reloaded the
manager before. A mask (a link to `/dev/null`) at the path is replaced, and the plan says so. The links of targets and
aliases that the new `[Install]` section lacks are removed.

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
    traits: KindTraits { explains_secrets: true, ..KindTraits::WRITES_FILES },
};

const MISSING_UNIT_HINT: &str = "check its name, or add a `package` or `unit` step for it before this one, or list it in \
    `provides`; `unit_required: false` permits a drop-in of a unit that is installed later";

/// Every user can read units with `systemctl cat` and `systemctl show`, whatever the mode of the file.
pub(in crate::resource) const SECRET_HINT: &str =
    "write it with a `file` step of mode 0600, and name that file in `EnvironmentFile=` or `LoadCredential=`";

#[derive(Debug)]
pub(in crate::resource) struct UnitResource {
    name: String,
    target: FileTarget,
    drop_in: bool,
    /// Whether the unit of a drop-in must exist.
    unit_required: bool,
    /// Whether a drop-in blocks the unit, because the step declares its effect.
    sole: bool,
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
    let written = if fields.contains("drop_in") { "drop_in" } else { "content" };
    check_sections(&name, content).map_err(|diag| diag.with_field(written))?;
    let target =
        FileTarget { path, body: FileBody::new(content), owner: "root".into(), group: "root".into(), mode: 0o644 };
    let drop_in = fields.contains("drop_in");
    let unit_required = fields.get_table("drop_in").and_then(|table| table.get("unit_required")?.as_bool());
    Ok(Box::new(UnitResource {
        name,
        target,
        drop_in,
        unit_required: unit_required.unwrap_or(true),
        sole: false,
        backup: fields.get_bool("backup").unwrap_or(true),
        absent,
    }))
}

impl UnitResource {
    /// Builds a whole unit; `name` has its type.
    pub fn new_whole(name: &str, content: &str, absent: bool) -> Self {
        let path = format!("{UNITS_FOLDER}/{name}");
        let target =
            FileTarget { path, body: FileBody::new(content), owner: "root".into(), group: "root".into(), mode: 0o644 };
        Self { name: name.to_owned(), target, drop_in: false, unit_required: true, sole: false, backup: true, absent }
    }

    /// Blocks the unit while a drop-in of the administrator changes it.
    pub fn without_drop_ins(self) -> Self {
        Self { sole: true, ..self }
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

    /// Returns the text of the unit before a change, `None` if it is not known. systemd reads no `[Install]` section from a
    /// drop-in.
    fn text_before<'s>(&self, seen: &'s Observation) -> Option<&'s str> {
        if self.absent || self.drop_in {
            return None;
        }
        match path_state(seen, &self.target.probe()).ok()? {
            // The host sends the text of a file whose content differs.
            PathState::Present(info) => Some(info.body.as_ref()?.raw()),
            PathState::Absent => Some(""),
        }
    }

    /// Returns the paths of the links that `systemctl enable` made for the text before, and would not make any longer.
    /// The names of a template's links depend on its instances.
    fn list_old_links(&self, seen: &Observation) -> Vec<String> {
        let Some(before) = self.text_before(seen).filter(|_| !self.is_template()) else { return Vec::new() };
        let text = String::from_utf8_lossy(self.target.body.bytes());
        let kept = list_installs(&text);
        let gone = list_installs(before).into_iter().filter(|install| !kept.contains(install));
        let plain = gone.filter(|install| !install.name.contains(['%', '/']) && install.name != self.name);
        plain.map(|install| install.link_path(&self.name)).collect()
    }

    /// Adds the need for a daemon-reload to a judgement of the file.
    fn add_manager_state(
        &self,
        file: Assessment<UnitDiff>,
        seen: &Observation,
        cx: &AssessmentContext<'_>,
    ) -> Result<Assessment<UnitDiff>, UnansweredReason> {
        if self.is_template() || !matches!(file.verdict, StepVerdict::Ok | StepVerdict::Change) {
            return Ok(file);
        }
        let unit = unit_state(seen, &self.probe())?;
        if self.drop_in && !self.absent && lacks_unit(&self.name, unit) {
            return Ok(self.assess_without_unit(file, cx));
        }
        if !self.absent && !self.drop_in && is_earlier(&unit.fragment) {
            let basis = json!({ "fragment": unit.fragment });
            let reason = format!("systemd reads `{}` in place of the declared file", unit.fragment);
            return Ok(Assessment::blocked(BlockClass::Host, reason, basis)
                .hint("remove that file and reload systemd; that of a transient unit is gone when the unit stops"));
        }
        if let Some(drop_in) = self
            .find_foreign_drop_in(unit)
            .filter(|drop_in| !cx.predicted.is_some_and(|earlier| earlier.may_change_path(drop_in)))
        {
            let basis = json!({ "drop_in": drop_in });
            let reason = format!("drop-in `{drop_in}` changes `{}`", self.name);
            return Ok(Assessment::blocked(BlockClass::Host, reason, basis)
                .hint("remove the drop-in with an earlier `absent` step"));
        }
        let outside = !self.is_read_from_file(unit);
        let unread = unit.need_daemon_reload || outside;
        // A change of the file comes with a reload.
        if file.verdict == StepVerdict::Change {
            return Ok(file);
        }
        let mut basis = file.basis.clone();
        if !self.absent && matches!(unit.load.as_str(), "bad-setting" | "error") {
            basis["load"] = json!(unit.load);
            let reason = format!("the file matches, but systemd rejects `{}` ({})", self.name, unit.load);
            return Ok(Assessment::blocked(BlockClass::Host, reason, basis)
                .host_hint(format!("run `systemctl status {}`: it names the file and the line", self.name)));
        }
        basis["daemon_reload"] = json!(unread);
        Ok(match unread {
            false => {
                let reason = format!("{}, and systemd has loaded it", file.reason.raw());
                Assessment::ok(format!("{reason}{}", self.describe_other_drop_ins(unit)), basis)
            }
            true => {
                // Without `outside`, another file of the unit may be the one that changed.
                let reason = match outside {
                    true => "systemd has not loaded it",
                    false => "files of the unit changed since systemd read them",
                };
                Assessment::differs(reason, UnitDiff::Reload { outside }, file.disruption, basis)
            }
        })
    }

    /// Evaluates a drop-in whose unit does not exist: systemd does not read it.
    fn assess_without_unit(&self, file: Assessment<UnitDiff>, cx: &AssessmentContext<'_>) -> Assessment<UnitDiff> {
        let basis = json!({ "file": file.basis, "load": "not-found" });
        let may_write = |earlier: &EarlierStepEffects| {
            let folders = ["/etc", "/usr/local/lib", "/usr/lib", "/lib"].into_iter();
            let mut paths = folders.map(|root| format!("{root}/systemd/system/{}", self.name));
            earlier.is_opaque || earlier.takes_more || paths.any(|path| earlier.may_change_path(&path))
        };
        let is_coming = will_be_provided(cx.predicted, &ProvidedItem::Unit(self.name.clone()))
            || cx.predicted.is_some_and(may_write);
        if !is_coming && self.unit_required {
            let reason = format!("unit `{}` does not exist and no earlier step provides it", self.name);
            return Assessment::blocked(BlockClass::Host, reason, basis).hint(MISSING_UNIT_HINT);
        }
        if file.verdict == StepVerdict::Change {
            // Observed again once the unit is there.
            return if is_coming { file.mark_predicted() } else { file };
        }
        let reason = format!("{}; unit `{}` does not exist yet", file.reason.raw(), self.name);
        match is_coming {
            true => {
                let reason = format!("{reason}; an earlier step provides it");
                Assessment::differs(reason, UnitDiff::Reload { outside: true }, file.disruption, basis).mark_predicted()
            }
            false => Assessment::ok(reason, basis),
        }
    }

    /// Reports whether the file is among those that systemd has read the unit from. Until a reload it does not look into
    /// a folder of drop-ins that is new, and keeps a unit that it has read from another file; it then says that no reload
    /// is needed (systemd 252).
    fn is_read_from_file(&self, unit: &UnitState) -> bool {
        if self.absent || unit.load != "loaded" {
            return true;
        }
        match self.drop_in {
            // A folder that is a link has another path there.
            true => {
                let is_own = |path: &str| last_names(path) == last_names(&self.target.path) && !is_later(path);
                unit.drop_ins.iter().any(|path| is_own(path))
            }
            false => !unit.fragment.is_empty() && !is_later(&unit.fragment),
        }
    }

    /// Returns a drop-in of the administrator, for a unit that no other file may change.
    fn find_foreign_drop_in<'u>(&self, unit: &'u UnitState) -> Option<&'u str> {
        let is_foreign = |path: &&String| self.sole && !self.absent && is_local_drop_in(path);
        unit.drop_ins.iter().find(is_foreign).map(String::as_str)
    }

    /// Names the drop-ins of the administrator that change the observed unit.
    pub fn describe_drop_ins(&self, seen: &Observation) -> String {
        unit_state(seen, &self.probe()).map(|unit| self.describe_other_drop_ins(unit)).unwrap_or_default()
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
            true => make_drop_in_folder(&target.path),
            false => ShellFragment::new(),
        };
        let verify = if self.drop_in { self.render_drop_in_check() } else { check_script::render_unit_check() };
        folder.append_fragment(target.render_write(cx, self.backup, &verify))
    }

    fn render_drop_in_check(&self) -> String {
        let file = self.target.path.rsplit('/').next().unwrap_or_default();
        // Only a NUL byte cannot be quoted, and a name has none.
        let quote = |word| shlex::try_quote(word).unwrap_or_default();
        check_script::render_drop_in_check(&quote(self.name.as_str()), &quote(file))
    }
}

/// The end of a loop over links. A file of that name is not what `systemctl enable` made.
const REMOVE_LINKS: &str = r#"; do if [ -L "$link" ]; then rm -f -- "$link" && linked=yes; fi; done
"#;

/// A unit that was enabled stays so.
const ENABLE_AGAIN: &str = r#"[ $? -eq 0 ] && if [ -n "$linked" ]; then systemctl --quiet enable --"#;

/// Reloads the manager if one is running and the code before succeeded.
pub(in crate::resource) const RELOAD_MANAGER: &str = r#"[ $? -eq 0 ] && if [ -d /run/systemd/system ]; then systemctl daemon-reload; fi
"#;

const EXPLAIN: &[(&str, &str)] = &[
    ("is not executable", "a program that the unit starts is missing: install it with an earlier step"),
    ("Unknown key", "a key of the unit is misspelt, in the wrong section, or newer than the host's systemd"),
    ("gnoring", "systemd ignores this line: correct its value"),
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

    fn new_install(&self, seen: &Observation) -> Option<(String, Vec<String>)> {
        let before = list_installs(self.text_before(seen)?);
        let text = String::from_utf8_lossy(self.target.body.bytes());
        let added = list_installs(&text).into_iter().filter(|install| install.starts() && !before.contains(install));
        let targets: Vec<String> = added.map(|install| install.name.to_owned()).collect();
        (!targets.is_empty()).then(|| (self.name.clone(), targets))
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
    File {
        file: FileDiff,
        /// Paths of links that the new file does not ask for any longer.
        links: Vec<String>,
    },
    /// The file matches, but files of the unit changed since systemd read them.
    Reload {
        /// Whether systemd has read the unit without this file.
        outside: bool,
    },
}

impl ResourceDiff for UnitDiff {
    fn render_changes(&self) -> Vec<AttributeChange> {
        match self {
            Self::File { file, links } => {
                let removed = links.iter().map(|link| AttributeChange::new("link", Some(link), None));
                file.render_changes().into_iter().chain(removed).collect()
            }
            Self::Reload { .. } => vec![AttributeChange::new("daemon-reload", Some("needed"), Some("done"))],
        }
    }
}

impl TypedResource for UnitResource {
    type Diff = UnitDiff;

    fn diff(&self, seen: &Observation, cx: &AssessmentContext<'_>) -> Assessment<UnitDiff> {
        let links = self.list_old_links(seen);
        let mut file = self.assess_file(seen, cx).map_diff(|file| UnitDiff::File { file, links });
        // The links are no part of the file.
        if let Some(diff) = &file.diff {
            file.changes = diff.render_changes();
        }
        self.add_manager_state(file, seen, cx).unwrap_or_else(|unknown| Assessment::unknown(&unknown))
    }

    fn act(&self, diff: &UnitDiff, cx: &AssessmentContext<'_>) -> Action {
        let files = match diff {
            // A process that started before the reload has other settings. Only the time of the file can tell.
            UnitDiff::Reload { outside: true } => {
                ShellFragment::new().code("chmod 0644 --").word(&self.target.path).code("\n")
            }
            UnitDiff::Reload { outside: false } => ShellFragment::new().code(":\n"),
            UnitDiff::File { file: FileDiff::Remove { .. }, .. } => {
                let removed = shell::remove_file(&self.target.path, cx.run, self.backup);
                match self.drop_in {
                    true => removed
                        .code("[ $? -eq 0 ] &&\n")
                        .append_fragment(remove_empty_drop_in_folder(&self.target.path)),
                    false => removed,
                }
            }
            UnitDiff::File { links, .. } if links.is_empty() => self.render_write(cx),
            UnitDiff::File { links, .. } => {
                let write = ShellFragment::new().code("linked=\n").append_fragment(self.render_write(cx));
                let write = write.code("[ $? -eq 0 ] && for link in");
                let removed = links.iter().fold(write, |script, link| script.word(link)).code(REMOVE_LINKS);
                return Action::Script(ActionScript {
                    body: removed.code(RELOAD_MANAGER).code(ENABLE_AGAIN).word(&self.name).code("; fi\n"),
                    long: false,
                    explain: EXPLAIN,
                });
            }
        };
        Action::Script(ActionScript { body: files.code(RELOAD_MANAGER), long: false, explain: EXPLAIN })
    }

    fn undo(&self, diff: &UnitDiff) -> UndoEffect {
        match diff {
            UnitDiff::File { file, links, .. } => {
                let mut effect = self.target.undo_write(self.backup, file);
                if effect.irreversible.is_none() && !links.is_empty() {
                    let text = String::from_utf8_lossy(self.target.body.bytes());
                    let new = list_installs(&text).into_iter().map(|install| install.link_path(&self.name));
                    effect.paths.extend(links.iter().cloned().chain(new));
                }
                effect
            }
            UnitDiff::Reload { .. } => UndoEffect::default(),
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
        let drop_in = |text| build_error(&[("name", json!("a")), ("drop_in", json!({ "name": "b", "content": text }))]);
        assert_eq!(drop_in("# x\nLimitNOFILE=5\n"), "systemd ignores `LimitNOFILE=5`: it is before the first section");
        assert_eq!(drop_in("[Servcie]\nLimitNOFILE=5\n"), "systemd ignores the section `[Servcie]` of `a.service`");
        assert_eq!(drop_in("[Timer]\n"), "systemd ignores the section `[Timer]` of `a.service`");
        let good = "[X-Site]\na=b\n[Service]\nExecStart=/bin/sh -c \\\n  # comment\n  [ok]\n";
        let fields = [("name", json!("a")), ("content", json!(good))];
        assert!(build(&FieldValues(fields.into_iter().collect()), false).is_ok());
        assert_eq!(
            build_error(&[("name", json!("a")), ("drop_in", json!({ "name": ".b", "content": "" }))]),
            "`.b` is not a valid drop-in name: systemd ignores hidden files"
        );
    }
}
