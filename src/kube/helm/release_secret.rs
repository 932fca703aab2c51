//! The Secrets in which helm keeps the revisions of releases, through the API.
//!
//! helm always uses Secrets here: forge removes `HELM_DRIVER` from its environment.

use super::super::ClusterApi;
use super::super::KubeError;
use super::super::api::LIST_PAGE_SIZE;
use super::super::request_error::ApiRequestError;
use super::super::served_kinds::ApiCollection;
use super::flags::MANAGED_LABEL;
use crate::object::{ReleaseRecord, ReleaseStatus};
use ::kube::api::{GetParams, ListParams, ObjectList, PartialObjectMeta};
use k8s_openapi::api::core::v1::Secret;

/// The label of every Secret of helm.
const OWNER_SELECTOR: &str = "owner=helm";

/// Why Secrets do not answer.
pub(super) enum SecretReadError {
    /// The account may not read them, or they have a form that forge does not know. Helm decides then.
    Unreadable,
    /// The API did not answer.
    Away(KubeError),
}

impl From<ApiRequestError> for SecretReadError {
    fn from(refusal: ApiRequestError) -> Self {
        match refusal {
            ApiRequestError::Away(error) => Self::Away(error),
            ApiRequestError::Said { .. } | ApiRequestError::Rejected(_) | ApiRequestError::Local(_) => Self::Unreadable,
        }
    }
}

impl From<::kube::core::request::Error> for SecretReadError {
    fn from(_: ::kube::core::request::Error) -> Self {
        Self::Unreadable
    }
}

/// One revision of a release, by the labels of its Secret.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ListedRevision {
    pub namespace: String,
    /// The name of the release.
    pub name: String,
    pub revision: u64,
    pub status: ReleaseStatus,
    /// Whether forge installed or took over the release.
    pub ours: bool,
}

impl ListedRevision {
    /// Reads the labels; `None` if they are not those of a revision.
    fn from_labels(meta: &PartialObjectMeta<Secret>) -> Option<Self> {
        let labels = meta.metadata.labels.as_ref()?;
        Some(Self {
            namespace: meta.metadata.namespace.clone()?,
            name: labels.get("name")?.clone(),
            revision: labels.get("version")?.parse().ok()?,
            status: ReleaseStatus::from_name(labels.get("status")?),
            ours: labels.get(MANAGED_LABEL).is_some_and(|value| value == "true"),
        })
    }
}

fn secrets_place() -> ApiCollection {
    ApiCollection::new("v1", "secrets", true)
}

impl ClusterApi {
    /// Lists the revisions of one release, in any order.
    pub(super) async fn list_revisions(
        &self,
        namespace: &str,
        release: &str,
    ) -> Result<Vec<ListedRevision>, SecretReadError> {
        self.list_helm_secrets(Some(namespace), &format!("{OWNER_SELECTOR},name={release}")).await
    }

    /// Lists the revisions of all releases of all namespaces, in any order.
    pub(super) async fn list_all_revisions(&self) -> Result<Vec<ListedRevision>, SecretReadError> {
        self.list_helm_secrets(None, OWNER_SELECTOR).await
    }

    /// Lists metadata only: a record may have a megabyte, and only that of the last revision is needed.
    async fn list_helm_secrets(
        &self,
        namespace: Option<&str>,
        labels: &str,
    ) -> Result<Vec<ListedRevision>, SecretReadError> {
        let mut params = ListParams::default().labels(labels).limit(LIST_PAGE_SIZE);
        let mut all = Vec::new();
        loop {
            let request = secrets_place().collection_request(namespace).list_metadata(&params)?;
            let ask = self.client().request::<ObjectList<PartialObjectMeta<Secret>>>(request);
            let page = self.try_request(ask).await?;
            for secret in &page.items {
                all.push(ListedRevision::from_labels(secret).ok_or(SecretReadError::Unreadable)?);
            }
            params.continue_token = page.metadata.continue_.filter(|next| !next.is_empty());
            if params.continue_token.is_none() {
                return Ok(all);
            }
        }
    }

    /// Reads the record of a revision; `None` if it does not exist.
    pub(super) async fn read_release_record(
        &self,
        namespace: &str,
        release: &str,
        revision: u64,
    ) -> Result<Option<ReleaseRecord>, SecretReadError> {
        let name = format!("sh.helm.release.v1.{release}.v{revision}");
        let request = secrets_place().collection_request(Some(namespace)).get(&name, &GetParams::default())?;
        let secret = match self.try_request(self.client().request::<Secret>(request)).await {
            Err(refusal) if refusal.has_code(404) => return Ok(None),
            answer => answer?,
        };
        let data = secret.data.unwrap_or_default();
        let record = data.get("release").and_then(|release| ReleaseRecord::parse(&release.0).ok());
        record.map(Some).ok_or(SecretReadError::Unreadable)
    }
}
