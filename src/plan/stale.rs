//! A plan that was kept against one that is made now: what moved meanwhile, and whether both are the same plan.

use super::model::{HostPlan, Plan, StepPlan};
use super::relied::moved;
use super::window::class;
use crate::model::{HostName, StepId, Verdict};
use std::collections::{BTreeMap, BTreeSet};

/// Returns the steps that rely on something that is not as it was when `kept` was made, each with what that is, as a
/// lowercase fragment. A step that is done meanwhile relies on nothing any more.
pub fn moved_since(kept: &HostPlan, now: &HostPlan) -> Vec<(StepId, String)> {
    let steps: BTreeMap<&StepId, &StepPlan> = now.steps.iter().map(|step| (&step.id, step)).collect();
    let whole = |id: &StepId| kept.steps.iter().any(|step| step.envelope.is_some() && step.id == without_key(id));
    let planned = kept.steps.iter().filter_map(|step| Some((&step.id, of_step(step, steps.get(&step.id).copied())?)));
    let known: BTreeSet<&StepId> = kept.steps.iter().map(|step| &step.id).collect();
    let new = now.steps.iter().filter(|step| step.acts() && !known.contains(&step.id) && !whole(&step.id));
    let new = new.map(|step| (&step.id, "is not in the plan, and would change something now".to_owned()));
    planned.chain(new).map(|(id, why)| (id.clone(), why)).collect()
}

fn without_key(id: &StepId) -> StepId {
    StepId { key: None, ..id.clone() }
}

fn of_step(kept: &StepPlan, now: Option<&StepPlan>) -> Option<String> {
    match (kept.acts(), kept.verdict) {
        (true, _) => of_change(kept, now),
        (false, Verdict::Ok | Verdict::NotApplicable) => of_settled(kept, now?),
        // Was not to run, and is judged again if its turn comes.
        _ => None,
    }
}

/// A step that was to change something.
fn of_change(kept: &StepPlan, now: Option<&StepPlan>) -> Option<String> {
    let now = match now {
        None if kept.envelope.is_some() => return None,
        None => return Some("is not declared by what the host says now".to_owned()),
        Some(now) => now,
    };
    match &kept.envelope {
        _ if now.verdict.is_settled() => None,
        // Both were judged before anything ran.
        Some(_) if now.envelope.is_some() && now.basis != kept.basis => Some(what_moved(kept, now)),
        // What it may do at most was shown, and is held against it just before it runs.
        Some(envelope) => (class(now) > envelope.disruption.max(kept.disruption))
            .then(|| format!("the plan allows {} there, it would be {} now", envelope.disruption, class(now))),
        None if now.basis != kept.basis => Some(what_moved(kept, now)),
        None => (!is_shown_alike(kept, now)).then(|| "would do something else now than the plan shows".to_owned()),
    }
}

fn what_moved(kept: &StepPlan, now: &StepPlan) -> String {
    let reason = || format!("what it relies on moved; it is `{}` now: {}", now.verdict.name(), now.reason.raw());
    moved(&kept.before, &now.before).unwrap_or_else(reason)
}

/// A step that was as desired.
fn of_settled(kept: &StepPlan, now: &StepPlan) -> Option<String> {
    if !now.acts() || now.envelope.is_some() {
        return None;
    }
    let change = |change: &crate::resource::Change| match (&change.from, &change.to) {
        (Some(from), Some(to)) => format!("`{}` was {:?} and is {:?}", change.attribute, to.raw(), from.raw()),
        (None, Some(to)) => format!("`{}` was {:?} and is not there", change.attribute, to.raw()),
        _ => format!("`{}` differs", change.attribute),
    };
    let changes: Vec<String> = now.changes.iter().filter(|one| !one.secret).map(change).collect();
    let what = if changes.is_empty() { now.reason.raw().to_owned() } else { changes.join(", ") };
    Some(format!("was `{}` in the plan; now {what}", kept.verdict.name()))
}

fn is_shown_alike(kept: &StepPlan, now: &StepPlan) -> bool {
    let shown = |step: &StepPlan| {
        (step.kind.clone(), step.title.clone(), step.changes.clone(), step.disruption, step.verdict, step.after.clone())
    };
    shown(kept) == shown(now)
}

/// Returns the first thing in which a plan that was made again differs from the one that was kept. Hosts in `apart`
/// are left out, and with them what is true of all hosts together.
pub fn difference(kept: &Plan, again: &Plan, apart: &BTreeSet<HostName>) -> Option<String> {
    let names = |plan: &Plan| plan.hosts.iter().map(|host| host.host.clone()).collect::<Vec<_>>();
    if names(kept) != names(again) {
        return Some("it is about other hosts".to_owned());
    }
    // The inventory may be called by another path now, and so is all that lies beside it.
    let elsewhere = kept.inventory != again.inventory;
    let nowhere = (elsewhere.then(|| without_places(kept)), elsewhere.then(|| without_places(again)));
    let (kept, again) = (nowhere.0.as_ref().unwrap_or(kept), nowhere.1.as_ref().unwrap_or(again));
    let pairs = kept.hosts.iter().zip(&again.hosts).filter(|(host, _)| !apart.contains(&host.host));
    let host = pairs.into_iter().find(|(one, other)| one != other).map(|(one, other)| of_host(one, other));
    host.or_else(|| (apart.is_empty() && kept.rollout != again.rollout).then(|| "its rollout differs".to_owned()))
        .or_else(|| (apart.is_empty() && !elsewhere && kept.id != again.id).then(|| "its identity differs".to_owned()))
}

fn without_places(plan: &Plan) -> Plan {
    let mut plan = plan.clone();
    for host in &mut plan.hosts {
        host.steps.iter_mut().for_each(|step| step.place = Default::default());
        host.verify.iter_mut().for_each(|verify| verify.place = String::new());
    }
    plan
}

fn of_host(kept: &HostPlan, again: &HostPlan) -> String {
    let step = kept.steps.iter().find(|step| !again.steps.contains(step)).map(|step| &step.id);
    let step = step.or_else(|| again.steps.iter().find(|step| !kept.steps.contains(step)).map(|step| &step.id));
    match step {
        Some(id) => format!("step `{id}` of `{}` differs", kept.host),
        None => format!("what it says of `{}` differs", kept.host),
    }
}
