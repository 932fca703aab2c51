//! Evaluates a host's answers for readiness, without a host.

use super::*;
use crate::model::HostName;
use crate::plan::ObservedHost;
use crate::probe::{
    HoldMark, Observation, PackageManagerKind, PackageManagerState, Probe, ProbeOutput, ProbeReading, RecordsState,
    ScriptAccount, UnansweredReason,
};

/// origin: field, Debian 12; the filesystem numbers are invented
const FINE: &str = "now\t1000\nlogin\tdeploy\t/bin/bash\nroom\t/\t2000000\t4096\t500\t1000\nroom\t/var\t2000000\t4096\t500\t1000\n\
                    room\t/run\t20000\t4096\t500\t1000\nend\n";

fn timestamp_at(second: i64) -> jiff::Timestamp {
    jiff::Timestamp::from_second(second).unwrap()
}

/// A healthy host that printed `text`.
fn healthy_observation(text: &str) -> Observation {
    let mut seen = Observation::default();
    for probe in host_checks::list_doctor_probes(&std::collections::BTreeSet::new()) {
        let answer = match &probe {
            Probe::Account => Ok(ProbeReading::Account(ScriptAccount::Root)),
            Probe::PackageManager => Ok(ProbeReading::PackageManager(PackageManagerState::default())),
            Probe::Records => Ok(ProbeReading::Records(Box::default())),
            Probe::Check(_) => Ok(ProbeReading::Output(ProbeOutput { stdout: text.into(), ..ProbeOutput::default() })),
            Probe::Fact { name } if name == "packages" => Ok(ProbeReading::Output(ProbeOutput {
                stdout: "apt\ninstalled\tdpkg\tamd64\t1.21.22\n".into(),
                ..ProbeOutput::default()
            })),
            Probe::Fact { name } if name == "time" => {
                Ok(ProbeReading::Output(ProbeOutput { stdout: "maxerror\t2500\n".into(), ..ProbeOutput::default() }))
            }
            _ => continue,
        };
        seen.insert(probe, answer);
    }
    seen.set_time_range(timestamp_at(1000), timestamp_at(1001));
    seen
}

fn list_problems(observation: Observation) -> Vec<String> {
    let seen = ObservedHost::from_observation(&HostName::new("a"), observation, 1);
    let told = host_checks::check_host(&seen).into_iter().filter(|finding| finding.weight != DoctorSeverity::Ok);
    told.map(|f| {
        let hint = f.hint.map_or_else(String::new, |hint| format!(" -> {}", hint.raw()));
        format!("{:?} {}: {}{hint}", f.weight, f.check, f.what.raw())
    })
    .collect()
}

fn list_printed_problems(text: &str) -> Vec<String> {
    list_problems(healthy_observation(text))
}

#[test]
fn healthy_host_has_no_problems() {
    assert_eq!(list_printed_problems(FINE), Vec::<String>::new());
    let seen = ObservedHost::from_observation(&HostName::new("a"), healthy_observation(FINE), 1);
    let checks: Vec<_> = host_checks::check_host(&seen).iter().map(|f| f.check).collect();
    assert_eq!(checks, ["root", "login", "tools", "room", "clock", "lock", "leftovers", "packages"]);
}

#[test]
fn missing_programs_are_named() {
    assert_eq!(
        list_printed_problems(&FINE.replace("end", "lacks\tflock\nlacks\tsetpriv\nend")),
        [
            "Problem tools: missing: `flock`, `setpriv` -> install the packages that contain them: coreutils, util-linux, \
          findutils, grep, sed or libc-bin"
        ]
    );
}

#[test]
fn paths_on_one_filesystem_share_one_disk_space_finding() {
    assert_eq!(
        list_printed_problems(&FINE.replace("2000000", "0")),
        ["Problem room: no space in `/`, `/var`: 0 MiB free -> free up space"]
    );
    assert_eq!(
        list_printed_problems(&FINE.replace("\t2000000\t4096", "\t25600\t4096")),
        ["Note room: low disk space in `/`, `/var`: 100 MiB free -> packages and images need more; free up space"]
    );
    assert_eq!(
        list_printed_problems(&FINE.replace("/var\t2000000\t4096\t500", "/var\t2000000\t4096\t0")),
        ["Problem room: no free inodes in `/var` -> delete files there"]
    );
    // btrfs reports no inodes.
    assert_eq!(list_printed_problems(&FINE.replace("\t500\t1000", "\t0\t0")), Vec::<String>::new());
    assert_eq!(
        list_printed_problems(&FINE.replace("end", "readonly\t/usr\nend")),
        [format!("Problem room: not writable: `/usr` -> {READ_ONLY_HINT}")]
    );
}

const READ_ONLY_HINT: &str = "check the mount options with `findmnt -T DIR`; after I/O errors, the kernel mounts a file \
                              system read-only";

/// `mount -o remount,ro /` on a Debian 12 node: only the temporary file systems stay writable.
#[test]
fn read_only_root_file_system_is_a_problem() {
    let text = FINE.replace("end", "readonly\t/\nreadonly\t/etc\nreadonly\t/var/lib\nend");
    assert_eq!(
        list_printed_problems(&text),
        [format!("Problem room: not writable: `/`, `/etc`, `/var/lib` -> {READ_ONLY_HINT}")]
    );
    let mut plain = healthy_observation(&text);
    plain.insert(Probe::Account, Ok(ProbeReading::Account(ScriptAccount::Other("plain".into()))));
    let problems = list_problems(plain);
    assert!(problems.len() == 1 && problems[0].starts_with("Problem root: "), "{problems:?}");
}

#[test]
fn clock_skew_allows_for_the_probe_round_trip() {
    let of = |now| {
        let finding = host_checks::assess_clock_skew(now, 1000, 1010);
        (finding.weight, finding.what.raw().to_owned())
    };
    for now in [998, 1000, 1005, 1010, 1012] {
        assert_eq!(of(now), (DoctorSeverity::Ok, "in sync with this machine".to_owned()), "{now}");
    }
    assert_eq!(of(1013), (DoctorSeverity::Note, "up to a minute ahead of this machine".to_owned()));
    assert_eq!(of(940), (DoctorSeverity::Note, "up to a minute behind this machine".to_owned()));
    assert_eq!(of(939), (DoctorSeverity::Problem, "about 1 min behind this machine".to_owned()));
    assert_eq!(of(1010 + 7200), (DoctorSeverity::Problem, "about 2 h ahead of this machine".to_owned()));
    assert_eq!(
        list_printed_problems(&FINE.replace("now\t1000\n", "")),
        ["Unknown clock: could not be evaluated: the host's answer does not contain its time"]
    );
}

#[test]
fn lock_finding_names_the_holder_or_the_file_owner() {
    let held = "lockfile\tregular file by root\nlocked\trun: 7;by: root@ci;what: forge apply x;\nend";
    assert_eq!(
        list_printed_problems(&FINE.replace("end", held)),
        ["Note lock: locked: run: 7; by: root@ci; what: forge apply x -> another run is active there; it releases \
             the lock when it ends"]
    );
    assert_eq!(
        list_printed_problems(&FINE.replace("end", "lockfile\tregular empty file by plain\nend")),
        ["Problem lock: `/run/lock/forge` is not a root-owned file: regular empty file by plain -> if no forge run \
             is active there, remove it as root: `rm -f /run/lock/forge /run/lock/forge.act`"]
    );
    assert_eq!(
        list_printed_problems(&FINE.replace("end", "lockfile\tregular file by root\nend")),
        Vec::<String>::new()
    );
}

#[test]
fn doctor_probes_only_assessed_and_referenced_facts() {
    let probes = host_checks::list_doctor_probes(&["sm".to_owned()].into());
    let name = |probe: Probe| match probe {
        Probe::Fact { name } => Some(name),
        _ => None,
    };
    let facts: Vec<String> = probes.into_iter().filter_map(name).collect();
    assert_eq!(facts, ["os", "packages", "sm", "time", "tools"]);
}

#[test]
fn unanswered_checks_are_unknown() {
    assert_eq!(
        list_printed_problems(&FINE.replace("end\n", "")),
        ["Unknown host: could not be evaluated: the host's answer is truncated"]
    );
    let mut silent = Observation::default();
    for probe in host_checks::list_doctor_probes(&std::collections::BTreeSet::new()) {
        let is_fact = matches!(probe, Probe::Fact { .. });
        if !is_fact {
            silent.insert(probe, Err(UnansweredReason::new("timed out after 20 s")));
        }
    }
    assert_eq!(
        list_problems(silent),
        ["root", "host", "leftovers"]
            .map(|check| format!("Unknown {check}: could not be evaluated: timed out after 20 s"))
    );
}

#[test]
fn account_package_and_leftover_problems_are_reported() {
    let mut seen = healthy_observation(FINE);
    seen.insert(Probe::Account, Ok(ProbeReading::Account(ScriptAccount::Other("plain".into()))));
    let state = PackageManagerState {
        kind: PackageManagerKind::Dpkg,
        lock_holder: Some((7, "apt-get upgrade".into())),
        broken: [("nginx".to_owned(), "half-configured".to_owned())].into(),
    };
    seen.insert(Probe::PackageManager, Ok(ProbeReading::PackageManager(state)));
    let running = vec![("forge-x".to_owned(), "09:30".into())];
    seen.insert(
        Probe::Records,
        Ok(ProbeReading::Records(Box::new(RecordsState { running, ..RecordsState::default() }))),
    );
    assert_eq!(
        list_problems(seen),
        [
            "Problem root: runs as `plain`, but root is required -> set `connect: { sudo: … }` or log in as root",
            "Note leftovers: still running from an earlier run: `forge-x` -> the next `forge apply` waits until they \
             finish",
            "Note packages: dpkg is locked by process 7: `apt-get upgrade` -> an apply waits until the lock is \
             released",
            "Problem packages: not fully installed: `nginx` (half-configured) -> run `dpkg --configure -a` there and \
             check its output",
        ]
    );
}

#[test]
fn hold_is_a_note() {
    let mut seen = healthy_observation(FINE);
    let text = r#"{"why": "RMA 17", "by": "ann@ops", "since": "today"}"#;
    let hold = Some(HoldMark { text: text.into(), now: None });
    let state = RecordsState { hold, ..RecordsState::default() };
    seen.insert(Probe::Records, Ok(ProbeReading::Records(Box::new(state))));
    let note = "Note hold: on hold by ann@ops since today: RMA 17; apply leaves this host alone -> `forge release` ends \
                the hold";
    assert_eq!(list_problems(seen), [note]);
}

#[test]
fn unreadable_facts_are_listed_with_the_reason() {
    let mut seen = healthy_observation(FINE);
    let time = ProbeOutput { status: 1, stderr: "no\n".into(), ..ProbeOutput::default() };
    seen.insert(Probe::Fact { name: "time".into() }, Ok(ProbeReading::Output(time)));
    assert_eq!(
        list_problems(seen),
        [
            "Note facts: `time` would be unknown: neither the kernel nor `chronyc` reports it (no) -> steps that read `facts.time` \
             are unknown on this host"
        ]
    );
}

#[test]
fn unreachable_host_gets_a_default_connect_hint() {
    let of = |hint: Option<&str>| {
        let why = UnreachableReason::new("no", hint.map(Into::into));
        match add_connect_hint(&HostReachability::Unreachable(why)) {
            HostReachability::Unreachable(why) => why.hint.unwrap().raw().to_owned(),
            HostReachability::Observed => unreachable!(),
        }
    };
    assert_eq!(of(Some("take the key")), "take the key");
    assert!(of(None).starts_with("check that the host is up, its `address`"), "{}", of(None));
}

fn host_with_findings(findings: Vec<DoctorFinding>) -> HostHealth {
    HostHealth { host: HostName::new("a"), reach: HostReachability::Observed, findings }
}

#[test]
fn exit_code_reflects_the_worst_finding() {
    let of = |weight| DoctorFinding::new(weight, "x", "y");
    let checkup = |here: Vec<DoctorFinding>, hosts: Vec<HostHealth>| {
        DoctorReport { here, cluster: Vec::new(), hosts, simulated: Vec::new(), took: Duration::ZERO }.exit_code()
    };
    let away = || HostHealth {
        reach: HostReachability::Unreachable(UnreachableReason::new("no", None)),
        ..host_with_findings(Vec::new())
    };
    let fine = || host_with_findings(vec![of(DoctorSeverity::Ok), of(DoctorSeverity::Note)]);
    assert_eq!(checkup(vec![of(DoctorSeverity::Note)], vec![fine()]), ExitCode::Done);
    assert_eq!(
        checkup(vec![], vec![fine(), host_with_findings(vec![of(DoctorSeverity::Ok), of(DoctorSeverity::Unknown)])]),
        ExitCode::Unknown
    );
    assert_eq!(checkup(vec![], vec![fine(), away()]), ExitCode::Unreachable);
    assert_eq!(
        checkup(vec![], vec![away(), host_with_findings(vec![of(DoctorSeverity::Problem)])]),
        ExitCode::HostsFailed
    );
    assert_eq!(checkup(vec![of(DoctorSeverity::Problem)], vec![fine()]), ExitCode::Unexpected);
    assert!(
        fine().is_ready() && !away().is_ready() && !host_with_findings(vec![of(DoctorSeverity::Unknown)]).is_ready()
    );
}

#[test]
fn unwritable_state_folder_is_a_note() {
    use camino::Utf8Path;
    let folder = tempfile::tempdir().unwrap();
    let state = Utf8Path::from_path(folder.path()).unwrap().join("a/b/.forge");
    assert_eq!(controller::check_history_folder(&state).weight, DoctorSeverity::Ok);
    let file = Utf8Path::from_path(folder.path()).unwrap().join("file");
    fs_err::write(&file, "").unwrap();
    let finding = controller::check_history_folder(&file.join(".forge"));
    assert_eq!(finding.weight, DoctorSeverity::Note);
    let what = finding.what.raw();
    assert!(what.contains("/file/.forge` is not writable, so no history is kept: Not a directory"), "{what}");
    assert_eq!(controller::check_history_folder(Utf8Path::new(".forge")).weight, DoctorSeverity::Ok);
    let left = fs_err::read_dir(folder.path()).unwrap().count();
    assert_eq!(left, 1, "the check leaves no file");
}

/// `access` permits root to write there.
#[test]
fn state_folder_that_takes_no_files_is_a_note() {
    let finding = controller::check_history_folder(camino::Utf8Path::new("/proc/nosuch"));
    assert_eq!(finding.weight, DoctorSeverity::Note);
    let what = finding.what.raw();
    assert!(what.starts_with("`/proc/nosuch` is not writable, so no history is kept: "), "{what}");
}

#[test]
fn missing_kubeconfig_is_a_note_if_a_step_creates_the_cluster() {
    use crate::kube::KubeError;
    use crate::object::ClusterAbsence;
    let missing = |absence| KubeError {
        message: "kubeconfig `/a` not found".to_owned(),
        hint: Some("set `kubernetes.kubeconfig` to the right file".to_owned()),
        said: None,
        absence,
        denied: false,
    };
    let report = |absence, makers: &[&str]| {
        let makers = makers.iter().map(|&name| name.to_owned()).collect();
        let found = cluster::report_unopened(missing(absence), &makers);
        (found.weight, found.hint.unwrap().raw().to_owned())
    };
    let absent = Some(ClusterAbsence::NoKubeconfig);
    let declared = (DoctorSeverity::Problem, "set `kubernetes.kubeconfig` to the right file".to_owned());
    assert_eq!(report(absent, &[]), declared);
    assert_eq!(report(None, &["`kubeadm/begin`"]), declared);
    let created = "if the cluster does not exist yet, `kubeadm/begin` creates it during the run";
    assert_eq!(report(absent, &["`kubeadm/begin`"]), (DoctorSeverity::Note, created.to_owned()));
}
