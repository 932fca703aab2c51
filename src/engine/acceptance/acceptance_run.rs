//! A run of a set: takes hosts out of service, batch by batch, tests them, and gives them back.

use super::host_proof::{StoredProofs, store_proofs};
use super::report::{ACCEPTANCE_VERSION, AcceptanceReport, SkippedHost, TestReport};
use super::test_batch::DrainBudget;
use super::test_cluster::TestCluster;
use super::test_host::{TestHost, TestService, open_test_host};
use super::test_run::{TestedBatch, list_fact_names, run_tests, stop_programs};
use crate::config::{DeclaredTest, Project};
use crate::engine::cancel::{CancelSignal, StopLevel};
use crate::engine::cluster_nodes::{LazyClusterApi, NodeListing, build_node_seen, is_declared_node};
use crate::engine::event::{Event, EventSender};
use crate::engine::run_options::RunOptions;
use crate::engine::window::{NodeDrainRun, TestWindow, WindowPurpose, list_labeled_sets, set_test_labels};
use crate::model::{HostName, HostOutcome};
use crate::plan::{HostWindow, ObservedNode};
use futures_util::StreamExt;
use futures_util::future::join_all;
use std::collections::BTreeSet;
use std::time::Instant;

/// What to test.
pub struct AcceptanceRequest<'r> {
    /// The name of the set.
    pub set: &'r str,
    /// The selected hosts.
    pub hosts: &'r [HostName],
    /// Hosts that must not be tested, with the reason.
    pub skipped: Vec<SkippedHost>,
    /// The earlier run to compare with.
    pub baseline: Option<AcceptanceReport>,
    /// Whether the nodes of the hosts are drained.
    pub drain: bool,
}

/// The state of a run that all batches share.
struct AcceptanceRun<'r> {
    project: &'r Project,
    tests: &'r [DeclaredTest],
    baseline: Option<&'r AcceptanceReport>,
    drains: bool,
    options: &'r RunOptions,
    events: &'r EventSender,
    cancel: &'r CancelSignal,
    api: &'r LazyClusterApi,
    cluster: &'r TestCluster<'r>,
}

/// Runs a set. A stop request ends the programs on the hosts, and the run; a second one does not wait for the hosts.
pub async fn run_acceptance(
    project: &Project,
    request: AcceptanceRequest<'_>,
    options: &RunOptions,
    events: &EventSender,
    cancel: &CancelSignal,
) -> AcceptanceReport {
    let began = Instant::now();
    let tests = project.tests.sets.get(request.set).map(Vec::as_slice).unwrap_or_default();
    let mut report = AcceptanceReport {
        version: ACCEPTANCE_VERSION,
        run: options.run.clone(),
        cluster: project.cluster.clone(),
        set: request.set.to_owned(),
        simulated: Vec::new(),
        tests: Vec::new(),
        skipped: request.skipped,
        unstored: Vec::new(),
        mislabeled: Vec::new(),
        not_returned: Vec::new(),
        against: request.baseline.as_ref().map(|baseline| baseline.run.clone()),
        interrupted: false,
        took: began.elapsed(),
    };
    let used: BTreeSet<&HostName> = tests.iter().flat_map(|test| &test.hosts).collect();
    let is_wanted =
        |host: &&HostName| used.contains(host) && !report.skipped.iter().any(|skipped| skipped.host == **host);
    let wanted: Vec<&HostName> = request.hosts.iter().filter(is_wanted).collect();
    let skipped = report.skipped.iter().map(|skipped| &skipped.host);
    report.simulated.extend(skipped.filter(|host| project.is_simulated(host)).cloned());
    // Sending fails only when the receiver is gone, shortly before the process ends.
    let _ = events.send(Event::ExecStarted { hosts: wanted.len() });
    let api = LazyClusterApi::default();
    let (baseline, drains) = (request.baseline.as_ref(), request.drain);
    let cluster = TestCluster::new(project, tests, options, &api);
    let run = AcceptanceRun { project, tests, baseline, drains, options, events, cancel, api: &api, cluster: &cluster };
    let batches = run.split_in_batches(&wanted);
    for (number, batch) in batches.iter().enumerate() {
        if cancel.level() == StopLevel::No {
            run.test_batch(batch, number, &mut report).await;
        }
    }
    report.interrupted = cancel.level() > StopLevel::No;
    api.close().await;
    report.took = began.elapsed();
    report
}

impl AcceptanceRun<'_> {
    /// Returns the hosts that are tested at the same time: all, unless their nodes are drained.
    fn split_in_batches<'h>(&self, wanted: &[&'h HostName]) -> Vec<Vec<&'h HostName>> {
        if !self.drains || wanted.is_empty() {
            return vec![wanted.to_vec()];
        }
        let is_paired = |test: &DeclaredTest| !test.definition.programs.are_of_one_host();
        DrainBudget::from_rollout(self.project).split_in_batches(wanted, self.tests.iter().any(is_paired))
    }

    async fn test_batch(&self, batch: &[&HostName], number: usize, report: &mut AcceptanceReport) {
        let mut windows: Vec<Option<TestWindow<'_>>> = batch.iter().map(|host| self.build_window(host)).collect();
        let facts = list_fact_names(self.tests);
        let opening = batch.iter().zip(&mut windows).map(|(host, window)| {
            let service = TestService { window: window.as_mut(), drains: self.drains, cluster: self.cluster };
            open_test_host(self.project, self.options, host, &facts, service)
        });
        let opened: Vec<_> = futures_util::stream::iter(opening).buffered(self.parallel()).collect().await;
        let (mut hosts, mut held) = (Vec::new(), Vec::new());
        for (result, window) in opened.into_iter().zip(windows) {
            let simulated = match &result {
                Ok(host) => host.simulated.then_some(&host.name),
                Err(refused) => refused.simulated.then_some(&refused.skipped.host),
            };
            // A host may be in two batches.
            if let Some(host) = simulated.filter(|host| !report.simulated.contains(host)) {
                report.simulated.push(host.clone());
            }
            match result.map_err(|refused| refused.skipped) {
                Ok(host) => {
                    hosts.push(host);
                    held.push(window);
                }
                // A host that is in two batches is reported once.
                Err(skipped) if report.skipped.iter().any(|other| other.host == skipped.host) => {}
                Err(skipped) => report.skipped.push(skipped),
            }
        }
        let mut results: Vec<TestReport> = Vec::new();
        let cluster = Some(self.cluster);
        let tested =
            TestedBatch { project: self.project, tests: self.tests, hosts: &hosts, number, returning: None, cluster };
        let work = run_tests(&tested, (self.options, self.baseline), (self.events, self.cancel), &mut results);
        tokio::select! {
            () = work => {}
            never = stop_programs(self.project, &hosts, &self.options.run, self.cancel) => match never {},
            () = self.cancel.wait_for_level(StopLevel::Detach) => {}
        }
        if self.cancel.level() == StopLevel::No {
            let set = (report.set.as_str(), report.run.as_str());
            let stored = store_proofs(self.project, &hosts, set, &results, self.options).await;
            report.mislabeled.extend(self.label_nodes(&report.set, &stored).await);
            report.unstored.extend(stored.into_iter().filter_map(StoredProofs::into_failure));
        }
        let outcomes: Vec<HostOutcome> = hosts.iter().map(|host| outcome_of(&results, &host.name)).collect();
        let closing = hosts
            .into_iter()
            .zip(held)
            .zip(outcomes)
            .map(|((host, window), outcome)| async move { self.give_back(host, window, outcome).await });
        report.not_returned.extend(join_all(closing).await.into_iter().flatten());
        merge_results(&mut report.tests, results);
    }

    /// Updates the labels of the nodes. Returns the hosts whose node may have a wrong one.
    async fn label_nodes(&self, set: &str, stored: &[StoredProofs]) -> Vec<SkippedHost> {
        let is_labeled = |host: &HostName| list_labeled_sets(self.project, host).any(|labeled| labeled == set);
        let stored: Vec<&StoredProofs> = stored.iter().filter(|stored| is_labeled(&stored.host)).collect();
        if stored.is_empty() {
            return Vec::new();
        }
        let hosts: Vec<HostName> = stored.iter().map(|stored| stored.host.clone()).collect();
        let listing = &NodeListing::query_nodes(self.project, &hosts, self.options, self.api).await;
        let labels = stored.into_iter().map(|stored| async move {
            let node = match listing {
                NodeListing::Listed(nodes) => build_node_seen(self.project, &stored.host, nodes),
                // It asks again, and reports the failure.
                _ => ObservedNode::Absent,
            };
            let results = [(set.to_owned(), stored.holds_set)].into();
            let labeled = set_test_labels(self.drain_run(), &stored.host, node, &results).await;
            Some(SkippedHost { host: stored.host.clone(), reason: labeled.err()?, unreachable: false })
        });
        let done: Vec<_> = futures_util::stream::iter(labels).buffered(self.parallel()).collect().await;
        done.into_iter().flatten().collect()
    }

    fn drain_run(&self) -> NodeDrainRun<'_> {
        let Self { project, options, api, cancel, events, .. } = *self;
        NodeDrainRun { project, options, api, cancel, events, creator: None }
    }

    fn build_window<'h>(&'h self, host: &'h HostName) -> Option<TestWindow<'h>> {
        let project = self.project;
        // The node of Kubernetes is looked for when it is drained.
        let kubernetes = is_declared_node(project, host).then_some(ObservedNode::Absent);
        let slurm = project.hosts.get(host).is_some_and(|host| project.rollout.is_slurm_node(&host.groups));
        if kubernetes.is_none() && !slurm {
            return None;
        }
        let purpose = if self.cluster.runs_jobs_only() { WindowPurpose::TestByJobs } else { WindowPurpose::Test };
        let window = HostWindow { slurm, kubernetes, ..HostWindow::default() };
        Some(TestWindow::new(self.drain_run(), host, window, purpose))
    }

    fn parallel(&self) -> usize {
        self.options.parallel.max(1)
    }

    /// Closes the window and the session of a host. Returns why its node may still be out of service.
    async fn give_back(
        &self,
        host: TestHost<'_>,
        window: Option<TestWindow<'_>>,
        outcome: HostOutcome,
    ) -> Option<SkippedHost> {
        let name = host.name.clone();
        let mut stuck = None;
        // A host that does not answer would delay the exit. Its lock is released with the connection.
        if self.cancel.level() < StopLevel::Detach {
            if let Some(mut window) = window {
                stuck = window.close(&*host.link, host.boot_id()).await.err();
            }
            host.link.close().await;
        } else if window.is_some_and(|window| window.is_open()) {
            stuck = Some("stopped before it was given back: run the tests or `forge apply` again".into());
        }
        // Sending fails only when the receiver is gone, shortly before the process ends.
        let _ = self.events.send(Event::HostFinished { host: name.clone(), outcome, reason: Default::default() });
        stuck.map(|reason| SkippedHost { host: name, reason, unreachable: false })
    }
}

/// A host failed if it was named; a bad pair alone does not say which of both is bad.
fn outcome_of(results: &[TestReport], host: &HostName) -> HostOutcome {
    let named = results.iter().flat_map(|test| &test.faults).any(|fault| fault.host.as_ref() == Some(host));
    if named { HostOutcome::Failed } else { HostOutcome::Ok }
}

/// Appends the results of a batch to those of earlier ones.
fn merge_results(earlier: &mut Vec<TestReport>, results: Vec<TestReport>) {
    for (at, result) in results.into_iter().enumerate() {
        let Some(test) = earlier.get_mut(at) else {
            earlier.push(result);
            continue;
        };
        let rounds = test.rows.iter().map(|row| row.round).max().unwrap_or_default();
        test.rows.extend(result.rows.into_iter().map(|mut row| {
            row.round += rounds;
            row
        }));
        test.faults.extend(result.faults);
        test.suspects.extend(result.suspects);
        test.comparison += result.comparison;
    }
}
