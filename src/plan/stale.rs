//! Compares a saved plan with one that is made now: what changed meanwhile, and whether both are the same plan.

use super::RolloutPlan;
use super::model::{HostPlan, Plan, StepPlan};
use super::preconditions::describe_changed_preconditions;
use super::window::step_disruption;
use crate::model::{HostName, StepId, StepVerdict};
use crate::resource::AttributeChange;
use std::collections::{BTreeMap, BTreeSet};

/// Returns the steps that depend on a value that changed since `kept` was made, each with that change as a lowercase
/// fragment. A step that was completed meanwhile depends on nothing any more. With `continues`, steps of `kept` were
/// carried out on the host, and later ones may rely on values that these changed.
pub fn list_stale_steps(kept: &HostPlan, now: &HostPlan, continues: bool) -> Vec<(StepId, String)> {
    let steps: BTreeMap<&StepId, &StepPlan> = now.steps.iter().map(|step| (&step.id, step)).collect();
    let whole = |id: &StepId| kept.steps.iter().any(|step| step.envelope.is_some() && step.id == without_key(id));
    let planned = kept
        .steps
        .iter()
        .filter_map(|step| Some((&step.id, explain_stale_step(step, steps.get(&step.id).copied(), continues)?)));
    let known: BTreeSet<&StepId> = kept.steps.iter().map(|step| &step.id).collect();
    let new = now.steps.iter().filter(|step| step.will_run() && !known.contains(&step.id) && !whole(&step.id));
    let new = new.map(|step| (&step.id, "is not in the plan, but would make changes now".to_owned()));
    planned.chain(new).map(|(id, why)| (id.clone(), why)).collect()
}

fn without_key(id: &StepId) -> StepId {
    StepId { key: None, ..id.clone() }
}

fn explain_stale_step(kept: &StepPlan, now: Option<&StepPlan>, continues: bool) -> Option<String> {
    match kept.will_run() {
        true => explain_stale_change(kept, now, continues),
        false => explain_new_change(kept, now?),
    }
}

const DIFFERENT_ACTION: &str = "would now make other changes than the plan shows";

/// A step that was to change something.
fn explain_stale_change(kept: &StepPlan, now: Option<&StepPlan>, continues: bool) -> Option<String> {
    let now = match now {
        None if kept.envelope.is_some() => return None,
        None => return Some("is no longer declared, given the host's current facts".to_owned()),
        Some(now) => now,
    };
    match &kept.envelope {
        _ if now.verdict.is_settled() => None,
        // Both were evaluated before any step ran.
        Some(_) if now.envelope.is_some() && now.basis != kept.basis => Some(describe_moved_basis(kept, now)),
        Some(_) if now.envelope.is_some() && !is_displayed_alike(kept, now) => Some(DIFFERENT_ACTION.to_owned()),
        // What the plan shows was observed before any of its steps ran, and so is this.
        Some(_) if !continues && !kept.changes.is_empty() && now.basis != kept.basis => {
            Some(describe_moved_basis(kept, now))
        }
        // The plan showed the most that it may do; this is enforced right before it runs.
        Some(envelope) => (step_disruption(now) > envelope.disruption.max(kept.disruption))
            .then(|| format!("the plan allows {}, the change is now {}", envelope.disruption, step_disruption(now))),
        None if now.basis != kept.basis => Some(describe_moved_basis(kept, now)),
        None => (!is_displayed_alike(kept, now)).then(|| DIFFERENT_ACTION.to_owned()),
    }
}

fn describe_moved_basis(kept: &StepPlan, now: &StepPlan) -> String {
    let reason = || format!("its inputs changed; it is `{}` now: {}", now.verdict.name(), now.reason.raw());
    describe_changed_preconditions(&kept.before, &now.before).unwrap_or_else(reason)
}

/// A step that was not to run.
fn explain_new_change(kept: &StepPlan, now: &StepPlan) -> Option<String> {
    if !now.will_run() || now.envelope.is_some() {
        return None;
    }
    if let Some(why) = &kept.held {
        return Some(format!("was held back in the plan ({why}), and nothing holds it back now"));
    }
    if kept.waits_for.is_some() && kept.verdict == StepVerdict::Change {
        return Some("waited in the plan for a step that could not run, and can run now".to_owned());
    }
    let change = |change: &AttributeChange| match (&change.from, &change.to) {
        (Some(from), Some(to)) => format!("`{}` was {:?} and is {:?}", change.attribute, to.raw(), from.raw()),
        (None, Some(to)) => format!("`{}` was {:?} and is missing", change.attribute, to.raw()),
        _ => format!("`{}` differs", change.attribute),
    };
    // Only for a step that matched is the old value known: it was the declared one.
    let known = now.changes.iter().filter(|one| !one.secret && kept.verdict == StepVerdict::Ok);
    let changes: Vec<String> = known.map(change).collect();
    let what = if changes.is_empty() { now.reason.raw().to_owned() } else { changes.join(", ") };
    Some(format!("was `{}` in the plan; now {what}", kept.verdict.name()))
}

fn is_displayed_alike(kept: &StepPlan, now: &StepPlan) -> bool {
    let shown =
        |step: &StepPlan| (step.kind.clone(), step.title.clone(), step.disruption, step.verdict, step.after.clone());
    shown(kept) == shown(now)
        && kept.changes.len() == now.changes.len()
        && kept.changes.iter().zip(&now.changes).all(|(one, other)| is_same_change(one, other))
}

/// A plan from recorded answers has no diff of a file whose content was not recorded. The values of both changes, with the
/// digests of the content, still have to be equal.
fn is_same_change(kept: &AttributeChange, now: &AttributeChange) -> bool {
    match (&kept.diff, &now.diff) {
        (Some(_), Some(_)) | (None, None) => kept == now,
        _ => {
            let without_diff = |change: &AttributeChange| AttributeChange { diff: None, ..change.clone() };
            without_diff(kept) == without_diff(now)
        }
    }
}

/// Returns the first difference between a plan that was made again and the saved one. Hosts in `apart` are excluded,
/// and with them everything that depends on all hosts together.
pub fn find_difference(kept: &Plan, again: &Plan, apart: &BTreeSet<HostName>) -> Option<String> {
    let names = |plan: &Plan| plan.hosts.iter().map(|host| host.host.clone()).collect::<Vec<_>>();
    if names(kept) != names(again) {
        return Some("its hosts differ".to_owned());
    }
    if let Some(what) = compare_headers(kept, again) {
        return Some(what);
    }
    // The inventory may have another path now, and so may all files next to it.
    let elsewhere = kept.inventory != again.inventory;
    let nowhere = (elsewhere.then(|| strip_locations(kept)), elsewhere.then(|| strip_locations(again)));
    let (kept, again) = (nowhere.0.as_ref().unwrap_or(kept), nowhere.1.as_ref().unwrap_or(again));
    let pairs = kept.hosts.iter().zip(&again.hosts).filter(|(host, _)| !apart.contains(&host.host));
    let host =
        pairs.into_iter().find(|(one, other)| one != other).map(|(one, other)| describe_host_difference(one, other));
    // A host in `apart` is not compared, so it must not be listed there without need.
    let mut same = kept.hosts.iter().filter(|host| apart.contains(&host.host) && again.hosts.contains(host));
    let host = host.or_else(|| same.next().map(|host| format!("`{}` is withheld but depends on no secret", host.host)));
    let unknown = apart.iter().find(|host| !kept.hosts.iter().any(|one| one.host == **host));
    let host = host.or_else(|| unknown.map(|host| format!("`{host}` is withheld but is not in the plan")));
    let rollout = match apart.is_empty() {
        true => timeless_rollout(&kept.rollout) != timeless_rollout(&again.rollout),
        false => rollout_limits(&kept.rollout) != rollout_limits(&again.rollout),
    };
    host.or_else(|| rollout.then(|| "its rollout differs".to_owned()))
        .or_else(|| (apart.is_empty() && !elsewhere && kept.id != again.id).then(|| "its identity differs".to_owned()))
}

/// Compares the fields that belong to no host. The inventory may be in another folder now; digests bind its files.
fn compare_headers(kept: &Plan, again: &Plan) -> Option<String> {
    let file = |plan: &Plan| camino::Utf8Path::new(&plan.inventory).file_name().map(str::to_owned);
    let differs = |what: &str, kept: &str, again: &str| Some(format!("its {what} is `{kept}`, not `{again}`"));
    match () {
        () if kept.cluster != again.cluster => differs("cluster", &kept.cluster, &again.cluster),
        () if file(kept) != file(again) => differs("inventory", &kept.inventory, &again.inventory),
        () if (kept.version, &kept.forge) != (again.version, &again.forge) => Some("its version differs".to_owned()),
        () if kept.simulated != again.simulated => Some("its simulated hosts differ".to_owned()),
        () => None,
    }
}

/// Returns the part of a rollout that does not depend on the results of hosts.
fn rollout_limits(rollout: &RolloutPlan) -> RolloutPlan {
    RolloutPlan { canaries: Vec::new(), waves: Vec::new(), unavailable: Vec::new(), ..timeless_rollout(rollout) }
}

/// Returns the rollout without the time at which its plan was made.
fn timeless_rollout(rollout: &RolloutPlan) -> RolloutPlan {
    RolloutPlan { closed: None, ..rollout.clone() }
}

fn strip_locations(plan: &Plan) -> Plan {
    let mut plan = plan.clone();
    for host in &mut plan.hosts {
        host.steps.iter_mut().for_each(|step| step.place = Default::default());
        host.verify.iter_mut().for_each(|verify| verify.place = Default::default());
    }
    plan
}

fn describe_host_difference(kept: &HostPlan, again: &HostPlan) -> String {
    let step = kept.steps.iter().find(|step| !again.steps.contains(step)).map(|step| &step.id);
    let step = step.or_else(|| again.steps.iter().find(|step| !kept.steps.contains(step)).map(|step| &step.id));
    match step {
        Some(id) => format!("step `{id}` of `{}` differs", kept.host),
        None => format!("the plan of `{}` differs", kept.host),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Precondition;
    use serde_json::json;

    fn step(name: &str, verdict: &str, basis: &str, more: serde_json::Value) -> StepPlan {
        let mut value = json!({
            "id": { "recipe": "r", "step": name }, "kind": "file", "title": "/etc/x", "verdict": verdict, "reason": "it differs",
            "disruption": "D0", "scope": "host", "level": "L0", "basis": basis, "place": "r.yaml:1:1", "long": false,
            "changes": [{ "attribute": "mode", "from": "0600", "to": "0644" }],
        });
        let (Some(own), Some(more)) = (value.as_object_mut(), more.as_object()) else { panic!("objects") };
        own.extend(more.clone());
        serde_json::from_value(value).unwrap()
    }

    fn change(basis: &str, more: serde_json::Value) -> StepPlan {
        step("s", "change", basis, more)
    }

    fn host(steps: Vec<StepPlan>) -> HostPlan {
        serde_json::from_value(json!({ "host": "a", "reach": "observed", "verify": [], "steps": steps })).unwrap()
    }

    fn moved(kept: StepPlan, now: StepPlan) -> Option<String> {
        list_stale_steps(&host(vec![kept]), &host(vec![now]), false).pop().map(|(_, why)| why)
    }

    fn relied(value: &str) -> serde_json::Value {
        json!({ "before": [Precondition { what: "mode".into(), value: value.into() }] })
    }

    #[test]
    fn stale_steps_are_reported_with_the_reason() {
        let ok = || step("s", "ok", "1", json!({}));
        let envelope = json!({ "envelope": { "until": "x", "disruption": "D0", "resource": "file /etc/x" } });
        let other = json!({ "changes": [{ "attribute": "mode", "from": "0600", "to": "0777" }] });
        assert_eq!(moved(change("1", json!({})), change("1", json!({}))), None, "unchanged");
        assert_eq!(moved(change("1", json!({})), step("s", "ok", "2", json!({}))), None, "done meanwhile");
        assert_eq!(
            moved(change("1", relied("\"0600\"")), change("2", relied("\"0640\""))).as_deref(),
            Some("`mode` was \"0600\" and is \"0640\"")
        );
        assert_eq!(
            moved(change("1", json!({})), change("2", json!({}))).as_deref(),
            Some("its inputs changed; it is `change` now: it differs"),
            "if nothing more is known"
        );
        assert_eq!(
            moved(change("1", json!({})), step("s", "unknown", "2", json!({}))).as_deref(),
            Some("its inputs changed; it is `unknown` now: it differs")
        );
        assert_eq!(
            moved(change("1", json!({})), change("1", other)).as_deref(),
            Some("would now make other changes than the plan shows")
        );
        let digests = |to: &str, diff: Option<&str>| {
            let mut change = json!({ "attribute": "content", "from": "8 bytes, sha256 aa", "to": to });
            change.as_object_mut().unwrap().extend(diff.map(|diff| ("diff".to_owned(), diff.into())));
            json!({ "changes": [change] })
        };
        let recorded = || change("1", digests("8 bytes, sha256 bb", None));
        let live = |to: &str| change("1", digests(to, Some("@@ -1 +1 @@\n-a\n+b")));
        assert_eq!(moved(recorded(), live("8 bytes, sha256 bb")), None, "the recording had no content");
        assert!(moved(recorded(), live("8 bytes, sha256 cc")).is_some());
        assert!(moved(live("8 bytes, sha256 bb"), change("1", digests("8 bytes, sha256 bb", Some("-x")))).is_some());
        assert_eq!(
            moved(ok(), change("2", json!({}))).as_deref(),
            Some("was `ok` in the plan; now `mode` was \"0644\" and is \"0600\"")
        );
        assert_eq!(
            moved(step("s", "pending", "1", json!({})), change("1", json!({}))).as_deref(),
            Some("was `pending` in the plan; now it differs")
        );
        let held = json!({ "held": "the host is on hold" });
        assert_eq!(
            moved(change("1", held), change("1", json!({}))).as_deref(),
            Some("was held back in the plan (the host is on hold), and nothing holds it back now")
        );
        assert_eq!(moved(step("s", "pending", "1", json!({})), step("s", "unknown", "2", json!({}))), None);
        let after = |continues| {
            list_stale_steps(&host(vec![change("1", envelope.clone())]), &host(vec![change("2", json!({}))]), continues)
        };
        assert_eq!(after(true), [], "earlier steps of the plan are done");
        assert_eq!(after(false)[0].1, "its inputs changed; it is `change` now: it differs", "done by others");
        assert_eq!(moved(change("1", envelope.clone()), change("1", json!({}))), None, "done by others, nothing moved");
        assert!(moved(change("1", envelope.clone()), change("2", envelope.clone())).is_some(), "before any step ran");
        let worse = json!({ "disruption": "D2" });
        assert_eq!(
            moved(change("1", envelope), change("1", worse)).as_deref(),
            Some("the plan allows D0, the change is now D2")
        );
    }

    #[test]
    fn new_or_removed_step_makes_the_plan_stale() {
        let (one, other) = (change("1", json!({})), step("t", "change", "1", json!({})));
        let found = list_stale_steps(&host(vec![one]), &host(vec![other]), false);
        let said: Vec<String> = found.into_iter().map(|(id, why)| format!("{id}: {why}")).collect();
        assert_eq!(
            said,
            [
                "r/s: is no longer declared, given the host's current facts",
                "r/t: is not in the plan, but would make changes now"
            ]
        );
    }
}
