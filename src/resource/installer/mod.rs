//! `installer`: a program that is run once per version, and the probe that tells which version is there.

mod judge;
mod script;

use super::artifact::content;
use super::support::{bad_value, required};
use super::{Action, Context, Field, Fields, Judgement, Kind, Resource, Type, shell};
use crate::artifact::Sha256;
use crate::diag::{Code, Diag};
use crate::model::{SecretStore, Value};
use crate::probe::{Observation, Probe};
use regex::Regex;
use serde_json::json;
use std::collections::BTreeMap;

pub(super) const KIND: Kind = Kind {
    name: "installer",
    summary: "A program that installs one version of something, run where a probe finds another.",
    example: include_str!("../examples/installer.yaml"),
    doc: "\
For software that comes as a program of its own: a driver as `.run` file, `mlnxofedinstall`, a vendor's setup script. An
earlier step brings the program to the host, an [`artifact`](artifact.md) for instance.

**Compared** is `version` with what **`probe`** prints: a read-only shell command that asks what is installed, in every plan
and right before and after the change. That the program ran once is no proof of anything, so nothing is remembered of it.
The version is the first line that is printed, or the first group of `pattern`. An exit status of 1 or 127 (or those of
`not_installed`), or nothing printed, means that nothing is installed; with any other status, or where `pattern` does not
match, the step is `unknown`. Nothing to do reads `560.35.03 is installed`.

**A change** runs `path` with `args`, by `sh` where it is not executable, as a long step that outlives a lost connection:
root, umask 022, stdin closed, each argument as it was written. With `sha256` the program is compared on the host first.
A program that others than root can change or replace is not run: put it where only root can write.
It must be able to run over an installation that broke half-way, since it may be killed. Then `probe` is asked again: an exit
status of 0 that leaves another version fails the step. **Secrets belong into `env`**: what stands in an argument everybody
on the host sees, so it is refused there.

**A failure** is told with the meaning that `exit_codes` gives to the exit status, what is installed afterwards, and the last
lines of `log`, if the program wrote to it. `also_ok` names statuses beside 0 that mean success.

**Disruption** is D1 when an installed version changes; what a driver disturbs, the step's `disruption` says. How long it may
take, the step's `timeout` says (four hours without one).

**Removal** runs `uninstall`; an installer without one cannot be removed.",
    fields: FIELDS,
    build,
};

const PROGRAM: &[Field] = &[
    Field::required("path", Type::Path, "The program on the host."),
    Field::optional("args", Type::List(&Type::Text), "Its arguments."),
];

const FIELDS: &[Field] = &[
    Field::required("path", Type::Path, "The program on the host; run by `sh` if it is not executable."),
    Field::optional("args", Type::List(&Type::Text), "Its arguments, each as it is written. No secrets."),
    Field::required("version", Type::Version, "The version that is there once it ran."),
    Field::required("probe", Type::Text, "Read-only; prints the version that is installed."),
    Field::optional(
        "pattern",
        Type::Line,
        "A regular expression for what `probe` prints, whose first group is the version. The first line when left out.",
    ),
    Field::optional(
        "not_installed",
        Type::List(&Type::Int { min: 1, max: 255 }),
        "Exit statuses of `probe` that mean that nothing is installed. Default `[1, 127]`.",
    ),
    Field::optional("sha256", Type::Line, "What the program's SHA-256 must be when it runs, in hex."),
    Field::optional("exit_codes", Type::Map(&Type::Line), "What exit statuses of the program mean, for messages."),
    Field::optional(
        "also_ok",
        Type::List(&Type::Int { min: 1, max: 255 }),
        "Exit statuses of the program that mean success, beside 0.",
    ),
    Field::optional(
        "log",
        Type::Line,
        "The program's log, shown when it fails: an absolute path, in which `*` and `?` may stand for parts of names.",
    ),
    Field::optional("cwd", Type::Path, "The working directory. Default `/`."),
    Field::optional("env", Type::Map(&Type::Text), "Environment variables; values may be secrets."),
    Field::optional(
        "uninstall",
        Type::Table(PROGRAM),
        "The program that takes it away again, for a removal: `path` and `args`.",
    ),
];

/// What `probe` exits with where nothing is installed: it says so, or is not there itself.
const NOT_INSTALLED: [i64; 2] = [1, 127];

#[derive(Debug)]
struct Installer {
    program: Program,
    version: String,
    probe: String,
    pattern: Option<Regex>,
    not_installed: Vec<i64>,
    sha256: Option<Sha256>,
    exit_codes: BTreeMap<i32, String>,
    also_ok: Vec<i64>,
    log: String,
    cwd: String,
    env: Vec<(String, String)>,
    absent: bool,
}

#[derive(Debug)]
struct Program {
    path: String,
    args: Vec<String>,
}

fn build(fields: &Fields, absent: bool) -> Result<Box<dyn Resource>, Diag> {
    let own = Program { path: required(fields, "path")?.to_owned(), args: fields.texts("args").unwrap_or_default() };
    let program = if absent { uninstall(fields)? } else { own };
    program.args.iter().try_for_each(|arg| open(arg))?;
    Ok(Box::new(Installer {
        program,
        version: required(fields, "version")?.to_owned(),
        probe: super::command::fits("probe", required(fields, "probe")?)?,
        pattern: fields.text("pattern").map(pattern).transpose()?,
        not_installed: fields.ints("not_installed").unwrap_or_else(|| NOT_INSTALLED.to_vec()),
        sha256: fields.text("sha256").filter(|_| !absent).map(digest).transpose()?,
        exit_codes: exit_codes(fields)?,
        also_ok: fields.ints("also_ok").unwrap_or_default(),
        log: log(fields)?,
        cwd: fields.text("cwd").unwrap_or("/").to_owned(),
        env: super::command::environment(fields)?,
        absent,
    }))
}

fn uninstall(fields: &Fields) -> Result<Program, Diag> {
    let Some(table) = fields.table("uninstall") else {
        return Err(Diag::error(Code::BadStep, "an installer without `uninstall` cannot be removed")
            .hint("add `uninstall:`, the program that takes it away again"));
    };
    let args = table.get("args").and_then(Value::as_array).into_iter().flatten();
    Ok(Program {
        path: table.get("path").and_then(Value::as_str).unwrap_or_default().to_owned(),
        args: args.filter_map(|arg| arg.as_str().map(str::to_owned)).collect(),
    })
}

/// Refuses what only the program may know.
fn open(arg: &str) -> Result<(), Diag> {
    match SecretStore::mentions(arg) {
        true => Err(bad_value("a secret cannot stand in `args`: everybody on the host sees them")
            .hint("give it in `env`, or as a file that only root reads")),
        false => Ok(()),
    }
}

fn pattern(text: &str) -> Result<Regex, Diag> {
    let regex = regex::RegexBuilder::new(text).multi_line(true).build();
    let regex = regex.map_err(|_| bad_value("`pattern` is no regular expression"))?;
    match regex.captures_len() {
        0 | 1 => Err(bad_value("`pattern` has no group that would be the version")
            .hint("put parentheses round it: `^MLNX_OFED_LINUX-(.*):$`")),
        _ => Ok(regex),
    }
}

fn digest(text: &str) -> Result<Sha256, Diag> {
    Sha256::parse(text).ok_or_else(|| bad_value("`sha256` is not 64 hexadecimal digits").about("sha256"))
}

fn exit_codes(fields: &Fields) -> Result<BTreeMap<i32, String>, Diag> {
    let one = |(code, meaning): (String, String)| match code.parse::<i32>() {
        Ok(code) if (1..=255).contains(&code) => Ok((code, meaning)),
        _ => Err(bad_value(format!("`exit_codes` names `{code}`, which is no exit status from 1 to 255"))),
    };
    fields.map("exit_codes").unwrap_or_default().into_iter().map(one).collect()
}

fn log(fields: &Fields) -> Result<String, Diag> {
    let log = fields.text("log").unwrap_or_default();
    match log.is_empty() || log.starts_with('/') {
        true => Ok(log.to_owned()),
        false => Err(bad_value("`log` must be an absolute path")),
    }
}

impl Installer {
    /// Returns the question about the version.
    fn version_probe(&self) -> Probe {
        Probe::Check {
            id: format!("version for `{}`", self.title()),
            script: self.probe.clone(),
            user: None,
            cwd: None,
            env: Vec::new(),
            timeout_s: None,
        }
    }
}

impl Resource for Installer {
    fn kind(&self) -> &'static str {
        KIND.name
    }

    fn title(&self) -> String {
        let name = self.program.path.rsplit('/').next().unwrap_or_default();
        if self.absent { name.to_owned() } else { format!("{name} ({})", self.version) }
    }

    fn probes(&self) -> Vec<Probe> {
        vec![self.version_probe(), content::probe(&self.program.path, self.sha256.is_some())]
    }

    fn judge(&self, seen: &Observation, cx: &Context<'_>) -> Judgement {
        self.judged(seen, cx)
    }

    fn act(&self, _judgement: &Judgement, _cx: &Context<'_>) -> Action {
        Action { body: shell::close(self.run()), long: true, explain: script::EXPLAIN }
    }

    fn meaning(&self, status: i32) -> Option<&str> {
        self.exit_codes.get(&status).map(String::as_str)
    }

    fn desired(&self) -> Value {
        if self.absent {
            return json!({ "probe": self.probe, "absent": true });
        }
        let env: serde_json::Map<String, Value> = self.env.iter().map(|(k, v)| (k.clone(), json!(v))).collect();
        json!({
            "path": self.program.path, "args": self.program.args, "version": self.version, "probe": self.probe,
            "sha256": self.sha256.as_ref().map(Sha256::as_str), "env": env,
        })
    }

    /// What a process may notice is the version, not how it came.
    fn input_value(&self) -> Value {
        json!({ "probe": self.probe, "version": if self.absent { None } else { Some(&self.version) } })
    }

    fn provides(&self) -> Vec<super::Provision> {
        Vec::new()
    }

    /// One program may well install several things, and one thing be asked for once.
    fn claims(&self) -> Vec<(&'static str, String)> {
        vec![(KIND.name, self.probe.trim().to_owned())]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(entries: &[(&'static str, Value)], absent: bool) -> String {
        let base = [("path", json!("/opt/x.run")), ("version", json!("1.2")), ("probe", json!("x --version"))];
        let fields = base.into_iter().chain(entries.iter().cloned()).collect();
        build(&Fields(fields), absent).unwrap_err().message
    }

    #[test]
    fn arguments_are_seen_by_everybody() {
        let mut secrets = SecretStore::default();
        let token = secrets.insert("TOKEN", "x".to_owned().into()).0;
        assert_eq!(
            refused(&[("args", json!(["--key", token]))], false),
            "a secret cannot stand in `args`: everybody on the host sees them"
        );
    }

    #[test]
    fn what_reads_the_version_must_be_able_to() {
        assert_eq!(refused(&[("pattern", json!("("))], false), "`pattern` is no regular expression");
        assert_eq!(refused(&[("pattern", json!("^x$"))], false), "`pattern` has no group that would be the version");
    }

    #[test]
    fn an_installer_is_removed_by_a_program_of_its_own() {
        assert_eq!(refused(&[], true), "an installer without `uninstall` cannot be removed");
    }

    #[test]
    fn exit_statuses_and_logs_are_what_they_say() {
        let codes = [("exit_codes", json!({ "0": "fine" }))];
        assert_eq!(refused(&codes, false), "`exit_codes` names `0`, which is no exit status from 1 to 255");
        assert_eq!(refused(&[("log", json!("x.log"))], false), "`log` must be an absolute path");
        assert_eq!(refused(&[("sha256", json!("12"))], false), "`sha256` is not 64 hexadecimal digits");
    }
}
