//! Resource kinds: one file each. A kind lists the probes that it needs, evaluates an observation, and renders
//! the commands of a change.
//!
//! Architecture Invariant: resources do no I/O. The same `judge` serves plan, the check right before a change,
//! verification after it, and drift.

mod accounts;
mod assessment;
mod cluster;
pub mod field;
mod files;
mod generic;
mod packages;
pub mod reference;
pub mod schema;
mod shared;
mod system;
#[cfg(test)]
mod testing;

pub use assessment::{
    Action, ArtifactDelivery, Assessment, AssessmentContext, AttributeChange, EarlierStepEffects, FileEdit,
    RestartInput,
};
pub use field::{FieldSpec, FieldType, FieldValues};
pub use shared::apply_trace;
pub(crate) use shared::support::unit_name;

use crate::diag::Diag;
use crate::probe::{Observation, Probe};

/// One concrete resource: all templates are rendered and all values are typed.
pub trait Resource: std::fmt::Debug + Send + Sync {
    /// Returns the kind's name as spelled in recipes: `file`, `package` …
    fn kind(&self) -> &'static str;

    /// Returns the subject of the resource, for output and for conflict checks: `/etc/motd`, `nginx`.
    fn title(&self) -> String;

    /// Returns the probes whose results [`assess`](Self::assess) reads.
    fn probes(&self) -> Vec<Probe>;

    /// Compares the desired state with the observed state. Pure; a no-op gives its reason in `reason`.
    fn assess(&self, seen: &Observation, cx: &AssessmentContext<'_>) -> Assessment;

    /// Renders the commands of the changes that `judgement` found. Pure.
    fn render_action(&self, judgement: &Assessment, cx: &AssessmentContext<'_>) -> Action;

    /// Returns the artifact that the resource installs on the host, if any.
    fn artifact(&self) -> Option<&crate::artifact::Artifact> {
        None
    }

    /// Returns a warning about the declaration itself, independent of any host.
    fn declaration_warning(&self) -> Option<Diag> {
        None
    }

    /// Returns how the controller sends the artifact if a change needs it.
    fn artifact_delivery(&self, _judgement: &Assessment) -> Option<ArtifactDelivery> {
        None
    }

    /// Returns the declared meaning of an exit status of its commands, if any.
    fn explain_exit_status(&self, _status: i32) -> Option<&str> {
        None
    }

    /// Returns the declared timeout of its change in seconds, if any.
    fn time_limit_s(&self) -> Option<u64> {
        None
    }

    /// Returns the canonical desired value for the applied record, secrets as placeholders.
    fn desired_value(&self) -> crate::model::Value;

    /// Returns probes of objects that the record of the last verified apply names and this resource no longer declares:
    /// a resource removes the objects that it made.
    fn obsolete_probes(&self, _record: &crate::model::Value) -> Vec<Probe> {
        Vec::new()
    }

    /// Returns the things that later steps may rely on once it is applied: paths, units, users, packages.
    fn provided_items(&self) -> Vec<ProvidedItem>;

    /// Returns the inputs that a service depends on if its `restart_on` lists a step of this resource: paths whose
    /// ctime and digest show a change.
    fn restart_input_paths(&self) -> Vec<String> {
        Vec::new()
    }

    /// Returns the part of [`desired_value`](Self::desired_value) that a process can notice. Restarts are derived from its digest,
    /// so a hold or a backup does not cause a restart.
    fn restart_input_value(&self) -> crate::model::Value {
        self.desired_value()
    }

    /// Returns the data about a verified start that the applied record stores, so that the next evaluation can tell
    /// whether the running process has its inputs. Only services have one. `None` while it is not known.
    fn started_record(&self, _seen: &Observation, _cx: &AssessmentContext<'_>) -> Option<crate::state::RecordedStart> {
        None
    }

    /// Returns the claims that no other step of the host may declare differently: `("path", "/etc/motd")`.
    fn exclusive_claims(&self) -> Vec<(&'static str, String)> {
        vec![(self.kind(), self.title())]
    }

    /// Returns the declared value of the [`exclusive_claims`](Self::exclusive_claims): if there are several, the value of each.
    fn claimed_value(&self) -> crate::model::Value {
        self.desired_value()
    }

    /// Returns the claims that this resource shares: steps that declare other parts of it may exist, but no step that
    /// claims the whole.
    fn shared_claims(&self) -> Vec<(&'static str, String)> {
        Vec::new()
    }
}

/// Something that exists once a step is applied.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ProvidedItem {
    Path(String),
    Unit(String),
    User(String),
    Package(String),
    /// An object of the cluster's API, as named in records: `core/Namespace//web`.
    Object(String),
    /// A kind that the cluster's API starts to serve: `nvidia.com/ClusterPolicy`.
    Served(String),
}

/// A registered kind: its name, fields and constructor.
pub struct ResourceKind {
    pub name: &'static str,
    /// One sentence for the reference.
    pub summary: &'static str,
    /// Example steps in YAML, in the form of a recipe's `steps:`.
    pub example: &'static str,
    /// Several paragraphs of Markdown for the reference: behaviour, meaning of a no-op, proof.
    pub doc: &'static str,
    pub fields: &'static [FieldSpec],
    /// Builds the resource from checked fields. `ensure: absent` and `otherwise: absent` set `absent`.
    pub build: fn(&FieldValues, absent: bool) -> ResourceBuildResult,
}

/// A resource, or the error in its fields.
pub type ResourceBuildResult = Result<Box<dyn Resource>, crate::diag::Diag>;

/// Returns every kind, in the order of the reference.
pub fn all_kinds() -> &'static [ResourceKind] {
    static KINDS: &[ResourceKind] = &[
        files::file::KIND,
        files::directory::KIND,
        files::link::KIND,
        files::absent::KIND,
        files::line::KIND,
        files::block::KIND,
        files::archive::KIND,
        files::artifact::KIND,
        packages::package::KIND,
        packages::package_file::KIND,
        packages::apt_repository::KIND,
        system::service::KIND,
        system::unit::KIND,
        accounts::user::KIND,
        accounts::ssh_authorized_key::KIND,
        accounts::group::KIND,
        generic::command::KIND,
        packages::installer::KIND,
        generic::wait_for::KIND,
        system::sysctl::KIND,
        system::module::KIND,
        system::kernel_cmdline::KIND,
        system::initramfs::KIND,
        system::mount::KIND,
        system::nftables::KIND,
        system::cron::KIND,
        system::timer::KIND,
        system::reboot::KIND,
        cluster::namespace::KIND,
        cluster::node::KIND,
        cluster::secret::KIND,
        cluster::manifest::KIND,
        cluster::job::KIND,
        cluster::helm_release::KIND,
    ];
    KINDS
}

/// Kinds whose steps run through the cluster's API instead of on a host.
pub const CLUSTER_KINDS: &[&str] = &[
    cluster::namespace::KIND.name,
    cluster::node::KIND.name,
    cluster::secret::KIND.name,
    cluster::manifest::KIND.name,
    cluster::job::KIND.name,
    cluster::helm_release::KIND.name,
];

/// Reports whether the steps of a kind run through the cluster's API.
pub fn is_cluster_kind(kind: &str) -> bool {
    CLUSTER_KINDS.contains(&kind)
}

/// Returns the kind with that name.
pub fn find_kind(name: &str) -> Option<&'static ResourceKind> {
    all_kinds().iter().find(|kind| kind.name == name)
}
