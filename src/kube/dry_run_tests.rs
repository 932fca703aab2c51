//! Dry runs of objects against servers with recorded responses.

use super::ClusterReader;
use super::tests::{json_reply, start_api, status_reply};
use crate::artifact::server::{Reply, Request, Server};
use crate::model::{SecretStore, Value};
use crate::object::{ObjectId, ObjectInfo, ObjectState};
use crate::probe::{Probe, ProbeReading, UnansweredReason};
use serde_json::json;
use std::collections::BTreeSet;

/// Fields of the object that forge set, and those that a user added.
fn managed_fields(added: &[&str]) -> Value {
    let fields = |names: &[&str]| -> Value {
        let data: serde_json::Map<String, Value> = names.iter().map(|name| (format!("f:{name}"), json!({}))).collect();
        json!({ "f:data": data })
    };
    json!([
        { "manager": "forge", "operation": "Apply", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": fields(&["x"]) },
        { "manager": "kubectl-edit", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": fields(added) },
    ])
}

fn config_map(added: &[&str]) -> Value {
    let mut data = json!({ "x": "1" });
    added.iter().for_each(|name| data[*name] = json!("by hand"));
    json!({
        "apiVersion": "v1", "kind": "ConfigMap", "data": data,
        "metadata": { "name": "a", "namespace": "web", "uid": "u-1", "resourceVersion": "1", "managedFields": managed_fields(added) },
    })
}

fn pod(env: &[&str]) -> Value {
    let env: Vec<Value> = env.iter().map(|name| json!({ "name": name, "value": "1" })).collect();
    json!({
        "apiVersion": "v1", "kind": "Pod", "spec": { "containers": [{ "name": "main", "env": env }] },
        "metadata": { "name": "a", "namespace": "web", "uid": "u-1", "resourceVersion": "1" },
    })
}

fn kinds_reply() -> Reply {
    let kind = |name: &str, kind: &str| json!({ "name": name, "singularName": "", "namespaced": true, "kind": kind, "verbs": ["get", "patch"] });
    let kinds = [kind("configmaps", "ConfigMap"), kind("pods", "Pod")];
    json_reply(200, &json!({ "kind": "APIResourceList", "groupVersion": "v1", "resources": kinds }))
}

/// Observes the object with which `live` is declared as `want`. `apply` and `replace` answer the dry runs.
async fn observe_object(
    want: &Value,
    live: &Value,
    apply: &Value,
    replace: impl Fn(&Value) -> Reply + Send + Sync + 'static,
) -> (Result<ObjectInfo, UnansweredReason>, Server) {
    let id = ObjectId::from_object(want).unwrap();
    let (live, apply) = (live.clone(), apply.clone());
    let answer = move |asked: &Request| match (asked.method.as_str(), asked.path.contains("/namespaces/web/")) {
        ("GET", true) => json_reply(200, &live),
        ("PATCH", true) => json_reply(200, &apply),
        ("PUT", true) => replace(&serde_json::from_str(&asked.body).unwrap()),
        ("POST", _) => json_reply(201, &json!({ "metadata": {}, "spec": {}, "status": { "allowed": true } })),
        _ => kinds_reply(),
    };
    let (cluster, server) = start_api(answer).await;
    let probe = Probe::Object { id: Box::new(id), want: Some(want.to_string()) };
    let reader = ClusterReader::new(cluster, "lab");
    let mut answers = reader.observe_probes(&BTreeSet::from([probe]), &SecretStore::default()).await.unwrap();
    let seen = match answers.remove(0).1 {
        Ok(ProbeReading::Object(ObjectState::Known(info))) => Ok(*info),
        Err(why) => Err(why),
        other => panic!("{other:?}"),
    };
    (seen, server)
}

fn count_replacements(server: &Server) -> usize {
    server.asked().iter().filter(|asked| asked.method == "PUT").count()
}

async fn observe_additions(
    added: &[&str],
    replace: impl Fn(&Value) -> Reply + Send + Sync + 'static,
) -> (Result<ObjectInfo, UnansweredReason>, Server) {
    let want = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "a", "namespace": "web" }, "data": { "x": "1" } });
    let live = config_map(added);
    observe_object(&want, &live, &live, replace).await
}

fn invalid_reply(field: &str, reason: &str) -> Reply {
    let causes = json!({ "causes": [{ "field": field, "reason": reason, "message": "not so" }] });
    status_reply(422, "a is invalid", causes)
}

#[tokio::test]
async fn single_field_that_cannot_be_removed_is_tried_once() {
    let (seen, server) = observe_additions(&["y"], |_| invalid_reply("data", "FieldValueForbidden")).await;
    let seen = seen.unwrap();
    assert_eq!((seen.refused.len(), seen.untried, count_replacements(&server)), (1, 0, 1));
    assert_eq!((seen.stuck.as_deref(), seen.fixed.as_slice()), (Some("a is invalid"), ["data".to_owned()].as_slice()));
}

#[tokio::test]
async fn fields_beyond_the_limit_are_counted() {
    let names: Vec<String> = (0..25).map(|n| format!("y{n:02}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let (seen, server) = observe_additions(&names, |_| invalid_reply("data", "FieldValueInvalid")).await;
    let seen = seen.unwrap();
    assert_eq!((seen.refused.len(), seen.untried, count_replacements(&server)), (20, 5, 21));
    assert!(seen.fixed.is_empty());
}

/// A busy API says nothing about the field.
#[tokio::test]
async fn error_of_the_api_is_not_a_refusal_of_the_removal() {
    for (code, message) in [(429, "too many requests"), (500, "etcd timed out"), (503, "shutting down")] {
        for added in [&["y"][..], &["y", "z"]] {
            let (seen, _server) = observe_additions(added, move |_| status_reply(code, message, json!({}))).await;
            let why = seen.unwrap_err().why;
            assert!(why.contains(message), "{code}: {why}");
        }
    }
}

/// A webhook sorts the variables of every object that it sees.
#[tokio::test]
async fn order_that_a_webhook_restores_is_not_a_difference() {
    let want = pod(&["b", "a"]);
    let sorted = |_: &Value| json_reply(200, &pod(&["a", "b"]));
    // The webhook has sorted the live object, or will do so with the next change.
    for live in [pod(&["a", "b"]), pod(&["b", "a"])] {
        let (seen, _server) = observe_object(&want, &live, &pod(&["a", "b"]), sorted).await;
        assert_eq!(seen.unwrap().orders, [], "{live}");
    }
}

/// One list is sorted by a webhook, and the apply appends to the other one.
#[tokio::test]
async fn order_after_the_apply_is_seen_next_to_one_that_a_webhook_restores() {
    let with_init = |env: &[&str], init: &[&str]| {
        let mut pod = pod(env);
        pod["spec"]["initContainers"] = init.iter().map(|name| json!({ "name": name })).collect();
        pod
    };
    let want = with_init(&["b", "a"], &["one", "two"]);
    let (live, applied) = (with_init(&["a", "b"], &["two"]), with_init(&["a", "b"], &["two", "one"]));
    let sort = |sent: &Value| {
        let mut kept = sent.clone();
        kept["spec"]["containers"][0]["env"] = pod(&["a", "b"])["spec"]["containers"][0]["env"].clone();
        json_reply(200, &kept)
    };
    let (seen, _server) = observe_object(&want, &live, &applied, sort).await;
    let orders = seen.unwrap().orders;
    assert_eq!(orders.len(), 1, "{orders:?}");
    assert_eq!((orders[0].field.as_str(), orders[0].after_apply), (".spec.initContainers", true));
}
