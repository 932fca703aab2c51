//! Resource kinds: one file each. A kind says which probes it needs, judges an observation, and renders
//! the commands of a change.
//!
//! Architecture Invariant: resources do no I/O. The same judge serves plan, the moment before a change,
//! verification after it, and drift.

mod absent;
mod apt_repository;
mod archive;
mod artifact;
mod block;
mod body;
#[cfg(test)]
mod cases;
mod command;
mod cron;
mod diff;
mod directory;
mod edit;
pub mod field;
mod file;
mod group;
mod helm_release;
mod initramfs;
mod installer;
mod job;
mod judgement;
mod kernel_cmdline;
mod line;
mod lines;
mod link;
mod lock;
mod manifest;
mod module;
mod mount;
mod namespace;
mod nftables;
mod node;
mod object;
mod package;
mod package_file;
mod parts;
mod reboot;
pub mod reference;
pub mod schema;
mod secret;
mod service;
mod shell;
mod ssh_authorized_key;
#[cfg(test)]
mod stubs;
mod support;
mod sysctl;
mod timer;
pub mod trace;
#[cfg(test)]
mod trial;
mod unit;
mod user;
mod wait_for;

pub use field::{Field, Fields, Type};
pub use judgement::{Action, Change, Context, Delivery, Edit, Input, Judgement, Predicted};
pub(crate) use support::unit_name;

use crate::diag::Diag;
use crate::probe::{Observation, Probe};

/// One concrete resource: every template rendered, every value typed.
pub trait Resource: std::fmt::Debug + Send + Sync {
    /// Returns the kind's name as recipes spell it: `file`, `package` …
    fn kind(&self) -> &'static str;

    /// Returns what it is about, for people and for conflict checks: `/etc/motd`, `nginx`.
    fn title(&self) -> String;

    /// Returns the questions whose answers [`judge`](Self::judge) reads.
    fn probes(&self) -> Vec<Probe>;

    /// Compares what is desired with what was seen. Pure; a no-op says why in `reason`.
    fn judge(&self, seen: &Observation, cx: &Context<'_>) -> Judgement;

    /// Renders the commands that bring about what `judgement` found to change. Pure.
    fn act(&self, judgement: &Judgement, cx: &Context<'_>) -> Action;

    /// Returns the artifact that it puts on the host, if it does.
    fn artifact(&self) -> Option<&crate::artifact::Artifact> {
        None
    }

    /// Returns a warning of what is declared, for who reads the inventory; whatever a host says, it holds.
    fn caution(&self) -> Option<Diag> {
        None
    }

    /// Returns how the controller sends the artifact, where a change needs it.
    fn delivery(&self, _judgement: &Judgement) -> Option<Delivery> {
        None
    }

    /// Returns what an exit status of its commands means, where the resource declares that.
    fn meaning(&self, _status: i32) -> Option<&str> {
        None
    }

    /// Returns the seconds that its change may take, where the resource itself declares that.
    fn limit_s(&self) -> Option<u64> {
        None
    }

    /// Returns the canonical desired value for the applied record, secrets as placeholders.
    fn desired(&self) -> crate::model::Value;

    /// Returns questions about what the record of the last verified apply names and this does not any more: what it made,
    /// it takes away.
    fn former(&self, _record: &crate::model::Value) -> Vec<Probe> {
        Vec::new()
    }

    /// Returns what later steps may assume once it is applied: paths, units, users, packages.
    fn provides(&self) -> Vec<Provision>;

    /// Returns the inputs that a service depends on when a step of this resource stands in its
    /// `restart_on`: paths whose ctime and digest tell of a change.
    fn inputs(&self) -> Vec<String> {
        Vec::new()
    }

    /// Returns the part of [`desired`](Self::desired) that a process may notice: its digest is what a
    /// restart is derived from. A hold or a backup is no reason to restart.
    fn input_value(&self) -> crate::model::Value {
        self.desired()
    }

    /// Returns what the applied record keeps of a verified start, so that the next judge can tell whether
    /// the running process has its inputs. Only services have one. `None` while it is not known.
    fn started(&self, _seen: &Observation, _cx: &Context<'_>) -> Option<crate::state::Started> {
        None
    }

    /// Returns the claims that no other step of the host may make differently: `("path", "/etc/motd")`.
    fn claims(&self) -> Vec<(&'static str, String)> {
        vec![(self.kind(), self.title())]
    }

    /// Returns what is declared of each of the [`claims`](Self::claims): where there are several, what holds for each.
    fn claimed(&self) -> crate::model::Value {
        self.desired()
    }

    /// Returns the claims of which this is one part among others: other parts may stand beside it, but no step
    /// that claims the whole.
    fn shares(&self) -> Vec<(&'static str, String)> {
        Vec::new()
    }
}

/// Something that exists once a step is applied.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Provision {
    Path(String),
    Unit(String),
    User(String),
    Package(String),
    /// An object of the cluster's API, as records name it: `core/Namespace//web`.
    Object(String),
    /// A kind that the cluster's API comes to know: `nvidia.com/ClusterPolicy`.
    Served(String),
}

/// A kind as the registry knows it: its name, fields and constructor.
pub struct Kind {
    pub name: &'static str,
    /// One sentence for the reference.
    pub summary: &'static str,
    /// Steps in YAML that show it, as they stand below `steps:` of a recipe.
    pub example: &'static str,
    /// Several paragraphs of Markdown for the reference: behaviour, what a no-op means, proof.
    pub doc: &'static str,
    pub fields: &'static [Field],
    /// Builds the resource from checked fields. `absent` is said by `ensure: absent` or `otherwise: absent`.
    pub build: fn(&Fields, absent: bool) -> Built,
}

/// A resource, or what is wrong with its fields.
pub type Built = Result<Box<dyn Resource>, crate::diag::Diag>;

/// Every kind, in the order of the reference.
pub fn kinds() -> &'static [Kind] {
    static KINDS: &[Kind] = &[
        file::KIND,
        directory::KIND,
        link::KIND,
        absent::KIND,
        line::KIND,
        block::KIND,
        archive::KIND,
        artifact::KIND,
        package::KIND,
        package_file::KIND,
        apt_repository::KIND,
        service::KIND,
        unit::KIND,
        user::KIND,
        ssh_authorized_key::KIND,
        group::KIND,
        command::KIND,
        installer::KIND,
        wait_for::KIND,
        sysctl::KIND,
        module::KIND,
        kernel_cmdline::KIND,
        initramfs::KIND,
        mount::KIND,
        nftables::KIND,
        cron::KIND,
        timer::KIND,
        reboot::KIND,
        namespace::KIND,
        node::KIND,
        secret::KIND,
        manifest::KIND,
        job::KIND,
        helm_release::KIND,
    ];
    KINDS
}

/// Kinds whose steps run through the cluster's API and on no host.
pub const OF_CLUSTER: &[&str] = &[
    namespace::KIND.name,
    node::KIND.name,
    secret::KIND.name,
    manifest::KIND.name,
    job::KIND.name,
    helm_release::KIND.name,
];

/// Whether the steps of a kind run through the cluster's API.
pub fn is_of_cluster(kind: &str) -> bool {
    OF_CLUSTER.contains(&kind)
}

/// Returns the kind of that name.
pub fn kind(name: &str) -> Option<&'static Kind> {
    kinds().iter().find(|kind| kind.name == name)
}
