//! Objects of every kind, for the hosts of a group.

use super::*;
use crate::object::{AdapterLink, GID_INDEX_VARIABLE, TestJobKind};
use std::collections::BTreeMap;

fn launch(kind: TestJobKind) -> TestJobLaunch {
    let map = |pairs: &[(&str, &str)]| {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect::<BTreeMap<_, _>>()
    };
    TestJobLaunch {
        kind,
        namespace: "tests".to_owned(),
        image: "registry.example/nccl-tests:2.27".to_owned(),
        pull_secrets: vec!["registry".to_owned()],
        resources: map(&[("nvidia.com/gpu", "8"), ("rdma/ib", "1")]),
        annotations: map(&[("k8s.v1.cni.cncf.io/networks", "rdma/rail0")]),
        env: map(&[("NCCL_ALGO", "Ring$(X)")]),
        adapters: vec!["mlx5_0".to_owned(), "mlx5_1".to_owned()],
        link: AdapterLink::Ib,
        traffic_class: None,
        interface: Some("eth0".to_owned()),
        host_network: false,
        tolerations: vec![json!({ "key": "gpu", "operator": "Exists" })],
        queue: Some("tests".to_owned()),
        start_within_s: 300,
    }
}

fn build(launch: &TestJobLaunch) -> Value {
    let own = |list: &[&str]| list.iter().map(|one| (*one).to_owned()).collect::<Vec<_>>();
    let (hosts, nodes, command) =
        (own(&["gpu-1", "gpu-2"]), own(&["ip-1", "ip-2"]), own(&["/opt/all_reduce_perf", "-b", "8"]));
    let job = TestJobObject {
        launch,
        hosts: &hosts,
        nodes: &nodes,
        slots: 8,
        command: &command,
        collective: ("all_reduce", "1G", "16G"),
        limit_s: 600,
    };
    assert_eq!(job.pod_count(), if launch.kind.has_launcher() { 3 } else { 2 });
    job.build()
}

fn words(container: &Value) -> Vec<&str> {
    container["command"].as_array().unwrap().iter().map(|word| word.as_str().unwrap()).collect()
}

fn variable<'v>(container: &'v Value, name: &str) -> Option<&'v str> {
    container["env"].as_array().unwrap().iter().find(|one| one["name"] == name)?["value"].as_str()
}

#[test]
fn every_kind_has_one_pod_on_each_host_of_the_group() {
    let templates = [
        (TestJobKind::MpiJob, "/spec/mpiReplicaSpecs/Worker/template", "/spec/mpiReplicaSpecs/Worker/replicas", 2),
        (TestJobKind::VolcanoJob, "/spec/tasks/1/template", "/spec/tasks/1/replicas", 2),
        (
            TestJobKind::PyTorchJob,
            "/spec/pytorchReplicaSpecs/Worker/template",
            "/spec/pytorchReplicaSpecs/Worker/replicas",
            1,
        ),
    ];
    for (kind, template, replicas, count) in templates {
        let object = build(&launch(kind));
        let pod = object.pointer(template).unwrap();
        assert_eq!(object.pointer(replicas).unwrap(), count, "{kind:?}");
        let affinity = &pod["spec"]["affinity"];
        let terms = &affinity["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"];
        let values: Vec<&Value> =
            terms.as_array().unwrap().iter().map(|term| &term["matchFields"][0]["values"]).collect();
        assert_eq!(values, [&json!(["ip-1"]), &json!(["ip-2"])], "a field has one value for each term: {kind:?}");
        let apart = &affinity["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][0];
        assert_eq!(apart["topologyKey"], "kubernetes.io/hostname", "{kind:?}");
        let tolerated = pod["spec"]["tolerations"].as_array().unwrap();
        assert_eq!(
            (&tolerated[0]["key"], tolerated.len()),
            (&json!("node.kubernetes.io/unschedulable"), 2),
            "{kind:?}"
        );
        let container = &pod["spec"]["containers"][0];
        assert_eq!(container["resources"]["limits"], json!({ "nvidia.com/gpu": "8", "rdma/ib": "1" }), "{kind:?}");
        assert_eq!(container["securityContext"]["capabilities"]["add"], json!(["IPC_LOCK"]), "{kind:?}");
        assert_eq!(pod["metadata"]["annotations"]["k8s.v1.cni.cncf.io/networks"], "rdma/rail0", "{kind:?}");
        assert_eq!(pod["spec"]["imagePullSecrets"], json!([{ "name": "registry" }]), "{kind:?}");
        assert_eq!(
            (&pod["spec"]["activeDeadlineSeconds"], &pod["spec"]["restartPolicy"]),
            (&json!(960), &json!("Never"))
        );
        assert_eq!(object["metadata"]["annotations"][TEST_HOSTS_ANNOTATION], r#"["gpu-1","gpu-2"]"#, "{kind:?}");
        assert_eq!(variable(container, "NCCL_IB_HCA"), Some("=mlx5_0,mlx5_1"), "{kind:?}");
        assert_eq!(variable(container, "NCCL_ALGO"), Some("Ring$$(X)"), "a value is not a reference: {kind:?}");
    }
}

/// A forge that was killed leaves no pods that run on. The operator keeps PyTorch's pods until their logs are read; their own
/// limit ends them.
#[test]
fn api_ends_and_deletes_a_job_that_is_left_behind() {
    for (kind, cleaned) in [(TestJobKind::MpiJob, "Running"), (TestJobKind::PyTorchJob, "None")] {
        let object = build(&launch(kind));
        let policy = &object["spec"]["runPolicy"];
        assert_eq!((&policy["activeDeadlineSeconds"], &policy["ttlSecondsAfterFinished"]), (&json!(960), &json!(600)));
        assert_eq!((&policy["cleanPodPolicy"], &policy["backoffLimit"]), (&json!(cleaned), &json!(0)));
    }
    // Volcano has no limit of a job: its pods end, and a failed pod ends the job.
    let object = build(&launch(TestJobKind::VolcanoJob));
    assert_eq!(object["spec"]["ttlSecondsAfterFinished"], 600);
    assert_eq!(object["spec"]["policies"][0], json!({ "event": "PodFailed", "action": "AbortJob" }));
    assert_eq!(object["spec"]["tasks"][0]["template"]["spec"]["activeDeadlineSeconds"], 960);
}

#[test]
fn launcher_starts_every_process_with_the_environment_and_has_no_devices() {
    for (kind, place) in [
        (TestJobKind::MpiJob, "/spec/mpiReplicaSpecs/Launcher/template"),
        (TestJobKind::VolcanoJob, "/spec/tasks/0/template"),
    ] {
        let object = build(&launch(kind));
        let pod = object.pointer(place).unwrap();
        let container = &pod["spec"]["containers"][0];
        assert_eq!((container.get("resources"), pod["metadata"].get("annotations")), (None, None), "{kind:?}");
        assert_eq!(pod["spec"]["affinity"].get("podAntiAffinity"), None, "it shares a host: {kind:?}");
        let words = words(container);
        assert_eq!((words[0], words[3..6].to_vec()), ("sh", vec!["forge", "8", "300"]), "{kind:?}");
        assert!(words[2].contains("exec \"$$(command -v mpirun)\""), "kept from Kubernetes: {}", words[2]);
        for pair in [["-np", "16"], ["-x", "NCCL_DEBUG"], ["-x", "NCCL_IB_HCA"], ["btl_tcp_if_include", "eth0"]] {
            assert!(words.windows(2).any(|two| two == pair), "{kind:?}: {pair:?}");
        }
        assert_eq!(words[words.len() - 3..], ["/opt/all_reduce_perf", "-b", "8"], "{kind:?}");
    }
}

#[test]
fn pytorch_runs_the_collective_without_mpi() {
    let object = build(&launch(TestJobKind::PyTorchJob));
    let master = &object["spec"]["pytorchReplicaSpecs"]["Master"]["template"];
    assert_eq!(master["metadata"]["labels"][TEST_ROLE_LABEL], "first-rank");
    let container = &master["spec"]["containers"][0];
    assert_eq!(container["name"], "pytorch", "the operator looks for this name");
    let expected = ["--nnodes=2", "--nproc-per-node=8", "/tmp/forge-collective.py", "all_reduce", "1G", "16G"];
    assert_eq!(words(container)[4..], expected);
    assert!(variable(container, "FORGE_PROGRAM").unwrap().contains("# Out of bounds values :"));
}

/// The rules of the recipe `pytorch-job`: NCCL takes one index for all adapters, and on InfiniBand it needs none.
#[test]
fn processes_look_for_their_gid_index_with_roce_only() {
    let first_word = |launch: &TestJobLaunch| {
        let object = build(launch);
        let words = words(&object["spec"]["tasks"][0]["template"]["spec"]["containers"][0]).join(" ");
        words.rsplit(" -x ").next().unwrap().to_owned()
    };
    let mut roce =
        TestJobLaunch { link: AdapterLink::Roce, traffic_class: Some(106), ..launch(TestJobKind::VolcanoJob) };
    let searching = first_word(&roce);
    assert!(searching.starts_with("NCCL_SOCKET_IFNAME sh -c "), "{searching}");
    assert!(searching.ends_with(" forge mlx5_0 mlx5_1 -- /opt/all_reduce_perf -b 8"), "{searching}");
    assert_eq!(roce.list_variables()["NCCL_IB_TC"], "106");
    roce.env.insert(GID_INDEX_VARIABLE.to_owned(), "3".to_owned());
    assert!(!first_word(&roce).contains(" sh -c "), "a declared index is used");
    assert!(!first_word(&launch(TestJobKind::VolcanoJob)).contains(" sh -c "));
}

/// One search for the GID, in two places.
#[test]
fn gid_search_is_that_of_the_recipe() {
    let recipe = include_str!("../../../recipes/pytorch-job.yaml");
    let search = GID_SEARCH.lines().map(str::trim).filter(|line| line.contains("/sys/class") || line.contains("awk"));
    let lines: Vec<&str> = search.collect();
    assert_eq!(lines.len(), 4);
    lines.into_iter().for_each(|line| assert!(recipe.contains(line), "{line}"));
}
