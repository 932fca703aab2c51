//! A typical recipe with everything that starts by itself: units, timers and cron jobs; and a recording of the hosts to
//! which it was applied.

use super::as_everybody;
use super::host::Lab;

const TIMED: &str = r#"
recipe: r
steps:
  - name: daemon
    unit: { name: cron.service, content: "[Service]\nExecStart=/bin/sleep 6000\n" }
  - name: cron
    service: { name: cron.service, state: running }
  - name: job
    cron: { name: job, schedule: "@daily", command: /bin/true }
  - name: nightly
    timer: { name: nightly, command: /bin/true, calendar: "03:15" }
  - name: cleaning
    unit: { name: clean.service, content: "[Service]\nType=oneshot\nExecStart=/bin/true\n" }
  - name: when
    unit: { name: clean.timer, content: "[Timer]\nOnCalendar=daily\n[Install]\nWantedBy=timers.target\n" }
  - name: clean
    restart_on: [when]
    service: { name: clean.timer, enabled: true, state: running }
  - name: configuration
    file: { path: /etc/app.conf, content: "every=1\n" }
  - name: program
    unit: { name: app.service, content: "[Service]\nExecStart=/bin/sleep 6000\n" }
  - name: app
    restart_on: [configuration]
    service: { name: app.service, state: running }
verify:
  - name: the cleaning waits
    check: systemctl is-active --quiet clean.timer
"#;

fn timed(lab: &Lab) {
    lab.file("recipes/r.yaml", TIMED);
    // A machine without cron does not have this folder.
    for host in ["a", "b"] {
        lab.inside("inventory.yaml", host, "mkdir -p /etc/cron.d");
    }
    let apply = lab.forge(&["apply", "--yes"]);
    assert!(apply.starts_with("exit 0\n"), "{apply}");
}

#[test]
fn units_timers_and_cron_jobs_converge_and_are_removed() {
    as_everybody(|lab| {
        timed(lab);
        let again = lab.forge(&["plan", "--detailed-exitcode"]);
        assert!(again.starts_with("exit 0\n"), "{again}");
        let verify = lab.forge(&["verify"]);
        assert!(verify.starts_with("exit 0\n"), "{verify}");
        lab.inside(
            "inventory.yaml",
            "a",
            "systemctl stop clean.timer; rm /etc/systemd/system/timers.target.wants/nightly.timer",
        );
        let plan = lab.forge(&["plan"]);
        assert!(plan.contains("\n~ service clean.timer  r/clean\n    it is inactive\n"), "{plan}");
        assert!(plan.contains("\n~ timer nightly  r/nightly\n"), "{plan}");
        lab.file("inventory.yaml", &super::ONE.replace("on: all", "on: all, ensure: absent"));
        let apply = lab.forge(&["apply", "--yes"]);
        assert!(apply.starts_with("exit 0\n"), "{apply}");
        let again = lab.forge(&["plan", "--detailed-exitcode"]);
        assert!(again.starts_with("exit 0\n"), "{again}");
    });
}

/// On a busy machine, the process of a started unit is scheduled late. Systemd counts the unit as active by then, so the
/// stand-in does, too.
const LATE_PROCESS: &str = r#"
state() { systemctl show --property=ActiveState --value late.service; }
printf '#!/bin/sh\nsleep 0.7\nexec %s "$@"\n' "$(command -v setsid)" >/usr/local/bin/setsid
chmod 755 /usr/local/bin/setsid
systemd-run --unit=late --collect --quiet --service-type=exec sh -c 'sleep 1; touch /tmp/done' && state
systemd-run --unit=late --collect --quiet --service-type=exec true || echo refused
while [ "$(state)" = active ]; do sleep 0.1; done
[ -e /tmp/done ] && state
rm /usr/local/bin/setsid
systemd-run --unit=late --quiet sleep 60 && systemctl stop late && state
"#;

#[test]
fn transient_unit_is_active_from_its_start_to_its_end() {
    as_everybody(|lab| {
        assert_eq!(lab.inside("inventory.yaml", "a", LATE_PROCESS), "active\nrefused\ninactive\ninactive\n");
    });
}

/// A recording written by `facts` can be used to plan this inventory and another one. It marks its hosts as simulated.
/// Plans from a recording. Returns the plan without the lines that name the recording.
fn plan_from_recording(lab: &Lab, file: &str) -> String {
    let said = lab.forge(&["plan", "--observed", file]);
    let (head, rest) = said.split_once("from recorded answers; no host was contacted:\n").expect("the recording");
    let (name, plan) = rest.split_once("\n\n").expect("the plan");
    // The time of saving is that of a whole second, which may begin after the plan: it has no age then.
    assert!(name.starts_with(&format!("  {file}  20")) && !name.contains('\n'), "{name}");
    format!("{head}{plan}")
}

fn facts_alone_give_the_same_plan(lab: &Lab) {
    let facts = lab.forge(&["facts", "--record", "facts.json"]);
    assert!(facts.starts_with("exit 0\n"), "{facts}");
    assert_eq!(plan_from_recording(lab, "facts.json"), lab.forge(&["plan"]));
    lab.file("recipes/r.yaml", &TIMED.replace("every=1", "every=2").replace("    restart_on: [configuration]\n", ""));
    let other = lab.forge(&["plan", "--observed", "facts.json"]);
    assert!(other.contains("-every=9\n      +every=2\n    on a\n"), "{other}");
    // The recording has only the digest of content that matched when it was recorded.
    assert!(
        other.contains("~ content: 8 bytes, sha256 682de07abf12 → 8 bytes, sha256 0605e4202f5f\n    on b\n"),
        "{other}"
    );
    let counts = "plan: 2 changes on 2 of 2 hosts; steps: 18 unchanged\n";
    assert!(other.contains(counts) && lab.forge(&["plan"]).contains(counts), "{other}");
    lab.file("recipes/r.yaml", TIMED);
    assert!(lab.shell("cat facts.json").contains("\"origin\": \"simulated\""));
}

fn machine_ids_are_recorded_on_request_only(lab: &Lab) {
    let id = lab.inside("inventory.yaml", "a", "cat /etc/machine-id").trim().to_owned();
    assert_eq!(id.len(), 32, "{id}");
    assert!(!lab.shell("cat facts.json").contains(&id), "the recording contains the machine id");
    assert!(lab.forge(&["facts", "--record", "whole.json", "--no-redact"]).starts_with("exit 0\n"));
    assert!(lab.shell("cat whole.json").contains(&id));
}

/// The recorded start of a service decides whether it restarts, so a recording must contain the records of the host.
#[test]
fn recording_with_host_records_reproduces_the_live_plan() {
    as_everybody(|lab| {
        timed(lab);
        lab.inside("inventory.yaml", "a", "echo every=9 >/etc/app.conf");
        assert!(lab.forge(&["apply", "--yes"]).starts_with("exit 0\n"));
        let same = |expected: &str| {
            let live = lab.forge(&["plan", "--record", "seen.json"]);
            assert_eq!(plan_from_recording(lab, "seen.json"), live);
            assert!(live.contains(expected), "{live}");
        };
        // The file has its old content, but was written after the start: the process may have read something else in
        // between.
        lab.inside("inventory.yaml", "a", "cp /etc/app.conf /etc/app.new; mv /etc/app.new /etc/app.conf");
        same("1 change on 1 of 2 hosts");
        lab.inside("inventory.yaml", "a", "echo every=9 >/etc/app.conf");
        same("2 changes (1 predicted) on 1 of 2 hosts");
        facts_alone_give_the_same_plan(lab);
        machine_ids_are_recorded_on_request_only(lab);
        let key = lab.inside("inventory.yaml", "a", "cat /var/lib/forge/key");
        let seen = lab.shell("cat seen.json").replace(' ', "");
        assert!(key.trim().len() == 64 && !seen.contains(key.trim()), "the recording contains the host's key");
        assert!(seen.contains("left-out"));
    });
}
