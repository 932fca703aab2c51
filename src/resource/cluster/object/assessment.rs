//! Evaluates the objects of a step: which ones to create, change, prune and delete.

use super::diff::{ObjectDiff, ObjectDifference, ObjectsDiff, ObservedCondition, UndeclaredField, render_order};
use super::field_diff::{ObjectFieldChange, diff_fields, render_fields, render_object};
use super::former::FormerObject;
use super::obsolete::obsolete_objects;
use super::{DeclaredObject, object_claim};
use crate::model::{BlockClass, DisruptionClass, Value};
use crate::object::{
    AddedField, ListOrder, ObjectCondition, ObjectDryRun, ObjectFieldConflict, ObjectId, ObjectInfo, ObjectState,
    Redactor, locate_pointer, overlay_object,
};
use crate::probe::{Observation, UnansweredReason};
use crate::resource::shared::support::{object_state, will_be_provided};
use crate::resource::{Assessment, AssessmentContext, AttributeChange, ProvidedItem};
use serde_json::{Map, json};

/// Desired state of the objects of a step.
pub(in crate::resource) struct DesiredObjects<'w> {
    pub objects: &'w [DeclaredObject],
    /// Whether to remove the objects.
    pub absent: bool,
    /// Condition to wait for after the apply, and its timeout in seconds.
    pub wait: Option<(&'w str, u64)>,
    pub disruption: DisruptionClass,
    /// Whether undeclared fields that were added by hand stay.
    pub keeps_additions: bool,
}

/// Findings about all objects so far.
#[derive(Default)]
struct ObjectFindings {
    diff: ObjectsDiff,
    /// Reasons for the changes.
    reasons: Vec<String>,
    /// Observed state, by object.
    basis: Map<String, Value>,
    /// Notes in addition to the reasons.
    notes: Vec<String>,
    predicted: bool,
    /// Why an object could not be evaluated, with a hint.
    unknown: Option<(UnansweredReason, Option<String>)>,
    /// Why an object cannot be applied, with a hint.
    blocked: Option<(BlockClass, String, String)>,
}

/// A webhook that declares no side effects, or none during a dry run, gets dry runs.
const UNSUPPORTED_DRY_RUN_HINT: &str = "set `sideEffects: NoneOnDryRun` or `None` for this webhook, or exclude the object \
                                        with its `objectSelector` or `namespaceSelector`: forge applies no object without a dry run";

/// The field by which a ConfigMap or Secret rejects every change of its data.
const IMMUTABLE_POINTER: &str = "/immutable";

/// The fields that the API forbids to change if it is set, as its causes name them.
const FIXED_BY_IMMUTABLE: [&str; 3] = ["immutable", "data", "binaryData"];

/// Reports whether the API refuses a change since the live object is immutable.
fn is_refused_as_immutable(info: &ObjectInfo) -> bool {
    let is_immutable =
        info.live.as_ref().is_some_and(|live| live.pointer(IMMUTABLE_POINTER) == Some(&Value::Bool(true)));
    is_immutable && info.fixed.iter().any(|field| FIXED_BY_IMMUTABLE.contains(&field.as_str()))
}

/// Kinds that decide whether the API accepts other objects. A change of one of them can end a rejection.
const ADMISSION_KINDS: [&str; 7] = [
    "LimitRange",
    "MutatingWebhookConfiguration",
    "Namespace",
    "ResourceQuota",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicyBinding",
    "ValidatingWebhookConfiguration",
];

/// Evaluates the objects of a step.
pub(in crate::resource) fn assess_objects(
    want: &DesiredObjects<'_>,
    seen: &Observation,
    cx: &AssessmentContext<'_>,
) -> Assessment<ObjectsDiff> {
    let mut found = ObjectFindings::default();
    for declared in want.objects {
        match object_state(seen, &declared.probe()) {
            Err(why) => found.record_unread(&declared.id, why),
            Ok(state) => match want.absent {
                true => found.add_removal(declared, state),
                false => found.add_presence(want, declared, state, cx),
            },
        }
    }
    for id in cx.record.map(|record| obsolete_objects(record, want.objects)).unwrap_or_default() {
        let (kind, claim) = object_claim(&id);
        if cx.is_declared_elsewhere(kind, &claim) {
            found.notes.push(format!("{id} is declared by another step now"));
            continue;
        }
        match object_state(seen, &id.to_probe()) {
            Err(why) => found.record_unread(&id, why),
            Ok(state) => found.add_obsolete(&id, state),
        }
    }
    found.into_assessment(want)
}

impl ObjectFindings {
    fn record_unknown(&mut self, why: UnansweredReason) {
        self.unknown.get_or_insert((why, None));
    }

    /// Names the object: the API's message need not, and the step may have several.
    fn record_unread(&mut self, id: &ObjectId, why: UnansweredReason) {
        let named = format!("{id}: {}", why.why);
        self.record_unknown(UnansweredReason { why: named, ..why });
    }

    fn record_basis(&mut self, id: &ObjectId, state: Value) {
        self.basis.insert(id.to_claim(), state);
    }

    fn add_presence(
        &mut self,
        want: &DesiredObjects<'_>,
        declared: &DeclaredObject,
        state: &ObjectState,
        cx: &AssessmentContext<'_>,
    ) {
        let info = match state {
            ObjectState::Known(info) => info,
            ObjectState::Unserved => return self.add_unserved(want, declared, cx),
        };
        self.record_basis(&declared.id, object_basis(info));
        if info.deleting {
            return self.add_deleting(&declared.id, info);
        }
        if info.computed {
            self.notes.push(format!("{} was compared without a dry run", declared.id));
        }
        match &info.dry {
            Some(ObjectDryRun::Becomes(becomes)) => self.add_differences(want, declared, info, becomes, cx),
            Some(ObjectDryRun::NoNamespace) => self.add_without_namespace(want, declared, cx),
            Some(ObjectDryRun::Unsupported(words)) => {
                let why = UnansweredReason::new(format!("{}: {words}", declared.id));
                self.unknown.get_or_insert((why, Some(UNSUPPORTED_DRY_RUN_HINT.to_owned())));
            }
            Some(ObjectDryRun::Refused(words)) => {
                let reason = format!("the API rejects {}: {words}", declared.id);
                let hint = match is_refused_as_immutable(info) {
                    true => advise_new_object(&declared.id),
                    false => "fix the declaration of this object".to_owned(),
                };
                self.blocked.get_or_insert((BlockClass::Declaration, reason, hint));
            }
            Some(ObjectDryRun::Rejected(words)) => self.add_rejected(want, declared, info, words, cx),
            None => self.record_unknown(UnansweredReason::new(format!("no dry-run apply of {} was made", declared.id))),
        }
        self.add_wait(want, declared, Some(info));
    }

    /// The object is being deleted: what an apply would change is known once it is gone.
    fn add_deleting(&mut self, id: &ObjectId, info: &ObjectInfo) {
        let blocker = info.waits_for.as_ref().map(|blocker| format!(": {blocker}")).unwrap_or_default();
        let why = UnansweredReason::new(format!("{id} is being deleted{blocker}"));
        let hint = match info.waits_for {
            Some(_) => {
                "the object remains until this is done: check that the controller that set a finalizer runs; run again then"
            }
            None => "run again once it is gone: an apply creates it again",
        };
        self.unknown.get_or_insert((why, Some(hint.to_owned())));
    }

    /// The API does not serve this kind: an earlier step may install it.
    fn add_unserved(&mut self, want: &DesiredObjects<'_>, declared: &DeclaredObject, cx: &AssessmentContext<'_>) {
        self.record_basis(&declared.id, Value::Null);
        let kind = format!("{}/{}", declared.id.api_group(), declared.id.kind);
        let own = want.objects.iter().any(|other| other.served_kind().as_deref() == Some(kind.as_str()));
        let earlier = will_be_provided(cx.predicted, &ProvidedItem::Served(kind))
            || cx.predicted.is_some_and(|p| p.after.is_some());
        match (own, earlier) {
            (true, _) => self.add_creation(want, declared, cx),
            (false, true) => {
                self.predicted = true;
                self.add_creation(want, declared, cx);
            }
            (false, false) => {
                let why = format!("the API serves no `{}` of `{}`", declared.id.kind, declared.id.api_version);
                let hint = "install its CustomResourceDefinition with an earlier step, and list that step in `needs`";
                self.unknown.get_or_insert((UnansweredReason::new(why), Some(hint.to_owned())));
            }
        }
        self.add_wait(want, declared, None);
    }

    fn add_without_namespace(
        &mut self,
        want: &DesiredObjects<'_>,
        declared: &DeclaredObject,
        cx: &AssessmentContext<'_>,
    ) {
        let name = declared.id.namespace.clone().unwrap_or_default();
        let id = ObjectId { api_version: "v1".to_owned(), kind: "Namespace".to_owned(), namespace: None, name };
        let own = want.objects.iter().any(|other| other.id.to_claim() == id.to_claim());
        let earlier = will_be_provided(cx.predicted, &ProvidedItem::Object(id.to_claim()))
            || cx.predicted.is_some_and(|p| p.after.is_some());
        match (own, earlier) {
            (true, _) => self.add_creation(want, declared, cx),
            (false, true) => {
                self.predicted = true;
                self.add_creation(want, declared, cx);
            }
            (false, false) => {
                let reason = format!("namespace `{}` of {} does not exist", id.name, declared.id);
                let hint = format!("add a step with `namespace: {{ name: {} }}` before this one", id.name);
                self.blocked.get_or_insert((BlockClass::Declaration, reason, hint));
            }
        }
    }

    /// An admission rule rejects the apply. An object that matches needs none. An earlier step, or another object of this
    /// step, may change the rule first.
    fn add_rejected(
        &mut self,
        want: &DesiredObjects<'_>,
        declared: &DeclaredObject,
        info: &ObjectInfo,
        words: &str,
        cx: &AssessmentContext<'_>,
    ) {
        let id = &declared.id;
        let changes_rule =
            |diff: &ObjectDiff| ADMISSION_KINDS.contains(&diff.id.kind.as_str()) && self.diff.applies_object(&diff.id);
        let becomes = info.live.as_ref().map(|live| overlay_object(live, &declared.object)).unwrap_or_default();
        let redactor = Redactor::for_object(&declared.object, cx.secrets);
        // A rule that is newer than the object does not change it.
        let matches = info.live.as_ref().is_some_and(|live| diff_fields(&redactor, live, &becomes).is_empty());
        let may_change = self.diff.objects.iter().any(changes_rule) || cx.predicted.is_some_and(|p| p.after.is_some());
        if matches || may_change {
            self.predicted |= !matches;
            self.notes.push(format!("the API rejects {id} at the moment: {words}"));
            return self.add_differences(want, declared, info, &becomes, cx);
        }
        let reason = format!("the API rejects {id}: {words}");
        let hint =
            "change the quota, limit, policy or webhook that the message names, or the declaration of this object";
        self.blocked.get_or_insert((BlockClass::Host, reason, hint.to_owned()));
    }

    fn add_creation(&mut self, want: &DesiredObjects<'_>, declared: &DeclaredObject, cx: &AssessmentContext<'_>) {
        self.reasons.push(format!("{} does not exist", declared.id));
        let text = render_object(&declared.object, cx.secrets);
        self.diff.push(&declared.id, want.objects.len() > 1, ObjectDifference::Missing { text });
        self.diff.note_former(FormerObject::Missing { id: declared.id.clone(), serves: declared.served_version() });
    }

    fn add_differences(
        &mut self,
        want: &DesiredObjects<'_>,
        declared: &DeclaredObject,
        info: &ObjectInfo,
        becomes: &Value,
        cx: &AssessmentContext<'_>,
    ) {
        let Some(live) = &info.live else { return self.add_creation(want, declared, cx) };
        let (id, named) = (&declared.id, want.objects.len() > 1);
        let of = if named { id.to_string() } else { String::new() };
        let redactor = Redactor::for_object(&declared.object, cx.secrets);
        let fields = diff_fields(&redactor, live, becomes);
        let more = info.added.iter().map(|added| (added.field.clone(), Value::from("added")));
        let seen_orders: Vec<&ListOrder> = info.orders.iter().filter(|list| !list.after_apply).collect();
        let orders = seen_orders.iter().map(|list| observed_entry(&render_order(&of, list)));
        let differs = render_fields(&of, &fields).iter().map(observed_entry).chain(orders).chain(more).collect();
        self.basis[&id.to_claim()]["differs"] = Value::Object(differs);
        let removes_additions = !info.added.is_empty() && !want.keeps_additions;
        if !fields.is_empty() || removes_additions || !info.orders.is_empty() {
            let (uid, fields) = (info.uid.clone(), info.former.clone());
            self.diff.note_former(FormerObject::Changed { id: id.clone(), uid, fields });
        }
        let fields_differ = !fields.is_empty();
        if fields_differ {
            self.reasons.push(describe_differing(id, &fields, &info.conflicts));
            self.diff.push(id, named, ObjectDifference::Fields { fields });
        }
        if !info.orders.is_empty() {
            let told = match (seen_orders.as_slice(), fields_differ) {
                ([], true) => None,
                ([], false) => Some(format!("an apply changes the order of {}", list_fields(&info.orders, id))),
                _ => Some(describe_orders(id, &seen_orders)),
            };
            self.reasons.extend(told);
            self.diff.push(id, named, ObjectDifference::Order { lists: info.orders.clone() });
        }
        if let Some(words) = &info.order_refused {
            let reason = format!("{}, and the API does not change it: {words}", describe_orders(id, &seen_orders));
            self.blocked.get_or_insert((BlockClass::Host, reason, advise_new_object(id)));
        }
        if removes_additions {
            self.reasons.push(describe_added(id, &info.added));
            let fields = info.added.iter().map(|added| undeclared_field(&redactor, live, added)).collect();
            self.diff.push(id, named, ObjectDifference::Additions { version: info.version.clone(), fields });
        }
        if let Some(words) = info.stuck.as_ref().filter(|_| !want.keeps_additions) {
            self.add_stuck_fields(id, info, words);
        }
    }

    /// Fields that were added by hand and cannot be removed. Most have no effect any more, or the API sets them itself; an
    /// object that was made immutable rejects every later change.
    fn add_stuck_fields(&mut self, id: &ObjectId, info: &ObjectInfo, words: &str) {
        let untried = match info.untried {
            0 => String::new(),
            count => format!("; {count} others not tried"),
        };
        match info.refused.iter().find(|added| added.pointer == IMMUTABLE_POINTER) {
            Some(added) if is_refused_as_immutable(info) => {
                let by = describe_added(id, std::slice::from_ref(added));
                let reason = format!("{by}; the API does not remove it: {words}");
                self.blocked.get_or_insert((BlockClass::Host, reason, advise_new_object(id)));
            }
            _ if info.refused.is_empty() => {
                self.notes.push(format!("undeclared fields of {id} cannot be removed: {words}{untried}"));
            }
            _ => {
                let fields: Vec<&str> = info.refused.iter().map(|added| added.field.as_str()).collect();
                let fields = fields.join(", ");
                self.notes.push(format!("undeclared {fields} of {id} cannot be removed: {words}{untried}"));
            }
        }
    }

    fn add_wait(&mut self, want: &DesiredObjects<'_>, declared: &DeclaredObject, info: Option<&ObjectInfo>) {
        let id = &declared.id;
        let changed = self.diff.changes_object(id);
        let Some((condition, limit_s)) = want.wait.filter(|(condition, _)| supports_condition(id, condition)) else {
            return;
        };
        let found = info.and_then(|info| info.conditions.iter().find(|found| found.name == condition));
        let observed = match (changed, found) {
            (true, _) => ObservedCondition::BeforeChange,
            (false, None) => {
                self.reasons.push(format!("{id} is not {condition}: condition not reported yet"));
                ObservedCondition::Status(None)
            }
            (false, Some(ObjectCondition { lag: Some(lag), .. })) => {
                self.reasons.push(format!("whether {id} is {condition} is unknown: {lag}"));
                ObservedCondition::Status(None)
            }
            (false, Some(found)) if found.status == "True" => return,
            (false, Some(found)) => {
                self.reasons.push(format!("{id} is not {condition}: {}", found.message));
                ObservedCondition::Status(Some(found.status.clone()))
            }
        };
        let condition = condition.to_owned();
        self.diff.push(id, want.objects.len() > 1, ObjectDifference::Condition { condition, limit_s, observed });
    }

    fn add_removal(&mut self, declared: &DeclaredObject, state: &ObjectState) {
        let info = match state {
            ObjectState::Known(info) => info,
            ObjectState::Unserved => return self.record_basis(&declared.id, Value::Null),
        };
        self.record_basis(&declared.id, json!({ "uid": info.uid }));
        if info.live.is_some() {
            let state = if info.deleting { "is being deleted, but still exists" } else { "exists" };
            self.reasons.push(format!("{} {state}", declared.id));
            self.add_deletion(&declared.id, info, false);
        }
    }

    fn add_deletion(&mut self, id: &ObjectId, info: &ObjectInfo, obsolete: bool) {
        self.diff.push(id, true, ObjectDifference::Present { uid: info.uid.clone(), obsolete });
        let object = info.live.clone().unwrap_or_default();
        self.diff.note_former(FormerObject::Deleted { id: id.clone(), object });
    }

    /// Deletes an object that the step declared before, if forge still manages any of its fields. Keeps objects
    /// whose deletion would delete their contents.
    fn add_obsolete(&mut self, id: &ObjectId, state: &ObjectState) {
        let ObjectState::Known(info) = state else { return };
        let Some(_) = &info.live else { return };
        self.record_basis(id, json!({ "uid": info.uid }));
        let own = info.managers.iter().any(|known| known.manager == "forge");
        if matches!(id.kind.as_str(), "Namespace" | "CustomResourceDefinition") {
            return self
                .notes
                .push(format!("{id} is no longer declared but stays: deletion would delete its contents"));
        }
        if !own {
            return self.notes.push(format!("{id} is no longer declared but stays: another manager owns it now"));
        }
        self.reasons.push(format!("{id} is no longer declared"));
        self.add_deletion(id, info, true);
    }

    fn into_assessment(self, want: &DesiredObjects<'_>) -> Assessment<ObjectsDiff> {
        let basis = Value::Object(self.basis);
        if let Some((why, hint)) = self.unknown {
            return Assessment { basis, hint, ..Assessment::unknown(&why) };
        }
        if let Some((class, reason, hint)) = self.blocked {
            return Assessment::blocked(class, reason, basis).hint(hint);
        }
        if self.diff.objects.is_empty() {
            let reason = describe_unchanged(want);
            let notes: Vec<String> = std::iter::once(reason).chain(self.notes).collect();
            return Assessment::ok(notes.join("; "), basis);
        }
        let reasons: Vec<String> = truncate_reasons(self.reasons).into_iter().chain(self.notes).collect();
        let judgement = Assessment::differs(reasons.join("; "), self.diff, want.disruption, basis);
        Assessment { predicted: self.predicted, ..judgement }
    }
}

/// Returns the reason of a step without changes.
fn describe_unchanged(want: &DesiredObjects<'_>) -> String {
    match (want.objects, want.absent) {
        ([one], true) => format!("{} does not exist", one.id),
        ([one], false) => format!("{} matches", one.id),
        (several, true) => format!("none of {} objects exists", several.len()),
        (several, false) => format!("{} objects match", several.len()),
    }
}

/// Shortens a long list of reasons to the first ones.
fn truncate_reasons(mut reasons: Vec<String>) -> Vec<String> {
    const TOLD: usize = 4;
    let more = reasons.len().saturating_sub(TOLD);
    if more > 0 {
        reasons.truncate(TOLD);
        reasons.push(format!("and {more} more"));
    }
    reasons
}

/// Returns the observed values that the judgement depends on. Changes by controllers to other parts do not make a plan
/// stale.
fn object_basis(info: &ObjectInfo) -> Value {
    json!({ "exists": info.live.is_some(), "deleting": info.deleting })
}

/// Returns a field that differs, with its current value.
fn observed_entry(change: &AttributeChange) -> (String, Value) {
    let text = change.diff.as_ref().or(change.from.as_ref()).map(|text| text.raw());
    (change.attribute.to_string(), Value::from(text))
}

fn describe_differing(id: &ObjectId, fields: &[ObjectFieldChange], conflicts: &[ObjectFieldConflict]) -> String {
    let fields = match fields {
        [one] => format!("{} of {id} differs", one.field.path),
        many => format!("{} fields of {id} differ", many.len()),
    };
    let told: Vec<String> = conflicts
        .iter()
        .map(|held| format!("`{}` set {}{}", held.manager, held.field, format_since(&held.time)))
        .collect();
    match told.is_empty() {
        true => fields,
        false => format!("{fields}: {}; forge takes it over", told.join(", ")),
    }
}

fn describe_orders(id: &ObjectId, lists: &[&ListOrder]) -> String {
    format!("the order of {} differs", list_fields(lists.iter().copied(), id))
}

fn list_fields<'l>(lists: impl IntoIterator<Item = &'l ListOrder>, id: &ObjectId) -> String {
    let fields: Vec<&str> = lists.into_iter().map(|list| list.field.as_str()).collect();
    format!("{} in {id}", fields.join(", "))
}

/// Returns how a difference that the API does not repair is ended.
fn advise_new_object(id: &ObjectId) -> String {
    let namespace = id.namespace.as_ref().map(|namespace| format!(" -n {namespace}")).unwrap_or_default();
    let group = if id.api_group().is_empty() { String::new() } else { format!(".{}", id.api_group()) };
    let kind = format!("{}{group}", id.kind.to_lowercase());
    format!("delete the object, `kubectl delete{namespace} {kind} {}`: the next apply creates it again", id.name)
}

fn describe_added(id: &ObjectId, added: &[AddedField]) -> String {
    let told: Vec<String> = added
        .iter()
        .map(|added| format!("`{}` added {}{}", added.manager, added.field, format_since(&added.time)))
        .collect();
    format!("{id} has undeclared fields: {}", told.join(", "))
}

fn format_since(time: &str) -> String {
    if time.is_empty() { String::new() } else { format!(" at {time}") }
}

fn undeclared_field(redactor: &Redactor<'_>, live: &Value, added: &AddedField) -> UndeclaredField {
    let value = live.pointer(&added.pointer);
    let secret = redactor.is_secret(&locate_pointer(live, &added.pointer), value, None);
    UndeclaredField {
        field: added.field.clone(),
        pointer: added.pointer.clone(),
        value: value.filter(|_| !secret).cloned(),
        secret,
    }
}

/// Reports whether objects of a kind can have a condition.
fn supports_condition(id: &ObjectId, condition: &str) -> bool {
    match condition {
        "Established" => id.kind == "CustomResourceDefinition",
        "Available" => matches!(id.kind.as_str(), "Deployment" | "APIService"),
        "Complete" => id.kind == "Job",
        _ => id.api_group().contains('.') && !id.api_group().ends_with(".k8s.io"),
    }
}
