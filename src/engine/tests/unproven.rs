//! Hosts of which a step could not be evaluated: they are not rebooted, and only windows that need the step stay shut.

use super::simulated_project::SimulatedProject;
use super::window::{DRIVER, EARLY, REBOOT, SYSTEMCTL, read_log};

const UNREADABLE: &str = "steps:
  - { name: odd, command: { check: 'exit 7', apply: 'true' } }
";

/// After a reboot the whole host must be proven. A step that could not be evaluated would keep it out of service.
#[test]
fn host_with_an_unknown_step_is_not_rebooted() {
    let apply = ["odd", "early", "driver"].map(|name| format!("  - {{ recipe: {name}, on: all }}\n")).concat();
    let recipes = [("odd", UNREADABLE), ("early", EARLY), ("driver", DRIVER)];
    let stage = SimulatedProject::new(2, &format!("rollout: {{ reboot: allow }}\napply:\n{apply}"), &recipes);
    for host in &stage.hosts {
        stage.write_host_file(host, ".sim/boot-id", "boot-1\n");
        stage.write_host_file(host, ".sim/reboot", REBOOT);
        stage.write_host_file(host, ".sim/systemctl", SYSTEMCTL);
    }
    let ran = stage.run_once();
    assert!(ran.plan.hosts.iter().all(|host| host.window.is_none()), "{:#?}", ran.plan.hosts[0].window);
    assert_eq!(ran.describe_step("n1", "early/first"), "pending: needs reboot");
    assert_eq!(ran.describe_step("n1", "driver/packages"), "skipped: needs `early/first`, which did not succeed");
    assert_eq!((ran.exit_code(), read_log(&stage, "n1")), (9, Vec::new()), "{:#?}", ran.report);
}

/// A change of class D2 needs only its own recipes to be proven: unknown steps elsewhere do not keep the window open.
#[test]
fn unknown_step_holds_back_only_its_own_window() {
    let tied = UNREADABLE.replace("exit 7", "echo {{ recipes[\"driver\"].version }}; exit 7");
    let driver = DRIVER.replace("needs: [early]\n", "");
    let apply = ["odd", "driver"].map(|name| format!("  - {{ recipe: {name}, on: all }}\n")).concat();
    for (odd, expected) in [
        (tied.as_str(), "held: not taken out of service: `odd/odd` is unknown, so the host would not come back"),
        (UNREADABLE, "changed"),
    ] {
        let stage = SimulatedProject::new(1, &format!("apply:\n{apply}"), &[("odd", odd), ("driver", &driver)]);
        stage.write_host_file("n1", ".sim/systemctl", SYSTEMCTL);
        let ran = stage.run_once();
        assert_eq!(
            (ran.describe_step("n1", "driver/packages").as_str(), ran.exit_code()),
            (expected, 9),
            "{:#?}",
            ran.report
        );
    }
}
