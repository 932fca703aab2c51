//! How a collective test starts as a job of the cluster: the settings of `launch: { kubernetes: … }`.

use crate::model::Value;
use serde_json::json;
use std::collections::BTreeMap;

/// The resource of NVIDIA's device plugin, which counts whole GPUs.
pub const GPU_RESOURCE: &str = "nvidia.com/gpu";
/// The variables that [`TestJobLaunch::adapters`] and its other keys set.
const ADAPTERS_VARIABLE: &str = "NCCL_IB_HCA";
const TRAFFIC_CLASS_VARIABLE: &str = "NCCL_IB_TC";
const INTERFACE_VARIABLE: &str = "NCCL_SOCKET_IFNAME";
/// The index in the table of GIDs: wrong on InfiniBand, and with RoCE different in each pod.
pub const GID_INDEX_VARIABLE: &str = "NCCL_IB_GID_INDEX";

/// The kind of object that starts the processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TestJobKind {
    /// Of Kubeflow's MPI operator.
    MpiJob,
    /// Of Kubeflow's training operator. It has no MPI: PyTorch runs the collective.
    PyTorchJob,
    /// `Job` of Volcano.
    VolcanoJob,
}

impl TestJobKind {
    /// Every kind.
    pub const ALL: [Self; 3] = [Self::MpiJob, Self::PyTorchJob, Self::VolcanoJob];

    /// Returns the value of `kind`.
    pub fn name(self) -> &'static str {
        match self {
            Self::MpiJob => "MPIJob",
            Self::PyTorchJob => "PyTorchJob",
            Self::VolcanoJob => "VolcanoJob",
        }
    }

    /// Returns version and kind of the object.
    pub fn api_kind(self) -> (&'static str, &'static str) {
        match self {
            Self::MpiJob => ("kubeflow.org/v2beta1", "MPIJob"),
            Self::PyTorchJob => ("kubeflow.org/v1", "PyTorchJob"),
            Self::VolcanoJob => ("batch.volcano.sh/v1alpha1", "Job"),
        }
    }

    /// Returns whether a pod of its own starts the processes in the pods of the hosts.
    pub fn has_launcher(self) -> bool {
        self != Self::PyTorchJob
    }
}

/// The link type of the adapters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AdapterLink {
    /// InfiniBand.
    #[default]
    Ib,
    /// RDMA over Ethernet.
    Roce,
}

impl AdapterLink {
    /// Every link type.
    pub const ALL: [Self; 2] = [Self::Ib, Self::Roce];

    /// Returns the value of `link`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ib => "IB",
            Self::Roce => "RoCE",
        }
    }
}

/// The settings of a job that measures.
#[derive(Clone, Debug, PartialEq)]
pub struct TestJobLaunch {
    /// The kind of the object.
    pub kind: TestJobKind,
    /// The namespace, which exists.
    pub namespace: String,
    /// The image with the program.
    pub image: String,
    /// Secrets of the namespace with the credentials of the registry.
    pub pull_secrets: Vec<String>,
    /// Resources of each pod that measures, as quantities of the API.
    pub resources: BTreeMap<String, String>,
    /// Annotations of the pods.
    pub annotations: BTreeMap<String, String>,
    /// Environment of the processes.
    pub env: BTreeMap<String, String>,
    /// The adapters that carry traffic; empty for those that NCCL finds.
    pub adapters: Vec<String>,
    /// Their link type.
    pub link: AdapterLink,
    /// NCCL's traffic class with RoCE.
    pub traffic_class: Option<u64>,
    /// The interface over which processes find each other.
    pub interface: Option<String>,
    /// Whether pods use the network of their host.
    pub host_network: bool,
    /// Tolerations of the pods, as in a pod.
    pub tolerations: Vec<Value>,
    /// The queue of Volcano.
    pub queue: Option<String>,
    /// Seconds that the pods may take to start.
    pub start_within_s: u64,
}

impl TestJobLaunch {
    /// Returns the number of GPUs of a pod; `None` if it requests none, or not a number.
    pub fn gpu_count(&self) -> Option<u64> {
        self.resources.get(GPU_RESOURCE)?.parse().ok().filter(|count| *count > 0)
    }

    /// Returns the variables that keys other than `env` set, each with the key.
    pub fn list_key_variables(&self) -> Vec<(&'static str, &'static str)> {
        let pairs = [
            (ADAPTERS_VARIABLE, "adapters", !self.adapters.is_empty()),
            (TRAFFIC_CLASS_VARIABLE, "traffic_class", self.traffic_class.is_some()),
            (INTERFACE_VARIABLE, "interface", self.interface.is_some()),
        ];
        pairs.into_iter().filter(|(.., is_set)| *is_set).map(|(variable, key, _)| (variable, key)).collect()
    }

    /// Returns the environment of the processes. NCCL's log says which network it used.
    pub fn list_variables(&self) -> BTreeMap<String, String> {
        let mut all = BTreeMap::from([("NCCL_DEBUG".to_owned(), "INFO".to_owned())]);
        if !self.adapters.is_empty() {
            // `=`: without it, `mlx5_1` also means `mlx5_10`.
            all.insert(ADAPTERS_VARIABLE.to_owned(), format!("={}", self.adapters.join(",")));
        }
        let class = self.traffic_class.map(|class| (TRAFFIC_CLASS_VARIABLE.to_owned(), class.to_string()));
        all.extend(class);
        all.extend(self.interface.iter().map(|name| (INTERFACE_VARIABLE.to_owned(), name.clone())));
        all.extend(self.env.clone());
        all
    }

    /// Returns whether each process looks for its index in the table of GIDs. NCCL takes the first one of RoCE v2, and the
    /// table also lists those of the host and of other pods.
    pub fn seeks_gid_index(&self) -> bool {
        let is_known = self.env.contains_key(GID_INDEX_VARIABLE);
        self.link == AdapterLink::Roce && !self.adapters.is_empty() && !is_known
    }

    /// Returns what decides about a result.
    pub fn to_declaration(&self) -> Value {
        json!({
            "kind": self.kind.name(), "image": self.image, "resources": self.resources, "annotations": self.annotations,
            "env": self.list_variables(), "link": self.link.name(), "host_network": self.host_network,
        })
    }
}
