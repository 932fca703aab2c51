//! The same live object is masked alike, whether a `manifest` or a `helm_release` declares it.

use super::{helm_release, manifest};
use crate::model::{SecretStore, Value};
use crate::object::{
    ChartInfo, ManifestObject, ObjectDrift, ObjectDryRun, ObjectInfo, ObjectState, Redactor, ReleaseInfo, ReleaseState,
    ReleaseStatus, find_added_fields, reveal_object, strip_server_fields,
};
use crate::probe::{Observation, ProbeReading};
use crate::resource::{Assessment, AssessmentContext, FieldValues, ResourceKind};
use secrecy::SecretString;
use serde_json::json;

/// A path, and whether its values are withheld.
type ShownField = (String, bool);

fn assess(kind: &ResourceKind, fields: FieldValues, reading: ProbeReading) -> Assessment {
    let resource = (kind.build)(&fields, false).unwrap();
    let mut seen = Observation::default();
    seen.insert(resource.probes().remove(0), Ok(reading));
    resource.assess(&seen, &AssessmentContext::default())
}

fn shown_fields(judgement: &Assessment, prefix: &str) -> Vec<ShownField> {
    let fields = judgement.changes.iter().map(|change| {
        assert!(!change.secret || change.from.is_none() && change.to.is_none() && change.diff.is_none());
        (change.attribute.strip_prefix(prefix).unwrap().to_owned(), change.secret)
    });
    let mut fields: Vec<ShownField> = fields.collect();
    fields.sort();
    fields
}

/// Returns what a plan shows of an object that `manifest` declares.
fn shown_by_manifest(live: &Value, declared: &Value, secrets: &SecretStore) -> Vec<ShownField> {
    let sent = reveal_object(declared, secrets);
    let added = find_added_fields(live, &sent, "forge", "forge", &sent);
    let added = added.iter().filter_map(|added| added.to_added_field(live)).collect();
    let becomes = strip_server_fields(apply_over(live, &sent));
    let (mut masked, mut becomes) = (Some(strip_server_fields(live.clone())), Some(becomes));
    Redactor::for_object(declared, Some(secrets)).mask_pair(&mut masked, &mut becomes);
    let dry = becomes.map(ObjectDryRun::Becomes);
    let info = ObjectInfo { live: masked, dry, added, ..ObjectInfo::default() };
    let fields = FieldValues([("objects", json!([declared]))].into_iter().collect());
    let reading = ProbeReading::Object(ObjectState::Known(Box::new(info)));
    shown_fields(&assess(&manifest::KIND, fields, reading), ".")
}

/// Returns what a plan shows of an object that the chart of a `helm_release` contains.
fn shown_by_release(live: &Value, declared: &Value, secrets: &SecretStore) -> Vec<ShownField> {
    let value = reveal_object(declared, secrets);
    let object = ManifestObject { text: value.to_string(), value: value.clone() };
    let drift = ObjectDrift::compare_live(&object, live, &apply_over(live, &value));
    let shown = drift.to_live_object(&object, "ns", live, secrets).unwrap();
    let (status, chart) = (ReleaseStatus::Deployed, ChartInfo { version: "1".to_owned(), ..ChartInfo::default() });
    let release = ReleaseInfo { status, version: "1".to_owned(), ours: true, ..ReleaseInfo::default() };
    let title = format!("{} ", shown.object);
    let state =
        ReleaseState { release: Some(release), chart: Some(chart), live: vec![shown], ..ReleaseState::default() };
    let fields = [("name", "r"), ("namespace", "ns"), ("path", "/c"), ("version", "1")];
    let fields = FieldValues(fields.map(|(key, value)| (key, json!(value))).into_iter().collect());
    shown_fields(&assess(&helm_release::KIND, fields, ProbeReading::Release(Box::new(state))), &title)
}

/// Returns the result of an apply: fields that are not declared stay.
fn apply_over(live: &Value, sent: &Value) -> Value {
    let (Value::Object(old), Value::Object(new)) = (live, sent) else { return sent.clone() };
    let mut merged = old.clone();
    for (key, value) in new {
        let value = old.get(key).map_or_else(|| value.clone(), |old| apply_over(old, value));
        merged.insert(key.clone(), value);
    }
    Value::Object(merged)
}

fn object(kind: &str, key: &str, content: Value) -> Value {
    let mut object = json!({ "apiVersion": "v1", "kind": kind, "metadata": { "name": "a", "namespace": "ns" } });
    object[key] = content;
    object
}

fn assert_shown(live: Value, declared: Value, expected: &[(&str, bool)]) {
    let mut secrets = SecretStore::default();
    secrets.insert("TOKEN", SecretString::from("hunter2".to_owned()));
    let expected: Vec<ShownField> = expected.iter().map(|(path, secret)| ((*path).to_owned(), *secret)).collect();
    assert_eq!(shown_by_manifest(&live, &declared, &secrets), expected, "manifest");
    assert_eq!(shown_by_release(&live, &declared, &secrets), expected, "helm_release");
}

fn placeholder() -> String {
    SecretStore::default().insert("TOKEN", SecretString::from("hunter2".to_owned())).0
}

#[test]
fn config_map_keys_with_secret_names_are_masked_in_both() {
    let map = |password: &str, mode: &str| object("ConfigMap", "data", json!({ "password": password, "mode": mode }));
    assert_shown(map("a", "x"), map("b", "y"), &[("data.mode", false), ("data.password", true)]);
}

#[test]
fn secret_values_are_masked_in_both() {
    let secret = |value: &str| object("Secret", "data", json!({ "plain": value }));
    assert_shown(secret("b2xk"), secret("bmV3"), &[("data.plain", true)]);
}

#[test]
fn environment_variables_with_secret_names_are_masked_in_both() {
    let pod = |password: &str, mode: &str| {
        let env = json!([{ "name": "DB_PASSWORD", "value": password }, { "name": "MODE", "value": mode }]);
        object("Pod", "spec", json!({ "containers": [{ "name": "main", "env": env }] }))
    };
    let path = |name: &str| format!("spec.containers[name=main].env[name={name}].value");
    let expected = [(path("DB_PASSWORD"), true), (path("MODE"), false)];
    assert_shown(pod("a", "x"), pod("b", "y"), &expected.each_ref().map(|(path, secret)| (path.as_str(), *secret)));
}

#[test]
fn declared_secrets_and_their_former_values_are_masked_in_both() {
    let pod = |entries: Value| object("Pod", "spec", json!({ "containers": [{ "name": "main", "env": entries }] }));
    let live = pod(json!([{ "name": "FORMER", "value": "hunter1" }, { "name": "MODE", "value": "x" }]));
    let declared = pod(json!([{ "name": "LOGIN", "value": placeholder() }, { "name": "MODE", "value": "y" }]));
    assert_shown(
        live,
        declared,
        &[
            ("spec.containers[name=main].env[name=FORMER]", true),
            ("spec.containers[name=main].env[name=LOGIN]", true),
            ("spec.containers[name=main].env[name=MODE].value", false),
        ],
    );
}

#[test]
fn fields_added_by_hand_are_found_and_masked_in_both() {
    let mut live = object("ConfigMap", "data", json!({ "mode": "x", "api-token": "a", "note": "b" }));
    live["metadata"]["managedFields"] = json!([
        { "manager": "kubectl-edit", "time": "2026-11-21T08:00:00Z", "fieldsV1": {
            "f:data": { "f:api-token": {}, "f:note": {}, "f:owned": {} } } },
        { "manager": "some-controller", "fieldsV1": { "f:data": { "f:owned": {} } } },
    ]);
    live["data"]["owned"] = json!("c");
    let declared = object("ConfigMap", "data", json!({ "mode": "x" }));
    assert_shown(live, declared, &[("data.api-token", true), ("data.note", false)]);
}
