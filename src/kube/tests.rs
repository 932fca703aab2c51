//! Nodes and evictions against servers with recorded responses.

use super::*;
use crate::artifact::server::{Reply, Request, Server};
use crate::model::SecretStore;
use crate::model::Value;
use crate::object::{ClusterAccess, ClusterNode, DEFAULT_NAMESPACE, ObjectDryRun, ObjectId, ObjectState};
use crate::probe::{Probe, ProbeReading};
use crate::transport::LockOwner;
use camino::Utf8PathBuf;
use serde_json::json;
use std::collections::BTreeSet;

pub(in crate::kube) fn json_reply(status: u16, body: &Value) -> Reply {
    let headers = vec![("Content-Type".to_owned(), "application/json".to_owned())];
    Reply { body: body.to_string().into_bytes(), headers, ..Reply::status(status) }
}

pub(in crate::kube) fn status_reply(code: u16, message: &str, details: Value) -> Reply {
    json_reply(
        code,
        &json!({ "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "message": message, "details": details }),
    )
}

/// Opens an API with these responses. Returns it with the server, which records the requests.
pub(in crate::kube) async fn start_api(
    answer: impl Fn(&Request) -> Reply + Send + Sync + 'static,
) -> (ClusterApi, Server) {
    start_api_in(DEFAULT_NAMESPACE, answer).await
}

/// Locks a cluster whose API stores what is written.
pub(in crate::kube) async fn lock_cluster(reader: &ClusterReader) -> ClusterWriter {
    let owner = LockOwner {
        run: "r1".to_owned(),
        user: "me".to_owned(),
        controller: "here".to_owned(),
        pid: 1,
        process: None,
        since: String::new(),
        what: "forge apply".to_owned(),
    };
    let Ok(writer) = reader.acquire_lock(&owner, || jiff::Timestamp::UNIX_EPOCH).await else { panic!("no lock") };
    writer
}

/// Like [`api`], for an inventory that sets the namespace of forge's objects.
async fn start_api_in(
    namespace: &str,
    answer: impl Fn(&Request) -> Reply + Send + Sync + 'static,
) -> (ClusterApi, Server) {
    let server = Server::start(answer);
    let folder = tempfile::tempdir().unwrap();
    let kubeconfig = Utf8PathBuf::from_path_buf(folder.path().join("config")).unwrap();
    let file = json!({
        "apiVersion": "v1", "kind": "Config",
        "clusters": [{ "name": "c", "cluster": { "server": server.url("") } }],
        "users": [{ "name": "u", "user": { "token": "hunter2" } }],
        "contexts": [{ "name": "test", "context": { "cluster": "c", "user": "u" } }],
    });
    std::fs::write(&kubeconfig, file.to_string()).unwrap();
    let access = ClusterAccess {
        kubeconfig,
        context: "test".to_owned(),
        trusted: false,
        via: None,
        withheld: Default::default(),
        namespace: namespace.to_owned(),
        retry_s: 0,
    };
    (ClusterApi::open(&access).await.unwrap(), server)
}

fn core_kinds_reply(resources: Value) -> Reply {
    json_reply(200, &json!({ "kind": "APIResourceList", "groupVersion": "v1", "resources": resources }))
}

fn eviction_kind(version: &str) -> Value {
    json!({
        "name": "pods/eviction", "singularName": "", "namespaced": true, "kind": "Eviction", "verbs": ["create"],
        "group": "policy", "version": version,
    })
}

async fn read_eviction_api(version: &'static str) -> EvictionApiVersion {
    start_api(move |_| core_kinds_reply(json!([eviction_kind(version)]))).await.0.find_eviction_api().await.unwrap()
}

fn sample_pod() -> Pod {
    Pod {
        namespace: "ml".to_owned(),
        name: "train-0".to_owned(),
        uid: "u-1".to_owned(),
        labels: [("app".to_owned(), "train".to_owned())].into(),
        ..Pod::default()
    }
}

#[tokio::test]
async fn eviction_api_version_is_read_from_discovery() {
    assert_eq!(read_eviction_api("v1").await.name(), "policy/v1");
    assert_eq!(read_eviction_api("v1beta1").await.name(), "policy/v1beta1");
    let (cluster, server) = start_api(|_| core_kinds_reply(json!([]))).await;
    let error = cluster.find_eviction_api().await.unwrap_err();
    assert_eq!(error.message, format!("`http://{}` does not support evictions", server.address));
}

#[tokio::test]
async fn eviction_request_targets_one_pod_by_uid() {
    let (cluster, server) = start_api(|_| json_reply(201, &json!({ "kind": "Status", "status": "Success" }))).await;
    let policy = read_eviction_api("v1").await;
    assert_eq!(cluster.evict_pod(&policy, &sample_pod(), Some(30)).await, Ok(EvictionOutcome::Taken));
    let asked = &server.asked()[0];
    assert_eq!((asked.method.as_str(), asked.path.as_str()), ("POST", "/api/v1/namespaces/ml/pods/train-0/eviction?"));
    let body: Value = serde_json::from_str(&asked.body).unwrap();
    let options = json!({ "preconditions": { "uid": "u-1" }, "gracePeriodSeconds": 30 });
    assert_eq!((&body["apiVersion"], &body["deleteOptions"]), (&json!("policy/v1"), &options));
}

#[tokio::test]
async fn eviction_replies_map_to_outcomes() {
    let budget = json!({ "causes": [{ "reason": "DisruptionBudget", "message": "The disruption budget b needs 1 healthy pods and has 1 currently" }] });
    let ending =
        json!({ "causes": [{ "reason": "NamespaceTerminating", "message": "namespace ml is being terminated" }] });
    let not_now = |why: &str| Ok(EvictionOutcome::NotNow(why.to_owned()));
    let cases = [
        (status_reply(404, "pods \"train-0\" not found", json!({})), Ok(EvictionOutcome::Gone)),
        (status_reply(409, "the UID in the precondition is another", json!({})), Ok(EvictionOutcome::Gone)),
        (
            status_reply(429, "Cannot evict pod", budget),
            not_now("The disruption budget b needs 1 healthy pods and has 1 currently"),
        ),
        (
            status_reply(429, "Too many requests, please try again later.", json!({})),
            not_now("Too many requests, please try again later"),
        ),
        (status_reply(403, "forbidden", ending), not_now("namespace ml is being terminated")),
    ];
    let policy = read_eviction_api("v1").await;
    for (reply, expected) in cases {
        let (cluster, server) = start_api(move |_| reply.clone()).await;
        assert_eq!(cluster.evict_pod(&policy, &sample_pod(), None).await, expected);
        assert_eq!(server.asked().len(), 1, "the caller decides on retries");
    }
    let (cluster, server) = start_api(|_| status_reply(500, "more than one budget", json!({}))).await;
    let error = cluster.evict_pod(&policy, &sample_pod(), None).await.unwrap_err();
    let said = format!("pod ml/train-0: `http://{}` returned 500: more than one budget", server.address);
    assert_eq!(error.message, said);
}

#[tokio::test]
async fn budgets_are_listed_in_the_served_policy_version() {
    let answer = |request: &Request| {
        let budget = |name: &str, selector: Value| json!({ "metadata": { "name": name }, "spec": { "selector": selector }, "status": { "disruptionsAllowed": 0 } });
        let items = [
            budget("same", json!({ "matchLabels": { "app": "train" } })),
            budget("other", json!({ "matchLabels": { "app": "x" } })),
            budget("any", json!({})),
        ];
        assert!(request.path.contains("/namespaces/ml/poddisruptionbudgets?"), "{}", request.path);
        json_reply(
            200,
            &json!({ "kind": "PodDisruptionBudgetList", "apiVersion": "policy/v1", "metadata": {}, "items": items }),
        )
    };
    for (version, expected) in [("v1", vec!["same", "any"]), ("v1beta1", vec!["same"])] {
        let (cluster, server) = start_api(answer).await;
        let found = cluster.list_pod_budgets(&read_eviction_api(version).await, &sample_pod()).await.unwrap();
        let names: Vec<&str> = found.iter().map(|budget| budget.name.as_str()).collect();
        assert_eq!(names, expected);
        assert!(server.asked()[0].path.starts_with(&format!("/apis/policy/{version}/")));
    }
}

#[tokio::test]
async fn node_patch_requires_the_resource_version_it_read() {
    let node = ClusterNode { name: "gpu-1".to_owned(), version: "42".to_owned(), ..ClusterNode::default() };
    let told = json!({ "apiVersion": "v1", "kind": "Node", "metadata": { "name": "gpu-1" } });
    let cases = [
        (json_reply(200, &told), NodePatchOutcome::Done),
        (status_reply(409, "the object has been modified", json!({})), NodePatchOutcome::Moved),
        (status_reply(404, "nodes \"gpu-1\" not found", json!({})), NodePatchOutcome::Gone),
    ];
    for (reply, expected) in cases {
        let (cluster, server) = start_api(move |_| reply.clone()).await;
        let patch = json!({ "spec": { "unschedulable": true } });
        assert_eq!(cluster.patch_node(&node, patch).await, Ok(expected));
        let asked = &server.asked()[0];
        assert_eq!((asked.method.as_str(), asked.path.as_str()), ("PATCH", "/api/v1/nodes/gpu-1?&fieldManager=forge"));
        let body: Value = serde_json::from_str(&asked.body).unwrap();
        assert_eq!(body, json!({ "spec": { "unschedulable": true }, "metadata": { "resourceVersion": "42" } }));
    }
    let (cluster, _server) = start_api(|_| status_reply(403, "nodes is forbidden", json!({}))).await;
    let error = cluster.patch_node(&node, json!({})).await.unwrap_err();
    assert_eq!(error.hint.as_deref(), Some("grant this permission to the user of this context"));
}

#[tokio::test]
async fn long_list_is_read_page_by_page() {
    let (cluster, server) = start_api(|request| {
        let node = |name: &str| json!({ "metadata": { "name": name } });
        let (rest, items) = match request.path.contains("continue=more") {
            false => ("more", vec![node("a"), node("b")]),
            true => ("", vec![node("c")]),
        };
        json_reply(
            200,
            &json!({ "kind": "NodeList", "apiVersion": "v1", "metadata": { "continue": rest }, "items": items }),
        )
    })
    .await;
    let names: Vec<String> = cluster.list_nodes().await.unwrap().into_iter().map(|node| node.name).collect();
    assert_eq!((names.join(" ").as_str(), server.asked().len()), ("a b c", 2));
    let (cluster, _server) = start_api(|_| status_reply(404, "nodes \"a\" not found", json!({}))).await;
    assert_eq!(cluster.find_node("a").await, Ok(None));
}

/// Responses of a server with a map in a namespace, written by `manager`.
fn with_map(namespace: &'static str, manager: &'static str) -> impl Fn(&Request) -> Reply + Send + Sync + 'static {
    let map = format!("/api/v1/namespaces/{namespace}/configmaps/forge-applied-lab");
    move |asked| match (asked.method.as_str(), asked.path.starts_with(&map)) {
        ("GET", true) => {
            let metadata =
                json!({ "name": "forge-applied-lab", "uid": "u-1", "managedFields": [{ "manager": manager }] });
            json_reply(
                200,
                &json!({ "kind": "ConfigMap", "metadata": metadata, "data": { "a.0123456789ab.json": "1" } }),
            )
        }
        ("GET", false) => status_reply(404, "not found", json!({})),
        _ => json_reply(200, &json!({ "kind": "Status", "status": "Success" })),
    }
}

#[tokio::test]
async fn records_in_the_former_namespace_are_read_and_moved() {
    let (cluster, server) = start_api(with_map("forge-system", "forge")).await;
    let found = cluster.read_own_object("ConfigMap", "forge-applied-lab").await.unwrap_or_default().expect("the map");
    assert_eq!(found["data"], json!({ "a.0123456789ab.json": "1" }));
    let moved = cluster.move_former_objects("lab").await.unwrap_or_default();
    assert_eq!(moved, ["ConfigMap forge-applied-lab from forge-system to forge-provisioner"]);
    let asked = server.asked();
    let changing: Vec<_> = asked.iter().filter(|asked| asked.method != "GET").collect();
    let told: Vec<_> =
        changing.iter().map(|asked| (asked.method.as_str(), asked.path.split('?').next().unwrap())).collect();
    assert_eq!(
        told,
        [
            ("POST", "/api/v1/namespaces/forge-provisioner/configmaps"),
            ("DELETE", "/api/v1/namespaces/forge-system/configmaps/forge-applied-lab"),
        ]
    );
    let written: Value = serde_json::from_str(&changing[0].body).unwrap();
    assert_eq!(written["data"], json!({ "a.0123456789ab.json": "1" }));
    assert!(changing[1].body.contains("u-1"), "{}", changing[1].body);
}

#[tokio::test]
async fn objects_of_other_products_are_left_alone() {
    let (cluster, server) = start_api(with_map("forge-system", "other-operator")).await;
    assert!(cluster.read_own_object("ConfigMap", "forge-applied-lab").await.is_ok_and(|found| found.is_none()));
    assert!(cluster.move_former_objects("lab").await.is_ok_and(|moved| moved.is_empty()));
    assert!(server.asked().iter().all(|asked| asked.method == "GET"));
}

/// Two inventories may give their clusters the same name: one uses the default namespace, the other names its own.
#[tokio::test]
async fn records_of_other_inventories_are_not_moved() {
    let (cluster, server) = start_api_in("team-b", with_map(DEFAULT_NAMESPACE, "forge")).await;
    assert!(cluster.read_own_object("ConfigMap", "forge-applied-lab").await.is_ok_and(|found| found.is_none()));
    assert!(cluster.move_former_objects("lab").await.is_ok_and(|moved| moved.is_empty()));
    assert!(server.asked().iter().all(|asked| asked.method == "GET" && !asked.path.contains(DEFAULT_NAMESPACE)));
    // Records of earlier versions move along wherever the inventory keeps its own.
    let (cluster, _server) = start_api_in("team-b", with_map("forge-system", "forge")).await;
    let moved = cluster.move_former_objects("lab").await.unwrap_or_default();
    assert_eq!(moved, ["ConfigMap forge-applied-lab from forge-system to team-b"]);
    // An inventory may keep its own records there.
    let (cluster, server) = start_api_in("forge-system", with_map(DEFAULT_NAMESPACE, "forge")).await;
    assert!(cluster.move_former_objects("lab").await.is_ok_and(|moved| moved.is_empty()));
    assert!(server.asked().iter().all(|asked| asked.method == "GET"));
}

/// The token controller of an API before 1.24 adds a Secret to a new ServiceAccount. If that happens between the read and
/// the dry run, an apply would not make the difference.
#[tokio::test]
async fn object_that_changes_before_its_dry_run_is_read_again() {
    let account = |version: &str, secrets: Value| {
        json!({
            "apiVersion": "v1", "kind": "ServiceAccount", "secrets": secrets,
            "metadata": { "name": "a", "namespace": "ml", "uid": "u-1", "resourceVersion": version },
        })
    };
    let kinds = json!([{ "name": "serviceaccounts", "singularName": "", "namespaced": true, "kind": "ServiceAccount", "verbs": ["get", "patch"] }]);
    let reads = std::sync::atomic::AtomicUsize::new(0);
    let (cluster, server) =
        start_api(move |asked| match (asked.method.as_str(), asked.path.contains("/serviceaccounts/")) {
            ("GET", true) if reads.fetch_add(1, std::sync::atomic::Ordering::Relaxed) == 0 => {
                json_reply(200, &account("1", json!([])))
            }
            (_, true) => json_reply(200, &account("2", json!([{ "name": "a-token-x" }]))),
            _ => core_kinds_reply(kinds.clone()),
        })
        .await;
    let id = ObjectId::from_object(&account("1", json!([]))).expect("an object");
    let want = json!({ "apiVersion": "v1", "kind": "ServiceAccount", "metadata": { "name": "a", "namespace": "ml" } });
    let probe = Probe::Object { id: Box::new(id), want: Some(want.to_string()) };
    let reader = ClusterReader::new(cluster, "lab");
    let answers = reader.observe_probes(&BTreeSet::from([probe]), &SecretStore::default()).await.unwrap();
    let Ok(ProbeReading::Object(ObjectState::Known(seen))) = &answers[0].1 else { panic!("{answers:?}") };
    assert_eq!(seen.dry, seen.live.clone().map(ObjectDryRun::Becomes));
    let asked: Vec<String> = server.asked().iter().map(|asked| asked.method.clone()).collect();
    assert_eq!(asked.iter().filter(|method| *method == "PATCH").count(), 2, "{asked:?}");
}
