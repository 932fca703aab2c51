//! Observes many hosts in parallel: in one round trip if no probe depends on facts, otherwise in two.

use super::cluster_nodes::{LazyClusterApi, NodeListing};
use super::event::{Event, EventSender};
use super::host_query::{from_failed_session, open_second_channel, query_host};
use super::host_session::HostSession;
use super::observation_purpose::ObservationPurpose;
use super::observed_hosts::ObservedHosts;
use super::read_only_session::ReadOnlySession;
use super::run_context::ApplyContext;
use super::run_options::{RunOptions, SessionRequest};
use super::session_connector::OpenSession;
use super::window::note_drain_obstacles;
use crate::config::{ExpansionState, ExportedValues, PendingInput, Project, StepExpander};
use crate::facts::FactPool;
use crate::graph::StepIndex;
use crate::model::{self, HostName, SecretStore};
use crate::plan::{
    self, ChosenHosts, HostContext, MissingCluster, ObservedHost, OtherHosts, PlanContext, UnreachableReason,
};
use crate::probe::{AnswerPool, Probe, UnansweredReason};
use futures_util::{FutureExt, StreamExt};
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

/// Sessions that are still open.
type OpenSessions<S> = BTreeMap<HostName, Box<S>>;

/// The settings of an observation that every host's first trip needs.
struct ObservationRun<'a> {
    project: &'a Project,
    expander: &'a StepExpander<'a>,
    options: &'a RunOptions,
    events: &'a EventSender,
    facts: &'a BTreeSet<String>,
    /// Those facts that are used only to compare hosts.
    beside: &'a BTreeSet<String>,
    /// Whether sessions stay open for later changes.
    keep: bool,
    /// Whether failed reads are retried once.
    careful: bool,
    /// Whether all hosts fit into the window, so that sessions may stay open for a second trip.
    few: bool,
    /// What the observations of several hosts share.
    pools: ObservationPools,
}

/// Answers and facts that are equal on several hosts.
#[derive(Default)]
struct ObservationPools {
    answers: AnswerPool,
    facts: FactPool,
}

impl ObservationPools {
    fn share(&self, seen: &mut ObservedHost) {
        seen.observation.share_answers(&self.answers);
        seen.facts.0.share(&self.facts);
    }
}

/// Observes `hosts` over probe-only sessions.
pub async fn observe_hosts(
    project: &Project,
    hosts: &[HostName],
    options: &RunOptions,
    events: &EventSender,
) -> ObservedHosts {
    observe_with_sessions::<dyn ReadOnlySession>(project, hosts, options, events, ObservationPurpose::Read).await.0
}

/// Observes `hosts` for drift: retries failed reads once and adds the health facts of hardware that the project
/// manages. Recipes' checks run read-only. With `outliers`, also probes the facts by which hosts are compared, in the
/// same round trip.
pub async fn observe_for_drift(
    project: &Project,
    hosts: &[HostName],
    outliers: bool,
    options: &RunOptions,
    events: &EventSender,
) -> ObservedHosts {
    let options = RunOptions { confined: !project.drift.unconfined, ..options.clone() };
    observe_with_sessions::<dyn ReadOnlySession>(
        project,
        hosts,
        &options,
        events,
        ObservationPurpose::Drift { outliers },
    )
    .await
    .0
}

/// Observes `hosts` and leaves sessions open for the changes that follow, as far as the window permits.
pub async fn observe_for_change(
    project: &Project,
    hosts: &[HostName],
    options: &RunOptions,
    events: &EventSender,
) -> ObservedHosts {
    let (observed, links) =
        observe_with_sessions::<dyn HostSession>(project, hosts, options, events, ObservationPurpose::Change).await;
    ObservedHosts { links, ..observed }
}

async fn observe_with_sessions<S: OpenSession + ?Sized>(
    project: &Project,
    hosts: &[HostName],
    options: &RunOptions,
    events: &EventSender,
    purpose: ObservationPurpose,
) -> (ObservedHosts, OpenSessions<S>) {
    let expander = StepExpander::new(project);
    let needed = purpose.list_needed_facts(project, options);
    let beside = purpose.list_compared_facts(&needed);
    let facts = &needed | &beside;
    let look = ObservationRun {
        project,
        expander: &expander,
        options,
        events,
        facts: &facts,
        beside: &beside,
        keep: purpose == ObservationPurpose::Change && hosts.len() <= options.parallel,
        careful: matches!(purpose, ObservationPurpose::Drift { .. }) && options.replay.observed.is_none(),
        few: hosts.len() <= options.parallel,
        pools: ObservationPools::default(),
    };
    let began = Instant::now();
    look.emit_event(Event::ObserveStarted { hosts: hosts.iter().filter(|host| !host.is_cluster()).count() });
    let api = LazyClusterApi::default();
    let (nodes, (mut observed, mut sessions)) =
        tokio::join!(NodeListing::query_nodes(project, hosts, options, &api), look.run_first_trips::<S>(hosts));
    let deferred = plan::list_deferred_choices(
        look.plan_context(&ExportedValues::new(), &ChosenHosts::new(), &project.secrets),
        &observed.seen,
    );
    look.compute_shared_values(&mut observed);
    look.run_second_trips(&mut observed, &deferred, &mut sessions).await;
    look.compute_shared_values(&mut observed);
    look.withdraw_exports(&mut observed);
    look.resolve_missing_cluster(&mut observed, &nodes, purpose);
    nodes.fill_in_nodes(project, options, observed.missing.as_ref(), &mut observed.seen);
    if !matches!(purpose, ObservationPurpose::Drift { .. }) {
        let drained = list_drained_hosts(project, &observed, options);
        note_drain_obstacles(project, &drained, &mut observed.seen, options, &api).await;
    }
    match purpose {
        ObservationPurpose::Change => observed.api = api,
        ObservationPurpose::Read | ObservationPurpose::Drift { .. } => api.close().await,
    }
    observed.took = began.elapsed();
    mark_simulated(project, &mut observed.seen);
    (observed, sessions)
}

/// Returns the hosts whose plan has a window, if windows drain nodes.
fn list_drained_hosts(project: &Project, observed: &ObservedHosts, options: &RunOptions) -> BTreeSet<HostName> {
    if project.rollout.kubernetes.is_none() || options.replay.observed.is_some() {
        return BTreeSet::new();
    }
    let plan = plan::plan(&observed.to_plan_inputs(project, options));
    plan.hosts.into_iter().filter(|host| host.window.is_some()).map(|host| host.host).collect()
}

/// Probes all facts of `hosts`.
pub async fn observe_facts(
    project: &Project,
    hosts: &[HostName],
    options: &RunOptions,
    events: &EventSender,
) -> ObservedHosts {
    let of_hosts = crate::facts::fact_probes();
    let of_cluster = crate::facts::cluster_facts().iter().map(|fact| Probe::ClusterFact { name: fact.name.to_owned() });
    let probes = of_hosts.chain(of_cluster).collect();
    observe_probes(project, hosts, [&probes, &BTreeSet::new()], options, events).await
}

/// Observes the cluster that a run has created, over its open session.
pub(super) async fn observe_created_cluster(
    run: &ApplyContext<'_>,
    link: &dyn HostSession,
    host: &HostName,
) -> ObservedHost {
    let look = ObservationRun {
        project: run.project,
        expander: run.expander,
        options: run.options,
        events: run.events,
        facts: run.facts,
        beside: &BTreeSet::new(),
        keep: true,
        careful: false,
        few: true,
        pools: ObservationPools::default(),
    };
    look.run_trips(link, host).await
}

/// Sends the same probes to each of `hosts` in one round trip, split between hosts and the cluster's API as applicable.
/// A host answers the `second` ones at the same time over another channel of its connection, as an apply needs one besides
/// that of its lock: a host that refuses it is unreachable, and other answers to them are not returned.
pub(super) async fn observe_probes(
    project: &Project,
    hosts: &[HostName],
    [probes, second]: [&BTreeSet<Probe>; 2],
    options: &RunOptions,
    events: &EventSender,
) -> ObservedHosts {
    emit_live_event(
        options,
        events,
        Event::ObserveStarted { hosts: hosts.iter().filter(|host| !host.is_cluster()).count() },
    );
    let one = |host: HostName| async move {
        let began = Instant::now();
        emit_live_event(options, events, Event::Connecting { host: host.clone() });
        let own: BTreeSet<Probe> =
            probes.iter().filter(|probe| probe.is_api_probe() == host.is_cluster()).cloned().collect();
        let opened = match own.is_empty() {
            true => Err(super::cluster_session::no_commands_error()),
            false => {
                let request =
                    SessionRequest { project, options, host: &host, secrets: &project.secrets, logs_in: false };
                <dyn ReadOnlySession>::open(request).await
            }
        };
        let seen = match opened {
            Ok(glance) => {
                let other = open_second_channel(&*glance, &host, second, &project.secrets);
                let (seen, refused) = tokio::join!(query_host(project, &*glance, &host, &own), other);
                glance.close().await;
                refused.filter(|_| seen.is_observed()).unwrap_or(seen)
            }
            Err(error) => from_failed_session(&host, &error),
        };
        emit_live_event(options, events, build_seen_event(&seen, began));
        seen
    };
    let mut seen = run_on_hosts(hosts, options.parallel, one).await;
    mark_simulated(project, &mut seen);
    ObservedHosts { seen, ..ObservedHosts::empty_for(project) }
}

/// Marks hosts that are simulated or present simulated hardware.
fn mark_simulated(project: &Project, seen: &mut [ObservedHost]) {
    let simulated = |seen: &ObservedHost| project.is_simulated(&seen.host) || seen.facts.is_hardware_simulated();
    seen.iter_mut().for_each(|seen| seen.simulated = simulated(seen));
}

impl ObservationRun<'_> {
    fn session_request<'s>(&'s self, host: &'s HostName, secrets: &'s SecretStore) -> SessionRequest<'s> {
        SessionRequest { project: self.project, options: self.options, host, secrets, logs_in: false }
    }

    fn emit_event(&self, event: Event) {
        emit_live_event(self.options, self.events, event);
    }

    fn plan_context<'s>(
        &'s self,
        exports: &'s ExportedValues,
        chosen: &'s ChosenHosts,
        secrets: &'s SecretStore,
    ) -> PlanContext<'s> {
        PlanContext {
            project: self.project,
            expander: self.expander,
            filter: &self.options.filter,
            exports,
            chosen,
            secrets,
            policy: self.options.plan_policy(),
        }
    }

    /// Runs every host's first trip, and the second one if it depends only on the host's own facts.
    async fn run_first_trips<S: OpenSession + ?Sized>(&self, hosts: &[HostName]) -> (ObservedHosts, OpenSessions<S>) {
        let list = match self.options.replay.observed {
            Some(_) => self.replay_hosts::<S>(hosts).await,
            None => run_on_hosts(hosts, self.options.parallel, |host| self.observe_host::<S>(host)).await,
        };
        let (mut observed, mut sessions) = (ObservedHosts::empty_for(self.project), OpenSessions::new());
        for (seen, session, took) in list {
            observed.took_by.insert(seen.host.clone(), took);
            sessions.extend(session.map(|session| (seen.host.clone(), session)));
            observed.seen.push(seen);
        }
        (observed, sessions)
    }

    /// Like [`observe_host`](Self::observe_host) for each of `hosts`, on all cores: nothing waits for a recorded answer,
    /// and reading those of many hosts takes longer than planning.
    async fn replay_hosts<S: OpenSession + ?Sized>(
        &self,
        hosts: &[HostName],
    ) -> Vec<(ObservedHost, Option<Box<S>>, Duration)> {
        let mut list = Vec::with_capacity(hosts.len());
        let replayed = model::map_parallel(hosts, |host| self.observe_host::<S>(host.clone()).now_or_never());
        for (host, replayed) in hosts.iter().zip(replayed) {
            list.push(match replayed {
                Some(done) => done,
                None => self.observe_host::<S>(host.clone()).await,
            });
        }
        list
    }

    async fn observe_host<S: OpenSession + ?Sized>(&self, host: HostName) -> (ObservedHost, Option<Box<S>>, Duration) {
        let began = Instant::now();
        let (seen, link) = self.connect_and_observe(host, began).await;
        (seen, link, began.elapsed())
    }

    async fn connect_and_observe<S: OpenSession + ?Sized>(
        &self,
        host: HostName,
        began: Instant,
    ) -> (ObservedHost, Option<Box<S>>) {
        self.emit_event(Event::Connecting { host: host.clone() });
        let secrets = &self.project.secrets;
        let (seen, link) = match S::open(self.session_request(&host, secrets)).await {
            Ok(link) => (self.run_trips(&*link, &host).await, Some(link)),
            Err(error) => (from_failed_session(&host, &error), None),
        };
        // Whether such a cluster is unreachable or does not exist yet follows from the hosts.
        if seen.missing.is_none() {
            self.emit_event(build_seen_event(&seen, began));
        }
        let more = self.few && self.needs_exports(&seen);
        match link {
            Some(link) if seen.is_observed() && (self.keep || more) => (seen, Some(link)),
            Some(link) => {
                link.close().await;
                (seen, None)
            }
            None => (seen, None),
        }
    }

    async fn run_trips(&self, link: &(impl ReadOnlySession + ?Sized), host: &HostName) -> ObservedHost {
        let secrets = &self.project.secrets;
        let mut seen = query_host(self.project, link, host, &self.list_first_probes(host)).await;
        if !seen.is_observed() {
            return seen;
        }
        let rest: BTreeSet<Probe> =
            self.list_needed_probes(&seen).into_iter().filter(|probe| !seen.observation.has_answer(probe)).collect();
        if !rest.is_empty() && !self.needs_exports(&seen) {
            self.observe_more(link, &mut seen, &rest, secrets).await;
        }
        self.retry_failed_probes(link, &mut seen, secrets).await;
        self.pools.share(&mut seen);
        seen
    }

    /// Retries failed reads once: a single failure is not conclusive.
    async fn retry_failed_probes(
        &self,
        link: &(impl ReadOnlySession + ?Sized),
        seen: &mut ObservedHost,
        secrets: &SecretStore,
    ) {
        let unread =
            seen.facts.0.iter().filter(|(_, fact)| fact.as_ref().err().is_some_and(UnansweredReason::is_retryable));
        let mut failed: BTreeSet<Probe> =
            unread.filter_map(|(name, _)| crate::facts::fact_probe(&seen.host, name)).collect();
        failed.extend(seen.observation.list_failed_probes());
        // Facts used only for comparison are reported as unknown and decide nothing: they are not worth a round trip.
        failed.retain(|probe| !matches!(probe, Probe::Fact { name } if self.beside.contains(name)));
        if self.careful && seen.is_observed() && !failed.is_empty() {
            self.observe_more(link, seen, &failed, secrets).await;
        }
    }

    /// Returns the probes of the first trip. A recording answers any number of trips at no cost: its facts are read alone,
    /// so that steps are expanded once, with them. Without them nothing else is known to be needed than with them.
    fn list_first_probes(&self, host: &HostName) -> BTreeSet<Probe> {
        if self.options.replay.observed.is_some() && !self.project.exports_values() {
            return plan::collect_host_probes(host, self.facts);
        }
        self.list_needed_probes(&ObservedHost::from_observation(host, Default::default(), 0))
    }

    fn list_needed_probes(&self, seen: &ObservedHost) -> BTreeSet<Probe> {
        let (exports, chosen) = (ExportedValues::new(), ChosenHosts::new());
        let ground = self.plan_context(&exports, &chosen, &self.project.secrets);
        HostContext::new(ground, &seen.host, seen)
            .map(|case| plan::collect_probes(&case, self.facts))
            .unwrap_or_default()
    }

    /// Reports whether a step of a host waits for a value that another step exports.
    fn needs_exports(&self, seen: &ObservedHost) -> bool {
        // Otherwise every step of each of many hosts would be expanded once more.
        if !self.project.exports_values() {
            return false;
        }
        let (exports, chosen) = (ExportedValues::new(), ChosenHosts::new());
        let ground = self.plan_context(&exports, &chosen, &self.project.secrets);
        let Some(case) = HostContext::new(ground, &seen.host, seen).filter(|_| seen.is_observed()) else {
            return false;
        };
        case.expand_candidate_steps().iter().any(|turn| match &turn.expanded.state {
            ExpansionState::Deferred(deferred) => matches!(deferred.need, PendingInput::Export { .. }),
            _ => false,
        })
    }

    /// Runs the second trip of hosts whose text needs values exported by other hosts. For the steps in `deferred`, every
    /// candidate counts.
    async fn run_second_trips<S: OpenSession + ?Sized>(
        &self,
        observed: &mut ObservedHosts,
        deferred: &BTreeSet<StepIndex>,
        links: &mut OpenSessions<S>,
    ) {
        let ObservedHosts { seen, chosen, exports, secrets, took_by, .. } = observed;
        // Otherwise the first trip has sent everything: nothing is computed for each of many hosts.
        if !self.project.exports_values() && chosen.is_empty() {
            return self.close_sessions(links).await;
        }
        let chosen: ChosenHosts =
            chosen.iter().filter(|(step, _)| !deferred.contains(step)).map(|(s, hosts)| (*s, hosts.clone())).collect();
        let chosen = &chosen;
        let mut due = Vec::new();
        for seen in seen.iter_mut().filter(|s| s.is_observed()) {
            let ground = self.plan_context(exports, chosen, secrets);
            let probes = match HostContext::new(ground, &seen.host, seen) {
                Some(case) => plan::collect_probes(&case, self.facts),
                None => continue,
            };
            let rest: BTreeSet<Probe> =
                probes.into_iter().filter(|probe| !seen.observation.has_answer(probe)).collect();
            if !rest.is_empty() {
                due.push((seen, rest));
            }
        }
        let (links_ref, secrets_ref): (&OpenSessions<S>, _) = (links, &*secrets);
        let trips = due.into_iter().map(|(seen, rest)| async move {
            let began = Instant::now();
            match links_ref.get(&seen.host) {
                Some(link) => {
                    self.observe_more(&**link, seen, &rest, secrets_ref).await;
                    self.retry_failed_probes(&**link, seen, secrets_ref).await;
                }
                None => self.observe_in_new_session::<S>(seen, &rest, secrets_ref).await,
            }
            (seen.host.clone(), began.elapsed())
        });
        let mut trips = futures_util::stream::iter(trips).buffer_unordered(self.options.parallel.max(1));
        while let Some((host, took)) = trips.next().await {
            *took_by.entry(host).or_default() += took;
        }
        drop(trips);
        self.close_sessions(links).await;
    }

    /// Closes the sessions unless changes follow.
    async fn close_sessions<S: OpenSession + ?Sized>(&self, links: &mut OpenSessions<S>) {
        if !self.keep {
            for (_, link) in std::mem::take(links) {
                link.close().await;
            }
        }
    }

    async fn observe_in_new_session<S: OpenSession + ?Sized>(
        &self,
        seen: &mut ObservedHost,
        rest: &BTreeSet<Probe>,
        secrets: &SecretStore,
    ) {
        match S::open(self.session_request(&seen.host, secrets)).await {
            Ok(link) => {
                self.observe_more(&*link, seen, rest, secrets).await;
                link.close().await;
            }
            Err(error) => *seen = from_failed_session(&seen.host, &error),
        }
    }

    async fn observe_more(
        &self,
        link: &(impl ReadOnlySession + ?Sized),
        seen: &mut ObservedHost,
        rest: &BTreeSet<Probe>,
        secrets: &SecretStore,
    ) {
        match link.observe(rest, secrets).await {
            Ok(later) => {
                seen.merge_observation(later);
                seen.trips += 1;
            }
            Err(error) => *seen = from_failed_session(&seen.host, &error),
        }
    }

    /// Determines whether this run creates a cluster that could not be observed: then its steps are planned, too. Drift
    /// compares with what exists, so for it that cluster is not reachable.
    fn resolve_missing_cluster(&self, observed: &mut ObservedHosts, nodes: &NodeListing, purpose: ObservationPurpose) {
        let own = observed.seen.iter().find_map(|seen| seen.missing.clone());
        let Some(found) = own.or_else(|| nodes.missing_cluster()) else { return };
        let ground = self.plan_context(&observed.exports, &observed.chosen, &observed.secrets);
        let makers = plan::list_pending_makers(ground, &observed.seen);
        let missing = Some(MissingCluster { makers, ..found }).filter(|missing| !missing.makers.is_empty());
        for seen in observed.seen.iter_mut().filter(|seen| seen.missing.is_some()) {
            seen.missing = None;
            match &missing {
                Some(missing) if matches!(purpose, ObservationPurpose::Drift { .. }) => {
                    let hint = format!("run `forge apply`: {}", missing.describe_creation());
                    let why = UnreachableReason::new(missing.describe_absence(), Some(hint.into()));
                    seen.reach = plan::HostReachability::Unreachable(why);
                }
                Some(missing) => {
                    seen.reach = plan::HostReachability::Observed;
                    seen.missing = Some(missing.clone());
                }
                None => {}
            }
            self.emit_event(build_seen_event(seen, Instant::now()));
        }
        observed.missing = missing;
    }

    /// Withdraws the exported values that this run may change, once everything is observed: before, a reader's own state
    /// has to be asked for.
    fn withdraw_exports(&self, observed: &mut ObservedHosts) {
        let mut published = observed.published.clone();
        let ground = self.plan_context(&observed.exports, &observed.chosen, &observed.secrets);
        plan::withdraw_changing_exports(ground, &observed.seen, &mut published);
        observed.exports = published.to_exports();
        observed.published = published;
    }

    /// Computes the values shared between hosts from the observation of all.
    fn compute_shared_values(&self, observed: &mut ObservedHosts) {
        let none_chosen = ChosenHosts::new();
        let first = self.plan_context(&observed.exports, &none_chosen, &observed.secrets);
        // A worker sees only its own hosts: the plan has chosen among all.
        let planned = self.options.replay.outside.find_chosen(&self.project.graph);
        let chosen = planned.unwrap_or_else(|| plan::choose_hosts(first, &observed.seen));
        let mut secrets = observed.secrets.clone();
        let ground = self.plan_context(&observed.exports, &chosen, &observed.secrets);
        let others = match self.options.replay.part || self.options.rehearsal {
            true => OtherHosts::ObservedElsewhere { done: &self.options.replay.outside.done },
            false => OtherHosts::Unknown,
        };
        let mut published = plan::read_exported_values(ground, &observed.seen, others, &mut secrets);
        self.options.replay.outside.exports.iter().for_each(|entry| published.set_entry(entry.clone()));
        observed.exports = published.to_exports();
        observed.published = published;
        observed.chosen = chosen;
        observed.secrets = secrets;
    }
}

/// Sends an event, unless the answers come from a recording.
fn emit_live_event(options: &RunOptions, events: &EventSender, event: Event) {
    if options.replay.observed.is_none() {
        // Sending fails only when the receiver is gone, shortly before the process ends.
        let _ = events.send(event);
    }
}

/// Runs `work` for `parallel` hosts at a time. Results come in the order of `hosts`, but a slow host does not delay the
/// start of later ones.
pub(super) async fn run_on_hosts<T, F: Future<Output = T>>(
    hosts: &[HostName],
    parallel: usize,
    work: impl Fn(HostName) -> F,
) -> Vec<T> {
    let numbered = hosts.iter().cloned().enumerate().map(|(at, host)| {
        let done = work(host);
        async move { (at, done.await) }
    });
    let mut list: Vec<(usize, T)> =
        futures_util::stream::iter(numbered).buffer_unordered(parallel.max(1)).collect().await;
    list.sort_by_key(|(at, _)| *at);
    list.into_iter().map(|(_, done)| done).collect()
}

fn build_seen_event(seen: &ObservedHost, began: Instant) -> Event {
    match &seen.reach {
        plan::HostReachability::Observed => {
            Event::Observed { host: seen.host.clone(), trips: seen.trips, took: began.elapsed() }
        }
        plan::HostReachability::Unreachable(why) => Event::Unreachable { host: seen.host.clone(), why: why.clone() },
    }
}
