//! The object of one run of a workload: with a name of its own, and labels that identify it and its pods.

use crate::model::{Value, to_hex};
use crate::object::ObjectId;
use serde_json::json;
use sha2::{Digest, Sha256};

/// The label with the declaration.
pub(super) const JOB_LABEL: &str = "forge/job";
/// The label with the run.
pub(super) const RUN_LABEL: &str = "forge/run";

/// Returns the label's value for a workload of the inventory's cluster: two inventories may use the same workload name.
pub(super) fn job_label_value(cluster: &str, id: &ObjectId) -> String {
    to_hex(&Sha256::digest(format!("{cluster} {}", id.to_claim()).as_bytes()))[..16].to_owned()
}

/// The values of the labels of one run's object and of its pods.
pub(super) struct RunLabels {
    /// That of [`JOB_LABEL`].
    pub job: String,
    /// That of [`RUN_LABEL`].
    pub run: String,
}

impl RunLabels {
    /// Returns the selector of the objects with these labels.
    pub fn to_selector(&self) -> String {
        format!("{RUN_LABEL}={},{JOB_LABEL}={}", self.run, self.job)
    }
}

/// Returns the object for one run.
pub(super) fn build_run_object(object: &Value, labels: &RunLabels) -> Value {
    let mut object = object.clone();
    let name = object.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
    let own = to_hex(&Sha256::digest(labels.run.as_bytes()));
    object["metadata"]["name"] = json!(format!("{name}-{}", &own[..8]));
    add_run_labels(&mut object, labels);
    visit_pod_templates(&mut object, &mut |template| add_run_labels(template, labels));
    object
}

fn add_run_labels(object: &mut Value, RunLabels { job, run }: &RunLabels) {
    for (key, value) in [("app.kubernetes.io/managed-by", "forge"), (JOB_LABEL, job), (RUN_LABEL, run)] {
        object["metadata"]["labels"][key] = json!(value);
    }
}

/// Finds pod templates: every object whose `spec` has containers.
fn visit_pod_templates(value: &mut Value, found: &mut impl FnMut(&mut Value)) {
    match value {
        Value::Object(map) => {
            map.values_mut().for_each(|below| visit_pod_templates(below, found));
            if value.pointer("/spec/containers").is_some_and(Value::is_array) {
                found(value);
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| visit_pod_templates(item, found)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn run_labels_are_set_on_every_pod_template() {
        let template = json!({ "spec": { "containers": [{ "name": "pytorch" }] } });
        let job = json!({
            "apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "metadata": { "name": "smoke", "namespace": "ml" },
            "spec": { "pytorchReplicaSpecs": { "Master": { "template": template }, "Worker": { "template": template } } },
        });
        let id = ObjectId::from_object(&job).unwrap();
        let build =
            |run: &str| build_run_object(&job, &RunLabels { job: job_label_value("lab", &id), run: run.to_owned() });
        let made = build("r1");
        let labels = json!({ "app.kubernetes.io/managed-by": "forge", "forge/job": job_label_value("lab", &id), "forge/run": "r1" });
        assert_eq!(made["metadata"]["labels"], labels);
        for replica in ["Master", "Worker"] {
            assert_eq!(made["spec"]["pytorchReplicaSpecs"][replica]["template"]["metadata"]["labels"], labels);
        }
        let name = made["metadata"]["name"].as_str().unwrap();
        assert!(name.starts_with("smoke-") && name.len() == 14, "{name}");
        assert_ne!(made["metadata"]["name"], build("r2")["metadata"]["name"]);
        assert_ne!(job_label_value("lab", &id), job_label_value("other", &id));
    }
}
