//! `secret`: a Secret of the cluster, with values that are never shown.

use crate::diag::Diag;
use crate::model::{DisruptionClass, UndoEffect, Value};
use crate::object::ObjectId;
use crate::probe::{Observation, Probe};
use crate::resource::cluster::object::{
    DeclaredObject, DesiredObjects, ObjectsDiff, assess_objects, object_claim, obsolete_probes,
};
use crate::resource::shared::support::{bad_value, required_text};
use crate::resource::traits::KindTraits;
use crate::resource::{
    Action, Assessment, AssessmentContext, DeclaredResource, FieldSpec, FieldType, FieldValues, ProvidedItem, Resource,
    ResourceKind, TypedResource,
};
use base64::Engine as _;
use serde_json::{Map, json};

pub(in crate::resource) const KIND: ResourceKind = ResourceKind {
    name: "secret",
    summary: "A Secret of the cluster: keys and their values, which are never shown.",
    example: include_str!("../examples/secret.yaml"),
    doc: "\
Runs through the cluster's API (see [`forge explain cluster`](../../cluster.md)), not on a host.

**Compared** is the result of a server-side dry-run apply as `forge`, as for a [manifest](manifest.md). For values, the
output shows only whether they differ. Plans, journals and records contain no values, and forge sends them to the API
over TLS, never as an argument or a file. A key that is no longer declared is removed; an undeclared key that was added
with `kubectl` or another interactive tool is removed too.

Declare values as parameters of the type `secret`. A value that is written directly in a recipe is masked too, but
everyone who can read the recipe can read it.

**Removal** deletes the Secret.",
    fields: FIELDS,
    build,
    traits: KindTraits::IN_CLUSTER,
};

const FIELDS: &[FieldSpec] = &[
    FieldSpec::required("name", FieldType::Name, "Name of the Secret."),
    FieldSpec::required(
        "namespace",
        FieldType::Name,
        "Its namespace. It must exist, or an earlier step must create it.",
    ),
    FieldSpec::optional("values", FieldType::Map(&FieldType::Text), "Keys with their values as text.")
        .passing_secrets(),
    FieldSpec::optional(
        "data",
        FieldType::Map(&FieldType::Text),
        "Keys with their values in base64, for binary values. Declare a key either here or in `values`.",
    )
    .passing_secrets(),
    FieldSpec::optional(
        "type",
        FieldType::Line,
        "Type of the Secret: `kubernetes.io/dockerconfigjson`, `kubernetes.io/tls` … Default `Opaque`. \
         The API does not allow changing it later.",
    ),
    FieldSpec::optional("labels", FieldType::Map(&FieldType::Text), "Labels of the Secret."),
    FieldSpec::optional("annotations", FieldType::Map(&FieldType::Text), "Annotations of the Secret."),
];

/// Required keys of each type of Secret.
const REQUIRED_KEYS: [(&str, &[&str]); 4] = [
    ("kubernetes.io/dockerconfigjson", &[".dockerconfigjson"]),
    ("kubernetes.io/tls", &["tls.crt", "tls.key"]),
    ("kubernetes.io/basic-auth", &[]),
    ("kubernetes.io/ssh-auth", &["ssh-privatekey"]),
];

#[derive(Debug)]
struct SecretResource {
    declared: DeclaredObject,
    absent: bool,
}

fn build(fields: &FieldValues, absent: bool) -> Result<Box<dyn Resource>, Diag> {
    let (name, namespace) = (required_text(fields, "name")?, required_text(fields, "namespace")?);
    let id = ObjectId {
        api_version: "v1".to_owned(),
        kind: "Secret".to_owned(),
        namespace: Some(namespace.to_owned()),
        name: name.to_owned(),
    };
    let mut metadata = Map::from_iter([("name".to_owned(), json!(name)), ("namespace".to_owned(), json!(namespace))]);
    for part in ["labels", "annotations"] {
        if let Some(map) = fields.get_table(part).filter(|map| !map.is_empty()) {
            metadata.insert(part.to_owned(), Value::Object(map.clone()));
        }
    }
    let (values, data) =
        (fields.get_text_map("values").unwrap_or_default(), fields.get_text_map("data").unwrap_or_default());
    let kind = fields.get_text("type").unwrap_or("Opaque");
    let mut object = json!({ "apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": kind });
    if !absent {
        check_values(&id, kind, &values, &data)?;
    }
    for (part, pairs) in [("stringData", values), ("data", data)] {
        if !pairs.is_empty() {
            object[part] = pairs.into_iter().map(|(key, value)| (key, json!(value))).collect::<Map<_, _>>().into();
        }
    }
    Ok(Box::new(SecretResource { declared: DeclaredObject { id, object }, absent }))
}

type SecretPairs = [(String, String)];

fn check_values(id: &ObjectId, kind: &str, values: &SecretPairs, data: &SecretPairs) -> Result<(), Diag> {
    let has = |key: &str| values.iter().chain(data).any(|(known, _)| known == key);
    if values.is_empty() && data.is_empty() {
        return Err(bad_value(format!("{id} has no values")).hint("set `values`: a map of keys to texts"));
    }
    if let Some((key, _)) = data.iter().find(|(key, _)| values.iter().any(|(other, _)| other == key)) {
        return Err(bad_value(format!("`{key}` of {id} is in both `values` and `data`")));
    }
    let needed = REQUIRED_KEYS.iter().find(|(known, _)| *known == kind).map_or(&[][..], |(_, keys)| keys);
    if let Some(lacking) = needed.iter().find(|key| !has(key)) {
        return Err(bad_value(format!("{id} has type `{kind}` and needs the key `{lacking}`")));
    }
    let bytes = |text: &str| base64::engine::general_purpose::STANDARD.decode(text).is_ok();
    match data.iter().find(|(_, text)| !crate::model::SecretStore::has_placeholder(text) && !bytes(text)) {
        Some((key, _)) => Err(bad_value(format!("`{key}` of {id} is not base64")).hint("declare text in `values`")),
        None => Ok(()),
    }
}

impl DeclaredResource for SecretResource {
    fn kind(&self) -> &'static str {
        KIND.name
    }

    fn title(&self) -> String {
        self.declared.id.to_string()
    }

    fn probes(&self) -> Vec<Probe> {
        vec![self.declared.probe()]
    }

    fn obsolete_probes(&self, record: &Value) -> Vec<Probe> {
        obsolete_probes(record, std::slice::from_ref(&self.declared))
    }

    fn desired_value(&self) -> Value {
        let mut desired = json!({ "object": self.declared.record_value() });
        if self.absent {
            desired = json!({ "object": self.declared.id.to_claim(), "absent": true });
        }
        desired
    }

    fn provided_items(&self) -> Vec<ProvidedItem> {
        if self.absent { Vec::new() } else { self.declared.provided_items() }
    }

    fn exclusive_claims(&self) -> Vec<(&'static str, String)> {
        vec![object_claim(&self.declared.id)]
    }
}

impl TypedResource for SecretResource {
    type Diff = ObjectsDiff;

    fn diff(&self, seen: &Observation, cx: &AssessmentContext<'_>) -> Assessment<ObjectsDiff> {
        let objects = std::slice::from_ref(&self.declared);
        assess_objects(
            &DesiredObjects {
                objects,
                absent: self.absent,
                wait: None,
                disruption: DisruptionClass::D0,
                keeps_additions: false,
            },
            seen,
            cx,
        )
    }

    fn act(&self, diff: &ObjectsDiff, _cx: &AssessmentContext<'_>) -> Action {
        Action::Calls(diff.build_calls(std::slice::from_ref(&self.declared)))
    }

    fn undo(&self, diff: &ObjectsDiff) -> UndoEffect {
        diff.derive_undo()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn build_secret(more: Value) -> Result<Box<dyn Resource>, Diag> {
        let mut fields = json!({ "name": "token", "namespace": "web" });
        fields.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let known = |key: &String| FIELDS.iter().find(|field| field.name == key).unwrap().name;
        let fields = fields.as_object().unwrap().iter().map(|(k, v)| (known(k), v.clone())).collect();
        build(&FieldValues(fields), false)
    }

    fn build_error(more: Value) -> String {
        build_secret(more).unwrap_err().message
    }

    #[test]
    fn invalid_secret_fields_are_rejected() {
        assert_eq!(build_error(json!({})), "Secret web/token has no values");
        let twice = json!({ "values": { "a": "1" }, "data": { "a": "MQ==" } });
        assert_eq!(build_error(twice), "`a` of Secret web/token is in both `values` and `data`");
        assert_eq!(build_error(json!({ "data": { "a": "hello!" } })), "`a` of Secret web/token is not base64");
        let tls = json!({ "type": "kubernetes.io/tls", "values": { "tls.crt": "x" } });
        assert_eq!(build_error(tls), "Secret web/token has type `kubernetes.io/tls` and needs the key `tls.key`");
    }

    #[test]
    fn desired_value_does_not_contain_secret_values() {
        let secret = build_secret(json!({ "values": { "a": "hunter2" } })).unwrap();
        assert!(!secret.desired_value().to_string().contains("hunter2"));
        assert_eq!(secret.title(), "Secret web/token");
    }
}
