//! Binds a saved plan to the current state of hosts: determines on which hosts it may be applied.

use super::observed_hosts::ObservedHosts;
use super::run_options::RunOptions;
use super::saved_plan::SavedPlan;
use crate::config::Project;
use crate::model::{HostName, StepId, UntrustedText, Value};
use crate::plan::{self, HostPlan, HostReachability, ObservedHost, Plan, StalePlanReason, StepPlan};
use std::collections::BTreeMap;

/// Returns the plan to apply to the current observation, and notes for each other host why it is not applied there. A
/// host where this plan has already run is stale if it has changes again, unless `replay` is set.
pub fn bind_saved_plan(
    project: &Project,
    saved: &SavedPlan,
    observed: &mut ObservedHosts,
    options: &RunOptions,
    replay: bool,
) -> Plan {
    let mut plan = Plan { id: saved.digest.clone(), ..saved.plan.clone() };
    super::verify::note_closed_hours(project, &mut plan, options);
    bind_plan(project, plan, observed, options, !replay)
}

/// Returns the part of `bound` that can be carried out on the current observation. With `once`, a host on which another
/// run carried it out is stale if it has changes again. A second pass of the same run continues the first one.
pub(super) fn bind_plan(
    project: &Project,
    mut bound: Plan,
    observed: &mut ObservedHosts,
    options: &RunOptions,
    once: bool,
) -> Plan {
    // Only a worker takes part in a run that another process has begun.
    let own_run = options.worker.as_ref().map(|worker| worker.run.as_str());
    let now = super::verify::plan(project, observed, options);
    let mut now: BTreeMap<HostName, HostPlan> = now.hosts.into_iter().map(|host| (host.host.clone(), host)).collect();
    let mut seen: BTreeMap<HostName, &mut ObservedHost> =
        observed.seen.iter_mut().map(|seen| (seen.host.clone(), seen)).collect();
    for host in &mut bound.hosts {
        let Some(seen) = seen.get_mut(&host.host) else { continue };
        let Some(now) = now.remove(&host.host) else { continue };
        if !seen.is_observed() {
            host.reach = seen.reach.clone();
            continue;
        }
        if let HostReachability::Unreachable(why) = &mut host.reach {
            why.why = format!("did not answer when the plan was made: {}", why.why.raw()).into();
            continue;
        }
        if now.hold.is_some() {
            *host = now;
            continue;
        }
        let ran = find_earlier_run(&bound.id, own_run, seen).filter(|_| once && host.has_changes());
        if ran.is_some() && !now.has_changes() {
            // It has run and nothing is left of it: the current observation is the proof.
            *host = now;
            continue;
        }
        seen.stale = ran.map(|ran| explain_earlier_run(ran, host, &now)).or_else(|| {
            // A worker may take up what another one began, and did not record.
            let continues = own_run.is_some() || find_earlier_run(&bound.id, None, seen).is_some();
            find_stale_reason(host, &now, continues)
        });
        if seen.stale.is_some() {
            show_current_state(host, &now);
        } else if !host.has_changes() && !now.has_changes() {
            // Nothing was planned and nothing is needed: the current observation is the proof.
            *host = now;
        }
    }
    bound
}

fn explain_earlier_run(ran: String, kept: &HostPlan, now: &HostPlan) -> StalePlanReason {
    let hint = "make a new plan with `forge plan -o`, or use `--replay` to apply this one again";
    StalePlanReason {
        why: format!("this plan has already run here: {ran}").into(),
        hint: hint.into(),
        steps: Vec::new(),
        unsettled: list_unsettled_steps(kept, now),
    }
}

fn find_stale_reason(kept: &HostPlan, now: &HostPlan, continues: bool) -> Option<StalePlanReason> {
    let moved = plan::list_stale_steps(kept, now, continues);
    let (first, why) = moved.first()?;
    let more = match moved.len() {
        1 => String::new(),
        all => format!("; and {} more", format_step_count(all - 1)),
    };
    Some(StalePlanReason {
        why: format!("changed since the plan was made: `{first}`: {why}{more}").into(),
        hint: "make a new plan with `forge plan -o`; nothing was changed on this host".into(),
        steps: moved.into_iter().map(|(id, why)| (id, UntrustedText::from(why))).collect(),
        unsettled: list_unsettled_steps(kept, now),
    })
}

/// Returns the steps that the plan would not run and that differ now or do not apply any more, each with the reason.
fn list_unsettled_steps(kept: &HostPlan, now: &HostPlan) -> Vec<(StepId, UntrustedText)> {
    let current: BTreeMap<&StepId, &StepPlan> = now.steps.iter().map(|step| (&step.id, step)).collect();
    let explain = |id: &StepId| match current.get(id) {
        Some(step) => step.will_run().then(|| step.reason.clone()),
        None => Some("it does not apply to the host".into()),
    };
    let idle = kept.steps.iter().filter(|step| !step.will_run());
    idle.filter_map(|step| Some((step.id.clone(), explain(&step.id)?))).collect()
}

/// Replaces what the plan does not change on a stale host by the present observation. The plan would still run the same
/// steps.
fn show_current_state(kept: &mut HostPlan, now: &HostPlan) {
    kept.undeclared = now.undeclared.clone();
    kept.accepted = now.accepted.clone();
    let current: BTreeMap<&StepId, &StepPlan> =
        now.steps.iter().filter(|step| !step.will_run()).map(|step| (&step.id, step)).collect();
    for step in kept.steps.iter_mut().filter(|step| !step.will_run()) {
        if let Some(now) = current.get(&step.id) {
            *step = (*now).clone();
        }
    }
}

fn format_step_count(count: usize) -> String {
    match count {
        1 => "1 step".to_owned(),
        many => format!("{many} steps"),
    }
}

/// Returns the other run that applied a plan on a host, from the host's own records.
fn find_earlier_run(digest: &str, own_run: Option<&str>, seen: &ObservedHost) -> Option<String> {
    let records = seen.records.values().flatten();
    let field = |record: &'_ Value, key: &str| record.get(key).and_then(Value::as_str).map(str::to_owned);
    let of_plan = records.filter(|record| field(record, "plan").as_deref() == Some(digest));
    let mut own = of_plan.filter(|record| own_run.is_none() || field(record, "run").as_deref() != own_run);
    let text = |record: &Value, key: &str| record.get(key).and_then(Value::as_str).unwrap_or("?").to_owned();
    let first = own.next()?;
    let (user, controller) = (text(first, "user"), text(first, "controller"));
    Some(format!("run {} by {user} on {controller}", text(first, "run")))
}
