//! Single requests to the API, and their responses.

use super::api_message::hide_quoted_objects;
use super::cluster::ClusterApi;
use super::error::KubeError;
use super::request_error::{ApiErrorCause, ApiRequestError};
use super::served_kinds::ApiCollection;
use crate::model::Value;
use crate::object::ObjectId;
use ::kube::core::params::{DeleteParams, GetParams, ListParams, Patch, PatchParams, PostParams, Preconditions};
use ::kube::core::subresource::LogParams;

/// The field manager under which forge sets fields.
pub(super) const FIELD_MANAGER: &str = "forge";

/// How often an object that changes while it is read is read.
pub(super) const CHANGED_OBJECT_READS: usize = 3;

/// How many lines of a log are read, from its end.
pub const MAX_LOG_LINES: usize = 50_000;

/// Maximum number of objects in one response: lists of large clusters come in pages.
pub(super) const LIST_PAGE_SIZE: u32 = 500;

pub(super) type ApiObjectResult = Result<Value, ApiRequestError>;

fn invalid_request_error(error: ::kube::core::request::Error) -> ApiRequestError {
    ApiRequestError::Away(KubeError::new(error.to_string()))
}

impl ClusterApi {
    /// Reads an object; `None` if it does not exist.
    pub(super) async fn get_object(
        &self,
        place: &ApiCollection,
        id: &ObjectId,
    ) -> Result<Option<Value>, ApiRequestError> {
        place.check_namespace(id)?;
        match self
            .try_request(self.client.request::<Value>(
                place.object_request(id).get(&id.name, &GetParams::default()).map_err(invalid_request_error)?,
            ))
            .await
        {
            Ok(object) => Ok(Some(object)),
            Err(refusal) if refusal.has_code(404) => Ok(None),
            Err(refusal) => Err(refusal),
        }
    }

    /// Applies an object with the field manager forge, or as a dry run.
    pub(super) async fn apply_object(
        &self,
        place: &ApiCollection,
        id: &ObjectId,
        object: &Value,
        force: bool,
        dry_run: bool,
    ) -> ApiObjectResult {
        let params =
            PatchParams { dry_run, force, field_manager: Some(FIELD_MANAGER.to_owned()), field_validation: None };
        let answer = self
            .try_request(
                self.client.request::<Value>(
                    place
                        .object_request(id)
                        .patch(&id.name, &params, &Patch::Apply(place.fit_namespace(object).as_ref()))
                        .map_err(invalid_request_error)?,
                ),
            )
            .await;
        self.classify_result(place, id, "patch", answer).await
    }

    /// Replaces an object. Its `resourceVersion` must match the live object's.
    pub(super) async fn replace_object(
        &self,
        place: &ApiCollection,
        id: &ObjectId,
        object: &Value,
        dry_run: bool,
    ) -> ApiObjectResult {
        let params = PostParams { dry_run, field_manager: Some(FIELD_MANAGER.to_owned()) };
        let answer = self
            .try_request(
                self.client.request::<Value>(
                    place
                        .object_request(id)
                        .replace(&id.name, &params, object.to_string().into_bytes())
                        .map_err(invalid_request_error)?,
                ),
            )
            .await;
        self.classify_result(place, id, "update", answer).await
    }

    /// Changes an object with a merge patch. If the patch has a `resourceVersion`, the live object's must match.
    pub(super) async fn merge_object(&self, place: &ApiCollection, id: &ObjectId, patch: &Value) -> ApiObjectResult {
        let params = PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
        let answer = self
            .try_request(
                self.client.request::<Value>(
                    place
                        .object_request(id)
                        .patch(&id.name, &params, &Patch::Merge(patch))
                        .map_err(invalid_request_error)?,
                ),
            )
            .await;
        self.classify_result(place, id, "patch", answer).await
    }

    pub(super) async fn create_object(
        &self,
        place: &ApiCollection,
        id: &ObjectId,
        object: &Value,
        dry_run: bool,
    ) -> ApiObjectResult {
        let params = PostParams { dry_run, field_manager: Some(FIELD_MANAGER.to_owned()) };
        let answer = self
            .try_request(
                self.client.request::<Value>(
                    place
                        .object_request(id)
                        .create(&params, object.to_string().into_bytes())
                        .map_err(invalid_request_error)?,
                ),
            )
            .await;
        self.classify_result(place, id, "create", answer).await
    }

    /// Deletes the object with that uid, and its dependents.
    pub(super) async fn delete_object(&self, place: &ApiCollection, id: &ObjectId, uid: &str) -> ApiObjectResult {
        let uid = (!uid.is_empty()).then(|| uid.to_owned());
        let params = DeleteParams {
            preconditions: uid.map(|uid| Preconditions { uid: Some(uid), resource_version: None }),
            ..DeleteParams::background()
        };
        let answer = self
            .try_request(
                self.client.request::<Value>(
                    place.object_request(id).delete(&id.name, &params).map_err(invalid_request_error)?,
                ),
            )
            .await;
        self.classify_result(place, id, "delete", answer).await
    }

    /// Returns the last [`MAX_LOG_LINES`] lines of a container's log, at most 32 MiB.
    pub(super) async fn read_container_log(
        &self,
        namespace: &str,
        pod: &str,
        container: &str,
    ) -> Result<String, ApiRequestError> {
        let params = LogParams {
            container: Some(container.to_owned()),
            tail_lines: Some(MAX_LOG_LINES as i64),
            limit_bytes: Some(32 << 20),
            ..LogParams::default()
        };
        let request = ApiCollection::new("v1", "pods", true)
            .collection_request(Some(namespace))
            .logs(pod, &params)
            .map_err(invalid_request_error)?;
        self.try_request(self.client().request_text(request)).await
    }

    /// Lists the objects of a kind that match label and field selectors, in one namespace or in all.
    pub(super) async fn list_objects(
        &self,
        place: &ApiCollection,
        namespace: Option<&str>,
        labels: Option<&str>,
        fields: Option<&str>,
    ) -> Result<Vec<Value>, ApiRequestError> {
        let mut params = ListParams::default().limit(LIST_PAGE_SIZE);
        params.label_selector = labels.map(str::to_owned);
        params.field_selector = fields.map(str::to_owned);
        let mut all = Vec::new();
        loop {
            let request = place.collection_request(namespace).list(&params).map_err(invalid_request_error)?;
            let mut part = self.try_request(self.client.request::<Value>(request)).await?;
            let next = part.pointer("/metadata/continue").and_then(Value::as_str).filter(|next| !next.is_empty());
            params.continue_token = next.map(str::to_owned);
            if let Some(Value::Array(items)) = part.get_mut("items").map(Value::take) {
                all.extend(items);
            }
            if params.continue_token.is_none() {
                return Ok(all);
            }
        }
    }

    async fn classify_result(
        &self,
        place: &ApiCollection,
        id: &ObjectId,
        verb: &str,
        answer: ApiObjectResult,
    ) -> ApiObjectResult {
        match answer {
            Ok(object) => Ok(object),
            Err(error) => Err(self.classify_denial(place, id, verb, error).await),
        }
    }

    /// Sends a request, with the time limit.
    pub(super) async fn try_request<T>(
        &self,
        question: impl Future<Output = ::kube::Result<T>>,
    ) -> Result<T, ApiRequestError> {
        match tokio::time::timeout(self.request_limit(), question).await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(error)) => Err(self.to_request_error(&error)),
            Err(_) => Err(ApiRequestError::Away(self.no_answer_error())),
        }
    }

    fn to_request_error(&self, error: &::kube::Error) -> ApiRequestError {
        match error {
            ::kube::Error::Api(status) if status.code != 401 => {
                let causes = status.details.iter().flat_map(|details| &details.causes);
                let causes = causes.map(|cause| ApiErrorCause {
                    reason: cause.reason.clone(),
                    field: cause.field.clone(),
                    message: cause.message.clone(),
                });
                ApiRequestError::Said {
                    code: status.code,
                    message: hide_quoted_objects(&status.message).into_owned(),
                    causes: causes.collect(),
                }
            }
            // serde may quote a value of a Secret.
            ::kube::Error::SerdeError(error) => ApiRequestError::Local(format!(
                "the answer of `{}` has an unexpected form at line {}, column {}",
                self.server(),
                error.line(),
                error.column()
            )),
            error => ApiRequestError::Away(KubeError::from_client_error(self.server(), self.is_tunneled(), error)),
        }
    }
}
