//! Acceptance tests on real hosts: `ucx_perftest` over the fleet's links, through the code that runs perftest, and
//! `mpirun` over the mesh of `ssh-mesh` with a program that really reduces.

use crate::running_forge::RunningForge;
use crate::support::{Fleet, Node, Project};
use serde_json::Value;
use std::process::Command;
use std::time::{Duration, Instant};

/// 6.5 MB in each direction of each pair: 0.7 s at the 80 Mbit/s of the hosts' links, three seconds at 20 Mbit/s.
const TESTS: &str = "tests:
  quick:
    - test: ucx-bandwidth
      on: all
      with: { transport: tcp, size: 65536, iterations: 100 }
      least: 0.03
      # The links are slower while other tests take the processors.
      baseline: 0.99
      required: true
  hang:
    - { test: hang, on: all, least: 1 }
";

/// A server that waits for a client, which never connects.
const HANG: &str = "test: hang
scope: pair
output: number
limit: 8s
parameters: { port: 13400 }
server: [ucx_perftest, -p, '{port}']
client: [sleep, 61]
";

fn run_tests(project: &Project, code: i32) -> Value {
    let out = project.forge(["test", "inventory.yaml", "--yes", "--format", "json"]);
    assert_eq!(out.code, code, "{out}");
    assert!(out.stderr.contains(" round 1 of ") && out.stderr.contains(" left\n"), "{out}");
    serde_json::from_str::<Value>(&out.stdout).expect("a document")["tests"].clone()
}

fn rows_with<'v>(tests: &'v Value, result: &str) -> Vec<&'v Value> {
    let rows = tests["tests"][0]["rows"].as_array().expect("rows");
    rows.iter().filter(|row| row["verdict"]["result"] == result).collect()
}

/// Returns what drift reports of acceptance tests, as another controller: it has the inventory and no history.
fn list_due_tests(nodes: &[Node]) -> (i32, Vec<String>) {
    let project = Project::new(nodes).inventory(TESTS).file("tests/hang.yaml", HANG);
    let out = project.forge(["drift", "inventory.yaml", "--format", "json"]);
    let drift: Value = serde_json::from_str(&out.stdout).unwrap_or_else(|_| panic!("{out}"));
    let findings = drift["drift"]["findings"].as_array().expect("findings").iter();
    let due = findings.map(|finding| format!("{}: {}", finding["host"], finding["reason"]).replace('"', ""));
    (out.code, due.collect())
}

/// Debian's UCX, from the repository of the nodes.
fn install_ucx(node: &Node) {
    node.write("/etc/apt/sources.list.d/trade.list", "deb [trusted=yes] file:/srv/forge-repo/trade ./\n");
    node.must("apt-get -qq update && apt-get -qq install -y --no-install-recommends ucx-utils >&2");
}

fn left_behind(node: &Node) -> String {
    node.sh("systemctl list-units --all --plain --no-legend 'forge-test-*'; pgrep -x ucx_perftest; pgrep -fx 'sleep 61'; ls /run/forge-test-* 2>/dev/null")
        .stdout
}

#[test]
fn slow_host_is_named_and_nothing_is_left_behind() {
    let Some(nodes) = Fleet::take(3) else { return };
    for node in nodes.iter() {
        install_ucx(node);
        node.must("tc qdisc add dev host0 root tbf rate 80mbit burst 256kbit latency 400ms");
    }
    let project = Project::new(&nodes).inventory(TESTS).file("tests/hang.yaml", HANG);
    let plan = project.forge(["test", "inventory.yaml", "--dry-run"]);
    assert!(plan.ok() && plan.stdout.contains("3 pairs in 3 rounds, both directions, each adapter"), "{plan}");

    let untested = nodes.iter().map(|node| format!("{}: not tested yet", node.name)).collect();
    assert_eq!(list_due_tests(&nodes), (2, untested), "the test is required");

    let healthy = run_tests(&project, 0);
    assert_eq!(list_due_tests(&nodes), (0, Vec::new()), "the hosts keep what they passed");
    assert_eq!(rows_with(&healthy, "pass").len(), 6, "three pairs in both directions: {healthy:#}");
    assert_eq!((&healthy["against"], healthy["tests"][0]["faults"].as_array().map(Vec::len)), (&Value::Null, Some(0)));
    let outputs = &healthy["tests"][0]["rows"][0]["outputs"];
    assert!(outputs[0].as_str().is_some_and(|text| text.contains("Waiting for connection")), "the server: {outputs}");
    assert!(outputs[1].as_str().is_some_and(|text| text.contains("bandwidth (MB/s)")), "the client: {outputs}");

    // A package moves on which the result rests.
    let version = nodes[0].must("dpkg-query -W -f '${Version}' libucx0");
    nodes[0].must("sed -i '/^Package: libucx0$/,/^$/s/^Version: .*/Version: 1.99-1/' /var/lib/dpkg/status");
    let day = nodes[0].must("date -u +%F").trim().to_owned();
    let moved = format!("{}: package libucx0 {version} -> 1.99-1 since the test of {day}", nodes[0].name);
    assert_eq!(list_due_tests(&nodes), (2, vec![moved]));

    // The second run compares with the first, and one host is slow. `why-slow` starts it: no host has an adapter.
    let slow = &nodes[1];
    slow.must("tc qdisc replace dev host0 root tbf rate 20mbit burst 32kbit latency 400ms");
    let asked = ["why-slow", "inventory.yaml", "--seconds", "1", "--measure", "--yes", "--format", "json"];
    let asked = project.forge(asked);
    let document: Value = serde_json::from_str(&asked.stdout).unwrap_or_else(|_| panic!("{asked}"));
    let diagnosis = &document["diagnosis"];
    assert_eq!((asked.code, &diagnosis["causes"][0]["question"]), (5, &Value::from("adapters")), "{diagnosis:#}");
    let shaped = diagnosis["measured"].clone();
    assert_eq!(shaped["against"], healthy["run"], "{shaped:#}");
    let faults = shaped["tests"][0]["faults"].as_array().expect("faults");
    assert_eq!(faults.len(), 1, "{shaped:#}");
    assert_eq!(faults[0]["host"], slow.name.as_str(), "{faults:#?}");
    assert_eq!(faults[0]["part"], format!("host `{}`, its adapter or its cable", slow.name));
    slow.must("tc qdisc replace dev host0 root tbf rate 80mbit burst 256kbit latency 400ms");
    let failed =
        format!("{}: the test of {day} failed: bad: host `{}`, its adapter or its cable", slow.name, slow.name);
    assert_eq!(list_due_tests(&nodes), (2, vec![failed]), "its neighbours passed, with the new package");
    assert!(nodes.iter().all(|node| left_behind(node).is_empty()), "{}", left_behind(slow));

    // forge is killed while both programs of a pair run: they end by their own limit.
    let mut command = project.command(["test", "inventory.yaml", "--set", "hang", "--yes", "--unverified"]);
    let mut forge = RunningForge::start(&mut command);
    nodes[1].until("pgrep -fx 'sleep 61' >/dev/null || pgrep -x ucx_perftest >/dev/null", 30);
    forge.kill();
    for node in nodes.iter() {
        node.until("[ -z \"$(systemctl list-units --all --plain --no-legend 'forge-test-*')\" ]", 30);
        assert_eq!(node.sh("pgrep -x ucx_perftest; pgrep -fx 'sleep 61'").stdout, "");
    }
    std::thread::sleep(Duration::from_secs(1));
    assert_eq!(rows_with(&run_tests(&project, 0), "pass").len(), 6, "the hosts are free again");
    assert_eq!(list_due_tests(&nodes), (0, Vec::new()));
    nodes.iter().for_each(|node| drop(node.sh("tc qdisc del dev host0 root")));
}

/// Prints a number at once and goes on.
const EARLY: &str = "test: early
scope: host
output: number
limit: 6s
command: [sh, -c, 'echo 5; sleep 61']
";

/// The first is ended as the kernel ends a program for lack of memory, the second prints its error where `ucx_perftest` does.
const ENDS: &str = "tests:
  quick: [{ test: early, on: all, least: 1 }]
  ends:
    - { test: sh, on: all, least: 1, with: { script: 'echo 5; kill -9 $$' } }
    - { test: sh, on: all, least: 1, with: { script: 'echo transport is not available; exit 3' } }
";

const SHELL: &str = "test: sh
scope: host
output: number
parameters: { script: }
command: [sh, -c, '{script}']
";

/// A stopped unit looks like success to `systemd-run --wait`, and one that its limit ended like a failed program.
#[test]
fn stopped_program_is_not_measured_whatever_it_printed() {
    let Some(nodes) = Fleet::take(1) else { return };
    let project = Project::new(&nodes).inventory(ENDS);
    let project = project.file("tests/early.yaml", EARLY).file("tests/sh.yaml", SHELL);
    let ends = project.forge(["test", "inventory.yaml", "--set", "ends", "--yes", "--unverified"]);
    for why in ["ended by signal KILL\n", "exit status 3: transport is not available\n"] {
        assert!(ends.code == 9 && ends.stdout.contains(why), "{ends}");
    }
    assert_eq!(left_behind(&nodes[0]), "");
    let limited = project.forge(["test", "inventory.yaml", "--yes", "--unverified"]);
    let line = format!("  not measured {}  the limit of 6 s stopped the program\n", nodes[0].name);
    assert!(limited.code == 9 && limited.stdout.contains(&line), "{limited}");
    assert_eq!(left_behind(&nodes[0]), "");

    let mut command = project.command(["test", "inventory.yaml", "--yes", "--unverified"]);
    let forge = RunningForge::start_heard(&mut command);
    nodes[0].until("pgrep -fx 'sleep 61' >/dev/null", 30);
    forge.interrupt();
    let ended = forge.finish();
    let line = format!("  not measured {}  stopped\n", nodes[0].name);
    assert!(ended.code == 130 && ended.stdout.contains(&line), "{ended}");
    assert_eq!(left_behind(&nodes[0]), "");
}

/// A server that ends with an error after its client was served, and one whose port a program of others has.
const SERVERS: &str = "tests:
  quick:
    - { test: crash, on: all, least: 1 }
    - { test: crash, on: all, least: 1, with: { port: 13402 } }
";

const CRASH: &str = "test: crash
scope: pair
output: number
limit: 8s
parameters: { port: 13401 }
server: [perl, -MIO::Socket::INET, -e, '$l = IO::Socket::INET->new(LocalPort => {port}, Listen => 1) or die; $l->accept; warn \"oops\\n\"; exit 3']
client: [perl, -MIO::Socket::INET, -e, 'IO::Socket::INET->new(PeerAddr => \"{address}:{port}\") or die; print \"5\\n\"']
";

#[test]
fn number_from_a_server_that_failed_or_is_of_others_is_not_measured() {
    let Some(nodes) = Fleet::take(2) else { return };
    for node in nodes.iter() {
        node.must(
            "systemd-run -q --unit foreign perl -MIO::Socket::INET -e '$$l = IO::Socket::INET->new(LocalPort => 13402, Listen => 5); \
             while ($$l->accept) {}'",
        );
        node.until("ss -ltn | grep -q ':13402 '", 10);
    }
    let project = Project::new(&nodes).inventory(SERVERS).file("tests/crash.yaml", CRASH);
    let out = project.forge(["test", "inventory.yaml", "--yes", "--unverified"]);
    let (one, other) = (&nodes[0].name, &nodes[1].name);
    for (client, server) in [(one, other), (other, one)] {
        let crashed = format!("not measured {client} → {server}  the server on `{server}`: exit status 3: oops\n");
        let taken = format!("the server did not start on `{server}`: another program listens on port 13402\n");
        assert!(out.code == 9 && out.stdout.contains(&crashed) && out.stdout.contains(&taken), "{out}");
    }
    assert!(nodes.iter().all(|node| left_behind(node).is_empty()), "{}", left_behind(&nodes[0]));
}

/// A link that moves 1 Gb/s cannot move what a fast one needs for half a second: here 6.5 GB, at 80 Mbit/s.
const CUT: &str = "tests:
  quick:
    - { test: cut, on: all, least: 1 }
  served:
    - { test: crash, on: all, least: 1, with: { port: 13402 } }
";

/// The limit of a server's program, with the programs of `ucx-bandwidth`.
const SHORT_UCX: &str = "test: cut
scope: pair
output: ucx
limit: 20s
parameters: { size: 65536, iterations: 100000, port: 13403 }
server: [env, UCX_TLS=tcp, ucx_perftest, -p, '{port}']
client: [env, UCX_TLS=tcp, ucx_perftest, '{address}', -p, '{port}', -t, tag_bw, -s, '{size}', -n, '{iterations}']
";

/// A slow link, and a firewall. The clock is the witness that a dropped port costs seconds, not the test's limit.
#[test]
fn slow_link_fails_and_dropped_port_is_named() {
    let Some(nodes) = Fleet::take(2) else { return };
    for node in nodes.iter() {
        install_ucx(node);
        node.must("tc qdisc add dev host0 root tbf rate 80mbit burst 256kbit latency 400ms");
    }
    // The connection of the run before may still be closing.
    let patient = CRASH.replace("limit: 8s", "limit: 10m").replace("Listen => 1", "Listen => 1, ReuseAddr => 1");
    let patient = patient.replace("warn \"oops\\n\"; exit 3", "exit 0");
    let project = Project::new(&nodes).inventory(CUT);
    let project = project.file("tests/cut.yaml", SHORT_UCX).file("tests/crash.yaml", &patient);
    let (one, other) = (&nodes[0].name, &nodes[1].name);
    let cut = project.forge(["test", "inventory.yaml", "--yes", "--unverified"]);
    assert!(cut.code == 5 && cut.stdout.matches("  fail ").count() == 2, "{cut}");
    assert!(cut.stdout.contains("Gb/s, expected at least 1"), "{cut}");
    assert!(nodes.iter().all(|node| left_behind(node).is_empty()), "{}", left_behind(&nodes[0]));

    let served = || project.forge(["test", "inventory.yaml", "--set", "served", "--yes", "--unverified"]);
    let passed = served();
    assert!(passed.code == 0 && passed.stdout.matches("  pass ").count() == 2, "{passed}");
    assert!(nodes.iter().all(|node| left_behind(node).is_empty()), "{}", left_behind(&nodes[0]));

    let drop = "table inet site { chain input { type filter hook input priority 0; tcp dport 13402 drop; }; }";
    nodes[0].must(&format!("nft '{drop}'"));
    let started = Instant::now();
    let dropped = served();
    let line = format!(
        "  not measured {other} → {one}  the server listens on TCP port 13402, and nothing answered the connection of the \
         client for 15 s: does a firewall drop it?\n"
    );
    assert!(dropped.code == 9 && dropped.stdout.contains(&line), "{dropped}");
    assert!(dropped.stdout.contains(&format!("  pass {one} → {other}")), "{dropped}");
    assert!(started.elapsed() < Duration::from_secs(300), "{:?}", started.elapsed());
    assert!(nodes.iter().all(|node| left_behind(node).is_empty()), "{}", left_behind(&nodes[1]));
}

/// Debian's fio reads the file for a second, its sysbench the memory. The second entry asks for a file that does not exist.
const DISK: &str = "  disk:
    - { test: fio-read, on: HOST, least: 0.001, with: { file: /srv/probe, seconds: 1, depth: 4 } }
    - { test: fio-read, on: HOST, least: 0.001, with: { file: /srv/missing, seconds: 1 } }
    - { test: fio-read, on: HOST, least: 0.001, with: { file: /srv/probe, seconds: 1, pattern: write } }
    - { test: memory-read, on: HOST, least: 0.001, with: { threads: 2, seconds: 1 } }
    - { test: memory-read, on: HOST, least: 0.001, with: { threads: 2, seconds: 1, block: 1K } }
";

/// A program of ours that prints what nccl-tests prints, on the mesh that the recipe declares. The second set hangs.
const COLLECTIVES: &str = "apply:
  - { recipe: openmpi, on: all, with: { networks: [host0] } }
  - { recipe: ssh-mesh, on: all, with: { user: train, slots: 1 } }
tests:
  quick:
    - { test: all-reduce, on: all, least: 0.000001, network: any, baseline: 0.99 }
    - { test: dollar, on: all, least: 7 }
  rdma:
    - { test: all-reduce, on: all, least: 0.000001 }
  hang:
    - { test: all-reduce, on: all, least: 0.000001, network: any, with: { wait: 61 } }
";

const ALL_REDUCE: &str = "test: all-reduce
scope: group
output: nccl
limit: 8s
mesh: ssh-mesh
parameters: { wait: 0 }
command: [mpirun, --mca, orte_launch_agent, 'env {mark} orted', --mca, plm_rsh_no_tree_spawn, '1', --mca, btl,
  'self,tcp', --host, '{hosts}', -np, '{ranks}', -x, NCCL_DEBUG=INFO, all_reduce, -b, 64K, -e, 256K, -w, '{wait}']
";

/// The service manager expands variables in the arguments of units; a test's arguments are its own.
const DOLLAR: &str = "test: dollar
scope: host
output: number
command: [sh, -c, 'x=7; echo $x']
";

/// Builds the program with the machine's compiler. It needs no header of MPI.
pub fn build_all_reduce(folder: &std::path::Path) -> Vec<u8> {
    let (source, program) =
        (concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fleet/mpi/all_reduce.c"), folder.join("all_reduce"));
    let built = Command::new("cc").args(["-O2", "-Wall", "-o"]).arg(&program).args([source, "-ldl"]).status();
    assert!(built.expect("a C compiler").success());
    fs_err::read(program).expect("the program")
}

/// The processes of a collective, as `ps` lists them, and the units of tests.
fn list_collective(node: &Node) -> String {
    let units = "systemctl list-units --all --plain --no-legend 'forge-test-*'";
    node.sh(&format!("ps -eo user,comm | grep -E '^train|mpirun|orted|all_reduce'; {units}")).stdout
}

fn assert_nothing_runs(nodes: &[Node]) {
    for node in nodes {
        assert_eq!(list_collective(node), "", "{}", node.name);
    }
}

/// Starts a collective that hangs, and waits until a process of it runs on every host.
fn start_hanging(project: &Project, nodes: &[Node]) -> RunningForge {
    let mut command = project.command(["test", "inventory.yaml", "--set", "hang", "--yes", "--unverified"]);
    let forge = RunningForge::start_heard(&mut command);
    nodes.iter().for_each(|node| node.until("pgrep -x all_reduce >/dev/null", 30));
    forge
}

#[test]
fn collective_is_started_by_mpi_and_no_process_is_left() {
    let Some(nodes) = Fleet::take(2) else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let program = build_all_reduce(folder.path());
    std::thread::scope(|scope| {
        for node in nodes.iter() {
            scope.spawn(|| {
                node.write("/etc/apt/sources.list.d/trade.list", "deb [trusted=yes] file:/srv/forge-repo/trade ./\n");
                node.must("apt-get -qq update");
                node.write("/usr/local/bin/all_reduce", &program);
                node.must("chmod 755 /usr/local/bin/all_reduce");
            });
        }
    });
    let project = Project::new(&nodes).inventory(&format!("{COLLECTIVES}{}", DISK.replace("HOST", &nodes[0].name)));
    let project = project.file("tests/all-reduce.yaml", ALL_REDUCE).file("tests/dollar.yaml", DOLLAR);
    let applied = project.forge(["apply", "inventory.yaml", "--yes"]);
    assert!(applied.ok(), "{applied}");

    // The reduction is right: each rank contributes (rank + 1) · (element mod 7 + 1).
    let done = run_tests(&project, 0);
    let row = &done["tests"][0]["rows"][0];
    let expected: usize = (0..65536).map(|at| 3 * (at % 7 + 1)).sum();
    let checksum = format!("# checksum {expected} of 2 ranks on {} {}", nodes[0].name, nodes[1].name);
    assert!(row["outputs"][0].as_str().is_some_and(|text| text.contains(&checksum)), "{checksum}: {row:#}");
    assert_eq!(row["hosts"], serde_json::json!([nodes[0].name, nodes[1].name]));
    assert!(row["verdict"]["value"].as_f64().is_some_and(|value| value > 0.0), "{row:#}");
    assert_eq!(done["tests"][1]["rows"][0]["verdict"]["value"], 7.0, "{:#}", done["tests"][1]);
    assert_nothing_runs(&nodes);

    // A disk is only read.
    nodes[0]
        .must("apt-get -qq install -y --no-install-recommends fio sysbench >&2; head -c 16M /dev/urandom >/srv/probe");
    let content = nodes[0].must("sha256sum /srv/probe");
    let disk = project.forge(["test", "inventory.yaml", "--set", "disk", "--yes", "--format", "json"]);
    let report: Value = serde_json::from_str(&disk.stdout).expect("a document");
    let verdict = |at: usize| &report["tests"]["tests"][at]["rows"][0]["verdict"];
    assert_eq!((disk.code, &verdict(0)["result"]), (9, &Value::from("pass")), "{report:#}");
    let missing = "exit status 1: forge-test: you need to specify size=";
    assert_eq!(verdict(1)["reason"].as_str().map(|why| why.starts_with(missing)), Some(true), "{report:#}");
    let refused = "exit status 1: type: string (opt=bla); default: read; fio: failed parsing rw=write";
    assert_eq!(verdict(2)["reason"], refused, "{report:#}");
    assert_eq!(verdict(3)["result"], "pass", "{report:#}");
    assert_eq!(verdict(4)["reason"], "blocks of 1024 bytes may be read from the caches (least 32M)", "{report:#}");
    nodes[0].must("! [ -e /srv/missing ]");
    assert_eq!(nodes[0].must("sha256sum /srv/probe"), content);

    // Over sockets it fails, whatever its number.
    let junit = ["--format", "json", "--report", "junit=report.xml"];
    let sockets = project.forge(["test", "inventory.yaml", "--set", "rdma", "--yes"].into_iter().chain(junit));
    let report: Value = serde_json::from_str(&sockets.stdout).expect("a document");
    let reason = &report["tests"]["tests"][0]["rows"][0]["verdict"]["reason"];
    assert_eq!((sockets.code, reason.as_str()), (5, Some("NCCL used sockets, not RDMA")), "{report:#}");
    let xml = fs_err::read_to_string(project.path("report.xml")).expect("the report");
    assert!(xml.contains("failures=\"1\"") && xml.contains("message=\"NCCL used sockets, not RDMA\""), "{xml}");

    // Ctrl-C ends the processes on every host, and gives the hosts back.
    let forge = start_hanging(&project, &nodes);
    let began = Instant::now();
    forge.interrupt();
    let ended = forge.finish();
    assert_eq!(ended.code, 130, "{ended}");
    assert!(ended.stdout.contains("not measured") && ended.stdout.contains("  stopped\n"), "{ended}");
    assert!(began.elapsed() < Duration::from_secs(7), "before the limit of the test: {:?}", began.elapsed());
    assert_nothing_runs(&nodes);

    // One host is cut off, and forge is killed: each host ends its processes by itself.
    let mut forge = start_hanging(&project, &nodes);
    nodes[1].link(false);
    forge.kill();
    for node in nodes.iter() {
        node.until("! ps -eo user,comm | grep -qE '^train|mpirun|orted|all_reduce'", 30);
        node.until("[ -z \"$(systemctl list-units --all --plain --no-legend 'forge-test-*')\" ]", 10);
    }
    nodes[1].link(true);
    let second = run_tests(&project, 0);
    assert_eq!(second["against"], done["run"], "the hosts are free again, and the runs are compared");
}
