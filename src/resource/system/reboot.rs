//! `reboot`: whether the host has booted since a change, and into which kernel.

use crate::diag::Diag;
use crate::model::Value;
use crate::probe::{CheckProbe, Observation, PathState, Probe, UnansweredReason};
use crate::resource::shared::file_target::path_probe;
use crate::resource::shared::support::{output, path_state, unit_state};
use crate::resource::traits::KindTraits;
use crate::resource::{
    Action, Assessment, AssessmentContext, AttributeChange, ChangeMark, ChangedObject, DeclaredResource, FieldSpec,
    FieldType, FieldValues, ProvidedItem, Resource, ResourceDiff, ResourceKind, RestartInput, TypedResource,
};
use serde::Serialize;
use serde_json::json;

pub(in crate::resource) const KIND: ResourceKind = ResourceKind {
    name: "reboot",
    summary: "Whether the host has booted since a change and runs the declared kernel.",
    example: include_str!("../examples/reboot.yaml"),
    doc: "\
Use this step for reboots that no single step can derive by itself. Without fields it needs `restart_on`.

**Compared** is the booted state with the current state. A reboot is needed if

1. a file of a step in `restart_on` has a *ctime* later than the boot;
2. `kernel` is declared and another kernel is running;
3. the path `flag` exists.

Each of these is observed on the host and never derived from the event of a change: if a run is killed before the
reboot, the next run completes it. The boot time is the time at which systemd's own scope started, also by the present
clock if the clock of the host was set since. An unchanged step reports `booted since the last change`.

**The step itself changes nothing.** If a reboot is needed, it is `pending`, like a step with `effective: { by: [reboot]
}`. All such steps of a host share one reboot, which is planned and printed, and performed only if `rollout.reboot` is
`allow` (see [rollout](../../rollout.md)). If a step in `restart_on` is about to change, the plan already shows this
step as `pending`. Steps that list this step in `needs` run after the reboot.

**Disruption** is that of the reboot, D3.

Do not list steps whose files are rewritten at each boot: they would always require a reboot. If a reboot does not help,
the step stays `pending` and the run exits with 10.

**Removal** does nothing.",
    fields: &[
        FieldSpec::optional(
            "kernel",
            FieldType::Line,
            "Required release of the running kernel, as printed by `uname -r`.",
        ),
        FieldSpec::optional(
            "flag",
            FieldType::Path,
            "A path that exists while a reboot is required: `/run/reboot-required`.",
        ),
    ],
    build,
    traits: KindTraits { has_restart_inputs: true, trigger_fields: &["kernel", "flag"], ..KindTraits::DEFAULT },
};

/// systemd's own scope: it is active from the start of userspace.
const INIT_SCOPE: &str = "init.scope";

#[derive(Debug)]
struct RebootResource {
    kernel: Option<String>,
    flag: Option<String>,
    absent: bool,
}

fn build(fields: &FieldValues, absent: bool) -> Result<Box<dyn Resource>, Diag> {
    let text = |name: &str| fields.get_text(name).map(str::to_owned);
    Ok(Box::new(RebootResource { kernel: text("kernel"), flag: text("flag"), absent }))
}

fn running_kernel_probe() -> Probe {
    Probe::Check(Box::new(CheckProbe {
        id: "kernel that runs".to_owned(),
        script: "uname -r".to_owned(),
        user: None,
        cwd: None,
        env: Vec::new(),
        timeout_s: Some(10),
    }))
}

fn init_probe() -> Probe {
    Probe::Unit { name: INIT_SCOPE.to_owned() }
}

impl RebootResource {
    /// Returns the reasons for a reboot: observed ones, and those that earlier steps will cause.
    fn reboot_reasons(
        &self,
        seen: &Observation,
        cx: &AssessmentContext<'_>,
    ) -> Result<(Vec<String>, Vec<String>), UnansweredReason> {
        let mut is = Vec::new();
        is.extend(self.describe_kernel_mismatch(seen)?);
        is.extend(self.describe_flag(seen)?);
        for input in cx.inputs {
            is.extend(changed_after_boot(input, seen)?);
        }
        let coming = cx.inputs.iter().filter(|input| input.changing).map(|input| format!("`{}` changes", input.step));
        Ok((is, coming.collect()))
    }

    fn describe_kernel_mismatch(&self, seen: &Observation) -> Result<Option<String>, UnansweredReason> {
        let Some(wanted) = &self.kernel else { return Ok(None) };
        let answer = output(seen, &running_kernel_probe())?;
        let runs = answer.stdout.raw().trim();
        match (answer.status, runs) {
            (0, runs) if runs == wanted => Ok(None),
            (0, runs) if !runs.is_empty() => Ok(Some(format!("kernel {runs} is running, but {wanted} is declared"))),
            _ => Err(UnansweredReason::new("`uname -r` did not print the running kernel")),
        }
    }

    fn describe_flag(&self, seen: &Observation) -> Result<Option<String>, UnansweredReason> {
        let Some(flag) = &self.flag else { return Ok(None) };
        match path_state(seen, &path_probe(flag))? {
            PathState::Present(_) => Ok(Some(format!("`{flag}` exists"))),
            PathState::Absent => Ok(None),
        }
    }
}

/// Returns a reason if a path of an input changed after the boot. A time in the future of the host's clock is from an
/// earlier boot, unless the clock was set back since this one.
fn changed_after_boot(input: &RestartInput, seen: &Observation) -> Result<Option<String>, UnansweredReason> {
    for path in input.watched_paths() {
        let PathState::Present(info) = path_state(seen, &path_probe(path))? else { continue };
        let init = unit_state(seen, &init_probe())?;
        let booted = init.active_since;
        if booted <= 0.0 {
            return Err(UnansweredReason::new("systemd does not report the boot time"));
        }
        if init.may_precede(booted, info.ctime) {
            return Ok(Some(match input.is_trace(path) {
                true => format!("`{}` was applied after the boot", input.step),
                false => format!("`{path}` changed after the boot"),
            }));
        }
    }
    Ok(None)
}

impl DeclaredResource for RebootResource {
    fn kind(&self) -> &'static str {
        KIND.name
    }

    fn title(&self) -> String {
        match (&self.kernel, &self.flag) {
            (Some(kernel), _) => format!("into kernel {kernel}"),
            (None, Some(flag)) => format!("for {flag}"),
            (None, None) => "since the last change".to_owned(),
        }
    }

    fn changed_object(&self, _mark: &ChangeMark) -> ChangedObject {
        ChangedObject::Kernel
    }

    fn probes(&self) -> Vec<Probe> {
        if self.absent {
            return Vec::new();
        }
        let kernel = self.kernel.as_ref().map(|_| running_kernel_probe());
        [Some(init_probe()), kernel, self.flag.as_deref().map(path_probe)].into_iter().flatten().collect()
    }

    fn desired_value(&self) -> Value {
        json!({ "kernel": self.kernel, "flag": self.flag, "absent": self.absent })
    }

    fn provided_items(&self) -> Vec<ProvidedItem> {
        Vec::new()
    }

    /// Claims nothing: several recipes may require the same reboot.
    fn exclusive_claims(&self) -> Vec<(&'static str, String)> {
        Vec::new()
    }
}

/// A reboot is pending or not: the step changes nothing itself, because the host's window performs the reboot.
#[derive(Clone, Debug, PartialEq, Serialize)]
enum RebootDiff {}

impl ResourceDiff for RebootDiff {
    fn render_changes(&self) -> Vec<AttributeChange> {
        match *self {}
    }
}

impl TypedResource for RebootResource {
    type Diff = RebootDiff;

    fn diff(&self, seen: &Observation, cx: &AssessmentContext<'_>) -> Assessment<RebootDiff> {
        if self.absent {
            return Assessment::ok("nothing to remove", Value::Null);
        }
        let pending = |why: &[String], seen: bool| {
            let reason = format!("needs a reboot: {}", why.join("; "));
            Assessment::pending(reason, json!({ "booted": !seen })).mark_reboot_required()
        };
        match self.reboot_reasons(seen, cx) {
            Err(unknown) => Assessment::unknown(&unknown),
            Ok((is, _)) if !is.is_empty() => pending(&is, true),
            Ok((_, coming)) if !coming.is_empty() => pending(&coming, false).mark_predicted(),
            Ok(_) => Assessment::ok("booted since the last change", json!({ "booted": true })),
        }
    }

    fn act(&self, diff: &RebootDiff, _cx: &AssessmentContext<'_>) -> Action {
        match *diff {}
    }
}
