//! `launch: { kubernetes: … }` of an entry of `tests:`: what would run, and mistakes.

use super::support::Place;

const HEAD: &str = "cluster: c
hosts:
  gpu-[1:4]: {}
  login: {}
groups:
  gpu: { hosts: ['gpu-*'] }
";
const CLUSTER: &str = "kubernetes: { kubeconfig: k.conf, context: test }
rollout: { drain: { kubernetes: gpu } }
";
const JOBS: &str = "tests:
  jobs:
    - test: nccl-all-reduce-hosts
      on: gpu
      least: 380
      gpudirect: true
      launch:
        kubernetes:
          kind: MPIJob
          namespace: forge-tests
          image: registry.example/nccl-tests:2.27
          pull_secrets: [registry]
          resources: { nvidia.com/gpu: 8, rdma/ib: 1 }
          annotations: { k8s.v1.cni.cncf.io/networks: 'rdma/rail0, rdma/rail1' }
          adapters: [mlx5_0, mlx5_1]
          interface: eth0
    - test: nccl-alltoall-hosts
      on: gpu
      peers: 0.05
      group_size: 2
      launch:
        kubernetes:
          kind: PyTorchJob
          namespace: forge-tests
          image: registry.example/pytorch:2.7
          resources: { nvidia.com/gpu: 8, rdma/roce: 1 }
          link: RoCE
          adapters: [mlx5_0]
          traffic_class: 106
          start_within: 10m
";

#[test]
fn dry_run_shows_the_job_and_what_its_pods_get() {
    let place = Place::new().file("inventory.yaml", &format!("{HEAD}{CLUSTER}{JOBS}"));
    insta::assert_snapshot!(place.forge(&["test", "--set", "jobs", "--dry-run"]));
}

#[test]
fn mistakes_in_jobs_are_shown_in_place() {
    let entry = |test: &str, on: &str, job: &str| {
        format!("    - {{ test: {test}, on: {on}, least: 1, launch: {{ kubernetes: {{ {job} }} }} }}\n")
    };
    let good = "namespace: t, image: 'x:1', resources: { nvidia.com/gpu: 8 }";
    let entries = [
        entry("nccl-all-reduce-hosts", "gpu", &format!("kind: MpiJob, {good}")),
        entry("nccl-all-reduce-hosts", "all", &format!("kind: MPIJob, {good}")),
        entry("nccl-all-reduce-hosts", "gpu", "kind: MPIJob, namespace: t, image: 'x:1', resources: { rdma/ib: 8 }"),
        entry("nccl-all-reduce-hosts", "gpu", "kind: MPIJob, namespace: T, image: 'x:1', resources: { nvidia.com/gpu: 8 }"),
        entry("nccl-all-reduce-hosts", "gpu", &format!("kind: MPIJob, {good}, queue: q, traffic_class: 106")),
        entry(
            "nccl-all-reduce-hosts",
            "gpu",
            &format!("kind: MPIJob, {good}, adapters: [mlx5_0], env: {{ NCCL_IB_HCA: mlx5_1, NCCL_IB_GID_INDEX: 3, NCCL_DEBUG: WARN }}"),
        ),
        entry("nccl-all-reduce-hosts", "gpu", &format!("kind: MPIJob, {good}, host_network: true, annotations: {{ k8s.v1.cni.cncf.io/networks: a }}")),
        entry("nccl-all-reduce-hosts", "gpu", "kind: MPIJob, namspace: t"),
        entry("ib-write-bw", "gpu", &format!("kind: MPIJob, {good}")),
        entry("site-reduce", "gpu", &format!("kind: MPIJob, {good}")),
        entry("site-reduce", "gpu", &format!("kind: PyTorchJob, {good}")),
    ]
    .concat();
    let group = "test: site-reduce
scope: group
output: nccl
command: [mpirun, --host, '{hosts}', --mca, orte_launch_agent, 'env {mark} orted', all_reduce_perf]
";
    let inventory = format!("{HEAD}{CLUSTER}tests:\n  jobs:\n{entries}");
    let place = Place::new().file("inventory.yaml", &inventory).file("tests/site-reduce.yaml", group);
    insta::assert_snapshot!(place.forge(&["validate"]));
}

/// Without the pods of the GPU operator, a node has no GPU to give.
#[test]
fn nodes_are_not_drained_for_jobs_and_other_tests_together() {
    let mixed = format!("{HEAD}{CLUSTER}{JOBS}    - {{ test: ib-write-bw, on: gpu, share: 0.9 }}\n");
    let told = Place::new().file("inventory.yaml", &mixed).forge(&["test", "--set", "jobs", "--drain", "--yes"]);
    let message = "error: `--drain` removes the pods of the GPU operator, and test `nccl-all-reduce-hosts`, which runs as a \
                   job, needs them\n  hint: declare the tests that run as jobs in a set of their own\n";
    assert!(told.starts_with("exit 64") && told.ends_with(message), "{told}");
}

#[test]
fn job_needs_a_declared_cluster() {
    let told = Place::new().file("inventory.yaml", &format!("{HEAD}{JOBS}")).forge(&["validate"]);
    let message = "`launch.kubernetes` needs a cluster, but the inventory has no `kubernetes`";
    assert!(told.contains(message) && told.contains("add a cluster: `kubernetes: {"), "{told}");
}
