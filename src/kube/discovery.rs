//! Asks the API which kinds it serves.

use super::request_error::ApiRequestError;
use super::served_kinds::{ApiCollection, ApiDiscovery, ApiKindCache, ApiKinds};
use super::{ClusterApi, KubeError};
use crate::object::ObjectId;
use futures_util::future;
use std::sync::Arc;

impl ClusterApi {
    /// Returns the collection of that kind; `None` if the API does not serve the kind.
    pub(super) async fn find_collection(
        &self,
        id: &ObjectId,
        served: &ApiKindCache,
    ) -> Result<Option<ApiCollection>, ApiRequestError> {
        let Some(api_version) = self.resolve_version(&id.api_version).await? else { return Ok(None) };
        let kinds = self.list_kinds(&api_version, served).await?;
        Ok(kinds.and_then(|kinds| ApiCollection::find(&api_version, &kinds, &id.kind)))
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
        if let Some(known) = served.find(api_version) {
            return Ok(known);
        }
        let kinds = match self.try_request(self.query_kinds(api_version)).await {
            Ok(kinds) => Some(kinds),
            Err(refusal) if refusal.has_code(404) => None,
            Err(refusal) => return Err(refusal),
        };
        served.insert(api_version, kinds.clone());
        Ok(kinds)
    }

    /// Queries the kinds of an API version.
    pub(super) async fn query_kinds(&self, api_version: &str) -> ::kube::Result<ApiKinds> {
        let list = match api_version.contains('/') {
            true => self.client.list_api_group_resources(api_version).await?,
            false => self.client.list_core_api_resources(api_version).await?,
        };
        Ok(list.resources)
    }

    /// Returns the preferred API versions of the server.
    pub(super) async fn list_preferred_versions(&self) -> Result<Vec<String>, ApiRequestError> {
        let groups = self.try_request(self.client.list_api_groups()).await?;
        let preferred = groups.groups.into_iter().filter_map(|group| Some(group.preferred_version?.group_version));
        Ok(std::iter::once("v1".to_owned()).chain(preferred).collect())
    }

    /// Returns all kinds that the API serves, cached until [`clear_discovery`](Self::clear_discovery).
    pub(super) async fn discover_api(&self) -> Result<Arc<ApiDiscovery>, KubeError> {
        let mut served = self.found.served.lock().await;
        match &*served {
            Some(served) => Ok(served.clone()),
            None => Ok(served.insert(Arc::new(self.query_all_kinds().await?)).clone()),
        }
    }

    /// Drops the cached kinds: the API may serve other ones from now on.
    pub(super) async fn clear_discovery(&self) {
        *self.found.served.lock().await = None;
    }

    async fn query_all_kinds(&self) -> Result<ApiDiscovery, KubeError> {
        let (core, groups) = tokio::try_join!(
            self.send_request(self.client.list_core_api_versions()),
            self.send_request(self.client.list_api_groups())
        )?;
        let core = core.versions.into_iter().map(|version| async move {
            let kinds = self.send_request(self.query_kinds(&version)).await?;
            Ok::<_, KubeError>((version, Some(kinds)))
        });
        let core = future::try_join_all(core).await?;
        let versions = groups.groups.into_iter().flat_map(|group| group.versions).map(|version| version.group_version);
        let asked = versions.map(|version| async move {
            // A group whose own server is down affects only charts that need it.
            let kinds = self.send_request(self.query_kinds(&version)).await.ok();
            (version, kinds)
        });
        Ok(ApiDiscovery(future::join_all(asked).await.into_iter().chain(core).collect()))
    }
}
