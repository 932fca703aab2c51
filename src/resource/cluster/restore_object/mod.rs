//! `restore_object`: an object of the cluster's API as it was before a run, or its absence.

mod moved;

use crate::diag::Diag;
use crate::model::{BlockClass, DisruptionClass, StepVerdict, UndoDeclaration, UndoEffect, Value};
use crate::object::{FormerFields, ObjectId, ObjectState};
use crate::probe::{ObjectsQuery, Observation, Probe, UnansweredReason};
use crate::resource::cluster::helm_release;
use crate::resource::cluster::object::{
    DeclaredObject, DesiredObjects, ObjectsDiff, RESTORING_KIND, assess_objects, dependents_probe, describe_dependents,
    list_dependents, object_claim, query_kind,
};
use crate::resource::shared::support::{bad_value, object_state};
use crate::resource::traits::KindTraits;
use crate::resource::{
    Action, Assessment, AssessmentContext, DeclaredResource, FieldSpec, FieldType, FieldValues, ProvidedItem, Resource,
    ResourceKind, TypedResource,
};
use serde_json::json;
use std::collections::BTreeMap;

pub(in crate::resource) const KIND: ResourceKind = ResourceKind {
    name: RESTORING_KIND,
    summary: "An object of the cluster's API as it was before a run.",
    example: include_str!("../../examples/restore_object.yaml"),
    doc: "\
`forge undo` declares this kind; recipes rarely need it. Before a run changes an object, it notes the fields that its
apply changes, with their values; of an object that it deletes, everything.

**Compares** these fields with their values before the run. **A change** applies them server-side as `forge`, which
removes the fields that the run added; fields of other managers stay. An object that the run deleted is created again.

**Removed** is an object that the run created, by its `uid`, with its dependents. A namespace is removed only if nothing
else is in it, and a CustomResourceDefinition only if no object of its kind exists.

**Blocked** is an object with a field that has neither its value before the run nor the value that the run set, a new
object that was changed by hand, and an object that was deleted or created again after the run.",
    fields: &[
        FieldSpec::required("object", FieldType::Any, "The object, with the fields to restore."),
        FieldSpec::optional("uid", FieldType::Line, "The `uid` of the object."),
        FieldSpec::optional("names", FieldType::Any, "The names of the fields that the run changed, as `fieldsV1`."),
        FieldSpec::optional("after", FieldType::Any, "The object with these fields as the run left them."),
        FieldSpec::optional("since", FieldType::Line, "When the run began, if the `uid` of its object is not known."),
        FieldSpec::optional(
            "serves",
            FieldType::Table(SERVED_FIELDS),
            "The kind of a CustomResourceDefinition, of which no object may exist.",
        ),
        FieldSpec::optional(
            "emptied",
            FieldType::List(&FieldType::Line),
            "Objects that are removed before it: `ConfigMap settings` of a namespace, `Part web/one` of a definition.",
        ),
        FieldSpec::optional(
            "releases",
            FieldType::Bool,
            "Whether a Helm release is uninstalled from the namespace before. Default `false`.",
        ),
        FieldSpec::optional(
            "overwrite",
            FieldType::Bool,
            "Whether fields that were changed after the run are restored, too. Default `false`.",
        ),
    ],
    build,
    traits: KindTraits::IN_CLUSTER,
};

const SERVED_FIELDS: &[FieldSpec] = &[
    FieldSpec::required("api_version", FieldType::Line, "API version of the kind: `example.com/v1`."),
    FieldSpec::required("kind", FieldType::Line, "The kind."),
];

#[derive(Debug)]
struct ObjectRestoration {
    declared: DeclaredObject,
    uid: Option<String>,
    /// The changed fields; `None` if the run created or deleted the object.
    fields: Option<FormerFields>,
    since: Option<String>,
    serves: Option<ObjectsQuery>,
    emptied: Vec<String>,
    releases: bool,
    overwrite: bool,
    absent: bool,
}

fn build(fields: &FieldValues, absent: bool) -> Result<Box<dyn Resource>, Diag> {
    let object = fields.0.get("object").cloned().unwrap_or_default();
    let id = ObjectId::from_object(&object).ok_or_else(|| {
        bad_value("the object has no kind or no name")
            .hint("an object needs `apiVersion`, `kind` and `metadata: { name: … }`")
    })?;
    let text = |name: &str| fields.get_text(name).map(str::to_owned);
    let known = fields.0.get("names").zip(fields.0.get("after"));
    let former =
        known.map(|(names, after)| FormerFields { names: names.clone(), before: object.clone(), after: after.clone() });
    let serves = fields.get_table("serves").and_then(|table| {
        let text = |key: &str| Some(table.get(key)?.as_str()?.to_owned());
        Some(query_kind(text("api_version")?, text("kind")?))
    });
    Ok(Box::new(ObjectRestoration {
        declared: DeclaredObject { id, object },
        uid: text("uid"),
        fields: former,
        since: text("since"),
        serves,
        emptied: fields.get_text_list("emptied").unwrap_or_default(),
        releases: fields.get_bool("releases").unwrap_or(false),
        overwrite: fields.get_bool("overwrite").unwrap_or(false),
        absent,
    }))
}

/// Returns a declaration with what the journal could not know before the change: the uid of an object that the run
/// created, and what else the undo removes.
pub(in crate::resource) fn complete_declaration(
    declared: &UndoDeclaration,
    created: &BTreeMap<String, String>,
    since: &str,
    others: &[&UndoDeclaration],
) -> UndoDeclaration {
    let mut complete = declared.clone();
    let Some(id) = ObjectId::from_object(&declared.fields["object"]).filter(|_| declared.absent) else {
        return complete;
    };
    match created.get(&id.to_claim()) {
        Some(uid) => complete.fields["uid"] = json!(uid),
        None => complete.fields["since"] = json!(since),
    }
    let removed = others.iter().filter(|other| other.absent && other.kind == RESTORING_KIND);
    let removed: Vec<ObjectId> = removed.filter_map(|other| ObjectId::from_object(&other.fields["object"])).collect();
    // The objects of a release are known to Helm only.
    let is_release = |other: &&UndoDeclaration| other.absent && other.kind == helm_release::restore::KIND.name;
    if id.kind == "Namespace"
        && others.iter().copied().filter(is_release).any(|other| other.fields["namespace"] == id.name.as_str())
    {
        complete.fields["releases"] = json!(true);
    }
    let serves = &declared.fields["serves"];
    let emptied: Vec<String> = match id.kind.as_str() {
        // The contents of a namespace are named without it.
        "Namespace" => {
            let own = removed.iter().filter(|other| other.namespace.as_ref() == Some(&id.name));
            own.map(|other| format!("{} {}", other.kind, other.name)).collect()
        }
        _ => removed.iter().filter(|other| serves["kind"] == other.kind.as_str()).map(ToString::to_string).collect(),
    };
    if !emptied.is_empty() {
        complete.fields["emptied"] = json!(emptied);
    }
    complete
}

impl ObjectRestoration {
    fn dependents_probe(&self) -> Option<Probe> {
        dependents_probe(&self.declared.id, self.serves.clone()).filter(|_| self.absent)
    }

    fn block(&self, reason: String, basis: Value) -> Assessment<ObjectsDiff> {
        Assessment::blocked(BlockClass::Host, reason, basis)
    }

    /// Blocks a removal that would delete other objects.
    fn check_dependents(
        &self,
        judgement: Assessment<ObjectsDiff>,
        seen: &Observation,
        cx: &AssessmentContext<'_>,
    ) -> Result<Assessment<ObjectsDiff>, UnansweredReason> {
        if judgement.verdict != StepVerdict::Change {
            return Ok(judgement);
        }
        match self.dependents_probe() {
            Some(probe) => Ok(self.judge_dependents(judgement, &list_dependents(seen, &probe)?, cx)),
            None => Ok(judgement),
        }
    }

    /// Judges a removal by the names of what it would delete, too. The same undo may remove all of it before.
    fn judge_dependents(
        &self,
        judgement: Assessment<ObjectsDiff>,
        names: &[String],
        cx: &AssessmentContext<'_>,
    ) -> Assessment<ObjectsDiff> {
        if names.is_empty() {
            return judgement;
        }
        let others: Vec<&str> = names.iter().filter(|name| !self.emptied.contains(name)).map(String::as_str).collect();
        let comes_later = cx.predicted.is_some_and(|predicted| predicted.after.is_some());
        if (others.is_empty() || self.releases) && comes_later {
            return judgement.mark_predicted();
        }
        let named: Vec<&str> = if others.is_empty() { names.iter().map(String::as_str).collect() } else { others };
        self.block(describe_dependents(&self.declared.id, &named), judgement.basis)
    }

    fn try_diff(
        &self,
        seen: &Observation,
        cx: &AssessmentContext<'_>,
    ) -> Result<Assessment<ObjectsDiff>, UnansweredReason> {
        let want = DesiredObjects {
            objects: std::slice::from_ref(&self.declared),
            absent: self.absent,
            wait: None,
            disruption: DisruptionClass::D0,
            keeps_additions: true,
        };
        let alone = AssessmentContext { record: None, ..cx.clone() };
        let judgement = assess_objects(&want, seen, &alone);
        let ObjectState::Known(info) = object_state(seen, &self.declared.probe())? else { return Ok(judgement) };
        if judgement.verdict == StepVerdict::Ok {
            return Ok(Assessment::ok(format!("{} is as before the run", self.declared.id), judgement.basis));
        }
        match self.find_moved(info) {
            Some(reason) => Ok(self.block(reason, judgement.basis)),
            None => self.check_dependents(judgement, seen, cx),
        }
    }
}

impl DeclaredResource for ObjectRestoration {
    fn kind(&self) -> &'static str {
        KIND.name
    }

    fn title(&self) -> String {
        self.declared.id.to_string()
    }

    fn probes(&self) -> Vec<Probe> {
        let mut probes = vec![self.declared.probe()];
        probes.extend(self.dependents_probe());
        probes
    }

    fn desired_value(&self) -> Value {
        json!({ "object": self.declared.object, "absent": self.absent })
    }

    fn provided_items(&self) -> Vec<ProvidedItem> {
        if self.absent { Vec::new() } else { self.declared.provided_items() }
    }

    fn exclusive_claims(&self) -> Vec<(&'static str, String)> {
        vec![object_claim(&self.declared.id)]
    }
}

impl TypedResource for ObjectRestoration {
    type Diff = ObjectsDiff;

    fn diff(&self, seen: &Observation, cx: &AssessmentContext<'_>) -> Assessment<ObjectsDiff> {
        self.try_diff(seen, cx).unwrap_or_else(|why| Assessment::unknown(&why))
    }

    fn act(&self, diff: &ObjectsDiff, _cx: &AssessmentContext<'_>) -> Action {
        Action::Calls(diff.build_calls(std::slice::from_ref(&self.declared)))
    }

    fn undo(&self, diff: &ObjectsDiff) -> UndoEffect {
        diff.derive_undo()
    }
}

#[cfg(test)]
mod tests;
