//! Collectives as jobs of a real Slurm: a controller and two nodes, with Open MPI over PMIx. `squeue` and `ps` on the hosts
//! say what runs.

use crate::acceptance::build_all_reduce;
use crate::running_forge::RunningForge;
use crate::slurm::install_slurm;
use crate::support::{Fleet, Node, Output, Project};
use serde_json::Value;

/// Debian's PMIx plugin of Slurm looks for a name that only the development package has.
const PREPARE: &str = "apt-get -qq install -y --no-install-recommends openmpi-bin >&2
ln -sf libpmix.so.2 /usr/lib/x86_64-linux-gnu/pmix2/lib/libpmix.so
useradd --create-home train
chmod 755 /usr/local/bin/all_reduce
systemctl restart slurmd";

const ALL_REDUCE: &str = "test: all-reduce
scope: group
output: nccl
limit: 20s
parameters: { wait: 0, user: train, slots: 1 }
command: [mpirun, --host, '{hosts}', --mca, orte_launch_agent, 'env {mark} orted', all_reduce]
rank_command: [all_reduce, -b, 64K, -e, 256K, -w, '{wait}']
";

/// The third set hangs, the fourth one asks for a partition that Slurm does not have. The values of two runs differ by the
/// load of the machine.
const TESTS: &str = "tests:
  quick: [{ test: all-reduce, on: all, least: 0.000001, baseline: 0.99, network: any, launch: { slurm: { mpi: pmix, start_within: 10s } } }]
  rdma: [{ test: all-reduce, on: all, least: 0.000001, launch: { slurm: { mpi: pmix, env: { SITE_VALUE: a b } } } }]
  hang: [{ test: all-reduce, on: all, least: 0.000001, network: any, with: { wait: 61 }, launch: { slurm: { mpi: pmix } } }]
  wrong: [{ test: all-reduce, on: all, least: 0.000001, launch: { slurm: { partition: missing } } }]
";

fn run_set(project: &Project, set: &str) -> (Output, Value) {
    let out = project.forge(["test", "inventory.yaml", "--set", set, "--yes", "--unverified", "--format", "json"]);
    let report = serde_json::from_str(&out.stdout).unwrap_or_else(|_| panic!("{out}"));
    (out, report)
}

/// Returns why the only measurement of a report is as it is.
fn read_reason(report: &Value) -> &str {
    report["tests"]["tests"][0]["rows"][0]["verdict"]["reason"].as_str().unwrap_or_default()
}

/// No job, process or unit of a test is left; Slurm needs a moment to take an ended job out of its list.
fn assert_nothing_is_left(nodes: &[Node]) {
    nodes[0].until("[ -z \"$(squeue --noheader)\" ]", 30);
    for node in nodes {
        let left = "ps -eo user,comm | grep -E '^train|srun|all_reduce'; \
                    systemctl list-units --all --plain --no-legend 'forge-test-*'";
        assert_eq!(node.sh(left).stdout, "", "{}", node.name);
    }
}

#[test]
fn collective_runs_as_a_job_of_slurm_and_leaves_nothing() {
    let Some(nodes) = Fleet::take(2) else { return };
    install_slurm(&nodes);
    let folder = tempfile::tempdir().expect("a folder");
    let program = build_all_reduce(folder.path());
    for node in nodes.iter() {
        node.write("/usr/local/bin/all_reduce", &program);
        node.must(PREPARE);
    }
    nodes[0].until("[ \"$(sinfo --noheader --states=idle --format=%D)\" = 2 ]", 60);
    let project = Project::new(&nodes).file("tests/all-reduce.yaml", ALL_REDUCE).inventory(TESTS);

    // Slurm starts one process on each node, and the reduction over both is right.
    let (out, report) = run_set(&project, "quick");
    out.must_exit(0);
    let row = &report["tests"]["tests"][0]["rows"][0];
    let expected: usize = (0..65536).map(|at| 3 * (at % 7 + 1)).sum();
    let checksum = format!("# checksum {expected} of 2 ranks on {} {}", nodes[0].name, nodes[1].name);
    assert!(row["outputs"][0].as_str().is_some_and(|text| text.contains(&checksum)), "{checksum}: {row:#}");
    let ran = nodes[0].must("scontrol show jobs --oneliner | tail -n 1");
    for part in ["JobName=forge-test-", "JobState=COMPLETED", "NumNodes=2", "OverSubscribe=NO", "UserId=train("] {
        assert!(ran.contains(part), "{part}: {ran}");
    }
    assert_nothing_is_left(&nodes);

    // Over sockets it fails, whatever its number.
    let (out, report) = run_set(&project, "rdma");
    assert_eq!((out.code, read_reason(&report)), (5, "NCCL used sockets, not RDMA"), "{report:#}");

    // What Slurm says becomes the reason.
    let (out, report) = run_set(&project, "wrong");
    let why = read_reason(&report);
    assert!(out.code == 9 && why.contains("srun: error: invalid partition specified: missing"), "{report:#}");

    // Nodes with the job of another user are waited for, and not taken.
    nodes[0].must("cd / && sbatch --nodelist=$(hostname -s) --output=/dev/null --wrap 'sleep 600'");
    nodes[0].until("squeue --noheader --states=RUNNING | grep -q wrap", 60);
    let (out, report) = run_set(&project, "quick");
    let why = read_reason(&report);
    assert!(out.code == 9 && why.contains("Unable to allocate resources"), "{report:#}");
    assert_eq!(nodes[0].must("squeue --noheader --states=RUNNING --format=%j"), "wrap");
    nodes[0].must("scancel --name=wrap");
    assert_nothing_is_left(&nodes);

    // A node that takes no jobs is named.
    nodes[0].must(&format!("scontrol update NodeName={} State=DRAIN Reason='bad DIMM'", nodes[1].name));
    let (out, report) = run_set(&project, "quick");
    let why = format!("node `{}` takes no jobs of Slurm: IDLE+DRAIN, bad DIMM", nodes[1].name);
    assert!(out.code == 9 && read_reason(&report).starts_with(&why), "{report:#}");
    nodes[0].must(&format!("scontrol update NodeName={} State=RESUME", nodes[1].name));

    let drain = project.forge(["test", "inventory.yaml", "--yes", "--drain"]);
    assert_eq!(drain.code, 64, "{drain}");

    // Ctrl-C ends the job.
    let forge = start_hanging(&project, &nodes);
    forge.interrupt();
    let ended = forge.finish();
    assert!(ended.code == 130 && ended.stdout.contains("  stopped\n"), "{ended}");
    assert_nothing_is_left(&nodes);

    // The unit on the submitting host does not outlive its limit if forge is killed; a person can end it earlier.
    let mut forge = start_hanging(&project, &nodes);
    forge.kill();
    nodes[0].must("systemctl stop 'forge-test-*'");
    nodes[1].must("systemctl stop 'forge-test-*'");
    assert_nothing_is_left(&nodes);
    let (out, _) = run_set(&project, "quick");
    out.must_exit(0);
}

/// Starts a collective that hangs, and waits until a process of it runs on every host.
fn start_hanging(project: &Project, nodes: &[Node]) -> RunningForge {
    let mut command = project.command(["test", "inventory.yaml", "--set", "hang", "--yes", "--unverified"]);
    let forge = RunningForge::start_heard(&mut command);
    nodes.iter().for_each(|node| node.until("pgrep -x all_reduce >/dev/null", 60));
    forge
}
