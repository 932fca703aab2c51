//! Observes many hosts in parallel: in one round trip if no probe depends on facts, otherwise in two.

use super::event::Event;
use super::glance::{ObservationSession, ReadOnlySession};
use super::link::{HostSession, reason};
use super::nodes::{LazyClusterApi, NodeListing};
use super::prove::facts_used;
use super::run::{EventSender, RunOptions};
use crate::config::{ExpansionState, ExportedValues, PendingInput, Project, StepExpander};
use crate::model::{HostName, SecretStore, UntrustedText};
use crate::plan::{self, ChosenHosts, HostContext, HostExports, ObservedHost, PlanContext, UnreachableReason};
use crate::probe::{Probe, UnansweredReason};
use crate::transport::TransportError;
use futures_util::StreamExt;
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

/// The observation of a selection of hosts.
pub struct ObservedHosts {
    /// In the order of the inventory.
    pub seen: Vec<ObservedHost>,
    pub chosen: ChosenHosts,
    pub published: HostExports,
    pub exports: ExportedValues,
    /// Includes secrets exported by hosts.
    pub secrets: SecretStore,
    /// Duration of the observation: in total, and per host.
    pub took: Duration,
    pub took_by: BTreeMap<HostName, Duration>,
    /// The API of the cluster whose nodes the hosts are, as far as it was opened.
    pub(super) api: LazyClusterApi,
    /// Sessions that are still open.
    pub(super) links: BTreeMap<HostName, HostSession>,
}

impl ObservedHosts {
    /// Returns the context in which the hosts are evaluated, as observed.
    pub(super) fn ground<'g>(
        &'g self,
        project: &'g Project,
        expander: &'g StepExpander<'g>,
        options: &'g RunOptions,
    ) -> PlanContext<'g> {
        PlanContext {
            project,
            expander,
            filter: &options.filter,
            policy: options.policy,
            exports: &self.exports,
            chosen: &self.chosen,
            secrets: &self.secrets,
        }
    }
}

impl AsRef<[ObservedHost]> for ObservedHosts {
    fn as_ref(&self) -> &[ObservedHost] {
        &self.seen
    }
}

/// Sessions that are still open.
type OpenSessions<S> = BTreeMap<HostName, S>;

/// The purpose of an observation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ObservationPurpose {
    Read,
    Change,
    Drift {
        /// Whether to probe all facts by which hosts are compared.
        outliers: bool,
    },
}

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
}

/// Observes `hosts` over probe-only sessions.
pub async fn observe(
    project: &Project,
    hosts: &[HostName],
    options: &RunOptions,
    events: &EventSender,
) -> ObservedHosts {
    look::<ReadOnlySession>(project, hosts, options, events, ObservationPurpose::Read).await.0
}

/// Observes `hosts` for drift: retries failed reads once and adds the health facts of hardware that the project
/// manages. Recipes' checks run read-only. With `outliers`, also probes the facts by which hosts are compared, in the
/// same round trip.
pub async fn observe_drift(
    project: &Project,
    hosts: &[HostName],
    outliers: bool,
    options: &RunOptions,
    events: &EventSender,
) -> ObservedHosts {
    let options = RunOptions { confined: !project.drift.unconfined, ..options.clone() };
    look::<ReadOnlySession>(project, hosts, &options, events, ObservationPurpose::Drift { outliers }).await.0
}

/// Observes `hosts` and leaves sessions open for the changes that follow, as far as the window permits.
pub async fn observe_to_change(
    project: &Project,
    hosts: &[HostName],
    options: &RunOptions,
    events: &EventSender,
) -> ObservedHosts {
    let (observed, links) = look::<HostSession>(project, hosts, options, events, ObservationPurpose::Change).await;
    ObservedHosts { links, ..observed }
}

async fn look<S: ObservationSession>(
    project: &Project,
    hosts: &[HostName],
    options: &RunOptions,
    events: &EventSender,
    purpose: ObservationPurpose,
) -> (ObservedHosts, OpenSessions<S>) {
    let expander = StepExpander::new(project);
    let facts = match purpose {
        _ if options.replay.record => every_fact(),
        ObservationPurpose::Drift { .. } => with_health(facts_used(project)),
        ObservationPurpose::Read | ObservationPurpose::Change => facts_used(project),
    };
    let beside = only_compared(&facts, purpose);
    let facts = &facts | &beside;
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
    };
    let began = Instant::now();
    look.say(Event::ObserveStarted { hosts: hosts.iter().filter(|host| !host.is_cluster()).count() });
    let api = LazyClusterApi::default();
    let (nodes, (mut observed, mut sessions)) =
        tokio::join!(NodeListing::ask(project, hosts, options, &api), look.first::<S>(hosts));
    look.share(&mut observed);
    look.second(&mut observed, &mut sessions).await;
    look.share(&mut observed);
    nodes.tell(project, options, &mut observed.seen);
    match purpose {
        ObservationPurpose::Change => observed.api = api,
        ObservationPurpose::Read | ObservationPurpose::Drift { .. } => api.close().await,
    }
    observed.took = began.elapsed();
    mark(project, &mut observed.seen);
    (observed, sessions)
}

/// Adds the health facts of the hardware that the project manages.
fn with_health(mut facts: BTreeSet<String>) -> BTreeSet<String> {
    for (fact, about) in crate::drift::health::FACTS {
        if about.iter().any(|about| facts.contains(*about)) {
            facts.insert(fact.to_owned());
        }
    }
    facts
}

/// Returns the facts that are probed only to compare hosts.
fn only_compared(facts: &BTreeSet<String>, purpose: ObservationPurpose) -> BTreeSet<String> {
    match purpose {
        ObservationPurpose::Drift { outliers: true } => {
            crate::facts::outliers::facts().map(str::to_owned).filter(|fact| !facts.contains(fact)).collect()
        }
        _ => BTreeSet::new(),
    }
}

/// Returns all facts: a recording is used beyond the facts that its project reads.
fn every_fact() -> BTreeSet<String> {
    crate::facts::names().map(str::to_owned).collect()
}

/// Probes all facts of `hosts`.
pub async fn observe_facts(
    project: &Project,
    hosts: &[HostName],
    options: &RunOptions,
    events: &EventSender,
) -> ObservedHosts {
    let of_hosts = crate::facts::probes();
    let of_cluster = crate::facts::of_cluster().iter().map(|fact| Probe::ClusterFact { name: fact.name.to_owned() });
    let probes = of_hosts.chain(of_cluster).collect();
    observe_for(project, hosts, &probes, options, events).await
}

/// Sends the same probes to each of `hosts` in one round trip, split between hosts and the cluster's API as applicable.
pub(super) async fn observe_for(
    project: &Project,
    hosts: &[HostName],
    probes: &BTreeSet<Probe>,
    options: &RunOptions,
    events: &EventSender,
) -> ObservedHosts {
    say(options, events, Event::ObserveStarted { hosts: hosts.iter().filter(|host| !host.is_cluster()).count() });
    let one = |host: HostName| async move {
        let began = Instant::now();
        say(options, events, Event::Connecting { host: host.clone() });
        let own: BTreeSet<Probe> =
            probes.iter().filter(|probe| probe.is_to_api() == host.is_cluster()).cloned().collect();
        let opened = match own.is_empty() {
            true => Err(super::api::no_host()),
            false => ReadOnlySession::open(project, options, &host, &project.secrets).await,
        };
        let seen = match opened {
            Ok(glance) => {
                let seen = ask(&glance, &host, &own, &project.secrets).await;
                glance.close().await;
                seen
            }
            Err(error) => ObservedHost::unreachable(&host, why(&error)),
        };
        say(options, events, seen_event(&seen, began));
        seen
    };
    let mut seen = beside(hosts, options.parallel, one).await;
    mark(project, &mut seen);
    ObservedHosts { seen, ..ObservedHosts::nothing(project) }
}

/// Marks hosts that are simulated or present simulated hardware.
fn mark(project: &Project, seen: &mut [ObservedHost]) {
    let simulated = |seen: &ObservedHost| project.is_simulated(&seen.host) || seen.facts.hardware_is_simulated();
    seen.iter_mut().for_each(|seen| seen.simulated = simulated(seen));
}

impl ObservedHosts {
    fn nothing(project: &Project) -> Self {
        Self {
            seen: Vec::new(),
            chosen: ChosenHosts::new(),
            published: HostExports::default(),
            exports: ExportedValues::new(),
            secrets: project.secrets.clone(),
            took: Duration::ZERO,
            took_by: BTreeMap::new(),
            api: LazyClusterApi::default(),
            links: BTreeMap::new(),
        }
    }
}

impl ObservationRun<'_> {
    fn say(&self, event: Event) {
        say(self.options, self.events, event);
    }

    fn ground<'s>(
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
            policy: self.options.policy,
        }
    }

    /// Runs every host's first trip, and the second one if it depends only on the host's own facts.
    async fn first<S: ObservationSession>(&self, hosts: &[HostName]) -> (ObservedHosts, OpenSessions<S>) {
        let list = beside(hosts, self.options.parallel, |host| self.host::<S>(host)).await;
        let (mut observed, mut sessions) = (ObservedHosts::nothing(self.project), OpenSessions::new());
        for (seen, session, took) in list {
            observed.took_by.insert(seen.host.clone(), took);
            sessions.extend(session.map(|session| (seen.host.clone(), session)));
            observed.seen.push(seen);
        }
        (observed, sessions)
    }

    async fn host<S: ObservationSession>(&self, host: HostName) -> (ObservedHost, Option<S>, Duration) {
        let began = Instant::now();
        let (seen, link) = self.look_at(host, began).await;
        (seen, link, began.elapsed())
    }

    async fn look_at<S: ObservationSession>(&self, host: HostName, began: Instant) -> (ObservedHost, Option<S>) {
        self.say(Event::Connecting { host: host.clone() });
        let secrets = &self.project.secrets;
        let (seen, link) = match S::open(self.project, self.options, &host, secrets).await {
            Ok(link) => (self.trips(&link, &host).await, Some(link)),
            Err(error) => (ObservedHost::unreachable(&host, why(&error)), None),
        };
        self.say(seen_event(&seen, began));
        let more = self.few && self.waits_for_exports(&seen);
        match link {
            Some(link) if seen.is_observed() && (self.keep || more) => (seen, Some(link)),
            Some(link) => {
                link.close().await;
                (seen, None)
            }
            None => (seen, None),
        }
    }

    async fn trips(&self, link: &impl ObservationSession, host: &HostName) -> ObservedHost {
        let secrets = &self.project.secrets;
        let blank = ObservedHost::observed(host, Default::default(), 0);
        let mut seen = ask(link, host, &self.demand(&blank), secrets).await;
        if !seen.is_observed() {
            return seen;
        }
        let rest: BTreeSet<Probe> =
            self.demand(&seen).into_iter().filter(|probe| !seen.observation.has(probe)).collect();
        if !rest.is_empty() && !self.waits_for_exports(&seen) {
            self.again(link, &mut seen, &rest, secrets).await;
        }
        self.once_more(link, &mut seen, secrets).await;
        seen
    }

    /// Retries failed reads once: a single failure is not conclusive.
    async fn once_more(&self, link: &impl ObservationSession, seen: &mut ObservedHost, secrets: &SecretStore) {
        let unread =
            seen.facts.0.iter().filter(|(_, fact)| fact.as_ref().err().is_some_and(UnansweredReason::may_pass));
        let mut failed: BTreeSet<Probe> =
            unread.filter_map(|(name, _)| crate::facts::question(&seen.host, name)).collect();
        failed.extend(seen.observation.failed());
        // Facts used only for comparison are reported as unknown and decide nothing: they are not worth a round trip.
        failed.retain(|probe| !matches!(probe, Probe::Fact { name } if self.beside.contains(name)));
        if self.careful && seen.is_observed() && !failed.is_empty() {
            self.again(link, seen, &failed, secrets).await;
        }
    }

    fn demand(&self, seen: &ObservedHost) -> BTreeSet<Probe> {
        let (exports, chosen) = (ExportedValues::new(), ChosenHosts::new());
        let ground = self.ground(&exports, &chosen, &self.project.secrets);
        HostContext::new(ground, &seen.host, seen).map(|case| plan::demand(&case, self.facts)).unwrap_or_default()
    }

    fn waits_for_exports(&self, seen: &ObservedHost) -> bool {
        let (exports, chosen) = (ExportedValues::new(), ChosenHosts::new());
        let ground = self.ground(&exports, &chosen, &self.project.secrets);
        let Some(case) = HostContext::new(ground, &seen.host, seen).filter(|_| seen.is_observed()) else {
            return false;
        };
        case.candidate_turns().iter().any(|turn| match &turn.expanded.state {
            ExpansionState::Deferred(deferred) => matches!(deferred.need, PendingInput::Export { .. }),
            _ => false,
        })
    }

    /// Runs the second trip of hosts whose text needs values exported by other hosts.
    async fn second<S: ObservationSession>(&self, observed: &mut ObservedHosts, links: &mut OpenSessions<S>) {
        let ObservedHosts { seen, chosen, exports, secrets, took_by, .. } = observed;
        let mut due = Vec::new();
        for seen in seen.iter_mut().filter(|s| s.is_observed()) {
            let ground = self.ground(exports, chosen, secrets);
            let probes = match HostContext::new(ground, &seen.host, seen) {
                Some(case) => plan::demand(&case, self.facts),
                None => continue,
            };
            let rest: BTreeSet<Probe> = probes.into_iter().filter(|probe| !seen.observation.has(probe)).collect();
            if !rest.is_empty() {
                due.push((seen, rest));
            }
        }
        let (links_ref, secrets_ref): (&OpenSessions<S>, _) = (links, &*secrets);
        let trips = due.into_iter().map(|(seen, rest)| async move {
            let began = Instant::now();
            match links_ref.get(&seen.host) {
                Some(link) => {
                    self.again(link, seen, &rest, secrets_ref).await;
                    self.once_more(link, seen, secrets_ref).await;
                }
                None => self.afresh::<S>(seen, &rest, secrets_ref).await,
            }
            (seen.host.clone(), began.elapsed())
        });
        let mut trips = futures_util::stream::iter(trips).buffer_unordered(self.options.parallel.max(1));
        while let Some((host, took)) = trips.next().await {
            *took_by.entry(host).or_default() += took;
        }
        drop(trips);
        if !self.keep {
            for (_, link) in std::mem::take(links) {
                link.close().await;
            }
        }
    }

    async fn afresh<S: ObservationSession>(
        &self,
        seen: &mut ObservedHost,
        rest: &BTreeSet<Probe>,
        secrets: &SecretStore,
    ) {
        match S::open(self.project, self.options, &seen.host, secrets).await {
            Ok(link) => {
                self.again(&link, seen, rest, secrets).await;
                link.close().await;
            }
            Err(error) => *seen = ObservedHost::unreachable(&seen.host, why(&error)),
        }
    }

    async fn again(
        &self,
        link: &impl ObservationSession,
        seen: &mut ObservedHost,
        rest: &BTreeSet<Probe>,
        secrets: &SecretStore,
    ) {
        match link.observe(rest, secrets).await {
            Ok(later) => {
                seen.update(later);
                seen.trips += 1;
            }
            Err(error) => *seen = ObservedHost::unreachable(&seen.host, why(&error)),
        }
    }

    /// Computes the values shared between hosts from the observation of all.
    fn share(&self, observed: &mut ObservedHosts) {
        let nobody = ChosenHosts::new();
        let first = self.ground(&observed.exports, &nobody, &observed.secrets);
        let chosen = plan::choose(first, &observed.seen);
        let mut secrets = observed.secrets.clone();
        let ground = self.ground(&observed.exports, &chosen, &observed.secrets);
        let published = plan::published(ground, &observed.seen, &mut secrets);
        observed.exports = published.exports();
        observed.published = published;
        observed.chosen = chosen;
        observed.secrets = secrets;
    }
}

/// Sends an event, unless the answers come from a recording.
fn say(options: &RunOptions, events: &EventSender, event: Event) {
    if options.replay.observed.is_none() {
        // Sending fails only when the receiver is gone, shortly before the process ends.
        let _ = events.send(event);
    }
}

/// Runs `work` for `parallel` hosts at a time. Results come in the order of `hosts`, but a slow host does not delay the
/// start of later ones.
pub(super) async fn beside<T, F: Future<Output = T>>(
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

async fn ask(
    link: &impl ObservationSession,
    host: &HostName,
    probes: &BTreeSet<Probe>,
    secrets: &SecretStore,
) -> ObservedHost {
    match link.observe(probes, secrets).await {
        Ok(observation) => ObservedHost::observed(host, observation, 1),
        Err(error) => ObservedHost::unreachable(host, why(&error)),
    }
}

fn seen_event(seen: &ObservedHost, began: Instant) -> Event {
    match &seen.reach {
        plan::HostReachability::Observed => {
            Event::Observed { host: seen.host.clone(), trips: seen.trips, took: began.elapsed() }
        }
        plan::HostReachability::Unreachable(why) => Event::Unreachable { host: seen.host.clone(), why: why.clone() },
    }
}

fn why(error: &TransportError) -> UnreachableReason {
    let untrusted = |text: &Option<String>| text.as_deref().map(UntrustedText::from);
    UnreachableReason { why: reason(error), hint: untrusted(&error.hint), address: untrusted(&error.address) }
}
