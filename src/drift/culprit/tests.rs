//! Attribution by evidence: named and near users, and unknown results.

use super::super::model::{FindingNovelty, LastApplied};
use super::*;
use crate::drift::finding_severity::FindingSeverity;
use crate::model::{DisruptionClass, StepVerdict, UntrustedText, VerifyLevel};
use crate::probe::EvidencePart;
use crate::resource::{ChangeAspect, ChangeMark};
use secrecy::SecretString;
use std::collections::BTreeMap;

mod file_changes;
mod unit_changes;

/// Seconds since the epoch: 2026-11-22T03:00:00Z, when everything matched.
const APPLIED: i64 = 1_795_316_400;
const BOOT: &str = "bbbb";

/// A handmade set of logs of a host.
#[derive(Clone, Default)]
struct LoggedHost(BTreeMap<String, EvidencePart>);

impl LoggedHost {
    fn new() -> Self {
        let host = Self::default().part("now", &(APPLIED + 3600).to_string()).part("account", "").part("boot", BOOT);
        let host = host.part("apt", "").part("dpkg", "").part("units", "").part("users", "alice:1000\nbob:1001\n");
        host.journal("").part("oldest", &entry(-7200, "9", "0", "systemd", "boots", ""))
    }

    fn part(mut self, name: &str, text: &str) -> Self {
        self.0.insert(name.into(), EvidencePart { text: text.into(), lack: String::new() });
        self
    }

    fn lacks(mut self, name: &str, why: &str) -> Self {
        self.0.insert(name.into(), EvidencePart { text: UntrustedText::default(), lack: why.into() });
        self
    }

    fn journal(self, lines: &str) -> Self {
        let before = self.0.get("journal").map(|part| part.text.raw().to_owned()).unwrap_or_default();
        self.part("journal", &format!("{before}{lines}"))
    }

    /// Adds a sudo command that starts some seconds after the apply and runs for some seconds.
    fn sudo(self, user: &str, at: i64, took: i64, command: &str) -> Self {
        let (uid, pid) = (if user == "alice" { "1000" } else { "1001" }, format!("{user}{at}"));
        let message = format!("  {user} : TTY=pts/0 ; PWD=/home/{user} ; USER=root ; COMMAND={command}");
        let closed = "pam_unix(sudo:session): session closed for user root";
        let lines = entry(at, &pid, uid, "sudo", &message, "") + &entry(at + took, &pid, uid, "sudo", closed, "");
        self.journal(&lines)
    }

    /// Adds a journal entry of systemd about a unit.
    fn systemd(self, at: i64, unit: &str, job: &str, message: &str) -> Self {
        let extra = format!(",\"UNIT\":\"{unit}\",\"JOB_TYPE\":\"{job}\"");
        self.journal(&entry(at, "1", "0", "systemd", message, &extra))
    }

    /// Adds an entry of systemd about the end of a job.
    fn job_result(self, at: i64, unit: &str, job: &str, result: &str, message: &str) -> Self {
        let extra = format!(",\"UNIT\":\"{unit}\",\"JOB_TYPE\":\"{job}\",\"JOB_RESULT\":\"{result}\"");
        self.journal(&entry(at, "1", "0", "systemd", message, &extra))
    }

    /// Adds the entry of a finished start of `web.service`.
    fn started(self, at: i64) -> Self {
        self.job_result(at, "web.service", "start", "done", "Started web.service - Web.")
    }

    fn file(self, path: &str, modified: i64, changed: i64, uid: u32, owner: &str) -> Self {
        let text = format!("{} {} {uid} {owner}", APPLIED + modified, APPLIED + changed);
        self.part(&format!("file:{path}"), &text)
    }

    fn judge(&self, finding: DriftFinding) -> ChangeSource {
        self.ask(finding, &SecretStore::default()).expect("a culprit")
    }

    fn ask(&self, finding: DriftFinding, secrets: &SecretStore) -> Option<ChangeSource> {
        let state = EvidenceState { parts: self.0.clone() };
        let (host, mut findings) = (finding.host.clone(), [finding]);
        let asked = Timestamp::from_second(APPLIED + 3600).unwrap();
        attribute_host_changes(&host, &mut findings, &EvidenceAnswer::Evidence(&state), (asked, asked), secrets);
        let [finding] = findings;
        finding.culprit
    }
}

fn entry(at: i64, pid: &str, uid: &str, comm: &str, message: &str, extra: &str) -> String {
    boot_entry(BOOT, at, pid, uid, comm, message, extra)
}

fn boot_entry(boot: &str, at: i64, pid: &str, uid: &str, comm: &str, message: &str, extra: &str) -> String {
    let (time, message) = ((APPLIED + at) * 1_000_000, serde_json::to_string(message).unwrap());
    format!(
        "{{\"__REALTIME_TIMESTAMP\":\"{time}\",\"_BOOT_ID\":\"{boot}\",\"_PID\":\"{pid}\",\"_UID\":\"{uid}\",\"_COMM\":\"{comm}\",\
         \"_EXE\":\"/usr/bin/{comm}\",\"MESSAGE\":{message}{extra}}}\n"
    )
}

fn finding(object: ChangedObject, aspect: ChangeAspect, observed: Option<&str>) -> DriftFinding {
    DriftFinding {
        host: HostName::new("n1"),
        recipe: "base".into(),
        step: "step".into(),
        aspect: FindingAspect::Step,
        attribute: Some("attribute".into()),
        mark: ChangeMark { aspect, ..ChangeMark::default() },
        object,
        kind: "kind".into(),
        title: "title".into(),
        path: None,
        verdict: StepVerdict::Change,
        reason: "differs".into(),
        hint: None,
        desired: None,
        observed: observed.map(UntrustedText::from),
        diff: None,
        check: None,
        secret: false,
        last_applied: Some(LastApplied {
            value: None,
            time: "2026-11-22T03:00:00.7Z".into(),
            run: "r".into(),
            user: "u".into(),
            controller: "c".into(),
        }),
        cause: DriftCause::MachineChanged,
        uncompared: false,
        culprit: None,
        severity: FindingSeverity::Medium,
        disruption: DisruptionClass::D0,
        level: VerifyLevel::L0,
        action: None,
        place: String::new(),
        standing: FindingNovelty::New,
        first_seen: String::new(),
        last_seen: String::new(),
        times: 1,
        also: 0,
    }
}

/// Formats certainty, user, program, the command or the reason, and the time: minutes and seconds after 03:00.
fn told(culprit: &ChangeSource) -> String {
    let text = |text: &Option<UntrustedText>| text.as_ref().map_or("-", |text| text.raw()).to_owned();
    let what = if culprit.why.is_some() { text(&culprit.why) } else { text(&culprit.command) };
    let time = culprit.time.as_deref().map_or("-", |time| time.strip_prefix("2026-11-22T03:").unwrap_or(time));
    let sure = format!("{:?}", culprit.sure).to_lowercase();
    format!("{sure}: {} ({}) {what} @{time}", text(&culprit.user), text(&culprit.program))
}

const HISTORY: &str = "Start-Date: 2026-11-22  03:10:00\nCommandline: apt-get install nginx=2\nRequested-By: alice (1000)\n\
                       Upgrade: nginx:amd64 (1, 2)\nEnd-Date: 2026-11-22  03:10:05\n";

fn packages(names: &[&str]) -> ChangedObject {
    ChangedObject::Packages(names.iter().map(|&name| name.to_owned()).collect())
}

fn version(observed: &str) -> DriftFinding {
    finding(packages(&["nginx"]), ChangeAspect::Version, Some(observed))
}

#[test]
fn package_change_is_attributed_from_package_manager_logs() {
    let apt = LoggedHost::new().part("apt", HISTORY);
    assert_eq!(told(&apt.judge(version("2"))), "named: alice (apt) apt-get install nginx=2 @10:00Z");
    let by_sudo = apt.clone().sudo("alice", 599, 7, "/usr/bin/apt-get install nginx=2");
    assert_eq!(told(&by_sudo.judge(version("2"))), "named: alice (sudo) apt-get install nginx=2 @10:00Z");
    // The log has another version than the observed one: it does not explain the finding.
    assert_eq!(
        told(&apt.judge(version("3"))),
        "nobody: - (-) the package logs show another version than the observed one @10:00Z"
    );
    let unattended = HISTORY
        .replace("Requested-By: alice (1000)\n", "")
        .replace("apt-get install nginx=2", "/usr/bin/unattended-upgrade");
    let unattended = LoggedHost::new().part("apt", &unattended);
    assert_eq!(
        told(&unattended.judge(version("2"))),
        "named: root (unattended-upgrades) /usr/bin/unattended-upgrade @10:00Z"
    );
    let by_root = LoggedHost::new().part("apt", &HISTORY.replace("Requested-By: alice (1000)\n", ""));
    assert_eq!(told(&by_root.judge(version("2"))), "named: root (apt) apt-get install nginx=2 @10:00Z");
    // Events before the apply do not count: it matched then.
    let old = LoggedHost::new().part("apt", &HISTORY.replace("03:10", "02:10"));
    assert_eq!(told(&old.judge(version("2"))), "nobody: - (-) apt's and dpkg's logs do not mention it @-");
}

/// A hold leaves no trace in the package logs, and an upgrade of the package does not lift it.
#[test]
fn package_hold_change_is_attributed_to_apt_mark_command() {
    let host = LoggedHost::new().part("apt", HISTORY);
    let hold = || finding(packages(&["nginx"]), ChangeAspect::Hold, Some("not held"));
    assert_eq!(told(&host.judge(hold())), "nobody: - (-) no command in the journal refers to it @-");
    let lifted = host.sudo("alice", 300, 1, "/usr/bin/apt-mark unhold nginx");
    assert_eq!(told(&lifted.judge(hold())), "named: alice (sudo) apt-mark unhold nginx @05:00Z");
}

#[test]
fn only_the_differing_package_of_a_step_is_attributed() {
    let host = LoggedHost::new().part("apt", HISTORY);
    let of = |name: &str| told(&host.judge(finding(packages(&[name]), ChangeAspect::Version, Some("2"))));
    assert_eq!(of("nginx"), "named: alice (apt) apt-get install nginx=2 @10:00Z");
    assert_eq!(of("curl"), "nobody: - (-) apt's and dpkg's logs do not mention it @-");
}

const DPKG: &str = "2026-11-22 03:10:00 startup archives install\n2026-11-22 03:10:01 upgrade nginx:amd64 1 2\n";

#[test]
fn dpkg_log_gives_the_time_and_the_journal_the_user() {
    let dpkg = LoggedHost::new().part("dpkg", DPKG);
    let by_alice = dpkg.clone().sudo("alice", 600, 2, "/usr/bin/dpkg -i nginx.deb");
    let culprit = by_alice.judge(version("2"));
    assert_eq!(told(&culprit), "named: alice (sudo) dpkg -i nginx.deb @10:01Z");
    assert_eq!(culprit.source.unwrap().raw(), "/var/log/dpkg.log, journal");
    let in_a_shell = dpkg.clone().sudo("alice", 300, 900, "/usr/bin/bash");
    assert_eq!(told(&in_a_shell.judge(version("2"))), "near: alice (sudo) bash @10:01Z");
    let at_another_time = dpkg.clone().sudo("alice", 300, 2, "/usr/bin/dpkg -i nginx.deb");
    let silent = "nobody: - (dpkg) its log names no user, and the journal has no command at that time @10:01Z";
    assert_eq!(told(&at_another_time.judge(version("2"))), silent);
    // Both ran at the same time: the journal cannot distinguish them.
    let both = by_alice.sudo("bob", 600, 2, "/usr/bin/dpkg -i other.deb");
    assert!(told(&both.judge(version("2"))).starts_with("near: "), "{}", told(&both.judge(version("2"))));
    let unread = dpkg.lacks("journal", "is empty or may not be read");
    assert_eq!(told(&unread.judge(version("2"))), "unknown: - (dpkg) the journal is empty or may not be read @10:01Z");
}

#[test]
fn package_change_is_attributed_from_dnf_and_rpm_logs() {
    let host = LoggedHost::new().lacks("apt", "is missing").lacks("dpkg", "is missing");
    let host = host.part("dnf", "2026-11-22T03:10:00+0000 DDEBUG Command: dnf install -y nginx \n");
    let host = host.part("rpm", "2026-11-22T03:10:03+0000 SUBDEBUG Upgrade: nginx-1:2-1.el9.x86_64\n");
    let host = host.sudo("alice", 599, 9, "/usr/bin/dnf install -y nginx");
    assert_eq!(told(&host.judge(version("2-1.el9"))), "named: alice (sudo) dnf install -y nginx @10:03Z");
    assert_eq!(told(&host.judge(version("1:2-1.el9"))), "named: alice (sudo) dnf install -y nginx @10:03Z");
    let curl = || finding(packages(&["curl"]), ChangeAspect::Version, Some("2"));
    assert_eq!(told(&host.judge(curl())), "nobody: - (-) dnf's logs do not mention it @-");
    let both = LoggedHost::new().part("rpm", "");
    assert_eq!(told(&both.judge(curl())), "nobody: - (-) apt's, dpkg's and dnf's logs do not mention it @-");
    let none = LoggedHost::new().lacks("apt", "is missing").lacks("dpkg", "is missing").lacks("rpm", "is missing");
    assert_eq!(
        told(&none.judge(version("2"))),
        "unknown: - (-) /var/log/apt/history.log is missing, /var/log/dnf.rpm.log is missing @-"
    );
}

fn path(text: &str) -> ChangedObject {
    ChangedObject::Path(text.to_owned())
}

fn motd(aspect: ChangeAspect) -> DriftFinding {
    finding(path("/etc/motd"), aspect, Some("x"))
}

fn units(time: i64, state: &str) -> String {
    let stamp = Timestamp::from_second(APPLIED + time).unwrap().strftime("%a %Y-%m-%d %H:%M:%S UTC").to_string();
    format!(
        "UserspaceTimestamp=Sun 2026-11-22 01:00:00 UTC\n\nId=web.service\nActiveState={state}\nInactiveEnterTimestamp={stamp}\n"
    )
}

fn web(aspect: ChangeAspect) -> DriftFinding {
    finding(ChangedObject::Unit("web.service".into()), aspect, Some("stopped"))
}

fn forward(observed: &str) -> DriftFinding {
    finding(ChangedObject::Sysctl("net.ipv4.ip_forward".into()), ChangeAspect::Loaded, Some(observed))
}

#[test]
fn sysctl_change_is_attributed_to_command_setting_the_value() {
    for command in
        ["/usr/sbin/sysctl -w net.ipv4.ip_forward=0", "/usr/bin/sh -c 'echo 0 >/proc/sys/net/ipv4/ip_forward'"]
    {
        let host = LoggedHost::new().sudo("alice", 600, 1, command);
        assert!(told(&host.judge(forward("0"))).starts_with("named: alice (sudo) "), "{command}");
    }
    let silent = "nobody: - (-) the journal does not mention it @-";
    for command in [
        "/usr/sbin/sysctl net.ipv4.ip_forward",
        "/usr/sbin/sysctl -w net.ipv4.ip_forward=1",
        "/usr/sbin/sysctl -w net.ipv4.ip_forward_use_pmtu=0",
        "/usr/bin/cat /proc/sys/net/ipv4/ip_forward",
    ] {
        assert_eq!(told(&LoggedHost::new().sudo("alice", 600, 1, command).judge(forward("0"))), silent, "{command}");
    }
    let late = LoggedHost::new().part("oldest", &entry(300, "9", "0", "systemd", "boots", ""));
    assert_eq!(told(&late.judge(forward("0"))), "unknown: - (-) the journal only starts at 2026-11-22T03:05:00Z @-");
}

#[test]
fn account_change_is_named_only_if_command_has_observed_value() {
    let shell = || finding(ChangedObject::Account("bob".into()), ChangeAspect::Other, Some("/bin/zsh"));
    let of = |command: &str| told(&LoggedHost::new().sudo("alice", 600, 1, command).judge(shell()));
    assert_eq!(of("/usr/sbin/usermod -s /bin/zsh bob"), "named: alice (sudo) usermod -s /bin/zsh bob @10:00Z");
    assert_eq!(of("/usr/bin/passwd bob"), "near: alice (sudo) passwd bob @10:00Z");
    assert_eq!(of("/usr/bin/passwd rob"), "nobody: - (-) the journal does not mention it @-");
}

/// Programs that change accounts log what they changed, also without sudo.
#[test]
fn account_change_is_found_in_the_entry_of_its_program() {
    let logged = |program: &str, uid: &str, message: &str| {
        let extra = format!(",\"SYSLOG_IDENTIFIER\":\"{program}\"");
        LoggedHost::new().journal(&entry(600, "21", uid, program, message, &extra))
    };
    let account = |name: &str, observed: Option<&str>| {
        finding(ChangedObject::Account(name.into()), ChangeAspect::Other, observed)
    };
    // origin: shadow 4.13, `usermod -u 4001 bob` on a Debian 12 node
    let uid = "change user 'bob' UID from '3001' to '4001'";
    let host = logged("usermod", "0", uid);
    assert_eq!(told(&host.judge(account("bob", Some("4001")))), format!("named: root (usermod) {uid} @10:00Z"));
    assert_eq!(told(&host.judge(account("bob", Some("3001")))), format!("near: root (usermod) {uid} @10:00Z"));
    let silent = "nobody: - (-) the journal does not mention it @-";
    assert_eq!(told(&host.judge(account("rob", Some("4001")))), silent);
    // Any user can log under that name.
    assert_eq!(told(&logged("usermod", "1001", uid).judge(account("bob", Some("4001")))), silent);
    let in_a_shell = host.sudo("alice", 500, 300, "/usr/bin/bash");
    assert_eq!(told(&in_a_shell.judge(account("bob", Some("4001")))), "near: alice (sudo) bash @10:00Z");
    // origin: src/groupmod.c and src/userdel.c of shadow 4.13
    let gid = "group changed in /etc/group (group web/990, new gid: 991)";
    let group = logged("groupmod", "0", gid);
    assert_eq!(told(&group.judge(account("web", Some("991")))), format!("named: root (groupmod) {gid} @10:00Z"));
    let gone = logged("userdel", "0", "delete user 'bob'");
    assert_eq!(told(&gone.judge(account("bob", None))), "named: root (userdel) delete user 'bob' @10:00Z");
}

#[test]
fn unreadable_file_is_attributed_to_no_user() {
    let gone = LoggedHost::new().part("gone:/etc/motd", "1795317000 1795317000 0 root");
    assert_eq!(
        told(&gone.judge(motd(ChangeAspect::Content))),
        "nobody: - (-) the file at its path could not be read @-"
    );
}

/// The owner may have changed the file, but not who owns it.
#[test]
fn owner_of_a_file_is_not_reported_as_the_source_of_its_ownership() {
    let owned = LoggedHost::new().file("/etc/motd", 600, 600, 1000, "alice");
    assert_eq!(told(&owned.judge(motd(ChangeAspect::Other))), "near: alice (owner) - @10:00Z");
    let silent = "nobody: - (-) no command in the journal refers to it @10:00Z";
    assert_eq!(told(&owned.judge(motd(ChangeAspect::Owner))), silent);
}

fn rebooted() -> LoggedHost {
    let units = "UserspaceTimestamp=Sun 2026-11-22 03:20:00 UTC\n\nId=web.service\nActiveState=inactive\nInactiveEnterTimestamp=\n";
    LoggedHost::new().part("units", units)
}

#[test]
fn reboot_is_attributed_to_the_user_that_requested_it() {
    let message = "  alice : PWD=/ ; USER=root ; COMMAND=/usr/bin/systemctl reboot";
    let target = ",\"UNIT\":\"reboot.target\",\"JOB_TYPE\":\"start\"";
    let asked = boot_entry("aaaa", 1190, "7", "1000", "sudo", message, "");
    let reached =
        boot_entry("aaaa", 1195, "1", "0", "systemd", "Reached target reboot.target - System Reboot.", target);
    let by_alice = rebooted().journal(&(asked + &reached));
    assert_eq!(told(&by_alice.judge(web(ChangeAspect::RunState))), "named: alice (sudo) systemctl reboot @19:50Z");
    // A reboot is near evidence only: the setting may have been lost at another time.
    assert_eq!(told(&by_alice.judge(forward("0"))), "near: alice (sudo) systemctl reboot @19:50Z");
    assert_eq!(told(&by_alice.judge(motd(ChangeAspect::Content))).split(':').next(), Some("nobody"));
    let orderly = rebooted().journal(&reached);
    assert_eq!(
        told(&orderly.judge(web(ChangeAspect::RunState))),
        "nobody: - (-) the host was shut down in order, and the journal does not show which user did it @20:00Z"
    );
    let crashed = rebooted().journal(&boot_entry("aaaa", 900, "9", "0", "sudo", "x", ""));
    assert_eq!(
        told(&crashed.judge(web(ChangeAspect::RunState))),
        "nobody: - (-) the previous boot ended without a shutdown: crash, reset or power loss @20:00Z"
    );
    let volatile = rebooted().part("oldest", &entry(1200, "9", "0", "systemd", "boots", ""));
    assert_eq!(
        told(&volatile.judge(web(ChangeAspect::RunState))),
        "unknown: - (-) the host was rebooted, and the journal has no entries of the previous boot @20:00Z"
    );
    let doubt = "whether it changed at the boot at 2026-11-22T03:20:00Z or at another time is not known; ";
    let command = finding(ChangedObject::Nameless, ChangeAspect::Whole, Some("check exited with 1"));
    for finding in [forward("0"), command] {
        assert_eq!(
            told(&volatile.judge(finding)),
            format!(
                "unknown: - (-) {doubt}the host was rebooted, and the journal has no entries of the previous boot @-"
            ),
            "it may have changed after the boot, without a trace"
        );
    }
    let unattended =
        volatile.part("unattended", "2026-11-22 03:19:55,012 WARNING Found /var/run/reboot-required, rebooting\n");
    assert_eq!(
        told(&unattended.judge(web(ChangeAspect::RunState))),
        "named: root (unattended-upgrades) reboot @19:55Z"
    );
}

#[test]
fn kernel_upgrade_is_named_only_if_finding_mentions_that_kernel() {
    let history = HISTORY.replace("nginx:amd64 (1, 2)", "linux-image-6.1.0-31-amd64:amd64 (6.1.1, 6.1.2)");
    let host = LoggedHost::new().part("apt", &history);
    let kernel =
        |title: &str| DriftFinding { title: title.into(), ..finding(ChangedObject::Kernel, ChangeAspect::Whole, None) };
    let spoken = kernel("into kernel 6.1.0-31-amd64");
    assert_eq!(told(&host.judge(spoken)), "named: alice (apt) apt-get install nginx=2 @10:00Z");
    let other = kernel("into kernel 5.15");
    assert_eq!(told(&host.judge(other)), "near: alice (apt) apt-get install nginx=2 @10:00Z");
}

#[test]
fn change_source_is_unknown_if_logs_cannot_be_read() {
    let host = LoggedHost::new().part("account", "plain").part("apt", HISTORY);
    let why = "unknown: - (-) forge connects as `plain`, and only root can read the logs @-";
    assert_eq!(told(&host.judge(version("2"))), why);
    let empty = EvidenceState::default();
    let mut findings = [version("2")];
    let host = findings[0].host.clone();
    attribute_host_changes(
        &host,
        &mut findings,
        &EvidenceAnswer::Evidence(&empty),
        (Timestamp::UNIX_EPOCH, Timestamp::UNIX_EPOCH),
        &SecretStore::default(),
    );
    assert_eq!(findings[0].culprit.as_ref().unwrap().sure, AttributionCertainty::Unknown);
    attribute_host_changes(
        &host,
        &mut findings,
        &EvidenceAnswer::Unknown("connection refused"),
        (Timestamp::UNIX_EPOCH, Timestamp::UNIX_EPOCH),
        &SecretStore::default(),
    );
    assert_eq!(told(findings[0].culprit.as_ref().unwrap()), "unknown: - (-) connection refused @-");
}

#[test]
fn findings_not_caused_by_a_machine_change_have_no_source() {
    let host = LoggedHost::new().part("apt", HISTORY);
    let of = |finding: DriftFinding| host.ask(finding, &SecretStore::default());
    assert_eq!(of(DriftFinding { cause: DriftCause::RecipeChanged, ..version("2") }), None);
    assert_eq!(of(DriftFinding { cause: DriftCause::Unknown, ..version("2") }), None);
    assert_eq!(of(DriftFinding { last_applied: None, ..version("2") }), None);
    assert_eq!(of(DriftFinding { aspect: FindingAspect::Health, ..version("2") }), None);
    assert_eq!(of(DriftFinding { cause: DriftCause::Pending, ..forward("0") }), None);
    assert!(of(DriftFinding { cause: DriftCause::Both, ..version("2") }).is_some());
}

/// The journal looks up the program of a message when it reads it: a short-lived sudo may be gone by then.
#[test]
fn sudo_that_ended_before_the_journal_looked_is_attributed_by_its_user_id() {
    let message = "   alice : PWD=/ ; USER=root ; COMMAND=/usr/sbin/sysctl -qw net.ipv4.ip_forward=0";
    let logged = |uid: &str, comm: &str| {
        let line = entry(600, "77", uid, comm, message, ",\"SYSLOG_IDENTIFIER\":\"sudo\"");
        let line = line.replace("\"_COMM\":\"\",\"_EXE\":\"/usr/bin/\",", "");
        told(&LoggedHost::new().journal(&line).judge(forward("0")))
    };
    let named = "named: alice (sudo) sysctl -qw net.ipv4.ip_forward=0 @10:00Z";
    assert_eq!((logged("1000", ""), logged("0", "")), (named.to_owned(), named.to_owned()));
    let silent = "nobody: - (-) the journal does not mention it @-";
    assert_eq!((logged("1001", ""), logged("0", "logger")), (silent.to_owned(), silent.to_owned()));
}

#[test]
fn journal_without_a_readable_first_entry_proves_nothing() {
    let host = LoggedHost::new().part("oldest", "");
    let why = "unknown: - (-) the first entry of the journal could not be read @-";
    assert_eq!(told(&host.judge(forward("0"))), why);
}

/// The record has the controller's time: a host whose clock is an hour ahead does not count as changed before apply.
#[test]
fn clock_difference_between_host_and_controller_is_corrected() {
    let host = LoggedHost::new().part("now", &(APPLIED + 7200).to_string()).part("apt", HISTORY);
    assert_eq!(told(&host.judge(version("2"))), "nobody: - (-) apt's and dpkg's logs do not mention it @-");
    let later = host.part("apt", &HISTORY.replace("03:10", "04:10"));
    assert!(told(&later.judge(version("2"))).starts_with("named: alice"));
}

#[test]
fn plain_and_sudo_escaped_secrets_are_masked() {
    let mut secrets = SecretStore::default();
    secrets.insert("token", SecretString::from("it's \\ 4 secret"));
    secrets.insert("plain", SecretString::from("hunter22"));
    let command = r#"/usr/bin/sh -c 'login "--with=it\'s \\ 4 secret" hunter22 >/etc/motd'"#;
    let host = LoggedHost::new().file("/etc/motd", 600, 600, 0, "root").sudo("alice", 600, 1, command);
    let culprit = host.ask(motd(ChangeAspect::Content), &secrets).unwrap();
    assert_eq!(
        told(&culprit),
        "named: alice (sudo) sh -c login \"--with=(secret token)\" (secret plain) >/etc/motd @10:00Z"
    );
    let history = HISTORY.replace("nginx=2", "nginx=2 -o Pass=hunter22");
    let culprit = LoggedHost::new().part("apt", &history).ask(version("2"), &secrets).unwrap();
    assert_eq!(culprit.command.unwrap().raw(), "apt-get install nginx=2 -o Pass=(secret plain)");
}

/// A secret is masked before the line is cut: a part of a secret is secret, too.
#[test]
fn long_command_lines_are_masked_before_truncation() {
    let mut secrets = SecretStore::default();
    secrets.insert("token", SecretString::from("0123456789".repeat(4)));
    let command = format!("/usr/bin/tee /etc/motd {} {}", "x".repeat(200), "0123456789".repeat(4));
    let host = LoggedHost::new().file("/etc/motd", 600, 600, 0, "root").sudo("alice", 600, 1, &command);
    let line = host.ask(motd(ChangeAspect::Content), &secrets).unwrap().command.unwrap();
    assert!(!line.raw().contains("0123"), "{}", line.raw());
    assert!(line.raw().chars().count() <= 241);
}

#[test]
fn evidence_probe_covers_only_findings_changed_on_the_host() {
    let host = version("2").host;
    let now = Timestamp::from_second(APPLIED + 86_400).unwrap();
    let findings = [
        motd(ChangeAspect::Content),
        web(ChangeAspect::RunState),
        forward("0"),
        DriftFinding { cause: DriftCause::RecipeChanged, ..motd(ChangeAspect::Other) },
    ];
    let Some(Probe::Evidence { since, units, paths }) = build_evidence_probe(&host, &findings, now) else {
        panic!("nothing is asked")
    };
    assert_eq!((units, paths), (vec!["web.service".to_owned()], vec!["/etc/motd".to_owned()]));
    assert_eq!(since, u64::try_from(APPLIED - 3600).unwrap());
    let quiet = [DriftFinding { cause: DriftCause::RecipeChanged, ..motd(ChangeAspect::Other) }];
    assert_eq!(
        (
            build_evidence_probe(&host, &quiet, now),
            list_changed_hosts(&quiet).len(),
            list_changed_hosts(&findings).len()
        ),
        (None, 0, 1)
    );
}
