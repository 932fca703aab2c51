//! The Jobs of workers in pods: what the inventory declares about them, and their objects.

use super::access::ClusterAccess;
use crate::model::{Value, to_hex};
use camino::Utf8PathBuf;
use serde_json::json;
use sha2::{Digest, Sha256};

/// The label with the run that a Job belongs to.
pub const WORKER_RUN_LABEL: &str = "forge/run";
/// The label with the inventory's cluster: a hash, because its name may not be valid as a label.
pub const WORKER_CLUSTER_LABEL: &str = "forge/cluster";
/// The label with what the workers of a Job do: [`WorkerRoleLabel`].
pub const WORKER_ROLE_LABEL: &str = "forge/worker";
/// The keys of a pod that forge sets itself.
pub const OWN_POD_KEYS: [&str; 2] = ["containers", "restartPolicy"];
/// The keys of a worker's container that forge sets itself.
pub const OWN_CONTAINER_KEYS: [&str; 4] = ["name", "image", "command", "args"];

/// The name of the container in which a worker runs.
const CONTAINER: &str = "worker";
/// Finished Jobs that no run has deleted go after this time.
const FINISHED_TTL_S: u64 = 3600;

/// The inventory's settings for workers in pods.
#[derive(Clone, Debug, PartialEq)]
pub struct WorkerPods {
    /// The API in which the pods run. Its namespace is that of the Jobs and of the lock.
    pub access: ClusterAccess,
    /// The image with the program `forge`.
    pub image: String,
    /// The volume that coordinator and workers share.
    pub volume: WorkerVolume,
    /// Secrets by name, with the folder in which workers find them.
    pub secrets: Vec<(String, Utf8PathBuf)>,
    /// Seconds that a worker may take until it has read its task.
    pub start_within_s: u64,
    /// Seconds after which the API ends a worker; unlimited without it.
    pub deadline_s: Option<u64>,
    /// Further fields of the pod.
    pub pod: Value,
    /// Further fields of the container.
    pub container: Value,
}

/// A volume that this machine and the pods see at the same path: then every path in a task is valid in a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkerVolume {
    /// Where the data is.
    pub source: WorkerVolumeSource,
    /// The absolute path, on this machine and in the pods.
    pub path: Utf8PathBuf,
}

/// Where the data of a volume is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WorkerVolumeSource {
    /// A PersistentVolumeClaim.
    Claim(String),
    /// A folder of the nodes, for example of a file system that each of them mounts.
    HostPath(Utf8PathBuf),
}

/// What a worker does: only workers that change hosts keep a later run from starting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkerRoleLabel {
    /// It observes hosts.
    Observe,
    /// It changes hosts.
    Apply,
}

impl WorkerRoleLabel {
    /// Returns the value of the label.
    pub fn name(self) -> &'static str {
        match self {
            Self::Observe => "observe",
            Self::Apply => "apply",
        }
    }
}

/// One Job of a worker.
#[derive(Clone, Debug)]
pub struct WorkerJobObject<'j> {
    /// Its name.
    pub name: &'j str,
    /// The run that it belongs to.
    pub run: &'j str,
    /// The inventory's cluster.
    pub cluster: &'j str,
    /// What it does.
    pub role: WorkerRoleLabel,
    /// The program and its arguments. `$(FORGE_POD)` is replaced by the name of the pod.
    pub command: &'j [String],
    /// User and group of the process: those of the coordinator, which owns the files on the volume.
    pub user: (u32, u32),
}

/// Returns the value of [`WORKER_CLUSTER_LABEL`].
pub fn worker_cluster_label(cluster: &str) -> String {
    to_hex(&Sha256::digest(cluster.as_bytes()))[..16].to_owned()
}

impl WorkerPods {
    /// Returns the object of a Job. The pod is started once: whether a worker is replaced, the coordinator decides.
    pub fn build_job(&self, job: &WorkerJobObject<'_>) -> Value {
        let labels = json!({
            "app.kubernetes.io/managed-by": "forge",
            WORKER_RUN_LABEL: job.run,
            WORKER_CLUSTER_LABEL: worker_cluster_label(job.cluster),
            WORKER_ROLE_LABEL: job.role.name(),
        });
        let mut object = json!({
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {
                "name": job.name,
                "namespace": self.access.namespace,
                "labels": labels,
                "annotations": { "forge/cluster-name": job.cluster },
            },
            "spec": {
                "backoffLimit": 0,
                "completions": 1,
                "parallelism": 1,
                "ttlSecondsAfterFinished": FINISHED_TTL_S,
                "template": { "metadata": { "labels": labels }, "spec": self.build_pod(job) },
            },
        });
        if let Some(deadline) = self.deadline_s {
            object["spec"]["activeDeadlineSeconds"] = json!(deadline);
        }
        object
    }

    fn build_pod(&self, job: &WorkerJobObject<'_>) -> Value {
        let mut pod = json!({ "automountServiceAccountToken": false, "enableServiceLinks": false });
        pod["securityContext"] = build_pod_security(job.user);
        set_fields(&mut pod, &self.pod);
        pod["restartPolicy"] = json!("Never");
        pod["containers"] = json!([self.build_container(job)]);
        append_items(&mut pod, "volumes", self.list_volumes());
        if !self.has_own_tmp() {
            append_items(&mut pod, "volumes", vec![json!({ "name": "forge-tmp", "emptyDir": {} })]);
        }
        pod
    }

    fn build_container(&self, job: &WorkerJobObject<'_>) -> Value {
        let mut container = json!({
            "securityContext": { "allowPrivilegeEscalation": false, "capabilities": { "drop": ["ALL"] } },
            // The API then says what the worker printed last, without a right to read logs.
            "terminationMessagePolicy": "FallbackToLogsOnError",
        });
        set_fields(&mut container, &self.container);
        container["name"] = json!(CONTAINER);
        container["image"] = json!(self.image);
        container["command"] = json!(job.command);
        let name = json!({ "name": "FORGE_POD", "valueFrom": { "fieldRef": { "fieldPath": "metadata.name" } } });
        append_items(&mut container, "env", vec![name]);
        append_items(&mut container, "volumeMounts", self.list_mounts());
        if !self.has_own_tmp() {
            // For control sockets of ssh. An image may have no such folder, or be read-only.
            append_items(&mut container, "volumeMounts", vec![json!({ "name": "forge-tmp", "mountPath": "/tmp" })]);
        }
        container
    }

    /// Reports whether the inventory declares a volume for `/tmp`.
    fn has_own_tmp(&self) -> bool {
        let mounts = self.container["volumeMounts"].as_array();
        mounts.into_iter().flatten().any(|mount| mount["mountPath"] == "/tmp")
    }

    fn list_volumes(&self) -> Vec<Value> {
        let store = match &self.volume.source {
            WorkerVolumeSource::Claim(claim) => {
                json!({ "name": "forge-volume", "persistentVolumeClaim": { "claimName": claim } })
            }
            WorkerVolumeSource::HostPath(path) => {
                json!({ "name": "forge-volume", "hostPath": { "path": path.as_str(), "type": "Directory" } })
            }
        };
        let secret = |(at, (name, _)): (usize, &(String, Utf8PathBuf))| {
            // 0400: the owner alone; with an `fsGroup` the kubelet lets that group read, too.
            json!({ "name": format!("forge-secret-{at}"), "secret": { "secretName": name, "defaultMode": 0o400 } })
        };
        std::iter::once(store).chain(self.secrets.iter().enumerate().map(secret)).collect()
    }

    fn list_mounts(&self) -> Vec<Value> {
        let store = json!({ "name": "forge-volume", "mountPath": self.volume.path.as_str() });
        let secret = |(at, (_, path)): (usize, &(String, Utf8PathBuf))| json!({ "name": format!("forge-secret-{at}"), "mountPath": path.as_str(), "readOnly": true });
        std::iter::once(store).chain(self.secrets.iter().enumerate().map(secret)).collect()
    }
}

/// Another user than root reads the files of Secrets as a member of `fsGroup`.
fn build_pod_security((user, group): (u32, u32)) -> Value {
    match user {
        0 => json!({ "runAsUser": 0, "runAsGroup": group, "seccompProfile": { "type": "RuntimeDefault" } }),
        _ => json!({
            "runAsNonRoot": true, "runAsUser": user, "runAsGroup": group, "fsGroup": group,
            "fsGroupChangePolicy": "OnRootMismatch", "seccompProfile": { "type": "RuntimeDefault" },
        }),
    }
}

/// Sets declared fields: each replaces forge's default as a whole.
fn set_fields(object: &mut Value, declared: &Value) {
    for (key, value) in declared.as_object().into_iter().flatten() {
        object[key.as_str()] = value.clone();
    }
}

/// Appends forge's items to a declared list.
fn append_items(object: &mut Value, key: &str, items: Vec<Value>) {
    let mut all = object[key].as_array().cloned().unwrap_or_default();
    all.extend(items);
    object[key] = Value::Array(all);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn declared(pod: Value, container: Value) -> WorkerPods {
        WorkerPods {
            access: ClusterAccess {
                kubeconfig: "/k".into(),
                context: "c".to_owned(),
                trusted: false,
                via: None,
                withheld: Default::default(),
                namespace: "forge".to_owned(),
                retry_s: 0,
            },
            image: "registry.example/forge:1".to_owned(),
            volume: WorkerVolume { source: WorkerVolumeSource::Claim("shared".to_owned()), path: "/srv/forge".into() },
            secrets: vec![("ssh".to_owned(), "/etc/forge/ssh".into())],
            start_within_s: 300,
            deadline_s: None,
            pod,
            container,
        }
    }

    fn job<'j>(command: &'j [String]) -> WorkerJobObject<'j> {
        let (name, run, cluster, role) = ("forge-1", "20261121T093015-4f2a", "lab_1", WorkerRoleLabel::Apply);
        WorkerJobObject { name, run, cluster, role, command, user: (1000, 1001) }
    }

    #[test]
    fn pod_of_a_job_starts_once_as_the_user_of_the_coordinator() {
        let command = ["forge", "worker"].map(str::to_owned);
        let object = declared(json!({}), json!({})).build_job(&job(&command));
        let pod = &object["spec"]["template"]["spec"];
        assert_eq!((&object["spec"]["backoffLimit"], &pod["restartPolicy"]), (&json!(0), &json!("Never")));
        assert_eq!(object["spec"].get("activeDeadlineSeconds"), None);
        assert_eq!(pod["securityContext"]["runAsUser"], 1000);
        assert_eq!(pod["securityContext"]["fsGroup"], 1001);
        assert_eq!(pod["containers"][0]["command"], json!(["forge", "worker"]));
        assert_eq!(pod["containers"][0]["volumeMounts"][0]["mountPath"], "/srv/forge");
        assert_eq!(pod["volumes"][1]["secret"], json!({ "secretName": "ssh", "defaultMode": 256 }));
        let labels = &object["spec"]["template"]["metadata"]["labels"];
        assert_eq!((&labels["forge/run"], &labels["forge/worker"]), (&json!("20261121T093015-4f2a"), &json!("apply")));
        assert_eq!(labels["forge/cluster"].as_str().unwrap().len(), 16);
    }

    #[test]
    fn declared_fields_replace_defaults_and_lists_are_completed() {
        let pod = json!({ "nodeSelector": { "pool": "mgmt" }, "securityContext": { "runAsUser": 7 }, "volumes": [{ "name": "x" }] });
        let container =
            json!({ "resources": { "limits": { "memory": "1Gi" } }, "env": [{ "name": "A", "value": "1" }] });
        let object = WorkerPods { deadline_s: Some(60), ..declared(pod, container) }.build_job(&job(&[]));
        let pod = &object["spec"]["template"]["spec"];
        assert_eq!(object["spec"]["activeDeadlineSeconds"], 60);
        assert_eq!(pod["nodeSelector"]["pool"], "mgmt");
        assert_eq!(pod["securityContext"], json!({ "runAsUser": 7 }));
        let names = |list: &Value| -> Vec<String> {
            list.as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap().to_owned()).collect()
        };
        assert_eq!(names(&pod["volumes"]), ["x", "forge-volume", "forge-secret-0", "forge-tmp"]);
        assert_eq!(names(&pod["containers"][0]["env"]), ["A", "FORGE_POD"]);
        assert_eq!(pod["containers"][0]["resources"]["limits"]["memory"], "1Gi");
        let own = json!({ "volumeMounts": [{ "name": "x", "mountPath": "/tmp" }] });
        let object = declared(json!({}), own).build_job(&job(&[]));
        assert_eq!(names(&object["spec"]["template"]["spec"]["volumes"]), ["forge-volume", "forge-secret-0"]);
    }
}
