//! Attribution of units that stopped or started.

use super::*;

#[test]
fn unit_change_is_attributed_from_systemd_and_systemctl() {
    let stopped = LoggedHost::new().part("units", &units(600, "inactive")).systemd(
        600,
        "web.service",
        "stop",
        "Stopping web.service - Web...",
    );
    let by_alice = stopped.clone().sudo("alice", 599, 2, "/usr/bin/systemctl stop web");
    assert_eq!(told(&by_alice.judge(web(ChangeAspect::RunState))), "named: alice (sudo) systemctl stop web @10:00Z");
    assert_eq!(
        told(&stopped.judge(web(ChangeAspect::RunState))),
        "nobody: - (-) systemd received a request, but the journal does not show from whom @10:00Z"
    );
    let slow = LoggedHost::new().part("units", &units(690, "inactive")).systemd(
        600,
        "web.service",
        "stop",
        "Stopping web.service - Web...",
    );
    let slow = slow.sudo("alice", 600, 1, "/usr/bin/systemctl --no-block stop web.service");
    assert_eq!(
        told(&slow.judge(web(ChangeAspect::RunState))),
        "named: alice (sudo) systemctl --no-block stop web.service @10:00Z"
    );
    let died = LoggedHost::new().part("units", &units(600, "failed"));
    let died = died.systemd(600, "web.service", "", "web.service: Main process exited, code=exited, status=1/FAILURE");
    assert_eq!(
        told(&died.judge(web(ChangeAspect::RunState))),
        "named: - (web.service) Main process exited, code=exited, status=1/FAILURE @10:00Z"
    );
    let asked = stopped.clone().sudo("bob", 600, 1, "/usr/bin/systemctl status web");
    assert_eq!(
        told(&asked.judge(web(ChangeAspect::RunState))),
        "nobody: - (-) systemd received a request, but the journal does not show from whom @10:00Z"
    );
    let other = stopped.sudo("alice", 599, 2, "/usr/bin/systemctl stop webmail");
    assert_eq!(told(&other.judge(web(ChangeAspect::RunState))), "near: alice (sudo) systemctl stop webmail @10:00Z");
    let disabled = LoggedHost::new().sudo("alice", 600, 1, "/usr/bin/systemctl disable web.service");
    assert_eq!(
        told(&disabled.judge(web(ChangeAspect::Enablement))),
        "named: alice (sudo) systemctl disable web.service @10:00Z"
    );
}

/// A start does not explain that a unit is inactive, and a restart only if systemd did not start it again.
#[test]
fn systemctl_command_in_the_other_direction_accuses_no_user() {
    let silent = "nobody: - (-) systemd received a request, but the journal does not show from whom @10:00Z";
    let stopped = LoggedHost::new().part("units", &units(600, "inactive"));
    let stopped = stopped.started(599).systemd(600, "web.service", "stop", "Stopping web.service - Web...");
    for command in ["start web", "enable --now web", "restart web", "reload-or-restart web", "disable web"] {
        let host = stopped.clone().sudo("alice", 599, 1, &format!("/usr/bin/systemctl {command}"));
        assert_eq!(told(&host.judge(web(ChangeAspect::RunState))), silent, "{command}");
    }
    for command in ["stop web", "disable --now web", "mask --now web"] {
        let host = stopped.clone().sudo("alice", 599, 1, &format!("/usr/bin/systemctl {command}"));
        let found = told(&host.judge(web(ChangeAspect::RunState)));
        assert_eq!(found, format!("named: alice (sudo) systemctl {command} @10:00Z"));
    }
    let running = LoggedHost::new().part("units", &units(600, "active").replace("InactiveEnter", "InactiveExit"));
    let running = running.started(600);
    let of = |command: &str| {
        let host = running.clone().sudo("alice", 599, 2, &format!("/usr/bin/systemctl {command}"));
        told(&host.judge(web(ChangeAspect::RunState)))
    };
    assert_eq!(of("start web"), "named: alice (sudo) systemctl start web @10:00Z");
    assert_eq!(of("stop web"), silent);
}

#[test]
fn restart_explains_an_inactive_unit_only_by_its_job() {
    let restarted = |after: i64| {
        let host = LoggedHost::new().part("units", &units(after, "failed"));
        let host = host.systemd(599, "web.service", "restart", "Stopping web.service - Web...");
        let host = host.systemd(599, "web.service", "restart", "Stopped web.service - Web.");
        host.sudo("alice", 599, 1, "/usr/bin/systemctl restart web")
    };
    let exit = |code: &str| format!("web.service: Main process exited, code={code}");
    let killed = restarted(600).started(599).systemd(600, "web.service", "", &exit("killed, status=9/KILL"));
    assert_eq!(
        told(&killed.judge(web(ChangeAspect::RunState))),
        "named: - (web.service) Main process exited, code=killed, status=9/KILL @10:00Z"
    );
    let failed = restarted(600).systemd(599, "web.service", "start", "Starting web.service - Web...");
    let failed = failed.systemd(600, "web.service", "", &exit("exited, status=1/FAILURE"));
    let failed = failed.job_result(600, "web.service", "start", "failed", "Failed to start web.service - Web.");
    assert_eq!(told(&failed.judge(web(ChangeAspect::RunState))), "named: alice (sudo) systemctl restart web @09:59Z");
}

/// A process that ends with status 0 leaves one entry of systemd, without a job.
#[test]
fn unit_that_ended_by_itself_received_no_request() {
    let ended = |host: LoggedHost| {
        let host = host.systemd(600, "web.service", "", "web.service: Deactivated successfully.");
        host.part("units", &units(600, "inactive"))
    };
    let by_itself = "named: - (web.service) Deactivated successfully @10:00Z";
    assert_eq!(told(&ended(LoggedHost::new().started(590)).judge(web(ChangeAspect::RunState))), by_itself);
    // A oneshot is deactivated before its start job is done.
    let oneshot = LoggedHost::new().systemd(590, "web.service", "start", "Starting web.service - Web...");
    let oneshot = ended(oneshot).job_result(600, "web.service", "start", "done", "Finished web.service - Web.");
    assert_eq!(told(&oneshot.judge(web(ChangeAspect::RunState))), by_itself);
    let stopped = LoggedHost::new().started(590).systemd(599, "web.service", "stop", "Stopping web.service - Web...");
    let stopped = ended(stopped).job_result(600, "web.service", "stop", "done", "Stopped web.service - Web.");
    assert_eq!(
        told(&stopped.judge(web(ChangeAspect::RunState))),
        "nobody: - (-) systemd received a request, but the journal does not show from whom @09:59Z"
    );
}

/// A step may name a unit by an alias: systemd and the journal use its own name.
#[test]
fn unit_is_found_by_its_alias() {
    let text = units(-60, "active").replace("InactiveEnter", "InactiveExit");
    let text = text.replace("Id=web.service\n", "Id=web.service\nNames=web.service www.service\n");
    let www = || finding(ChangedObject::Unit("www.service".into()), ChangeAspect::RunState, Some("stopped"));
    let running = LoggedHost::new().part("units", &text);
    assert_eq!(told(&running.judge(www())), "nobody: - (-) its state has not changed since it was applied @-");
    let stopped = units(600, "inactive").replace("Id=web.service\n", "Id=web.service\nNames=web.service www.service\n");
    let stopped = LoggedHost::new().part("units", &stopped);
    let stopped = stopped.systemd(600, "web.service", "stop", "Stopping web.service - Web...");
    for name in ["web", "www"] {
        let host = stopped.clone().sudo("alice", 599, 2, &format!("/usr/bin/systemctl stop {name}"));
        assert_eq!(told(&host.judge(www())), format!("named: alice (sudo) systemctl stop {name} @10:00Z"));
    }
}

/// systemd forgets inactive units that nothing refers to: only the journal has the time of the stop.
#[test]
fn stop_of_a_unit_unloaded_by_systemd_is_read_from_the_journal() {
    let forgotten = "UserspaceTimestamp=Sun 2026-11-22 01:00:00 UTC\n\nId=web.service\nActiveState=inactive\nInactiveEnterTimestamp=\n";
    let host =
        LoggedHost::new().part("units", forgotten).systemd(-60, "web.service", "stop", "Stopped web.service - Web.");
    let host = host.systemd(-50, "web.service", "start", "Started web.service - Web.");
    let why = "systemd no longer knows when it stopped, and the journal does not show it";
    assert_eq!(told(&host.judge(web(ChangeAspect::RunState))), format!("nobody: - (-) {why} @-"));
    let stopped = host.systemd(600, "web.service", "stop", "Stopped web.service - Web.");
    let stopped = stopped.sudo("alice", 599, 2, "/usr/bin/systemctl stop web");
    assert_eq!(told(&stopped.judge(web(ChangeAspect::RunState))), "named: alice (sudo) systemctl stop web @10:00Z");
}

#[test]
fn kill_command_is_only_near_evidence_for_a_killed_process() {
    let died = LoggedHost::new().part("units", &units(600, "failed"));
    let died = died.systemd(600, "web.service", "", "web.service: Main process exited, code=killed, status=9/KILL");
    assert!(
        told(&died.judge(web(ChangeAspect::RunState)))
            .starts_with("named: - (web.service) Main process exited, code=killed")
    );
    let killed = died.sudo("alice", 600, 1, "/usr/bin/pkill -9 web");
    assert_eq!(told(&killed.judge(web(ChangeAspect::RunState))), "near: alice (sudo) pkill -9 web @10:00Z");
}
