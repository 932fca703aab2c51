//! The programs of acceptance pods, run over a file tree that replaces a pod's `/sys`, `/proc/net` and `/dev`. Device
//! nodes are replaced by plain files, so that tests for them are left out.
//!
//! The layout of the GID table (`gids`, `gid_attrs/types`, slots that cannot be read) is that of
//! Documentation/ABI/stable/sysfs-class-infiniband and testing/sysfs-class-infiniband of the kernel, that of `fib_trie`
//! of net/ipv4/fib_trie.c (`fib_trie_seq_show`).

use super::recipes::{cases, laid, rendered, yaml};
use super::script_host::{ScriptHost, ScriptRun};
use serde_json::{Value, json};

const TABLE: &str = "\
Main:
  +-- 0.0.0.0/0 3 0 5
     |-- 0.0.0.0
        /0 universe UNICAST
     +-- 192.168.0.0/24 2 0 2
        |-- 192.168.0.0
           /24 link UNICAST
        |-- 192.168.0.7
           /32 host LOCAL
        |-- 192.168.0.255
           /32 link BROADCAST
     |-- 192.168.1.7
        /32 host LOCAL
";

/// A table of GIDs: index, type, GID.
type GidTable<'t> = [(u32, &'t str, &'t str)];

/// A pod with the addresses of [`TABLE`] and these adapters, each with its table.
fn pod(adapters: &[(&str, &GidTable<'_>)]) -> ScriptHost {
    let host = ScriptHost::new(&["/sys/", "/proc/net/", "/dev/infiniband/", "/forge/"]);
    host.write("proc/net/fib_trie", TABLE);
    host.write("proc/net/if_inet6", "fe8000000000000000fc00fffe000001 04 40 20 80     eth0\n");
    for (at, (adapter, gids)) in adapters.iter().enumerate() {
        let port = format!("sys/class/infiniband/{adapter}/ports/1");
        for (index, kind, gid) in *gids {
            host.write(&format!("{port}/gid_attrs/types/{index}"), &format!("{kind}\n"));
            host.write(&format!("{port}/gids/{index}"), &format!("{gid}\n"));
        }
        // Reading an empty slot fails with EINVAL; a folder cannot be read either.
        host.write(&format!("{port}/gid_attrs/types/9/x"), "");
        host.write(&format!("dev/infiniband/uverbs{at}"), "");
        host.write(&format!("sys/class/infiniband_verbs/uverbs{at}/ibdev"), adapter);
    }
    host
}

const OF_HOST: &str = "0000:0000:0000:0000:0000:ffff:0a00:0e1f";
const FIRST: &str = "0000:0000:0000:0000:0000:ffff:c0a8:0007";
const SECOND: &str = "0000:0000:0000:0000:0000:ffff:c0a8:0107";
const LINK_LOCAL: &str = "fe80:0000:0000:0000:00fc:00ff:fe00:0001";

/// Runs the part of PyTorchJob's pods before `torchrun`, which prints the variable.
fn choose_gid(host: &ScriptHost, adapters: &[&str]) -> ScriptRun {
    let recipes = super::recipes::root().join("../../recipes");
    let recipe = yaml(&recipes.join("pytorch-job.yaml"));
    let steps = recipe["steps"].as_array().unwrap();
    let program = steps.iter().find(|step| step["name"] == "program").unwrap();
    let script = program["manifest"]["objects"][0]["data"]["roce-gid.sh"].as_str().unwrap();
    assert!(!script.contains("{{") && !script.contains("{%"), "the script is not a template");
    // ScriptHost replaces paths in the text that it runs, not in files.
    let names = adapters.join(" ");
    host.run(&format!("unset NCCL_IB_GID_INDEX; set -- {names};\n{script}\necho \"index=$NCCL_IB_GID_INDEX\""))
}

#[test]
fn gid_index_is_the_one_of_the_pods_own_address() {
    let first = [(1, "RoCE v2", LINK_LOCAL), (2, "IB/RoCE v1", FIRST), (3, "RoCE v2", OF_HOST), (5, "RoCE v2", FIRST)];
    let second = [(3, "RoCE v2", OF_HOST), (5, "RoCE v2", SECOND)];
    let ran = choose_gid(&pod(&[("mlx5_4", &first), ("mlx5_5", &second)]), &["mlx5_4", "mlx5_5"]);
    let said = "forge: the GID of mlx5_4 has the index 5\nforge: the GID of mlx5_5 has the index 5\nindex=5\n";
    assert_eq!((ran.status, ran.stdout.as_str()), (Some(0), said), "{ran:?}");
    let second = [(3, "RoCE v2", OF_HOST), (6, "RoCE v2", SECOND)];
    let ran = choose_gid(&pod(&[("mlx5_4", &first), ("mlx5_5", &second)]), &["mlx5_4", "mlx5_5"]);
    let said = "forge: the GID of mlx5_4 has the index 5\nforge: the GID of mlx5_5 has the index 6\n\
                forge: the indexes differ, so NCCL chooses a GID for each adapter\nindex=\n";
    assert_eq!((ran.status, ran.stdout.as_str()), (Some(0), said), "{ran:?}");
    let third = [(3, "RoCE v2", OF_HOST)];
    let ran = choose_gid(&pod(&[("mlx5_4", &first), ("mlx5_5", &third)]), &["mlx5_4", "mlx5_5"]);
    let said = "forge: the GID of mlx5_4 has the index 5\n\
                forge: mlx5_5 has no GID of RoCE v2 for an address of this pod\n";
    assert_eq!((ran.status, ran.stdout.as_str()), (Some(1), said), "{ran:?}");
}

/// Returns the script of the RDMA pod for these adapters, without its tests for device nodes and limits.
fn rdma_pod_script(with: &Value) -> String {
    let case = laid(&cases("rdma-pod")[0], &json!({ "with": with }));
    let (_, desired) = rendered("rdma-pod", &case, "pod[n1]");
    let args = desired["object"]["spec"]["template"]["spec"]["containers"][0]["args"][0].as_str().unwrap().to_owned();
    let kept = args.lines().filter(|line| !line.contains("[ -c ") && !line.contains("ulimit"));
    kept.collect::<Vec<_>>().join("\n")
}

#[test]
fn rdma_pod_fails_on_an_adapter_without_an_address_of_the_pod() {
    let roce = json!({ "link_layer": "Ethernet", "adapters": 2, "networks": ["net/rail0", "net/rail1"] });
    let run = |second: &GidTable<'_>| {
        let host = pod(&[("mlx5_4", &[(3, "RoCE v2", OF_HOST), (5, "RoCE v2", FIRST)]), ("mlx5_5", second)]);
        host.add_program("ibv_devinfo", "printf '\\tstate: PORT_ACTIVE (4)\\n\\tlink_layer: Ethernet\\n'");
        host.run(&rdma_pod_script(&roce))
    };
    let ran = run(&[(5, "RoCE v2", SECOND)]);
    assert_eq!(ran.status, Some(0), "{ran:?}");
    assert!(ran.stdout.ends_with("forge: every adapter is as declared\n"), "{ran:?}");
    let ran = run(&[(3, "RoCE v2", OF_HOST), (5, "IB/RoCE v1", SECOND)]);
    assert_eq!(ran.status, Some(1), "{ran:?}");
    assert!(ran.stdout.ends_with("forge: mlx5_5 has no GID of RoCE v2 for an address of this pod\n"), "{ran:?}");
}

/// InfiniBand has no addresses that GIDs follow.
#[test]
fn rdma_pod_on_infiniband_reads_no_gids() {
    let script = rdma_pod_script(&json!({ "adapters": 1 }));
    assert!(!script.contains("reachable \"$adapter\""), "{script}");
    let host = pod(&[("mlx5_0", &[])]);
    host.add_program("ibv_devinfo", "printf '\\tstate: PORT_ACTIVE (4)\\n\\tlink_layer: InfiniBand\\n'");
    let ran = host.run(&script);
    assert_eq!(ran.status, Some(0), "{ran:?}");
}
