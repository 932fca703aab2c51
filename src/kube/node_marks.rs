//! Changes the labels, annotations and taints of a node. A missing node is never created.

use super::ClusterApi;
use super::request_error::ApiRequestError;
use super::request_error::local_request_error;
use super::served_kinds::ApiCollection;
use crate::object::NodeMarkChanges;

/// Kubelets write to their node all the time: a change that conflicts with such a write is retried.
const MAX_CONFLICT_TRIES: usize = 8;

impl ClusterApi {
    /// Changes the marks of a node.
    pub(super) async fn change_node_marks(&self, marks: &NodeMarkChanges) -> Result<(), ApiRequestError> {
        let (place, id) = (ApiCollection::new("v1", "nodes", false), NodeMarkChanges::node_id(&marks.node));
        for _ in 0..MAX_CONFLICT_TRIES {
            let node = self
                .get_object(&place, &id)
                .await?
                .ok_or_else(|| local_request_error(&format!("{id} no longer exists")))?;
            if node["metadata"]["uid"] != *marks.uid {
                return Err(local_request_error(&format!("{id} was replaced by a new object of the same name")));
            }
            match self.merge_object(&place, &id, &marks.build_patch(&node)).await {
                Err(refusal) if refusal.has_code(409) => {}
                done => return done.map(drop),
            }
        }
        Err(local_request_error(&format!("{id} keeps changing: not changed after {MAX_CONFLICT_TRIES} attempts")))
    }
}
