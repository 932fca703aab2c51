//! Apply: a plan carried out on its hosts beside each other, within window and failure budget.

use super::board::{Board, Shared};
use super::cancel::{Cancel, Stop};
use super::event::Event;
use super::observe::Observed;
use super::prove::facts_used;
use super::report::{HostReport, Report};
use super::run::{Events, InFlight, Options, Run};
use crate::config::{Expander, Project};
use crate::model::{HostName, Outcome};
use crate::plan::{self, HostPlan, HostSeen, Plan};
use futures_util::StreamExt;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;
use tokio::sync::Semaphore;

/// The form of a report.
pub(super) const VERSION: u32 = 1;

/// Carries out `plan`, which was made from `observed`. Returns when every host is done, or soon after the
/// user detached.
pub async fn apply(
    project: &Project,
    plan: &Plan,
    observed: Observed,
    options: &Options,
    events: &Events,
    cancel: &Cancel,
) -> Report {
    let began = Instant::now();
    let Observed { seen, chosen, published, exports, secrets, mut links } = observed;
    let expander = Expander::new(project);
    let positions = plan::positions(&project.graph);
    let board = Board::new(Shared { published, exports, secrets });
    let facts = facts_used(project);
    let members: BTreeSet<HostName> = plan.hosts.iter().map(|h| h.host.clone()).collect();
    let window = Semaphore::new(options.parallel.max(1));
    let in_flight = InFlight::default();
    let run = Run {
        project,
        expander: &expander,
        positions: &positions,
        chosen: &chosen,
        members: &members,
        options,
        plan: &plan.id,
        board: &board,
        cancel,
        events,
        window: &window,
        in_flight: &in_flight,
        facts: &facts,
    };
    run.say(Event::ApplyStarted {
        run: options.run.clone(),
        hosts: plan.hosts.iter().filter(|h| h.changes()).count(),
        steps: plan.hosts.iter().flat_map(|h| &h.steps).filter(|s| s.acts()).count(),
    });
    let mut seen: BTreeMap<HostName, HostSeen> = seen.into_iter().map(|s| (s.host.clone(), s)).collect();
    let hosts: Vec<_> = plan
        .hosts
        .iter()
        .filter_map(|host| {
            let seen = seen.remove(&host.host)?;
            Some((host, seen, links.remove(&host.host)))
        })
        .collect();
    let canaries = super::rollout::canaries(&project.rollout, plan);
    let (done, budget_spent) = {
        let run = &run;
        let canaries = &canaries;
        let mut going: futures_util::stream::FuturesUnordered<_> = hosts
            .into_iter()
            .map(|(host, seen, link)| super::rollout::in_turn(run, canaries, host, seen, link))
            .collect();
        gather(run, &mut going).await
    };
    let interrupted = cancel.level() > Stop::No;
    Report {
        version: VERSION,
        run: options.run.clone(),
        verb: "apply".to_owned(),
        cluster: project.cluster.clone(),
        plan: Some(plan.id.clone()),
        hosts: in_order(plan, done),
        budget_spent,
        interrupted,
        took: began.elapsed(),
    }
}

/// Collects host reports until all are in, or the user detaches.
async fn gather<F>(run: &Run<'_>, going: &mut futures_util::stream::FuturesUnordered<F>) -> (Vec<HostReport>, bool)
where
    F: Future<Output = (HostReport, bool)>,
{
    let mut done = Vec::new();
    let mut spent = false;
    let mut told = false;
    loop {
        tokio::select! {
            biased;
            () = run.cancel.reached(Stop::Detach) => {
                run.say(Event::Detached { in_flight: run.in_flight.list() });
                return (done, spent);
            }
            () = run.cancel.reached(Stop::Finish), if !told => {
                told = true;
                run.say(Event::Stopping { in_flight: run.in_flight.list() });
            }
            next = going.next() => match next {
                Some((report, budget)) => {
                    spent |= budget;
                    done.push(report);
                }
                None => return (done, spent),
            },
        }
    }
}

/// Returns a report for every host of the plan, in its order; those that were left behind are cancelled.
fn in_order(plan: &Plan, done: Vec<HostReport>) -> Vec<HostReport> {
    let mut done: BTreeMap<HostName, HostReport> = done.into_iter().map(|r| (r.host.clone(), r)).collect();
    let left = |host: &HostPlan| HostReport {
        host: host.host.clone(),
        outcome: Outcome::Cancelled,
        reason: "forge left before this host was done; long steps go on there".into(),
        hint: None,
        steps: Vec::new(),
        verify: Vec::new(),
        took: Default::default(),
    };
    plan.hosts.iter().map(|host| done.remove(&host.host).unwrap_or_else(|| left(host))).collect()
}
