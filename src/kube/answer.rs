//! Requests whose refusal by the API is a result, unlike no answer at all.

use super::api::PART;
use super::{ClusterApi, KubeError};
use ::kube::core::Status;
use ::kube::{Api, Resource};
use serde::de::DeserializeOwned;
use std::fmt::Debug;

/// The status with which the server refused a request.
pub(super) type ApiErrorStatus = Box<Status>;

impl ClusterApi {
    /// Sends a request and returns the answer or the refusal of the server.
    pub(super) async fn answer<T>(
        &self,
        question: impl Future<Output = ::kube::Result<T>>,
    ) -> Result<Result<T, ApiErrorStatus>, KubeError> {
        let told = async {
            match question.await {
                Ok(answer) => Ok(Ok(answer)),
                Err(::kube::Error::Api(no)) => Ok(Err(no)),
                Err(other) => Err(other),
            }
        };
        self.ask(told).await
    }

    /// Converts a refusal into an error.
    pub(super) fn refused(&self, no: ApiErrorStatus) -> KubeError {
        KubeError::of(self.server(), self.is_through(), &::kube::Error::Api(no))
    }

    /// Lists all objects of a kind, or those that match the field selector `fields`.
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
