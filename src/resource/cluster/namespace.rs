//! `namespace`: a namespace of a cluster.

use crate::diag::Diag;
use crate::model::{BlockClass, DisruptionClass, StepVerdict, UndoEffect, Value};
use crate::object::ObjectId;
use crate::probe::{Observation, Probe};
use crate::resource::cluster::object::{
    DeclaredObject, DesiredObjects, ObjectsDiff, assess_objects, object_claim, obsolete_probes,
};
use crate::resource::shared::support::{bad_value, contents, object_state, required_text};
use crate::resource::traits::KindTraits;
use crate::resource::{
    Action, Assessment, AssessmentContext, DeclaredResource, FieldSpec, FieldType, FieldValues, ProvidedItem, Resource,
    ResourceKind, TypedResource,
};
use serde_json::{Map, json};

pub(in crate::resource) const KIND: ResourceKind = ResourceKind {
    name: "namespace",
    summary: "A namespace of the cluster: labels and annotations.",
    example: include_str!("../examples/namespace.yaml"),
    doc: "\
Runs through the cluster's API (see [`forge explain cluster`](../../cluster.md)), not on a host.

**Compared** is the result of a server-side dry-run apply as `forge`. An unchanged step reports `Namespace web
matches` and writes nothing. Labels and annotations that other controllers set stay. An undeclared field that was added
with `kubectl` or another interactive tool is removed, and so is a label that is no longer declared.

**Removal** is blocked while the namespace contains objects; the reason lists them. With `contents: delete` the contents
are deleted too. Objects that every namespace has do not count, nor do objects that are being deleted or whose owners
are gone, such as pods of a deleted Deployment. `default` and the namespaces of Kubernetes itself are never removed.",
    fields: FIELDS,
    build,
    traits: KindTraits::IN_CLUSTER,
};

const FIELDS: &[FieldSpec] = &[
    FieldSpec::required("name", FieldType::Name, "Name of the namespace."),
    FieldSpec::optional("labels", FieldType::Map(&FieldType::Text), "Labels of the namespace."),
    FieldSpec::optional("annotations", FieldType::Map(&FieldType::Text), "Annotations of the namespace."),
    FieldSpec::optional(
        "contents",
        FieldType::Enum(&["keep", "delete"]),
        "Whether removal deletes the contents too. Default `keep`: only an empty namespace is removed.",
    ),
];

#[derive(Debug)]
struct NamespaceResource {
    declared: DeclaredObject,
    /// Whether removal deletes the contents too.
    whole: bool,
    absent: bool,
}

/// Reports whether text is a DNS label, which is valid as the name of most kinds.
fn is_dns_label(name: &str) -> bool {
    let inner = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    name.len() <= 63 && name.bytes().all(inner) && !name.starts_with('-') && !name.ends_with('-') && !name.is_empty()
}

fn build(fields: &FieldValues, absent: bool) -> Result<Box<dyn Resource>, Diag> {
    let name = required_text(fields, "name")?.to_owned();
    if !is_dns_label(&name) {
        return Err(bad_value(format!("`{name}` is not a valid namespace name"))
            .with_field("name")
            .hint("use lower-case letters, digits and `-`, at most 63"));
    }
    if absent && (name == "default" || name.starts_with("kube-")) {
        return Err(bad_value(format!("`{name}` is never removed")).with_field("name"));
    }
    let mut metadata = Map::from_iter([("name".to_owned(), json!(name))]);
    for part in ["labels", "annotations"] {
        if let Some(map) = fields.get_table(part).filter(|map| !map.is_empty()) {
            metadata.insert(part.to_owned(), Value::Object(map.clone()));
        }
    }
    let id = ObjectId { api_version: "v1".to_owned(), kind: "Namespace".to_owned(), namespace: None, name };
    let object = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": metadata });
    let whole = fields.get_text("contents") == Some("delete");
    Ok(Box::new(NamespaceResource { declared: DeclaredObject { id, object }, whole, absent }))
}

impl NamespaceResource {
    fn contents_probe(&self) -> Probe {
        Probe::Contents { namespace: self.declared.id.name.clone() }
    }

    /// Blocks the removal of a namespace that is not empty.
    fn check_contents(
        &self,
        judgement: Assessment<ObjectsDiff>,
        seen: &Observation,
        cx: &AssessmentContext<'_>,
    ) -> Assessment<ObjectsDiff> {
        if judgement.verdict != StepVerdict::Change || self.whole {
            return judgement;
        }
        let contents = match contents(seen, &self.contents_probe()) {
            Ok(contents) => contents,
            Err(why) => return Assessment { basis: judgement.basis, ..Assessment::unknown(&why) },
        };
        if contents.first.is_empty() {
            return judgement;
        }
        // An earlier step may remove the contents.
        if cx.predicted.is_some_and(|predicted| predicted.after.is_some()) {
            return judgement.mark_predicted();
        }
        let more = if contents.more { " and more" } else { "" };
        let reason = format!("the namespace is not empty: {}{more}", contents.first.join(", "));
        Assessment::blocked(BlockClass::Busy, reason, judgement.basis)
            .hint("remove these first, or set `contents: delete` to delete all contents")
    }
}

impl DeclaredResource for NamespaceResource {
    fn kind(&self) -> &'static str {
        KIND.name
    }

    fn title(&self) -> String {
        self.declared.id.name.clone()
    }

    fn probes(&self) -> Vec<Probe> {
        let mut probes = vec![self.declared.probe()];
        probes.extend((self.absent && !self.whole).then(|| self.contents_probe()));
        probes
    }

    fn obsolete_probes(&self, record: &Value) -> Vec<Probe> {
        obsolete_probes(record, std::slice::from_ref(&self.declared))
    }

    fn desired_value(&self) -> Value {
        let mut desired = json!({ "object": self.declared.object });
        if self.absent {
            desired["absent"] = json!(true);
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

impl TypedResource for NamespaceResource {
    type Diff = ObjectsDiff;

    fn diff(&self, seen: &Observation, cx: &AssessmentContext<'_>) -> Assessment<ObjectsDiff> {
        let objects = std::slice::from_ref(&self.declared);
        // The contents are deleted too.
        let disruption = if self.absent && self.whole { DisruptionClass::D1 } else { DisruptionClass::D0 };
        let judgement = assess_objects(
            &DesiredObjects { objects, absent: self.absent, wait: None, disruption, keeps_additions: false },
            seen,
            cx,
        );
        match self.absent && object_state(seen, &self.declared.probe()).is_ok() {
            true => self.check_contents(judgement, seen, cx),
            false => judgement,
        }
    }

    fn act(&self, diff: &ObjectsDiff, _cx: &AssessmentContext<'_>) -> Action {
        Action::Calls(diff.build_calls(std::slice::from_ref(&self.declared)))
    }

    fn undo(&self, diff: &ObjectsDiff) -> UndoEffect {
        match self.absent && self.whole {
            true => UndoEffect::irreversible("the contents of the namespace are deleted with it"),
            false => diff.derive_undo(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn build_error(name: &str, absent: bool) -> String {
        let fields = FieldValues([("name", json!(name))].into_iter().collect());
        build(&fields, absent).unwrap_err().message
    }

    #[test]
    fn invalid_namespace_name_and_system_removal_are_rejected() {
        assert_eq!(build_error("Web", false), "`Web` is not a valid namespace name");
        assert_eq!(build_error("-a", false), "`-a` is not a valid namespace name");
        assert_eq!(build_error("kube-system", true), "`kube-system` is never removed");
    }
}
