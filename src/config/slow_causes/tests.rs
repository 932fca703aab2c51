//! The questions: a fault for each, the clear answers of a healthy host, and unknown facts.

use super::*;
use serde_json::json;
use std::collections::BTreeMap;

/// Returns the facts of a host without a fault, in the middle of a job.
fn healthy_facts() -> BTreeMap<String, Value> {
    let port = |class: &str| {
        json!({"port": 1, "class": class, "state": "ACTIVE", "phys_state": "LinkUp", "rate": 400.0, "width": 4,
            "speed": "NDR", "lanes": "full"})
    };
    let adapter = |name: &str, class: &str| {
        json!({"name": name, "bdf": "0000:18:00.0", "bridge": false, "ports": [port(class)],
            "pcie": {"width": 16, "max_width": 16, "max_speed": "32.0 GT/s PCIe"}})
    };
    let all = json!({
        "rdma": [adapter("mlx5_0", "infiniband"), adapter("mlx5_1", "roce")],
        "workload": {"pods": [{"name": "train-0", "rdma_resources": ["rdma/ib"], "privileged": false,
            "may_lock_memory": true, "environment": {"NCCL_DEBUG": "INFO"}}]},
        "nccl": [{"name": "train-0", "uses_rdma": true, "uses_sockets": false, "gdr_channels": 4,
            "channels_without_gdr": 0}],
        "holders": [{"pid": 7, "command": "python", "pod": "ml/train-0", "slurm_job": null,
            "devices": ["/dev/infiniband/uverbs0", "/dev/nvidia-uvm", "/dev/nvidia0"]}],
        "traffic": {"seconds": 5, "ports": [{"name": "mlx5_0/1", "bytes": 1000, "grown": {}}]},
        "gpus": [{"bdf": "0000:1b:00.0", "pcie": {"width": 16, "max_width": 16}},
            {"bdf": "0000:3d:00.0", "pcie": {"width": 16, "max_width": 16}}],
        "gdr": {"path": "peermem", "legacy": false},
        "acs": {"bridges": 9, "redirecting": []},
        "iommu": {"mode": "passthrough"},
        "topology": {"columns": ["GPU0", "GPU1", "NIC0"], "nics": {"NIC0": "mlx5_0"},
            "near": ["GPU0=mlx5_0", "GPU1=mlx5_1"]},
        "nvlinks": [{"bdf": "0000:1b:00.0", "missing": 0, "expected": 18}],
        "gpu_state": [{"bdf": "0000:1b:00.0", "fabric": {"state": "Completed", "status": "Success"},
            "clock_events": ["sw_power_cap"], "power": {"limit": 700.0, "default": 700.0}}],
        "sm": {"lid": 1, "state": "master"},
        "roce": [{"hca": "mlx5_1", "pfc": [false, false, false, true, false, false, false, false], "trust": "dscp",
            "pause": {"rx": false, "tx": false}, "cma_mode": "RoCE v2"}],
        "verbs": [{"name": "mlx5_0", "ports": [{"port": 1, "state": "ACTIVE", "max_mtu": 4096, "active_mtu": 4096}]}],
        "limits": {"services": {"containerd": {"soft": "unlimited", "hard": "unlimited"}}},
        "services": {"ibacm": {"active": "inactive"}},
        "governor": {"governors": {"performance": 192}, "numa_balancing": false},
        "beegfs": [{"client": "c1", "role": "storage", "server": "oss1", "rdma": 4, "tcp": 0, "fallback": false}],
        "pod_network": {"address": "10.0.14.5", "interface": "eth0", "infiniband": false, "is_node_address": true,
            "node_address": "10.0.14.5"},
        "peers": [],
        "declared_lanes": null,
    });
    all.as_object().unwrap().clone().into_iter().collect()
}

fn ask(facts: BTreeMap<String, Value>) -> Vec<(String, QuestionAnswer)> {
    let questions = SlowQuestions::load_builtin().unwrap();
    let facts = Facts(facts.into_iter().map(|(name, value)| (name, Ok(value))).collect());
    let names = questions.list_questions().into_iter().map(|question| question.name);
    names.zip(questions.ask_host(&facts)).collect()
}

/// Returns what the questions find if one value of the healthy host is another one.
fn found_with(pointer: &str, value: Value) -> Vec<(String, String)> {
    let mut facts = healthy_facts();
    let (fact, rest) = pointer.split_once('/').unwrap_or((pointer, ""));
    let root = facts.get_mut(fact).unwrap();
    *if rest.is_empty() { root } else { root.pointer_mut(&format!("/{rest}")).unwrap() } = value;
    let found = |(name, answer): (String, QuestionAnswer)| match answer {
        QuestionAnswer::Found(text) => Some((name, text.raw().to_owned())),
        QuestionAnswer::Unknown(why) => panic!("{name}: {}", why.raw()),
        _ => None,
    };
    ask(facts).into_iter().filter_map(found).collect()
}

#[test]
fn healthy_host_has_a_clear_answer_to_every_question() {
    for (name, answer) in ask(healthy_facts()) {
        assert!(matches!(answer, QuestionAnswer::Clear(_)), "{name}: {answer:?}");
    }
}

#[test]
fn each_fault_is_found_by_its_question_alone() {
    let cases = [
        ("adapters", "rdma", json!([]), "no RDMA device: without one, traffic uses TCP"),
        ("down-ports", "rdma/1/ports/0/state", json!("DOWN"), "mlx5_1 port 1 is DOWN (LinkUp)"),
        (
            "job-transport",
            "nccl/0",
            json!({"name": "train-0", "uses_rdma": false, "uses_sockets": true, "gdr_channels": 0,
            "channels_without_gdr": 0}),
            "pod train-0 uses sockets",
        ),
        ("job-device", "workload/pods/0/rdma_resources", json!([]), "pod train-0 requests no RDMA resource"),
        (
            "job-environment",
            "workload/pods/0/environment",
            json!({"NCCL_IB_DISABLE": "1", "NCCL_IB_HCA": "mlx5"}),
            "pod train-0 sets NCCL_IB_DISABLE=1",
        ),
        (
            "job-memlock",
            "workload/pods/0/may_lock_memory",
            json!(false),
            "container of pod train-0 lacks the capability IPC_LOCK",
        ),
        (
            "processes",
            "holders/0/devices",
            json!(["/dev/nvidia-uvm", "/dev/nvidia0"]),
            "python (pid 7, pod ml/train-0) has none open",
        ),
        ("traffic", "traffic/ports/0/bytes", json!(0), "no port sent or received data in 5 s"),
        (
            "gpudirect",
            "gdr/path",
            json!(null),
            "neither `nvidia_peermem` is loaded and accepted, nor is dma-buf possible",
        ),
        ("job-gpudirect", "nccl/0/channels_without_gdr", json!(12), "pod train-0: 12 of 16 channels without it"),
        (
            "acs",
            "acs/redirecting",
            json!([{"bdf": "0000:15:01.0", "flags": ["ReqRedir"]}]),
            "1 of 9 bridges redirect it (ACS), the first is 0000:15:01.0",
        ),
        ("iommu", "iommu/mode", json!("translated"), "it is translated"),
        ("affinity", "topology/near", json!(["GPU0=mlx5_0"]), "GPU1 has none below its PCIe switch"),
        ("gpu-slots", "gpus/0/pcie/width", json!(8), "0000:1b:00.0 uses 8 of 16"),
        ("adapter-slots", "rdma/0/pcie/width", json!(8), "mlx5_0 (0000:18:00.0) uses 8 of 16"),
        ("nvswitch-fabric", "gpu_state/0/fabric/state", json!("In Progress"), "0000:1b:00.0: In Progress, Success"),
        ("nvlinks", "nvlinks/0/missing", json!(2), "0000:1b:00.0 lacks 2 of 18"),
        ("clocks", "gpu_state/0/clock_events", json!(["sw_power_cap", "hw_slowdown"]), "0000:1b:00.0: hw_slowdown"),
        ("power-limit", "gpu_state/0/power/limit", json!(500.0), "0000:1b:00.0 is limited to 500.0 of 700.0 W"),
        (
            "storage",
            "beegfs/0",
            json!({"client": "c1", "role": "storage", "server": "oss1", "rdma": 0, "tcp": 4, "fallback": true}),
            "storage server oss1: 4 over TCP by a fallback route",
        ),
        ("lanes", "rdma/0/ports/0/lanes", json!("lost"), "mlx5_0 port 1: 4 lanes of NDR, 400.0 Gb/s"),
        ("link-errors", "traffic/ports/0/grown", json!({"symbol_error": 3}), "mlx5_0/1: symbol_error +3"),
        ("retransmissions", "traffic/ports/0/grown", json!({"out_of_sequence": 9}), "mlx5_0/1: out_of_sequence +9"),
        (
            "pauses",
            "traffic/ports/0/grown",
            json!({"rx_prio3_pause": 5000, "tx_prio3_pause": 9000}),
            "mlx5_0/1: rx_prio3_pause +5000",
        ),
        ("subnet-manager", "sm/state", json!("standby"), "none is master"),
        ("roce-lossless", "roce/0/trust", json!("pcp"), "mlx5_1 trusts pcp, not dscp"),
        ("roce-version", "roce/0/cma_mode", json!("IB/RoCE v1"), "mlx5_1: IB/RoCE v1"),
        ("mtu", "verbs/0/ports/0/active_mtu", json!(1024), "mlx5_0: 1024 of 4096 bytes"),
        ("memlock", "limits/services/containerd/soft", json!("8388608"), "containerd: 8388608"),
        (
            "pod-network",
            "pod_network",
            json!({"address": "192.168.7.5", "interface": "ib0", "infiniband": true, "is_node_address": false,
            "node_address": "10.0.14.5"}),
            "it uses 192.168.7.5 on ib0, an interface of InfiniBand (IPoIB)",
        ),
        ("ibacm", "services/ibacm/active", json!("active"), "it runs"),
        ("governor", "governor/governors", json!({"powersave": 192}), "192 processors use the governor powersave"),
        ("peers", "peers", json!(["rdma.rate is 200, of 3 peers 400"]), "rdma.rate is 200, of 3 peers 400"),
    ];
    for (name, pointer, value, evidence) in &cases {
        let found = found_with(pointer, value.clone());
        assert_eq!(found, [((*name).to_owned(), (*evidence).to_owned())], "{pointer}");
    }
    let questions = SlowQuestions::load_builtin().unwrap();
    let tested: Vec<&str> = cases.iter().map(|(name, ..)| *name).collect();
    let names: Vec<String> = questions.list_questions().into_iter().map(|question| question.name).collect();
    assert_eq!(names, tested, "each question has a case, in the table's order");
}

/// Half of the lanes are those of a split cable, or what failed lanes left.
#[test]
fn split_port_is_decided_by_the_declaration_or_by_ports_of_its_speed() {
    let ask_lanes = |declared: Value, others: [(u64, &str, &str); 2]| {
        let mut facts = healthy_facts();
        for (device, (width, lanes, speed)) in others.into_iter().enumerate() {
            let port = facts.get_mut("rdma").unwrap().pointer_mut(&format!("/{device}/ports/0")).unwrap();
            let rate = width as f64 * 100.0;
            for (key, value) in [
                ("class", json!("infiniband")),
                ("width", json!(width)),
                ("lanes", json!(lanes)),
                ("speed", json!(speed)),
                ("rate", json!(rate)),
            ] {
                port[key] = value;
            }
        }
        facts.insert("declared_lanes".to_owned(), declared);
        ask(facts).into_iter().find(|(name, _)| name == "lanes").unwrap().1
    };
    let (full, split, lost) = ((4, "full", "NDR"), (2, "split", "NDR"), (1, "lost", "NDR"));
    let found = |text: &str| QuestionAnswer::Found(text.into());
    let clear = |text: &str| QuestionAnswer::Clear(text.into());
    let halved = "mlx5_1 port 1: 2 lanes of NDR, 200.0 Gb/s";
    assert_eq!(ask_lanes(json!(null), [full, split]), found(&format!("{halved} (1 other port of NDR has more lanes)")));
    assert_eq!(ask_lanes(json!(4), [full, split]), found(&format!("{halved} (declared: 4 lanes)")));
    assert_eq!(ask_lanes(json!(2), [full, split]), clear("each did (declared: 2 lanes)"));
    assert_eq!(ask_lanes(json!(2), [split, split]), clear("each did (declared: 2 lanes)"));
    assert_eq!(
        ask_lanes(json!(2), [split, lost]),
        found("mlx5_1 port 1: 1 lanes of NDR, 100.0 Gb/s (declared: 2 lanes)")
    );
    let undecided = |device: &str, speed: &str| {
        format!(
            "{device} port 1: 2 lanes of {speed}, by a split cable or because the others failed \
             (the recipe ib-ports declares `width`)"
        )
    };
    let both = format!("{}; {}", undecided("mlx5_0", "NDR"), undecided("mlx5_1", "NDR"));
    assert_eq!(ask_lanes(json!(null), [split, split]), QuestionAnswer::Unknown(both.into()));
    assert_eq!(
        ask_lanes(json!(null), [full, (2, "split", "HDR")]),
        QuestionAnswer::Unknown(undecided("mlx5_1", "HDR").into()),
        "ports of another speed decide nothing"
    );
    assert_eq!(ask_lanes(json!(null), [full, full]), clear("each did"));
}

#[test]
fn port_that_prints_no_lanes_is_unknown() {
    let mut facts = healthy_facts();
    facts.get_mut("rdma").unwrap()[0]["ports"][0]["lanes"] = json!(null);
    let answer = ask(facts).into_iter().find(|(name, _)| name == "lanes").unwrap().1;
    assert_eq!(answer, QuestionAnswer::Unknown("mlx5_0 port 1: its rate names no lanes".into()));
}

#[test]
fn finding_answers_the_questions_that_depend_on_it() {
    let mut facts = healthy_facts();
    facts.insert("rdma".to_owned(), json!([]));
    let answers: BTreeMap<String, QuestionAnswer> = ask(facts).into_iter().collect();
    assert_eq!(answers["gpudirect"], QuestionAnswer::AnsweredBy("adapters".to_owned()));
    assert!(matches!(answers["acs"], QuestionAnswer::Clear(_)), "it does not depend on adapters");
}

#[test]
fn unknown_fact_is_never_a_clear_answer() {
    let mut facts = healthy_facts();
    facts.remove("gdr");
    facts.insert("traffic".to_owned(), json!({"unknown": "the counters were read once"}));
    let answers: BTreeMap<String, QuestionAnswer> = ask(facts).into_iter().collect();
    let unknown = |why: &str| QuestionAnswer::Unknown(why.into());
    assert_eq!(answers["gpudirect"], unknown("fact `gdr` is unknown: was not observed"));
    assert_eq!(answers["link-errors"], unknown("fact `traffic` is unknown: the counters were read once"));
}

#[test]
fn host_without_gpus_and_job_is_asked_about_neither() {
    let mut facts = healthy_facts();
    for (fact, value) in [("gpus", json!([])), ("gpu_state", json!([])), ("holders", json!([])), ("roce", json!([]))] {
        facts.insert(fact.to_owned(), value);
    }
    facts.insert("workload".to_owned(), json!({"pods": []}));
    facts.insert("nccl".to_owned(), json!([]));
    facts.insert("topology".to_owned(), json!(null));
    let answers = ask(facts);
    let none: Vec<&str> = answers
        .iter()
        .filter(|(_, answer)| *answer == QuestionAnswer::NotApplicable)
        .map(|(name, _)| name.as_str())
        .collect();
    assert_eq!(none.len(), 19, "{none:?}");
    assert!(!answers.iter().any(|(_, answer)| matches!(answer, QuestionAnswer::Unknown(_))), "{answers:?}");
}

#[test]
fn recipes_of_the_questions_exist_and_change_something() {
    for question in SlowQuestions::load_builtin().unwrap().list_questions() {
        for recipe in &question.recipes {
            let known = super::super::builtin_data::BUILTIN_RECIPES.iter().find(|(name, _)| name == recipe);
            let (_, text) = known.unwrap_or_else(|| panic!("{}: no recipe `{recipe}`", question.name));
            let mut kinds = crate::resource::all_kinds().iter().filter(|kind| kind.name != "wait_for");
            let acts = kinds.any(|kind| text.contains(&format!("\n    {}:", kind.name))) || text.contains("\nuses:");
            assert!(acts, "{}: recipe `{recipe}` only verifies", question.name);
        }
    }
}

/// A link that does not come up is a fault of the hardware: a declared recipe has nothing to change.
#[test]
fn missing_link_of_a_set_up_fabric_is_repaired_by_no_recipe() {
    let questions = SlowQuestions::load_builtin().unwrap().list_questions();
    let of = |name: &str| questions.iter().find(|question| question.name == name).expect("a question");
    assert!(of("nvlinks").recipes.is_empty() && of("nvlinks").action.is_some());
    assert_eq!(of("nvswitch-fabric").recipes, ["nvidia-fabricmanager"]);
}

#[test]
fn address_that_calico_chose_must_be_that_of_the_node() {
    let found = |pointer: &str, value: Value| found_with(&format!("pod_network/{pointer}"), value);
    let gone = "it uses 10.0.14.5, which no interface has".to_owned();
    assert_eq!(found("interface", Value::Null), [("pod-network".to_owned(), gone)]);
    let mut facts = healthy_facts();
    facts.insert("pod_network".to_owned(), Value::Null);
    let answers = ask(facts);
    let answer = answers.iter().find(|(name, _)| name == "pod-network").map(|(_, answer)| answer);
    assert_eq!(answer, Some(&QuestionAnswer::NotApplicable), "a host without Calico");
    let other = json!({"address": "10.3.2.5", "interface": "eth1", "infiniband": false, "is_node_address": false,
        "node_address": "10.0.14.5"});
    let mut facts = healthy_facts();
    facts.insert("pod_network".to_owned(), other);
    let evidence = QuestionAnswer::Found("it uses 10.3.2.5 on eth1, and the node's address is 10.0.14.5".into());
    assert_eq!(ask(facts).into_iter().find(|(name, _)| name == "pod-network"), Some(("pod-network".into(), evidence)));
}
