//! `job`: a bounded workload that proves something of the cluster.

mod bounds;
mod judge;

use super::manifest::check_workload;
use super::object::{Declared, claim};
use super::support::{bad_value, required, sha256_hex};
use super::{Action, Context, Field, Fields, Judgement, Kind, Provision, Resource, Type};
use crate::diag::Diag;
use crate::kube::{Aim, JobCall, Logs, Sign, Signs};
use crate::model::Value;
use crate::probe::{ObjectId, Observation, Probe};
use serde_json::json;

pub(super) const KIND: Kind = Kind {
    name: "job",
    summary: "A bounded workload that proves something of the cluster, and is taken away again.",
    example: include_str!("../examples/job.yaml"),
    doc: "\
Runs through the cluster's API (see [`forge explain cluster`](../../cluster.md)), on no host. `object` is a Job, a Pod, a job of Volcano, a PyTorchJob or
whatever says of itself how it ended. Each run makes it under a name of its own, waits until it ended, reads the logs of its
pods, and takes it away: after a success, a failure, at the end of its time, and when the user stops the run. What a killed run left is
found by its labels, told by the plan, and taken away by the next apply.

**It runs** only in an apply, and only if its last success was one of another declaration; `for` names what else that depends on, such as
the version of a driver. A success is kept in the cluster (`forge-provisioner`), a failure forgets it. Plans, verifications and drift
start nothing: they say when it was proven, and by which run.

**Its end** is told by the kind: condition `Complete` or `Failed` of a Job and a TrainJob, phase `Succeeded` or `Failed` of a Pod, state
`Completed`, or `Failed`, `Aborted` or `Terminated`, of a job of Volcano, condition `Succeeded` or `Failed` of a PyTorchJob and
its like. Other kinds need `succeeded` and `failed`. After a failure the reason is told that the workload, its pod group,
its pods or an event give, with the last lines of the logs.

**`stays_pending`** turns it round: for so long no pod of it may begin, as for a gang that is too large for the cluster. Somebody has to say why it
waits, and that reason is what the step prints: where no scheduler looks at it, nothing is proven.

**Bounds** are added where the object has none: each pod ends at latest a minute after `within`, a Job fails then, is not tried again, and goes ten
minutes after its end, whatever becomes of forge.

**Refused before anything is contacted** are images without tag or digest, volumes of the host's devices and of the kubelet's device
plugins, which pass by the scheduler, and a request of `rdma/…` other than 1: these are tokens, of which each shows all adapters,
and no number of adapters.

**Removal** takes away what runs left, and forgets the success.",
    fields: FIELDS,
    build,
};

const SIGN: &[Field] = &[
    Field::optional("condition", Type::Text, "A condition of its status that is `True`. This, or `path` and `is`."),
    Field::optional("path", Type::Text, "Where it says so: `.status.state.phase`."),
    Field::optional("is", Type::List(&Type::Text), "What may stand there."),
];

const LOGS: &[Field] = &[
    Field::optional("expect", Type::List(&Type::Text), "Regular expressions, each of which a line has to fit."),
    Field::optional("deny", Type::List(&Type::Text), "Regular expressions that no line may fit, in no pod."),
    Field::optional(
        "each",
        Type::Bool,
        "Whether each pod has to say what is expected; else one is enough. Default `true`.",
    ),
    Field::optional("tail", Type::Int { min: 0, max: 1000 }, "Lines that are shown after a failure. Default 20."),
];

const FIELDS: &[Field] = &[
    Field::required("object", Type::Any, "The workload: `apiVersion`, `kind`, `metadata: { name: … }` and `spec`."),
    Field::required("namespace", Type::Name, "Its namespace; it must exist, or an earlier step make it."),
    Field::optional(
        "succeeded",
        Type::Table(SIGN),
        "By what a success is told, where the kind is none of those above.",
    ),
    Field::optional("failed", Type::Table(SIGN), "By what a failure is told."),
    Field::optional(
        "within",
        Type::Duration,
        "How long it may take, with the time that its pods wait for a place. Default `10m`.",
    ),
    Field::optional(
        "stays_pending",
        Type::Duration,
        "For how long no pod of it may begin. Excludes `within` and `logs`.",
    ),
    Field::optional("logs", Type::Table(LOGS), "What its pods have to print."),
    Field::optional(
        "for",
        Type::Map(&Type::Any),
        "What else the proof is about: where one of these values is another, it runs again.",
    ),
];

#[derive(Debug)]
struct Job {
    declared: Declared,
    aim: Aim,
    logs: Logs,
    /// Values that it is about.
    about: Value,
    absent: bool,
}

fn build(fields: &Fields, absent: bool) -> Result<Box<dyn Resource>, Diag> {
    let namespace = required(fields, "namespace")?;
    let mut object = fields.0.get("object").cloned().unwrap_or_default();
    if !object.is_object() {
        return Err(bad_value("`object` is no object")
            .hint("write it as in a manifest: `apiVersion`, `kind`, `metadata`, `spec`"));
    }
    if object.pointer("/metadata/name").is_none_or(|name| !name.is_string()) {
        return Err(bad_value("`object` has no `metadata.name`"));
    }
    object["metadata"]["namespace"] = json!(namespace);
    let id = ObjectId::of(&object).ok_or_else(|| bad_value("`object` has no `apiVersion` or `kind`"))?;
    bounds::name(&id)?;
    check_workload(&id, &object)?;
    let signs = signs(fields, &id)?;
    let seconds = |key| fields.int(key).and_then(|value| u64::try_from(value).ok());
    let aim = match seconds("stays_pending") {
        Some(for_s) => {
            if fields.has("within") || fields.has("logs") {
                return Err(bad_value("what stays pending has no end to wait for, and prints nothing")
                    .hint("leave out `within` and `logs`, or `stays_pending`"));
            }
            Aim::StaysPending { for_s, signs }
        }
        None => Aim::Ends { signs, within_s: seconds("within").unwrap_or(600) },
    };
    bounds::add(&mut object, limit_of(&aim));
    let about = fields.table("for").cloned().map(Value::Object).unwrap_or_default();
    Ok(Box::new(Job { declared: Declared { id, object }, aim, logs: logs(fields)?, about, absent }))
}

fn limit_of(aim: &Aim) -> u64 {
    match aim {
        Aim::Ends { within_s, .. } => *within_s,
        Aim::StaysPending { for_s, .. } => *for_s,
    }
}

fn signs(fields: &Fields, id: &ObjectId) -> Result<Signs, Diag> {
    let known = Signs::known(&id.api_version, &id.kind);
    let lacks = |part: &str| {
        bad_value(format!("how a {} of `{}` ends is not known: `{part}` is missing", id.kind, id.api_version)).hint(
            format!("say it: `{part}: {{ path: .status.phase, is: [Done] }}`, or `{part}: {{ condition: Ready }}`"),
        )
    };
    let succeeded = sign(fields, "succeeded")?.or_else(|| known.as_ref().map(|known| known.succeeded.clone()));
    let failed = sign(fields, "failed")?.or_else(|| known.as_ref().map(|known| known.failed.clone()));
    Ok(Signs {
        succeeded: succeeded.ok_or_else(|| lacks("succeeded"))?,
        failed: failed.ok_or_else(|| lacks("failed"))?,
    })
}

fn sign(fields: &Fields, part: &str) -> Result<Option<Sign>, Diag> {
    let Some(table) = fields.table(part) else { return Ok(None) };
    let text = |key: &str| table.get(key).and_then(Value::as_str);
    let is: Vec<String> = table
        .get("is")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(|one| one.as_str().map(str::to_owned))
        .collect();
    match (text("condition"), text("path")) {
        (Some(name), None) if is.is_empty() => Ok(Some(Sign::Condition(name.to_owned()))),
        (None, Some(path)) if path.starts_with('.') && !is.is_empty() => {
            Ok(Some(Sign::Value { pointer: path.replace('.', "/"), is }))
        }
        _ => Err(bad_value(format!("`{part}` is neither a condition nor a path with its values"))
            .hint("write `condition: Ready`, or `path: .status.phase` with `is: [Done]`")),
    }
}

fn logs(fields: &Fields) -> Result<Logs, Diag> {
    let empty = serde_json::Map::new();
    let table = fields.table("logs").unwrap_or(&empty);
    let texts = |key: &str| -> Vec<String> {
        let list = table.get(key).and_then(Value::as_array);
        list.into_iter().flatten().filter_map(|one| one.as_str().map(str::to_owned)).collect()
    };
    let logs = Logs {
        expect: texts("expect"),
        deny: texts("deny"),
        each: table.get("each").and_then(Value::as_bool).unwrap_or(true),
        tail: table.get("tail").and_then(Value::as_u64).and_then(|tail| tail.try_into().ok()).unwrap_or(20),
    };
    match logs.expect.iter().chain(&logs.deny).find(|text| regex::Regex::new(text).is_err()) {
        Some(text) => Err(bad_value(format!("`{text}` is no regular expression"))),
        None => Ok(logs),
    }
}

impl Job {
    fn probe(&self) -> Probe {
        Probe::Proof { id: self.declared.id.clone() }
    }

    /// Returns the digest of all that it proves.
    fn digest(&self) -> String {
        format!("sha256:{}", sha256_hex(self.desired().to_string().as_bytes()))
    }

    fn call(&self) -> JobCall {
        JobCall {
            id: self.declared.id.clone(),
            object: self.declared.object.clone(),
            digest: self.digest(),
            aim: self.aim.clone(),
            logs: self.logs.clone(),
        }
    }
}

impl Resource for Job {
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

    fn judge(&self, seen: &Observation, cx: &Context<'_>) -> Judgement {
        judge::judge(self, seen, cx)
    }

    fn act(&self, _judgement: &Judgement, _cx: &Context<'_>) -> Action {
        Action::default()
    }

    fn limit_s(&self) -> Option<u64> {
        // Its pods may take a while to leave.
        Some(limit_of(&self.aim).saturating_add(180))
    }

    fn desired(&self) -> Value {
        let aim = match &self.aim {
            Aim::Ends { .. } => json!("ends"),
            Aim::StaysPending { for_s, .. } => json!({ "stays_pending": for_s }),
        };
        let logs = json!({ "expect": self.logs.expect, "deny": self.logs.deny, "each": self.logs.each });
        let mut desired = json!({ "object": self.declared.object, "aim": aim, "logs": logs, "for": self.about });
        if self.absent {
            desired = json!({ "object": self.declared.id.claim(), "absent": true });
        }
        desired
    }

    fn provides(&self) -> Vec<Provision> {
        Vec::new()
    }

    fn claims(&self) -> Vec<(&'static str, String)> {
        let (_, name) = claim(&self.declared.id);
        vec![(KIND.name, name)]
    }
}

#[cfg(test)]
mod tests;
