//! What a change leaves for a moment is gone after the next run, whatever happens in between.

use super::case::{crash, cut_power};
use super::gate::{Call, Gate, Stop};
use crate::support::{Fleet, Node, Nodes, Project};

/// Two equal hosts: one is applied without a fault to learn the calls, the other is interrupted.
struct Pair {
    nodes: Nodes,
    recipe: String,
}

impl Pair {
    fn take(steps: &str, before: &str) -> Option<Pair> {
        let nodes = Fleet::take(2)?;
        nodes.iter().for_each(|node| _ = node.must(before));
        Some(Pair { nodes, recipe: format!("recipe: r\nsummary: Under test\nsteps:\n{steps}") })
    }

    fn project(&self, at: usize) -> Project {
        let project = Project::new(&self.nodes[at..=at]).recipe("r", &self.recipe);
        project.inventory("apply:\n  - { recipe: r, on: all }\n")
    }

    /// Interrupts the second host after the call that `is_moment` selects on the first one.
    fn interrupt(&self, is_moment: fn(&Call) -> bool, fault: fn(&Project, &Node, &Gate<'_>)) -> (Project, &Node) {
        let gate = Gate::install(&self.nodes[0]);
        gate.arm(None);
        let out = self.project(0).forge(["apply", "inventory.yaml", "--yes"]);
        assert_eq!(out.code, 0, "{out}");
        let calls = gate.calls();
        let moment = calls.iter().find(|call| is_moment(call)).expect("there is such a call");
        let (project, node) = (self.project(1), &self.nodes[1]);
        let gate = Gate::install(node);
        gate.arm(Some(Stop { call: moment.number, after: true }));
        fault(&project, node, &gate);
        (project, node)
    }
}

fn converge(project: &Project) {
    let next = project.forge_elsewhere(["apply", "inventory.yaml", "--yes"]);
    assert_eq!(next.code, 0, "{next}");
}

#[test]
fn hold_released_for_a_change_returns_after_a_power_cut() {
    let before = "DEBIAN_FRONTEND=noninteractive apt-get install -qqy forge-demo=1.0-1 >/dev/null </dev/null; apt-mark hold forge-demo";
    let steps = "  - name: package\n    package: { name: forge-demo, version: 1.1-1 }\n";
    let Some(pair) = Pair::take(steps, before) else { return };
    let (project, node) = pair.interrupt(Call::installs_packages, cut_power);
    assert_eq!(pair.nodes[0].must("apt-mark showhold"), "forge-demo");
    let state = "apt-mark showhold; dpkg-query -W -f '${Version}' forge-demo";
    assert_eq!(node.must(state), "1.1-1", "the hold is released at that moment");
    converge(&project);
    assert_eq!(node.must(state), "forge-demo\n1.1-1");
    assert!(!node.exists("/var/lib/forge/released"));
}

#[test]
fn folder_of_a_renamed_candidate_is_removed_by_the_next_run() {
    let steps = "  - name: text\n    file: { path: /etc/motd, content: \"by forge\\n\" }\n";
    let Some(pair) = Pair::take(steps, "echo before >/etc/motd") else { return };
    let (project, node) = pair.interrupt(Call::leaves_a_folder, crash);
    assert_eq!(
        node.must("cat /etc/motd; ls -d /etc/.motd.forge-* | wc -l"),
        "by forge\n1",
        "it is left at that moment"
    );
    converge(&project);
    assert_eq!(node.must("cat /etc/motd; ls -dA /etc/.motd* 2>/dev/null || true"), "by forge");
}

#[test]
fn script_of_a_killed_long_step_is_removed_by_the_next_run() {
    let steps = "  - name: package\n    package: { name: forge-tool }\n";
    let Some(pair) = Pair::take(steps, ":") else { return };
    let (project, node) = pair.interrupt(Call::installs_packages, crash);
    assert_eq!(node.must("ls /run/forge/forge-*/script | wc -l"), "1", "it is left at that moment");
    converge(&project);
    assert_eq!(node.must("ls -A /run/forge"), "");
}
