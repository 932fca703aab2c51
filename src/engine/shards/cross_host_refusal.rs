//! Finds what a run with workers cannot do yet: some kinds of steps that depend on other hosts.

use crate::config::{Project, StepFilter};
use crate::graph::{GraphEdge, StepIndex};
use crate::model::{DisruptionClass, HostName, StepId, StepScope, StepVerdict};
use crate::plan::{self, ChosenHosts, CrossHostEdges, HostPlan, Plan, RolloutPlan, StepPlan, StepTable};
use std::collections::{BTreeSet, HashSet};
use std::fmt;

/// A step that workers cannot carry out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CrossHostRefusal {
    /// It depends on a step of another host.
    Awaits {
        /// The host.
        host: HostName,
        /// The step.
        step: StepId,
        /// The step that it depends on.
        awaited: StepId,
        /// The host of that step.
        on: HostName,
    },
    /// It waits for another host, and a limit on hosts in one step concerns hosts of the run.
    Limited {
        /// The host that waits.
        host: HostName,
        /// Its step.
        step: StepId,
        /// A step that only some hosts run at once.
        limited: StepId,
    },
}

impl fmt::Display for CrossHostRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Awaits { host, step, awaited, on } => {
                write!(f, "step `{step}` of `{host}` depends on step `{awaited}` of `{on}`")
            }
            Self::Limited { host, step, limited } => write!(
                f,
                "step `{step}` of `{host}` waits for other hosts, and the number of hosts that run step `{limited}` at \
                 once is limited"
            ),
        }
    }
}

/// Returns the first step that workers cannot carry out, of the hosts that change.
pub fn find_cross_host_step(
    project: &Project,
    plan: &Plan,
    filter: &StepFilter,
    chosen: &ChosenHosts,
) -> Option<CrossHostRefusal> {
    let changing: Vec<&HostPlan> = plan.hosts.iter().filter(|host| host.will_run()).collect();
    if plan.hosts.len() < 2 || changing.is_empty() {
        return None;
    }
    let steps = StepTable::new(project);
    let members: BTreeSet<HostName> = plan.hosts.iter().map(|host| host.host.clone()).collect();
    let edges = CrossHostEdges { project, filter, chosen, members: &members, steps: &steps };
    let crossing: Vec<_> = project.graph.edges().iter().filter(|edge| steps.crosses_hosts(edge)).collect();
    let limited = changing.iter().find_map(|host| find_limited_step(host, &plan.rollout));
    changing.into_iter().find_map(|host| {
        let own: HashSet<StepIndex> =
            host.steps.iter().filter(is_relevant).filter_map(|step| find_index(project, step)).collect();
        crossing.iter().filter(|edge| own.contains(&edge.to)).find_map(|edge| {
            let wait = edges.find_wait(&host.host, edge)?;
            let on = wait.hosts.iter().chain(&wait.cut).find(|other| **other != host.host)?.clone();
            let name = |index| project.graph.step_id(index).clone();
            let (host, step, awaited) = (host.host.clone(), name(edge.to), name(wait.from));
            match limited {
                _ if !is_supported(&steps, edge) => Some(CrossHostRefusal::Awaits { host, step, awaited, on }),
                Some(limited) => Some(CrossHostRefusal::Limited { host, step, limited: limited.id.clone() }),
                None => None,
            }
        })
    })
}

/// Returns a step of a host that only a limited number of hosts may run at once.
pub(super) fn find_limited_step<'h>(host: &'h HostPlan, rollout: &RolloutPlan) -> Option<&'h StepPlan> {
    let restarts = |step: &StepPlan| step.will_run() && plan::step_disruption(step) >= DisruptionClass::D1;
    host.steps.iter().find(|step| step.at_once.is_some() || (rollout.max_restarting.is_some() && restarts(step)))
}

/// Returns whether workers can wait because of an edge: it is one between steps of hosts, not of the cluster's API.
fn is_supported(steps: &StepTable, edge: &GraphEdge) -> bool {
    let is_of_host = |index| steps.find_step(index).is_some_and(|step| step.scope != StepScope::Cluster);
    is_of_host(edge.from) && is_of_host(edge.to)
}

fn is_relevant(step: &&StepPlan) -> bool {
    step.verdict != StepVerdict::NotApplicable
}

fn find_index(project: &Project, step: &StepPlan) -> Option<StepIndex> {
    project.graph.find_step(&step.id.recipe, &step.id.step)
}
