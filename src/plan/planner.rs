//! From what was seen of hosts to a plan.

use super::case::{Case, Chosen, Ground, Turn, positions};
use super::demand::{check_probe, verify_id};
use super::judge::{Ahead, Ruling, check_status, judge};
use super::model::{Envelope, HostPlan, Plan, StepPlan, VerifyPlan};
use super::{HostSeen, basis, scope};
use crate::config::{Expander, Exports, Instance, Judged, Project, StepFilter};
use crate::graph::{StepIndex, Why};
use crate::model::{BlockClass, HostName, Phase, SecretStore, StepId, Untrusted, Value, Verdict};
use crate::resource::{Judgement, Provision};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The form of a plan file.
const VERSION: u32 = 1;

/// Everything a plan is made from, beside the project.
#[derive(Debug)]
pub struct Inputs<'a> {
    pub project: &'a Project,
    pub filter: &'a StepFilter,
    /// In the order of the inventory.
    pub seen: &'a [HostSeen],
    pub exports: &'a Exports,
    pub chosen: &'a Chosen,
    pub secrets: &'a SecretStore,
}

/// Makes the plan. Pure: equal inputs give equal plans.
pub fn plan(inputs: &Inputs<'_>) -> Plan {
    let expander = Expander::new(inputs.project);
    let positions = positions(&inputs.project.graph);
    let ground = Ground {
        project: inputs.project,
        expander: &expander,
        filter: inputs.filter,
        exports: inputs.exports,
        chosen: inputs.chosen,
        positions: &positions,
        secrets: inputs.secrets,
    };
    let exporters = scope::exporters(ground, inputs.seen);
    let hosts = inputs.seen.iter().map(|seen| host_plan(ground, seen, &exporters)).collect();
    let mut plan = Plan {
        version: VERSION,
        forge: env!("CARGO_PKG_VERSION").to_owned(),
        cluster: inputs.project.cluster.clone(),
        inventory: inputs.project.inventory.to_string(),
        id: String::new(),
        hosts,
    };
    plan.id = identity(&plan);
    plan
}

/// The plan's identity: a digest over all it says.
fn identity(plan: &Plan) -> String {
    // A plan is text, numbers and lists: it always serializes.
    let value = serde_json::to_value(plan).unwrap_or(Value::Null);
    basis::digest(&basis::canonical(&value))
}

fn host_plan(ground: Ground<'_>, seen: &HostSeen, exporters: &BTreeSet<String>) -> HostPlan {
    let mut plan = HostPlan {
        host: seen.host.clone(),
        reach: seen.reach.clone(),
        steps: Vec::new(),
        verify: Vec::new(),
        undeclared: Vec::new(),
    };
    let Some(case) = Case::new(ground, &seen.host, seen).filter(|_| seen.is_observed()) else { return plan };
    let turns = case.turns();
    let steps = Walk::new(&case, &turns, exporters).run();
    plan.verify = verifications(&case, &steps);
    plan.undeclared = undeclared(&case, &turns);
    plan.steps = steps;
    plan
}

/// One pass over the turns of a host, in order, that carries what earlier turns predict.
struct Walk<'w, 'a> {
    case: &'w Case<'a>,
    turns: &'w [Turn<'a>],
    ahead: Ahead,
    /// Turns that are going to change in ways that nobody declares in full.
    opaque: BTreeSet<StepId>,
    /// What each step came to, worst of its turns.
    status: BTreeMap<StepIndex, Status>,
    /// Recipes that a rule forbids here.
    ruled: BTreeMap<String, Judgement>,
}

/// How far a step gets, for those that wait for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Status {
    /// Gets to every phase.
    Through,
    /// Gets configured only.
    Configured,
    /// Gets nowhere.
    Stopped,
}

impl<'w, 'a> Walk<'w, 'a> {
    fn new(case: &'w Case<'a>, turns: &'w [Turn<'a>], exporters: &BTreeSet<String>) -> Self {
        let mut ahead = Ahead::default();
        ahead.predicted.exporters = exporters.clone();
        let ruled = case.instances().iter().filter_map(|i| Some((i.recipe.name.clone(), rule(case, i)?))).collect();
        Self { case, turns, ahead, opaque: BTreeSet::new(), status: BTreeMap::new(), ruled }
    }

    fn run(mut self) -> Vec<StepPlan> {
        let turns = self.turns;
        turns.iter().map(|turn| self.turn(turn)).collect()
    }

    fn turn(&mut self, turn: &Turn<'a>) -> StepPlan {
        self.ahead.predicted.after = self.changing_before(turn, |_| true);
        self.ahead.opaque = self.changing_before(turn, |id| self.opaque.contains(id));
        let ruling = match self.ruled.get(&turn.instance.recipe.name) {
            Some(judgement) => Ruling { judgement: judgement.clone(), basis: String::new(), until: None },
            None => judge(self.case, turn, self.turns, &self.ahead),
        };
        let waits_for = self.stopped_by(turn);
        self.note(turn, &ruling, waits_for.is_some());
        step_plan(self.case, turn, ruling, waits_for)
    }

    /// Returns the last earlier step that is going to change and that this one may depend on: of its own recipe,
    /// or of one it needs.
    fn changing_before(&self, turn: &Turn<'_>, admits: impl Fn(&StepId) -> bool) -> Option<String> {
        let graph = &self.case.ground.project.graph;
        let needed: BTreeSet<&str> = graph
            .waits_for(turn.index)
            .filter(|edge| edge.why != Why::After)
            .map(|edge| &*graph.step(edge.from).recipe)
            .chain([&*turn.expanded.id.recipe])
            .collect();
        self.ahead.changing.iter().rfind(|id| needed.contains(&*id.recipe) && admits(id)).map(ToString::to_string)
    }

    /// Returns the step on this host that keeps `turn` from running.
    fn stopped_by(&self, turn: &Turn<'_>) -> Option<String> {
        let graph = &self.case.ground.project.graph;
        graph.waits_for(turn.index).find_map(|edge| {
            let allowed = match (edge.why, edge.phase) {
                (Why::After | Why::Restart | Why::Export | Why::Barrier, _) => return None,
                (Why::Order, _) | (Why::Needs, Phase::Configured) => Status::Configured,
                (Why::Needs, Phase::Effective | Phase::Verified) => Status::Through,
            };
            let stopped = *self.status.get(&edge.from)? > allowed;
            stopped.then(|| graph.step(edge.from).to_string())
        })
    }

    fn note(&mut self, turn: &Turn<'_>, ruling: &Ruling, waits: bool) {
        let status = match ruling.judgement.verdict {
            _ if waits => Status::Stopped,
            Verdict::Ok | Verdict::NotApplicable => Status::Through,
            // What must become effective by a reload or reboot is only known to be so afterwards.
            Verdict::Change if turn.step.effective.is_some() => Status::Configured,
            Verdict::Change => Status::Through,
            Verdict::Pending => Status::Configured,
            Verdict::Blocked(_) | Verdict::Unknown => Status::Stopped,
        };
        let worst = self.status.entry(turn.index).or_insert(status);
        *worst = (*worst).max(status);
        if ruling.judgement.verdict == Verdict::Change && !waits {
            self.ahead.changing.push(turn.expanded.id.clone());
            if matches!(turn.step.kind, "package" | "command") {
                self.opaque.insert(turn.expanded.id.clone());
            }
            self.ahead.predicted.will_exist.extend(provided(turn));
        }
    }
}

/// Returns what a turn brings into being: what its resource does, and what its step says it does.
pub fn provided(turn: &Turn<'_>) -> Vec<Provision> {
    if turn.expanded.absent {
        return Vec::new();
    }
    let mut provided = turn.step.provides.clone();
    if let crate::config::State::Resource(resource) = &turn.expanded.state {
        provided.extend(resource.provides());
    }
    provided
}

/// Returns the judgement that a rule of the recipe puts on all its steps here, if one does not hold.
pub fn rule(case: &Case<'_>, instance: &Arc<Instance>) -> Option<Judgement> {
    if instance.absent {
        return None;
    }
    instance.recipe.rules.iter().find_map(|rule| {
        match case.ground.expander.rule(case.host, instance, rule, &case.known()) {
            Judged::Fails { .. } => Some(Judgement::blocked(BlockClass::Rule, rule.otherwise.clone(), Value::Null)),
            Judged::Unknown { why, .. } => Some(Judgement {
                verdict: Verdict::Unknown,
                ..Judgement::ok(format!("a rule cannot be judged: {why}"), Value::Null)
            }),
            Judged::Holds { .. } | Judged::NotApplicable | Judged::Check { .. } => None,
        }
    })
}

fn step_plan(case: &Case<'_>, turn: &Turn<'_>, ruling: Ruling, waits_for: Option<String>) -> StepPlan {
    let title = title(turn);
    let judgement = ruling.judgement;
    let envelope = ruling.until.map(|until| Envelope {
        until: until.into(),
        disruption: judgement.disruption,
        resource: format!("{} {}", turn.step.kind, title.raw()).into(),
    });
    StepPlan {
        id: turn.expanded.id.clone(),
        kind: turn.step.kind.to_owned(),
        title,
        verdict: judgement.verdict,
        reason: judgement.reason,
        hint: judgement.hint,
        changes: judgement.changes,
        disruption: judgement.disruption,
        scope: turn.step.scope,
        level: turn.step.level,
        basis: ruling.basis,
        envelope,
        waits_for,
        place: case.ground.project.sources.place(turn.step.span),
        long: turn.step.long,
    }
}

/// Returns what a turn is about, as far as it is known.
pub fn title(turn: &Turn<'_>) -> Untrusted {
    let text = match &turn.expanded.state {
        crate::config::State::Resource(resource) => resource.title(),
        crate::config::State::Deferred(deferred) => deferred.title.clone().unwrap_or_else(|| turn.step.name.clone()),
        _ => turn.step.name.clone(),
    };
    SecretStore::mask(&text).into()
}

/// Judges the `verify` entries of every recipe of a host whose steps all are as desired.
pub fn verifications(case: &Case<'_>, steps: &[StepPlan]) -> Vec<VerifyPlan> {
    let mut list = Vec::new();
    for instance in case.instances().iter().filter(|i| !i.absent) {
        let name = &instance.recipe.name;
        if !case.ground.filter.admits_recipe(name) {
            continue;
        }
        let unsettled = steps.iter().find(|s| *s.id.recipe == **name && !s.verdict.is_settled());
        for verify in &instance.recipe.verify {
            let judged = match unsettled {
                Some(step) => (Verdict::Pending, format!("judged once `{}` is done", step.id)),
                None => verification(case, instance, verify),
            };
            list.push(VerifyPlan {
                recipe: name.clone(),
                name: verify.name.clone(),
                verdict: judged.0,
                reason: judged.1.into(),
                level: verify.level,
                place: case.ground.project.sources.place(verify.span),
            });
        }
    }
    list
}

/// Judges one `verify` entry from what was seen.
pub fn verification(case: &Case<'_>, instance: &Arc<Instance>, verify: &crate::config::Verify) -> (Verdict, String) {
    let judged = case.ground.expander.verify(case.host, instance, verify, &case.known());
    let id = verify_id(&instance.recipe.name, &verify.name);
    match &judged {
        Judged::Holds { .. } => (Verdict::Ok, "holds".to_owned()),
        Judged::NotApplicable => (Verdict::NotApplicable, "its `when` is false here".to_owned()),
        Judged::Fails { .. } => {
            let expect = verify.expect.as_ref().map(|e| e.source.trim().to_owned()).unwrap_or_default();
            (Verdict::Change, format!("does not hold: {expect}"))
        }
        Judged::Unknown { why, .. } => (Verdict::Unknown, why.clone()),
        Judged::Check { .. } => match check_probe(&id, &judged, None).map(|probe| check_status(case, &probe)) {
            Some(Ok(true)) | None => (Verdict::Ok, "the check exited 0".to_owned()),
            Some(Ok(false)) => (Verdict::Change, "the check exited 1".to_owned()),
            Some(Err(why)) => (Verdict::Unknown, why),
        },
    }
}

/// Returns the recorded steps that are not declared here any more. A removal is said, never implied.
fn undeclared(case: &Case<'_>, turns: &[Turn<'_>]) -> Vec<Untrusted> {
    let declared: BTreeSet<String> = turns.iter().map(|turn| turn.expanded.id.to_string()).collect();
    let known = |step: &str| {
        let name = step.split('[').next().unwrap_or(step);
        // A step the filter leaves out, or one that runs on another host now, is still declared.
        case.instances()
            .iter()
            .any(|i| i.recipe.steps.iter().any(|s| format!("{}/{}", i.recipe.name, s.name) == name && s.each.is_none()))
    };
    case.seen
        .records
        .keys()
        .filter(|step| !declared.contains(*step) && !known(step))
        .map(|s| s.as_str().into())
        .collect()
}

/// Returns the hosts a plan is about, in inventory order.
pub fn hosts_of<'p>(project: &'p Project, on: &BTreeSet<HostName>) -> Vec<&'p HostName> {
    project.hosts.keys().filter(|host| on.contains(*host)).collect()
}
