//! `manifest`: declared objects of a cluster's API.

mod patches;
mod rules;

pub(in crate::resource) use rules::check_workload;

use crate::diag::Diag;
use crate::model::{BlockClass, DisruptionClass, SecretStore, StepVerdict, UndoEffect, Value};
use crate::object::{ObjectId, ObjectState};
use crate::object::{collect_images, find_image_source};
use crate::probe::{Observation, Probe, UnansweredReason};
use crate::resource::cluster::object::{
    DeclaredObject, DesiredObjects, ObjectsDiff, assess_objects, describe_dependents, is_dependent, list_dependents,
    object_claim, obsolete_probes,
};
use crate::resource::shared::support::{bad_value, object_state, sha256_hex};
use crate::resource::traits::KindTraits;
use crate::resource::{
    Action, Assessment, AssessmentContext, DeclaredResource, FieldSpec, FieldType, FieldValues, ProvidedItem, Resource,
    ResourceKind, TypedResource,
};
use serde_json::json;
use std::collections::BTreeSet;

pub(in crate::resource) const KIND: ResourceKind = ResourceKind {
    name: "manifest",
    summary: "Objects of the cluster's API: applied server-side, and pruned when they are no longer declared.",
    example: include_str!("../examples/manifest.yaml"),
    doc: "\
Runs through the cluster's API (see [`forge explain cluster`](../../cluster.md)), not on a host. Declare objects in
`objects`, in a `file` of YAML documents, or in both. A `List` counts as its items.

**Compared** is the result of a server-side dry-run apply as `forge`. Quantities, defaults and fields that webhooks add
therefore do not count as differences, and forge writes nothing if there are none. A plan lists each field that differs
and, if the API knows it, who set it; declared fields are taken over. A field that is no longer declared is removed. An
undeclared field that was *added* with `kubectl` or another interactive tool is removed too, also a finalizer or an
owner. Fields that controllers add stay. If such a tool made a ConfigMap or Secret `immutable`, the step is blocked: only
deleting the object ends that.

**The order of `env` and `initContainers`** has effect: `$(NAME)` is expanded from variables before it. The API merges both
lists by name and keeps the order of the live object. forge compares the order of the declared items and restores it;
items of others keep their places. The order of other lists that the API merges by name is not compared.

**Objects that the step declared before** and that no step declares any more are deleted if forge still manages any of
their fields; the plan lists them. Namespaces and CustomResourceDefinitions stay, because deleting them would delete
their contents.

**Rejected before forge contacts the cluster** are images without tag or digest or with the tag `latest`, ConfigMap
values that are not text, and values of keys that end in `.json` and are not strict JSON. So are containers that request
more than one token of `rdma/…` (a token is not an adapter), or one without the capability `IPC_LOCK`.

**Secret text is masked** by the same rules as for a [Helm release](helm_release.md): values of a Secret, values of keys
and environment variables with names such as `password` and `token`, and values that contain one of forge's secrets. A
plan shows only whether they differ.

**`wait`** accepts a condition only if the controller has evaluated the object's last change, as `kubectl wait` does: the
`observedGeneration` of the condition or of the status, where it has one, must be the object's `generation`. Until then
the condition is unknown: apply waits, and plan, verify and drift report the step.

**Order**: namespaces and CustomResourceDefinitions first, waiting for each, then the other objects as written.
**Removal** deletes the objects in reverse order and waits until they are gone. It is blocked while a Namespace contains other
objects than those of the step, or while objects of a CustomResourceDefinition exist, as the API deletes them with it; the
reason lists them. With `contents: delete` they are deleted too.",
    fields: FIELDS,
    build,
    traits: KindTraits::IN_CLUSTER,
};

const FIELDS: &[FieldSpec] = &[
    FieldSpec::optional("objects", FieldType::Any, "A list of objects, or one object."),
    FieldSpec::optional(
        "file",
        FieldType::LocalDocuments,
        "A file of YAML documents, one object each, in a subdirectory: YAML files next to a recipe are read as recipes. \
         Templates in it are not rendered.",
    ),
    FieldSpec::optional(
        "omit",
        FieldType::List(&FieldType::Line),
        "Objects of `file` that are left out, because another step declares them: `Namespace/kubeflow`, \
         `ConfigMap/web/settings`. One that the file lacks is not an error.",
    ),
    FieldSpec::optional(
        "patches",
        FieldType::List(&FieldType::Table(patches::PATCH_FIELDS)),
        "Values that are set in the objects, such as a flag of a vendor's program or an image in a mirror.",
    ),
    FieldSpec::optional(
        "image_sources",
        FieldType::Map(&FieldType::Line),
        "Registries and paths of a mirror, each with those of the images that it has copies of, for `forge plan \
         --images`: `{ mirror.example/nvidia: nvcr.io/nvidia/mellanox }`.",
    ),
    FieldSpec::optional("namespace", FieldType::Name, "Namespace of namespaced objects that do not name one."),
    FieldSpec::optional(
        "wait",
        FieldType::Enum(&["Available", "Ready", "Complete", "Established"]),
        "Condition to wait for after a change; it is part of the declared state: `Available` of Deployments, \
         `Complete` of Jobs, `Established` of CustomResourceDefinitions, `Ready` of custom resources.",
    ),
    FieldSpec::optional("limit", FieldType::Duration, "Timeout of `wait`. Default `5m`."),
    FieldSpec::optional(
        "contents",
        FieldType::Enum(&["keep", "delete"]),
        "Whether removal deletes the contents of Namespaces and the objects of CustomResourceDefinitions too. Default \
         `keep`: removal is blocked while there are any.",
    ),
];

#[derive(Debug)]
struct ManifestResource {
    objects: Vec<DeclaredObject>,
    /// Registries and paths of mirrors, each with those of its sources.
    mirrors: Vec<(String, String)>,
    wait: Option<String>,
    limit_s: u64,
    /// Whether removal deletes what namespaces and definitions contain, too.
    deletes_contents: bool,
    absent: bool,
}

fn build(fields: &FieldValues, absent: bool) -> Result<Box<dyn Resource>, Diag> {
    let mut written = Vec::new();
    for field in ["objects", "file"] {
        fields.0.get(field).into_iter().for_each(|value| flatten_objects(value, &mut written));
    }
    if written.is_empty() {
        return Err(bad_value("a manifest needs at least one object").hint("set `objects`, `file`, or both"));
    }
    let mut objects = Vec::with_capacity(written.len());
    for object in written {
        objects.push(parse_object(object, fields.get_text("namespace"))?);
    }
    omit_objects(&mut objects, fields)?;
    patches::apply_patches(&mut objects, fields)?;
    check_duplicates(&objects)?;
    objects.iter().try_for_each(|declared| rules::check_object(&declared.id, &declared.object))?;
    // Prerequisites come first; the other objects keep their order.
    objects.sort_by_key(|declared| apply_rank(&declared.id));
    Ok(Box::new(ManifestResource {
        objects,
        mirrors: fields.get_text_map("image_sources").unwrap_or_default(),
        wait: fields.get_text("wait").map(str::to_owned),
        limit_s: fields.get_int("limit").and_then(|limit| limit.try_into().ok()).unwrap_or(300),
        deletes_contents: fields.get_text("contents") == Some("delete"),
        absent,
    }))
}

fn flatten_objects(value: &Value, into: &mut Vec<Value>) {
    match value {
        Value::Null => {}
        Value::Array(items) => items.iter().for_each(|item| flatten_objects(item, into)),
        Value::Object(map)
            if map.get("kind").and_then(Value::as_str).is_some_and(|kind| kind.ends_with("List"))
                && map.contains_key("items") =>
        {
            map.get("items").into_iter().for_each(|items| flatten_objects(items, into));
        }
        other => into.push(other.clone()),
    }
}

fn parse_object(mut object: Value, namespace: Option<&str>) -> Result<DeclaredObject, Diag> {
    let lacks = |what: &str| bad_value(format!("an object of the manifest has no `{what}`"));
    let text = |object: &Value, pointer: &str| object.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
    for (pointer, what) in [("/apiVersion", "apiVersion"), ("/kind", "kind"), ("/metadata/name", "metadata.name")] {
        if text(&object, pointer).is_none_or(|text| text.is_empty()) {
            let hint = "each object needs `apiVersion`, `kind` and `metadata: { name: … }`";
            return Err(lacks(what).hint(hint));
        }
    }
    let kind = text(&object, "/kind").unwrap_or_default();
    if let Some(namespace) = namespace.filter(|_| !rules::is_cluster_scoped(&kind))
        && let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut)
    {
        metadata.entry("namespace").or_insert_with(|| Value::from(namespace));
    }
    if let Some(map) = object.as_object_mut() {
        map.shift_remove("status");
    }
    let id = ObjectId::from_object(&object).ok_or_else(|| lacks("kind"))?;
    Ok(DeclaredObject { id, object })
}

/// Removes the objects that `omit` names.
fn omit_objects(objects: &mut Vec<DeclaredObject>, fields: &FieldValues) -> Result<(), Diag> {
    let names = fields.get_text_list("omit").unwrap_or_default();
    if let Some(bad) = names.iter().find(|name| !(1..=2).contains(&name.matches('/').count())) {
        return Err(bad_value(format!("`{bad}` names no object"))
            .with_field("omit")
            .hint("write `KIND/NAME`, or `KIND/NAMESPACE/NAME`"));
    }
    objects.retain(|declared| !names.contains(&declared.id.to_path()));
    match objects.is_empty() {
        true => Err(bad_value("`omit` leaves no object").with_field("omit")),
        false => Ok(()),
    }
}

fn check_duplicates(objects: &[DeclaredObject]) -> Result<(), Diag> {
    let mut seen = BTreeSet::new();
    match objects.iter().find(|declared| !seen.insert(declared.id.to_claim())) {
        Some(again) => Err(bad_value(format!("{} is declared twice in the manifest", again.id))),
        None => Ok(()),
    }
}

fn apply_rank(id: &ObjectId) -> u8 {
    match id.kind.as_str() {
        "Namespace" => 0,
        "CustomResourceDefinition" => 1,
        _ => 2,
    }
}

/// Returns the form of an object that records store: the whole object if it is short, otherwise its digest.
fn record_value(declared: &DeclaredObject) -> Value {
    const SHORT: usize = 2048;
    let text = declared.object.to_string();
    match text.len() <= SHORT || SecretStore::has_placeholder(&text) {
        true => declared.record_value(),
        false => json!({ "object": declared.id.to_claim(), "sha256": sha256_hex(text.as_bytes()) }),
    }
}

impl ManifestResource {
    /// Blocks a removal that would delete other objects too. An earlier step may remove them.
    fn check_dependents(
        &self,
        judgement: Assessment<ObjectsDiff>,
        seen: &Observation,
        cx: &AssessmentContext<'_>,
    ) -> Result<Assessment<ObjectsDiff>, UnansweredReason> {
        if judgement.verdict != StepVerdict::Change || self.deletes_contents {
            return Ok(judgement);
        }
        let comes_later = cx.predicted.is_some_and(|predicted| predicted.after.is_some());
        let mut is_predicted = false;
        for declared in &self.objects {
            let ObjectState::Known(info) = object_state(seen, &declared.probe())? else { continue };
            // An object that is being deleted takes its dependents with it, whatever this step does.
            if info.live.is_none() || info.deleting || !has_dependents(&declared.id) {
                continue;
            }
            let id = &declared.id;
            let names = match declared.dependents_probe() {
                Some(probe) => list_dependents(seen, &probe)?,
                None => {
                    let reason = format!("{id} declares no version of which objects can be listed");
                    return Ok(block_removal(reason, judgement.basis));
                }
            };
            let is_other = |name: &&str| !self.objects.iter().any(|object| is_dependent(id, &object.id, name));
            let others: Vec<&str> = names.iter().map(String::as_str).filter(is_other).collect();
            match others.is_empty() {
                true => {}
                false if comes_later => is_predicted = true,
                false => return Ok(block_removal(describe_dependents(id, &others), judgement.basis)),
            }
        }
        Ok(if is_predicted { judgement.mark_predicted() } else { judgement })
    }
}

fn has_dependents(id: &ObjectId) -> bool {
    matches!(id.kind.as_str(), "Namespace" | "CustomResourceDefinition")
}

fn block_removal(reason: String, basis: Value) -> Assessment<ObjectsDiff> {
    Assessment::blocked(BlockClass::Busy, reason, basis)
        .hint("remove these objects first, or set `contents: delete` to delete them too")
}

impl DeclaredResource for ManifestResource {
    fn kind(&self) -> &'static str {
        KIND.name
    }

    fn title(&self) -> String {
        match self.objects.as_slice() {
            [one] => one.id.to_string(),
            [first, rest @ ..] => format!("{} and {} more", first.id, rest.len()),
            [] => String::new(),
        }
    }

    fn probes(&self) -> Vec<Probe> {
        let dependents = self.objects.iter().filter(|_| self.absent && !self.deletes_contents);
        let dependents = dependents.filter_map(DeclaredObject::dependents_probe);
        self.objects.iter().map(DeclaredObject::probe).chain(dependents).collect()
    }

    fn obsolete_probes(&self, record: &Value) -> Vec<Probe> {
        obsolete_probes(record, &self.objects)
    }

    fn time_limit_s(&self) -> Option<u64> {
        self.wait.as_ref().map(|_| self.limit_s.saturating_add(60))
    }

    fn desired_value(&self) -> Value {
        let mut desired = json!({ "objects": self.objects.iter().map(record_value).collect::<Vec<_>>() });
        if let Some(wait) = &self.wait {
            desired["wait"] = json!(wait);
        }
        if self.absent {
            desired["absent"] = json!(true);
        }
        desired
    }

    fn provided_items(&self) -> Vec<ProvidedItem> {
        if self.absent { Vec::new() } else { self.objects.iter().flat_map(DeclaredObject::provided_items).collect() }
    }

    fn exclusive_claims(&self) -> Vec<(&'static str, String)> {
        self.objects.iter().map(|declared| object_claim(&declared.id)).collect()
    }
}

impl TypedResource for ManifestResource {
    type Diff = ObjectsDiff;

    fn diff(&self, seen: &Observation, cx: &AssessmentContext<'_>) -> Assessment<ObjectsDiff> {
        let wait = self.wait.as_deref().map(|condition| (condition, self.limit_s));
        let want = DesiredObjects {
            objects: &self.objects,
            absent: self.absent,
            wait,
            disruption: if self.absent && self.deletes_contents { DisruptionClass::D1 } else { DisruptionClass::D0 },
            keeps_additions: false,
        };
        let images =
            if self.absent { Vec::new() } else { collect_images(self.objects.iter().map(|declared| &declared.object)) };
        let image_sources =
            images.iter().filter_map(|image| Some((image.clone(), find_image_source(&self.mirrors, image)?))).collect();
        let judgement = assess_objects(&want, seen, cx);
        let judgement = match self.absent {
            true => {
                let basis = judgement.basis.clone();
                let checked = self.check_dependents(judgement, seen, cx);
                checked.unwrap_or_else(|why| Assessment { basis, ..Assessment::unknown(&why) })
            }
            false => judgement,
        };
        Assessment { images, image_sources, ..judgement }
    }

    fn act(&self, diff: &ObjectsDiff, _cx: &AssessmentContext<'_>) -> Action {
        Action::Calls(diff.build_calls(&self.objects))
    }

    fn undo(&self, diff: &ObjectsDiff) -> UndoEffect {
        match self.absent && self.deletes_contents && self.objects.iter().any(|declared| has_dependents(&declared.id)) {
            true => UndoEffect::irreversible("the contents of namespaces and definitions are deleted with them"),
            false => diff.derive_undo(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn build_error(objects: Value) -> String {
        let fields = FieldValues([("objects", objects)].into_iter().collect());
        build(&fields, false).unwrap_err().message
    }

    #[test]
    fn invalid_manifest_objects_are_rejected() {
        assert_eq!(build_error(json!([])), "a manifest needs at least one object");
        assert_eq!(build_error(json!([{ "kind": "ConfigMap" }])), "an object of the manifest has no `apiVersion`");
        let map = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "a", "namespace": "n" } });
        assert_eq!(build_error(json!([map, map])), "ConfigMap n/a is declared twice in the manifest");
    }

    #[test]
    fn omitted_objects_are_not_part_of_the_manifest() {
        let object = |kind: &str, name: &str| json!({ "apiVersion": "v1", "kind": kind, "metadata": { "name": name } });
        let objects = json!([object("Namespace", "n"), object("ConfigMap", "a"), object("ConfigMap", "b")]);
        let built = |omit: Value| {
            let values = [("objects", objects.clone()), ("namespace", json!("n")), ("omit", omit)];
            build(&FieldValues(values.into_iter().collect()), false)
        };
        let manifest = built(json!(["Namespace/n", "Namespace/another", "ConfigMap/n/b"])).unwrap();
        assert_eq!(manifest.title(), "ConfigMap n/a");
        assert_eq!(built(json!(["n"])).unwrap_err().message, "`n` names no object");
        let all = json!(["Namespace/n", "ConfigMap/n/a", "ConfigMap/n/b"]);
        assert_eq!(built(all).unwrap_err().message, "`omit` leaves no object");
    }

    #[test]
    fn namespaces_are_ordered_before_their_objects() {
        let object = |kind: &str| json!({ "apiVersion": "v1", "kind": kind, "metadata": { "name": "a" } });
        let list = json!({ "apiVersion": "v1", "kind": "List", "items": [object("ConfigMap"), object("Namespace")] });
        let fields = FieldValues([("objects", list), ("namespace", json!("n"))].into_iter().collect());
        let manifest = build(&fields, false).unwrap();
        assert_eq!(manifest.title(), "Namespace a and 1 more");
        let claims: Vec<String> = manifest.exclusive_claims().into_iter().map(|(_, name)| name).collect();
        assert_eq!(claims, ["core/Namespace//a", "core/ConfigMap/n/a"]);
    }
}
