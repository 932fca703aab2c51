//! Makes a plan from the observed state of hosts.

use super::advice::advice;
use super::case::{ChosenHosts, HostContext, PlanContext};
use super::identity::HostIdentities;
use super::model::{HostPlan, Plan, PlanPolicy, StepPlan};
use super::outside::{CrossHostStatus, CrossHostView};
use super::span::{CrossHostEdges, StepTable};
use super::spread::spread;
use super::undeclared::undeclared;
use super::verify::verifications;
use super::walk::StepPlanner;
use super::window::{self, WindowScope};
use super::{ObservedHost, StepInstance, basis, fabric, rollout};
use crate::config::{ExportedValues, Project, StepExpander, StepFilter};
use crate::model::{HostName, SecretStore};
use std::collections::BTreeSet;

/// The format version of a plan file.
const VERSION: u32 = 1;

/// The inputs of a plan.
#[derive(Debug)]
pub struct PlanInputs<'a> {
    pub project: &'a Project,
    pub filter: &'a StepFilter,
    /// In the order of the inventory.
    pub seen: &'a [ObservedHost],
    pub exports: &'a ExportedValues,
    pub chosen: &'a ChosenHosts,
    pub secrets: &'a SecretStore,
    pub policy: PlanPolicy,
}

impl<'a> PlanInputs<'a> {
    /// Returns the context in which the hosts of this plan are evaluated.
    pub fn ground<'g>(&self, expander: &'g StepExpander<'g>) -> PlanContext<'g>
    where
        'a: 'g,
    {
        PlanContext {
            project: self.project,
            expander,
            filter: self.filter,
            exports: self.exports,
            chosen: self.chosen,
            secrets: self.secrets,
            policy: self.policy,
        }
    }
}

/// Makes the plan. This is a pure function: equal inputs give equal plans.
pub fn plan(inputs: &PlanInputs<'_>) -> Plan {
    let expander = StepExpander::new(inputs.project);
    let ground = inputs.ground(&expander);
    let members: BTreeSet<HostName> = inputs.seen.iter().map(|seen| seen.host.clone()).collect();
    let steps = StepTable::new(inputs.project);
    let (project, filter, chosen) = (inputs.project, inputs.filter, inputs.chosen);
    let spans = CrossHostEdges { project, filter, chosen, members: &members, steps: &steps };
    let mut plan = Plan {
        version: VERSION,
        forge: env!("CARGO_PKG_VERSION").to_owned(),
        cluster: inputs.project.cluster.clone(),
        inventory: inputs.project.inventory.to_string(),
        id: String::new(),
        simulated: simulated(inputs.project, inputs.seen),
        hosts: hosts(ground, spans, inputs.seen),
        rollout: Default::default(),
    };
    fabric::warn(inputs.seen, &mut plan.hosts);
    plan.rollout = rollout::rollout(inputs.project, &plan.hosts);
    plan.id = identity(&plan);
    plan
}

/// Returns the simulated hosts. A host with simulated hardware reports that itself; a sandbox is known to be one before
/// it is observed.
fn simulated(project: &Project, seen: &[ObservedHost]) -> Vec<HostName> {
    let simulated = seen.iter().filter(|seen| project.is_simulated(&seen.host) || seen.facts.hardware_is_simulated());
    simulated.map(|seen| seen.host.clone()).collect()
}

/// Plans every host as if all others succeeded, then again with the results of the others, until nothing changes. This
/// ends soon, because between passes a host can only lose dependencies.
fn hosts(ground: PlanContext<'_>, spans: CrossHostEdges<'_>, seen: &[ObservedHost]) -> Vec<HostPlan> {
    let observed = seen.iter().filter(|s| s.is_observed()).map(|s| s.host.clone()).collect();
    let mut outside = CrossHostView::hopeful(spans, observed);
    let identities = HostIdentities::new(ground.project, seen);
    loop {
        let mut told = CrossHostStatus::default();
        let done = spread(seen, |seen| {
            let mut own = CrossHostStatus::default();
            (host_plan(ground, seen, &identities, &outside, &mut own), own)
        });
        let plans = done.into_iter().map(|(plan, own)| {
            told.add(own);
            plan
        });
        let plans = plans.collect();
        if !outside.learn(told) {
            return plans;
        }
    }
}

/// Returns the plan's identity: a digest over its contents, in which each host is digested separately.
fn identity(plan: &Plan) -> String {
    let hosts = spread(&plan.hosts, basis::digest_of);
    basis::digest_of(&(plan.version, &plan.forge, &plan.cluster, &plan.inventory, &plan.rollout, hosts))
}

fn host_plan(
    ground: PlanContext<'_>,
    seen: &ObservedHost,
    identities: &HostIdentities<'_>,
    outside: &CrossHostView<'_>,
    told: &mut CrossHostStatus,
) -> HostPlan {
    let mut plan = HostPlan {
        host: seen.host.clone(),
        reach: seen.reach.clone(),
        refused: seen.refused(),
        steps: Vec::new(),
        window: None,
        verify: Vec::new(),
        warnings: identities.warning(seen).into_iter().collect(),
        undeclared: Vec::new(),
    };
    let Some(case) = HostContext::new(ground, &seen.host, seen).filter(|_| seen.is_observed()) else { return plan };
    let turns = case.turns();
    plan.steps = steps(&case, &turns, identities, outside, told, &mut plan.window);
    plan.warnings.extend(advice(&case));
    plan.warnings.extend(window::node_left(seen).filter(|_| plan.window.is_none()));
    plan.verify = verifications(&case, &plan.steps);
    plan.undeclared = undeclared(&case, &turns);
    plan
}

/// Plans the steps of a host and determines the window that they need. Which units stop in the window, and which steps
/// are held back with it, is known only after a first pass over the steps.
fn steps(
    case: &HostContext<'_>,
    turns: &[StepInstance<'_>],
    identities: &HostIdentities<'_>,
    outside: &CrossHostView<'_>,
    told: &mut CrossHostStatus,
    window: &mut Option<window::HostWindow>,
) -> Vec<StepPlan> {
    let walk = |scope: &WindowScope, told: &mut CrossHostStatus| {
        StepPlanner::new(case, turns, outside, identities.twin(&case.host.name), scope).run(told)
    };
    let mut first = CrossHostStatus::default();
    let mut steps = walk(&WindowScope::unknown(case.ground.policy), &mut first);
    let scope = WindowScope::of(case, turns, &steps, case.ground.policy);
    match scope.matters() {
        true => steps = walk(&scope, told),
        false => told.add(first),
    }
    let crosses = |index| outside.crosses(case.graph, &case.host.name, index);
    let opened = window::open(case, turns, &steps, &scope, &crosses);
    window::enter_stages(turns, &mut steps, &opened.stages);
    *window = opened.window;
    steps
}

/// Returns the hosts of a plan, in inventory order.
pub fn hosts_of<'p>(project: &'p Project, on: &BTreeSet<HostName>) -> Vec<&'p HostName> {
    project.hosts.keys().filter(|host| on.contains(*host)).collect()
}
