//! Evictions: pods leave a node in the order that budgets of disruption allow.

use super::pod::{Budget, Pod};
use super::{Cluster, KubeError};
use crate::model::Value;
use ::kube::Api;
use ::kube::api::{ApiResource, DynamicObject, PostParams};
use ::kube::core::Status;
use ::kube::core::response::StatusCause;
use k8s_openapi::api::core::v1;
use serde_json::json;

/// The version of the policy API by which a server takes evictions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy(String);

/// What became of an eviction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Evicted {
    /// The pod ends.
    Taken,
    /// There is no such pod any more.
    Gone,
    /// It may not go now: what the server said.
    NotNow(String),
}

impl Policy {
    const FIRST: &str = "v1beta1";

    /// Returns `policy/v1`.
    pub fn name(&self) -> String {
        format!("policy/{}", self.0)
    }
}

impl Cluster {
    /// Asks by which version of the policy API pods are evicted: `policy/v1`, or `policy/v1beta1` before Kubernetes 1.22.
    ///
    /// # Errors
    /// If it does not answer in time, refuses, or knows no evictions.
    pub async fn evictions(&self) -> Result<Policy, KubeError> {
        let core = self.ask(self.client.list_core_api_resources("v1")).await?;
        let found = core.resources.into_iter().find(|resource| resource.name == "pods/eviction");
        let version = found.and_then(|resource| resource.version).filter(|version| !version.is_empty());
        let known = version.ok_or_else(|| KubeError::new(format!("`{}` takes no evictions", self.server())))?;
        Ok(Policy(known))
    }

    /// Lists the pods of a node.
    ///
    /// # Errors
    /// If the API does not answer in time, or refuses.
    pub async fn pods_on(&self, node: &str) -> Result<Vec<Pod>, KubeError> {
        let api: Api<v1::Pod> = Api::all(self.client.clone());
        let pods = self.listed(&api, Some(&format!("spec.nodeName={node}"))).await?;
        Ok(pods.into_iter().map(Pod::of).collect())
    }

    /// Asks that a pod leaves its node, within `grace` seconds where that is not the pod's own affair. A pod of the same
    /// name that came in its place is left alone.
    ///
    /// # Errors
    /// If the API does not answer in time, or refuses for ever.
    pub async fn evict(&self, policy: &Policy, pod: &Pod, grace: Option<u64>) -> Result<Evicted, KubeError> {
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
        match self.answer(api.create_subresource::<_, Value>("eviction", &pod.name, &params, &eviction)).await? {
            Ok(_) => Ok(Evicted::Taken),
            // 409 is the answer where the name is another pod's by now.
            Err(no) if no.code == 404 || no.code == 409 => Ok(Evicted::Gone),
            Err(no) if no.code == 429 || is_ending_namespace(&no) => Ok(Evicted::NotNow(said(&no))),
            Err(no) => {
                let error = self.refused(no);
                Err(KubeError { message: format!("pod {}: {}", pod.whole_name(), error.message), ..error })
            }
        }
    }

    /// Lists the budgets that a pod stands under.
    ///
    /// # Errors
    /// If the API does not answer in time, or refuses.
    pub async fn budgets_of(&self, policy: &Policy, pod: &Pod) -> Result<Vec<Budget>, KubeError> {
        let kind = ApiResource {
            group: "policy".to_owned(),
            version: policy.0.clone(),
            api_version: policy.name(),
            kind: "PodDisruptionBudget".to_owned(),
            plural: "poddisruptionbudgets".to_owned(),
        };
        let api: Api<DynamicObject> = Api::namespaced_with(self.client.clone(), &pod.namespace, &kind);
        let found = ask_all(self, &api).await?.into_iter().map(|object| Budget {
            name: object.metadata.name.unwrap_or_default(),
            allowed: object.data["status"]["disruptionsAllowed"].as_i64().unwrap_or_default(),
            selector: object.data["spec"]["selector"].clone(),
            empty_is_all: policy.0 != Policy::FIRST,
        });
        Ok(found.filter(|budget| budget.covers(&pod.labels)).collect())
    }
}

fn causes(no: &Status) -> impl Iterator<Item = &StatusCause> {
    no.details.iter().flat_map(|details| &details.causes)
}

/// A namespace that is deleted takes its pods with it, and no evictions.
fn is_ending_namespace(no: &Status) -> bool {
    no.code == 403 && causes(no).any(|cause| cause.reason == "NamespaceTerminating")
}

fn said(no: &Status) -> String {
    let why = causes(no).map(|cause| cause.message.as_str()).find(|message| !message.is_empty());
    why.unwrap_or(&no.message).trim_end_matches('.').to_owned()
}

/// Budgets of one namespace are few: they come in one answer.
async fn ask_all(cluster: &Cluster, api: &Api<DynamicObject>) -> Result<Vec<DynamicObject>, KubeError> {
    Ok(cluster.ask(api.list(&Default::default())).await?.items)
}
