//! The schema that the API publishes for its clients. It follows a changed definition after a moment, and helm refuses
//! objects with fields that it does not contain.

use super::ClusterApi;
use std::time::Duration;

/// Path of the schema of all kinds.
const SCHEMA_PATH: &str = "/openapi/v2";
/// How long the schema may take to follow a definition: the API's aggregator reads its parts anew every second.
const SCHEMA_TIMEOUT: Duration = Duration::from_secs(15);
/// Time between two looks.
const SCHEMA_INTERVAL: Duration = Duration::from_millis(300);

impl ClusterApi {
    /// Returns the mark of the published schema (its `ETag`), which changes with it; `None` if the API does not tell one to
    /// this user.
    pub(super) async fn read_schema_mark(&self) -> Option<String> {
        let request = http::Request::get(SCHEMA_PATH).body(::kube::client::Body::empty()).ok()?;
        // The body has megabytes, and is dropped unread.
        let answer = tokio::time::timeout(SCHEMA_TIMEOUT, self.client().send(request)).await.ok()?.ok()?;
        let mark = answer.headers().get(http::header::ETAG).filter(|_| answer.status().is_success())?;
        mark.to_str().ok().map(str::to_owned)
    }

    /// Waits until the published schema is another one than at `before`, for 15 seconds at most. Returns at once if the API
    /// tells no mark.
    pub(super) async fn wait_for_new_schema(&self, before: Option<String>) {
        if before.is_none() {
            return;
        }
        let wait = async {
            while self.read_schema_mark().await == before {
                tokio::time::sleep(SCHEMA_INTERVAL).await;
            }
        };
        if tokio::time::timeout(SCHEMA_TIMEOUT, wait).await.is_err() {
            tracing::debug!("the published schema did not change");
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::kube::tests::{json_reply, start_api, status_reply};
    use serde_json::json;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[tokio::test]
    async fn wait_ends_once_the_mark_changes() {
        let asked = AtomicUsize::new(0);
        let (cluster, _server) = start_api(move |_| {
            let mark = if asked.fetch_add(1, Ordering::Relaxed) < 3 { "\"one\"" } else { "\"two\"" };
            let mut reply = json_reply(200, &json!({}));
            reply.headers.push(("ETag".to_owned(), mark.to_owned()));
            reply
        })
        .await;
        let before = cluster.read_schema_mark().await;
        assert_eq!(before.as_deref(), Some("\"one\""));
        cluster.wait_for_new_schema(before).await;
        assert_eq!(cluster.read_schema_mark().await.as_deref(), Some("\"two\""));
    }

    #[tokio::test]
    async fn schema_that_is_denied_is_not_waited_for() {
        let (cluster, _server) = start_api(|_| status_reply(403, "forbidden", json!({}))).await;
        let before = cluster.read_schema_mark().await;
        assert_eq!(before, None);
        cluster.wait_for_new_schema(before).await;
    }
}
