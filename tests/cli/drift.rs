//! `forge drift` as a command: from a recording, its history, its timer, and the shipped CronJob.

use super::support::Place;

const INVENTORY: &str = "cluster: lab\nhosts: { gpu01: { address: 127.0.0.1 } }\n";

#[test]
fn install_timer_writes_units_and_prints_how_to_undo() {
    let place = Place::new().file("c.yaml", INVENTORY);
    let arguments = ["drift", "c.yaml", "--on", "gpu01", "--install-timer", "--every", "30m", "--unit-dir", "units"];
    let said = place.forge(&arguments);
    assert!(said.starts_with("exit 0\n") && said.contains("disable --now forge-drift-lab.timer"), "{said}");
    // systemd does not search that directory, and links need absolute paths.
    let unit = place.path().join("units/forge-drift-lab");
    assert!(said.contains(&format!(" link {0}.service {0}.timer && ", unit.display())), "{said}");
    let service = place.read("units/forge-drift-lab.service");
    let exec = service.lines().find(|line| line.starts_with("ExecStart=")).unwrap();
    let folder = place.path().display();
    let rest = format!("\"drift\" \"{folder}/c.yaml\" \"--quiet\" \"--state\" \"{folder}/.forge\" \"--on\" \"gpu01\"");
    assert!(exec.ends_with(&rest), "{exec}");
    assert!(place.read("units/forge-drift-lab.timer").contains("OnUnitInactiveSec=1800\n"));
}

#[test]
fn invalid_flag_combinations_are_rejected() {
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
fn history_without_runs_is_empty() {
    let said = Place::new().file("c.yaml", INVENTORY).forge(&["drift", "c.yaml", "--history"]);
    let expected = "exit 0\n--- stdout\nhistory: 0 runs (0 without drift); 0 open, 0 resolved\n--- stderr\n";
    assert_eq!(said, expected);
}

#[test]
fn ignore_entries_require_a_reason_and_an_end_date() {
    let place = |entry: &str| Place::new().file("c.yaml", &format!("{INVENTORY}drift: {{ ignore: [ {entry} ] }}\n"));
    for (entry, message) in [
        ("{ path: /etc/motd, until: 2027-01-01 }", "an entry of `ignore` needs `why`"),
        ("{ path: /etc/motd, why: banner }", "an entry of `ignore` needs `until`"),
        ("{ path: /etc/motd, why: ' ', until: 2027-01-01 }", "`why` is empty"),
        ("{ path: /etc/motd, why: banner, until: soon }", "`until` must be a date, found `soon`"),
        ("{ path: etc/motd, why: banner, until: 2027-01-01 }", "`path` must begin with `/`, found `etc/motd`"),
        ("{ why: banner, until: 2027-01-01 }", "an entry of `ignore` needs `path` or `step`"),
        ("{ path: /a, step: b, why: banner, until: 2027-01-01 }", "has either `path` or `step`, not both"),
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

/// The arguments of the shipped CronJob are valid: the only error is that its inventory is not on this machine.
#[test]
fn shipped_cronjob_passes_valid_arguments() {
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

/// Returns a place with a field recording of three hosts: one with tampered files, one bare and one unreachable.
fn recorded() -> Place {
    let read = |file: &str| {
        let root = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/recordings/debian12-web");
        std::fs::read_to_string(format!("{root}/{file}")).unwrap()
    };
    let files = ["inventory.yaml", "recording.json", "recipes/web.yaml"];
    files.iter().fold(Place::new(), |place, file| place.file(file, &read(file)))
}

const LAST_SUCCESS: &str = "forge_drift_last_success_timestamp_seconds{cluster=\"fleet\"}";

#[test]
fn one_run_writes_reports_in_every_format() {
    let place = recorded();
    let reports = [
        ("text", "unreachable\n"),
        ("json", "{\n  \"version\": 1,\n  \"result\": \"drift\""),
        ("ndjson", "{\"message\":\"version\",\"version\":1,"),
        ("markdown", "### forge drift: "),
        ("junit", "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites name=\"forge drift fleet\""),
        ("sarif", "{\n  \"$schema\": \"https://json.schemastore.org/sarif-2.1.0.json\",\n  \"version\": \"2.1.0\""),
        ("prometheus", "# HELP forge_drift_findings "),
        ("html", "<!doctype html>\n"),
    ];
    let flags: Vec<String> = reports.iter().map(|(format, _)| format!("--report={format}=out.{format}")).collect();
    let drift = ["drift", "inventory.yaml", "--observed", "recording.json", "--quiet"];
    let arguments: Vec<&str> = drift.into_iter().chain(flags.iter().map(String::as_str)).collect();
    let said = place.forge(&arguments);
    assert!(said.starts_with("exit 4\n--- stdout\n"), "{said}");
    for (format, begins) in reports {
        let text = place.read(&format!("out.{format}"));
        let found = if format == "text" { text.contains(begins) } else { text.starts_with(begins) };
        assert!(found, "{format}: {}", &text[..text.len().min(300)]);
        // stdout has the same content as the file.
        let shown = place.forge(&[&drift[..], &["--format", format]].concat());
        let shown = shown.strip_prefix("exit 4\n--- stdout\n").unwrap().split("--- stderr\n").next().unwrap();
        let whole = |text: &str| text.lines().filter(|line| !line.contains("2026") && !line.contains("took")).count();
        assert_eq!(whole(shown), whole(&text), "{format}");
    }
    assert!(!place.read("out.text").contains('\u{1b}'), "a file has no colors");
    assert!(
        !place.read("out.prometheus").contains(LAST_SUCCESS),
        "recorded answers do not count as a success of today"
    );
}

#[test]
fn failed_runs_keep_the_last_success_time() {
    let line = format!("{LAST_SUCCESS} 1700000000\n");
    let place = recorded().file("forge.prom", &line).file("broken.yaml", "cluster: fleet\nhots: [a]\n");
    let report = ["--report", "prometheus=forge.prom"];
    let said = place.forge(&[&["drift", "broken.yaml"], &report[..]].concat());
    assert!(said.starts_with("exit 65\n"), "{said}");
    assert_eq!(place.read("forge.prom"), line, "a run that did not start does not change the file");
    place.forge(&[&["drift", "inventory.yaml", "--observed", "recording.json"], &report[..]].concat());
    let text = place.read("forge.prom");
    assert!(text.contains(&line) && text.contains("forge_drift_exit_code{cluster=\"fleet\"} 4\n"), "{text}");
}

#[test]
fn successful_run_updates_the_last_success_time() {
    let inventory = "cluster: lab\nhosts: { me: { connect: { transport: local } } }\n";
    let place = Place::new().file("c.yaml", inventory).env("PATH", &std::env::var("PATH").unwrap());
    let said = place.forge(&["drift", "c.yaml", "--report", "prometheus=forge.prom", "--report", "html=drift.html"]);
    assert!(said.starts_with("exit 0\n"), "{said}");
    let text = place.read("forge.prom");
    let value = |name: &str| {
        let line =
            text.lines().find(|line| line.starts_with(&format!("forge_drift_{name}_timestamp_seconds{{"))).unwrap();
        line.rsplit(' ').next().unwrap().to_owned()
    };
    assert_eq!(value("last_success"), value("last_run"), "{text}");
    // If the file is lost, the time comes from the history.
    let broken = "cluster: lab\nhosts: { me: { connect: { transport: local } }, gone: { address: 127.0.0.1, connect: { port: 1 } } }\n";
    let place = place.file("c.yaml", broken);
    std::fs::remove_file(place.path().join("forge.prom")).unwrap();
    let before = value("last_success");
    let said = place.forge(&["drift", "c.yaml", "--report", "prometheus=forge.prom"]);
    assert!(said.starts_with("exit 4\n"), "{said}");
    let text = place.read("forge.prom");
    assert!(
        text.contains(&format!("forge_drift_last_success_timestamp_seconds{{cluster=\"lab\"}} {before}\n")),
        "{text}"
    );
    let said = place.forge(&["drift", "c.yaml", "--format", "html"]);
    assert!(said.contains("<svg "), "three runs have a trend: {said}");
}

#[test]
fn report_flags_are_checked_before_hosts_are_contacted() {
    let place = Place::new().file("c.yaml", INVENTORY);
    for (arguments, exit, message) in [
        (&["--report", "html=a", "--report", "junit=a"][..], 64, "error: two reports have the same file `a`\n"),
        (&["--report", "html=nowhere/a.html"], 1, "error: cannot write `nowhere/a.html`: "),
        (
            &["--report", "html"],
            64,
            "expected `FORMAT=FILE`; formats: text, json, ndjson, markdown, junit, sarif, prometheus, html",
        ),
        (&["--report", "html=a", "--history"], 64, "cannot be used with"),
        (&["--format", "html", "--history"], 64, "error: `--format html` is not supported with `--history`\n"),
    ] {
        let said = place.forge(&[&["drift", "c.yaml"], arguments].concat());
        assert!(said.starts_with(&format!("exit {exit}\n")) && said.contains(message), "{arguments:?}: {said}");
    }
    let said = place.forge(&["plan", "c.yaml", "--format", "sarif"]);
    assert!(said.starts_with("exit 64\n") && said.contains("`--format sarif` is not supported by this verb"), "{said}");
}

#[test]
fn timer_unit_includes_the_report_flags() {
    let place = Place::new().file("c.yaml", INVENTORY);
    let reports = ["--report", "html=drift.html", "--report", "prometheus=/var/lib/x.prom"];
    let said = place.forge(&[&["drift", "c.yaml", "--install-timer", "--unit-dir", "units"], &reports[..]].concat());
    // The second folder does not have to exist on the machine that writes the unit.
    assert!(said.starts_with("exit 0\n"), "{said}");
    let service = place.read("units/forge-drift-lab.service");
    let folder = place.path().display();
    let expected = format!("\"--report\" \"html={folder}/drift.html\" \"--report\" \"prometheus=/var/lib/x.prom\"\n");
    assert!(service.contains(&expected), "{service}");
}
