//! Questions about the permissions of an account, whose answers a run keeps.

use k8s_openapi::api::authorization::v1::ResourceAttributes;

/// A question about the account's permissions.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct AccessReview {
    pub verb: String,
    pub group: String,
    pub resource: String,
    pub namespace: Option<String>,
    /// All names if `None`.
    pub name: Option<String>,
}

impl AccessReview {
    pub fn to_attributes(&self) -> ResourceAttributes {
        ResourceAttributes {
            verb: Some(self.verb.clone()),
            group: Some(self.group.clone()),
            resource: Some(self.resource.clone()),
            namespace: self.namespace.clone(),
            name: self.name.clone(),
            ..ResourceAttributes::default()
        }
    }
}
