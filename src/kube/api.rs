//! Single requests to the API: the path of a kind, the response, the refusal.

use super::{ClusterApi, KubeError};
use crate::model::Value;
use crate::probe::ObjectId;
use ::kube::core::Request;
use ::kube::core::params::{DeleteParams, GetParams, ListParams, Patch, PatchParams, PostParams, Preconditions};
use ::kube::core::subresource::LogParams;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::APIResource;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::PoisonError;

/// The field manager under which forge sets fields.
pub(super) const MANAGER: &str = "forge";

/// Why a request failed.
#[derive(Clone, Debug)]
pub(super) enum ApiRequestError {
    /// The API refused: its status and message, and the fields it named, each with its message.
    Said { code: u16, message: String, causes: Vec<(String, String)> },
    /// The request was not sent, got no answer, or its credentials were rejected.
    Away(KubeError),
}

impl ApiRequestError {
    pub fn is(&self, wanted: u16) -> bool {
        matches!(self, Self::Said { code, .. } if *code == wanted)
    }

    /// Returns the message of the API.
    pub fn words(&self) -> String {
        match self {
            Self::Said { code, message, .. } if message.is_empty() => format!("the API returned {code}"),
            Self::Said { message, .. } => message.clone(),
            Self::Away(error) => error.message.clone(),
        }
    }

    pub fn error(self, server: &str) -> KubeError {
        match self {
            Self::Away(error) => error,
            Self::Said { code: 403, message, .. } => {
                KubeError::new(format!("`{server}` denied the request (403): {message}"))
                    .hint("grant this permission to the user of this context")
            }
            said => KubeError::new(said.words()),
        }
    }
}

/// Maximum number of objects in one response: lists of large clusters come in pages.
pub(super) const PART: u32 = 500;

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
        Self { base: base(api_version), plural: plural.to_owned(), namespaced }
    }

    fn request(&self, namespace: Option<&str>) -> Request {
        let part = namespace.filter(|_| self.namespaced).map(|name| format!("/namespaces/{name}"));
        Request::new(format!("{}{}/{}", self.base, part.unwrap_or_default(), self.plural))
    }

    /// # Errors
    /// The kind is namespaced and `id` has no namespace.
    fn named(&self, id: &ObjectId) -> Result<(), ApiRequestError> {
        match self.namespaced && id.namespace.is_none() {
            true => Err(ApiRequestError::Said {
                code: 422,
                message: format!("{} is a namespaced kind, and {id} has no namespace", id.kind),
                causes: Vec::new(),
            }),
            false => Ok(()),
        }
    }

    /// Returns the object in the form that its kind requires: objects of cluster-scoped kinds have no namespace.
    fn fitting<'o>(&self, object: &'o Value) -> Cow<'o, Value> {
        if self.namespaced || object.pointer("/metadata/namespace").is_none() {
            return Cow::Borrowed(object);
        }
        let mut object = object.clone();
        if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.shift_remove("namespace");
        }
        Cow::Owned(object)
    }

    fn of(&self, id: &ObjectId) -> Request {
        self.request(id.namespace.as_deref())
    }
}

fn unbuilt(error: ::kube::core::request::Error) -> ApiRequestError {
    ApiRequestError::Away(KubeError::new(error.to_string()))
}

/// Returns the path of an API: `/api/v1`, `/apis/apps/v1`.
fn base(api_version: &str) -> String {
    let root = if api_version.contains('/') { "/apis" } else { "/api" };
    format!("{root}/{api_version}")
}

impl ClusterApi {
    /// Returns the collection of that kind; `None` if the API does not serve the kind.
    pub(super) async fn place(
        &self,
        id: &ObjectId,
        served: &ApiKindCache,
    ) -> Result<Option<ApiCollection>, ApiRequestError> {
        let Some(api_version) = self.version_of(&id.api_version).await? else { return Ok(None) };
        let kinds = self.kinds(&api_version, served).await?;
        let found = kinds.iter().flatten().find(|kind| kind.kind == id.kind && !kind.name.contains('/'));
        Ok(found.map(|kind| ApiCollection::new(&api_version, &kind.name, kind.namespaced)))
    }

    /// Resolves an API version: `apps/*` becomes the version that the API prefers.
    async fn version_of(&self, api_version: &str) -> Result<Option<String>, ApiRequestError> {
        let Some(group) = api_version.strip_suffix("/*") else { return Ok(Some(api_version.to_owned())) };
        let groups = self.put(self.client.list_api_groups()).await?;
        let group = groups.groups.into_iter().find(|known| known.name == group);
        Ok(group.and_then(|group| group.preferred_version).map(|version| version.group_version))
    }

    /// Returns the kinds of an API version; `None` if the API does not have that version.
    pub(super) async fn kinds(
        &self,
        api_version: &str,
        served: &ApiKindCache,
    ) -> Result<Option<ApiKinds>, ApiRequestError> {
        if let Some(known) = served.0.lock().unwrap_or_else(PoisonError::into_inner).get(api_version) {
            return Ok(known.clone());
        }
        let asked = match api_version.contains('/') {
            true => self.put(self.client.list_api_group_resources(api_version)).await,
            false => self.put(self.client.list_core_api_resources(api_version)).await,
        };
        let kinds = match asked {
            Ok(list) => Some(list.resources),
            Err(refusal) if refusal.is(404) => None,
            Err(refusal) => return Err(refusal),
        };
        served.0.lock().unwrap_or_else(PoisonError::into_inner).insert(api_version.to_owned(), kinds.clone());
        Ok(kinds)
    }

    /// Returns the preferred API versions of the server.
    pub(super) async fn versions(&self) -> Result<Vec<String>, ApiRequestError> {
        let groups = self.put(self.client.list_api_groups()).await?;
        let preferred = groups.groups.into_iter().filter_map(|group| Some(group.preferred_version?.group_version));
        Ok(std::iter::once("v1".to_owned()).chain(preferred).collect())
    }

    /// Reads an object; `None` if it does not exist.
    pub(super) async fn get(&self, place: &ApiCollection, id: &ObjectId) -> Result<Option<Value>, ApiRequestError> {
        place.named(id)?;
        match self
            .put(self.client.request::<Value>(place.of(id).get(&id.name, &GetParams::default()).map_err(unbuilt)?))
            .await
        {
            Ok(object) => Ok(Some(object)),
            Err(refusal) if refusal.is(404) => Ok(None),
            Err(refusal) => Err(refusal),
        }
    }

    /// Applies an object with the field manager forge, or as a dry run.
    pub(super) async fn apply(
        &self,
        place: &ApiCollection,
        id: &ObjectId,
        object: &Value,
        force: bool,
        dry_run: bool,
    ) -> ApiObjectResult {
        let params = PatchParams { dry_run, force, field_manager: Some(MANAGER.to_owned()), field_validation: None };
        self.put(self.client.request::<Value>(
            place.of(id).patch(&id.name, &params, &Patch::Apply(place.fitting(object).as_ref())).map_err(unbuilt)?,
        ))
        .await
    }

    /// Replaces an object. Its `resourceVersion` must match the live object's.
    pub(super) async fn replace(
        &self,
        place: &ApiCollection,
        id: &ObjectId,
        object: &Value,
        dry_run: bool,
    ) -> ApiObjectResult {
        let params = PostParams { dry_run, field_manager: Some(MANAGER.to_owned()) };
        self.put(self.client.request::<Value>(
            place.of(id).replace(&id.name, &params, object.to_string().into_bytes()).map_err(unbuilt)?,
        ))
        .await
    }

    /// Changes an object with a merge patch. If the patch has a `resourceVersion`, the live object's must match.
    pub(super) async fn merge(&self, place: &ApiCollection, id: &ObjectId, patch: &Value) -> ApiObjectResult {
        let params = PatchParams { field_manager: Some(MANAGER.to_owned()), ..PatchParams::default() };
        self.put(
            self.client.request::<Value>(place.of(id).patch(&id.name, &params, &Patch::Merge(patch)).map_err(unbuilt)?),
        )
        .await
    }

    pub(super) async fn create(
        &self,
        place: &ApiCollection,
        id: &ObjectId,
        object: &Value,
        dry_run: bool,
    ) -> ApiObjectResult {
        let params = PostParams { dry_run, field_manager: Some(MANAGER.to_owned()) };
        self.put(
            self.client
                .request::<Value>(place.of(id).create(&params, object.to_string().into_bytes()).map_err(unbuilt)?),
        )
        .await
    }

    /// Deletes the object with that uid, and its dependents.
    pub(super) async fn delete(&self, place: &ApiCollection, id: &ObjectId, uid: &str) -> ApiObjectResult {
        let uid = (!uid.is_empty()).then(|| uid.to_owned());
        let params = DeleteParams {
            preconditions: uid.map(|uid| Preconditions { uid: Some(uid), resource_version: None }),
            ..DeleteParams::background()
        };
        self.put(self.client.request::<Value>(place.of(id).delete(&id.name, &params).map_err(unbuilt)?)).await
    }

    /// Returns the last 50 000 lines of a container's log, at most 32 MiB.
    pub(super) async fn log(&self, namespace: &str, pod: &str, container: &str) -> Result<String, ApiRequestError> {
        let params = LogParams {
            container: Some(container.to_owned()),
            tail_lines: Some(50_000),
            limit_bytes: Some(32 << 20),
            ..LogParams::default()
        };
        let request =
            ApiCollection::new("v1", "pods", true).request(Some(namespace)).logs(pod, &params).map_err(unbuilt)?;
        self.put(self.client().request_text(request)).await
    }

    /// Lists the objects of a kind that match label and field selectors, in one namespace or in all.
    pub(super) async fn every(
        &self,
        place: &ApiCollection,
        namespace: Option<&str>,
        labels: Option<&str>,
        fields: Option<&str>,
    ) -> Result<Vec<Value>, ApiRequestError> {
        let mut params = ListParams::default().limit(PART);
        params.label_selector = labels.map(str::to_owned);
        params.field_selector = fields.map(str::to_owned);
        let mut all = Vec::new();
        loop {
            let request = place.request(namespace).list(&params).map_err(unbuilt)?;
            let mut part = self.put(self.client.request::<Value>(request)).await?;
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
    pub(super) async fn put<T>(&self, question: impl Future<Output = ::kube::Result<T>>) -> Result<T, ApiRequestError> {
        match tokio::time::timeout(super::cluster::LIMIT, question).await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(error)) => Err(self.refusal(&error)),
            Err(_) => Err(ApiRequestError::Away(self.silent())),
        }
    }

    fn refusal(&self, error: &::kube::Error) -> ApiRequestError {
        match error {
            ::kube::Error::Api(status) if status.code != 401 => {
                let causes = status.details.iter().flat_map(|details| &details.causes);
                let causes = causes.map(|cause| (cause.field.clone(), cause.message.clone())).collect();
                ApiRequestError::Said { code: status.code, message: status.message.clone(), causes }
            }
            error => ApiRequestError::Away(KubeError::of(self.server(), self.is_through(), error)),
        }
    }
}
