//! Questions to the cluster's API.

use super::{Access, KubeError};
use ::kube::Client;
use k8s_openapi::api::authorization::v1::{ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec};
use std::time::Duration;

/// The limit of one question.
const LIMIT: Duration = Duration::from_secs(20);

/// The API of one cluster, as one user.
#[derive(Clone)]
pub struct Cluster {
    client: Client,
    server: String,
}

/// Something that the user may do, or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Right {
    /// `get`, `patch` …, `*` for each.
    pub verb: &'static str,
    /// `*` for each.
    pub group: &'static str,
    /// In the plural; `*` for each.
    pub resource: &'static str,
}

impl Cluster {
    /// Makes ready to ask. Nothing is contacted yet, but a login's program may run.
    ///
    /// # Errors
    /// If the kubeconfig does not say how, or holds a key that cannot be used.
    pub async fn open(access: &Access) -> Result<Self, KubeError> {
        let config = access.config().await?;
        let server = config.cluster_url.to_string().trim_end_matches('/').to_owned();
        let client = Client::try_from(config).map_err(|error| KubeError::of(&server, &error))?;
        Ok(Self { client, server })
    }

    /// Returns the address.
    pub fn server(&self) -> &str {
        &self.server
    }

    /// Asks for the version of the API server: `v1.33.1`.
    ///
    /// # Errors
    /// If it does not answer in time, or refuses.
    pub async fn version(&self) -> Result<String, KubeError> {
        self.ask(self.client.apiserver_version()).await.map(|version| version.git_version)
    }

    /// Asks whether the user may do something in every namespace. Nothing is written by that.
    ///
    /// # Errors
    /// If it does not answer in time, or does not know the user.
    pub async fn may(&self, right: Right) -> Result<bool, KubeError> {
        let review = SelfSubjectAccessReview { spec: spec(right), ..SelfSubjectAccessReview::default() };
        let api: ::kube::Api<SelfSubjectAccessReview> = ::kube::Api::all(self.client.clone());
        let answer = self.ask(api.create(&::kube::api::PostParams::default(), &review)).await?;
        Ok(answer.status.is_some_and(|status| status.allowed))
    }

    async fn ask<T>(&self, question: impl Future<Output = ::kube::Result<T>>) -> Result<T, KubeError> {
        match tokio::time::timeout(LIMIT, question).await {
            Ok(answer) => answer.map_err(|error| KubeError::of(&self.server, &error)),
            Err(_) => Err(KubeError::new(format!("`{}` did not answer within {} s", self.server, LIMIT.as_secs()))),
        }
    }
}

fn spec(right: Right) -> SelfSubjectAccessReviewSpec {
    let attributes = ResourceAttributes {
        verb: Some(right.verb.to_owned()),
        group: Some(right.group.to_owned()),
        resource: Some(right.resource.to_owned()),
        ..ResourceAttributes::default()
    };
    SelfSubjectAccessReviewSpec { resource_attributes: Some(attributes), ..SelfSubjectAccessReviewSpec::default() }
}
