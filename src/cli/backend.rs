//! What verbs ask of the rest of the crate: one interface, so that verbs are tested without hosts.

use super::drift::Since;
use super::settings::Settings;
use crate::config;
use crate::diag::{Diag, Diags, Sources};
use crate::drift::{Drift, History};
use crate::engine::{
    ArtifactLine, Checkup, Command, Errands, Event, ExecReport, FetchReport, PastDurations, Recording, Report,
    SavedPlan,
};
use crate::model::HostName;
use crate::plan::{HostSeen, Plan};
use crate::transport::Board;
use crate::view::Size;
use camino::{Utf8Path, Utf8PathBuf};
use std::future::Future;
use tokio::sync::mpsc::UnboundedSender;

/// Where events go.
pub type Events = UnboundedSender<Event>;

/// What an observation is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ask {
    /// What the declared steps and verifications need.
    Declared,
    /// The same, with sessions left open for the changes that follow.
    Change,
    /// What the declared steps and verifications need, and how the hardware is; what fails is asked once more.
    Drift {
        /// Whether every fact is asked that hosts are compared by.
        outliers: bool,
    },
    /// Every fact.
    Facts,
}

/// The sandboxes of a project.
pub struct Boxes {
    /// The folder on this machine where they are noted.
    pub root: Utf8PathBuf,
    /// Hosts that are declared to be sandboxes, each with its board.
    pub hosts: Vec<(HostName, Option<Board>)>,
}

/// The library behind the verbs.
pub trait Backend {
    /// What a load comes to.
    type Project;
    /// Hosts as they were observed, with whatever sessions stay open for what follows.
    type Seen: AsRef<[HostSeen]>;
    /// A wish to stop.
    type Cancel: Clone + Default;

    /// Reads an inventory and its recipes.
    fn load(&self, path: &Utf8Path, settings: &Settings) -> (Option<Self::Project>, Diags, Sources);

    /// Returns what was loaded, for verbs that only read it.
    fn project<'p>(&self, project: &'p Self::Project) -> &'p config::Project;

    /// Returns how much the project declares.
    fn size(&self, project: &Self::Project) -> Size;

    /// Returns the hosts that `--on` picks, in inventory order; all of them without one.
    ///
    /// # Errors
    /// A selector, or a pattern of `--step` and `--skip`, that is malformed or picks nothing.
    fn select(&self, project: &Self::Project, settings: &Settings) -> Result<Vec<HostName>, Box<Diag>>;

    /// Returns the project's sandboxes.
    fn sandboxes(&self, project: &Self::Project, settings: &Settings) -> Boxes;

    /// Observes hosts.
    fn observe(
        &self,
        project: &Self::Project,
        hosts: &[HostName],
        ask: Ask,
        settings: &Settings,
        events: Events,
    ) -> impl Future<Output = Self::Seen>;

    /// Returns the raw answers of an observation that kept them.
    fn recording(&self, project: &Self::Project, seen: &Self::Seen) -> Recording;

    /// Returns the same with machine ids, UUIDs and serial numbers replaced.
    ///
    /// # Errors
    /// A pattern that finds them is invalid: a lowercase fragment.
    fn redacted_recording(&self, project: &Self::Project, seen: &Self::Seen) -> Result<Recording, String>;

    /// Plans, purely.
    fn plan(&self, project: &Self::Project, seen: &Self::Seen, settings: &Settings) -> Plan;

    /// Returns a plan with everything that it was made from, to be kept. Beside it stands the plan that the recording
    /// alone gives.
    fn save(
        &self,
        project: &Self::Project,
        seen: &Self::Seen,
        plan: (&Plan, &Plan),
        recording: Recording,
        settings: &Settings,
    ) -> SavedPlan;

    /// Returns what differs from the files and the artifacts that a plan was made from. `seen` holds the plan's own answers.
    fn changed(
        &self,
        project: &Self::Project,
        saved: &SavedPlan,
        seen: &Self::Seen,
        settings: &Settings,
    ) -> Vec<String>;

    /// Returns the plan to carry out on hosts as they are now, and notes at each why it is not carried out there.
    fn bind(
        &self,
        project: &Self::Project,
        saved: &SavedPlan,
        seen: &mut Self::Seen,
        replay: bool,
        settings: &Settings,
    ) -> Plan;

    /// Tells what is not as declared any more, and why.
    fn drift(&self, project: &Self::Project, seen: &Self::Seen, settings: &Settings) -> Drift;

    /// Tells who made what drift found: asks the hosts on which the machine changed for evidence, and no others.
    fn accuse(
        &self,
        project: &Self::Project,
        seen: &Self::Seen,
        drift: &mut Drift,
        settings: &Settings,
    ) -> impl Future<Output = ()>;

    /// Returns what each of `drift.notify` is to be told.
    ///
    /// # Errors
    /// The history cannot be read or written: why.
    fn errands(&self, project: &Self::Project, drift: &Drift, settings: &Settings) -> Result<Errands, String>;

    /// Has hosts keep since when their findings are there, where it is declared. Returns those that could not, and why.
    fn keep(
        &self,
        project: &Self::Project,
        seen: &Self::Seen,
        settings: &Settings,
    ) -> impl Future<Output = Vec<(HostName, String)>>;

    /// Returns the time, for signatures.
    fn now(&self) -> jiff::Timestamp;

    /// Returns what drift found over time.
    ///
    /// # Errors
    /// The state folder cannot be read: why.
    fn drift_history(
        &self,
        project: &Self::Project,
        since: Option<Since>,
        settings: &Settings,
    ) -> Result<History, String>;

    /// Returns how long steps took in runs of the past; nothing where none is known.
    fn past_durations(&self, project: &Self::Project, settings: &Settings) -> PastDurations;

    /// Carries a plan out and proves it.
    fn apply(
        &self,
        project: &Self::Project,
        plan: &Plan,
        seen: Self::Seen,
        settings: &Settings,
        events: Events,
        cancel: Self::Cancel,
    ) -> impl Future<Output = Report>;

    /// Judges what is declared to hold.
    fn verify(
        &self,
        project: &Self::Project,
        seen: Self::Seen,
        settings: &Settings,
        events: Events,
        cancel: Self::Cancel,
    ) -> impl Future<Output = Report>;

    /// Runs a command on hosts.
    fn exec(
        &self,
        project: &Self::Project,
        hosts: &[HostName],
        command: &Command,
        settings: &Settings,
        events: Events,
        cancel: Self::Cancel,
    ) -> impl Future<Output = ExecReport>;

    /// Looks whether hosts, and this machine, are ready. `can_ask`: somebody is at a terminal.
    fn doctor(
        &self,
        project: &Self::Project,
        hosts: &[HostName],
        can_ask: bool,
        settings: &Settings,
        events: Events,
    ) -> impl Future<Output = Checkup>;

    /// As [`load`](Self::load), for learning digests that nobody declared.
    fn load_to_learn(&self, path: &Utf8Path, settings: &Settings) -> (Option<Self::Project>, Diags, Sources);

    /// Fetches what is declared into the cache; with `lock`, writes computed digests to the lock file of the inventory.
    ///
    /// # Errors
    /// They cannot be noted: why.
    fn fetch(
        &self,
        project: &Self::Project,
        hosts: &[HostName],
        lock: bool,
        settings: &Settings,
        events: Events,
    ) -> impl Future<Output = Result<FetchReport, String>>;

    /// Fetches what a plan is going to send. Returns what cannot be had.
    fn provision(
        &self,
        project: &Self::Project,
        plan: &Plan,
        seen: &Self::Seen,
        settings: &Settings,
        events: Events,
    ) -> impl Future<Output = Vec<ArtifactLine>>;

    /// Wishes to stop: once finishes what runs, twice leaves it running.
    fn stop(&self, cancel: &Self::Cancel);
}
