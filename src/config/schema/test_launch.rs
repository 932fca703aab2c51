//! The schema of `launch` of an entry of `tests:`.

use super::parts::{
    duration_schema, list_schema, map_schema, object_schema, text_list_schema, text_schema, with_description,
};
use crate::config::inventory::slurm_launch::SLURM_KEYS;
use crate::config::inventory::test_launch::{JOB_KEYS, LAUNCH_KEYS};
use crate::model::Value;
use crate::object::{AdapterLink, TestJobKind};
use serde_json::json;

pub(super) fn test_launch_schema() -> Value {
    object_schema(&LAUNCH_KEYS, launch_property, &[])
}

fn launch_property(key: &str) -> Value {
    match key {
        "kubernetes" => with_description(
            "Runs the test as a job of the cluster in `kubernetes`, with one pod on each host of the group.",
            object_schema(&JOB_KEYS, job_property, &["kind", "namespace", "image", "resources"]),
        ),
        "slurm" => with_description(
            "Runs the test as a job of Slurm, which one of the hosts submits with `srun`.",
            object_schema(&SLURM_KEYS, slurm_property, &[]),
        ),
        _ => json!({}),
    }
}

fn slurm_property(key: &str) -> Value {
    match key {
        "partition" => with_description("Partition of the nodes. Default: that of Slurm.", text_schema()),
        "account" => with_description("Account that the job is charged to.", text_schema()),
        "qos" => with_description("Quality of service of the job.", text_schema()),
        "reservation" => with_description("Reservation in which the job runs.", text_schema()),
        "mpi" => with_description(
            "How MPI starts, of those that `srun --mpi=list` names: `pmix`. Default: that of Slurm.",
            text_schema(),
        ),
        "gres" => with_description("Generic resources that each node gives to the job: `gpu:8`.", text_schema()),
        "options" => with_description(
            "Other options of `srun`, each one word: `[--container-image=registry.example#nccl-tests:2.27]`.",
            text_list_schema(),
        ),
        "env" => with_description(
            "Environment of the processes.",
            map_schema(json!({ "type": ["string", "number", "boolean"] })),
        ),
        "start_within" => with_description("How long the job may wait for its nodes. Default: 5m.", duration_schema()),
        _ => json!({}),
    }
}

fn job_property(key: &str) -> Value {
    let values = || json!({ "type": ["string", "number", "boolean"] });
    match key {
        "kind" => with_description(
            "Kind of the job: `MPIJob` (kubeflow.org/v2beta1), `VolcanoJob` (`Job` of batch.volcano.sh/v1alpha1), or \
             `PyTorchJob` (kubeflow.org/v1), in which PyTorch runs the collective.",
            json!({ "enum": TestJobKind::ALL.map(TestJobKind::name) }),
        ),
        "namespace" => with_description("Existing namespace of the job.", text_schema()),
        "image" => with_description(
            "Image at an exact version. MPIJob and VolcanoJob: with the program of the test, Open MPI, ssh and sshd. \
             PyTorchJob: with PyTorch.",
            text_schema(),
        ),
        "pull_secrets" => {
            with_description("Secrets of the namespace with the credentials of the registry.", text_list_schema())
        }
        "resources" => with_description(
            "Resources that each pod requests: `{ nvidia.com/gpu: 8, rdma/ib: 1 }`.",
            map_schema(values()),
        ),
        "annotations" => with_description(
            "Annotations of the pods, such as their networks: `k8s.v1.cni.cncf.io/networks`.",
            map_schema(values()),
        ),
        "env" => with_description("Environment of the processes.", map_schema(values())),
        "adapters" => with_description(
            "Adapters that carry traffic: `[mlx5_0]`, for `NCCL_IB_HCA`. Default: those that NCCL finds.",
            text_list_schema(),
        ),
        "link" => with_description(
            "Link type of the adapters. Default: `IB`. With `RoCE` and `adapters`, each process looks for its \
             `NCCL_IB_GID_INDEX`.",
            json!({ "enum": AdapterLink::ALL.map(AdapterLink::name) }),
        ),
        "traffic_class" => with_description(
            "With RoCE: `NCCL_IB_TC`. Default: `tos` of the recipe roce, if the hosts have it.",
            json!({ "type": "integer", "minimum": 0, "maximum": 255 }),
        ),
        "interface" => with_description("Interface over which the processes find each other: `eth0`.", text_schema()),
        "host_network" => with_description(
            "Whether pods use the network of their host. Default: false.",
            json!({ "type": "boolean" }),
        ),
        "tolerations" => {
            with_description("Tolerations of the pods, as in a pod.", list_schema(json!({ "type": "object" })))
        }
        "queue" => with_description("Queue of Volcano. Default: `default`.", text_schema()),
        "start_within" => with_description(
            "How long the pods may take to start, including the download of the image. Default: 5m.",
            duration_schema(),
        ),
        _ => json!({}),
    }
}
