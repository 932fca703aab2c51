//! The object of one collective that runs as a job: one pod on each host of a group.

use super::add_workload_bounds;
use super::test_launch::{TestJobKind, TestJobLaunch};
use crate::model::Value;
use serde_json::{Map, json};

/// The label that says what a pod does: [`TestPodRole`].
pub const TEST_ROLE_LABEL: &str = "forge/test-role";
/// The annotation with the hosts that a job occupies, as a JSON list.
pub const TEST_HOSTS_ANNOTATION: &str = "forge/test-hosts";
/// The name of the object, to which each measurement appends a suffix.
pub const TEST_JOB_NAME: &str = "forge-test";

/// The name of the only container.
const CONTAINER: &str = "main";
const START_PROGRAM: &str = include_str!("test_job/launch-mpi.sh");
const SSH_SERVER: &str = include_str!("test_job/serve-ssh.sh");
const GID_SEARCH: &str = include_str!("test_job/roce-gid.sh");
const TORCH_PROGRAM: &str = include_str!("test_job/collective.py");
const TORCH_START: &str = include_str!("test_job/launch-torch.sh");

/// What a pod does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TestPodRole {
    /// It starts the processes in the other pods, and prints the result.
    Launcher,
    /// It runs processes.
    Worker,
    /// It runs processes, and prints the result.
    FirstRank,
}

impl TestPodRole {
    /// Returns the value of [`TEST_ROLE_LABEL`].
    pub fn name(self) -> &'static str {
        match self {
            Self::Launcher => "launcher",
            Self::Worker => "worker",
            Self::FirstRank => "first-rank",
        }
    }
}

/// One collective on the hosts of a group.
#[derive(Clone, Debug)]
pub struct TestJobObject<'j> {
    /// How it starts.
    pub launch: &'j TestJobLaunch,
    /// The hosts of the group.
    pub hosts: &'j [String],
    /// Their nodes.
    pub nodes: &'j [String],
    /// Processes of each pod.
    pub slots: u64,
    /// The program of nccl-tests that each process runs, with its arguments.
    pub command: &'j [String],
    /// The collective and the smallest and the largest size, for PyTorch.
    pub collective: (&'j str, &'j str, &'j str),
    /// Seconds that it may run once its pods have started.
    pub limit_s: u64,
}

impl TestJobObject<'_> {
    /// Returns the object, without the labels of its run. The API ends it if forge does not.
    pub fn build(&self) -> Value {
        let (api_version, kind) = self.launch.kind.api_kind();
        let spec = match self.launch.kind {
            TestJobKind::MpiJob => self.build_mpi_job(),
            TestJobKind::PyTorchJob => self.build_pytorch_job(),
            TestJobKind::VolcanoJob => self.build_volcano_job(),
        };
        let hosts = Value::from(self.hosts).to_string();
        let mut object = json!({
            "apiVersion": api_version,
            "kind": kind,
            "metadata": {
                "name": TEST_JOB_NAME,
                "namespace": self.launch.namespace,
                "annotations": { TEST_HOSTS_ANNOTATION: hosts },
            },
            "spec": spec,
        });
        add_workload_bounds(&mut object, self.launch.start_within_s + self.limit_s);
        object
    }

    fn build_mpi_job(&self) -> Value {
        json!({
            "slotsPerWorker": self.slots,
            // Older operators do not have the key, and the API drops it: the launcher itself also waits for the workers.
            "launcherCreationPolicy": "WaitForWorkersReady",
            "runPolicy": { "cleanPodPolicy": "Running", "backoffLimit": 0 },
            "mpiReplicaSpecs": {
                "Launcher": { "replicas": 1, "restartPolicy": "Never", "template": self.build_launcher() },
                "Worker": { "replicas": self.nodes.len(), "restartPolicy": "Never", "template": self.build_worker() },
            },
        })
    }

    fn build_volcano_job(&self) -> Value {
        let mut spec = json!({
            "schedulerName": "volcano",
            "minAvailable": self.nodes.len() + 1,
            "maxRetry": 1,
            "plugins": { "ssh": [], "svc": [] },
            "policies": [
                { "event": "PodFailed", "action": "AbortJob" },
                { "event": "PodEvicted", "action": "AbortJob" },
            ],
            "tasks": [
                {
                    "name": "launcher", "replicas": 1, "template": self.build_launcher(),
                    "policies": [{ "event": "TaskCompleted", "action": "CompleteJob" }],
                },
                { "name": "worker", "replicas": self.nodes.len(), "template": self.build_worker() },
            ],
        });
        spec["queue"] = json!(self.launch.queue.as_deref().unwrap_or("default"));
        spec
    }

    fn build_pytorch_job(&self) -> Value {
        let rank = |role: TestPodRole, count: usize| json!({ "replicas": count, "restartPolicy": "Never", "template": self.build_rank(role) });
        // The job ends with its first rank. The logs of the others are read after that, and forge deletes the pods.
        json!({
            "runPolicy": { "cleanPodPolicy": "None", "backoffLimit": 0 },
            "pytorchReplicaSpecs": {
                "Master": rank(TestPodRole::FirstRank, 1),
                "Worker": rank(TestPodRole::Worker, self.nodes.len() - 1),
            },
        })
    }

    /// Returns the pod that runs `mpirun`. It has no devices, and is on one of the hosts.
    fn build_launcher(&self) -> Value {
        let attempts = self.launch.start_within_s;
        let mut command = shell_command(START_PROGRAM, [self.slots.to_string(), attempts.to_string()]);
        command.extend(self.list_mpi_arguments());
        self.build_pod(TestPodRole::Launcher, command, Vec::new())
    }

    fn list_mpi_arguments(&self) -> Vec<String> {
        let ranks = self.slots * self.nodes.len() as u64;
        let mut words =
            ["--allow-run-as-root", "--bind-to", "none", "--mca", "plm_rsh_args"].map(str::to_owned).to_vec();
        words.push(
            "-p 2222 -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR -o ConnectionAttempts=10"
                .to_owned(),
        );
        for key in ["oob_tcp_if_include", "btl_tcp_if_include"] {
            words.extend(
                self.launch.interface.iter().flat_map(|name| ["--mca".to_owned(), key.to_owned(), name.clone()]),
            );
        }
        words.extend(["-np".to_owned(), ranks.to_string(), "-x".to_owned(), "PATH".to_owned()]);
        // A login over ssh does not have the environment of its container.
        words.extend(self.launch.list_variables().into_keys().flat_map(|name| ["-x".to_owned(), name]));
        words.extend(self.list_rank_words(self.command.to_vec()));
        words
    }

    /// Returns the program of a process, which looks for its GID first if it needs one.
    fn list_rank_words(&self, program: Vec<String>) -> Vec<String> {
        if !self.launch.seeks_gid_index() {
            return program;
        }
        let adapters = self.launch.adapters.iter().cloned().chain(["--".to_owned()]);
        shell_command(GID_SEARCH, adapters).into_iter().chain(program).collect()
    }

    fn build_worker(&self) -> Value {
        let mut pod = self.build_pod(TestPodRole::Worker, shell_command(SSH_SERVER, []), Vec::new());
        pod["spec"]["containers"][0]["readinessProbe"] = json!({ "tcpSocket": { "port": 2222 }, "periodSeconds": 2 });
        pod
    }

    fn build_rank(&self, role: TestPodRole) -> Value {
        let (name, begin, end) = self.collective;
        let torch = [
            format!("--nnodes={}", self.nodes.len()),
            format!("--nproc-per-node={}", self.slots),
            "/tmp/forge-collective.py".to_owned(),
        ];
        let arguments = torch.into_iter().chain([name, begin, end].map(str::to_owned));
        let command = self.list_rank_words(shell_command(TORCH_START, arguments));
        let program = json!({ "name": "FORGE_PROGRAM", "value": escape_references(TORCH_PROGRAM) });
        self.build_pod(role, command, vec![program])
    }

    fn build_pod(&self, role: TestPodRole, command: Vec<String>, variables: Vec<Value>) -> Value {
        let launch = self.launch;
        let measures = role != TestPodRole::Launcher;
        let own = launch.list_variables();
        let mut env: Vec<Value> =
            own.iter().map(|(name, value)| json!({ "name": name, "value": escape_references(value) })).collect();
        env.extend(variables);
        let mut container = json!({
            // PyTorchJob requires this name, and the others take any.
            "name": if launch.kind == TestJobKind::PyTorchJob { "pytorch" } else { CONTAINER },
            "image": launch.image,
            "command": command.iter().map(|word| escape_references(word)).collect::<Vec<_>>(),
            "env": env,
            // The API then says what the program printed last.
            "terminationMessagePolicy": "FallbackToLogsOnError",
        });
        let mut spec = json!({
            "restartPolicy": "Never",
            "affinity": self.build_affinity(role),
            "tolerations": self.list_tolerations(),
            "enableServiceLinks": false,
            "automountServiceAccountToken": false,
        });
        if measures {
            container["resources"] = json!({ "limits": launch.resources });
            // Verbs lock the memory that they register.
            container["securityContext"] = json!({ "capabilities": { "add": ["IPC_LOCK"] } });
            // NCCL shares memory between the processes of a host.
            container["volumeMounts"] = json!([{ "name": "shm", "mountPath": "/dev/shm" }]);
            spec["volumes"] = json!([{ "name": "shm", "emptyDir": { "medium": "Memory" } }]);
        }
        if launch.host_network {
            spec["hostNetwork"] = json!(true);
            spec["dnsPolicy"] = json!("ClusterFirstWithHostNet");
        }
        if !launch.pull_secrets.is_empty() {
            let secrets: Vec<Value> = launch.pull_secrets.iter().map(|name| json!({ "name": name })).collect();
            spec["imagePullSecrets"] = json!(secrets);
        }
        spec["containers"] = json!([container]);
        let mut metadata = json!({ "labels": { TEST_ROLE_LABEL: role.name() } });
        // Networks of adapters belong to the pods that have adapters.
        if measures && !launch.annotations.is_empty() {
            metadata["annotations"] = json!(launch.annotations);
        }
        json!({ "metadata": metadata, "spec": spec })
    }

    /// Returns what keeps pods on the hosts of the group, and two pods that measure off the same host.
    fn build_affinity(&self, role: TestPodRole) -> Value {
        // A field must have one value, and a pod fits if one of the terms holds.
        let term =
            |node: &String| json!({ "matchFields": [{ "key": "metadata.name", "operator": "In", "values": [node] }] });
        let terms: Vec<Value> = self.nodes.iter().map(term).collect();
        let mut affinity = Map::new();
        affinity.insert(
            "nodeAffinity".to_owned(),
            json!({ "requiredDuringSchedulingIgnoredDuringExecution": { "nodeSelectorTerms": terms } }),
        );
        if role != TestPodRole::Launcher {
            // All jobs of tests, also those of another group: a host is in one measurement at a time.
            let roles = [TestPodRole::Worker.name(), TestPodRole::FirstRank.name()];
            let others = json!({ "matchExpressions": [{ "key": TEST_ROLE_LABEL, "operator": "In", "values": roles }] });
            let apart = json!([{ "labelSelector": others, "topologyKey": "kubernetes.io/hostname" }]);
            affinity.insert(
                "podAntiAffinity".to_owned(),
                json!({ "requiredDuringSchedulingIgnoredDuringExecution": apart }),
            );
        }
        Value::Object(affinity)
    }

    /// A node that `forge test --drain` cordoned takes the pods of its tests.
    fn list_tolerations(&self) -> Vec<Value> {
        let cordoned =
            json!({ "key": "node.kubernetes.io/unschedulable", "operator": "Exists", "effect": "NoSchedule" });
        std::iter::once(cordoned).chain(self.launch.tolerations.iter().cloned()).collect()
    }

    /// Returns the number of pods.
    pub fn pod_count(&self) -> usize {
        self.nodes.len() + usize::from(self.launch.kind.has_launcher())
    }
}

/// Returns the command of a script with arguments: they are data, and no text of the script.
fn shell_command(script: &str, arguments: impl IntoIterator<Item = String>) -> Vec<String> {
    let words = ["sh", "-c", script, "forge"].map(str::to_owned).into_iter();
    words.chain(arguments).collect()
}

/// Kubernetes replaces `$(NAME)` in commands and variables; `$$` is one `$`.
fn escape_references(text: &str) -> String {
    text.replace('$', "$$")
}

#[cfg(test)]
mod tests;
