//! Resource kinds, in groups. A kind lists the probes that it needs, compares an observation with its declaration into
//! its own `Diff`, and renders the action of a `Diff`.
//!
//! Architecture Invariant: resources do no I/O. The same `diff` serves plan, the check right before a change,
//! verification after it, and drift.

mod accounts;
mod assessment;
mod cluster;
pub mod field;
mod files;
mod generic;
mod kind;
mod packages;
pub mod reference;
pub mod schema;
mod shared;
mod system;
#[cfg(test)]
mod testing;
mod traits;

pub use assessment::{
    Action, ActionScript, ArtifactDelivery, Assessment, AssessmentContext, AttributeChange, EarlierStepEffects,
    PackageChanges, ResourceDiff, RestartInput, ValueChange,
};
pub use field::{FieldSpec, FieldType, FieldValues};
pub use kind::{DeclaredResource, ProvidedItem, Resource, ResourceBuildResult, ResourceKind, TypedResource};
pub use shared::apply_trace;
pub(crate) use shared::support::unit_name;
pub use traits::{EffectReach, KindTraits, PackageExposure, PackageListing};

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

/// Returns the kind with that name.
pub fn find_kind(name: &str) -> Option<&'static ResourceKind> {
    all_kinds().iter().find(|kind| kind.name == name)
}

/// Returns the traits of the kind with that name; those of an unknown kind are the default.
pub fn kind_traits(name: &str) -> &'static KindTraits {
    find_kind(name).map_or(&KindTraits::DEFAULT, |kind| &kind.traits)
}
