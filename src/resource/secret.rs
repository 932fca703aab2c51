//! `secret`: a Secret of the cluster, from values that nobody else sees.

use super::object::{Declared, Want, claim, former, judge};
use super::support::{bad_value, required};
use super::{Action, Context, Field, Fields, Judgement, Kind, Provision, Resource, Type};
use crate::diag::Diag;
use crate::model::{Disruption, Value};
use crate::probe::{ObjectId, Observation, Probe};
use base64::Engine as _;
use serde_json::{Map, json};

pub(super) const KIND: Kind = Kind {
    name: "secret",
    summary: "A Secret of the cluster: keys and their values, which nobody else sees.",
    example: include_str!("examples/secret.yaml"),
    doc: "\
Runs through the cluster's API (see [`forge explain cluster`](../../cluster.md)), on no host.

**Compared** is what the API says that a server-side apply as `forge` would come to, as for a [manifest](manifest.md). Of values only is told
whether they differ; plans, journals and records hold none of them, and the API gets them over TLS, never as an argument or a file. A key that
is not declared any more goes; one that somebody added with `kubectl` or another tool for people is found and taken out.

A value belongs into a parameter of the type `secret`. One that is written in a recipe as it is, is masked all the same, but whoever reads the
recipe reads it.

**Removal** deletes it.",
    fields: FIELDS,
    build,
};

const FIELDS: &[Field] = &[
    Field::required("name", Type::Name, "Name of the Secret."),
    Field::required("namespace", Type::Name, "Its namespace; it must exist, or an earlier step make it."),
    Field::optional("values", Type::Map(&Type::Text), "Keys with their text, as those who use it read it."),
    Field::optional(
        "data",
        Type::Map(&Type::Text),
        "Keys with their bytes in base64, for what is no text. A key stands in `values` or here.",
    ),
    Field::optional(
        "type",
        Type::Line,
        "What others take it for: `kubernetes.io/dockerconfigjson`, `kubernetes.io/tls` … Default `Opaque`. The API lets nobody change it later.",
    ),
    Field::optional("labels", Type::Map(&Type::Text), "Labels it has."),
    Field::optional("annotations", Type::Map(&Type::Text), "Annotations it has."),
];

/// Keys without which a Secret of a type is of no use.
const NEEDED: [(&str, &[&str]); 4] = [
    ("kubernetes.io/dockerconfigjson", &[".dockerconfigjson"]),
    ("kubernetes.io/tls", &["tls.crt", "tls.key"]),
    ("kubernetes.io/basic-auth", &[]),
    ("kubernetes.io/ssh-auth", &["ssh-privatekey"]),
];

#[derive(Debug)]
struct Secret {
    declared: Declared,
    absent: bool,
}

fn build(fields: &Fields, absent: bool) -> Result<Box<dyn Resource>, Diag> {
    let (name, namespace) = (required(fields, "name")?, required(fields, "namespace")?);
    let id = ObjectId {
        api_version: "v1".to_owned(),
        kind: "Secret".to_owned(),
        namespace: Some(namespace.to_owned()),
        name: name.to_owned(),
    };
    let mut metadata = Map::from_iter([("name".to_owned(), json!(name)), ("namespace".to_owned(), json!(namespace))]);
    for part in ["labels", "annotations"] {
        if let Some(map) = fields.table(part).filter(|map| !map.is_empty()) {
            metadata.insert(part.to_owned(), Value::Object(map.clone()));
        }
    }
    let (values, data) = (fields.map("values").unwrap_or_default(), fields.map("data").unwrap_or_default());
    let kind = fields.text("type").unwrap_or("Opaque");
    let mut object = json!({ "apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": kind });
    if !absent {
        check(&id, kind, &values, &data)?;
    }
    for (part, pairs) in [("stringData", values), ("data", data)] {
        if !pairs.is_empty() {
            object[part] = pairs.into_iter().map(|(key, value)| (key, json!(value))).collect::<Map<_, _>>().into();
        }
    }
    Ok(Box::new(Secret { declared: Declared { id, object }, absent }))
}

type Pairs = [(String, String)];

fn check(id: &ObjectId, kind: &str, values: &Pairs, data: &Pairs) -> Result<(), Diag> {
    let has = |key: &str| values.iter().chain(data).any(|(known, _)| known == key);
    if values.is_empty() && data.is_empty() {
        return Err(bad_value(format!("{id} holds nothing")).hint("give `values`: a map of keys to texts"));
    }
    if let Some((key, _)) = data.iter().find(|(key, _)| values.iter().any(|(other, _)| other == key)) {
        return Err(bad_value(format!("`{key}` of {id} stands in `values` and in `data`")));
    }
    let needed = NEEDED.iter().find(|(known, _)| *known == kind).map_or(&[][..], |(_, keys)| keys);
    if let Some(lacking) = needed.iter().find(|key| !has(key)) {
        return Err(bad_value(format!("{id} is of the type `{kind}` and has no `{lacking}`")));
    }
    let bytes = |text: &str| base64::engine::general_purpose::STANDARD.decode(text).is_ok();
    match data.iter().find(|(_, text)| !crate::model::SecretStore::mentions(text) && !bytes(text)) {
        Some((key, _)) => {
            Err(bad_value(format!("`{key}` of {id} is not base64")).hint("what is text belongs into `values`"))
        }
        None => Ok(()),
    }
}

impl Resource for Secret {
    fn kind(&self) -> &'static str {
        KIND.name
    }

    fn title(&self) -> String {
        self.declared.id.to_string()
    }

    fn probes(&self) -> Vec<Probe> {
        vec![self.declared.probe()]
    }

    fn former(&self, record: &Value) -> Vec<Probe> {
        former(record, std::slice::from_ref(&self.declared))
    }

    fn judge(&self, seen: &Observation, cx: &Context<'_>) -> Judgement {
        let objects = std::slice::from_ref(&self.declared);
        judge(&Want { objects, absent: self.absent, wait: None, disruption: Disruption::D0 }, seen, cx)
    }

    fn act(&self, _judgement: &Judgement, _cx: &Context<'_>) -> Action {
        Action::default()
    }

    fn desired(&self) -> Value {
        let mut desired = json!({ "object": self.declared.kept() });
        if self.absent {
            desired = json!({ "object": self.declared.id.claim(), "absent": true });
        }
        desired
    }

    fn provides(&self) -> Vec<Provision> {
        if self.absent { Vec::new() } else { self.declared.provides() }
    }

    fn claims(&self) -> Vec<(&'static str, String)> {
        vec![claim(&self.declared.id)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn built(more: Value) -> Result<Box<dyn Resource>, Diag> {
        let mut fields = json!({ "name": "token", "namespace": "web" });
        fields.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let known = |key: &String| FIELDS.iter().find(|field| field.name == key).unwrap().name;
        let fields = fields.as_object().unwrap().iter().map(|(k, v)| (known(k), v.clone())).collect();
        build(&Fields(fields), false)
    }

    fn refused(more: Value) -> String {
        built(more).unwrap_err().message
    }

    #[test]
    fn what_is_no_secret_is_refused() {
        assert_eq!(refused(json!({})), "Secret web/token holds nothing");
        let twice = json!({ "values": { "a": "1" }, "data": { "a": "MQ==" } });
        assert_eq!(refused(twice), "`a` of Secret web/token stands in `values` and in `data`");
        assert_eq!(refused(json!({ "data": { "a": "hello!" } })), "`a` of Secret web/token is not base64");
        let tls = json!({ "type": "kubernetes.io/tls", "values": { "tls.crt": "x" } });
        assert_eq!(refused(tls), "Secret web/token is of the type `kubernetes.io/tls` and has no `tls.key`");
    }

    #[test]
    fn records_hold_no_value() {
        let secret = built(json!({ "values": { "a": "hunter2" } })).unwrap();
        assert!(!secret.desired().to_string().contains("hunter2"));
        assert_eq!(secret.title(), "Secret web/token");
    }
}
