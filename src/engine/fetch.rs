//! Fills the cache: fetches every declared artifact and chart, or those that a plan needs, once.

use super::event::{Event, EventSender};
use super::fetch_charts::{fetch_charts, find_chart_to_fetch};
use super::fetch_report::{ArtifactFetchState, ArtifactReport, ArtifactUsers, ComputedDigest, FetchReport};
use super::observed_hosts::ObservedHosts;
use super::run_options::RunOptions;
use super::transfer_throttle::TransferThrottle;
use crate::artifact::{DownloadProgressFn, FetchError, FetchedArtifact, FetchedDigest};
use crate::config::{
    ArtifactLockFile, ExpansionInputs, ExpansionState, ExportedValues, FactSource, Project, StepExpander,
    WrittenValues, lock_file_path,
};
use crate::model::{Artifact, ArtifactSource, HostName, SecretStore, Sha256Digest, StepId, UntrustedText};
use crate::object::ChartQuery;
use crate::plan::{HostContext, Plan};
use crate::resource::kind_traits;
use futures_util::StreamExt;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

/// Number of parallel fetches.
const PARALLEL_FETCHES: usize = 4;

/// The declared artifacts and charts, without duplicates.
#[derive(Default)]
struct DeclaredDownloads {
    artifacts: WantedArtifacts,
    charts: BTreeMap<ChartQuery, ArtifactUsers>,
    /// Steps whose artifacts are not known without an observation of their hosts.
    open: BTreeSet<StepId>,
}

type WantedArtifacts = BTreeMap<(ArtifactSource, Sha256Digest), (Artifact, ArtifactUsers)>;

/// Fetches the artifacts that the steps of `hosts` declare and verifies those in the cache. `project` is loaded in
/// learning mode: undeclared digests are computed from the downloads. With `lock`, they are written to the inventory's
/// lock file.
///
/// # Errors
/// The lock file cannot be written: why.
pub async fn fetch(
    project: &Project,
    hosts: &[HostName],
    options: &RunOptions,
    lock: bool,
    events: &EventSender,
) -> Result<FetchReport, String> {
    let DeclaredDownloads { artifacts: wanted, charts, open } = collect_declared(project, hosts, options);
    let secrets = Arc::new(project.secrets.clone());
    let each = wanted.into_values().map(|(artifact, users)| {
        let secrets = secrets.clone();
        async move {
            let had = fetch_artifact(&artifact, options, &secrets, events).await;
            (artifact, users, had)
        }
    });
    let done: Vec<_> = futures_util::stream::iter(each).buffered(PARALLEL_FETCHES).collect().await;
    let lock = if lock { write_learned_digests(project, &done)? } else { None };
    let mut artifacts: Vec<_> =
        done.into_iter().map(|(artifact, users, had)| build_artifact_report(&artifact, users, had)).collect();
    artifacts.extend(fetch_charts(project, charts, options, events).await);
    let cache = options.depot.cache().root().to_string();
    Ok(FetchReport { cluster: project.cluster.clone(), cache, artifacts, open: open.into_iter().collect(), lock })
}

/// Collects the artifacts and charts declared on hosts.
fn collect_declared(project: &Project, hosts: &[HostName], options: &RunOptions) -> DeclaredDownloads {
    let expander = StepExpander::new(project);
    let exports = ExportedValues::new();
    let known = ExpansionInputs { facts: FactSource::NotYet, exports: &exports };
    let mut written = WrittenValues::new(project);
    let mut all = DeclaredDownloads::default();
    for host in hosts.iter().filter_map(|name| project.hosts.get(name)) {
        let own = project.instances.get(&host.name).into_iter().flatten();
        let steps = own.flat_map(|instance| instance.recipe.steps.iter().map(move |step| (instance, step)));
        for (instance, step) in steps.filter(|(i, step)| options.filter.admits_step(&i.recipe.name, &step.name)) {
            for turn in expander.expand_step(host, instance, step, &known).iter() {
                match &turn.state {
                    ExpansionState::Resource(resource) => {
                        if let Some(chart) = find_chart_to_fetch(&**resource) {
                            let is_undeclared = chart.sha256.is_none();
                            let users = all.charts.entry(chart).or_default();
                            users.steps.insert(turn.id.clone());
                            users.hosts.insert(host.name.clone());
                            let place = is_undeclared.then(|| written.locate_field(instance, step, "chart"));
                            users.places.extend(place.flatten());
                        }
                        let users = add_wanted(&mut all.artifacts, resource.artifact(), &turn.id, &host.name);
                        if let Some((artifact, users)) = users.filter(|(artifact, _)| artifact.sha256.is_unknown()) {
                            let field = if matches!(artifact.source, ArtifactSource::File(_)) { "file" } else { "url" };
                            users.places.extend(written.locate_field(instance, step, field));
                        }
                    }
                    ExpansionState::Deferred(deferred) if kind_traits(deferred.kind).downloads => {
                        all.open.insert(turn.id.clone());
                    }
                    _ => {}
                }
            }
        }
    }
    all
}

fn add_wanted<'w>(
    wanted: &'w mut WantedArtifacts,
    artifact: Option<&Artifact>,
    step: &StepId,
    host: &HostName,
) -> Option<&'w mut (Artifact, ArtifactUsers)> {
    let artifact = artifact?;
    let key = (artifact.source.clone(), artifact.sha256.clone());
    let entry = wanted.entry(key).or_insert_with(|| (artifact.clone(), ArtifactUsers::default()));
    entry.1.steps.insert(step.clone());
    entry.1.hosts.insert(host.clone());
    Some(entry)
}

async fn fetch_artifact(
    artifact: &Artifact,
    options: &RunOptions,
    secrets: &SecretStore,
    events: &EventSender,
) -> Result<FetchedDigest, FetchError> {
    let (depot, told) = (&options.depot, build_transfer_reporter(&artifact.source.name(), events));
    let began = Instant::now();
    let had = match artifact.sha256.is_unknown() {
        true => depot.fetch_unknown_digest(&artifact.source, secrets, &told).await,
        false => depot
            .fetch_and_recheck(artifact, secrets, &told)
            .await
            .map(|fetched| FetchedDigest { fetched, source_url: None }),
    };
    if let Ok(FetchedDigest { fetched: FetchedArtifact { held, new: true }, .. }) = &had {
        let (what, bytes) = (artifact.source.name().into(), held.bytes);
        // Sending fails only when the receiver is gone, shortly before the process ends.
        let _ = events.send(Event::Fetched { what, bytes, took: began.elapsed() });
    }
    had
}

/// Returns the callback that reports a download's progress at a limited rate.
pub(super) fn build_transfer_reporter(name: &str, events: &EventSender) -> DownloadProgressFn {
    let (name, events, pace) = (UntrustedText::from(name), events.clone(), Mutex::new(TransferThrottle::default()));
    Arc::new(move |done, total| {
        if pace.lock().unwrap_or_else(PoisonError::into_inner).is_due() {
            let _ = events.send(Event::Fetching { what: name.clone(), done, total });
        }
    })
}

fn build_artifact_report(
    artifact: &Artifact,
    users: ArtifactUsers,
    had: Result<FetchedDigest, FetchError>,
) -> ArtifactReport {
    let ArtifactUsers { steps, hosts, places } = users;
    let learned = had.as_ref().ok().filter(|_| artifact.sha256.is_unknown());
    let computed = learned.map(|learned| build_computed_digest(learned, places));
    let had = match had {
        Ok(FetchedDigest { fetched: FetchedArtifact { held, new }, .. }) => {
            let (sha256, bytes) = (held.sha256.to_string(), held.bytes);
            if new { ArtifactFetchState::New { sha256, bytes } } else { ArtifactFetchState::Here { sha256, bytes } }
        }
        Err(error) => {
            ArtifactFetchState::Failed { why: error.message.into(), hint: error.hint.map(UntrustedText::from) }
        }
    };
    let (steps, hosts) = (steps.into_iter().collect(), hosts.into_iter().collect());
    ArtifactReport { name: artifact.source.name(), steps, hosts, had, computed }
}

fn build_computed_digest(learned: &FetchedDigest, places: BTreeSet<String>) -> ComputedDigest {
    let source_url = learned.source_url.as_ref();
    ComputedDigest {
        line: format!("sha256: \"{}\"", learned.fetched.held.sha256),
        places: places.into_iter().collect(),
        source_url: source_url.map(ToString::to_string),
        protected: source_url.is_none_or(|address| address.is_https() || address.is_loopback()),
        optional: false,
    }
}

/// Writes computed digests into the lock file.
fn write_learned_digests(
    project: &Project,
    done: &[(Artifact, ArtifactUsers, Result<FetchedDigest, FetchError>)],
) -> Result<Option<String>, String> {
    let learned: Vec<_> = done.iter().filter(|(artifact, ..)| artifact.sha256.is_unknown()).collect();
    if learned.is_empty() {
        return Ok(None);
    }
    let path = lock_file_path(&project.inventory);
    let mut lock = ArtifactLockFile::read(&path).map_err(|error| error.to_string())?;
    for (artifact, _, had) in learned {
        if let Ok(learned) = had {
            lock.record_digest(&artifact.source, project.inventory_root(), &learned.fetched.held.sha256);
        }
    }
    lock.write(&path).map_err(|error| error.to_string())?;
    Ok(Some(path.into_string()))
}

/// Fetches the artifacts that a plan sends, before any host is changed. Returns those that are not available.
pub async fn fetch_for_plan(
    project: &Project,
    plan: &Plan,
    observed: &ObservedHosts,
    options: &RunOptions,
    events: &EventSender,
) -> Vec<ArtifactReport> {
    let secrets = Arc::new(observed.secrets.clone());
    let each = collect_needed(project, plan, observed, options).into_values().map(|(artifact, users)| {
        let secrets = secrets.clone();
        async move {
            let told = build_transfer_reporter(&artifact.source.name(), events);
            let had = options.depot.get_artifact(&artifact, &secrets, &told).await;
            had.err().map(|error| build_artifact_report(&artifact, users, Err(error)))
        }
    });
    let done: Vec<Option<ArtifactReport>> = futures_util::stream::iter(each).buffered(PARALLEL_FETCHES).collect().await;
    done.into_iter().flatten().collect()
}

/// Collects the artifacts that changing steps send from the controller.
fn collect_needed(project: &Project, plan: &Plan, observed: &ObservedHosts, options: &RunOptions) -> WantedArtifacts {
    let expander = StepExpander::new(project);
    let ground = observed.plan_context(project, &expander, options);
    let mut wanted = WantedArtifacts::new();
    for host in plan.hosts.iter().filter(|host| host.will_run()) {
        let seen = observed.seen.iter().find(|seen| seen.host == host.host && seen.stale.is_none());
        let Some(case) = seen.and_then(|seen| HostContext::new(ground, &host.host, seen)) else { continue };
        let acts: BTreeSet<&StepId> =
            host.steps.iter().filter(|s| s.will_run() && s.installs_artifact).map(|s| &s.id).collect();
        for turn in case.expand_local_steps().iter().filter(|turn| acts.contains(&turn.expanded.id)) {
            if let ExpansionState::Resource(resource) = &turn.expanded.state {
                let own = resource.artifact().filter(|a| !a.by_host || options.depot.is_offline());
                add_wanted(&mut wanted, own, &turn.expanded.id, &host.host);
            }
        }
    }
    wanted
}
