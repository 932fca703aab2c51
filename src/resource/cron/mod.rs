//! `cron`: one job in a file of its own in `/etc/cron.d`.

mod schedule;

use super::body::{Body, Target, bare};
use super::parts::Parts;
use super::shell;
use super::support::{bad_value, brought, required, unit_state};
use super::{Action, Context, Field, Fields, Judgement, Kind, Provision, Resource, Type};
use crate::diag::Diag;
use crate::model::{SecretStore, Value, Verdict};
use crate::probe::{Observation, Probe};
use serde_json::json;

pub(super) const KIND: Kind = Kind {
    name: "cron",
    summary: "A job of cron, in a file of its own.",
    example: include_str!("../examples/cron.yaml"),
    doc: "\
The job stands in `/etc/cron.d/NAME`, which belongs to root and has mode 0644 (0600 where it holds a secret): cron
passes over files that others may write. It passes over names with other characters than letters, digits, `_` and `-` too,
so they are refused, and so is a schedule that cron would not read.

**Compared** are the file like one of kind `file`, and whether a cron runs that will read it: `cron.service` or
`crond.service`. Nothing to do reads `content, owner and mode are as declared; cron.service runs it`.

**Pending**: the file is right, and no cron is installed or none runs. Add steps of `package` and `service` before
this one, or declare a `timer`, which needs nothing but systemd. The plan that writes the file says so already.

**A change** puts the file in place in one step; cron reads it within a minute.

**Removal** removes the file. A job that runs at that moment goes on.",
    fields: &[
        Field::required("name", Type::Name, "Name of the file: letters, digits, `_` and `-`."),
        Field::required(
            "schedule",
            Type::Line,
            "Five fields, as in `*/10 * * * *`, or `@daily` and the like. Names of days and months stand alone, not in ranges.",
        ),
        Field::required("command", Type::Line, "What the shell runs. A `%` means itself here: forge escapes it for cron."),
        Field::optional("user", Type::Name, "Whose job it is. Default `root`."),
        Field::optional("env", Type::Map(&Type::Line), "Variables of the job. Cron expands nothing in them."),
        Field::optional("backup", Type::Bool, "Whether the previous file is kept on the host. Default `true`."),
    ],
    build,
};

/// The services that read `/etc/cron.d`: Debian's name and Red Hat's.
const DAEMONS: [&str; 2] = ["cron.service", "crond.service"];

#[derive(Debug)]
struct Cron {
    name: String,
    target: Target,
    backup: bool,
    absent: bool,
}

fn build(fields: &Fields, absent: bool) -> Result<Box<dyn Resource>, Diag> {
    let name = required(fields, "name")?;
    if !name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-')) {
        return Err(
            bad_value(format!("cron passes over a file named `{name}`")).hint("use letters, digits, `_` and `-` only")
        );
    }
    let body = if absent { String::new() } else { body(fields)? };
    let mode = if SecretStore::mentions(&body) { 0o600 } else { 0o644 };
    let target = Target {
        path: format!("/etc/cron.d/{name}"),
        body: Body::new(body),
        owner: "root".into(),
        group: "root".into(),
        mode,
    };
    Ok(Box::new(Cron { name: name.to_owned(), target, backup: fields.bool("backup").unwrap_or(true), absent }))
}

fn body(fields: &Fields) -> Result<String, Diag> {
    let schedule = schedule::parse(required(fields, "schedule")?).map_err(bad_value)?;
    let command = required(fields, "command")?.trim();
    if command.is_empty() {
        return Err(bad_value("the command of the job is empty"));
    }
    if command.contains("\\%") {
        return Err(
            bad_value("`\\%` in a command would reach the shell as it stands").hint("write `%`: forge escapes it")
        );
    }
    let user = fields.text("user").unwrap_or("root");
    super::support::account_name("user", user)?;
    let mut lines = Vec::new();
    for (name, value) in fields.map("env").unwrap_or_default() {
        lines.push(variable(&name, &value)?);
    }
    lines.push(format!("{schedule} {user} {}\n", command.replace('%', "\\%")));
    Ok(lines.join("\n"))
}

fn variable(name: &str, value: &str) -> Result<String, Diag> {
    let starts = name.bytes().next().is_some_and(|b| b.is_ascii_alphabetic() || b == b'_');
    if !starts || !name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_') {
        return Err(bad_value(format!("`{name}` cannot name an environment variable")));
    }
    // Cron takes quotes around a value away, and nothing inside.
    match value.contains(['"', '\'']) {
        true => Err(bad_value(format!("the value of `{name}` holds a quote, which cron would take away"))),
        false => Ok(format!("{name}=\"{value}\"")),
    }
}

fn daemon(name: &str) -> Probe {
    Probe::Unit { name: name.to_owned() }
}

impl Cron {
    /// Judges whether something is going to read the file. No change rests on that, so it is no part of the basis: an
    /// earlier step may well start cron.
    fn judge_daemon(&self, seen: &Observation, cx: &Context<'_>) -> Judgement {
        let mut there = None;
        for name in DAEMONS {
            let unit = match unit_state(seen, &daemon(name)) {
                Ok(unit) => unit,
                Err(unknown) => return Judgement::unknown(&unknown),
            };
            match (unit.load.as_str(), unit.active.as_str()) {
                ("not-found", _) => {}
                (_, "active" | "reloading" | "refreshing") => {
                    return Judgement::ok(format!("{name} runs it"), Value::Null);
                }
                (_, active) => there = there.or(Some((name, active))),
            }
        }
        if let Some(name) = DAEMONS.iter().find(|name| brought(cx.predicted, &Provision::Unit((**name).to_owned()))) {
            return Judgement::ok(format!("an earlier step brings {name}"), Value::Null);
        }
        match there {
            Some((name, active)) => pending(format!("`{name}` is {active}"))
                .hint(format!("add a `service` step for `{}`", name.trim_end_matches(".service"))),
            None if brings_package(cx) => Judgement::ok("an earlier step installs cron", Value::Null),
            None => pending("no cron is installed".to_owned())
                .hint("add the `package` and `service` steps of cron before this one, or declare a `timer`"),
        }
    }

    /// A file that is yet to be written waits for the same: that is said before it is written.
    fn judge_both(&self, seen: &Observation, cx: &Context<'_>) -> Judgement {
        let daemon = self.judge_daemon(seen, cx);
        let waits = daemon.clone();
        let both = Parts::default().with("file", self.target.judge(seen, cx, false)).with("daemon", daemon).judgement();
        match (both.verdict, waits.verdict) {
            (Verdict::Change, Verdict::Pending) => {
                let reason = format!("{}; {}", both.reason.raw(), waits.reason.raw().trim_start_matches(CONFIGURED));
                Judgement { reason: reason.into(), hint: waits.hint, ..both }
            }
            _ => both,
        }
    }
}

fn pending(why: String) -> Judgement {
    let reason = format!("{CONFIGURED}{NOTHING_RUNS}: {why}");
    Judgement { verdict: Verdict::Pending, ..Judgement::ok(reason, Value::Null) }
}

/// Whether an earlier step installs a package that brings a cron: Debian's name and Red Hat's.
fn brings_package(cx: &Context<'_>) -> bool {
    ["cron", "cronie"].iter().any(|name| brought(cx.predicted, &Provision::Package((*name).to_owned())))
}

const CONFIGURED: &str = "configured, and ";
const NOTHING_RUNS: &str = "nothing runs it";

const EXPLAIN: &[(&str, &str)] = &[
    (
        "directory /etc/cron.d does not exist",
        "no cron is installed: add its `package` step before this one, or declare a `timer`",
    ),
    ("No space left on device", "the file system is full; the old file is untouched"),
];

impl Resource for Cron {
    fn kind(&self) -> &'static str {
        KIND.name
    }

    fn title(&self) -> String {
        self.name.clone()
    }

    fn probes(&self) -> Vec<Probe> {
        match self.absent {
            true => vec![bare(&self.target.path)],
            false => self.target.probes().into_iter().chain(DAEMONS.map(daemon)).collect(),
        }
    }

    fn judge(&self, seen: &Observation, cx: &Context<'_>) -> Judgement {
        match self.absent {
            true => self.target.judge_absent(seen),
            false => self.judge_both(seen, cx),
        }
    }

    fn act(&self, _judgement: &Judgement, cx: &Context<'_>) -> Action {
        let target = &self.target;
        let body = match self.absent {
            true => shell::remove_file(&target.path, cx.run, self.backup),
            false => target.write(cx, self.backup, ""),
        };
        Action { body, long: false, explain: EXPLAIN }
    }

    fn desired(&self) -> Value {
        match self.absent {
            true => json!({ "path": self.target.path, "absent": true }),
            false => self.target.desired(),
        }
    }

    fn provides(&self) -> Vec<Provision> {
        (!self.absent).then(|| Provision::Path(self.target.path.clone())).into_iter().collect()
    }

    fn inputs(&self) -> Vec<String> {
        vec![self.target.path.clone()]
    }

    fn claims(&self) -> Vec<(&'static str, String)> {
        vec![("path", self.target.path.clone())]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn built(fields: &[(&'static str, Value)]) -> Result<String, String> {
        let usual = [("name", json!("job")), ("schedule", json!("@daily")), ("command", json!("true"))];
        let fields = Fields(usual.into_iter().chain(fields.iter().cloned()).collect());
        body(&fields).and_then(|text| build(&fields, false).map(|_| text)).map_err(|diag| diag.message)
    }

    #[test]
    fn the_file_as_cron_reads_it() {
        let env = json!({ "PATH": "/usr/bin:/bin" });
        assert_eq!(
            built(&[("command", json!("date +%F")), ("user", json!("ops")), ("env", env)]).unwrap(),
            "PATH=\"/usr/bin:/bin\"\n@daily ops date +\\%F\n"
        );
    }

    #[test]
    fn what_cron_would_pass_over_is_refused() {
        let refused = |field, value| built(&[(field, value)]).unwrap_err();
        assert_eq!(refused("name", json!("job.sh")), "cron passes over a file named `job.sh`");
        assert_eq!(refused("schedule", json!("* * * * 8")), "`8` is not a day of the week (0 to 7)");
        assert_eq!(refused("command", json!(" ")), "the command of the job is empty");
        assert_eq!(refused("command", json!("date +\\%F")), "`\\%` in a command would reach the shell as it stands");
        assert_eq!(refused("env", json!({ "A-B": "" })), "`A-B` cannot name an environment variable");
        assert_eq!(
            refused("env", json!({ "A": "\"x\"" })),
            "the value of `A` holds a quote, which cron would take away"
        );
    }
}
