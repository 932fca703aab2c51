//! Tests that parse recorded answers about systemd units.

use super::*;
use crate::probe::UnansweredReason;
use crate::probe::section::SectionEnd;
use crate::probe::section::testing::{answers, printed, recorded};

fn fixture() -> SectionOutput {
    recorded(include_str!("../../../tests/fixtures/probe/unit.txt"))
}

fn one(name: &str, raw: &SectionOutput) -> Result<UnitState, UnansweredReason> {
    let probe = Probe::Unit { name: name.to_owned() };
    let seen = answers(&build_section(vec![probe.clone()]).expect("a section"), raw);
    seen.get(&probe).map(|reading| match reading {
        ProbeReading::Unit(state) => UnitState::clone(state),
        other => panic!("{other:?}"),
    })
}

#[test]
fn running_unit_with_deleted_files_is_parsed() {
    let state = one("slow.service", &fixture()).expect("known");
    let expected = UnitState {
        load: "loaded".into(),
        active: "active".into(),
        sub: "running".into(),
        file_state: "static".into(),
        need_daemon_reload: true,
        invocation: "c84dbab641c943e982d1e58812abab60".into(),
        fragment: "/etc/systemd/system/slow.service".into(),
        drop_ins: vec!["/etc/systemd/system/slow.service.d/10 a.conf".into()],
        main_pid: 1439,
        active_since: 1_795_255_646.194_843,
        main_started: 1_795_255_646.194_58,
        deleted: vec!["/usr/lib/x86_64-linux-gnu/libcrypt.so.1.1.0".into(), "/usr/local/bin/slow".into()],
        result: "success".into(),
        service_type: "simple".into(),
        ..UnitState::default()
    };
    assert_eq!(state, expected);
}

#[test]
fn aliases_and_missing_units_are_resolved() {
    let raw = fixture();
    assert_eq!(one("ssh", &raw), one("sshd.service", &raw));
    assert_eq!(one("ssh", &raw).map(|unit| (unit.active, unit.result)), Ok(("failed".into(), "exit-code".into())));
    assert_eq!(one("not-here", &raw).map(|unit| (unit.load, unit.active_since)), Ok(("not-found".into(), 0.0)));
    assert_eq!(one("masked", &raw).map(|unit| unit.file_state), Ok("masked".into()));
    assert_eq!(one("tmp.mount", &raw).map(|unit| unit.sub), Ok("mounted".into()));
    assert_eq!(one("other", &raw).expect_err("not asked").why, "`systemctl` returned no answer");
}

#[test]
fn truncated_answer_is_unknown() {
    let mut raw = fixture();
    raw.stdout.truncate(raw.stdout.len() - 3);
    raw.end = SectionEnd::TimedOut;
    assert_eq!(one("dbus", &raw), Err(UnansweredReason::new("timed out after 20 s")));
}

#[test]
fn unreadable_memory_maps_are_reported_as_unread() {
    let text = "Id=a.service\nLoadState=loaded\nActiveState=active\nMainPID=7\n\nforge-maps\n\
                grep: /proc/7/maps: Permission denied\n";
    let printed = |text: &str| SectionOutput { end: SectionEnd::Exited(2), ..printed(text) };
    let state = one("a", &printed(text)).expect("known");
    assert_eq!((state.deleted, state.maps_unread), (vec![], true));
    let gone = one("a", &printed(&text.replace("Permission denied", "No such file or directory"))).expect("known");
    assert!(!gone.maps_unread);
}

/// The last program ends with 0 or 1 after it has read all mappings, and with 2 if some are gone.
#[test]
fn mappings_count_only_if_their_reader_ended_by_itself() {
    let text = "Id=a.service\nLoadState=loaded\nActiveState=active\nMainPID=7\n\nforge-maps\n";
    let ended = |end, text: &str| one("a", &SectionOutput { end, ..printed(text) }).map_err(|unknown| unknown.why);
    for status in [0, 1, 2] {
        assert!(ended(SectionEnd::Exited(status), text).is_ok(), "{status}");
    }
    assert_eq!(ended(SectionEnd::Exited(137), text), Err("`systemctl` failed with status 137".to_owned()));
    assert_eq!(ended(SectionEnd::TimedOut, text), Err("timed out after 20 s".to_owned()));
    assert!(ended(SectionEnd::Exited(1), &text.replace("forge-maps\n", "")).is_err());
}

#[test]
fn only_deleted_programs_and_libraries_are_reported() {
    let line = |path: &str| {
        format!("7f04274bd000-7f04274d3000 r-xp 00002000 00:65 831555                     {path} (deleted)")
    };
    assert_eq!(parse_deleted_mapping(&line("/usr/lib/a b.so")), Some("/usr/lib/a b.so"));
    for path in ["/memfd:x", "/dev/shm/x", "/tmp/x.so", "/SYSV00000000", "/var/lib/x.so"] {
        assert_eq!(parse_deleted_mapping(&line(path)), None, "{path}");
    }
}

#[test]
fn timestamps_have_microseconds_or_are_marked_coarse() {
    assert_eq!(parse_timestamp("Sat 2026-11-21 09:48:48.480350 UTC"), Some(1_795_254_528.480_35));
    assert_eq!(parse_timestamp("Sat 2026-11-21 09:48:48 UTC"), Some(1_795_254_528.0));
    assert_eq!((parse_timestamp(""), parse_timestamp("n/a")), (Some(0.0), Some(0.0)));
    assert_eq!(parse_timestamp("Sat 2026-11-21 09:48:48 CET"), None, "a zone that was not asked for");
    let old = "Id=a.service\nLoadState=loaded\nActiveState=active\nActiveEnterTimestamp=Sat 2026-11-21 09:48:48 UTC\n\n\
               forge-maps\n";
    assert!(one("a", &printed(old)).expect("known").coarse_times);
    assert!(!one("dbus", &fixture()).expect("known").coarse_times);
}

#[test]
fn invalid_unit_names_are_rejected() {
    assert_eq!(refusal_reason("getty@.service"), Some("is a template: a unit needs a name after `@`"));
    assert_eq!(refusal_reason("getty@"), Some("is a template: a unit needs a name after `@`"));
    for name in ["", "-x", "a b", "a/b", "dbus*", "a\n"] {
        assert_eq!(refusal_reason(name), Some("is not a unit name"), "{name:?}");
    }
    for name in ["-.mount", "getty@tty1.service", "dev-disk-by\\x2duuid.swap", "nginx", "a.b-c_d:e"] {
        assert_eq!(refusal_reason(name), None, "{name:?}");
    }
    assert_eq!(full_unit_name("a.b"), "a.b.service");
}

/// The answer of systemd 252 about a service whose process ends every 2 s (`Restart=always`).
const RESTARTED: &str = "Type=simple\nMainPID=75\nResult=success\nNRestarts=3\n\
    ExecMainStartTimestampMonotonic=83705800138\nId=loop.service\nLoadState=loaded\nActiveState=active\n\
    ActiveEnterTimestampMonotonic=83705800317\n\nUptime=83706.11\n\nforge-maps\n";

#[test]
fn restarts_by_systemd_have_their_age() {
    let parsed = |text: &str| one("loop", &printed(text)).map(|unit| (unit.restarts, unit.restarted_ago)).unwrap();
    let (restarts, ago) = parsed(RESTARTED);
    assert_eq!((restarts, ago.map(|ago| (ago * 100.0).round())), (3, Some(31.0)));
    assert_eq!(parsed(&RESTARTED.replace("NRestarts=3", "NRestarts=0")), (0, None));
    // systemd before 235 has no such count.
    assert_eq!(parsed(&RESTARTED.replace("NRestarts=3\n", "")), (0, None));
    // A container may count its uptime from its own start.
    assert_eq!(parsed(&RESTARTED.replace("Uptime=83706.11", "Uptime=12.50")), (3, None));
    assert_eq!(parsed(&RESTARTED.replace("Uptime=83706.11\n\n", "")), (3, None));
}

/// origin: `systemctl show` of systemd 252
#[test]
fn environment_files_are_listed() {
    let text = RESTARTED.replace(
        "Type=simple\n",
        "Type=simple\nEnvironmentFiles=/etc/q a.env (ignore_errors=yes)\nEnvironmentFiles=/etc/q2*.env (ignore_errors=no)\n",
    );
    let state = one("loop", &printed(&text)).unwrap();
    assert_eq!(state.environment_files, ["/etc/q a.env", "/etc/q2*.env"]);
    let reads = |path| state.reads_environment_from(path);
    assert!(reads("/etc/q a.env") && reads("/etc/q2b.env") && !reads("/etc/q2/b.env") && !reads("/etc/q"));
    assert_eq!(one("loop", &printed(RESTARTED)).unwrap().environment_files, [""; 0]);
}

/// Between two starts, the time of the last run tells whether the service keeps ending.
#[test]
fn run_that_ended_has_its_length() {
    let parsed = |text: &str| one("loop", &printed(text)).map(|unit| unit.ran_for).unwrap();
    let waiting = RESTARTED
        .replace("MainPID=75", "MainPID=0\nExecMainExitTimestampMonotonic=83707804138")
        .replace("ActiveState=active", "ActiveState=activating\nSubState=auto-restart");
    assert_eq!(parsed(&waiting).map(|seconds| (seconds * 10.0).round()), Some(20.0));
    assert_eq!(parsed(&waiting.replace("MainPID=0", "MainPID=75")), None, "it runs again");
    assert_eq!(parsed(&waiting.replace("=83707804138", "=0")), None);
}

/// The answer about a unit that started when the clock was eight hours ahead.
fn answer_of_set_clock(container: &str) -> UnitState {
    let text = format!(
        "Id=a.service\nLoadState=loaded\nActiveState=active\nMainPID=7\n\
         ExecMainStartTimestamp=Sat 2026-11-21 18:00:10.500000 UTC\nExecMainStartTimestampMonotonic=10500000\n\n\
         Uptime=600.25\nContainer={container}\n\nforge-maps\n/proc/stat:btime 1795255200\n"
    );
    one("a", &printed(&text)).expect("known")
}

#[test]
fn clock_that_was_set_since_a_start_is_noticed() {
    let state = answer_of_set_clock("no");
    assert_eq!((state.clock_change, state.now), (-28_800.0, Some(1_795_255_800.25)));
    let (started, changed) = (state.main_started, 1_795_255_300.0);
    assert!(changed < started && state.may_precede(started, changed), "changed by the present clock");
    assert!(state.may_precede(started, started + 100.0), "changed by the former clock");
    assert!(!state.may_precede(started, started + 2000.0), "longer ago than the start");
    assert!(!state.may_precede(started, 1_795_255_210.0), "before the start");
    assert!(state.is_in_future(started) && !state.is_in_future(changed));
}

/// Both clocks of a container may begin at different moments, so its present time is not known.
#[test]
fn container_has_no_present_time() {
    let state = answer_of_set_clock("yes");
    assert_eq!((state.clock_change, state.now), (-28_800.0, None));
    assert!(state.may_precede(state.main_started, 1_795_255_300.0) && !state.is_in_future(state.main_started));
}

/// An answer about units with relations, in the format of systemd 252, with those that were queried because of them.
// origin: reconstructed
const RELATED: &str = "\
Id=db.service\nNames=db.service\nLoadState=loaded\nActiveState=active\nUnitFileState=disabled\nRequiredBy=app.service\n\
BoundBy=\nConsistsOf=\nConflicts=shutdown.target\nConflictedBy=\n\n\
Id=new.service\nNames=new.service\nLoadState=loaded\nActiveState=inactive\nUnitFileState=disabled\nRequiredBy=\n\
Conflicts=shutdown.target old.service gone.service\nConflictedBy=\n\n\
Uptime=12.5\nUnlinked=\nLinked=\nMasked=\nAlso= db.service:db.socket db.service:db@.service db.service:missing.socket db.service:\\\n\n\
Id=app.service\nNames=app.service\nLoadState=loaded\nActiveState=active\nConsistsOf=web.service\n\
PropagatesStopTo=log.service\n\n\
Id=old.service\nNames=old.service\nLoadState=loaded\nActiveState=active\n\n\
Id=gone.service\nNames=gone.service\nLoadState=not-found\nActiveState=inactive\nUnitFileState=\n\n\
Id=db.socket\nNames=db.socket\nLoadState=loaded\nActiveState=active\nUnitFileState=enabled\n\n\
Id=missing.socket\nNames=missing.socket\nLoadState=not-found\nActiveState=inactive\nUnitFileState=\n\n\
Id=web.service\nNames=web.service\nLoadState=loaded\nActiveState=active\n\n\
Id=log.service\nNames=log.service\nLoadState=loaded\nActiveState=active\n\n\
forge-maps\n";

#[test]
fn units_that_change_together_with_another_are_listed() {
    let db = one("db", &printed(RELATED)).expect("known");
    let names = |units: &[RelatedUnit]| units.iter().map(|unit| unit.name.clone()).collect::<Vec<_>>();
    assert_eq!(names(&db.dependents), ["app.service", "log.service", "web.service"]);
    let socket = RelatedUnit { name: "db.socket".into(), file_state: "enabled".into() };
    assert_eq!((db.also, db.conflicting), (vec![socket], Vec::new()));
    let new = one("new", &printed(RELATED)).expect("known");
    assert_eq!((names(&new.conflicting), names(&new.dependents)), (vec!["old.service".to_owned()], Vec::new()));
    assert!(!db.related_unread && !new.related_unread);
}

#[test]
fn related_unit_without_an_answer_is_noted() {
    let text = RELATED.replace("Id=app.service\nNames=app.service", "Id=x.service\nNames=x.service");
    let is_unread = |name: &str| one(name, &printed(&text)).expect("known").related_unread;
    assert!(is_unread("db") && !is_unread("new"));
}

#[test]
fn links_to_a_unit_whose_file_is_gone_enable_it() {
    let text = "Id=a.service\nLoadState=not-found\nActiveState=inactive\nUnitFileState=\n\n\
                Unlinked=\nLinked= a.service:multi-user.target\nMasked=\n\nforge-maps\n";
    let unit = one("a", &printed(text)).expect("known");
    assert_eq!((unit.load.as_str(), unit.file_state.as_str()), ("not-found", "enabled"));
}

/// systemd is queried for targets without a file: a generator may have made one.
#[test]
fn targets_that_do_not_exist_are_listed_if_no_other_one_starts_the_unit() {
    let missing = |doubted: &str, loads: [&str; 2]| {
        let text = format!(
            "Id=a.service\nLoadState=loaded\nActiveState=active\nUnitFileState=enabled\n\n\
             Unlinked=\nLinked=\nMasked=\nAlso=\nDoubted={doubted}\n\n\
             Id=x.target\nLoadState={}\n\nId=y.target\nLoadState={}\n\nforge-maps\n",
            loads[0], loads[1]
        );
        one("a", &printed(&text)).expect("known").missing_targets
    };
    let gone = ["not-found", "not-found"];
    assert_eq!(missing(" a.service:x.target a.service:y.target", gone), ["x.target", "y.target"]);
    assert_eq!(missing(" a.service:x.target", ["not-found", "loaded"]), ["x.target"]);
    assert!(missing(" a.service:x.target a.service:y.target", ["not-found", "loaded"]).is_empty());
    assert!(missing(" b.service:x.target", gone).is_empty(), "another unit");
    assert!(missing(" a.service:z.target", gone).is_empty(), "systemd did not answer");
}
