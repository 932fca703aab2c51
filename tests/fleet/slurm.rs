//! Nodes of a real Slurm: drained before their window opens and resumed after it, if forge drained them. One host is
//! both controller and node.

use crate::running_forge::RunningForge;
use crate::support::{Fleet, Node, Nodes, Output, Project};
use std::process::Stdio;

const TRADE: &str = "deb [trusted=yes] file:/srv/forge-repo/trade ./\n";

/// `$1` host of the controller, `$2` its address, `$3` a line for each node. No control groups: nodes of the fleet have
/// both versions, which Slurm does not support.
const SETUP: &str = r#"
apt-get -qq update
DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends slurmctld slurmd munge >/root/log 2>&1 || { cat /root/log; exit 1; }
mkdir -p /etc/slurm /var/spool/slurm/ctld /var/spool/slurm/d
echo CgroupPlugin=cgroup/v1 >/etc/slurm/cgroup.conf
printf '%s\n' ClusterName=forge "SlurmctldHost=$1($2)" SlurmUser=root StateSaveLocation=/var/spool/slurm/ctld SlurmdSpoolDir=/var/spool/slurm/d \
  ProctrackType=proctrack/linuxproc TaskPlugin=task/none SchedulerParameters=sched_interval=1,batch_sched_delay=0 SelectType=select/cons_tres \
  "$3" 'PartitionName=gpu Nodes=ALL Default=YES MaxTime=INFINITE State=UP' >/etc/slurm/slurm.conf
printf '%s' 'one key for all nodes of the fleet' >/etc/munge/munge.key
chown munge: /etc/munge/munge.key
chmod 400 /etc/munge/munge.key
systemctl restart munge
[ "$(hostname -s)" != "$1" ] || systemctl restart slurmctld
systemctl restart slurmd
"#;

/// Installs Slurm: the first host is the controller, and every host a node.
pub fn install_slurm(nodes: &[Node]) {
    let processors = nodes[0].must("nproc");
    let lines: Vec<String> = nodes
        .iter()
        .map(|node| format!("NodeName={} NodeAddr={} CPUs={processors} State=UNKNOWN", node.name, node.address))
        .collect();
    let (name, address, lines) = (&nodes[0].name, &nodes[0].address, lines.join("\n"));
    for node in nodes {
        node.write("/etc/apt/sources.list.d/trade.list", TRADE);
        node.must(&format!("set -- '{name}' '{address}' '{lines}'\n{SETUP}"));
    }
}

/// A change that takes its host out of service, and records Slurm's state of the node meanwhile.
const DRIVER: &str = "recipe: driver
summary: A change that takes the host out of service
params:
  version: { type: version, default: 1.0-1 }
steps:
  - name: slow
    disruption: D2
    command: { check: 'test \"$(cat /etc/driver 2>/dev/null)\" = {{ params.version }}', apply: 'scontrol show node >/etc/during; sleep 2; echo {{ params.version }} >/etc/driver' }
";

/// A measurement that records Slurm's state of the node meanwhile.
const PROBE: &str = "test: probe
scope: host
output: number
limit: 60s
parameters: { pause: 1 }
command: [sh, -c, 'scontrol show node >/etc/during; sleep \"$1\"; echo 7', probe, '{pause}']
";

struct Site {
    nodes: Nodes,
    project: Project,
}

impl Site {
    fn new() -> Option<Site> {
        let nodes = Fleet::take(1)?;
        install_slurm(&nodes);
        let project = Project::new(&nodes).recipe("driver", DRIVER).file("tests/probe.yaml", PROBE);
        let project = project.inventory(&inventory("1.0-1"));
        let site = Site { nodes, project };
        site.is("IDLE");
        Some(site)
    }

    fn node(&self) -> &Node {
        &self.nodes[0]
    }

    /// Waits until Slurm reports this state of the node.
    fn is(&self, state: &str) {
        self.node().until(&format!("scontrol show node | grep -q ' State={state} '"), 60);
    }

    fn update(&self, what: &str) {
        self.node().must(&format!("scontrol update NodeName=$(hostname -s) {what}"));
    }

    fn declare(&self, version: &str) {
        self.project.rewrite(&inventory(version));
    }

    fn apply(&self) -> Output {
        self.project.forge(["apply", "inventory.yaml", "--yes"])
    }

    fn applied(&self, version: &str) {
        let out = self.apply();
        assert_eq!(out.code, 0, "{out}");
        assert_eq!(self.node().must("cat /etc/driver"), version);
        assert!(!self.node().exists("/var/lib/forge/window.json"));
    }

    /// Returns Slurm's state of the node during the change.
    fn during(&self) -> String {
        self.node().must("grep -E ' State=|Reason=' /etc/during")
    }

    fn reason(&self) -> String {
        self.node().must("scontrol show node | sed -n 's/.*Reason=//p'")
    }
}

fn inventory(version: &str) -> String {
    format!(
        "rollout: {{ drain: {{ slurm: all }} }}\n\
         tests:\n  quick:\n    - {{ test: probe, on: all, least: 1 }}\n  \
         long:\n    - {{ test: probe, on: all, least: 1, with: {{ pause: 30 }} }}\n\
         apply:\n  - {{ recipe: driver, on: all, with: {{ version: {version} }} }}\n"
    )
}

#[test]
fn slurm_node_is_resumed_only_if_forge_drained_it() {
    let Some(site) = Site::new() else { return };
    gives_back_what_it_took(&site);
    is_busy_while_a_job_runs(&site);
    is_given_back_after_a_kill(&site);
    leaves_what_somebody_else_drained(&site);
    leaves_a_node_down(&site);
    site.update("State=RESUME");
    is_drained_while_it_is_measured(&site);
}

fn gives_back_what_it_took(site: &Site) {
    site.applied("1.0-1");
    let during = site.during();
    assert!(during.contains("State=IDLE+DRAIN") && during.contains("Reason=forge "), "{during}");
    site.is("IDLE");
    let plan = site.project.forge(["plan", "inventory.yaml", "--detailed-exitcode"]);
    assert_eq!(plan.code, 0, "{plan}");
}

fn is_busy_while_a_job_runs(site: &Site) {
    site.node().must("cd /root && sbatch --job-name train --wrap 'sleep 600'");
    site.node().until("squeue --noheader --states=RUNNING | grep -q train", 60);
    site.declare("1.1-1");
    let out = site.apply();
    assert_eq!(out.code, 3, "{out}");
    assert!(out.stdout.contains("Slurm jobs still run on node "), "{out}");
    assert_eq!(site.node().must("cat /etc/driver; squeue --noheader --states=RUNNING | wc -l"), "1.0-1\n1");
    let state = site.node().must("scontrol show node | grep ' State='");
    assert!(!state.contains("DRAIN"), "it is still drained: {state}");
    site.node().must("scancel --name train");
    site.is("IDLE");
    site.applied("1.1-1");
}

fn is_given_back_after_a_kill(site: &Site) {
    site.declare("1.2-1");
    let mut child = site.project.begin();
    site.is("IDLE+DRAIN");
    child.kill();
    assert!(site.reason().starts_with("forge "), "{}", site.reason());
    site.applied("1.2-1");
    site.is("IDLE");
}

fn leaves_what_somebody_else_drained(site: &Site) {
    site.update("State=DRAIN Reason='bad DIMM'");
    site.declare("1.3-1");
    site.applied("1.3-1");
    site.is("IDLE+DRAIN");
    assert!(site.reason().starts_with("bad DIMM "), "{}", site.reason());
    site.update("State=RESUME");
    site.is("IDLE");
}

/// A node that was down for another reason is not brought up.
fn leaves_a_node_down(site: &Site) {
    site.update("State=DOWN Reason='bad DIMM'");
    site.declare("1.4-1");
    site.applied("1.4-1");
    let during = site.during();
    assert!(during.contains("State=DOWN+DRAIN") && during.contains("(was down)"), "{during}");
    site.node().until("scontrol show node | grep -q ' State=DOWN'", 10);
    let state = site.node().must("scontrol show node | grep ' State='");
    assert!(!state.contains("DRAIN"), "{state}");
}

/// `forge test --drain`: the node is out of service during the measurement, and in service afterwards.
fn is_drained_while_it_is_measured(site: &Site) {
    let measure = |args: &[&str]| site.project.forge(["test", "inventory.yaml", "--yes"].iter().chain(args));
    let out = measure(&["--drain"]);
    let during = site.during();
    assert!(
        out.code == 0 && during.contains("State=IDLE+DRAIN") && during.contains("Reason=forge "),
        "{during}\n{out}"
    );
    site.is("IDLE");
    assert!(!site.node().exists("/var/lib/forge/window.json"));

    site.node().must("rm /etc/during; cd /root && sbatch --job-name train --wrap 'sleep 600'");
    site.node().until("squeue --noheader --states=RUNNING | grep -q train", 60);
    let out = measure(&["--drain"]);
    assert!(out.code == 9 && out.stdout.contains("Slurm jobs still run on node "), "{out}");
    let state = site.node().must("scontrol show node | grep ' State='; squeue --noheader --states=RUNNING | wc -l");
    assert!(!state.contains("DRAIN") && state.ends_with("\n1"), "{state}");
    assert!(!site.node().exists("/etc/during") && !site.node().exists("/var/lib/forge/window.json"));
    site.node().must("scancel --name train");
    site.is("IDLE");

    // forge is killed while it measures: the next run of tests gives the node back, also without the option.
    let mut command = site.project.command(["test", "inventory.yaml", "--yes", "--drain", "--set", "long"]);
    let mut child = RunningForge::start(command.stdout(Stdio::null()).stderr(Stdio::null()));
    site.node().until_exists("/etc/during");
    child.kill();
    site.is("IDLE+DRAIN");
    site.node().must("systemctl stop 'forge-test-*'");
    let out = measure(&[]);
    assert_eq!(out.code, 0, "{out}");
    site.is("IDLE");
    assert!(!site.node().exists("/var/lib/forge/window.json"));

    // A node that a person drained stays drained.
    site.update("State=DRAIN Reason='bad DIMM'");
    let out = measure(&["--drain"]);
    assert_eq!(out.code, 0, "{out}");
    site.is("IDLE+DRAIN");
    assert!(site.reason().starts_with("bad DIMM "), "{}", site.reason());
}
