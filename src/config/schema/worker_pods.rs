//! The schema of `worker_pods`.

use super::parts::{duration_schema, map_schema, object_schema, text_schema, with_description};
use crate::config::inventory::{WORKER_PODS_KEYS, WORKER_VOLUME_KEYS};
use crate::model::Value;
use serde_json::json;

pub(super) fn worker_pods_schema() -> Value {
    object_schema(&WORKER_PODS_KEYS, worker_pods_property, &["image", "volume"])
}

fn worker_pods_property(key: &str) -> Value {
    match key {
        "kubeconfig" => with_description("Kubeconfig of this machine. Default: that of `kubernetes`.", text_schema()),
        "context" => with_description("Context in the kubeconfig. Default: that of `kubernetes`.", text_schema()),
        "namespace" => with_description(
            "Existing namespace of the Jobs and of the lock of coordinators. Default: `forge-provisioner`.",
            text_schema(),
        ),
        "image" => with_description("Image with the program `forge` of this version, and `ssh`.", text_schema()),
        "volume" => with_description(
            "Volume with the inventory's folder and the state folder, at the same path here and in the pods.",
            object_schema(&WORKER_VOLUME_KEYS, volume_property, &["path"]),
        ),
        "secrets" => with_description(
            "Secrets by name, with the folder in which workers find their files: `forge-ssh: /etc/forge/ssh`.",
            map_schema(text_schema()),
        ),
        "start_within" => {
            with_description("How long a worker may take until it has read its task. Default: 5m.", duration_schema())
        }
        "deadline" => with_description(
            "How long a worker may run (`activeDeadlineSeconds`). Default: no limit.",
            duration_schema(),
        ),
        "pod" => with_description("Further fields of the pod's spec: `nodeSelector`, `tolerations` …", any_object()),
        "container" => with_description("Further fields of the container: `resources`, `env` …", any_object()),
        _ => json!({}),
    }
}

fn volume_property(key: &str) -> Value {
    match key {
        "path" => with_description("Absolute path, on this machine and in the pods.", text_schema()),
        "claim" => with_description("PersistentVolumeClaim in the namespace.", text_schema()),
        "host_path" => with_description("Folder of the nodes. Alternative to `claim`.", text_schema()),
        _ => json!({}),
    }
}

fn any_object() -> Value {
    json!({ "type": "object" })
}
