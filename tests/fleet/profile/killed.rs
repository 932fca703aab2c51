//! forge is killed while a server is out of service: the next apply finishes the change, without an extra reboot.

use super::facts::{each, facts, list};
use super::upgrades::{HELD, never_younger};
use super::{BY_HAND, Stack, boots, converge, gsp, installed, loaded};
use crate::support::{JournalWatch, Node, Nodes, Project};
use serde_json::json;
use std::time::{Duration, Instant};

/// Returns a script that succeeds once the node has booted `times` times from now.
pub(super) fn booted(node: &Node, times: usize) -> String {
    format!("test $(wc -l </srv/forge-hardware/boots) -ge {}", boots(node) + times)
}

/// The longest step that prints nothing is a boot, which takes seconds.
const LONGEST_SILENCE: Duration = Duration::from_secs(180);

/// Applies, kills forge as soon as the script `moment` succeeds on the node, and applies again. Waits for a node that
/// is booting by then.
pub(super) fn killed_and_finished(project: &Project, node: &Node, moment: &str) {
    let watch = JournalWatch::new(project.path("state"));
    let mut child = project.begin();
    let (mut written, mut deadline) = (0, Instant::now() + LONGEST_SILENCE);
    while !node.sh(moment).ok() {
        assert!(!child.has_ended(), "forge ended before `{moment}`");
        // A busy machine makes a run slow, not silent: only one without progress hangs.
        if watch.written_bytes() != written {
            (written, deadline) = (watch.written_bytes(), Instant::now() + LONGEST_SILENCE);
        }
        let state = || format!("{}\nend of the journal:\n{}", node.describe_state(), watch.last_lines(12));
        assert!(Instant::now() < deadline, "nothing happened before `{moment}` succeeded: {}", state());
        // Each poll starts programs: more polls would slow down the change that this waits for.
        std::thread::sleep(Duration::from_millis(100));
    }
    child.kill();
    node.start();
    converge(project);
}

fn start() -> Option<Nodes> {
    let nodes = installed(1, Stack { driver: "560.28.03", ..BY_HAND })?;
    nodes[0].fault("slow-build", true);
    Some(nodes)
}

#[test]
fn killed_driver_upgrade_is_finished_by_the_next_apply() {
    let Some(nodes) = start() else { return };
    let node = &nodes[0];
    let mut project = Project::new(&nodes);
    let moments = [
        ("560.35.03", "pgrep -f '[c]uda-drivers-560.postinst'"),
        ("560.35.05", "dpkg-query -W nvidia-fabricmanager-560 | grep -q 560.35.05"),
    ];
    for (driver, moment) in moments {
        let before = boots(node);
        project = project.inventory(&Stack { driver, ..BY_HAND }.inventory(node));
        killed_and_finished(&project, node, moment);
        assert_eq!((boots(node) - before, node.must("apt-mark showhold").as_str()), (1, HELD), "{moment}");
        assert_eq!(loaded(node), [driver, "24.10-0.7.0", driver], "{moment}");
        never_younger(node);
    }
    assert_eq!(node.must("dpkg --audit; ls -A /var/lib/forge/window* 2>/dev/null || true"), "");
}

/// The last of the three runs without a kill.
#[test]
fn killed_gsp_change_is_finished_by_the_next_apply() {
    let Some(nodes) = start() else { return };
    let node = &nodes[0];
    assert_eq!(gsp(node), "560.28.03");
    let written = "test -e /etc/modprobe.d/forge-nvidia.conf".to_owned();
    let mut project = Project::new(&nodes);
    for (wanted, shown, moment) in
        [("off", "N/A", Some(written)), ("default", "560.28.03", Some(booted(node, 2))), ("off", "N/A", None)]
    {
        let before = boots(node);
        project = project.inventory(&Stack { driver: "560.28.03", gsp: wanted, ..BY_HAND }.inventory(node));
        match &moment {
            Some(moment) => killed_and_finished(&project, node, moment),
            None => drop(converge(&project)),
        }
        assert_eq!((boots(node) - before, gsp(node).as_str()), (1, shown), "{moment:?}");
    }
    never_younger(node);
}

#[test]
fn killed_rdma_stack_upgrade_is_finished_by_the_next_apply() {
    let Some(nodes) = start() else { return };
    let (node, before) = (&nodes[0], boots(&nodes[0]));
    let stack = Stack { driver: "560.28.03", ofed: "24.10-1.1.4.0", ..BY_HAND };
    let project = Project::new(&nodes).inventory(&stack.inventory(node));
    killed_and_finished(&project, node, "pgrep -f '[f]orge-ofed.*/build'");
    assert_eq!((boots(node) - before, loaded(node)), (1, ["560.28.03", "24.10-1.1.4", "560.28.03"].map(str::to_owned)));
    assert_eq!(node.must("find /var/tmp -name 'forge-*'"), "", "the installer left temporary files");
    let facts = facts(&project);
    let ofed = &facts["ofed"]["value"];
    assert_eq!((&ofed["version"], &ofed["matches_disk"]), (&json!("24.10-1.1.4.0"), &json!(true)));
    assert_eq!(each(list(&facts, "rdma"), "/ports/0/state"), [json!("ACTIVE")]);
}
