//! `forge drift` from outside: from a recording, its history, its timer, and what ships to run it elsewhere.

use super::support::Place;

const INVENTORY: &str = "cluster: lab\nhosts: { gpu01: { address: 127.0.0.1 } }\n";

#[test]
fn the_timer_s_units_are_written_and_how_to_undo_it_is_said() {
    let place = Place::new().file("c.yaml", INVENTORY);
    let arguments = ["drift", "c.yaml", "--on", "gpu01", "--install-timer", "--every", "30m", "--unit-dir", "units"];
    let said = place.forge(&arguments);
    assert!(said.starts_with("exit 0\n") && said.contains("disable --now forge-drift-lab.timer"), "{said}");
    let service = place.read("units/forge-drift-lab.service");
    let exec = service.lines().find(|line| line.starts_with("ExecStart=")).unwrap();
    let folder = place.path().display();
    let rest = format!("\"drift\" \"{folder}/c.yaml\" \"--quiet\" \"--state\" \"{folder}/.forge\" \"--on\" \"gpu01\"");
    assert!(exec.ends_with(&rest), "{exec}");
    assert!(place.read("units/forge-drift-lab.timer").contains("OnUnitInactiveSec=1800\n"));
}

#[test]
fn what_goes_together_only_is_refused_alone() {
    let place = Place::new().file("c.yaml", INVENTORY);
    for arguments in [
        &["drift", "c.yaml", "--since", "7d"][..],
        &["drift", "c.yaml", "--every", "5m"],
        &["drift", "c.yaml", "--level", "L9"],
        &["drift", "c.yaml", "--history", "--since", "yesterday"],
        &["plan", "c.yaml", "--format", "ndjson"],
    ] {
        let said = place.forge(arguments);
        assert!(said.starts_with("exit 64\n"), "{arguments:?}: {said}");
    }
}

#[test]
fn a_history_of_nothing_is_empty() {
    let said = Place::new().file("c.yaml", INVENTORY).forge(&["drift", "c.yaml", "--history"]);
    let expected = "exit 0\n--- stdout\nhistory: 0 runs (0 quiet); 0 open, 0 resolved\n--- stderr\n";
    assert_eq!(said, expected);
}

#[test]
fn entries_of_ignore_need_a_reason_and_a_day() {
    let place = |entry: &str| Place::new().file("c.yaml", &format!("{INVENTORY}drift: {{ ignore: [ {entry} ] }}\n"));
    for (entry, message) in [
        ("{ path: /etc/motd, until: 2027-01-01 }", "an entry of `ignore` needs `why`"),
        ("{ path: /etc/motd, why: banner }", "an entry of `ignore` needs `until`"),
        ("{ path: /etc/motd, why: ' ', until: 2027-01-01 }", "`why` says nothing"),
        ("{ path: /etc/motd, why: banner, until: soon }", "`until` must be a day, found `soon`"),
        ("{ path: etc/motd, why: banner, until: 2027-01-01 }", "`path` must begin with `/`, found `etc/motd`"),
        ("{ why: banner, until: 2027-01-01 }", "an entry of `ignore` needs `path` or `step`"),
        ("{ path: /a, step: b, why: banner, until: 2027-01-01 }", "is about a `path` or a `step`, not both"),
    ] {
        let said = place(entry).forge(&["validate", "c.yaml"]);
        assert!(said.starts_with("exit 65\n") && said.contains(message), "{entry}: {said}");
    }
    let outliers = Place::new().file("c.yaml", &format!("{INVENTORY}drift: {{ outliers: yes }}\n"));
    let said = outliers.forge(&["validate", "c.yaml"]);
    let expected = "`outliers` must be `show` or `count`, found `yes`\n --> c.yaml:3:";
    assert!(said.starts_with("exit 65\n") && said.contains(expected), "{said}");
    let first = Place::new().file("c.yaml", &format!("{INVENTORY}drift: {{ first_seen: hosts }}\n"));
    let said = first.forge(&["validate", "c.yaml"]);
    assert!(said.contains("`first_seen` must be `controller` or `host`, found `hosts`\n --> c.yaml:3:"), "{said}");
    let said = place("{ step: base/motd, why: banner, until: 2027-01-01 }").forge(&["validate", "c.yaml"]);
    assert!(said.starts_with("exit 0\n"), "{said}");
}

/// The arguments of the CronJob that ships are forge's own: what is wrong is only that its inventory is not here.
#[test]
fn the_cronjob_that_ships_runs_a_command_that_there_is() {
    let text = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/deploy/kubernetes/cronjob.yaml")).unwrap();
    let line = text.lines().find_map(|line| line.trim().strip_prefix("args: [")).unwrap();
    let arguments: Vec<&str> = line.trim_end_matches(']').split(", ").collect();
    let said = Place::new().forge(&arguments.iter().map(|a| a.trim_start_matches("/state/")).collect::<Vec<_>>());
    assert!(said.starts_with("exit 65\n") && said.contains("/inventory/inventory.yaml"), "{said}");
    let documents: Vec<&str> = text.split("\n---\n").collect();
    let parsed = documents.iter().map(|text| serde_saphyr::from_str::<serde_json::Value>(text).unwrap());
    let kinds: Vec<String> = parsed.map(|document| document["kind"].as_str().unwrap().to_owned()).collect();
    assert_eq!(kinds, ["PersistentVolumeClaim", "CronJob"]);
}
