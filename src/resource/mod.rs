//! Resource kinds, in groups. A kind lists the probes that it needs, compares an observation with its declaration into
//! its own `Diff`, and renders the action of a `Diff`.
//!
//! Architecture Invariant: resources do no I/O. The same `diff` serves plan, the check right before a change,
//! verification after it, and drift.

mod accounts;
mod assessment;
mod attribute_change;
mod change_mark;
mod cluster;
mod earlier_effects;
pub mod field;
mod files;
mod generic;
mod kind;
mod membership;
mod packages;
pub mod reference;
mod registry;
pub mod schema;
mod shared;
mod system;
#[cfg(test)]
mod testing;
mod traits;
mod undo_kinds;

pub use assessment::{
    Action, ActionBatch, ActionScript, ArtifactDelivery, Assessment, AssessmentContext, NewPath, PackageChanges,
    ResourceDiff, RestartInput,
};
pub use attribute_change::AttributeChange;
pub(crate) use attribute_change::ValueChange;
pub use change_mark::{ChangeAspect, ChangeMark, ChangedObject, ChangedPart, RecordedValue};
pub use earlier_effects::{EarlierStepEffects, ProvidedItem};
pub use field::{FieldSpec, FieldType, FieldValues};
pub use files::restore::declare_former_path;
pub use generic::unproven_command::{declare_removal_of_rest, find_unproven_refusal};
pub(crate) use kind::TypedResource;
pub use kind::{DeclaredResource, Resource, ResourceBuildResult, ResourceKind};
pub use membership::DeclaredMembership;
pub(crate) use packages::package::action_script::update_package_lists;
pub use registry::{all_kinds, find_kind, kind_traits};
pub(crate) use shared::apply_trace;
pub(crate) use shared::support::unit_name;
pub use system::service::refresh_recorded_start;
pub use traits::{EffectReach, GuardSupport, KindTraits, PackageExposure, PackageListing};
pub use undo_kinds::{
    ClusterUndoContext, align_memberships, align_units, build_cluster_undo, find_cluster_refusal,
    find_declaration_error, is_undo_declaration, needs_unit_file, permit_overwrite,
};
