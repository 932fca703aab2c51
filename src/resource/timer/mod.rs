//! `timer`: a timer of systemd with the service that it starts, made of what `unit` and `service` are made of.

mod text;

use super::parts::{Parts, part};
use super::service::Service;
use super::support::{bad_value, refuse_secrets, required, sha256_hex, unit_state};
use super::unit::{SECRET_HINT, Unit};
use super::{Action, Context, Field, Fields, Input, Judgement, Kind, Provision, Resource, Type, shell};
use crate::diag::{Code, Diag};
use crate::model::{BlockClass, Value, Verdict};
use crate::probe::{Observation, Probe};
use crate::script::Fragment;
use serde_json::json;

pub(super) const KIND: Kind = Kind {
    name: "timer",
    summary: "A command that systemd runs at given times: a timer with its service.",
    example: include_str!("../examples/timer.yaml"),
    doc: "\
`/etc/systemd/system/NAME.service` (a oneshot) runs `command` with the shell, `NAME.timer` starts it. With `calendar`
it runs at times that `systemd-analyze calendar` understands and that come again, to the minute; with `every` that long after the
timer started and after each run, to a tenth of that time where this is less than a minute.

**Compared** are both units as kind `unit` compares them, and the timer as kind `service` does: enabled, active, and started
after its unit last changed. A timer that is active and will never elapse again is no good: it is **blocked**. Nothing to do reads
`both units are as declared, and systemd has read them; running and enabled; nothing it runs on changed since it started; next
at 2026-11-22 00:00:00 UTC`; a time that counts from the last run or the start of the host is not named, since it differs from host to host.

**A change** has `calendar` judged by `systemd-analyze calendar` on the host before anything is written, writes the service
before the timer, reloads the manager, and enables and starts the timer. A changed timer is restarted (D1 by the
rules of `service`; nothing that runs is stopped); a changed service is only read again and counts from the next run on.
A run that is going on is never touched.

**Removal** stops and disables the timer, then removes both units. A run that is going on goes on.",
    fields: &[
        Field::required("name", Type::Name, "Name of the timer and of its service, without a type."),
        Field::required("command", Type::Line, "What the shell runs."),
        Field::optional("calendar", Type::Line, "When: `daily`, `Mon *-*-* 04:00:00`. Excludes `every`."),
        Field::optional("every", Type::Duration, "How often: `10m`. Excludes `calendar`."),
        Field::optional("user", Type::Name, "Whose process it is. Default `root`."),
        Field::optional("description", Type::Line, "What `systemctl list-timers` says of it. Default: the name."),
        Field::optional(
            "persistent",
            Type::Bool,
            "Whether a run that was missed while the host was off is made up for. With `calendar` only. Default `false`.",
        ),
        Field::optional("delay", Type::Wait, "Longest random delay, so that not all hosts start at once. Default none."),
    ],
    build,
};

#[derive(Debug)]
struct Timer {
    name: String,
    calendar: Option<String>,
    service: Unit,
    timer: Unit,
    state: Service,
    absent: bool,
}

fn build(fields: &Fields, absent: bool) -> Result<Box<dyn Resource>, Diag> {
    refuse_secrets(KIND.name, fields, SECRET_HINT)?;
    let name = name(required(fields, "name")?)?;
    let (service, timer) = if absent { Default::default() } else { (text::service(fields)?, text::timer(fields)?) };
    if !absent && fields.has("calendar") == fields.has("every") {
        return Err(Diag::error(Code::Exclusive, "a timer has either `calendar` or `every`"));
    }
    let unit = |suffix: &str, content: &str| Unit::whole(&format!("{name}.{suffix}"), content, absent);
    Ok(Box::new(Timer {
        calendar: fields.text("calendar").map(str::to_owned),
        service: unit("service", &service),
        timer: unit("timer", &timer),
        state: Service::enabled(&format!("{name}.timer"), !absent),
        name,
        absent,
    }))
}

fn name(given: &str) -> Result<String, Diag> {
    for suffix in [".timer", ".service"] {
        if given.ends_with(suffix) {
            return Err(bad_value(format!("`{given}` names a unit, and this makes two"))
                .hint(format!("write `{}`", given.trim_end_matches(suffix))));
        }
    }
    match given.contains('@') {
        true => Err(bad_value(format!("`{given}` is a template, which has no times of its own"))),
        false => Ok(given.to_owned()),
    }
}

impl Timer {
    /// The timer itself depends on its own unit and on nothing else.
    fn inputs(&self, changing: bool) -> [Input; 1] {
        let digest = sha256_hex(self.timer.desired().to_string().as_bytes());
        [Input {
            step: "its unit".to_owned(),
            paths: vec![self.timer.path().to_owned()],
            trace: None,
            digest,
            changing,
        }]
    }

    fn judge_state(&self, timer: &Judgement, seen: &Observation, cx: &Context<'_>) -> Judgement {
        let coming = timer.verdict == Verdict::Change && !self.absent;
        let inputs = self.inputs(coming && timer.changes.iter().any(|c| c.attribute != "daemon-reload"));
        let cx = Context { inputs: &inputs, ..cx.clone() };
        let judgement = match coming {
            // It rests on this very step, whose changes are seen.
            true => Judgement { predicted: false, ..self.state.judge_coming(seen, &cx) },
            false => self.state.judge(seen, &cx),
        };
        match (judgement.verdict, self.absent) {
            (Verdict::Ok, false) => self.with_next(judgement, seen),
            _ => judgement,
        }
    }

    /// Adds when it elapses next; a timer that waits for nothing will never run.
    fn with_next(&self, judgement: Judgement, seen: &Observation) -> Judgement {
        let unit = match unit_state(seen, &self.state.probe()) {
            Ok(unit) => unit,
            Err(unknown) => return Judgement::unknown(&unknown),
        };
        if unit.sub == "elapsed" {
            let basis = json!({ "unit": judgement.basis, "sub": unit.sub });
            return Judgement::blocked(BlockClass::Declaration, "it will never elapse again", basis)
                .hint("its time lies in the past: see `systemctl list-timers --all` on the host");
        }
        let next = match text::moment(unit.next_elapse) {
            Some(at) => format!("; next at {at}"),
            // Calendars always have one, but for timers that only look like one, as in a sandbox.
            None if self.calendar.is_some() => "; when it runs next is not told".to_owned(),
            None => "; its next run is set".to_owned(),
        };
        Judgement { reason: format!("{}{next}", judgement.reason.raw()).into(), ..judgement }
    }

    fn both_ok(&self) -> &'static str {
        match self.absent {
            true => "there are no such units, as declared",
            false => "both units are as declared, and systemd has read them",
        }
    }

    fn check_calendar(&self) -> Fragment {
        match &self.calendar {
            Some(calendar) => shell::close(shell::usual().word(calendar).code(CALENDAR)).code("[ $? -eq 0 ] &&\n"),
            None => Fragment::new(),
        }
    }

    fn action(&self, judgement: &Judgement, cx: &Context<'_>) -> Fragment {
        let inputs = self.inputs(false);
        let own = Context { inputs: &inputs, ..cx.clone() };
        let unit = |name: &str, unit: &Unit| part(judgement, name).map(|part| unit.act(&part, cx).body);
        let units = [unit("service", &self.service), unit("timer", &self.timer)];
        let state = part(judgement, "state").map(|part| self.state.act(&part, &own).body);
        let steps: Vec<Fragment> = match self.absent {
            true => state.into_iter().chain(units.into_iter().rev().flatten()).collect(),
            false => units.into_iter().flatten().chain(state).collect(),
        };
        let start = if self.absent { Fragment::new() } else { self.check_calendar() };
        let and = |all: Fragment, one: Fragment| all.code("[ $? -eq 0 ] &&\n").then(one);
        steps.into_iter().fold(start.code(":\n"), and)
    }
}

/// A no-op says of two units together what is so of both.
fn said_once(judgement: Judgement, reason: &str) -> Judgement {
    match judgement.verdict {
        Verdict::Ok => Judgement { reason: reason.into(), ..judgement },
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
        "`systemd-analyze calendar TEXT` shows what it makes of a text; `man systemd.time` has examples",
    ),
    ("never comes again", "its time lies in the past, or on a day that does not exist"),
    ("No space left on device", "the file system is full; the old unit is untouched"),
];

impl Resource for Timer {
    fn kind(&self) -> &'static str {
        KIND.name
    }

    fn title(&self) -> String {
        self.name.clone()
    }

    fn probes(&self) -> Vec<Probe> {
        let mut probes: Vec<Probe> = [&self.service, &self.timer].iter().flat_map(|unit| unit.probes()).collect();
        probes.extend(self.state.probes());
        // When its unit last changed.
        probes.push(super::body::bare(self.timer.path()));
        probes
    }

    fn judge(&self, seen: &Observation, cx: &Context<'_>) -> Judgement {
        let timer = self.timer.judge(seen, cx);
        let state = self.judge_state(&timer, seen, cx);
        Parts::default()
            .with("service", said_once(self.service.judge(seen, cx), self.both_ok()))
            .with("timer", said_once(timer, ""))
            .with("state", state)
            .judgement()
    }

    fn act(&self, judgement: &Judgement, cx: &Context<'_>) -> Action {
        Action { body: self.action(judgement, cx), long: false, explain: EXPLAIN }
    }

    fn desired(&self) -> Value {
        json!({ "service": self.service.desired(), "timer": self.timer.desired(), "absent": self.absent })
    }

    fn provides(&self) -> Vec<Provision> {
        [&self.service, &self.timer].iter().flat_map(|unit| unit.provides()).collect()
    }

    fn inputs(&self) -> Vec<String> {
        [&self.service, &self.timer].iter().flat_map(|unit| unit.inputs()).collect()
    }

    fn claims(&self) -> Vec<(&'static str, String)> {
        let units = [&self.service, &self.timer].into_iter().flat_map(|unit| unit.claims());
        units.chain(self.state.claims()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(fields: &[(&'static str, Value)]) -> String {
        let usual = [("name", json!("job")), ("command", json!("true"))];
        build(&Fields(usual.into_iter().chain(fields.iter().cloned()).collect()), false).unwrap_err().message
    }

    #[test]
    fn fields_are_checked() {
        assert_eq!(refused(&[]), "a timer has either `calendar` or `every`");
        let both = [("calendar", json!("daily")), ("every", json!(60))];
        assert_eq!(refused(&both), "a timer has either `calendar` or `every`");
        assert_eq!(refused(&[("name", json!("a.timer"))]), "`a.timer` names a unit, and this makes two");
        assert_eq!(refused(&[("name", json!("a@b"))]), "`a@b` is a template, which has no times of its own");
        let persistent = [("every", json!(60)), ("persistent", json!(true))];
        assert_eq!(refused(&persistent), "`persistent` goes with `calendar` only: `every` counts from the last run");
        assert_eq!(refused(&[("every", json!(0))]), "`every` is zero");
    }
}
