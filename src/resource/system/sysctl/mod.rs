//! `sysctl`: a kernel setting. The loaded value and the configuration of the next boot are compared separately.

mod config;
mod value;

use self::config::{SysctlOverride, format_key, key_path};
use crate::diag::Diag;
use crate::model::{BlockClass, DisruptionClass, StepVerdict, UndoDeclaration, UndoEffect, Value};
use crate::probe::{Observation, Probe, SysctlState, SysctlValue, UnansweredReason};
use crate::resource::shared::composite::{PartAssessments, render_part};
use crate::resource::shared::file_target::{FileBody, FileDiff, FileTarget, path_probe};
use crate::resource::shared::shell;
use crate::resource::shared::support::{bad_value, reject_secrets, required_text, sysctl_state};
use crate::resource::traits::KindTraits;
use crate::resource::{
    Action, ActionScript, Assessment, AssessmentContext, AttributeChange, ChangeAspect, ChangeMark, ChangedObject,
    ChangedPart, DeclaredResource, FieldSpec, FieldType, FieldValues, ProvidedItem, RecordedValue, Resource,
    ResourceDiff, ResourceKind, TypedResource, ValueChange,
};
use crate::script::{ShellFragment, quote_word};
use serde::Serialize;
use serde_json::json;

pub(in crate::resource) const KIND: ResourceKind = ResourceKind {
    name: "sysctl",
    summary: "A kernel setting: loaded now, and configured for the next boot.",
    example: include_str!("../../examples/sysctl.yaml"),
    doc: "\
**Compared**, each separately:

- **file**: the step's own file in `/etc/sysctl.d` (root, 0644), which contains only this line;
- **loaded**: the value under `/proc/sys`. A run of blanks and tabs equals one blank, numbers are compared by value
  (`0x10` equals `16`), and lists of ports or processors as sets (`8080,8081` equals `8080-8081`). Where the kernel stores
  another value than it was given, for example a rounded one, declare the one that it stores.

An unchanged step reports `content, owner and mode match; the kernel has 1`.

**A later line wins.** forge reads the snippets of `/etc`, `/run`, `/usr/local/lib` and `/usr/lib` as `systemd-sysctl`
does: ordered by file name, and of equal names only the one in the first directory; `/etc/sysctl.conf` is read as
`99-sysctl.conf`. A line for the key itself has precedence over a pattern, however late. If a line after the step's own
sets another value, the next boot would not have the declared value: the step is **blocked**, and the reason names file
and line. Remove the line in an earlier step, or set a `file` that is read later. Only an earlier step of the plan that
may change that file leaves this open until it has run: one that declares the file or a file of its name, a package, or a
command. The step is also blocked while `systemd-sysctl.service`, which applies all these files at boot, is masked.

**A change** sets the value first and then writes the file, so that a value that the kernel rejects is never configured.
Other snippets are never edited.

**Pending**: the file matches, but the kernel does not have the key (yet), because its module is not loaded.
**Blocked** is also a value that differs on a host with a read-only `/proc/sys`, as in most containers.

**Removal** removes the file and restores nothing: the previous value is not known, so the loaded value stays until the
next boot, and the plan says so.",
    fields: &[
        FieldSpec::required(
            "key",
            FieldType::Line,
            "Name of the setting: `net.ipv4.ip_forward`, or with slashes if a part contains a dot: \
             `net/ipv4/conf/eth0.100/forwarding`.",
        ),
        FieldSpec::required("value", FieldType::Line, "Value of the setting. Separate several numbers with blanks."),
        FieldSpec::optional("file", FieldType::Path, "The step's own file. Default `/etc/sysctl.d/90-forge-KEY.conf`."),
    ],
    build,
    traits: KindTraits { explains_secrets: true, ..KindTraits::DEFAULT },
};

const FOLDER: &str = "/etc/sysctl.d";
/// A link to `/dev/null` masks the unit that applies the snippets at boot.
const MASK: &str = "/etc/systemd/system/systemd-sysctl.service";

/// Compares the loaded value as the kind does: a run of blanks equals one.
const HAS_VALUE: &str = r#"[ "$(tr -s '[:space:]' ' ' <"$KEY")" = "$VALUE " ]"#;

/// Returns the command that gives a key a value. Plans show it, so it names both.
fn render_setting(key: &str, value: &str) -> String {
    format!("printf '%s\\n' {} >{}", quote_word(value), quote_word(key))
}

#[derive(Debug)]
struct SysctlResource {
    /// The path below `/proc/sys`.
    place: String,
    value: String,
    target: FileTarget,
    absent: bool,
}

fn build(fields: &FieldValues, absent: bool) -> Result<Box<dyn Resource>, Diag> {
    reject_secrets(KIND.name, fields, "a kernel setting cannot hold a secret")?;
    let key = required_text(fields, "key")?;
    let place = key_path(key);
    let strange = |c: char| !(c.is_ascii_alphanumeric() || "_-./:@+".contains(c));
    // A leading `-` does not belong to a name: in `sysctl.d` it lets systemd ignore errors.
    if key.contains(strange)
        || key.starts_with('-')
        || !place.contains('/')
        || place.split('/').any(|p| matches!(p, "" | "." | ".."))
    {
        return Err(bad_value(format!("`{key}` is not a valid kernel setting name"))
            .with_field("key")
            .hint("write one key, such as `net.ipv4.ip_forward`; patterns are not supported"));
    }
    let value = match absent {
        true => fields.get_text("value").unwrap_or_default(),
        false => required_text(fields, "value")?,
    };
    let value = value::canonical_value(value);
    if value.is_empty() && !absent {
        return Err(bad_value(format!("the value of `{key}` is empty")).with_field("value"));
    }
    let body = FileBody::new(format!("{} = {value}\n", format_key(&place)));
    let path = parse_conf_path(fields, &place)?;
    let target = FileTarget { path, body, owner: "root".into(), group: "root".into(), mode: 0o644 };
    Ok(Box::new(SysctlResource { place, value, target, absent }))
}

fn parse_conf_path(fields: &FieldValues, place: &str) -> Result<String, Diag> {
    let Some(path) = fields.get_text("file") else {
        return Ok(format!("{FOLDER}/90-forge-{}.conf", place.replace('/', ".")));
    };
    let name = path.strip_prefix(FOLDER).and_then(|rest| rest.strip_prefix('/'));
    let good = name.is_some_and(|name| name.ends_with(".conf") && !name.contains('/') && !name.starts_with('.'));
    match good {
        true => Ok(path.to_owned()),
        false => Err(bad_value(format!("`{path}` is not read by sysctl: `file` must be `{FOLDER}/NAME.conf`"))
            .with_field("file")),
    }
}

impl SysctlResource {
    fn probe(&self) -> Probe {
        Probe::Sysctl { key: self.place.clone() }
    }

    fn display_key(&self) -> String {
        format_key(&self.place)
    }

    fn assess_file(
        &self,
        state: &SysctlState,
        seen: &Observation,
        cx: &AssessmentContext<'_>,
    ) -> Assessment<SysctlFileDiff> {
        if state.is_masked && !cx.predicted.is_some_and(|earlier| earlier.may_change_path(MASK)) {
            let reason = "`systemd-sysctl.service` is masked: no file of `sysctl.d` is applied at boot";
            return Assessment::blocked(BlockClass::Host, reason, json!({ "masked": true })).hint(format!(
                "remove `{MASK}` with an earlier `absent` step, or run `systemctl unmask systemd-sysctl`"
            ));
        }
        let file = self.target.assess(seen, cx, true).map_diff(SysctlFileDiff::File);
        let Some(over) = config::find_override(&state.lines, &self.target.path, &self.place, &self.value) else {
            return file;
        };
        let predicted = cx.predicted.filter(|earlier| over.may_be_changed_by(earlier));
        match predicted.and_then(|earlier| earlier.after.as_deref()) {
            // An earlier step may remove it; forge evaluates this step again when it runs.
            Some(_) if file.verdict == StepVerdict::Change => file.mark_predicted(),
            Some(step) => {
                let why = format!("{}; `{step}` runs first and may change that", self.describe_override(&over));
                let basis = override_basis(&file, &over);
                let diff = SysctlFileDiff::Overridden { over, after: step.to_owned() };
                Assessment::differs(why, diff, DisruptionClass::D0, basis).mark_predicted()
            }
            None => self.block_overridden(&file, &over),
        }
    }

    fn describe_override(&self, over: &SysctlOverride) -> String {
        format!("`{}` sets `{}` to `{}` after `{}`", over.place, self.display_key(), over.value, self.target.path)
    }

    fn block_overridden(&self, file: &Assessment<SysctlFileDiff>, over: &SysctlOverride) -> Assessment<SysctlFileDiff> {
        let name = over.place.rsplit('/').next().unwrap_or_default().split(':').next().unwrap_or_default();
        let later = format!("{FOLDER}/{}-forge-{}.conf", later_prefix(name), self.place.replace('/', "."));
        Assessment::blocked(BlockClass::Host, self.describe_override(over), override_basis(file, over))
            .hint(format!("remove that line with an earlier step, or set `file: {later}`, which is read later"))
    }

    fn assess_loaded(&self, state: &SysctlState, cx: &AssessmentContext<'_>) -> Assessment<LoadedDiff> {
        match &state.value {
            SysctlValue::Unread { .. } => {
                Assessment::unknown(&UnansweredReason::new(format!("`{}` could not be read", self.display_key())))
            }
            SysctlValue::Absent => self.assess_missing_key(cx),
            SysctlValue::Set { value, fixed } => self.compare_value(&value::canonical_value(value), *fixed),
        }
    }

    /// Evaluates a missing key. A module that an earlier step loads may provide it.
    fn assess_missing_key(&self, cx: &AssessmentContext<'_>) -> Assessment<LoadedDiff> {
        let (key, basis) = (self.display_key(), json!({ "loaded": null }));
        if let Some(step) = cx.predicted.and_then(|p| p.after.as_deref()) {
            let reason = format!("the kernel has no `{key}` yet; `{step}` runs first and may add it");
            let diff = LoadedDiff(ValueChange::create(self.value.clone()));
            return Assessment::differs(reason, diff, DisruptionClass::D0, basis).mark_predicted();
        }
        let reason = format!("the kernel has no `{key}`");
        Assessment { verdict: StepVerdict::Pending, ..Assessment::ok(reason, basis) }
            .hint("load the module that provides the key, or check that this kernel supports it")
    }

    fn compare_value(&self, value: &str, fixed: bool) -> Assessment<LoadedDiff> {
        let basis = json!({ "loaded": value });
        if value::is_same_value(&self.place, value, &self.value) {
            return Assessment::ok(format!("the kernel has `{value}`"), basis);
        }
        let reason = format!("the kernel has `{value}`");
        if fixed {
            let reason = format!("{reason}, and `/proc/sys/{}` is read-only", self.place);
            return Assessment::blocked(BlockClass::Host, reason, basis)
                .hint("in a container, set the value on its machine");
        }
        let diff = LoadedDiff(ValueChange::new(value.to_owned(), self.value.clone()));
        Assessment::differs(reason, diff, DisruptionClass::D0, basis)
    }

    fn assess_removal(&self, seen: &Observation) -> Assessment<SysctlDiff> {
        let file = self.target.assess_absent(seen);
        let file = file.map_diff(|file| SysctlDiff { file: Some(SysctlFileDiff::File(file)), loaded: None });
        let says = match file.verdict {
            StepVerdict::Change => "the loaded value stays until the next boot",
            StepVerdict::Ok => "the loaded value is not compared",
            _ => return file,
        };
        Assessment { reason: format!("{}; {says}", file.reason.raw()).into(), ..file }
    }

    fn assess_file_and_value(
        &self,
        state: &SysctlState,
        seen: &Observation,
        cx: &AssessmentContext<'_>,
    ) -> Assessment<SysctlDiff> {
        let (mut file, mut loaded) = (self.assess_file(state, seen, cx), self.assess_loaded(state, cx));
        let diff = SysctlDiff { file: file.diff.take(), loaded: loaded.diff.take() };
        PartAssessments::default().with_part("file", file).with_part("loaded", loaded).combine_with(Some(diff))
    }

    fn render_load(&self) -> ShellFragment {
        let words = shell::open_private_action().word(format!("/proc/sys/{}", self.place)).word(&self.value);
        shell::close_action(words.code(LOAD)).code("[ $? -eq 0 ] &&\n")
    }

    fn render_write(&self, cx: &AssessmentContext<'_>) -> ShellFragment {
        let folder = shell::close_action(shell::open_private_action().code(MAKE_FOLDER)).code("[ $? -eq 0 ] &&\n");
        folder.append_fragment(self.target.render_write(cx, true, ""))
    }
}

fn override_basis(file: &Assessment<SysctlFileDiff>, over: &SysctlOverride) -> Value {
    let mut basis = file.basis.clone();
    basis["overridden"] = json!({ "at": over.place, "value": over.value });
    basis
}

/// Returns a file name prefix that sorts after `name`.
fn later_prefix(name: &str) -> String {
    let digits: String = name.chars().take_while(char::is_ascii_digit).collect();
    let next = digits.parse::<u32>().ok().filter(|n| digits.len() == 2 && *n < 99).map(|n| format!("{:02}", n + 1));
    next.unwrap_or_else(|| "zz".to_owned())
}

const LOAD: &str = r#"
printf '%s\n' "$2" > "$1" || fail "the kernel does not take '$2' for $1"
"#;

const MAKE_FOLDER: &str = r#"
[ -d /etc/sysctl.d ] || mkdir -m 0755 -- /etc/sysctl.d || fail "cannot make /etc/sysctl.d"
"#;

const EXPLAIN: &[(&str, &str)] = &[
    (
        "the kernel does not take",
        "the value is out of range, or conflicts with another setting; nothing was configured",
    ),
    ("No space left on device", "the file system is full; the old file is unchanged"),
];

impl DeclaredResource for SysctlResource {
    fn kind(&self) -> &'static str {
        KIND.name
    }

    fn title(&self) -> String {
        self.display_key()
    }

    fn changed_object(&self, mark: &ChangeMark) -> ChangedObject {
        match mark.part {
            ChangedPart::File => ChangedObject::Path(self.target.path.clone()),
            _ if self.absent => ChangedObject::Path(self.target.path.clone()),
            _ => ChangedObject::Sysctl(self.display_key().replace('/', ".")),
        }
    }

    fn probes(&self) -> Vec<Probe> {
        match self.absent {
            true => vec![path_probe(&self.target.path)],
            false => vec![self.probe(), self.target.probe()],
        }
    }

    fn desired_value(&self) -> Value {
        match self.absent {
            true => json!({ "key": self.place, "path": self.target.path, "absent": true }),
            false => json!({ "key": self.place, "value": self.value, "path": self.target.path }),
        }
    }

    fn provided_items(&self) -> Vec<ProvidedItem> {
        (!self.absent).then(|| ProvidedItem::Path(self.target.path.clone())).into_iter().collect()
    }

    fn restart_input_paths(&self) -> Vec<String> {
        vec![self.target.path.clone()]
    }

    fn exclusive_claims(&self) -> Vec<(&'static str, String)> {
        vec![(KIND.name, self.display_key()), ("path", self.target.path.clone())]
    }
}

/// How a kernel setting differs. Without a difference of the loaded value, only the file is written or removed.
#[derive(Clone, Debug, PartialEq, Serialize)]
struct SysctlDiff {
    file: Option<SysctlFileDiff>,
    loaded: Option<LoadedDiff>,
}

/// How the configuration of the next boot differs.
#[derive(Clone, Debug, PartialEq, Serialize)]
enum SysctlFileDiff {
    /// The step's own file.
    File(FileDiff),
    /// The file matches; a later line sets another value, and an earlier step may remove that line.
    Overridden {
        over: SysctlOverride,
        /// The earlier step.
        after: String,
    },
}

/// The value in the kernel, which has no such key if there is no old value.
#[derive(Clone, Debug, PartialEq, Serialize)]
struct LoadedDiff(ValueChange<String>);

impl ResourceDiff for SysctlDiff {
    fn render_changes(&self) -> Vec<AttributeChange> {
        let loaded = render_part("loaded", ChangedPart::Main, self.loaded.as_ref());
        render_part("file", ChangedPart::File, self.file.as_ref()).into_iter().chain(loaded).collect()
    }
}

impl ResourceDiff for SysctlFileDiff {
    fn render_changes(&self) -> Vec<AttributeChange> {
        match self {
            Self::File(file) => file.render_changes(),
            Self::Overridden { over, after } => {
                vec![AttributeChange::new("override", Some(&over.place), Some(&format!("evaluated after `{after}`")))]
            }
        }
    }
}

impl ResourceDiff for LoadedDiff {
    fn render_changes(&self) -> Vec<AttributeChange> {
        vec![self.0.render_change("loaded").with_aspect(ChangeAspect::Loaded).recorded(RecordedValue::At("/value"))]
    }
}

impl TypedResource for SysctlResource {
    type Diff = SysctlDiff;

    fn diff(&self, seen: &Observation, cx: &AssessmentContext<'_>) -> Assessment<SysctlDiff> {
        if self.absent {
            return self.assess_removal(seen);
        }
        match sysctl_state(seen, &self.probe()) {
            Ok(state) => self.assess_file_and_value(state, seen, cx),
            Err(unknown) => Assessment::unknown(&unknown),
        }
    }

    fn act(&self, diff: &SysctlDiff, cx: &AssessmentContext<'_>) -> Action {
        let load = diff.loaded.as_ref().map(|_| self.render_load()).unwrap_or_default();
        let file = match &diff.file {
            None => ShellFragment::new().code(":\n"),
            Some(SysctlFileDiff::File(FileDiff::Remove { .. })) => shell::remove_file(&self.target.path, cx.run, true),
            Some(SysctlFileDiff::File(_) | SysctlFileDiff::Overridden { .. }) => self.render_write(cx),
        };
        Action::Script(ActionScript { body: load.append_fragment(file), long: false, explain: EXPLAIN })
    }

    fn undo(&self, diff: &SysctlDiff) -> UndoEffect {
        let file = matches!(diff.file, Some(SysctlFileDiff::File(_))).then(|| self.target.path.clone());
        let before = diff.loaded.as_ref().and_then(|loaded| loaded.0.from.as_ref());
        let value = before.map(|value| {
            let key = format!("/proc/sys/{}", self.place);
            let fields = json!({
                "check": HAS_VALUE, "apply": render_setting(&key, value), "remove": render_setting(&key, &self.value),
                "env": { "KEY": key, "VALUE": value },
            });
            UndoDeclaration::present("command", fields)
        });
        UndoEffect { paths: file.into_iter().collect(), steps: value.into_iter().collect(), ..UndoEffect::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn build_error(fields: &[(&'static str, &str)]) -> String {
        let fields = fields.iter().map(|(name, value)| (*name, json!(value))).collect();
        build(&FieldValues(fields), false).unwrap_err().message
    }

    #[test]
    fn invalid_sysctl_fields_are_rejected() {
        assert_eq!(
            build_error(&[("key", "net.ipv4.conf.*.forwarding"), ("value", "1")]),
            "`net.ipv4.conf.*.forwarding` is not a valid kernel setting name"
        );
        assert_eq!(
            build_error(&[("key", "-net.ipv4.ip_forward"), ("value", "1")]),
            "`-net.ipv4.ip_forward` is not a valid kernel setting name"
        );
        assert_eq!(
            build_error(&[("key", "swappiness"), ("value", "1")]),
            "`swappiness` is not a valid kernel setting name"
        );
        assert_eq!(
            build_error(&[("key", "net/../../etc/x"), ("value", "1")]),
            "`net/../../etc/x` is not a valid kernel setting name"
        );
        assert_eq!(build_error(&[("key", "vm.swappiness"), ("value", " ")]), "the value of `vm.swappiness` is empty");
        assert_eq!(
            build_error(&[("key", "vm.swappiness"), ("value", "1"), ("file", "/etc/sysctl.d/90-x")]),
            "`/etc/sysctl.d/90-x` is not read by sysctl: `file` must be `/etc/sysctl.d/NAME.conf`"
        );
    }

    #[test]
    fn later_prefix_sorts_after_the_overriding_file() {
        for (name, later) in [("95-x.conf", "96"), ("99-sysctl.conf", "zz"), ("protect.conf", "zz"), ("100-x", "zz")] {
            assert_eq!(later_prefix(name), later);
            assert!(format!("{later}-forge-x.conf").as_str() > name, "{name}");
        }
    }
}
