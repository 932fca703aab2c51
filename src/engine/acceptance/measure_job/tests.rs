//! Judges recorded output of nccl-tests, as the logs of a job's pods.

use super::*;
use crate::config::{self, LoadOptions};
use crate::engine::cancel::CancelSignal;
use crate::object::TestJobKind;
use camino::Utf8Path;

const LISTING: &str = include_str!("../../../../tests/samples/all_reduce_perf.txt");
const OVER_IB: &str = include_str!("../../../../tests/samples/nccl-log-ib.txt");
const OVER_SOCKETS: &str = include_str!("../../../../tests/samples/nccl-log-socket.txt");

/// Two nodes, and an entry that runs as a job. `job` are further settings.
fn load(job: &str) -> Project {
    let dir = tempfile::tempdir().unwrap();
    let text = format!(
        "cluster: c\nhosts:\n  gpu-[1:2]: {{}}\nkubernetes: {{ kubeconfig: k, context: test }}\ntests:\n  quick:\n\
         \x20   - test: nccl-all-reduce-hosts\n      on: all\n      least: 340\n      gpudirect: true\n\
         \x20     launch: {{ kubernetes: {{ kind: VolcanoJob, namespace: tests, image: 'x:1', resources: {{ nvidia.com/gpu: 8 }}{job} }} }}\n"
    );
    let path = dir.path().join("inventory.yaml");
    std::fs::write(&path, text).unwrap();
    let options = LoadOptions { trust: true, embedded: &[], env: &|_| None, programs: config::SecretPrograms::Skip };
    let (project, diags, _) = config::load_for_tests(Utf8Path::from_path(&path).unwrap(), &options);
    project.unwrap_or_else(|| panic!("{diags:?}"))
}

fn judge(end: TestJobEnd, logs: Vec<TestPodLog>, left: Option<&str>) -> TestMeasurement {
    let (project, cancel) = (load(""), CancelSignal::default());
    let test = &project.tests.sets["quick"][0];
    let context = MeasureContext { project: &project, test, run: "r", cancel: &cancel, cluster: None };
    let launch = test.launch.as_kubernetes().unwrap().clone();
    let plan = JobPlan { launch, hosts: Vec::new(), nodes: Vec::new(), slots: 8, command: Vec::new() };
    context.judge_job(&plan, &[], TestJobOutcome { end, logs, left: left.map(str::to_owned) })
}

fn log(has_result: bool, text: &str) -> TestPodLog {
    TestPodLog { pod: "p".to_owned(), has_result, text: Ok(text.to_owned()) }
}

#[test]
fn log_of_a_job_is_judged_as_the_output_of_a_launcher() {
    let one =
        |network: &str| judge(TestJobEnd::Succeeded, vec![log(true, &format!("{network}{LISTING}"))], None).verdict;
    assert!(matches!(one(OVER_IB), TestVerdict::Pass { value: 360.97, .. }), "{:?}", one(OVER_IB));
    let sockets = TestVerdict::Fail { value: Some(360.97), reason: "NCCL used sockets, not RDMA".to_owned() };
    assert_eq!(one(OVER_SOCKETS), sockets);
    let bounced = "NCCL copied through the memory of the host: no GPUDirect RDMA";
    let verdict = one(&OVER_IB.replace("/GDRDMA", ""));
    assert_eq!(verdict, TestVerdict::Fail { value: Some(360.97), reason: bounced.to_owned() });
    assert_eq!(one(""), TestVerdict::not_measured("NCCL's log does not name the network; set NCCL_DEBUG=INFO"));
    let slow = judge(
        TestJobEnd::Succeeded,
        vec![log(true, &format!("{OVER_IB}{}", LISTING.replace("360.97", "36.97")))],
        None,
    );
    assert!(matches!(slow.verdict, TestVerdict::Fail { value: Some(36.97), .. }), "{:?}", slow.verdict);
}

/// PyTorch's first process prints the listing, and each process logs its own network.
#[test]
fn network_of_every_pod_counts() {
    let judge = |other: TestPodLog| {
        judge(TestJobEnd::Succeeded, vec![log(true, &format!("{OVER_IB}{LISTING}")), other], None).verdict
    };
    assert_eq!(judge(log(false, OVER_IB)).value(), Some(360.97));
    assert!(matches!(judge(log(false, OVER_SOCKETS)), TestVerdict::Fail { .. }), "one of two used sockets");
    let unread = TestPodLog { pod: "p2".to_owned(), has_result: false, text: Err("no kubelet".to_owned()) };
    assert_eq!(judge(unread), TestVerdict::not_measured("the log of pod p2 cannot be read: no kubelet"));
}

/// What `collective.py` prints, between the lines of NCCL.
#[test]
fn listing_of_pytorch_is_read_as_that_of_nccl_tests() {
    let listing = "#  Rank 0 Group  0 on gpu-1 device 0 NVIDIA H100 80GB HBM3
#  Rank 1 Group  0 on gpu-2 device 0 NVIDIA H100 80GB HBM3
# size count type redop root time algbw busbw #wrong
8589934592 2147483648 float sum -1 41644.00 206.27 360.97 0
17179869184 4294967296 float sum -1 83288.00 206.27 361.97 0
# Out of bounds values : 0 OK
";
    let judge = |text: &str| judge(TestJobEnd::Succeeded, vec![log(true, &format!("{OVER_IB}{text}"))], None).verdict;
    assert_eq!(judge(listing).value(), Some(361.97), "of the largest size");
    let wrong = judge(&listing.replace("361.97 0", "361.97 7").replace("values : 0 OK", "values : 7 FAILED"));
    assert_eq!(wrong, TestVerdict::Fail { value: Some(361.97), reason: "values are wrong".to_owned() });
    let cut = judge(listing.split_once("# Out").unwrap().0);
    assert_eq!(cut, TestVerdict::not_measured("the test did not finish"));
}

#[test]
fn job_that_does_not_succeed_is_not_measured_whatever_it_printed() {
    let cases = [
        (TestJobEnd::Failed("OOMKilled".to_owned()), "OOMKilled"),
        (TestJobEnd::NotStarted("no GPU is free".to_owned()), "the pods did not start within 300 s: no GPU is free"),
        (TestJobEnd::OutOfTime, "the limit of 600 s stopped the job"),
        (TestJobEnd::Stopped, "stopped"),
        (TestJobEnd::Deleted, "the job disappeared from the API during the measurement"),
        (TestJobEnd::NoSuchKind, "the cluster has no kind Job of batch.volcano.sh/v1alpha1"),
        (TestJobEnd::Refused("namespaces \"tests\" not found".to_owned()), "namespaces \"tests\" not found"),
    ];
    for (end, why) in cases {
        let measured = judge(end, vec![log(true, &format!("{OVER_IB}{LISTING}"))], None);
        assert_eq!(measured.verdict, TestVerdict::not_measured(why));
        assert_eq!(measured.outputs.len(), 1, "the report has the log");
    }
    let good = || vec![log(true, &format!("{OVER_IB}{LISTING}"))];
    let left = judge(TestJobEnd::Succeeded, good(), Some("pod p still exists"));
    assert_eq!(left.verdict, TestVerdict::not_measured("the job could not be deleted: pod p still exists"));
    let sockets = vec![log(true, &format!("{OVER_SOCKETS}{LISTING}"))];
    let left = judge(TestJobEnd::Succeeded, sockets, Some("pod p still exists"));
    let reason = "NCCL used sockets, not RDMA; the job could not be deleted: pod p still exists".to_owned();
    assert_eq!(left.verdict, TestVerdict::Fail { value: Some(360.97), reason });
    let left = judge(TestJobEnd::OutOfTime, good(), Some("pod p still exists"));
    let why = "the limit of 600 s stopped the job; the job could not be deleted: pod p still exists";
    assert_eq!(left.verdict, TestVerdict::not_measured(why));
    let gone = "the pod that prints the result was gone before its log was read";
    assert_eq!(judge(TestJobEnd::Succeeded, Vec::new(), None).verdict, TestVerdict::not_measured(gone));
}

/// nccl-tests ends with an error if values are wrong (`common.cu`), and so does its job.
#[test]
fn job_that_fails_because_of_wrong_values_is_a_failure() {
    let wrong = LISTING.replace("Out of bounds values : 0 OK", "Out of bounds values : 7 FAILED");
    assert_ne!(wrong, LISTING);
    let end = TestJobEnd::Failed("the job failed".to_owned());
    let measured = judge(end, vec![log(true, &format!("{OVER_IB}{wrong}"))], None);
    assert_eq!(measured.verdict, TestVerdict::Fail { value: Some(360.97), reason: "values are wrong".to_owned() });
}

#[test]
fn log_of_which_the_start_is_cut_says_nothing_about_the_network() {
    let long = format!("{}{OVER_IB}{LISTING}", "x\n".repeat(MAX_LOG_LINES));
    let why = "the log of pod p has 50000 lines or more: its start is cut";
    assert_eq!(judge(TestJobEnd::Succeeded, vec![log(true, &long)], None).verdict, TestVerdict::not_measured(why));
}

/// Results of another kind of job, and those over ssh, are compared with their own only.
#[test]
fn start_of_a_collective_is_part_of_its_declaration() {
    let digest = |job: &str| load(job).tests.sets["quick"][0].digest_declaration();
    assert_eq!(digest(""), digest(", start_within: 10m"), "how long forge waits changes no result");
    assert_ne!(digest(""), digest(", env: { NCCL_ALGO: Ring }"));
    let project = load(", link: RoCE, adapters: [mlx5_0]");
    let launch = project.tests.sets["quick"][0].launch.as_kubernetes().unwrap().clone();
    assert_eq!((launch.kind, launch.gpu_count(), launch.seeks_gid_index()), (TestJobKind::VolcanoJob, Some(8), true));
    let completed = complete_launch(&project, &launch, &[&HostName::new("gpu-1")]).unwrap();
    assert_eq!(completed.traffic_class, None, "no host has the recipe `roce`");
}
