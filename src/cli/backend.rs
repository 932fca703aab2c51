//! What verbs ask of the rest of the crate: one interface, so that verbs are tested without hosts.

use super::settings::Settings;
use crate::config::Project;
use crate::diag::{Diag, Diags, Sources};
use crate::engine::{Event, Report};
use crate::model::HostName;
use crate::plan::{HostSeen, Plan};
use camino::Utf8Path;
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
    /// Every fact.
    Facts,
}

/// The library behind the verbs.
pub trait Backend {
    /// Hosts as they were observed, with whatever sessions stay open for what follows.
    type Seen: AsRef<[HostSeen]>;
    /// A wish to stop.
    type Cancel: Clone + Default;

    /// Reads an inventory and its recipes.
    fn load(&self, path: &Utf8Path, settings: &Settings) -> (Option<Project>, Diags, Sources);

    /// Returns the hosts that `selector` picks, in inventory order; all of them without one.
    fn select(&self, project: &Project, selector: Option<&str>) -> Result<Vec<HostName>, Box<Diag>>;

    /// Observes hosts.
    fn observe(
        &self,
        project: &Project,
        hosts: &[HostName],
        ask: Ask,
        settings: &Settings,
        events: Events,
    ) -> impl Future<Output = Self::Seen>;

    /// Plans, purely.
    fn plan(&self, project: &Project, seen: &Self::Seen, settings: &Settings) -> Plan;

    /// Carries a plan out and proves it.
    fn apply(
        &self,
        project: &Project,
        plan: &Plan,
        seen: Self::Seen,
        settings: &Settings,
        events: Events,
        cancel: Self::Cancel,
    ) -> impl Future<Output = Report>;

    /// Judges what is declared to hold.
    fn verify(
        &self,
        project: &Project,
        seen: Self::Seen,
        settings: &Settings,
        events: Events,
        cancel: Self::Cancel,
    ) -> impl Future<Output = Report>;

    /// Wishes to stop: once finishes what runs, twice leaves it running.
    fn stop(&self, cancel: &Self::Cancel);
}
