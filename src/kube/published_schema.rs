//! The schema that the API publishes for its clients. It follows a changed definition after a moment, and helm refuses
//! objects with fields that it does not contain.

use super::ClusterApi;
use crate::model::Value;
use std::time::Duration;

/// Path of the schema of all kinds.
const SCHEMA_PATH: &str = "/openapi/v2";
/// How long the schema may take to follow a definition. The API's aggregator reads its parts anew every second and then
/// builds the document of all kinds, which takes longer on a busy server.
pub(super) const SCHEMA_TIMEOUT: Duration = Duration::from_secs(60);
/// How long the API may take to answer with its schema.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(15);
/// Time between two looks.
const SCHEMA_INTERVAL: Duration = Duration::from_millis(300);

/// One version of a kind, with its published schema.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct PublishedKind {
    group: String,
    version: String,
    kind: String,
    /// `None` if the API does not publish it.
    schema: Option<Value>,
}

/// The published schema, and its mark (`ETag`), which changes with it.
struct PublishedSchemas {
    mark: Option<String>,
    all: Value,
}

impl ClusterApi {
    /// Returns the published schemas of those versions of a kind whose schemas differ between two states of its CRD.
    pub(super) async fn read_changing_kinds(&self, changes: &[(Value, Value)]) -> Vec<PublishedKind> {
        let mut kinds: Vec<PublishedKind> =
            changes.iter().flat_map(|(from, to)| find_changing_kinds(from, to)).collect();
        if kinds.is_empty() {
            return kinds;
        }
        // A user who may not read the schema does not wait for it.
        let Some(published) = self.read_schemas(None).await else { return Vec::new() };
        kinds.iter_mut().for_each(|kind| kind.schema = published.find_schema(kind));
        kinds
    }

    /// Waits until the published schema of each of these kinds is another one, for `limit` at most. Returns the kinds
    /// for which it saw no other schema. Changes of other kinds, which other programs may make at any time, do not count.
    pub(super) async fn wait_for_new_schemas(&self, mut before: Vec<PublishedKind>, limit: Duration) -> Vec<String> {
        let wait = async {
            let mut mark = None;
            while !before.is_empty() {
                if let Some(published) = self.read_schemas(mark.as_deref()).await {
                    before.retain(|kind| published.find_schema(kind) == kind.schema);
                    mark = published.mark;
                }
                if !before.is_empty() {
                    tokio::time::sleep(SCHEMA_INTERVAL).await;
                }
            }
        };
        // The kinds left in the list when the time is over were not seen to change.
        let _ = tokio::time::timeout(limit, wait).await;
        before.into_iter().map(|kind| kind.kind).collect()
    }

    /// Reads the published schema; `None` if it still has this mark, or cannot be read.
    async fn read_schemas(&self, known: Option<&str>) -> Option<PublishedSchemas> {
        let mut request = http::Request::get(SCHEMA_PATH).header(http::header::ACCEPT, "application/json");
        if let Some(known) = known {
            request = request.header(http::header::IF_NONE_MATCH, known);
        }
        let request = request.body(::kube::client::Body::empty()).ok()?;
        let answer = tokio::time::timeout(ANSWER_TIMEOUT, self.client().send(request)).await.ok()?.ok()?;
        if !answer.status().is_success() {
            return None;
        }
        let mark = answer.headers().get(http::header::ETAG).and_then(|mark| mark.to_str().ok()).map(str::to_owned);
        let body = tokio::time::timeout(ANSWER_TIMEOUT, answer.into_body().collect_bytes()).await.ok()?.ok()?;
        Some(PublishedSchemas { mark, all: serde_json::from_slice(&body).ok()? })
    }
}

impl PublishedSchemas {
    fn find_schema(&self, kind: &PublishedKind) -> Option<Value> {
        let defines = |schema: &&Value| {
            let names = schema.get("x-kubernetes-group-version-kind").and_then(Value::as_array).into_iter().flatten();
            names.into_iter().any(|name| {
                let is = |key: &str, value: &str| name.get(key).and_then(Value::as_str) == Some(value);
                is("group", &kind.group) && is("version", &kind.version) && is("kind", &kind.kind)
            })
        };
        self.all.get("definitions")?.as_object()?.values().find(defines).cloned()
    }
}

/// Returns the versions of the kind whose schemas differ between two states of its CRD, without their published schemas.
fn find_changing_kinds(from: &Value, to: &Value) -> Vec<PublishedKind> {
    let text = |pointer: &str| to.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
    let versions = |definition: &'_ Value| definition.pointer("/spec/versions").and_then(Value::as_array).cloned();
    let old = versions(from).unwrap_or_default();
    let schema_before = |name: &Value| old.iter().find(|version| version.get("name") == Some(name))?.get("schema");
    let changing = versions(to).unwrap_or_default().into_iter().filter_map(|version| {
        let name = version.get("name")?;
        let is_served = version.get("served") == Some(&Value::Bool(true));
        (is_served && version.get("schema") != schema_before(name)).then(|| name.as_str().map(str::to_owned))?
    });
    let kind =
        |version| PublishedKind { group: text("/spec/group"), version, kind: text("/spec/names/kind"), schema: None };
    changing.map(kind).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kube::tests::{json_reply, start_api, status_reply};
    use serde_json::json;
    use std::sync::atomic::{AtomicUsize, Ordering};

    fn definition(fields: &Value) -> Value {
        json!({ "spec": { "group": "test.forge", "names": { "kind": "Gadget" }, "versions": [
            { "name": "v1", "served": true, "schema": { "openAPIV3Schema": fields } },
            { "name": "v2", "served": true, "schema": {} },
        ]}})
    }

    fn published(gadget: &Value, other: usize) -> Value {
        let name = |kind: &str| json!([{ "group": "test.forge", "version": "v1", "kind": kind }]);
        json!({ "definitions": {
            "forge.test.v1.Gadget": { "properties": gadget, "x-kubernetes-group-version-kind": name("Gadget") },
            "forge.test.v1.Other": { "properties": other, "x-kubernetes-group-version-kind": name("Other") },
        }})
    }

    #[tokio::test]
    async fn wait_ends_once_the_schema_of_the_kind_changes_and_not_before() {
        let asked = AtomicUsize::new(0);
        let (cluster, server) = start_api(move |_| {
            // Another kind changes with each answer.
            let round = asked.fetch_add(1, Ordering::Relaxed);
            let mut reply = json_reply(200, &published(&json!({ "new": round > 3 }), round));
            reply.headers.push(("ETag".to_owned(), format!("\"{round}\"")));
            reply
        })
        .await;
        let kinds = cluster.read_changing_kinds(&[(definition(&json!(1)), definition(&json!(2)))]).await;
        assert_eq!(kinds.len(), 1, "only v1 differs: {kinds:?}");
        assert_eq!(kinds[0].schema.as_ref().unwrap()["properties"], json!({ "new": false }));
        assert_eq!(cluster.wait_for_new_schemas(kinds, SCHEMA_TIMEOUT).await, [""; 0]);
        assert_eq!(server.asked().len(), 5);
    }

    #[tokio::test]
    async fn kinds_whose_schema_stays_the_old_one_are_returned() {
        let (cluster, _server) = start_api(|_| json_reply(200, &published(&json!({}), 0))).await;
        let kinds = cluster.read_changing_kinds(&[(definition(&json!(1)), definition(&json!(2)))]).await;
        assert_eq!(cluster.wait_for_new_schemas(kinds, Duration::from_millis(100)).await, ["Gadget"]);
    }

    #[tokio::test]
    async fn unchanged_or_denied_schema_is_not_waited_for() {
        let (cluster, server) = start_api(|_| status_reply(403, "forbidden", json!({}))).await;
        assert_eq!(cluster.read_changing_kinds(&[(definition(&json!(1)), definition(&json!(1)))]).await, []);
        assert_eq!(server.asked().len(), 0);
        assert_eq!(cluster.read_changing_kinds(&[(definition(&json!(1)), definition(&json!(2)))]).await, []);
        assert_eq!(cluster.wait_for_new_schemas(Vec::new(), SCHEMA_TIMEOUT).await, [""; 0]);
    }
}
