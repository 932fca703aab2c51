//! The kinds that the API serves, as data, and the paths of their objects.

use super::request_error::ApiRequestError;
use crate::model::Value;
use crate::object::ObjectId;
use ::kube::core::Request;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::APIResource;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// Kinds of one version of an API.
pub(super) type ApiKinds = Vec<APIResource>;

/// Kinds that the API serves, cached for one observation. Each observation starts empty: a step may have added a kind.
#[derive(Default)]
pub(super) struct ApiKindCache(Mutex<BTreeMap<String, Option<ApiKinds>>>);

impl ApiKindCache {
    /// Returns the kinds of an API version if they are known; `Some(None)` if the API does not have that version.
    pub fn find(&self, api_version: &str) -> Option<Option<ApiKinds>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(api_version).cloned()
    }

    pub fn insert(&self, api_version: &str, kinds: Option<ApiKinds>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(api_version.to_owned(), kinds);
    }
}

/// All kinds that the API serves, by API version; `None` for a version whose own server does not answer.
#[derive(Debug, Default)]
pub(super) struct ApiDiscovery(pub(super) BTreeMap<String, Option<ApiKinds>>);

impl ApiDiscovery {
    /// Returns the API versions for charts: `apps/v1`, `apps/v1/Deployment`, sorted.
    pub fn list_api_versions(&self) -> Vec<String> {
        let mut apis = Vec::new();
        for (version, kinds) in &self.0 {
            for kind in kinds.iter().flatten().filter(|kind| is_object_kind(kind)) {
                apis.extend([version.clone(), format!("{version}/{}", kind.kind)]);
            }
        }
        apis.sort();
        apis.dedup();
        apis
    }

    /// Reports whether the kinds of an API version are unknown.
    pub fn is_silent(&self, api_version: &str) -> bool {
        matches!(self.0.get(api_version), Some(None))
    }

    /// Returns the collection of a kind; `None` if the API does not serve it.
    pub fn find_collection(&self, api_version: &str, kind: &str) -> Option<ApiCollection> {
        ApiCollection::find(api_version, self.0.get(api_version)?.as_ref()?, kind)
    }
}

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

    /// Finds a kind among those of its API version. Subresources are no objects of their own.
    pub fn find(api_version: &str, kinds: &[APIResource], kind: &str) -> Option<Self> {
        let found = kinds.iter().find(|known| known.kind == kind && is_object_kind(known))?;
        Some(Self::new(api_version, &found.name, found.namespaced))
    }

    /// Starts a request; kinds without namespace ignore `namespace`.
    pub fn collection_request(&self, namespace: Option<&str>) -> Request {
        let part = namespace.filter(|_| self.namespaced).map(|name| format!("/namespaces/{name}"));
        Request::new(format!("{}{}/{}", self.base, part.unwrap_or_default(), self.plural))
    }

    /// # Errors
    /// The kind is namespaced and `id` has no namespace.
    pub fn check_namespace(&self, id: &ObjectId) -> Result<(), ApiRequestError> {
        match self.namespaced && id.namespace.is_none() {
            true => Err(ApiRequestError::Local(format!("{} is a namespaced kind, and {id} has no namespace", id.kind))),
            false => Ok(()),
        }
    }

    /// Returns the object in the form that its kind requires: objects of cluster-scoped kinds have no namespace.
    pub fn fit_namespace<'o>(&self, object: &'o Value) -> Cow<'o, Value> {
        if self.namespaced || object.pointer("/metadata/namespace").is_none() {
            return Cow::Borrowed(object);
        }
        let mut object = object.clone();
        if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.shift_remove("namespace");
        }
        Cow::Owned(object)
    }

    /// Returns the API group; empty for the core group.
    pub fn group(&self) -> &str {
        let named = self.base.strip_prefix("/apis/").and_then(|rest| rest.split_once('/'));
        named.map_or("", |(group, _)| group)
    }

    pub fn plural(&self) -> &str {
        &self.plural
    }

    /// Returns the namespace of an object; `None` for kinds without one.
    pub fn namespace_of<'i>(&self, id: &'i ObjectId) -> Option<&'i str> {
        id.namespace.as_deref().filter(|_| self.namespaced)
    }

    pub fn object_request(&self, id: &ObjectId) -> Request {
        self.collection_request(id.namespace.as_deref())
    }
}

/// Reports whether the entry is a kind of objects, not a subresource such as `pods/log`.
fn is_object_kind(entry: &APIResource) -> bool {
    !entry.name.contains('/')
}

/// Returns the path of an API: `/api/v1`, `/apis/apps/v1`.
fn api_base_path(api_version: &str) -> String {
    let root = if api_version.contains('/') { "/apis" } else { "/api" };
    format!("{root}/{api_version}")
}
