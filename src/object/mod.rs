//! Objects of a cluster's API, without I/O: their names and observed state, the differences between two states, the
//! owners of fields, the redaction of secrets, and the calls that change a cluster.
//!
//! Architecture Invariants: nothing here contacts the API or runs `helm`; only `kube` does. Live objects are compared
//! by one differ, with one type of path, and shown by one redaction policy, whichever kind of resource asks.

mod access;
mod builtin_charts;
mod cleanup;
mod cluster_call;
mod differ;
mod drift;
mod end_predicates;
mod field_path;
mod id;
mod image_name;
mod images;
mod job_call;
mod list_order;
mod managed_fields;
mod manifest;
mod node;
mod node_marks;
mod overlay;
mod owned_fields;
mod proof;
mod redaction;
mod release;
mod release_call;
mod release_record;
mod revision_fields;
mod state;
mod test_job;
mod test_labels;
mod test_launch;
mod worker_pods;
mod workload_bounds;
mod workload_rollout;
mod yaml;

pub use access::{ClusterAbsence, ClusterAccess, DEFAULT_NAMESPACE};
pub use builtin_charts::{BuiltinChart, list_builtin_charts};
pub(crate) use cleanup::{
    find_condition, find_status_lag, is_condition_true, reveal_object, reveal_value, strip_server_fields,
};
pub use cluster_call::ClusterCall;
pub use differ::{FieldDifference, find_differences, locate_pointer};
pub(crate) use drift::{COMPARISON_MANAGER, HELM_MANAGER, ObjectDrift, diff_manifests, diff_values};
pub use end_predicates::{JobEndPredicates, StatusPredicate};
pub use field_path::FieldPath;
pub use id::ObjectId;
pub use image_name::{ImageName, find_mirror};
pub use images::{collect_images, find_image_source, pair_image_sources};
pub use job_call::{JobCall, JobGoal, JobLogRules};
pub use list_order::ListOrder;
pub(crate) use list_order::{find_order_differences, restore_list_order, restore_orders};
pub(crate) use managed_fields::{
    find_added_fields, is_manual_manager, last_set_time, list_field_managers, remove_pointers,
};
pub(crate) use manifest::{ManifestObject, find_owning_release, parse_definitions, parse_manifest, parse_rendered};
pub use node::{ClusterNode, DrainAllowedLosses, find_host_node};
pub use node_marks::{NodeMark, NodeMarkChanges, OPERANDS_LABEL};
pub(crate) use overlay::overlay_object;
pub use owned_fields::FormerFields;
pub(crate) use owned_fields::extract_fields;
pub use proof::{LeftoverObject, ProofState, ProvenRun};
pub(crate) use redaction::{Redactor, has_mask, redact_object};
pub use release::{
    ChartCrd, ChartHook, ChartInfo, ChartQuery, ChartQuerySource, DoomedDefinition, FieldChange, FieldOwner,
    ForeignRelease, LiveObject, ObjectChange, ObjectChangeKind, ReleaseFieldConflict, ReleaseInfo, ReleaseQuery,
    ReleaseState, ReleaseStatus, UnownedDefinition,
};
pub use release_call::{ReleaseAction, ReleaseCall};
pub(crate) use release_record::ReleaseRecord;
pub(crate) use revision_fields::drop_revision_changes;
pub use state::{
    AddedField, FieldManager, NamespaceContents, ObjectCondition, ObjectDryRun, ObjectFieldConflict, ObjectInfo,
    ObjectState, StatusLag,
};
pub use test_job::{TEST_HOSTS_ANNOTATION, TEST_JOB_NAME, TEST_ROLE_LABEL, TestJobObject, TestPodRole};
pub use test_labels::{TEST_LABEL_PREFIX, is_label_name, list_label_changes};
pub use test_launch::{AdapterLink, GID_INDEX_VARIABLE, GPU_RESOURCE, TestJobKind, TestJobLaunch};
pub use worker_pods::{
    OWN_CONTAINER_KEYS, OWN_POD_KEYS, WORKER_CLUSTER_LABEL, WORKER_ROLE_LABEL, WORKER_RUN_LABEL, WorkerJobObject,
    WorkerPods, WorkerRoleLabel, WorkerVolume, WorkerVolumeSource, worker_cluster_label,
};
pub(crate) use workload_bounds::add_workload_bounds;
pub(crate) use workload_rollout::check_rollout;
pub(crate) use yaml::parse_document;
