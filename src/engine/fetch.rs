//! Filling the cache: every artifact that is declared, or that a plan is going to need, once.

use super::event::Event;
use super::observe::Observed;
use super::progress::Pace;
use super::run::{Events, Options};
use crate::artifact::{Artifact, FetchError, Fetched, Lock, Sha256, Source, Told, lock_path};
use crate::config::{Expander, Exports, FactSource, Known, Project, State};
use crate::model::{ExitCode, HostName, SecretStore, StepId, Untrusted};
use crate::plan::{Case, Plan};
use futures_util::StreamExt;
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

/// Artifacts fetched at once.
const AT_ONCE: usize = 4;

/// What became of an artifact.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case", tag = "state")]
pub enum Had {
    /// Was in the cache, or is a file of the inventory's tree.
    Here { sha256: String, bytes: u64 },
    /// Was fetched just now.
    New { sha256: String, bytes: u64 },
    /// Cannot be had, or is not what is declared.
    Failed { why: Untrusted, hint: Option<Untrusted> },
}

/// One artifact, with those who need it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ArtifactLine {
    /// Its URL, or its path.
    pub name: String,
    pub steps: Vec<StepId>,
    pub hosts: Vec<HostName>,
    #[serde(flatten)]
    pub had: Had,
}

/// What `fetch` came to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct FetchReport {
    pub cluster: String,
    /// The folder of the cache.
    pub cache: String,
    pub artifacts: Vec<ArtifactLine>,
    /// Steps whose artifact depends on what only hosts can tell: it is fetched by `apply`.
    pub open: Vec<StepId>,
    /// The lock file, where digests were written into it.
    pub lock: Option<String>,
}

impl FetchReport {
    /// Returns the exit code that the printed report means.
    pub fn exit_code(&self) -> ExitCode {
        match self.failed().next() {
            Some(_) => ExitCode::Artifact,
            None => ExitCode::Done,
        }
    }

    /// Returns what could not be had.
    pub fn failed(&self) -> impl Iterator<Item = &ArtifactLine> {
        self.artifacts.iter().filter(|line| matches!(line.had, Had::Failed { .. }))
    }
}

/// Who needs an artifact.
#[derive(Default)]
struct Users {
    steps: BTreeSet<StepId>,
    hosts: BTreeSet<HostName>,
}

type Wanted = BTreeMap<(Source, Sha256), (Artifact, Users)>;

/// Fetches what the steps of `hosts` declare and checks what is there. With `learn`, digests that nobody declared are
/// taken from what comes, and written beside the inventory; `project` was loaded for that then.
///
/// # Errors
/// The lock file cannot be written: why.
pub async fn fetch(
    project: &Project,
    hosts: &[HostName],
    options: &Options,
    learn: bool,
    events: &Events,
) -> Result<FetchReport, String> {
    let (wanted, open) = declared(project, hosts, options);
    let secrets = Arc::new(project.secrets.clone());
    let each = wanted.into_values().map(|(artifact, users)| {
        let secrets = secrets.clone();
        async move {
            let had = one(&artifact, options, &secrets, events).await;
            (artifact, users, had)
        }
    });
    let done: Vec<_> = futures_util::stream::iter(each).buffered(AT_ONCE).collect().await;
    let lock = if learn { note(project, &done)? } else { None };
    let artifacts = done.into_iter().map(|(artifact, users, had)| line(&artifact, users, had)).collect();
    let cache = options.depot.cache().root().to_string();
    Ok(FetchReport { cluster: project.cluster.clone(), cache, artifacts, open: open.into_iter().collect(), lock })
}

/// Collects what is declared on hosts, and the steps that cannot tell without them.
fn declared(project: &Project, hosts: &[HostName], options: &Options) -> (Wanted, BTreeSet<StepId>) {
    let expander = Expander::new(project);
    let exports = Exports::new();
    let known = Known { facts: FactSource::NotYet, exports: &exports };
    let (mut wanted, mut open) = (Wanted::new(), BTreeSet::new());
    for host in hosts.iter().filter_map(|name| project.hosts.get(name)) {
        let own = project.instances.get(&host.name).into_iter().flatten();
        let steps = own.flat_map(|instance| instance.recipe.steps.iter().map(move |step| (instance, step)));
        for (instance, step) in steps.filter(|(i, step)| options.filter.admits(&i.recipe.name, &step.name)) {
            for turn in expander.expand(host, instance, step, &known).iter() {
                match &turn.state {
                    State::Resource(resource) => want(&mut wanted, resource.artifact(), &turn.id, &host.name),
                    State::Deferred(deferred) if deferred.kind == "artifact" => {
                        open.insert(turn.id.clone());
                    }
                    _ => {}
                }
            }
        }
    }
    (wanted, open)
}

fn want(wanted: &mut Wanted, artifact: Option<&Artifact>, step: &StepId, host: &HostName) {
    let Some(artifact) = artifact else { return };
    let key = (artifact.source.clone(), artifact.sha256.clone());
    let (_, users) = wanted.entry(key).or_insert_with(|| (artifact.clone(), Users::default()));
    users.steps.insert(step.clone());
    users.hosts.insert(host.clone());
}

async fn one(
    artifact: &Artifact,
    options: &Options,
    secrets: &SecretStore,
    events: &Events,
) -> Result<Fetched, FetchError> {
    let (depot, told) = (&options.depot, told(&artifact.source.name(), events));
    let began = Instant::now();
    let had = match artifact.sha256.is_unknown() {
        true => depot.learn(&artifact.source, secrets, &told).await,
        false => depot.checked(artifact, secrets, &told).await,
    };
    if let Ok(Fetched { held, new: true }) = &had {
        let (what, bytes) = (artifact.source.name().into(), held.bytes);
        // Nobody listens any more only when the process is about to end.
        let _ = events.send(Event::Fetched { what, bytes, took: began.elapsed() });
    }
    had
}

/// Returns what tells of a transfer from a server, in a bearable pace.
pub(super) fn told(name: &str, events: &Events) -> Told {
    let (name, events, pace) = (Untrusted::from(name), events.clone(), Mutex::new(Pace::default()));
    Arc::new(move |done, total| {
        if pace.lock().unwrap_or_else(PoisonError::into_inner).due() {
            let _ = events.send(Event::Fetching { what: name.clone(), done, total });
        }
    })
}

fn line(artifact: &Artifact, users: Users, had: Result<Fetched, FetchError>) -> ArtifactLine {
    let had = match had {
        Ok(Fetched { held, new }) => {
            let (sha256, bytes) = (held.sha256.to_string(), held.bytes);
            if new { Had::New { sha256, bytes } } else { Had::Here { sha256, bytes } }
        }
        Err(error) => Had::Failed { why: error.message.into(), hint: error.hint.map(Untrusted::from) },
    };
    let Users { steps, hosts } = users;
    let (steps, hosts) = (steps.into_iter().collect(), hosts.into_iter().collect());
    ArtifactLine { name: artifact.source.name(), steps, hosts, had }
}

/// Writes digests that were learned into the lock file.
fn note(project: &Project, done: &[(Artifact, Users, Result<Fetched, FetchError>)]) -> Result<Option<String>, String> {
    let learned: Vec<_> = done.iter().filter(|(artifact, ..)| artifact.sha256.is_unknown()).collect();
    if learned.is_empty() {
        return Ok(None);
    }
    let path = lock_path(&project.inventory);
    let mut lock = Lock::read(&path).map_err(|error| error.to_string())?;
    for (artifact, _, had) in learned {
        if let Ok(fetched) = had {
            lock.note(&artifact.source, project.root(), &fetched.held.sha256);
        }
    }
    lock.write(&path).map_err(|error| error.to_string())?;
    Ok(Some(path.into_string()))
}

/// Fetches what a plan is going to send, before a host is touched. Returns what cannot be had.
pub async fn provision(
    project: &Project,
    plan: &Plan,
    observed: &Observed,
    options: &Options,
    events: &Events,
) -> Vec<ArtifactLine> {
    let secrets = Arc::new(observed.secrets.clone());
    let each = needed(project, plan, observed, options).into_values().map(|(artifact, users)| {
        let secrets = secrets.clone();
        async move {
            let told = told(&artifact.source.name(), events);
            let had = options.depot.get(&artifact, &secrets, &told).await;
            had.err().map(|error| line(&artifact, users, Err(error)))
        }
    });
    let done: Vec<Option<ArtifactLine>> = futures_util::stream::iter(each).buffered(AT_ONCE).collect().await;
    done.into_iter().flatten().collect()
}

/// Collects what steps that are going to change send from here.
fn needed(project: &Project, plan: &Plan, observed: &Observed, options: &Options) -> Wanted {
    let expander = Expander::new(project);
    let ground = observed.ground(project, &expander, options);
    let mut wanted = Wanted::new();
    for host in plan.hosts.iter().filter(|host| host.acts()) {
        let seen = observed.seen.iter().find(|seen| seen.host == host.host && seen.stale.is_none());
        let Some(case) = seen.and_then(|seen| Case::new(ground, &host.host, seen)) else { continue };
        let acts: BTreeSet<&StepId> = host.steps.iter().filter(|s| sends(s)).map(|s| &s.id).collect();
        for turn in case.turns().iter().filter(|turn| acts.contains(&turn.expanded.id)) {
            if let State::Resource(resource) = &turn.expanded.state {
                let own = resource.artifact().filter(|a| !a.by_host || options.depot.is_offline());
                want(&mut wanted, own, &turn.expanded.id, &host.host);
            }
        }
    }
    wanted
}

fn sends(step: &crate::plan::StepPlan) -> bool {
    step.acts() && step.changes.iter().any(|change| change.attribute == "content")
}
