//! `job`: a limited workload that proves a property of the cluster.

mod assessment;
mod bounds;
mod declaration;

use crate::diag::Diag;
use crate::model::{UndoEffect, Value};
use crate::object::{JobEndPredicates, JobGoal, JobLogRules, ObjectId, StatusPredicate, add_workload_bounds};
use crate::probe::{Observation, Probe};
use crate::resource::cluster::manifest::check_workload;
use crate::resource::cluster::object::{DeclaredObject, object_claim};
use crate::resource::shared::support::{bad_value, required_text};
use crate::resource::traits::KindTraits;
use crate::resource::{
    Action, Assessment, AssessmentContext, DeclaredResource, FieldSpec, FieldType, FieldValues, ProvidedItem, Resource,
    ResourceKind, TypedResource,
};
use assessment::JobDiff;
use declaration::JobResource;
use serde_json::json;

pub(in crate::resource) const KIND: ResourceKind = ResourceKind {
    name: "job",
    summary: "A limited workload that proves a property of the cluster and is then deleted.",
    example: include_str!("../../examples/job.yaml"),
    doc: "\
Runs through the cluster's API (see [`forge explain cluster`](../../cluster.md)), not on a host. `object` is a Job, a
Pod, a Volcano job, a PyTorchJob, or any other kind whose status reports how it ended. Each run creates it under a
unique name, waits until it ends, reads the logs of its pods, and deletes it: after success, failure, timeout, and if
the user stops the run. Objects left by a killed run are found by their labels, listed in the plan, and deleted by the
next apply.

**It runs** only in an apply, and only if its last success was for a different declaration. `for` lists other values
that the result depends on, such as a driver version. A success is recorded in the cluster (`forge-provisioner`), a
failure removes the record. Plans, verifications and drift start nothing: they report when it was proven, and by which
run.

**Its result** is determined by its kind: condition `Complete` or `Failed` of a Job and a TrainJob, phase `Succeeded` or
`Failed` of a Pod, state `Completed`, `Failed`, `Aborted` or `Terminated` of a Volcano job, condition `Succeeded` or
`Failed` of a PyTorchJob and similar kinds. Other kinds need `succeeded` and `failed`. After a failure forge reports the
reason from the workload, its pod group, its pods or an event, with the last lines of the logs.

**`stays_pending`** inverts the test: none of its pods may start during this time, as for a gang that is too large for
the cluster. The step prints the reported reason for waiting. Without a reported reason nothing is proven, because then
no scheduler processed the workload.

**Limits** are added where the object has none: a Job and each pod end one minute after `within` at the latest; a Job
is not retried, and is deleted ten minutes after its end, even if forge no longer runs.

**Rejected before anything is contacted**: images without tag or digest; volumes of the host's devices and of the
kubelet's device plugins, which bypass the scheduler; and a request of `rdma/…` other than 1, because these are tokens
that each expose all adapters, not a number of adapters.

**Removal** deletes what runs left and removes the record of success.",
    fields: FIELDS,
    build,
    traits: KindTraits::IN_CLUSTER,
};

const SIGN_FIELDS: &[FieldSpec] = &[
    FieldSpec::optional(
        "condition",
        FieldType::Text,
        "Status condition that must be `True`. Excludes `path` and `is`.",
    ),
    FieldSpec::optional("path", FieldType::Text, "Path of the status value: `.status.state.phase`. Needs `is`."),
    FieldSpec::optional("is", FieldType::List(&FieldType::Text), "Accepted values at `path`."),
];

const LOG_FIELDS: &[FieldSpec] = &[
    FieldSpec::optional("expect", FieldType::List(&FieldType::Text), "Regular expressions; each must match a line."),
    FieldSpec::optional(
        "deny",
        FieldType::List(&FieldType::Text),
        "Regular expressions that must not match any line of any pod.",
    ),
    FieldSpec::optional(
        "each",
        FieldType::Bool,
        "Require every pod to print the expected lines; otherwise one pod is sufficient. Default `true`.",
    ),
    FieldSpec::optional("tail", FieldType::Int { min: 0, max: 1000 }, "Log lines shown after a failure. Default 20."),
];

const FIELDS: &[FieldSpec] = &[
    FieldSpec::required(
        "object",
        FieldType::Any,
        "Workload: `apiVersion`, `kind`, `metadata: { name: … }` and `spec`.",
    ),
    FieldSpec::required("namespace", FieldType::Name, "Namespace. Must exist or be created by an earlier step."),
    FieldSpec::optional(
        "succeeded",
        FieldType::Table(SIGN_FIELDS),
        "Status that means success, for kinds that forge does not know.",
    ),
    FieldSpec::optional(
        "failed",
        FieldType::Table(SIGN_FIELDS),
        "Status that means failure, for kinds that forge does not know.",
    ),
    FieldSpec::optional(
        "within",
        FieldType::Duration,
        "Time limit, including the time that its pods wait to be scheduled. Default `10m`.",
    ),
    FieldSpec::optional(
        "stays_pending",
        FieldType::Duration,
        "Time during which none of its pods may start. Excludes `within` and `logs`.",
    ),
    FieldSpec::optional("logs", FieldType::Table(LOG_FIELDS), "Expected output of its pods."),
    FieldSpec::optional(
        "image_sources",
        FieldType::Map(&FieldType::Line),
        "Registries and paths of a mirror, each with those of the images that it has copies of, for `forge plan \
         --images`: `{ mirror.example/tests: nvcr.io/nvidia }`.",
    ),
    FieldSpec::optional(
        "for",
        FieldType::Map(&FieldType::Any),
        "Other values that the result depends on; the workload runs again if one of them changes.",
    ),
];

fn build(fields: &FieldValues, absent: bool) -> Result<Box<dyn Resource>, Diag> {
    let namespace = required_text(fields, "namespace")?;
    let mut object = fields.0.get("object").cloned().unwrap_or_default();
    if !object.is_object() {
        return Err(bad_value("`object` is not an object")
            .with_field("object")
            .hint("write it as in a manifest: `apiVersion`, `kind`, `metadata`, `spec`"));
    }
    if object.pointer("/metadata/name").is_none_or(|name| !name.is_string()) {
        return Err(bad_value("`object` has no `metadata.name`").with_field("object"));
    }
    object["metadata"]["namespace"] = json!(namespace);
    let id = ObjectId::from_object(&object)
        .ok_or_else(|| bad_value("`object` has no `apiVersion` or `kind`").with_field("object"))?;
    bounds::check_workload_name(&id)?;
    check_workload(&id, &object)?;
    let signs = parse_signs(fields, &id)?;
    let seconds = |key| fields.get_int(key).and_then(|value| u64::try_from(value).ok());
    let aim = match seconds("stays_pending") {
        Some(for_s) => {
            if fields.contains("within") || fields.contains("logs") {
                return Err(bad_value("`stays_pending` excludes `within` and `logs`")
                    .with_field("stays_pending")
                    .hint("remove `within` and `logs`, or `stays_pending`"));
            }
            JobGoal::StaysPending { for_s, signs }
        }
        None => JobGoal::Ends { signs, within_s: seconds("within").unwrap_or(600) },
    };
    add_workload_bounds(&mut object, aim_limit_s(&aim));
    let about = fields.get_table("for").cloned().map(Value::Object).unwrap_or_default();
    Ok(Box::new(JobResource {
        declared: DeclaredObject { id, object },
        aim,
        logs: parse_logs(fields)?,
        about,
        mirrors: fields.get_text_map("image_sources").unwrap_or_default(),
        absent,
    }))
}

fn aim_limit_s(aim: &JobGoal) -> u64 {
    match aim {
        JobGoal::Ends { within_s, .. } => *within_s,
        JobGoal::StaysPending { for_s, .. } => *for_s,
    }
}

fn parse_signs(fields: &FieldValues, id: &ObjectId) -> Result<JobEndPredicates, Diag> {
    let known = JobEndPredicates::for_kind(&id.api_version, &id.kind);
    let lacks = |part: &str| {
        bad_value(format!("unknown status of {} in `{}`: `{part}` is missing", id.kind, id.api_version))
            .hint(format!("add `{part}: {{ path: .status.phase, is: [Done] }}` or `{part}: {{ condition: Ready }}`"))
    };
    let succeeded = parse_sign(fields, "succeeded")?.or_else(|| known.as_ref().map(|known| known.succeeded.clone()));
    let failed = parse_sign(fields, "failed")?.or_else(|| known.as_ref().map(|known| known.failed.clone()));
    Ok(JobEndPredicates {
        succeeded: succeeded.ok_or_else(|| lacks("succeeded"))?,
        failed: failed.ok_or_else(|| lacks("failed"))?,
    })
}

fn parse_sign(fields: &FieldValues, part: &str) -> Result<Option<StatusPredicate>, Diag> {
    let Some(table) = fields.get_table(part) else { return Ok(None) };
    let text = |key: &str| table.get(key).and_then(Value::as_str);
    let is: Vec<String> = table
        .get("is")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(|one| one.as_str().map(str::to_owned))
        .collect();
    match (text("condition"), text("path")) {
        (Some(name), None) if is.is_empty() => Ok(Some(StatusPredicate::Condition(name.to_owned()))),
        (None, Some(path)) if path.starts_with('.') && !is.is_empty() => {
            Ok(Some(StatusPredicate::Value { pointer: path.replace('.', "/"), is }))
        }
        _ => Err(bad_value(format!("`{part}` needs either `condition`, or `path` and `is`"))
            .hint("write `condition: Ready`, or `path: .status.phase` with `is: [Done]`")),
    }
}

fn parse_logs(fields: &FieldValues) -> Result<JobLogRules, Diag> {
    let empty = serde_json::Map::new();
    let table = fields.get_table("logs").unwrap_or(&empty);
    let texts = |key: &str| -> Vec<String> {
        let list = table.get(key).and_then(Value::as_array);
        list.into_iter().flatten().filter_map(|one| one.as_str().map(str::to_owned)).collect()
    };
    let logs = JobLogRules {
        expect: texts("expect"),
        deny: texts("deny"),
        each: table.get("each").and_then(Value::as_bool).unwrap_or(true),
        tail: table.get("tail").and_then(Value::as_u64).and_then(|tail| tail.try_into().ok()).unwrap_or(20),
    };
    match logs.expect.iter().chain(&logs.deny).find(|text| regex::Regex::new(text).is_err()) {
        Some(text) => Err(bad_value(format!("invalid regular expression `{text}`"))),
        None => Ok(logs),
    }
}

impl DeclaredResource for JobResource {
    fn kind(&self) -> &'static str {
        KIND.name
    }

    fn title(&self) -> String {
        self.declared.id.to_string()
    }

    fn probes(&self) -> Vec<Probe> {
        let mut probes = vec![self.probe()];
        probes.extend((!self.absent).then(|| self.declared.probe()));
        probes
    }

    fn time_limit_s(&self) -> Option<u64> {
        // Its pods may take a while to terminate.
        Some(aim_limit_s(&self.aim).saturating_add(180))
    }

    fn desired_value(&self) -> Value {
        let aim = match &self.aim {
            JobGoal::Ends { .. } => json!("ends"),
            JobGoal::StaysPending { for_s, .. } => json!({ "stays_pending": for_s }),
        };
        let logs = json!({ "expect": self.logs.expect, "deny": self.logs.deny, "each": self.logs.each });
        let mut desired = json!({ "object": self.declared.object, "aim": aim, "logs": logs, "for": self.about });
        if self.absent {
            desired = json!({ "object": self.declared.id.to_claim(), "absent": true });
        }
        desired
    }

    fn provided_items(&self) -> Vec<ProvidedItem> {
        Vec::new()
    }

    fn exclusive_claims(&self) -> Vec<(&'static str, String)> {
        let (_, name) = object_claim(&self.declared.id);
        vec![(KIND.name, name)]
    }
}

impl TypedResource for JobResource {
    type Diff = JobDiff;

    fn diff(&self, seen: &Observation, cx: &AssessmentContext<'_>) -> Assessment<JobDiff> {
        assessment::assess_job(self, seen, cx)
    }

    fn act(&self, diff: &JobDiff, _cx: &AssessmentContext<'_>) -> Action {
        Action::Calls(diff.build_calls(self))
    }

    fn undo(&self, _diff: &JobDiff) -> UndoEffect {
        // The workload is deleted by the run itself.
        UndoEffect::default()
    }
}

#[cfg(test)]
mod tests;
