//! Finds what a run with workers cannot do yet: steps that depend on other hosts.

use crate::config::{Project, StepFilter};
use crate::graph::StepIndex;
use crate::model::{HostName, StepId, StepScope, StepVerdict};
use crate::plan::{ChosenHosts, CrossHostEdges, HostPlan, Plan, StepPlan, StepTable};
use std::collections::{BTreeSet, HashSet};
use std::fmt;

/// A step that depends on other hosts. Workers do not know those.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CrossHostRefusal {
    host: HostName,
    step: StepId,
    /// The step and the host that it waits for, or `None` for a step of scope `one` or `fleet`.
    awaited: Option<(StepId, HostName)>,
}

impl fmt::Display for CrossHostRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { host, step, awaited } = self;
        match awaited {
            Some((other, on)) => write!(f, "step `{step}` of `{host}` depends on step `{other}` of `{on}`"),
            None => write!(f, "step `{step}` of `{host}` runs on one host for all of them"),
        }
    }
}

/// Returns the first step that depends on other hosts, of the hosts that change.
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
    let shared = |step: &&StepPlan| matches!(step.scope, StepScope::One | StepScope::Fleet);
    let shared = plan.hosts.iter().find_map(|host| Some((host, host.steps.iter().filter(is_relevant).find(shared)?)));
    if let Some((host, step)) = shared {
        return Some(CrossHostRefusal { host: host.host.clone(), step: step.id.clone(), awaited: None });
    }
    let steps = StepTable::new(project);
    let members: BTreeSet<HostName> = plan.hosts.iter().map(|host| host.host.clone()).collect();
    let edges = CrossHostEdges { project, filter, chosen, members: &members, steps: &steps };
    let crossing: Vec<_> = project.graph.edges().iter().filter(|edge| steps.crosses_hosts(edge)).collect();
    if crossing.is_empty() {
        return None;
    }
    changing.into_iter().find_map(|host| {
        let own: HashSet<StepIndex> =
            host.steps.iter().filter(is_relevant).filter_map(|step| find_index(project, step)).collect();
        crossing.iter().filter(|edge| own.contains(&edge.to)).find_map(|edge| {
            let wait = edges.find_wait(&host.host, edge)?;
            let other = wait.hosts.iter().chain(&wait.cut).find(|other| **other != host.host)?;
            let name = |index| project.graph.step_id(index).clone();
            let awaited = Some((name(wait.from), other.clone()));
            Some(CrossHostRefusal { host: host.host.clone(), step: name(edge.to), awaited })
        })
    })
}

fn is_relevant(step: &&StepPlan) -> bool {
    step.verdict != StepVerdict::NotApplicable
}

fn find_index(project: &Project, step: &StepPlan) -> Option<StepIndex> {
    project.graph.find_step(&step.id.recipe, &step.id.step)
}
