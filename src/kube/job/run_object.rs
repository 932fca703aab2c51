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

/// Returns the object for one run.
pub(super) fn build_run_object(object: &Value, mark: &str, run: &str) -> Value {
    let mut object = object.clone();
    let name = object.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
    let own = to_hex(&Sha256::digest(run.as_bytes()));
    object["metadata"]["name"] = json!(format!("{name}-{}", &own[..8]));
    add_run_labels(&mut object, mark, run);
    visit_pod_templates(&mut object, &mut |template| add_run_labels(template, mark, run));
    object
}

fn add_run_labels(object: &mut Value, mark: &str, run: &str) {
    for (key, value) in [("app.kubernetes.io/managed-by", "forge"), (JOB_LABEL, mark), (RUN_LABEL, run)] {
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
        let made = build_run_object(&job, &job_label_value("lab", &id), "r1");
        let labels = json!({ "app.kubernetes.io/managed-by": "forge", "forge/job": job_label_value("lab", &id), "forge/run": "r1" });
        assert_eq!(made["metadata"]["labels"], labels);
        for replica in ["Master", "Worker"] {
            assert_eq!(made["spec"]["pytorchReplicaSpecs"][replica]["template"]["metadata"]["labels"], labels);
        }
        let name = made["metadata"]["name"].as_str().unwrap();
        assert!(name.starts_with("smoke-") && name.len() == 14, "{name}");
        assert_ne!(made["metadata"]["name"], build_run_object(&job, "m", "r2")["metadata"]["name"]);
        assert_ne!(job_label_value("lab", &id), job_label_value("other", &id));
    }
}
