//! `service`: whether a unit of systemd runs, is enabled, and runs what is declared.

mod act;
mod judge;
mod loaded;
mod renew;

use self::renew::{ReloadMark, Running};
use super::body::bare;
use super::support::{path_state, required, unit_name, unit_state};
use super::{Action, Context, Field, Fields, Input, Judgement, Kind, Provision, Resource, Type};
use crate::diag::Diag;
use crate::model::Value;
use crate::probe::{Observation, PathState, Probe, UnitState};
use crate::state::Started;
use serde_json::json;

pub(super) const KIND: Kind = Kind {
    name: "service",
    summary: "A systemd unit: running or stopped, enabled or not, and running what is declared now.",
    example: include_str!("../examples/service.yaml"),
    doc: "\
**Compared** are the unit's active state, its enablement when `enabled` is declared, whether systemd has read
its files (`NeedDaemonReload`), and whether the running process has its inputs. Nothing to do reads
`running and enabled; nothing it runs on changed since it started`.

**A restart is derived from state, never from the event of a change.** `restart_on` names the steps that the
process depends on. A restart is needed when

1. its executable or a mapped library was replaced on disk;
2. the record of the last verified start is of this very start (`InvocationID`), and an input is declared otherwise
   now or its *ctime* is not the recorded one;
3. there is no such record, and an input's ctime is later than the start of the unit (packages restore the
   mtime of their files, so it says nothing).

A process may read its files at any time: `systemctl reload` keeps the start, and a signal sent by hand leaves no
trace at all. So a file that was touched since is a reason even if it has the declared content again: whoever edits a
configuration, reloads, and puts it back (or lets forge put it back) leaves a process that has read something else. This
includes `chmod`, `chown` and moving the file away and back, which cannot be told apart. A `unit` that is put back is no
reason: a process gets its settings only when it starts. A record names only inputs that
were seen to hold and that were not touched since the start. What is removed and what a command did has no ctime: before
forge applies such an input it touches `/run/forge-applied/STEP`, whose ctime counts instead.

A run that was killed between a change and the restart is therefore completed by the next one. With `reload:
true` changed content is taken over by `systemctl reload`; a new package, a changed unit or drop-in or a replaced
executable still restarts. A reload leaves a mark under `/run/forge/reloaded/`, which names the start, the inputs, and when
it began: an input that was touched later is not proven by it.

**A change** runs `daemon-reload` first when systemd asks for it, then unmasks, enables or disables, then starts,
stops, restarts or reloads. It succeeds when the same start has been active for a second: a unit that starts and
dies at once fails the step, with its status and last log lines.

**Disruption** is D1 when a running unit restarts or stops, else D0.

A unit that does not exist blocks the step unless an earlier step brings it or a package. A `oneshot` without
`RemainAfterExit=yes` never stays running and cannot be declared so. A unit without `[Install]` cannot be
enabled. A masked unit is unmasked when it is to run or to be enabled.

**Removal** means stopped and disabled; the unit's files belong to `unit` or `package`.",
    fields: &[
        Field::required("name", Type::Name, "Name of the unit; without a type it is a `.service`."),
        Field::optional("state", Type::Enum(&["running", "stopped"]), "Default `running`."),
        Field::optional("enabled", Type::Bool, "Whether it starts at boot. Not looked at when left out."),
        Field::optional(
            "reload",
            Type::Bool,
            "Whether changed content is taken over by a reload in place of a restart. Default `false`.",
        ),
    ],
    build,
};

#[derive(Debug)]
pub(super) struct Service {
    unit: String,
    running: bool,
    enabled: Option<bool>,
    reload: bool,
}

fn build(fields: &Fields, absent: bool) -> Result<Box<dyn Resource>, Diag> {
    let unit = unit_name(required(fields, "name")?);
    if unit.contains("@.") {
        return Err(super::support::bad_value(format!("`{unit}` is a template, which cannot run"))
            .hint("name an instance of it"));
    }
    Ok(Box::new(Service {
        unit,
        running: !absent && fields.text("state") != Some("stopped"),
        enabled: if absent { Some(false) } else { fields.bool("enabled") },
        reload: fields.bool("reload").unwrap_or(false),
    }))
}

impl Service {
    /// Builds the state of a unit that runs and starts at boot, or neither.
    pub fn enabled(unit: &str, on: bool) -> Self {
        Self { unit: unit.to_owned(), running: on, enabled: Some(on), reload: false }
    }

    /// Judges a unit whose files change in the same step.
    pub fn judge_coming(&self, seen: &Observation, cx: &Context<'_>) -> Judgement {
        match unit_state(seen, &self.probe()) {
            Ok(unit) if unit.load == "not-found" => judge::from_nothing(self),
            Ok(_) => self.judge(seen, cx),
            Err(unknown) => Judgement::unknown(&unknown),
        }
    }

    pub fn probe(&self) -> Probe {
        Probe::Unit { name: self.unit.clone() }
    }

    /// Where the action leaves which inputs the last reload took over.
    fn mark_path(&self) -> String {
        format!("/run/forge/reloaded/{}", self.unit)
    }

    /// An empty body is never what is found, so the mark's own body comes along.
    fn mark_probe(&self) -> Probe {
        Probe::Path { path: self.mark_path(), want: Some(super::support::sha256_hex(b"")) }
    }

    /// Returns the mark of the last reload, when reloads are used.
    fn mark<'a>(&self, seen: &'a Observation) -> Option<ReloadMark<'a>> {
        match path_state(seen, &self.mark_probe()) {
            Ok(PathState::Present(info)) if self.reload => ReloadMark::parse(info.body.as_ref()?.raw()),
            _ => None,
        }
    }

    /// Returns what tells whether the process has its inputs.
    fn running<'a>(&self, unit: &'a UnitState, seen: &'a Observation, cx: &Context<'a>) -> Running<'a> {
        let (mark, may_reload) = (self.mark(seen), self.reload);
        Running { unit, inputs: cx.inputs, seen, record: cx.record, mark, may_reload }
    }
}

impl Resource for Service {
    fn kind(&self) -> &'static str {
        KIND.name
    }

    fn title(&self) -> String {
        self.unit.strip_suffix(".service").unwrap_or(&self.unit).to_owned()
    }

    /// The paths of its inputs are asked for by the planner, which knows them.
    fn probes(&self) -> Vec<Probe> {
        let mut probes = vec![self.probe()];
        if self.reload && self.running {
            probes.push(self.mark_probe());
        }
        probes
    }

    fn judge(&self, seen: &Observation, cx: &Context<'_>) -> Judgement {
        match unit_state(seen, &self.probe()) {
            Ok(unit) => judge::judge(self, unit, seen, cx),
            Err(unknown) => Judgement::unknown(&unknown),
        }
    }

    fn act(&self, judgement: &Judgement, cx: &Context<'_>) -> Action {
        Action { body: act::action(self, judgement, cx), long: false, explain: act::EXPLAIN }
    }

    fn desired(&self) -> Value {
        let state = if self.running { "running" } else { "stopped" };
        json!({ "name": self.unit, "state": state, "enabled": self.enabled, "reload": self.reload })
    }

    fn provides(&self) -> Vec<Provision> {
        Vec::new()
    }

    fn started(&self, seen: &Observation, cx: &Context<'_>) -> Option<Started> {
        let unit = unit_state(seen, &self.probe()).ok()?;
        if !self.running || unit.invocation.is_empty() {
            return None;
        }
        let running = self.running(unit, seen, cx);
        let has = |input: &&Input| matches!(running.has(input), Ok(true));
        let inputs = loaded::record_inputs(cx.inputs.iter().filter(has), seen).ok()?;
        Some(Started { invocation: unit.invocation.clone(), inputs })
    }

    fn claims(&self) -> Vec<(&'static str, String)> {
        vec![(KIND.name, self.unit.clone())]
    }
}

/// Returns the question about an input's path, as the planner adds it.
fn input_probe(path: &str) -> Probe {
    bare(path)
}

/// Returns whether an input is a package, whose declared digest does not tell all of its content.
fn is_package(input: &Input) -> bool {
    input.paths.iter().any(|path| super::package::is_list(path))
}

/// Returns whether an input is content that a reload can take over: neither a package nor a unit, whose
/// settings a process gets only when it starts.
fn is_content(input: &Input) -> bool {
    !is_package(input) && !input.paths.iter().any(|path| super::unit::is_unit(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_template_cannot_run() {
        let fields = Fields([("name", json!("getty@"))].into_iter().collect());
        assert_eq!(build(&fields, false).unwrap_err().message, "`getty@.service` is a template, which cannot run");
    }
}
