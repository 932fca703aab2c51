//! `cron`: one cron job in its own file in `/etc/cron.d`.

mod schedule;

use crate::diag::Diag;
use crate::model::{BlockClass, DisruptionClass, SecretStore, StepVerdict, UndoEffect, Value};
use crate::probe::{CheckProbe, Observation, Probe, UnansweredReason, UserState};
use crate::resource::shared::composite::{PartAssessments, render_part};
use crate::resource::shared::file_target::{FileBody, FileDiff, FileTarget, path_probe};
use crate::resource::shared::job_account::{assess_job_account, job_account_probe};
use crate::resource::shared::shell;
use crate::resource::shared::support::{bad_value, output, required_text, unit_state, user_state};
use crate::resource::traits::{GuardSupport, KindTraits};
use crate::resource::{
    Action, ActionScript, Assessment, AssessmentContext, AttributeChange, ChangeMark, ChangedObject, ChangedPart,
    DeclaredResource, FieldSpec, FieldType, FieldValues, ProvidedItem, Resource, ResourceDiff, ResourceKind,
    TypedResource,
};
use serde::Serialize;
use serde_json::json;

pub(in crate::resource) const KIND: ResourceKind = ResourceKind {
    name: "cron",
    summary: "A cron job in its own file.",
    example: include_str!("../../examples/cron.yaml"),
    doc: "\
The job is written to `/etc/cron.d/NAME`, owned by root with mode 0644 (0600 if it contains a secret), because cron
ignores files that other users can write. cron also ignores file names with characters other than letters, digits, `_`
and `-`, so forge rejects them, as it rejects invalid schedules.

**Compares** the file like a `file` step and the number of its hard links, because cron ignores a file with several names,
and checks that a cron daemon is active: `cron.service` or `crond.service`. An
unchanged step reports `content, owner and mode match; cron.service is active`.

**Blocked**: the account does not exist; cron then ignores the file. Or it has expired (`chage -E`); cron then starts
no job of it. Other rules of PAM, such as a password that must be changed, are not read.

**Pending**: the file matches, but cron is not installed or not active. Add `package` and `service` steps before this
one, or use a `timer`, which needs only systemd. The plan that writes the file already reports this.

**A change** replaces the file atomically; cron reads it within a minute.

**Removal** removes the file. A running job continues.",
    fields: &[
        FieldSpec::required("name", FieldType::Name, "File name: letters, digits, `_` and `-`."),
        FieldSpec::required(
            "schedule",
            FieldType::Line,
            "Five fields, as in `*/10 * * * *`, or a keyword such as `@daily`. Ranges take numbers, not names.",
        ),
        FieldSpec::required("command", FieldType::Line, "Shell command. Write `%` as is: forge escapes it for cron."),
        FieldSpec::optional("user", FieldType::Name, "User that runs the job. Default `root`."),
        FieldSpec::optional(
            "env",
            FieldType::Map(&FieldType::Line),
            "Environment variables. cron expands nothing in the values. They may be secrets.",
        ).passing_secrets(),
        FieldSpec::optional(
            "backup",
            FieldType::Bool,
            "Keep a backup of the previous file on the host. Default `true`.",
        ),
    ],
    build,
    traits: KindTraits { guard: GuardSupport::Own, ..KindTraits::DEFAULT },
};

/// The most bytes of a command and of a variable's line that cron reads (`MAX_COMMAND` in Debian's cron.h, one of them
/// the end of the string; `MAX_ENVSTR` in cronie's). It ignores a file that exceeds them.
const MAX_COMMAND: usize = 998;
const MAX_VARIABLE: usize = 998;

/// Prints the number of names of a file, nothing if it does not exist.
const COUNT_LINKS: &str = "stat -c %h -- \"$FORGE_PATH\"";

/// The services that read `/etc/cron.d`, as named by Debian and by Red Hat.
const DAEMONS: [&str; 2] = ["cron.service", "crond.service"];

#[derive(Debug)]
struct CronResource {
    name: String,
    target: FileTarget,
    user: String,
    backup: bool,
    absent: bool,
}

fn build(fields: &FieldValues, absent: bool) -> Result<Box<dyn Resource>, Diag> {
    let name = required_text(fields, "name")?;
    if !name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-')) {
        return Err(bad_value(format!("`{name}` is not a valid cron file name"))
            .with_field("name")
            .hint("use letters, digits, `_` and `-` only"));
    }
    let body = if absent { String::new() } else { render_cron_file(fields)? };
    let mode = if SecretStore::has_placeholder(&body) { 0o600 } else { 0o644 };
    let target = FileTarget {
        path: format!("/etc/cron.d/{name}"),
        body: FileBody::new(body),
        owner: "root".into(),
        group: "root".into(),
        mode,
    };
    Ok(Box::new(CronResource {
        name: name.to_owned(),
        target,
        user: fields.get_text("user").unwrap_or("root").to_owned(),
        backup: fields.get_bool("backup").unwrap_or(true),
        absent,
    }))
}

fn render_cron_file(fields: &FieldValues) -> Result<String, Diag> {
    let schedule = schedule::parse_schedule(required_text(fields, "schedule")?)
        .map_err(|why| bad_value(why).with_field("schedule"))?;
    let command = required_text(fields, "command")?.trim();
    if command.is_empty() {
        return Err(bad_value("`command` is empty").with_field("command"));
    }
    if command.contains("\\%") {
        return Err(bad_value("`command` must not contain `\\%`")
            .with_field("command")
            .hint("write `%`: forge escapes it for cron"));
    }
    let command = command.replace('%', "\\%");
    if command.len() > MAX_COMMAND {
        return Err(bad_value(format!(
            "`command` has {} bytes, and cron ignores a file with more than {MAX_COMMAND}",
            command.len()
        ))
        .with_field("command")
        .hint("write it to a script with a `file` step, and run that"));
    }
    let user = fields.get_text("user").unwrap_or("root");
    crate::resource::shared::support::check_account_name("user", user)?;
    let mut lines = Vec::new();
    for (name, value) in fields.get_text_map("env").unwrap_or_default() {
        lines.push(render_variable(&name, &value)?);
    }
    lines.push(format!("{schedule} {user} {command}\n"));
    Ok(lines.join("\n"))
}

fn render_variable(name: &str, value: &str) -> Result<String, Diag> {
    let starts = name.bytes().next().is_some_and(|b| b.is_ascii_alphabetic() || b == b'_');
    if !starts || !name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_') {
        return Err(bad_value(format!("`{name}` is not a valid environment variable name")).with_field("env"));
    }
    // cron strips quotes around a value and supports no escapes inside.
    if value.contains(['"', '\'']) {
        return Err(bad_value(format!("the value of `{name}` must not contain quotes, because cron strips them"))
            .with_field("env"));
    }
    let line = format!("{name}=\"{value}\"");
    match line.len() > MAX_VARIABLE {
        true => {
            Err(bad_value(format!("`{name}` is longer than the {MAX_VARIABLE} bytes that cron reads of a variable"))
                .with_field("env"))
        }
        false => Ok(line),
    }
}

fn daemon_probe(name: &str) -> Probe {
    Probe::Unit { name: name.to_owned() }
}

impl CronResource {
    /// Evaluates whether a daemon will read the file. No change depends on this, so it is not part of the basis: an
    /// earlier step may start cron.
    fn assess_daemon(&self, seen: &Observation, cx: &AssessmentContext<'_>) -> Assessment<CronDiff> {
        let mut there = None;
        for name in DAEMONS {
            let unit = match unit_state(seen, &daemon_probe(name)) {
                Ok(unit) => unit,
                Err(unknown) => return Assessment::unknown(&unknown),
            };
            match (unit.load.as_str(), unit.active.as_str()) {
                ("not-found", _) => {}
                (_, "active" | "reloading" | "refreshing") => {
                    return Assessment::ok(format!("{name} is active"), Value::Null);
                }
                (_, active) => there = there.or(Some((name, active))),
            }
        }
        if let Some(name) = DAEMONS.iter().find(|name| is_declared(&ProvidedItem::Unit((**name).to_owned()), cx)) {
            return Assessment::ok(format!("an earlier step starts {name}"), Value::Null);
        }
        match there {
            _ if will_install_cron(cx) => Assessment::ok("an earlier step installs cron", Value::Null),
            Some((name, active)) => pending_assessment(format!("`{name}` is {active}"))
                .hint(format!("add a `service` step for `{}`", name.trim_end_matches(".service"))),
            None => pending_assessment("cron is not installed".to_owned())
                .hint("add `package` and `service` steps for cron before this one, or use a `timer`"),
        }
    }

    /// Returns the probe for the number of names that the file has.
    fn links_probe(&self) -> Probe {
        Probe::Check(Box::new(CheckProbe {
            id: format!("links of `{}`", self.target.path),
            script: COUNT_LINKS.to_owned(),
            user: None,
            cwd: None,
            env: vec![("FORGE_PATH".to_owned(), self.target.path.clone())],
            timeout_s: Some(10),
        }))
    }

    /// Evaluates a file that matches: cron ignores it if it has several names, because users could link it elsewhere.
    fn assess_links(&self, seen: &Observation, file: Assessment<CronDiff>) -> Assessment<CronDiff> {
        let links = match output(seen, &self.links_probe()) {
            Err(unknown) => return Assessment::unknown(&unknown),
            Ok(output) => output.stdout.raw().trim().parse::<u64>(),
        };
        match links {
            Ok(1) => file,
            Ok(links) => {
                let reason = format!("the file has {links} hard links: cron ignores it");
                Assessment::differs(reason, CronDiff::Links { links }, DisruptionClass::D0, json!({ "links": links }))
            }
            Err(_) => Assessment::unknown(&UnansweredReason::new("the hard links of the file could not be counted")),
        }
    }

    /// Returns the judgement of a job whose account has expired.
    fn assess_expiry(&self, seen: &Observation) -> Option<Assessment<CronDiff>> {
        let probe = job_account_probe(&self.user)?;
        let Ok(UserState::Present(account)) = user_state(seen, &probe) else { return None };
        account.expired.then(|| {
            let reason = format!("account `{}` has expired: cron starts no job of it", self.user);
            let blocked = Assessment::blocked(BlockClass::Host, reason, json!({ "account": "expired" }));
            blocked.host_hint(format!("run `chage -E -1 {}` on the host, or declare another `user`", self.user))
        })
    }

    /// Evaluates account, file and daemon. The plan reports a missing daemon even if the file still has to be written.
    fn assess_job(&self, seen: &Observation, cx: &AssessmentContext<'_>) -> Assessment<CronDiff> {
        if let Some(judged) = assess_job_account(&self.user, "cron ignores the file", seen, cx.predicted) {
            return judged;
        }
        if let Some(judged) = self.assess_expiry(seen) {
            return judged;
        }
        let daemon = self.assess_daemon(seen, cx);
        let waits = daemon.clone();
        let mut file = self.target.assess(seen, cx, false).map_diff(|diff| CronDiff::File(Box::new(diff)));
        if file.verdict == StepVerdict::Ok {
            file = self.assess_links(seen, file);
        }
        let diff = file.diff.take();
        let both = PartAssessments::default().with_part("file", file).with_part("daemon", daemon).combine_with(diff);
        match (both.verdict, waits.verdict) {
            (StepVerdict::Change, StepVerdict::Pending) => {
                let reason = format!("{}; {}", both.reason.raw(), waits.reason.raw());
                Assessment { reason: reason.into(), hint: waits.hint, ..both }
            }
            _ => both,
        }
    }
}

fn pending_assessment(why: String) -> Assessment<CronDiff> {
    let reason = format!("{NOTHING_RUNS}: {why}");
    Assessment { verdict: StepVerdict::Pending, ..Assessment::ok(reason, Value::Null) }
}

/// Reports whether an earlier step installs a package with a cron daemon, as named by Debian or by Red Hat.
fn will_install_cron(cx: &AssessmentContext<'_>) -> bool {
    ["cron", "cronie"].iter().any(|name| is_declared(&ProvidedItem::Package((*name).to_owned()), cx))
}

/// Reports whether an earlier step provides `item` by name. Any package may bring it, but few do.
fn is_declared(item: &ProvidedItem, cx: &AssessmentContext<'_>) -> bool {
    cx.predicted.is_some_and(|predicted| predicted.will_provide_by_name(item))
}

const NOTHING_RUNS: &str = "nothing runs it";

const EXPLAIN: &[(&str, &str)] = &[
    (
        "directory /etc/cron.d does not exist",
        "cron is not installed: add its `package` step before this one, or use a `timer`",
    ),
    ("No space left on device", "the file system is full; the old file is unchanged"),
];

impl DeclaredResource for CronResource {
    fn kind(&self) -> &'static str {
        KIND.name
    }

    fn title(&self) -> String {
        self.name.clone()
    }

    fn changed_object(&self, _mark: &ChangeMark) -> ChangedObject {
        ChangedObject::Path(self.target.path.clone())
    }

    fn probes(&self) -> Vec<Probe> {
        match self.absent {
            true => vec![path_probe(&self.target.path)],
            false => {
                let daemons = DAEMONS.map(daemon_probe);
                let own = self.target.probes().into_iter().chain([self.links_probe()]);
                own.chain(daemons).chain(job_account_probe(&self.user)).collect()
            }
        }
    }

    fn desired_value(&self) -> Value {
        match self.absent {
            true => json!({ "path": self.target.path, "absent": true }),
            false => self.target.desired_value(),
        }
    }

    fn provided_items(&self) -> Vec<ProvidedItem> {
        (!self.absent).then(|| ProvidedItem::Path(self.target.path.clone())).into_iter().collect()
    }

    fn restart_input_paths(&self) -> Vec<String> {
        vec![self.target.path.clone()]
    }

    fn exclusive_claims(&self) -> Vec<(&'static str, String)> {
        vec![("path", self.target.path.clone())]
    }
}

/// How `/etc/cron.d/NAME` differs. Whether a daemon reads it is no difference: the kind does not start one.
#[derive(Clone, Debug, PartialEq, Serialize)]
enum CronDiff {
    File(Box<FileDiff>),
    /// The file matches, but has several names; a new file replaces this one of them.
    Links {
        links: u64,
    },
}

impl ResourceDiff for CronDiff {
    fn render_changes(&self) -> Vec<AttributeChange> {
        match self {
            Self::File(file) => render_part("file", ChangedPart::File, Some(&**file)),
            Self::Links { links } => {
                let change = AttributeChange::new("hard links", Some(&links.to_string()), Some("1"));
                vec![change.with_part(ChangedPart::File)]
            }
        }
    }
}

impl TypedResource for CronResource {
    type Diff = CronDiff;

    fn diff(&self, seen: &Observation, cx: &AssessmentContext<'_>) -> Assessment<CronDiff> {
        match self.absent {
            true => self.target.assess_absent(seen).map_diff(|diff| CronDiff::File(Box::new(diff))),
            false => self.assess_job(seen, cx),
        }
    }

    fn act(&self, diff: &CronDiff, cx: &AssessmentContext<'_>) -> Action {
        let target = &self.target;
        let removes = matches!(diff, CronDiff::File(file) if matches!(**file, FileDiff::Remove { .. }));
        let body = match removes {
            true => shell::remove_file(&target.path, cx.run, self.backup),
            false => target.render_write(cx, self.backup, ""),
        };
        Action::Script(ActionScript { body, long: false, explain: EXPLAIN })
    }

    fn undo(&self, diff: &CronDiff) -> UndoEffect {
        match diff {
            CronDiff::File(file) => self.target.undo_write(self.backup, file),
            CronDiff::Links { .. } => UndoEffect::restore_paths([&self.target.path]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn build_cron_file(fields: &[(&'static str, Value)]) -> Result<String, String> {
        let usual = [("name", json!("job")), ("schedule", json!("@daily")), ("command", json!("true"))];
        let fields = FieldValues(usual.into_iter().chain(fields.iter().cloned()).collect());
        render_cron_file(&fields).and_then(|text| build(&fields, false).map(|_| text)).map_err(|diag| diag.message)
    }

    #[test]
    fn cron_file_escapes_percent_signs_and_quotes_env() {
        let env = json!({ "PATH": "/usr/bin:/bin" });
        assert_eq!(
            build_cron_file(&[("command", json!("date +%F")), ("user", json!("ops")), ("env", env)]).unwrap(),
            "PATH=\"/usr/bin:/bin\"\n@daily ops date +\\%F\n"
        );
    }

    #[test]
    fn invalid_cron_fields_are_rejected() {
        let refused = |field, value| build_cron_file(&[(field, value)]).unwrap_err();
        assert_eq!(refused("name", json!("job.sh")), "`job.sh` is not a valid cron file name");
        assert_eq!(refused("schedule", json!("* * * * 8")), "`8` is not a valid day of the week (0 to 7)");
        assert_eq!(refused("command", json!(" ")), "`command` is empty");
        assert_eq!(refused("command", json!("date +\\%F")), "`command` must not contain `\\%`");
        let long = "x".repeat(999);
        assert!(build_cron_file(&[("command", json!(long[..998]))]).is_ok());
        assert_eq!(
            refused("command", json!(long)),
            "`command` has 999 bytes, and cron ignores a file with more than 998"
        );
        assert_eq!(
            refused("env", json!({ "A": long })),
            "`A` is longer than the 998 bytes that cron reads of a variable"
        );
        assert_eq!(refused("env", json!({ "A-B": "" })), "`A-B` is not a valid environment variable name");
        assert_eq!(
            refused("env", json!({ "A": "\"x\"" })),
            "the value of `A` must not contain quotes, because cron strips them"
        );
    }
}
