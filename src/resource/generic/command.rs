//! `command`: a check, and a command that runs if the check fails.

mod run_script;

use self::run_script::{ENTER, RUN};
use crate::diag::{Diag, DiagCode};
use crate::model::{
    BlockClass, DisruptionClass, GuardEffect, SecretStore, StepVerdict, UndoDeclaration, UndoEffect, Value,
};
use crate::probe::{CheckProbe, Observation, PathState, Probe, ProbeOutput, UnansweredReason};
use crate::resource::shared::file_target::path_probe;
use crate::resource::shared::shell;
use crate::resource::shared::support::{bad_value, check_account_name, check_script_text, output, path_state};
use crate::resource::traits::{EffectReach, GuardSupport, KindTraits, PackageExposure};
use crate::resource::{
    Action, ActionScript, Assessment, AssessmentContext, AttributeChange, DeclaredResource, FieldSpec, FieldType,
    FieldValues, ProvidedItem, Resource, ResourceDiff, ResourceKind, TypedResource,
};
use crate::script::ShellFragment;
use serde::Serialize;
use serde_json::json;

pub(in crate::resource) const KIND: ResourceKind = ResourceKind {
    name: "command",
    summary: "A command that runs if its check reports that it is needed.",
    example: include_str!("../examples/command.yaml"),
    doc: "\
Use it if no other kind fits. All scripts are POSIX shell, run by `sh` with stdin closed, `LC_ALL=C` and umask 022.

**`check` decides.** It must be read-only: it runs in every plan, and again right before and after the change. Exit code
0 means that the desired state is reached, 1 (or a code in `check_not`) means that it is not. With a code in
`check_blocked` the step is blocked: `apply` cannot help on this host, and the last line of the check's standard error
says why; a removal takes such a code for 1. With any other exit code the step is `unknown`, as with `grep -q TEXT FILE` if the file is missing: begin with `test -e FILE &&`. `creates: PATH`
is the short form: the desired state is reached if the path exists. A command without either is rejected, because forge
could not detect whether it needs to run; so is a `check`, `verify` or `removed` that is empty or only a comment. An
unchanged step reports `check reports the desired state`.

**`verify`** is an additional, stricter check: the step passes only if it exits 0, too.

**A change** runs `apply` and then `check` and `verify` again: if they still fail, the step fails even though `apply`
succeeded. `apply` must be idempotent, because it may be killed halfway: the host ends a command that runs longer than the
step's `timeout`. Pass secrets in `env`: in a script they are rejected.

A check that cannot be evaluated before an earlier step runs (its program is not installed yet) is planned as
`change (predicted)`. The same applies to a check that passes now while a step in its `restart_on` is about to change,
because its current result does not predict the later one. When the step runs, forge evaluates the check again and runs
the command only if necessary.

**Disruption** is that of the step's `disruption` key; forge cannot detect what a command affects. With `long: true` in
the step the command survives a lost connection.

**Removal** runs `remove` if the check passes, or, with `removed`, if that does not: it is for a check that also passes
where nothing is left. A command without `remove` cannot be removed; its step may declare `keep: true`.",
    fields: FIELDS,
    build,
    traits: KindTraits {
        has_restart_inputs: true,
        guard: GuardSupport::Inputs,
        stops_at_limit: true,
        may_be_long: true,
        check_fields: &["check", "creates"],
        change_field: Some("apply"),
        reach: EffectReach::Unknown,
        exposure: PackageExposure::Unknown,
        ..KindTraits::DEFAULT
    },
};

const FIELDS: &[FieldSpec] = &[
    FieldSpec::optional(
        "check",
        FieldType::Text,
        "Read-only script. Exit code 0: desired state, 1: not, others: unknown. Excludes `creates`.",
    ),
    FieldSpec::optional(
        "creates",
        FieldType::Path,
        "Path that exists after `apply` ran, as `test -e` decides: a link that leads to nothing does not count. \
         Excludes `check`.",
    ),
    FieldSpec::optional(
        "check_not",
        FieldType::List(&FieldType::Int { min: 1, max: 255 }),
        "Additional exit codes of `check` that mean that the desired state is not reached.",
    ),
    FieldSpec::optional(
        "check_blocked",
        FieldType::List(&FieldType::Int { min: 2, max: 125 }),
        "Exit codes of `check` that mean that the desired state cannot be reached on this host: the step is blocked.",
    ),
    FieldSpec::optional("apply", FieldType::Text, "Script that establishes the desired state."),
    FieldSpec::optional("verify", FieldType::Text, "Read-only script. Must exit 0 for the step to pass."),
    FieldSpec::optional("remove", FieldType::Text, "Script that undoes `apply`, for removal."),
    FieldSpec::optional(
        "removed",
        FieldType::Text,
        "Read-only script for removal. Exit code 0: nothing is left to undo, 1: something is. Default: the opposite of `check`.",
    ),
    FieldSpec::optional("user", FieldType::Name, "User that runs all scripts. Default `root`."),
    FieldSpec::optional("cwd", FieldType::Path, "Working directory. Default `/`."),
    FieldSpec::optional("env", FieldType::Map(&FieldType::Text), "Environment variables. Values may be secrets.")
        .passing_secrets(),
    FieldSpec::optional(
        "check_timeout",
        FieldType::Duration,
        "Timeout of `check` and `verify`. Default: `--timeout`, or `60s`.",
    ),
    FieldSpec::optional(
        "timeout",
        FieldType::Duration,
        "Timeout of `apply` and `remove`. Default: the step's `timeout`.",
    ),
    FieldSpec::optional(
        "images",
        FieldType::Text,
        "Container images that the command makes the host or a cluster run, for `forge plan --images`: one per line, \
         for an image in a mirror with its source after a space. Empty: it runs images that are not known.",
    ),
];

/// Maximum script size in bytes. Linux limits one argument to 128 KiB; the rest is reserved for revealed secrets.
const SCRIPT_CAP: usize = 98_304;
/// Maximum number of script characters in a title.
const TITLE_LENGTH: usize = 60;

#[derive(Debug)]
struct CommandResource {
    check: CommandCheck,
    check_not: Vec<i64>,
    check_blocked: Vec<i64>,
    apply: String,
    verify: Option<String>,
    remove: Option<String>,
    removed: Option<String>,
    user: Option<String>,
    cwd: Option<String>,
    env: Vec<(String, String)>,
    timeout: Option<u64>,
    check_timeout: Option<u64>,
    /// Container images with their sources; empty if it runs images that are not known.
    images: Option<Vec<(String, String)>>,
    absent: bool,
}

#[derive(Debug)]
enum CommandCheck {
    Script(String),
    Creates(String),
}

fn build(fields: &FieldValues, absent: bool) -> Result<Box<dyn Resource>, Diag> {
    let script = |name: &'static str| fields.get_text(name).map(|text| check_script_size(name, text)).transpose();
    let (apply, remove) = (script("apply")?, script("remove")?);
    let command = CommandResource {
        check: parse_check(fields)?,
        check_not: fields.get_int_list("check_not").unwrap_or_default(),
        check_blocked: fields.get_int_list("check_blocked").unwrap_or_default(),
        apply: match (apply, absent) {
            (Some(apply), _) => apply,
            (None, true) => String::new(),
            (None, false) => return Err(Diag::error(DiagCode::MissingKey, "a command needs `apply`")),
        },
        verify: parse_check_script(fields, "verify")?,
        remove,
        removed: parse_check_script(fields, "removed")?.filter(|_| absent),
        user: fields.get_text("user").filter(|user| *user != "root").map(str::to_owned),
        cwd: fields.get_text("cwd").map(str::to_owned),
        env: parse_environment(fields)?,
        timeout: fields.get_int("timeout").map(i64::unsigned_abs),
        check_timeout: fields.get_int("check_timeout").map(i64::unsigned_abs),
        images: fields.get_text("images").filter(|_| !absent).map(parse_images).transpose()?,
        absent,
    };
    command.user.as_deref().map_or(Ok(()), |user| check_account_name("user", user))?;
    if absent && command.remove.is_none() {
        return Err(Diag::error(DiagCode::BadStep, "a command without `remove` cannot be removed").hint(
            "add `remove:`, the script that undoes `apply`, or `keep: true` to the step if nothing has to be undone",
        ));
    }
    Ok(Box::new(command))
}

fn parse_check(fields: &FieldValues) -> Result<CommandCheck, Diag> {
    match (parse_check_script(fields, "check")?, fields.get_text("creates")) {
        (Some(_), Some(_)) => Err(Diag::error(DiagCode::Exclusive, "`check` and `creates` exclude each other")),
        (Some(check), None) => Ok(CommandCheck::Script(check)),
        (None, Some(path)) => Ok(CommandCheck::Creates(path.to_owned())),
        (None, None) => Err(Diag::error(DiagCode::CommandWithoutCheck, "a command needs `check` or `creates`")
            .hint("add `check:`, a script that exits 0 if nothing needs to run, or `creates:`, a path")),
    }
}

fn parse_check_script(fields: &FieldValues, name: &'static str) -> Result<Option<String>, Diag> {
    let check = |script| check_script_text(name, script).and_then(|()| check_script_size(name, script));
    fields.get_text(name).map(check).transpose()
}

pub(in crate::resource) fn check_script_size(name: &'static str, script: &str) -> Result<String, Diag> {
    match script.len() {
        0..=SCRIPT_CAP => Ok(script.to_owned()),
        bytes => Err(bad_value(format!("`{name}` has {bytes} bytes, the maximum is {SCRIPT_CAP}"))
            .with_field(name)
            .hint("copy the script to the host with a `file` step and run it from there")),
    }
}

pub(in crate::resource) fn parse_environment(fields: &FieldValues) -> Result<Vec<(String, String)>, Diag> {
    let env = fields.get_text_map("env").unwrap_or_default();
    for (name, _) in &env {
        let starts = name.bytes().next().is_some_and(|b| b.is_ascii_alphabetic() || b == b'_');
        if !starts || !name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_') {
            return Err(bad_value(format!("`{name}` is not a valid environment variable name")).with_field("env"));
        }
    }
    Ok(env)
}

/// Reads one image per line, each with its source, or with itself if it comes from no mirror.
fn parse_images(text: &str) -> Result<Vec<(String, String)>, Diag> {
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let parse_line = |line: &str| match line.split_whitespace().collect::<Vec<_>>()[..] {
        [image] => Ok((image.to_owned(), image.to_owned())),
        [image, source] => Ok((image.to_owned(), source.to_owned())),
        _ => Err(bad_value(format!("`images` has the line `{line}`"))
            .with_field("images")
            .hint("write an image, and after a space its source if it is in a mirror")),
    };
    lines.map(parse_line).collect()
}

/// Combined result of the checks.
enum CommandCheckResult {
    Holds(&'static str),
    Not(String),
    /// The script reports that `apply` cannot help, for this reason.
    Blocked(String),
    /// The script ran, but its exit code is not an answer.
    Undecided(UnansweredReason),
}

/// From here on, the shell reports that a command could not be run, or that a signal ended it.
const NOT_RUN_STATUS: i32 = 126;

const UNDECIDED_HINT: &str = "exit codes other than 0 and 1 leave the step unknown: let the check exit 1, as in \
     `test -e FILE && grep -q TEXT FILE`, or list the code in `check_not`";

impl CommandResource {
    fn script_probe(&self, part: &str, script: &str) -> Probe {
        Probe::Check(Box::new(CheckProbe {
            id: format!("{part} of `{}`", self.title()),
            script: script.to_owned(),
            user: self.user.clone(),
            cwd: self.cwd.clone(),
            env: self.env.clone(),
            timeout_s: self.check_timeout,
        }))
    }

    fn check_probe(&self) -> Probe {
        if let Some(script) = &self.removed {
            return self.script_probe("removed", script);
        }
        match &self.check {
            CommandCheck::Script(script) => self.script_probe("check", script),
            CommandCheck::Creates(path) => path_probe(path),
        }
    }

    fn verify_probe(&self) -> Option<Probe> {
        self.verify.as_deref().filter(|_| !self.absent).map(|script| self.script_probe("verify", script))
    }

    fn evaluate_checks(&self, seen: &Observation) -> Result<CommandCheckResult, UnansweredReason> {
        if self.removed.is_some() {
            return self.interpret_exit_status("removed", output(seen, &self.check_probe())?);
        }
        let checked = match &self.check {
            CommandCheck::Creates(path) => match path_state(seen, &path_probe(path))? {
                // As `test -e` decides.
                PathState::Present(info) if info.dangling => {
                    CommandCheckResult::Not(format!("`{path}` is a symbolic link that leads to nothing"))
                }
                PathState::Present(_) => CommandCheckResult::Holds("the path in `creates` exists"),
                PathState::Absent => CommandCheckResult::Not(format!("`{path}` does not exist")),
            },
            CommandCheck::Script(_) => self.interpret_exit_status("check", output(seen, &self.check_probe())?)?,
        };
        match (checked, self.verify_probe()) {
            (CommandCheckResult::Holds(why), None) => Ok(CommandCheckResult::Holds(why)),
            (CommandCheckResult::Holds(_), Some(verify)) => {
                self.interpret_exit_status("verify", output(seen, &verify)?)
            }
            (not, _) => Ok(not),
        }
    }

    fn interpret_exit_status(
        &self,
        part: &'static str,
        output: &ProbeOutput,
    ) -> Result<CommandCheckResult, UnansweredReason> {
        match output.status {
            0 if part == "check" => Ok(CommandCheckResult::Holds("check reports the desired state")),
            0 if part == "removed" => Ok(CommandCheckResult::Holds("nothing is left")),
            0 => Ok(CommandCheckResult::Holds("check and verify report the desired state")),
            status if status == 1 || self.check_not.contains(&i64::from(status)) => {
                Ok(CommandCheckResult::Not(format!("{part} exited with {status}")))
            }
            status if part == "check" && self.check_blocked.contains(&i64::from(status)) => {
                Ok(match (last_line(output.stderr.raw()), self.absent) {
                    (_, true) => CommandCheckResult::Not(format!("{part} exited with {status}")),
                    (said, false) if said.is_empty() => {
                        CommandCheckResult::Blocked(format!("{part} exited with {status}"))
                    }
                    (said, false) => CommandCheckResult::Blocked(said),
                })
            }
            status => {
                let why = UnansweredReason::new(format!("{part} could not be evaluated: it exited with {status}"))
                    .with_message(last_line(output.stderr.raw()));
                match status {
                    NOT_RUN_STATUS.. => Err(why),
                    _ => Ok(CommandCheckResult::Undecided(why)),
                }
            }
        }
    }

    fn assess_check_result(&self, found: CommandCheckResult, cx: &AssessmentContext<'_>) -> Assessment<CommandDiff> {
        let (holds, why) = match found {
            CommandCheckResult::Holds(why) => (true, why.to_owned()),
            CommandCheckResult::Not(why) => (false, why),
            CommandCheckResult::Blocked(why) => return self.assess_blocked(why, cx),
            CommandCheckResult::Undecided(unknown) => return self.assess_undecided(&unknown, cx),
        };
        // With which status a check fails makes no difference to the action.
        let basis = json!({ "check": if holds { "as desired" } else { "not" } });
        let as_declared = if self.absent && self.removed.is_none() { !holds } else { holds };
        if as_declared {
            return self.assess_satisfied(why, basis, cx);
        }
        let diff = self.command_diff(CheckFinding::Reported(why.clone()));
        let judgement = Assessment::differs(why, diff, DisruptionClass::D0, basis);
        match cx.predicted.is_some_and(|p| p.after.is_some()) {
            true => judgement.mark_predicted(),
            false => judgement,
        }
    }

    /// Evaluates a check that reports that `apply` cannot help. An earlier step may remove the obstacle.
    fn assess_blocked(&self, why: String, cx: &AssessmentContext<'_>) -> Assessment<CommandDiff> {
        match cx.predicted.and_then(|p| p.after.as_deref()) {
            None => Assessment::blocked(BlockClass::Host, why, json!({ "check": "blocked" })),
            Some(_) => self.assess_unknown(&UnansweredReason::new(why), cx),
        }
    }

    /// Evaluates a check that passes. Its result is not final if one of its inputs changes before the step.
    fn assess_satisfied(&self, why: String, basis: Value, cx: &AssessmentContext<'_>) -> Assessment<CommandDiff> {
        match cx.inputs.iter().find(|input| input.changing) {
            _ if self.absent => Assessment::ok(format!("already removed: {why}"), basis),
            None => Assessment::ok(why, basis),
            Some(input) => {
                let reason = format!("check passes now, but `{}` changes before this step", input.step);
                let diff = self.command_diff(CheckFinding::NotKnown);
                Assessment::differs(reason, diff, DisruptionClass::D0, basis).mark_predicted()
            }
        }
    }

    /// Evaluates a check whose exit code is not an answer, as that of `grep` for a missing file.
    fn assess_undecided(&self, unknown: &UnansweredReason, cx: &AssessmentContext<'_>) -> Assessment<CommandDiff> {
        let judgement = self.assess_unknown(unknown, cx);
        match judgement.verdict {
            StepVerdict::Unknown => judgement.hint(UNDECIDED_HINT),
            _ => judgement,
        }
    }

    fn assess_unknown(&self, unknown: &UnansweredReason, cx: &AssessmentContext<'_>) -> Assessment<CommandDiff> {
        let Some(step) = cx.predicted.and_then(|p| p.after.as_deref()) else { return Assessment::unknown(unknown) };
        let reason = format!("cannot be evaluated before `{step}` runs: {}", unknown.why);
        let diff = self.command_diff(CheckFinding::NotKnown);
        Assessment::differs(reason, diff, DisruptionClass::D0, json!({ "check": "unknown" })).mark_predicted()
    }

    fn command_diff(&self, check: CheckFinding) -> CommandDiff {
        let script = SecretStore::mask_placeholders(self.change_script()).trim_end().to_owned();
        match self.absent {
            true => CommandDiff::Remove { check, script },
            false => CommandDiff::Apply { check, script },
        }
    }

    /// Returns the fields of the declaration.
    fn declared_fields(&self) -> Value {
        let (check, creates) = match &self.check {
            CommandCheck::Script(script) => (Some(script), None),
            CommandCheck::Creates(path) => (None, Some(path)),
        };
        let env: serde_json::Map<String, Value> =
            self.env.iter().map(|(name, value)| (name.clone(), json!(value))).collect();
        let mut fields = json!({
            "check": check, "creates": creates, "check_not": self.check_not,
            "check_blocked": self.check_blocked, "apply": self.apply,
            "verify": self.verify, "remove": self.remove, "removed": self.removed, "user": self.user,
            "cwd": self.cwd, "env": env, "timeout": self.timeout, "check_timeout": self.check_timeout,
        });
        if let Value::Object(entries) = &mut fields {
            let is_set = |value: &Value| match value {
                Value::Null => false,
                Value::Array(items) => !items.is_empty(),
                Value::Object(entries) => !entries.is_empty(),
                _ => true,
            };
            entries.retain(|_, value| is_set(value));
        }
        fields
    }

    /// Returns the script that a change runs.
    fn change_script(&self) -> &str {
        match self.absent {
            true => self.remove.as_deref().unwrap_or_default(),
            false => &self.apply,
        }
    }

    fn render_script(&self, script: &str) -> ShellFragment {
        let opened = shell::open_action()
            .word(script)
            .word(self.cwd.as_deref().unwrap_or("/"))
            .word(self.user.as_deref().unwrap_or_default())
            .word(self.timeout.map(|s| s.to_string()).unwrap_or_default())
            .code(ENTER);
        let with_env = self
            .env
            .iter()
            .fold(opened, |action, (name, value)| action.code("export").word(format!("{name}={value}")).code("\n"));
        shell::close_action(with_env.code(RUN))
    }
}

/// Why a command runs, and its script with secrets masked.
#[derive(Clone, Debug, PartialEq, Serialize)]
enum CommandDiff {
    Apply { check: CheckFinding, script: String },
    Remove { check: CheckFinding, script: String },
}

/// What the checks say before the command runs.
#[derive(Clone, Debug, PartialEq, Serialize)]
enum CheckFinding {
    Reported(String),
    /// The check cannot be evaluated before an earlier step, or that step may change its result.
    NotKnown,
}

impl ResourceDiff for CommandDiff {
    fn render_changes(&self) -> Vec<AttributeChange> {
        let (Self::Apply { check, script } | Self::Remove { check, script }) = self;
        let from = match check {
            CheckFinding::Reported(why) => why,
            CheckFinding::NotKnown => "not known yet",
        };
        vec![AttributeChange::new("command", Some(from), Some(script))]
    }
}

fn last_line(text: &str) -> String {
    text.lines().rev().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default().to_owned()
}

const EXPLAIN: &[(&str, &str)] = &[
    ("not found", "a program is missing on the host: add a `package` step that installs it before this one"),
    ("was stopped after", "increase `timeout`"),
    ("does not exist", "add a `user` step before this one"),
    ("No space left on device", "the file system is full"),
];

impl DeclaredResource for CommandResource {
    fn kind(&self) -> &'static str {
        KIND.name
    }

    /// Returns the first line of the script, because a command has no name of its own.
    fn title(&self) -> String {
        let masked =
            SecretStore::mask_placeholders(if self.apply.is_empty() { self.change_script() } else { &self.apply });
        let line = masked.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or("command");
        match line.char_indices().nth(TITLE_LENGTH) {
            Some((end, _)) => format!("{}…", &line[..end]),
            None => line.to_owned(),
        }
    }

    fn probes(&self) -> Vec<Probe> {
        let mut probes = vec![self.check_probe()];
        probes.extend(self.verify_probe());
        probes
    }

    fn failed_check(&self, seen: &Observation) -> Option<Probe> {
        let holds = |probe: &Probe| match probe {
            Probe::Check(_) => output(seen, probe).is_ok_and(|output| output.status == 0),
            path => path_state(seen, path).is_ok_and(|state| matches!(state, PathState::Present(_))),
        };
        self.probes().into_iter().find(|probe| !holds(probe)).filter(|probe| matches!(probe, Probe::Check(_)))
    }

    fn time_limit_s(&self) -> Option<u64> {
        self.timeout
    }

    fn desired_value(&self) -> Value {
        let check = match &self.check {
            CommandCheck::Script(script) => json!({ "check": script }),
            CommandCheck::Creates(path) => json!({ "creates": path }),
        };
        let env: serde_json::Map<String, Value> = self.env.iter().map(|(k, v)| (k.clone(), json!(v))).collect();
        json!({
            "check": check, "apply": self.apply, "verify": self.verify, "user": self.user, "cwd": self.cwd,
            "env": env, "absent": self.absent,
        })
    }

    fn provided_items(&self) -> Vec<ProvidedItem> {
        match &self.check {
            CommandCheck::Creates(path) if !self.absent => vec![ProvidedItem::Path(path.clone())],
            _ => Vec::new(),
        }
    }

    fn restart_input_paths(&self) -> Vec<String> {
        match &self.check {
            CommandCheck::Creates(path) => vec![path.clone()],
            CommandCheck::Script(_) => Vec::new(),
        }
    }

    /// Returns no claims: two commands may look the same.
    fn exclusive_claims(&self) -> Vec<(&'static str, String)> {
        Vec::new()
    }
}

impl TypedResource for CommandResource {
    type Diff = CommandDiff;

    fn diff(&self, seen: &Observation, cx: &AssessmentContext<'_>) -> Assessment<CommandDiff> {
        let assessment = match self.evaluate_checks(seen) {
            Ok(found) => self.assess_check_result(found, cx),
            Err(unknown) => self.assess_unknown(&unknown, cx),
        };
        match &self.images {
            None => assessment,
            Some(images) => Assessment {
                images: images.iter().map(|(image, _)| image.clone()).collect(),
                image_sources: images.iter().filter(|(image, source)| image != source).cloned().collect(),
                runs_unknown_images: images.is_empty(),
                ..assessment
            },
        }
    }

    fn act(&self, diff: &CommandDiff, _cx: &AssessmentContext<'_>) -> Action {
        let script = match diff {
            CommandDiff::Apply { .. } => &self.apply,
            CommandDiff::Remove { .. } => self.remove.as_deref().unwrap_or_default(),
        };
        Action::Script(ActionScript { body: self.render_script(script), long: false, explain: EXPLAIN })
    }

    fn guard(&self, diff: &CommandDiff) -> GuardEffect {
        GuardEffect { reruns: matches!(diff, CommandDiff::Apply { .. }), ..GuardEffect::default() }
    }

    fn undo(&self, diff: &CommandDiff) -> UndoEffect {
        let fields = self.declared_fields();
        match (diff, &self.remove) {
            (_, None) => UndoEffect::irreversible("the command declares no `remove`"),
            (CommandDiff::Remove { .. }, _) if self.apply.is_empty() => {
                UndoEffect::irreversible("the command declares no `apply`")
            }
            _ if SecretStore::has_placeholder(&fields.to_string()) => {
                UndoEffect::irreversible("the command reads a secret, which the host does not keep")
            }
            (CommandDiff::Apply { .. }, Some(_)) => {
                UndoEffect::declare(vec![UndoDeclaration::absent(KIND.name, fields)])
            }
            (CommandDiff::Remove { .. }, Some(_)) => {
                let again = UndoEffect::declare(vec![UndoDeclaration::present(KIND.name, fields)]);
                UndoEffect { lost: Some("`apply` runs again, and may not make the same again".into()), ..again }
            }
        }
    }
}

#[cfg(test)]
mod tests;
