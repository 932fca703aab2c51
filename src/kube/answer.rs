//! Answers of the API that say no, told apart from none at all.

use super::api::PART;
use super::{Cluster, KubeError};
use ::kube::core::Status;
use ::kube::{Api, Resource};
use serde::de::DeserializeOwned;
use std::fmt::Debug;

/// What the server said in the place of what was asked for.
pub(super) type No = Box<Status>;

impl Cluster {
    /// Asks, and returns what the server said, be it no.
    pub(super) async fn answer<T>(
        &self,
        question: impl Future<Output = ::kube::Result<T>>,
    ) -> Result<Result<T, No>, KubeError> {
        let told = async {
            match question.await {
                Ok(answer) => Ok(Ok(answer)),
                Err(::kube::Error::Api(no)) => Ok(Err(no)),
                Err(other) => Err(other),
            }
        };
        self.ask(told).await
    }

    /// Returns a no as what keeps one from going on.
    pub(super) fn refused(&self, no: No) -> KubeError {
        KubeError::of(self.server(), false, &::kube::Error::Api(no))
    }

    /// Lists all objects of a kind, or those whose `fields` are such.
    pub(super) async fn listed<K>(&self, api: &Api<K>, fields: Option<&str>) -> Result<Vec<K>, KubeError>
    where
        K: Resource + Clone + DeserializeOwned + Debug,
    {
        let mut params = ::kube::api::ListParams::default().limit(PART);
        params.field_selector = fields.map(str::to_owned);
        let mut all = Vec::new();
        loop {
            let part = self.ask(api.list(&params)).await?;
            all.extend(part.items);
            match part.metadata.continue_.filter(|token| !token.is_empty()) {
                Some(token) => params.continue_token = Some(token),
                None => return Ok(all),
            }
        }
    }
}
