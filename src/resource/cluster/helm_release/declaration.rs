//! The declaration of a Helm release.

use crate::object::ReleaseQuery;
use crate::probe::Probe;

#[derive(Debug)]
pub(super) struct HelmReleaseResource {
    pub(super) asked: ReleaseQuery,
    /// Images that the chart does not contain, each with its source.
    pub(super) images: Vec<(String, String)>,
    pub(super) wait: bool,
    pub(super) hooks: bool,
    pub(super) timeout_s: u64,
    pub(super) stale_s: u64,
    pub(super) adopt: bool,
    pub(super) beside: bool,
    /// Paths of fields in objects whose change disturbs pods on nodes, each with its consequence.
    pub(super) disruptive_fields: Vec<(String, String)>,
    pub(super) majors: Option<i64>,
    /// Whether CRDs may be deleted with their objects.
    pub(super) delete_definitions: bool,
}

impl HelmReleaseResource {
    pub(super) fn probe(&self) -> Probe {
        Probe::Release(Box::new(self.asked.clone()))
    }

    /// Returns `NAMESPACE/NAME`, such as `gpu-operator/gpu-operator`.
    pub(super) fn qualified_name(&self) -> String {
        format!("{}/{}", self.asked.namespace, self.asked.name)
    }
}
