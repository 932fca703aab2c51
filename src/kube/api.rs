//! Single requests to the API: the path of a kind, the response, the refusal.

use super::{ClusterApi, KubeError};
use crate::model::Value;
use crate::object::ObjectId;
use ::kube::core::Request;
use ::kube::core::params::{DeleteParams, GetParams, ListParams, Patch, PatchParams, PostParams, Preconditions};
use ::kube::core::subresource::LogParams;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::APIResource;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::PoisonError;

/// The field manager under which forge sets fields.
pub(super) const FIELD_MANAGER: &str = "forge";

/// Why a request failed.
#[derive(Clone, Debug)]
pub(super) enum ApiRequestError {
    /// The API refused: its status and message, and the fields it named, each with its message.
    Said { code: u16, message: String, causes: Vec<(String, String)> },
    /// forge itself cannot carry out the request: the message.
    Local(String),
    /// The request was not sent, got no answer, or its credentials were rejected.
    Away(KubeError),
}

impl ApiRequestError {
    pub fn has_code(&self, wanted: u16) -> bool {
        matches!(self, Self::Said { code, .. } if *code == wanted)
    }

    /// Reports whether a dry run was refused since a webhook does not support dry runs. The API has no typed reason for
    /// that: the message is the one of `NewDryRunUnsupportedErr` in apiserver's `admission/plugin/webhook/errors`.
    pub fn is_dry_run_unsupported(&self) -> bool {
        matches!(self, Self::Said { message, .. } if message.contains("does not support dry run"))
    }

    /// Returns the message of the API.
    pub fn api_message(&self) -> String {
        match self {
            Self::Said { code, message, .. } if message.is_empty() => format!("the API returned {code}"),
            Self::Said { message, .. } | Self::Local(message) => message.clone(),
            Self::Away(error) => error.message.clone(),
        }
    }

    pub fn into_kube_error(self, server: &str) -> KubeError {
        match self {
            Self::Away(error) => error,
            Self::Said { code: 403, message, .. } => {
                KubeError::new(format!("`{server}` denied the request (403): {message}"))
                    .hint("grant this permission to the user of this context")
            }
            said => KubeError::new(said.api_message()),
        }
    }
}

/// Maximum number of objects in one response: lists of large clusters come in pages.
pub(super) const LIST_PAGE_SIZE: u32 = 500;

pub(super) type ApiObjectResult = Result<Value, ApiRequestError>;

/// Kinds of one version of an API.
type ApiKinds = Vec<APIResource>;

/// Kinds that the API serves, cached for one observation. Each observation starts empty: a step may have added a kind.
#[derive(Default)]
pub(super) struct ApiKindCache(Mutex<BTreeMap<String, Option<ApiKinds>>>);

/// The collection of a kind.
#[derive(Clone, Debug)]
pub(super) struct ApiCollection {
    /// `/apis/apps/v1`
    base: String,
    plural: String,
    namespaced: bool,
}

impl ApiCollection {
    pub fn new(api_version: &str, plural: &str, namespaced: bool) -> Self {
        Self { base: api_base_path(api_version), plural: plural.to_owned(), namespaced }
    }

    fn collection_request(&self, namespace: Option<&str>) -> Request {
        let part = namespace.filter(|_| self.namespaced).map(|name| format!("/namespaces/{name}"));
        Request::new(format!("{}{}/{}", self.base, part.unwrap_or_default(), self.plural))
    }

    /// # Errors
    /// The kind is namespaced and `id` has no namespace.
    fn check_namespace(&self, id: &ObjectId) -> Result<(), ApiRequestError> {
        match self.namespaced && id.namespace.is_none() {
            true => Err(ApiRequestError::Local(format!("{} is a namespaced kind, and {id} has no namespace", id.kind))),
            false => Ok(()),
        }
    }

    /// Returns the object in the form that its kind requires: objects of cluster-scoped kinds have no namespace.
    fn fit_namespace<'o>(&self, object: &'o Value) -> Cow<'o, Value> {
        if self.namespaced || object.pointer("/metadata/namespace").is_none() {
            return Cow::Borrowed(object);
        }
        let mut object = object.clone();
        if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.shift_remove("namespace");
        }
        Cow::Owned(object)
    }

    fn object_request(&self, id: &ObjectId) -> Request {
        self.collection_request(id.namespace.as_deref())
    }
}

fn invalid_request_error(error: ::kube::core::request::Error) -> ApiRequestError {
    ApiRequestError::Away(KubeError::new(error.to_string()))
}

/// Returns the path of an API: `/api/v1`, `/apis/apps/v1`.
fn api_base_path(api_version: &str) -> String {
    let root = if api_version.contains('/') { "/apis" } else { "/api" };
    format!("{root}/{api_version}")
}

impl ClusterApi {
    /// Returns the collection of that kind; `None` if the API does not serve the kind.
    pub(super) async fn find_collection(
        &self,
        id: &ObjectId,
        served: &ApiKindCache,
    ) -> Result<Option<ApiCollection>, ApiRequestError> {
        let Some(api_version) = self.resolve_version(&id.api_version).await? else { return Ok(None) };
        let kinds = self.list_kinds(&api_version, served).await?;
        let found = kinds.iter().flatten().find(|kind| kind.kind == id.kind && !kind.name.contains('/'));
        Ok(found.map(|kind| ApiCollection::new(&api_version, &kind.name, kind.namespaced)))
    }

    /// Resolves an API version: `apps/*` becomes the version that the API prefers.
    async fn resolve_version(&self, api_version: &str) -> Result<Option<String>, ApiRequestError> {
        let Some(group) = api_version.strip_suffix("/*") else { return Ok(Some(api_version.to_owned())) };
        let groups = self.try_request(self.client.list_api_groups()).await?;
        let group = groups.groups.into_iter().find(|known| known.name == group);
        Ok(group.and_then(|group| group.preferred_version).map(|version| version.group_version))
    }

    /// Returns the kinds of an API version; `None` if the API does not have that version.
    pub(super) async fn list_kinds(
        &self,
        api_version: &str,
        served: &ApiKindCache,
    ) -> Result<Option<ApiKinds>, ApiRequestError> {
        if let Some(known) = served.0.lock().unwrap_or_else(PoisonError::into_inner).get(api_version) {
            return Ok(known.clone());
        }
        let asked = match api_version.contains('/') {
            true => self.try_request(self.client.list_api_group_resources(api_version)).await,
            false => self.try_request(self.client.list_core_api_resources(api_version)).await,
        };
        let kinds = match asked {
            Ok(list) => Some(list.resources),
            Err(refusal) if refusal.has_code(404) => None,
            Err(refusal) => return Err(refusal),
        };
        served.0.lock().unwrap_or_else(PoisonError::into_inner).insert(api_version.to_owned(), kinds.clone());
        Ok(kinds)
    }

    /// Returns the preferred API versions of the server.
    pub(super) async fn list_preferred_versions(&self) -> Result<Vec<String>, ApiRequestError> {
        let groups = self.try_request(self.client.list_api_groups()).await?;
        let preferred = groups.groups.into_iter().filter_map(|group| Some(group.preferred_version?.group_version));
        Ok(std::iter::once("v1".to_owned()).chain(preferred).collect())
    }

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
        self.try_request(
            self.client.request::<Value>(
                place
                    .object_request(id)
                    .patch(&id.name, &params, &Patch::Apply(place.fit_namespace(object).as_ref()))
                    .map_err(invalid_request_error)?,
            ),
        )
        .await
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
        self.try_request(
            self.client.request::<Value>(
                place
                    .object_request(id)
                    .replace(&id.name, &params, object.to_string().into_bytes())
                    .map_err(invalid_request_error)?,
            ),
        )
        .await
    }

    /// Changes an object with a merge patch. If the patch has a `resourceVersion`, the live object's must match.
    pub(super) async fn merge_object(&self, place: &ApiCollection, id: &ObjectId, patch: &Value) -> ApiObjectResult {
        let params = PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
        self.try_request(self.client.request::<Value>(
            place.object_request(id).patch(&id.name, &params, &Patch::Merge(patch)).map_err(invalid_request_error)?,
        ))
        .await
    }

    pub(super) async fn create_object(
        &self,
        place: &ApiCollection,
        id: &ObjectId,
        object: &Value,
        dry_run: bool,
    ) -> ApiObjectResult {
        let params = PostParams { dry_run, field_manager: Some(FIELD_MANAGER.to_owned()) };
        self.try_request(self.client.request::<Value>(
            place.object_request(id).create(&params, object.to_string().into_bytes()).map_err(invalid_request_error)?,
        ))
        .await
    }

    /// Deletes the object with that uid, and its dependents.
    pub(super) async fn delete_object(&self, place: &ApiCollection, id: &ObjectId, uid: &str) -> ApiObjectResult {
        let uid = (!uid.is_empty()).then(|| uid.to_owned());
        let params = DeleteParams {
            preconditions: uid.map(|uid| Preconditions { uid: Some(uid), resource_version: None }),
            ..DeleteParams::background()
        };
        self.try_request(
            self.client
                .request::<Value>(place.object_request(id).delete(&id.name, &params).map_err(invalid_request_error)?),
        )
        .await
    }

    /// Returns the last 50 000 lines of a container's log, at most 32 MiB.
    pub(super) async fn read_container_log(
        &self,
        namespace: &str,
        pod: &str,
        container: &str,
    ) -> Result<String, ApiRequestError> {
        let params = LogParams {
            container: Some(container.to_owned()),
            tail_lines: Some(50_000),
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

    /// Sends a request, with the time limit.
    pub(super) async fn try_request<T>(
        &self,
        question: impl Future<Output = ::kube::Result<T>>,
    ) -> Result<T, ApiRequestError> {
        match tokio::time::timeout(super::cluster::REQUEST_TIMEOUT, question).await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(error)) => Err(self.to_request_error(&error)),
            Err(_) => Err(ApiRequestError::Away(self.no_answer_error())),
        }
    }

    fn to_request_error(&self, error: &::kube::Error) -> ApiRequestError {
        match error {
            ::kube::Error::Api(status) if status.code != 401 => {
                let causes = status.details.iter().flat_map(|details| &details.causes);
                let causes = causes.map(|cause| (cause.field.clone(), cause.message.clone())).collect();
                ApiRequestError::Said { code: status.code, message: status.message.clone(), causes }
            }
            error => ApiRequestError::Away(KubeError::from_client_error(self.server(), self.is_tunneled(), error)),
        }
    }
}
