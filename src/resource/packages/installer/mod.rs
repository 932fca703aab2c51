//! `installer`: a program that runs once per version, and a probe that prints the installed version.

mod assessment;
mod declaration;
mod script;

use crate::diag::{Diag, DiagCode};
use crate::model::{SecretStore, Sha256Digest, UndoDeclaration, UndoEffect, Value};
use crate::probe::{Observation, Probe};
use crate::resource::files::artifact::content;
use crate::resource::shared::shell;
use crate::resource::shared::support::{bad_value, required_text};
use crate::resource::traits::{KindTraits, PackageExposure};
use crate::resource::{
    Action, ActionScript, Assessment, AssessmentContext, DeclaredResource, FieldSpec, FieldType, FieldValues, Resource,
    ResourceKind, TypedResource,
};
use assessment::{InstalledVersion, InstallerDiff};
use declaration::{InstallerProgram, InstallerResource};
use regex::Regex;
use serde_json::json;
use std::collections::BTreeMap;

pub(in crate::resource) const KIND: ResourceKind = ResourceKind {
    name: "installer",
    summary: "An installer program that runs if a probe finds a version other than the declared one.",
    example: include_str!("../../examples/installer.yaml"),
    doc: "\
Use it for software with its own installer: a driver as `.run` file, `mlnxofedinstall`, a vendor's setup script. An
earlier step copies the program to the host, for example an [`artifact`](artifact.md).

**Compares** `version` with the output of **`probe`**, a read-only shell command that prints the installed version. It
runs in every plan and right before and after the change. forge does not record that the program ran, because that
proves nothing about the current state. The version is the first line of the output, or the first group of `pattern`.
Exit code 1 or 127 (or those in `not_installed`), or no output, means that nothing is installed. With any other exit
code, or if `pattern` does not match, the step is `unknown`. An unchanged step reports `560.35.03 is installed`.

**A change** runs `path` with `args`, through `sh` if it is not executable, as a long step that survives a lost
connection: as root, umask 022, stdin closed, arguments unmodified. With `sha256` the program is verified on the host
first. A program that users other than root can modify or replace is not run: put it where only root can write. It must
be able to run over an incomplete installation, because it may be killed. Then `probe` runs again: the step fails if the
version differs, even if the program exited 0. **Pass secrets in `env`**: every user on the host can read arguments, so
secrets are rejected there.

**A failure** is reported with the meaning from `exit_codes`, the version installed afterwards, and the last lines of
`log`, if the program wrote to it. `also_ok` lists exit codes other than 0 that mean success.

**Disruption** is D1 if an installed version changes; set the step's `disruption` to what a driver disrupts. The step's
`timeout` limits the run time (default: four hours).

**Removal** runs `uninstall`; an installer without it cannot be removed.",
    fields: FIELDS,
    build,
    traits: KindTraits {
        fails_halfway: true,
        unpacks_files: true,
        exposure: PackageExposure::Unknown,
        ..KindTraits::DEFAULT
    },
};

const PROGRAM_FIELDS: &[FieldSpec] = &[
    FieldSpec::required("path", FieldType::Path, "Path of the program on the host."),
    FieldSpec::optional("args", FieldType::List(&FieldType::Text), "Arguments."),
];

const FIELDS: &[FieldSpec] = &[
    FieldSpec::required(
        "path",
        FieldType::Path,
        "Path of the program on the host; run by `sh` if it is not executable.",
    ),
    FieldSpec::optional("args", FieldType::List(&FieldType::Text), "Arguments, passed unmodified. No secrets."),
    FieldSpec::required("version", FieldType::Version, "Version that is installed after the program ran."),
    FieldSpec::required("probe", FieldType::Text, "Read-only script that prints the installed version."),
    FieldSpec::optional(
        "pattern",
        FieldType::Line,
        "Regular expression for the output of `probe`; its first group is the version. Default: the first line.",
    ),
    FieldSpec::optional(
        "not_installed",
        FieldType::List(&FieldType::Int { min: 1, max: 255 }),
        "Exit codes of `probe` that mean that nothing is installed. Default `[1, 127]`.",
    ),
    FieldSpec::optional("sha256", FieldType::Line, "Expected SHA-256 of the program, in hex; verified before it runs."),
    FieldSpec::optional(
        "exit_codes",
        FieldType::Map(&FieldType::Line),
        "Meanings of the program's exit codes, for messages.",
    ),
    FieldSpec::optional(
        "also_ok",
        FieldType::List(&FieldType::Int { min: 1, max: 255 }),
        "Exit codes of the program that mean success, in addition to 0.",
    ),
    FieldSpec::optional(
        "log",
        FieldType::Line,
        "Log of the program, shown if it fails: an absolute path, which may contain `*` and `?`.",
    ),
    FieldSpec::optional("cwd", FieldType::Path, "Working directory. Default `/`."),
    FieldSpec::optional("env", FieldType::Map(&FieldType::Text), "Environment variables. Values may be secrets.")
        .passing_secrets(),
    FieldSpec::optional(
        "uninstall",
        FieldType::Table(PROGRAM_FIELDS),
        "Program that uninstalls the software, for a removal: `path` and `args`.",
    ),
];

/// Default exit codes of `probe` if nothing is installed: it reports that, or it is missing itself.
const NOT_INSTALLED: [i64; 2] = [1, 127];

fn build(fields: &FieldValues, absent: bool) -> Result<Box<dyn Resource>, Diag> {
    let own = InstallerProgram {
        path: required_text(fields, "path")?.to_owned(),
        args: fields.get_text_list("args").unwrap_or_default(),
    };
    let program = if absent { parse_uninstall_program(fields)? } else { own };
    Ok(Box::new(InstallerResource {
        program,
        version: required_text(fields, "version")?.to_owned(),
        probe: crate::resource::generic::command::check_script_size("probe", required_text(fields, "probe")?)?,
        pattern: fields.get_text("pattern").map(parse_pattern).transpose()?,
        not_installed: fields.get_int_list("not_installed").unwrap_or_else(|| NOT_INSTALLED.to_vec()),
        sha256: fields.get_text("sha256").filter(|_| !absent).map(parse_digest).transpose()?,
        exit_codes: parse_exit_codes(fields)?,
        also_ok: fields.get_int_list("also_ok").unwrap_or_default(),
        log: parse_log_pattern(fields)?,
        cwd: fields.get_text("cwd").unwrap_or("/").to_owned(),
        env: crate::resource::generic::command::parse_environment(fields)?,
        declared: json!(fields.0),
        absent,
    }))
}

fn parse_uninstall_program(fields: &FieldValues) -> Result<InstallerProgram, Diag> {
    let Some(table) = fields.get_table("uninstall") else {
        return Err(Diag::error(DiagCode::BadStep, "an installer without `uninstall` cannot be removed")
            .hint("add `uninstall:`, the program that uninstalls the software"));
    };
    let args = table.get("args").and_then(Value::as_array).into_iter().flatten();
    Ok(InstallerProgram {
        path: table.get("path").and_then(Value::as_str).unwrap_or_default().to_owned(),
        args: args.filter_map(|arg| arg.as_str().map(str::to_owned)).collect(),
    })
}

fn parse_pattern(text: &str) -> Result<Regex, Diag> {
    let regex = regex::RegexBuilder::new(text).multi_line(true).build();
    let regex = regex.map_err(|_| bad_value("`pattern` is not a valid regular expression").with_field("pattern"))?;
    match regex.captures_len() {
        0 | 1 => Err(bad_value("`pattern` needs a group for the version")
            .with_field("pattern")
            .hint("put parentheses around the version: `^MLNX_OFED_LINUX-(.*):$`")),
        _ => Ok(regex),
    }
}

fn parse_digest(text: &str) -> Result<Sha256Digest, Diag> {
    Sha256Digest::parse(text).ok_or_else(|| bad_value("`sha256` is not 64 hexadecimal digits").with_field("sha256"))
}

fn parse_exit_codes(fields: &FieldValues) -> Result<BTreeMap<i32, String>, Diag> {
    let one =
        |(code, meaning): (String, String)| match code.parse::<i32>() {
            Ok(code) if (1..=255).contains(&code) => Ok((code, meaning)),
            _ => Err(bad_value(format!("`{code}` in `exit_codes` is not an exit code from 1 to 255"))
                .with_field("exit_codes")),
        };
    fields.get_text_map("exit_codes").unwrap_or_default().into_iter().map(one).collect()
}

fn parse_log_pattern(fields: &FieldValues) -> Result<String, Diag> {
    let log = fields.get_text("log").unwrap_or_default();
    match log.is_empty() || log.starts_with('/') {
        true => Ok(log.to_owned()),
        false => Err(bad_value("`log` must be an absolute path").with_field("log")),
    }
}

impl DeclaredResource for InstallerResource {
    fn kind(&self) -> &'static str {
        KIND.name
    }

    fn title(&self) -> String {
        let name = self.program.path.rsplit('/').next().unwrap_or_default();
        if self.absent { name.to_owned() } else { format!("{name} ({})", self.version) }
    }

    fn probes(&self) -> Vec<Probe> {
        vec![self.version_probe(), content::content_probe(&self.program.path, self.sha256.is_some())]
    }

    fn explain_exit_status(&self, status: i32) -> Option<&str> {
        self.exit_codes.get(&status).map(String::as_str)
    }

    fn desired_value(&self) -> Value {
        if self.absent {
            return json!({ "probe": self.probe, "absent": true });
        }
        let env: serde_json::Map<String, Value> = self.env.iter().map(|(k, v)| (k.clone(), json!(v))).collect();
        json!({
            "path": self.program.path, "args": self.program.args, "version": self.version, "probe": self.probe,
            "sha256": self.sha256.as_ref().map(Sha256Digest::as_str), "env": env,
        })
    }

    /// Returns what dependent services compare: the version, not how it was installed.
    fn restart_input_value(&self) -> Value {
        json!({ "probe": self.probe, "version": if self.absent { None } else { Some(&self.version) } })
    }

    fn provided_items(&self) -> Vec<crate::resource::ProvidedItem> {
        Vec::new()
    }

    /// Claims the probe: one program may install several things, but a probe belongs to one step.
    fn exclusive_claims(&self) -> Vec<(&'static str, String)> {
        vec![(KIND.name, self.probe.trim().to_owned())]
    }
}

impl TypedResource for InstallerResource {
    type Diff = InstallerDiff;

    fn diff(&self, seen: &Observation, cx: &AssessmentContext<'_>) -> Assessment<InstallerDiff> {
        self.assess_version(seen, cx)
    }

    /// The program is the same for every version that it replaces.
    fn act(&self, _diff: &InstallerDiff, _cx: &AssessmentContext<'_>) -> Action {
        Action::Script(ActionScript {
            body: shell::close_action(self.render_script()),
            long: true,
            explain: script::EXPLAIN,
        })
    }

    /// An installed version is uninstalled if the step declares how, and an uninstalled one is installed again if it is
    /// the declared one. Another version came from another program.
    fn undo(&self, diff: &InstallerDiff) -> UndoEffect {
        if SecretStore::has_placeholder(&self.declared.to_string()) {
            return UndoEffect::irreversible("the installer reads a secret, which the host does not keep");
        }
        match &diff.before {
            InstalledVersion::NotKnown => UndoEffect::irreversible("the installed version is not known yet"),
            InstalledVersion::Absent if self.declared.get("uninstall").is_none() => {
                UndoEffect::irreversible("the installer declares no `uninstall`")
            }
            InstalledVersion::Absent => {
                UndoEffect::declare(vec![UndoDeclaration::absent(KIND.name, self.declared.clone())])
            }
            InstalledVersion::Found(version) if self.absent && *version == self.version => {
                UndoEffect::declare(vec![UndoDeclaration::present(KIND.name, self.declared.clone())])
            }
            InstalledVersion::Found(version) => {
                UndoEffect::irreversible(&format!("the installer of version `{version}` is not known"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn build_error(entries: &[(&'static str, Value)], absent: bool) -> String {
        let base = [("path", json!("/opt/x.run")), ("version", json!("1.2")), ("probe", json!("x --version"))];
        let fields = base.into_iter().chain(entries.iter().cloned()).collect();
        build(&FieldValues(fields), absent).unwrap_err().message
    }

    #[test]
    fn version_pattern_must_be_a_regex_with_a_group() {
        assert_eq!(build_error(&[("pattern", json!("("))], false), "`pattern` is not a valid regular expression");
        assert_eq!(build_error(&[("pattern", json!("^x$"))], false), "`pattern` needs a group for the version");
    }

    #[test]
    fn removal_requires_the_uninstall_field() {
        assert_eq!(build_error(&[], true), "an installer without `uninstall` cannot be removed");
    }

    #[test]
    fn invalid_exit_codes_log_and_sha256_are_rejected() {
        let codes = [("exit_codes", json!({ "0": "fine" }))];
        assert_eq!(build_error(&codes, false), "`0` in `exit_codes` is not an exit code from 1 to 255");
        assert_eq!(build_error(&[("log", json!("x.log"))], false), "`log` must be an absolute path");
        assert_eq!(build_error(&[("sha256", json!("12"))], false), "`sha256` is not 64 hexadecimal digits");
    }
}
