//! Objects of a manifest in the cluster's API: their live state, and the results of an apply.

use super::super::api_message::hide_quoted_objects;
use super::super::request_error::parse_conflict_manager;
use super::super::served_kinds::{ApiCollection, ApiDiscovery};
use super::super::{ClusterApi, KubeError};
use crate::model::Value;
use crate::object::{HELM_MANAGER, ManifestObject, ObjectId};
use ::kube::core::Request;
use ::kube::core::params::{ListParams, Patch, PatchParams, PostParams};
use k8s_openapi::api::core::v1::Event;
use std::sync::Arc;

/// Maximum number of warnings that a failure reports.
const MAX_WARNINGS: usize = 3;

/// The options of an apply.
#[derive(Clone, Copy, Debug)]
pub(super) struct HelmApplyOptions<'a> {
    pub manager: &'a str,
    pub force: bool,
}

/// The result of an apply.
pub(super) enum HelmApplyResult {
    Becomes(Value),
    /// Other managers own fields that it sets: their paths and owners, as in the message of the API.
    Conflict(Vec<(String, String)>),
    /// It sets fields that the definition of its kind does not have: the message of the API.
    Undefined(String),
}

/// The result of a dry run that replaces an object.
#[derive(Debug, PartialEq)]
pub(super) enum HelmReplaceResult {
    Becomes(Value),
    /// The account may not do that, or the API rejects the content.
    Refused,
    /// Another client changed or deleted the object since it was read.
    Changed,
}

/// Objects of one release at the API.
pub(super) struct HelmObjectClient<'c> {
    pub cluster: &'c ClusterApi,
    pub served: Arc<ApiDiscovery>,
    /// The release's namespace, for objects without a namespace.
    pub home: &'c str,
}

impl HelmObjectClient<'_> {
    /// Reports whether the API serves the object's kind.
    pub fn knows_kind(&self, object: &ManifestObject) -> bool {
        self.find_collection(object).is_some()
    }

    fn find_collection(&self, object: &ManifestObject) -> Option<ApiCollection> {
        self.served.find_collection(object.api_version(), object.kind())
    }

    fn build_request(&self, object: &ManifestObject) -> Result<Request, KubeError> {
        let namespace = object.namespace().unwrap_or(self.home);
        let request = self.find_collection(object).map(|place| place.collection_request(Some(namespace)));
        request.ok_or_else(|| {
            KubeError::new(format!("the API serves no `{}` of `{}`", object.kind(), object.api_version()))
        })
    }

    /// Returns the live object; `None` if it does not exist.
    pub async fn get_live(&self, object: &ManifestObject) -> Result<Option<Value>, KubeError> {
        if self.served.is_silent(object.api_version()) {
            return Err(KubeError::new(format!("the API of `{}` does not respond", object.api_version())));
        }
        if !self.knows_kind(object) {
            return Ok(None);
        }
        let request = self.build_request(object)?.get(object.name(), &::kube::api::GetParams::default());
        let request = request.map_err(|error| KubeError::new(format!("invalid request: {error}")))?;
        let ask = async {
            match self.cluster.client().request::<Value>(request).await {
                Ok(value) => Ok(Some(value)),
                Err(::kube::Error::Api(status)) if status.code == 404 => Ok(None),
                Err(error) => Err(error),
            }
        };
        self.cluster.send_request(ask).await
    }

    /// Applies the object with its original text.
    pub async fn apply_object(
        &self,
        object: &ManifestObject,
        how: HelmApplyOptions<'_>,
    ) -> Result<HelmApplyResult, KubeError> {
        let request = self.build_apply(object, how, false)?;
        self.cluster.send_request(self.request_apply(request)).await
    }

    /// Applies the object with its original text as a dry run; `None` if the account may not ask for that.
    pub async fn dry_run_object(
        &self,
        object: &ManifestObject,
        how: HelmApplyOptions<'_>,
    ) -> Result<Option<HelmApplyResult>, KubeError> {
        let request = self.build_apply(object, how, true)?;
        let ask = async {
            match self.request_apply(request).await {
                Ok(result) => Ok(Ok(result)),
                Err(::kube::Error::Api(status)) if status.code == 403 => {
                    Ok(Err(hide_quoted_objects(&status.message).into_owned()))
                }
                Err(error) => Err(error),
            }
        };
        match self.cluster.send_request(ask).await? {
            Ok(result) => Ok(Some(result)),
            Err(message) => match self.is_rejected(object).await {
                true => Err(KubeError::new(format!("the API rejects {}: {message}", object.display_title(self.home)))),
                false => Ok(None),
            },
        }
    }

    /// Reports whether a denied apply was rejected by admission: the account has the permission.
    async fn is_rejected(&self, object: &ManifestObject) -> bool {
        let Some(place) = self.find_collection(object) else { return false };
        let id = ObjectId {
            api_version: object.api_version().to_owned(),
            kind: object.kind().to_owned(),
            namespace: Some(object.namespace().unwrap_or(self.home).to_owned()),
            name: object.name().to_owned(),
        };
        matches!(self.cluster.lacks_permission(&place, &id, "patch").await, Ok(false))
    }

    fn build_apply(
        &self,
        object: &ManifestObject,
        how: HelmApplyOptions<'_>,
        dry_run: bool,
    ) -> Result<http::Request<Vec<u8>>, KubeError> {
        let params = PatchParams { dry_run, force: how.force, ..PatchParams::apply(how.manager) };
        let request = self.build_request(object)?.patch(object.name(), &params, &Patch::Apply(&Value::Null));
        let request = request.map_err(|error| KubeError::new(format!("invalid request: {error}")))?;
        // The API parses YAML itself: so its answer is about the exact text that helm applies.
        Ok(request.map(|_| object.text.clone().into_bytes()))
    }

    async fn request_apply(&self, request: http::Request<Vec<u8>>) -> Result<HelmApplyResult, ::kube::Error> {
        match self.cluster.client().request::<Value>(request).await {
            Ok(value) => Ok(HelmApplyResult::Becomes(value)),
            Err(::kube::Error::Api(status)) if status.code == 409 => match parse_conflicts(&status) {
                found if found.is_empty() => Err(::kube::Error::Api(status)),
                found => Ok(HelmApplyResult::Conflict(found)),
            },
            Err(::kube::Error::Api(status)) if is_undefined_field(&status) => {
                Ok(HelmApplyResult::Undefined(hide_quoted_objects(&status.message).into_owned()))
            }
            Err(error) => Err(error),
        }
    }

    /// Returns the latest warnings in the namespace about objects whose names contain the release's name.
    pub async fn list_warnings(&self, release: &str) -> Result<Vec<String>, KubeError> {
        let events: ::kube::Api<Event> = ::kube::Api::namespaced(self.cluster.client().clone(), self.home);
        let params = ListParams::default().fields("type=Warning").limit(500);
        let mut events = self.cluster.send_request(events.list(&params)).await?.items;
        events.retain(|event| event.involved_object.name.as_ref().is_some_and(|name| name.contains(release)));
        events.sort_by_key(|event| event.last_timestamp.as_ref().map(|time| time.0));
        let said = |event: Event| {
            let (kind, name) = (event.involved_object.kind, event.involved_object.name);
            let said = event.message.unwrap_or_default();
            format!("{} {}: {said}", kind.unwrap_or_default(), name.unwrap_or_default())
        };
        let mut warnings: Vec<String> = events.into_iter().rev().map(said).collect();
        warnings.dedup();
        warnings.truncate(MAX_WARNINGS);
        Ok(warnings)
    }

    /// Returns the number of objects of the kind that a live CRD defines.
    ///
    /// # Errors
    /// The API does not answer, or it serves no version of the kind: stored objects cannot be listed then.
    pub async fn count_objects(&self, definition: &Value) -> Result<u64, KubeError> {
        let text = |pointer: &str| definition.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        let versions = definition.pointer("/spec/versions").and_then(Value::as_array).into_iter().flatten();
        let served = versions.filter(|version| version.get("served") == Some(&Value::Bool(true)));
        let Some(version) = served.filter_map(|version| version.get("name")?.as_str()).next() else {
            let name = text("/metadata/name");
            return Err(KubeError::new(format!(
                "objects of `{name}` cannot be counted: the API serves no version of it"
            )));
        };
        let place = ApiCollection::new(&format!("{}/{version}", text("/spec/group")), text("/spec/names/plural"), true);
        // The first item and the number of the others: a cluster may have many thousands.
        let request = place.collection_request(None).list(&ListParams::default().limit(1));
        let request = request.map_err(|error| KubeError::new(format!("invalid request: {error}")))?;
        let ask = async {
            match self.cluster.client().request::<Value>(request).await {
                Err(::kube::Error::Api(status)) if status.code == 404 => Ok(Value::Null),
                answer => answer,
            }
        };
        let list = self.cluster.send_request(ask).await?;
        let shown = list.get("items").and_then(Value::as_array).map_or(0, Vec::len) as u64;
        Ok(shown + list.pointer("/metadata/remainingItemCount").and_then(Value::as_u64).unwrap_or(0))
    }

    /// Sets labels and annotations of a live object.
    pub async fn patch_metadata(
        &self,
        object: &ManifestObject,
        metadata: &Value,
        manager: &str,
    ) -> Result<(), KubeError> {
        let params = PatchParams { field_manager: Some(manager.to_owned()), ..PatchParams::default() };
        let patch = serde_json::json!({ "metadata": metadata });
        let request = self.build_request(object)?.patch(object.name(), &params, &Patch::Merge(&patch));
        let request = request.map_err(|error| KubeError::new(format!("invalid request: {error}")))?;
        self.cluster.send_request(self.cluster.client().request::<Value>(request)).await.map(drop)
    }

    /// Replaces the live object, which must not have changed since it was read.
    pub async fn replace_live(&self, object: &ManifestObject, value: &Value, manager: &str) -> Result<(), KubeError> {
        let request = self.build_replace(object, value, manager, false)?;
        self.cluster.send_request(self.cluster.client().request::<Value>(request)).await.map(drop)
    }

    /// Returns the result of a dry run of the replacement.
    ///
    /// # Errors
    /// The API is busy or failed, so that it is not known what it would do.
    pub async fn dry_run_replace(
        &self,
        object: &ManifestObject,
        value: &Value,
    ) -> Result<HelmReplaceResult, KubeError> {
        let request = self.build_replace(object, value, HELM_MANAGER, true)?;
        match self.cluster.request_or_status(self.cluster.client().request::<Value>(request)).await? {
            Ok(left) => Ok(HelmReplaceResult::Becomes(left)),
            Err(refusal) => match refusal.code {
                404 | 409 => Ok(HelmReplaceResult::Changed),
                // A webhook that denies may say 400.
                400 | 403 | 422 => Ok(HelmReplaceResult::Refused),
                _ => Err(self.cluster.status_error(refusal)),
            },
        }
    }

    fn build_replace(
        &self,
        object: &ManifestObject,
        value: &Value,
        manager: &str,
        dry_run: bool,
    ) -> Result<http::Request<Vec<u8>>, KubeError> {
        let params = PostParams { field_manager: Some(manager.to_owned()), dry_run };
        let request = self.build_request(object)?.replace(object.name(), &params, value.to_string().into_bytes());
        request.map_err(|error| KubeError::new(format!("invalid request: {error}")))
    }
}

/// Reports whether an apply was refused since a custom object has a field that its definition lacks. The API has no typed
/// reason for that, and answers 500: the message is that of `structured-merge-diff`, `typed/helpers.go`.
fn is_undefined_field(status: &::kube::core::Status) -> bool {
    status.code == 500 && status.message.contains("field not declared in schema")
}

/// Reads fields and their owners from a conflict of the API.
fn parse_conflicts(status: &::kube::core::Status) -> Vec<(String, String)> {
    let causes = status.details.iter().flat_map(|details| &details.causes);
    let read = causes.filter(|cause| cause.reason == "FieldManagerConflict").map(|cause| {
        (cause.field.trim_start_matches('.').to_owned(), parse_conflict_manager(&cause.message).to_owned())
    });
    read.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kube::tests::{json_reply, start_api, status_reply};
    use serde_json::json;

    /// Only a refusal of the account or of the content is a result. A busy API says nothing about the replacement.
    #[tokio::test]
    async fn dry_run_of_a_replacement_distinguishes_refusals_from_failures() {
        let object = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "a" } });
        for (code, expected) in [
            (200, Some(HelmReplaceResult::Becomes(object.clone()))),
            (403, Some(HelmReplaceResult::Refused)),
            (422, Some(HelmReplaceResult::Refused)),
            (404, Some(HelmReplaceResult::Changed)),
            (409, Some(HelmReplaceResult::Changed)),
            (429, None),
            (500, None),
            (503, None),
        ] {
            let replaced = object.clone();
            let answer = move |asked: &crate::artifact::server::Request| match (
                asked.method.as_str(),
                asked.path.as_str(),
            ) {
                ("PUT", _) if code == 200 => json_reply(200, &replaced),
                ("PUT", _) => status_reply(code, "not now", json!({})),
                (_, "/api") => json_reply(
                    200,
                    &json!({ "kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": [] }),
                ),
                (_, "/apis") => json_reply(200, &json!({ "kind": "APIGroupList", "apiVersion": "v1", "groups": [] })),
                _ => json_reply(
                    200,
                    &json!({ "kind": "APIResourceList", "groupVersion": "v1", "resources": [
                    { "name": "configmaps", "singularName": "", "namespaced": true, "kind": "ConfigMap", "verbs": ["get", "update"] },
                ] }),
                ),
            };
            let (cluster, _server) = start_api(answer).await;
            let served = cluster.discover_api().await.unwrap();
            let objects = HelmObjectClient { cluster: &cluster, served, home: "web" };
            let manifest = ManifestObject { text: object.to_string(), value: object.clone() };
            let result = objects.dry_run_replace(&manifest, &object).await;
            assert_eq!(result.as_ref().ok(), expected.as_ref(), "{code}");
            assert!(result.is_ok() || result.is_err_and(|error| error.message.contains("not now")), "{code}");
        }
    }
}
