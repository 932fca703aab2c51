//! `timer`: a systemd timer with its service, built on the kinds `unit` and `service`.

mod unit_text;

use crate::diag::{Diag, DiagCode};
use crate::model::{BlockClass, BootUndo, StepVerdict, UndoDeclaration, UndoEffect, UnitAtBoot, Value};
use crate::probe::{Observation, Probe};
use crate::resource::shared::composite::{PartAssessments, render_part};
use crate::resource::shared::job_account::{assess_job_account, job_account_probe};
use crate::resource::shared::shell;
use crate::resource::shared::support::{bad_value, reject_secrets, required_text, sha256_hex, unit_state};
use crate::resource::system::service::{ServiceDiff, ServiceResource};
use crate::resource::system::unit::{SECRET_HINT, UnitDiff, UnitResource};
use crate::resource::traits::KindTraits;
use crate::resource::{
    Action, ActionScript, Assessment, AssessmentContext, AttributeChange, ChangeAspect, ChangeMark, ChangedObject,
    ChangedPart, DeclaredResource, FieldSpec, FieldType, FieldValues, ProvidedItem, RecordedValue, Resource,
    ResourceDiff, ResourceKind, RestartInput, TypedResource,
};
use crate::script::ShellFragment;
use serde::Serialize;
use serde_json::json;

pub(in crate::resource) const KIND: ResourceKind = ResourceKind {
    name: "timer",
    summary: "A command that systemd runs on a schedule: a timer with its service.",
    example: include_str!("../../examples/timer.yaml"),
    doc: "\
`/etc/systemd/system/NAME.service` (a oneshot) runs `command` with the shell, `NAME.timer` starts it. With `calendar`
it runs at recurring times in the syntax of `systemd-analyze calendar`, with an accuracy of one minute. With `every` it
runs that long after the timer started and after each run, with an accuracy of a tenth of the interval, at most one
minute.

**Compared** are both units, as kind `unit` compares them, and the timer, as kind `service` does: enabled, active, and
started after its unit last changed. A timer that is active but will never elapse again is **blocked**. The reason names
drop-ins of both units that something else wrote; what they change, such as the schedule, is not compared. An unchanged
step reports `both units match, and systemd has loaded them; running and enabled; no input changed since it started;
next run at 2026-11-22 00:00:00 UTC`. A time that counts from the last run or the start of the host is not shown,
because it differs from host to host.

**A change** validates `calendar` with `systemd-analyze calendar` on the host before anything is written, writes the
service and then the timer, reloads the manager, and enables and starts the timer. A changed timer is restarted (D1 by
the rules of `service`; this does not stop a running command). A changed service is only reloaded and takes effect at
the next run. A run in progress is never interrupted.

**Removal** stops and disables the timer, then removes both units. A run in progress continues.",
    fields: &[
        FieldSpec::required("name", FieldType::Name, "Name of the timer and of its service, without a type."),
        FieldSpec::required("command", FieldType::Line, "Shell command to run."),
        FieldSpec::optional("calendar", FieldType::Line, "Schedule: `daily`, `Mon *-*-* 04:00:00`. Excludes `every`."),
        FieldSpec::optional("every", FieldType::Duration, "Interval: `10m`. Excludes `calendar`."),
        FieldSpec::optional("user", FieldType::Name, "Account that runs the command. Default `root`."),
        FieldSpec::optional("description", FieldType::Line, "Description of both units. Default: the name."),
        FieldSpec::optional(
            "persistent",
            FieldType::Bool,
            "Run once at start if a run was missed while the host was off. Only with `calendar`. Default `false`.",
        ),
        FieldSpec::optional(
            "delay",
            FieldType::Wait,
            "Maximum random delay, to spread the load over the hosts. Default: none.",
        ),
    ],
    build,
    traits: KindTraits { explains_secrets: true, ..KindTraits::DEFAULT },
};

#[derive(Debug)]
struct TimerResource {
    name: String,
    /// The account that runs the command.
    user: String,
    calendar: Option<String>,
    service: UnitResource,
    timer: UnitResource,
    state: ServiceResource,
    absent: bool,
}

fn build(fields: &FieldValues, absent: bool) -> Result<Box<dyn Resource>, Diag> {
    reject_secrets(KIND.name, fields, SECRET_HINT)?;
    let name = parse_timer_name(required_text(fields, "name")?)?;
    let (service, timer) = if absent {
        Default::default()
    } else {
        (unit_text::render_service_unit(fields)?, unit_text::render_timer_unit(fields)?)
    };
    if !absent && fields.contains("calendar") == fields.contains("every") {
        return Err(Diag::error(DiagCode::Exclusive, "exactly one of `calendar` and `every` is required"));
    }
    let unit = |suffix: &str, content: &str| UnitResource::new_whole(&format!("{name}.{suffix}"), content, absent);
    Ok(Box::new(TimerResource {
        user: fields.get_text("user").unwrap_or("root").to_owned(),
        calendar: fields.get_text("calendar").map(str::to_owned),
        service: unit("service", &service),
        timer: unit("timer", &timer),
        state: ServiceResource::for_unit(&format!("{name}.timer"), !absent),
        name,
        absent,
    }))
}

fn parse_timer_name(given: &str) -> Result<String, Diag> {
    for suffix in [".timer", ".service"] {
        if given.ends_with(suffix) {
            return Err(bad_value(format!("`{given}` is the name of a unit, but a timer has two units"))
                .with_field("name")
                .hint(format!("write `{}`", given.trim_end_matches(suffix))));
        }
    }
    match given.contains('@') {
        true => Err(bad_value(format!("`{given}` is a template and cannot have a schedule")).with_field("name")),
        false => Ok(given.to_owned()),
    }
}

impl TimerResource {
    /// Returns the only input of the timer, its own unit.
    fn timer_unit_inputs(&self, changing: bool) -> [RestartInput; 1] {
        let digest = sha256_hex(self.timer.desired_value().to_string().as_bytes());
        [RestartInput {
            step: "its unit".to_owned(),
            paths: vec![self.timer.path().to_owned()],
            trace: None,
            digest,
            changing,
            is_read_at_start: false,
        }]
    }

    fn assess_state(
        &self,
        timer: &Assessment<UnitDiff>,
        seen: &Observation,
        cx: &AssessmentContext<'_>,
    ) -> Assessment<ServiceDiff> {
        let coming = timer.verdict == StepVerdict::Change && !self.absent;
        let is_new = matches!(timer.diff, Some(UnitDiff::File { .. } | UnitDiff::Reload { outside: true }));
        let inputs = self.timer_unit_inputs(coming && is_new);
        let cx = AssessmentContext { inputs: &inputs, ..cx.clone() };
        let judgement = match coming {
            // It depends only on changes of this step, which are known.
            true => Assessment { predicted: false, ..self.state.assess_pending_unit(seen, &cx) },
            false => self.state.diff(seen, &cx),
        };
        match (judgement.verdict, self.absent) {
            (StepVerdict::Ok, false) => self.add_next_run(judgement, seen),
            _ => judgement,
        }
    }

    /// Adds the time of the next run. Blocks a timer that will never elapse again.
    fn add_next_run(&self, judgement: Assessment<ServiceDiff>, seen: &Observation) -> Assessment<ServiceDiff> {
        let unit = match unit_state(seen, &self.state.probe()) {
            Ok(unit) => unit,
            Err(unknown) => return Assessment::unknown(&unknown),
        };
        if unit.sub == "elapsed" {
            let basis = json!({ "unit": judgement.basis, "sub": unit.sub });
            return Assessment::blocked(BlockClass::Declaration, "the timer will never elapse again", basis)
                .host_hint("its time is in the past: run `systemctl list-timers --all` on the host");
        }
        let next = match unit_text::format_time(unit.next_elapse) {
            Some(at) => format!("; next run at {at}"),
            // A calendar timer always has a next run, except in a sandbox with a simulated systemd.
            None if self.calendar.is_some() => "; next run not reported".to_owned(),
            None => "; next run scheduled".to_owned(),
        };
        Assessment { reason: format!("{}{next}", judgement.reason.raw()).into(), ..judgement }
    }

    /// Describes units that match, with the drop-ins of the administrator that change them.
    fn describe_unchanged(&self, seen: &Observation) -> String {
        if self.absent {
            return "the units do not exist".to_owned();
        }
        let others = [&self.service, &self.timer].map(|unit| unit.describe_drop_ins(seen));
        format!("both units match, and systemd has loaded them{}", others.concat())
    }

    fn render_calendar_check(&self) -> ShellFragment {
        match &self.calendar {
            Some(calendar) => {
                shell::close_action(shell::open_action().word(calendar).code(CALENDAR)).code("[ $? -eq 0 ] &&\n")
            }
            None => ShellFragment::new(),
        }
    }

    fn render_script(&self, diff: &TimerDiff, cx: &AssessmentContext<'_>) -> ShellFragment {
        let inputs = self.timer_unit_inputs(false);
        let own = AssessmentContext { inputs: &inputs, ..cx.clone() };
        let unit = |unit: &UnitResource, diff: &Option<UnitDiff>| {
            diff.as_ref().map(|diff| unit.act(diff, cx).into_script().body)
        };
        let units = [unit(&self.service, &diff.service), unit(&self.timer, &diff.timer)];
        let state = diff.state.as_ref().map(|state| self.state.act(state, &own).into_script().body);
        let steps: Vec<ShellFragment> = match self.absent {
            true => state.into_iter().chain(units.into_iter().rev().flatten()).collect(),
            false => units.into_iter().flatten().chain(state).collect(),
        };
        let start = if self.absent { ShellFragment::new() } else { self.render_calendar_check() };
        let and = |all: ShellFragment, one: ShellFragment| all.code("[ $? -eq 0 ] &&\n").append_fragment(one);
        steps.into_iter().fold(start.code(":\n"), and)
    }
}

/// Replaces the reason of a no-op by one that covers both units.
fn replace_ok_reason(judgement: Assessment<UnitDiff>, reason: &str) -> Assessment<UnitDiff> {
    match judgement.verdict {
        StepVerdict::Ok => Assessment { reason: reason.into(), ..judgement },
        _ => judgement,
    }
}

const CALENDAR: &str = r#"
command -v systemd-analyze >/dev/null 2>&1 || exit 0
next=$(systemd-analyze calendar -- "$1") || fail "systemd does not understand the calendar '$1': nothing was written"
case $next in *"Next elapse: never"*) fail "the calendar '$1' never comes again: nothing was written" ;; esac
"#;

const EXPLAIN: &[(&str, &str)] = &[
    (
        "systemd does not understand",
        "check it with `systemd-analyze calendar TEXT`; see `man systemd.time` for examples",
    ),
    ("never comes again", "its time is in the past, or on a day that does not exist"),
    ("No space left on device", "the file system is full; the old unit is unchanged"),
];

impl DeclaredResource for TimerResource {
    fn kind(&self) -> &'static str {
        KIND.name
    }

    fn title(&self) -> String {
        self.name.clone()
    }

    fn changed_object(&self, mark: &ChangeMark) -> ChangedObject {
        match mark.part {
            ChangedPart::ServiceFile => self.service.changed_object(mark),
            ChangedPart::TimerFile => self.timer.changed_object(mark),
            _ => self.state.changed_object(mark),
        }
    }

    fn probes(&self) -> Vec<Probe> {
        let mut probes: Vec<Probe> = [&self.service, &self.timer].iter().flat_map(|unit| unit.probes()).collect();
        probes.extend(self.state.probes());
        // Provides the time at which its unit last changed.
        probes.push(crate::resource::shared::file_target::path_probe(self.timer.path()));
        probes.extend(job_account_probe(&self.user).filter(|_| !self.absent));
        probes
    }

    fn desired_value(&self) -> Value {
        json!({ "service": self.service.desired_value(), "timer": self.timer.desired_value(), "absent": self.absent })
    }

    fn provided_items(&self) -> Vec<ProvidedItem> {
        [&self.service, &self.timer].iter().flat_map(|unit| unit.provided_items()).collect()
    }

    fn restart_input_paths(&self) -> Vec<String> {
        [&self.service, &self.timer].iter().flat_map(|unit| unit.restart_input_paths()).collect()
    }

    fn exclusive_claims(&self) -> Vec<(&'static str, String)> {
        let units = [&self.service, &self.timer].into_iter().flat_map(|unit| unit.exclusive_claims());
        units.chain(self.state.exclusive_claims()).collect()
    }
}

/// How a timer differs, in its three parts.
#[derive(Clone, Debug, PartialEq, Serialize)]
struct TimerDiff {
    /// The unit that runs the command.
    service: Option<UnitDiff>,
    /// The unit that starts it.
    timer: Option<UnitDiff>,
    /// Whether the timer runs and is enabled.
    state: Option<ServiceDiff>,
}

impl ResourceDiff for TimerDiff {
    fn other_changed_items(&self) -> Vec<ProvidedItem> {
        self.state.as_ref().map(ServiceDiff::other_changed_items).unwrap_or_default()
    }

    fn stopped_units(&self) -> Vec<String> {
        self.state.as_ref().map(ServiceDiff::stopped_units).unwrap_or_default()
    }

    fn render_changes(&self) -> Vec<AttributeChange> {
        let service = render_part("service", ChangedPart::ServiceFile, self.service.as_ref());
        let timer = render_part("timer", ChangedPart::TimerFile, self.timer.as_ref());
        let state = render_part("state", ChangedPart::Main, self.state.as_ref());
        let at = |changes: Vec<AttributeChange>, content: &'static str| {
            changes.into_iter().map(move |change| match change.mark.aspect {
                ChangeAspect::Content => change.recorded(RecordedValue::At(content)),
                _ => change,
            })
        };
        let state = state.into_iter().map(|change| change.recorded(RecordedValue::ImpliedBy(&["/absent"])));
        at(service, "/service/content").chain(at(timer, "/timer/content")).chain(state).collect()
    }
}

impl TypedResource for TimerResource {
    type Diff = TimerDiff;

    fn diff(&self, seen: &Observation, cx: &AssessmentContext<'_>) -> Assessment<TimerDiff> {
        let account = || assess_job_account(&self.user, "systemd does not start the command", seen, cx.predicted);
        if let Some(judged) = (!self.absent).then(account).flatten() {
            return judged;
        }
        let mut service = self.service.diff(seen, cx);
        let mut timer = self.timer.diff(seen, cx);
        let mut state = self.assess_state(&timer, seen, cx);
        let diff = TimerDiff { service: service.diff.take(), timer: timer.diff.take(), state: state.diff.take() };
        PartAssessments::default()
            .with_part("service", replace_ok_reason(service, &self.describe_unchanged(seen)))
            .with_part("timer", replace_ok_reason(timer, ""))
            .with_part("state", state)
            .combine_with(Some(diff))
    }

    fn act(&self, diff: &TimerDiff, cx: &AssessmentContext<'_>) -> Action {
        Action::Script(ActionScript { body: self.render_script(diff, cx), long: false, explain: EXPLAIN })
    }

    fn undo(&self, diff: &TimerDiff) -> UndoEffect {
        let made = diff.state.as_ref().is_some_and(|state| state.enabled.as_ref().is_some_and(|on| on.from.is_none()));
        if made && !self.absent {
            let fields = json!({ "name": self.name, "command": "true" });
            let paths: Vec<String> = [&self.service, &self.timer].map(|unit| unit.path().to_owned()).into();
            let units = vec![UnitAtBoot { name: format!("{}.timer", self.name), enabled: false }];
            let removed = UndoEffect::declare(vec![UndoDeclaration::absent(KIND.name, fields)]);
            return removed.removing(paths.clone()).with_boot(BootUndo { paths, units, ..BootUndo::default() });
        }
        let file = |unit: &UnitResource, change: &Option<UnitDiff>| {
            matches!(change, Some(UnitDiff::File { .. })).then(|| unit.path().to_owned())
        };
        let files = file(&self.service, &diff.service).into_iter().chain(file(&self.timer, &diff.timer));
        let state = diff.state.as_ref().map(|state| self.state.undo(state)).unwrap_or_default();
        UndoEffect { paths: files.collect(), ..state }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn build_error(fields: &[(&'static str, Value)]) -> String {
        let usual = [("name", json!("job")), ("command", json!("true"))];
        build(&FieldValues(usual.into_iter().chain(fields.iter().cloned()).collect()), false).unwrap_err().message
    }

    #[test]
    fn invalid_timer_fields_are_rejected() {
        assert_eq!(build_error(&[]), "exactly one of `calendar` and `every` is required");
        let both = [("calendar", json!("daily")), ("every", json!(60))];
        assert_eq!(build_error(&both), "exactly one of `calendar` and `every` is required");
        assert_eq!(
            build_error(&[("name", json!("a.timer"))]),
            "`a.timer` is the name of a unit, but a timer has two units"
        );
        assert_eq!(build_error(&[("name", json!("a@b"))]), "`a@b` is a template and cannot have a schedule");
        let persistent = [("every", json!(60)), ("persistent", json!(true))];
        assert_eq!(build_error(&persistent), "`persistent` requires `calendar`: `every` counts from the last run");
        assert_eq!(build_error(&[("every", json!(0))]), "`every` is zero");
    }
}
