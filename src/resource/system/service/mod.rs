//! `service`: whether a systemd unit runs, is enabled, and runs with the current inputs.

mod action_script;
mod assessment;
mod declaration;
mod diff;
mod guard;
mod loaded_inputs;
mod renewal;
mod restarts;
mod undo;

pub(in crate::resource) use self::declaration::ServiceResource;
pub(in crate::resource) use self::diff::ServiceDiff;
pub use self::loaded_inputs::refresh_recorded_start;
use crate::diag::Diag;
use crate::model::{GuardEffect, RecordedStart, UndoEffect, Value};
use crate::probe::{Observation, Probe};
use crate::resource::shared::support::{required_text, unit_name, unit_state};
use crate::resource::traits::{GuardSupport, KindTraits, PackageExposure};
use crate::resource::{
    Action, ActionScript, Assessment, AssessmentContext, ChangeMark, ChangedObject, DeclaredResource, FieldSpec,
    FieldType, FieldValues, ProvidedItem, Resource, ResourceKind, RestartInput, TypedResource,
};
use serde_json::json;

pub(in crate::resource) const KIND: ResourceKind = ResourceKind {
    name: "service",
    summary: "A systemd unit: running or stopped, enabled or disabled, and up to date with its inputs.",
    example: include_str!("../../examples/service.yaml"),
    doc: "\
**Compared** are the unit's active state, for one that runs whether it is frozen (`systemctl freeze`), its enablement if
`enabled` is declared, whether systemd has loaded its current files (`NeedDaemonReload`), and whether the running process
uses the current inputs. An unchanged step reports `running and enabled; no input changed since it started`.

**A restart is derived from state, never from the event of a change.** `restart_on` lists the steps that the process
depends on. A restart is needed if

1. its executable or a mapped library was replaced on disk;
2. the record of the last verified start belongs to the current start (`InvocationID`), and an input is declared
   differently now or its *ctime* is not the recorded one;
3. no such record exists, and an input's ctime is later than the start of the unit (packages restore the mtime of their
   files, so forge does not use it). If the clock of the host was set since the start, as on a machine that boots with a
   wrong clock, the time since boot shows by how much, and the ctime is compared by both clocks.

A process may read its files at any time: `systemctl reload` keeps the start, and a manual signal leaves no trace.
Therefore a file that was touched since the start requires a restart even if it has the declared content again: if
someone edits a configuration, reloads, and restores it (or forge restores it), the process has read other content. This
includes `chmod`, `chown` and moving the file away and back, which cannot be distinguished. A restored `unit` does not
require a restart, because a process gets its settings only when it starts. A drop-in that something else wrote and removed
again leaves no trace: forge does not see that a process which started in between has its settings. A record lists only
inputs that matched and were not touched since the start. Removed files and the effects of commands have no ctime: before
forge applies such an input it touches `/run/forge-applied/STEP`, whose ctime is used instead.

If a run is killed between a change and the restart, the next run completes it. With `reload: true`, `systemctl reload`
applies changed content; a new package, a changed unit or drop-in, a replaced executable, or a changed input that is an
executable file still restarts: it is a program. So do a changed account or group, a file that the unit names in
`EnvironmentFile=`, and a link, which may lead to its program: a process gets them when it starts. forge does not see the files of `LoadCredential=`. A reload
writes a mark to `/run/forge/reloaded/` with the start, the inputs, and the time at which it began: the mark does not
cover an input that was touched later.

**A change** runs `daemon-reload` first if systemd needs it, then unmasks, enables or disables, then starts, stops,
restarts or reloads. It succeeds once the same start has been active for one second. A unit that starts and exits
immediately fails the step; the error shows its status and last log lines.

**A service that keeps ending** blocks the step, even if it is active at this moment: systemd restarted it N times, three
or more (`NRestarts`), and it has not stayed up since then for N times 10 seconds, at most 60, or ended before that and
waits for its next restart (`RestartSec=`). forge does not restart it, because systemd has just done so or is about to,
unless an input in `restart_on` changed. Otherwise the step matches, and its reason names the restarts:
`systemd restarted it 2 times, last 7 d ago`. A start or restart by forge resets the count; one by hand does, unless
systemd is about to restart the service.

**Disruption** is D1 if a running unit restarts or stops, otherwise D0.

A unit that does not exist blocks the step unless an earlier step or a package provides it. A `oneshot` unit without
`RemainAfterExit=yes` never stays running and cannot be declared running. A unit without `[Install]` cannot be enabled.
A masked unit is unmasked if it has to run or be enabled.

**Enablement** is read from the links on disk, because systemd keeps an earlier state in memory until it is reloaded, and
calls a unit `enabled` if any of its links exists, an alias too. A unit is enabled if every target of its `[Install]`
section starts it; otherwise the plan shows `enabled, but not started by multi-user.target`. One that is enabled only until
the next boot (`enabled-runtime`) counts as not enabled. If none of the targets exists, the step is **pending**: no link
starts the unit at boot. With `enabled: false`, links to a unit whose file is gone are removed, too. A link that
`systemctl link` made stays: it is the unit, and does not enable it.

**Other units** change with this one: systemd enables and disables those of `Also=` together with it. When it stops, systemd
stops active units that require it or are a part of it (`Requires=`, `BindsTo=`, `PartOf=`), and those that it names in
`PropagatesStopTo=`; when it starts, those that conflict with it (`Conflicts=`). The plan shows them, a stop is D1, and an
undo restores them. It does not show targets, slices, scopes and devices, what a unit of `Also=` names itself in `Also=`,
and the end of chains of more than five units.

**Removal** stops and disables the unit; the unit's files belong to `unit` or `package` steps.",
    fields: &[
        FieldSpec::required("name", FieldType::Name, "Name of the unit; the default type is `.service`."),
        FieldSpec::optional("state", FieldType::Enum(&["running", "stopped", "any"]), STATE),
        FieldSpec::optional("enabled", FieldType::Bool, "Whether it starts at boot. Default: not compared."),
        FieldSpec::optional(
            "reload",
            FieldType::Bool,
            "Apply changed content with a reload instead of a restart. Default `false`.",
        ),
    ],
    build,
    traits: KindTraits {
        has_restart_inputs: true,
        stops_during: true,
        may_restart: true,
        guard: GuardSupport::Own,
        exposure: PackageExposure::Process,
        claim_probe: Some(claim_probe),
        ..KindTraits::DEFAULT
    },
};

const STATE: &str =
    "Desired state; `any`: not compared, but a unit that runs has its current inputs. Default `running`.";

fn claim_probe(name: &str) -> Option<Probe> {
    Some(Probe::Unit { name: name.to_owned() })
}

fn build(fields: &FieldValues, absent: bool) -> Result<Box<dyn Resource>, Diag> {
    let unit = unit_name(required_text(fields, "name")?);
    if unit.contains("@.") {
        return Err(crate::resource::shared::support::bad_value(format!("`{unit}` is a template and cannot run"))
            .with_field("name")
            .hint("name an instance of the template"));
    }
    Ok(Box::new(ServiceResource {
        unit,
        running: !absent && !matches!(fields.get_text("state"), Some("stopped" | "any")),
        any_state: !absent && fields.get_text("state") == Some("any"),
        enabled: if absent { Some(false) } else { fields.get_bool("enabled") },
        reload: fields.get_bool("reload").unwrap_or(false),
    }))
}

impl ServiceResource {
    /// Evaluates a unit whose files change in the same step.
    pub fn assess_pending_unit(&self, seen: &Observation, cx: &AssessmentContext<'_>) -> Assessment<ServiceDiff> {
        match unit_state(seen, &self.probe()) {
            Ok(unit) if unit.load == "not-found" => assessment::assess_new_unit(self),
            Ok(_) => self.diff(seen, cx),
            Err(unknown) => Assessment::unknown(&unknown),
        }
    }
}

impl DeclaredResource for ServiceResource {
    fn kind(&self) -> &'static str {
        KIND.name
    }

    fn title(&self) -> String {
        self.unit.strip_suffix(".service").unwrap_or(&self.unit).to_owned()
    }

    fn changed_object(&self, mark: &ChangeMark) -> ChangedObject {
        ChangedObject::Unit(mark.member.as_deref().unwrap_or(&self.unit).to_owned())
    }

    /// The planner adds probes for the paths of the inputs.
    fn probes(&self) -> Vec<Probe> {
        let mut probes = vec![self.probe()];
        if self.reload && self.renews_process() {
            probes.push(self.reload_mark_probe());
        }
        probes
    }

    fn desired_value(&self) -> Value {
        let state = (!self.any_state).then_some(if self.running { "running" } else { "stopped" });
        json!({ "name": self.unit, "state": state, "enabled": self.enabled, "reload": self.reload })
    }

    fn provided_items(&self) -> Vec<ProvidedItem> {
        Vec::new()
    }

    fn started_record(&self, seen: &Observation, cx: &AssessmentContext<'_>) -> Option<RecordedStart> {
        let unit = unit_state(seen, &self.probe()).ok()?;
        if !self.renews_process() || unit.invocation.is_empty() {
            return None;
        }
        let running = self.running_service(unit, seen, cx);
        let has = |input: &&RestartInput| matches!(running.has_current_input(input), Ok(true));
        let inputs = loaded_inputs::record_inputs(cx.inputs.iter().filter(has), seen).ok()?;
        Some(RecordedStart { invocation: unit.invocation.clone(), inputs })
    }

    fn running_unit(&self) -> Option<&str> {
        self.running.then_some(&self.unit)
    }

    fn open_fields(&self) -> &'static [&'static str] {
        &["enabled", "state"]
    }

    fn exclusive_claims(&self) -> Vec<(&'static str, String)> {
        vec![(KIND.name, self.unit.clone())]
    }
}

impl TypedResource for ServiceResource {
    type Diff = ServiceDiff;

    fn diff(&self, seen: &Observation, cx: &AssessmentContext<'_>) -> Assessment<ServiceDiff> {
        match unit_state(seen, &self.probe()) {
            Ok(unit) => assessment::assess_service(self, unit, seen, cx),
            Err(unknown) => Assessment::unknown(&unknown),
        }
    }

    fn act(&self, diff: &ServiceDiff, cx: &AssessmentContext<'_>) -> Action {
        Action::Script(ActionScript {
            body: action_script::render_script(self, diff, cx),
            long: false,
            explain: action_script::EXPLAIN,
        })
    }

    fn undo(&self, diff: &ServiceDiff) -> UndoEffect {
        undo::undo_service(self, diff)
    }

    fn guard(&self, diff: &ServiceDiff) -> GuardEffect {
        guard::guard_service(self, diff)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn template_unit_is_rejected() {
        let fields = FieldValues([("name", json!("getty@"))].into_iter().collect());
        assert_eq!(build(&fields, false).unwrap_err().message, "`getty@.service` is a template and cannot run");
    }
}
