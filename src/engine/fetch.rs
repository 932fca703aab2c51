//! Filling the cache: every artifact that is declared, or that a plan is going to need, once.

use super::event::Event;
use super::observe::Observed;
use super::progress::Pace;
use super::run::{Events, Options};
use crate::artifact::{Artifact, FetchError, Fetched, Learned, Lock, Sha256, Source, Told, lock_path};
use crate::config::{Expander, Exports, FactSource, Known, Project, State, WrittenValues};
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
    /// The digest that nobody declared, computed from what came.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub computed: Option<ComputedDigest>,
}

/// A digest that says what was downloaded, and not that it is what the publisher made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ComputedDigest {
    /// The line to paste: `sha256: "…"`.
    pub line: String,
    /// Where it belongs, `file:line:col`: the values that say where the artifact comes from.
    pub places: Vec<String>,
    /// The address that the bytes came from, after every redirect; nothing for a file of the inventory's tree.
    pub over: Option<String>,
    /// Whether nobody on the way could change it: TLS, this machine itself or a file of it.
    pub protected: bool,
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
        match (self.failed().next(), self.undeclared().next()) {
            (Some(_), _) => ExitCode::Artifact,
            // What has no digest is not applied: it is the inventory that lacks something.
            (None, Some(_)) => ExitCode::Input,
            (None, None) => ExitCode::Done,
        }
    }

    /// Returns the artifacts whose digest stands neither in a step nor in the lock file.
    pub fn undeclared(&self) -> impl Iterator<Item = &ArtifactLine> {
        self.artifacts.iter().filter(|line| self.lock.is_none() && line.computed.is_some())
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
    /// Where its source is written, if its digest is not.
    places: BTreeSet<String>,
}

type Wanted = BTreeMap<(Source, Sha256), (Artifact, Users)>;

/// Fetches what the steps of `hosts` declare and checks what is there. `project` was loaded to learn: digests that nobody
/// declared are computed from what comes. With `lock`, they are written to the lock file of the inventory.
///
/// # Errors
/// The lock file cannot be written: why.
pub async fn fetch(
    project: &Project,
    hosts: &[HostName],
    options: &Options,
    lock: bool,
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
    let lock = if lock { note(project, &done)? } else { None };
    let artifacts = done.into_iter().map(|(artifact, users, had)| line(&artifact, users, had)).collect();
    let cache = options.depot.cache().root().to_string();
    Ok(FetchReport { cluster: project.cluster.clone(), cache, artifacts, open: open.into_iter().collect(), lock })
}

/// Collects what is declared on hosts, and the steps that cannot tell without them.
fn declared(project: &Project, hosts: &[HostName], options: &Options) -> (Wanted, BTreeSet<StepId>) {
    let expander = Expander::new(project);
    let exports = Exports::new();
    let known = Known { facts: FactSource::NotYet, exports: &exports };
    let mut written = WrittenValues::new(project);
    let (mut wanted, mut open) = (Wanted::new(), BTreeSet::new());
    for host in hosts.iter().filter_map(|name| project.hosts.get(name)) {
        let own = project.instances.get(&host.name).into_iter().flatten();
        let steps = own.flat_map(|instance| instance.recipe.steps.iter().map(move |step| (instance, step)));
        for (instance, step) in steps.filter(|(i, step)| options.filter.admits(&i.recipe.name, &step.name)) {
            for turn in expander.expand(host, instance, step, &known).iter() {
                match &turn.state {
                    State::Resource(resource) => {
                        let users = want(&mut wanted, resource.artifact(), &turn.id, &host.name);
                        if let Some((artifact, users)) = users.filter(|(artifact, _)| artifact.sha256.is_unknown()) {
                            let field = if matches!(artifact.source, Source::File(_)) { "file" } else { "url" };
                            users.places.extend(written.place_of_field(instance, step, field));
                        }
                    }
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

fn want<'w>(
    wanted: &'w mut Wanted,
    artifact: Option<&Artifact>,
    step: &StepId,
    host: &HostName,
) -> Option<&'w mut (Artifact, Users)> {
    let artifact = artifact?;
    let key = (artifact.source.clone(), artifact.sha256.clone());
    let entry = wanted.entry(key).or_insert_with(|| (artifact.clone(), Users::default()));
    entry.1.steps.insert(step.clone());
    entry.1.hosts.insert(host.clone());
    Some(entry)
}

async fn one(
    artifact: &Artifact,
    options: &Options,
    secrets: &SecretStore,
    events: &Events,
) -> Result<Learned, FetchError> {
    let (depot, told) = (&options.depot, told(&artifact.source.name(), events));
    let began = Instant::now();
    let had = match artifact.sha256.is_unknown() {
        true => depot.learn(&artifact.source, secrets, &told).await,
        false => depot.checked(artifact, secrets, &told).await.map(|fetched| Learned { fetched, over: None }),
    };
    if let Ok(Learned { fetched: Fetched { held, new: true }, .. }) = &had {
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

fn line(artifact: &Artifact, users: Users, had: Result<Learned, FetchError>) -> ArtifactLine {
    let Users { steps, hosts, places } = users;
    let learned = had.as_ref().ok().filter(|_| artifact.sha256.is_unknown());
    let computed = learned.map(|learned| computed(learned, places));
    let had = match had {
        Ok(Learned { fetched: Fetched { held, new }, .. }) => {
            let (sha256, bytes) = (held.sha256.to_string(), held.bytes);
            if new { Had::New { sha256, bytes } } else { Had::Here { sha256, bytes } }
        }
        Err(error) => Had::Failed { why: error.message.into(), hint: error.hint.map(Untrusted::from) },
    };
    let (steps, hosts) = (steps.into_iter().collect(), hosts.into_iter().collect());
    ArtifactLine { name: artifact.source.name(), steps, hosts, had, computed }
}

fn computed(learned: &Learned, places: BTreeSet<String>) -> ComputedDigest {
    let over = learned.over.as_ref();
    ComputedDigest {
        line: format!("sha256: \"{}\"", learned.fetched.held.sha256),
        places: places.into_iter().collect(),
        over: over.map(ToString::to_string),
        protected: over.is_none_or(|address| address.is_https() || address.is_this_machine()),
    }
}

/// Writes digests that were learned into the lock file.
fn note(project: &Project, done: &[(Artifact, Users, Result<Learned, FetchError>)]) -> Result<Option<String>, String> {
    let learned: Vec<_> = done.iter().filter(|(artifact, ..)| artifact.sha256.is_unknown()).collect();
    if learned.is_empty() {
        return Ok(None);
    }
    let path = lock_path(&project.inventory);
    let mut lock = Lock::read(&path).map_err(|error| error.to_string())?;
    for (artifact, _, had) in learned {
        if let Ok(learned) = had {
            lock.note(&artifact.source, project.root(), &learned.fetched.held.sha256);
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
