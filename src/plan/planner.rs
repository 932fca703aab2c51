//! Makes a plan from the observed state of hosts.

use super::assessment::PackageListsAge;
use super::cross_host::{CrossHostStatus, CrossHostView};
use super::cross_host_edges::{CrossHostEdges, StepTable};
use super::device_holders::warn_device_holders;
use super::host_context::{ChosenHosts, HostContext, PlanContext};
use super::identity::HostIdentities;
use super::model::{HostPlan, HostWarning, Plan, PlanPolicy, StepPlan, VerifyPlan};
use super::ongoing_work::OngoingWork;
use super::rule_warnings::{collect_accepted_rules, collect_rule_warnings};
use super::shared_list::SharedList;
use super::step_planner::StepPlanner;
use super::undeclared::list_undeclared;
use super::unreadable_records::{warn_unread_host_records, warn_unreadable_records};
use super::verify::assess_verifications;
use super::window::{self, WindowScope};
use super::{
    ObservedHost, StepInstance, canonical_json, cluster_warnings, guard, infiniband, later_apply, left_out_needs,
    other_inventories, rollout,
};
use crate::config::{ExportedValues, Project, StepExpander, StepFilter};
use crate::model::{ContentPool, HostName, SecretStore, StepVerdict, map_parallel};
use std::collections::BTreeSet;

/// The format version of a plan file.
const PLAN_VERSION: u32 = 1;

/// The inputs of a plan.
#[derive(Debug)]
pub struct PlanInputs<'a> {
    /// The inventory with its recipes.
    pub project: &'a Project,
    /// The steps that the plan includes.
    pub filter: &'a StepFilter,
    /// In the order of the inventory.
    pub seen: &'a [ObservedHost],
    /// The values that steps export to other steps, as far as they exist.
    pub exports: &'a ExportedValues,
    /// The hosts that run the steps of scope `one` and `fleet`.
    pub chosen: &'a ChosenHosts,
    /// The secrets of the run, to mask them in texts from hosts.
    pub secrets: &'a SecretStore,
    /// How much the run may disturb.
    pub policy: PlanPolicy,
}

impl<'a> PlanInputs<'a> {
    /// Returns the context in which the hosts of this plan are evaluated.
    pub fn plan_context<'g>(&self, expander: &'g StepExpander<'g>) -> PlanContext<'g>
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
    let ground = inputs.plan_context(&expander);
    let members: BTreeSet<HostName> = inputs.seen.iter().map(|seen| seen.host.clone()).collect();
    let steps = StepTable::new(inputs.project);
    let (project, filter, chosen) = (inputs.project, inputs.filter, inputs.chosen);
    let spans = CrossHostEdges { project, filter, chosen, members: &members, steps: &steps };
    let mut plan = Plan {
        version: PLAN_VERSION,
        forge: env!("CARGO_PKG_VERSION").to_owned(),
        cluster: inputs.project.cluster.clone(),
        inventory: inputs.project.inventory.to_string(),
        id: String::new(),
        simulated: list_simulated_hosts(inputs.project, inputs.seen),
        hosts: plan_hosts(ground, spans, inputs.seen),
        rollout: Default::default(),
    };
    infiniband::add_port_warnings(inputs.seen, &mut plan.hosts);
    plan.rollout = rollout::build_rollout(inputs.project, &plan.hosts);
    plan.id = digest_plan(&plan);
    plan
}

/// Returns the simulated hosts. A host with simulated hardware reports that itself; a sandbox is known to be one before
/// it is observed.
fn list_simulated_hosts(project: &Project, seen: &[ObservedHost]) -> Vec<HostName> {
    let simulated = seen.iter().filter(|seen| project.is_simulated(&seen.host) || seen.facts.is_hardware_simulated());
    simulated.map(|seen| seen.host.clone()).collect()
}

/// Plans every host as if all others succeeded, then again with the results of the others, until nothing changes. This
/// ends soon, because between passes a host can only lose dependencies.
fn plan_hosts(ground: PlanContext<'_>, spans: CrossHostEdges<'_>, seen: &[ObservedHost]) -> Vec<HostPlan> {
    let observed = seen.iter().filter(|s| s.is_observed()).map(|s| s.host.clone()).collect();
    let mut outside = CrossHostView::new_optimistic(spans, observed);
    let identities = HostIdentities::new(ground.project, seen);
    let pools = PlanPools::default();
    loop {
        let mut told = CrossHostStatus::default();
        let done = map_parallel(seen, |seen| {
            let mut own = CrossHostStatus::default();
            (plan_host(ground, seen, &identities, &outside, &mut own, &pools), own)
        });
        let plans = done.into_iter().map(|(plan, own)| {
            told.merge_host(own);
            plan
        });
        let plans = plans.collect();
        if !outside.update_status(told) {
            return plans;
        }
    }
}

/// Returns the plan's identity: a digest over its contents, in which each host is digested separately.
fn digest_plan(plan: &Plan) -> String {
    let hosts = map_parallel(&plan.hosts, canonical_json::digest_json);
    canonical_json::digest_json(&(plan.version, &plan.forge, &plan.cluster, &plan.inventory, &plan.rollout, hosts))
}

/// Returns whether a host is out of service, and this run does not bring it back.
fn is_left_out(seen: &ObservedHost, cluster: &str) -> bool {
    let is_left_open = window::left_open_by(seen, cluster).is_some();
    (seen.hold.is_some() && is_left_open) || window::find_other_window(seen, cluster).is_some()
}

/// What the plans of several hosts share.
#[derive(Default)]
struct PlanPools {
    steps: ContentPool<StepPlan>,
    verify: ContentPool<VerifyPlan>,
}

fn plan_host(
    ground: PlanContext<'_>,
    seen: &ObservedHost,
    identities: &HostIdentities<'_>,
    outside: &CrossHostView<'_>,
    told: &mut CrossHostStatus,
    pools: &PlanPools,
) -> HostPlan {
    let mut plan = HostPlan {
        host: seen.host.clone(),
        reach: seen.reach.clone(),
        refused: seen.refusal_reason(),
        hold: seen.hold.clone(),
        left_out: is_left_out(seen, &ground.project.cluster),
        missing: seen.missing.clone().filter(|_| seen.is_observed()),
        steps: SharedList::default(),
        window: None,
        verify: SharedList::default(),
        warnings: identities.check_hostname(seen).into_iter().collect(),
        accepted: Vec::new(),
        undeclared: Vec::new(),
    };
    let Some(case) = HostContext::new(ground, &seen.host, seen).filter(|_| seen.is_observed()) else { return plan };
    let turns = case.expand_local_steps();
    let steps = plan_steps(&case, &turns, identities, outside, told, &mut plan.window);
    plan.warnings.extend(collect_rule_warnings(&case));
    plan.accepted = collect_accepted_rules(&case);
    plan.warnings.extend(seen.activity.as_ref().map(warn_ongoing_work));
    plan.warnings.extend(guard::warn_unconfirmed_guards(seen));
    plan.warnings.extend(warn_unreadable_records(seen, &ground.project.cluster));
    plan.warnings.extend(warn_unread_host_records(seen));
    plan.warnings.extend(other_inventories::warn_other_inventories(&case, &turns));
    plan.warnings.extend(later_apply::warn_later_applies(&case, &turns, &steps));
    plan.warnings.extend(left_out_needs::warn_left_out_needs(&case, &steps));
    plan.warnings.extend(window::warn_other_window(seen, &ground.project.cluster));
    plan.warnings.extend(window::warn_drained_node(seen).filter(|_| plan.window.is_none()));
    plan.warnings.extend(plan.window.as_ref().and_then(|window| warn_device_holders(&case, &turns, window)));
    plan.warnings.extend(cluster_warnings::warn_drain_obstacles(seen).filter(|_| plan.window.is_some()));
    plan.warnings.extend(cluster_warnings::warn_unread_records(seen, ground.project));
    plan.warnings.extend(cluster_warnings::warn_computed_objects(seen));
    plan.verify = SharedList::from_pool(assess_verifications(&case, &steps), &pools.verify);
    plan.undeclared = list_undeclared(&case, &turns, &steps);
    plan.steps = SharedList::from_pool(steps, &pools.steps);
    plan
}

/// Returns the steps of a host that are blocked on its last observation and wait for no other step, as a plan would show
/// them. All hosts of the run are assumed to answer and to succeed.
pub fn list_blocked_steps(case: &HostContext<'_>, spans: CrossHostEdges<'_>, lists: PackageListsAge) -> Vec<StepPlan> {
    let outside = CrossHostView::new_optimistic(spans, spans.members.clone());
    let scope = WindowScope::from_policy(case.ground.policy, case.seen);
    let turns = case.expand_local_steps();
    let planner = StepPlanner::new(case, &turns, &outside, None, &scope).assume_package_lists(lists);
    let steps = planner.plan_steps(&mut CrossHostStatus::default());
    let blocked = |step: &StepPlan| matches!(step.verdict, StepVerdict::Blocked(_)) && step.waits_for.is_none();
    steps.into_iter().filter(blocked).collect()
}

fn warn_ongoing_work(work: &OngoingWork) -> HostWarning {
    HostWarning { why: work.describe().into(), hint: Some(OngoingWork::HINT.to_owned()) }
}

/// Plans the steps of a host and determines the window that they need. Which units stop in the window, and which steps
/// are held back with it, is known only after a first pass over the steps.
fn plan_steps(
    case: &HostContext<'_>,
    turns: &[StepInstance<'_>],
    identities: &HostIdentities<'_>,
    outside: &CrossHostView<'_>,
    told: &mut CrossHostStatus,
    window: &mut Option<window::HostWindow>,
) -> Vec<StepPlan> {
    let walk = |scope: &WindowScope, told: &mut CrossHostStatus| {
        StepPlanner::new(case, turns, outside, identities.assess_duplicate(&case.host.name), scope).plan_steps(told)
    };
    let mut first = CrossHostStatus::default();
    let mut steps = walk(&WindowScope::from_policy(case.ground.policy, case.seen), &mut first);
    let scope = WindowScope::from_steps(case, turns, &steps, case.ground.policy);
    match scope.needs_second_pass() {
        true => steps = walk(&scope, told),
        false => told.merge_host(first),
    }
    let crosses = |index| outside.waits_for_other_hosts(case.graph, &case.host.name, index);
    let opened = window::plan_window(case, turns, &steps, &scope, &crosses);
    window::set_stages(turns, &mut steps, &opened.stages);
    *window = opened.window;
    steps
}

/// Returns the hosts of a plan, in inventory order.
pub fn list_hosts_in_order<'p>(project: &'p Project, on: &BTreeSet<HostName>) -> Vec<&'p HostName> {
    project.hosts.keys().filter(|host| on.contains(*host)).collect()
}
