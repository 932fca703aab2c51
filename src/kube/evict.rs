//! Evictions: pods leave a node as their PodDisruptionBudgets allow.

use super::pod::{Pod, PodBudget};
use super::{ClusterApi, KubeError};
use crate::model::Value;
use ::kube::Api;
use ::kube::api::{ApiResource, DynamicObject, PostParams};
use ::kube::core::Status;
use ::kube::core::response::StatusCause;
use k8s_openapi::api::core::v1;
use serde_json::json;

/// The version of the policy API that the server uses for evictions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EvictionApiVersion(String);

/// The outcome of an eviction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EvictionOutcome {
    /// The pod is terminating.
    Taken,
    /// The pod does not exist any more.
    Gone,
    /// The server refuses it for now, with this message.
    NotNow(String),
}

impl EvictionApiVersion {
    const FIRST: &str = "v1beta1";

    /// Returns `policy/v1`.
    pub fn name(&self) -> String {
        format!("policy/{}", self.0)
    }
}

impl ClusterApi {
    /// Queries the version of the policy API for evictions: `policy/v1`, or `policy/v1beta1` before Kubernetes 1.22.
    ///
    /// # Errors
    /// The API does not answer in time, refuses the request, or does not support evictions.
    pub async fn find_eviction_api(&self) -> Result<EvictionApiVersion, KubeError> {
        let core = self.send_request(self.query_kinds("v1")).await?;
        let found = core.into_iter().find(|resource| resource.name == "pods/eviction");
        let version = found.and_then(|resource| resource.version).filter(|version| !version.is_empty());
        let known = version.ok_or_else(|| KubeError::new(format!("`{}` does not support evictions", self.server())))?;
        Ok(EvictionApiVersion(known))
    }

    /// Lists the pods of a node.
    ///
    /// # Errors
    /// The API does not answer in time, or refuses the request.
    pub async fn list_node_pods(&self, node: &str) -> Result<Vec<Pod>, KubeError> {
        let api: Api<v1::Pod> = Api::all(self.client.clone());
        let pods = self.list_typed(&api, Some(&format!("spec.nodeName={node}"))).await?;
        Ok(pods.into_iter().map(Pod::from_api).collect())
    }

    /// Evicts a pod from its node, within `grace` seconds if given, else with the pod's own grace period. A newer pod
    /// of the same name is not affected.
    ///
    /// # Errors
    /// The API does not answer in time, or refuses permanently.
    pub async fn evict_pod(
        &self,
        policy: &EvictionApiVersion,
        pod: &Pod,
        grace: Option<u64>,
    ) -> Result<EvictionOutcome, KubeError> {
        let mut options = json!({ "preconditions": { "uid": pod.uid } });
        if let Some(grace) = grace {
            options["gracePeriodSeconds"] = grace.into();
        }
        let eviction = json!({
            "apiVersion": policy.name(),
            "kind": "Eviction",
            "metadata": { "namespace": pod.namespace, "name": pod.name },
            "deleteOptions": options,
        });
        let api: Api<v1::Pod> = Api::namespaced(self.client.clone(), &pod.namespace);
        let params = PostParams::default();
        match self
            .request_or_status(api.create_subresource::<_, Value>("eviction", &pod.name, &params, &eviction))
            .await?
        {
            Ok(_) => Ok(EvictionOutcome::Taken),
            // The API answers 409 if the name belongs to another pod by now.
            Err(no) if no.code == 404 || no.code == 409 => Ok(EvictionOutcome::Gone),
            Err(no) if no.code == 429 || is_namespace_terminating(&no) => {
                Ok(EvictionOutcome::NotNow(eviction_message(&no)))
            }
            Err(no) => {
                let error = self.status_error(no);
                Err(KubeError { message: format!("pod {}: {}", pod.qualified_name(), error.message), ..error })
            }
        }
    }

    /// Lists the PodDisruptionBudgets that cover a pod.
    ///
    /// # Errors
    /// The API does not answer in time, or refuses the request.
    pub async fn list_pod_budgets(&self, policy: &EvictionApiVersion, pod: &Pod) -> Result<Vec<PodBudget>, KubeError> {
        let kind = ApiResource {
            group: "policy".to_owned(),
            version: policy.0.clone(),
            api_version: policy.name(),
            kind: "PodDisruptionBudget".to_owned(),
            plural: "poddisruptionbudgets".to_owned(),
        };
        let api: Api<DynamicObject> = Api::namespaced_with(self.client.clone(), &pod.namespace, &kind);
        let found = list_dynamic_objects(self, &api).await?.into_iter().map(|object| PodBudget {
            name: object.metadata.name.unwrap_or_default(),
            allowed: object.data["status"]["disruptionsAllowed"].as_i64().unwrap_or_default(),
            selector: object.data["spec"]["selector"].clone(),
            empty_is_all: policy.0 != EvictionApiVersion::FIRST,
        });
        Ok(found.filter(|budget| budget.covers_labels(&pod.labels)).collect())
    }
}

fn status_causes(no: &Status) -> impl Iterator<Item = &StatusCause> {
    no.details.iter().flat_map(|details| &details.causes)
}

/// Reports whether the namespace is terminating: it deletes its pods and accepts no evictions.
fn is_namespace_terminating(no: &Status) -> bool {
    no.code == 403 && status_causes(no).any(|cause| cause.reason == "NamespaceTerminating")
}

fn eviction_message(no: &Status) -> String {
    let why = status_causes(no).map(|cause| cause.message.as_str()).find(|message| !message.is_empty());
    why.unwrap_or(&no.message).trim_end_matches('.').to_owned()
}

/// Lists without paging: a namespace has few budgets.
async fn list_dynamic_objects(cluster: &ClusterApi, api: &Api<DynamicObject>) -> Result<Vec<DynamicObject>, KubeError> {
    Ok(cluster.send_request(api.list(&Default::default())).await?.items)
}
