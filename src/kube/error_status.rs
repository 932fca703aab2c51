//! Requests whose refusal by the API is a result, unlike no answer at all.

use super::api::LIST_PAGE_SIZE;
use super::{ClusterApi, KubeError};
use ::kube::core::Status;
use ::kube::{Api, Resource};
use serde::de::DeserializeOwned;
use std::fmt::Debug;

/// The status with which the server refused a request.
pub(super) type ApiErrorStatus = Box<Status>;

impl ClusterApi {
    /// Sends a request and returns the answer or the refusal of the server.
    pub(super) async fn request_or_status<T>(
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
        self.send_request(told).await
    }

    /// Converts a refusal into an error.
    pub(super) fn status_error(&self, no: ApiErrorStatus) -> KubeError {
        KubeError::from_client_error(self.server(), self.is_tunneled(), &::kube::Error::Api(no))
    }

    /// Lists all objects of a kind, or those that match the field selector `fields`.
    pub(super) async fn list_typed<K>(&self, api: &Api<K>, fields: Option<&str>) -> Result<Vec<K>, KubeError>
    where
        K: Resource + Clone + DeserializeOwned + Debug,
    {
        let mut params = ::kube::api::ListParams::default().limit(LIST_PAGE_SIZE);
        params.field_selector = fields.map(str::to_owned);
        let mut all = Vec::new();
        loop {
            let part = self.send_request(api.list(&params)).await?;
            all.extend(part.items);
            match part.metadata.continue_.filter(|token| !token.is_empty()) {
                Some(token) => params.continue_token = Some(token),
                None => return Ok(all),
            }
        }
    }
}
