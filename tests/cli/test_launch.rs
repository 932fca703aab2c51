//! `launch: { kubernetes: … }` of an entry of `tests:`: what would run, and mistakes.

use super::support::Place;
use std::process::{Command, Output};

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

const SLURM: &str = "tests:
  jobs:
    - test: nccl-all-reduce-hosts
      on: gpu
      least: 380
      with: { user: train, slots: 8 }
      launch:
        slurm:
          partition: gpu
          mpi: pmix
          gres: gpu:8
          options: ['--container-image=registry.example#nccl-tests:2.27']
          env: { NCCL_IB_TC: 96 }
          start_within: 10m
";

#[test]
fn dry_run_shows_the_job_of_slurm() {
    let place = Place::new().file("inventory.yaml", &format!("{HEAD}{SLURM}"));
    insta::assert_snapshot!(place.forge(&["test", "--set", "jobs", "--dry-run"]));
}

#[test]
fn mistakes_in_jobs_of_slurm_are_shown_in_place() {
    let entry =
        |test: &str, launch: &str| format!("    - {{ test: {test}, on: gpu, least: 1, launch: {{ {launch} }} }}\n");
    let entries = [
        entry("nccl-all-reduce-hosts", ""),
        entry("nccl-all-reduce-hosts", "slurm: {}, kubernetes: {}"),
        entry("nccl-all-reduce-hosts", "slurn: {}"),
        entry("nccl-all-reduce-hosts", "slurm: { partitoin: gpu, start_within: 0s }"),
        entry("nccl-all-reduce-hosts", "slurm: { options: [gpu, '--mem 0', --time=5, --gres=gpu:8, --mem=0] }"),
        entry("nccl-all-reduce-hosts", "slurm: { options: [--excl=user, --jobid=7, --mem-per-gpu=8G] }"),
        entry("nccl-all-reduce-hosts", "slurm: { env: { NCCL_DEBUG: WARN, -u: HOME } }"),
        entry("ib-write-bw", "slurm: {}"),
        entry("site-reduce", "slurm: {}"),
    ]
    .concat();
    let group =
        "test: site-reduce\nscope: group\noutput: nccl\ncommand: [mpirun, --host, '{hosts}', 'env {mark} orted']\n";
    let inventory = format!("{HEAD}tests:\n  jobs:\n{entries}");
    let place = Place::new().file("inventory.yaml", &inventory).file("tests/site-reduce.yaml", group);
    insta::assert_snapshot!(place.forge(&["validate"]));
}

#[test]
fn nodes_are_not_drained_for_jobs_of_slurm() {
    let inventory = format!("{HEAD}rollout: {{ drain: {{ slurm: gpu }} }}\n{SLURM}");
    let told = Place::new().file("inventory.yaml", &inventory).forge(&["test", "--set", "jobs", "--drain", "--yes"]);
    let message = "error: test `nccl-all-reduce-hosts` runs as a job of Slurm, and drained nodes take no jobs\n  \
                   hint: leave `--drain` out: the job has its nodes for itself\n";
    assert!(told.starts_with("exit 64") && told.ends_with(message), "{told}");
}

/// Runs a script of a pod with stand-ins for the programs of its image. The first two logins are refused.
fn run_script(script: &str, args: &[&str]) -> (Output, String) {
    let dir = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = dir.path().join(name);
        std::fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
        std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    };
    write("sleep", "");
    write("mpirun", "echo \"$0\" \"$@\"; echo \"hosts from ${OMPI_MCA_orte_default_hostfile:-arguments}\"");
    let refused = "echo x >>\"$COUNT\"; [ \"$(wc -l <\"$COUNT\")\" -gt 2 ] || { echo refused; exit 255; }";
    write("ssh", refused);
    let here = dir.path().display().to_string();
    let output = Command::new("sh")
        .args(["-c", script, "forge"])
        .args(args)
        .env_clear()
        .env("PATH", format!("{here}:/usr/bin:/bin"))
        .env("COUNT", dir.path().join("count"))
        .env("VC_WORKER_HOSTS", "worker-0.job,worker-1.job")
        .env("OMPI_MCA_orte_default_hostfile", "/etc/mpi/hostfile")
        .env("LD_LIBRARY_PATH", "/opt/lib")
        .output()
        .unwrap();
    (output, here)
}

#[test]
fn launcher_waits_for_every_host_and_starts_one_program() {
    let script = include_str!("../../src/object/test_job/launch-mpi.sh");
    let (done, here) = run_script(script, &["8", "3", "-np", "16", "all_reduce_perf", "-b", "1 G"]);
    let printed = String::from_utf8_lossy(&done.stdout);
    let hosts = "--host worker-0.job:8,worker-1.job:8 -x LD_LIBRARY_PATH";
    assert_eq!(
        printed,
        format!("{here}/mpirun {hosts} -np 16 all_reduce_perf -b 1 G\nhosts from arguments\n"),
        "{done:?}"
    );
    let (done, _) = run_script(script, &["8", "2", "-np", "16", "all_reduce_perf"]);
    let said = String::from_utf8_lossy(&done.stderr);
    assert_eq!((done.status.code(), said.as_ref()), (Some(1), "forge: no login to worker-0.job: refused\n"));
}

#[test]
fn process_without_a_gid_of_its_pod_does_not_start() {
    let script = include_str!("../../src/object/test_job/roce-gid.sh");
    let (done, _) = run_script(script, &["no-adapter", "--", "echo", "started"]);
    let said = String::from_utf8_lossy(&done.stderr);
    let why = "forge: no-adapter has no GID of RoCE v2 for an address of this pod\n";
    assert_eq!((done.status.code(), said.as_ref(), done.stdout.len()), (Some(1), why, 0));
}
