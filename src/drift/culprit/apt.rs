//! `/var/log/apt/history.log`: runs of apt with time, command line and user.

use super::clock;
use super::packages::{LoggedPackageChange, PackageManagerRun, strip_architecture};
use jiff::Timestamp;
use jiff::tz::TimeZone;

pub const APT_LOG: &str = "/var/log/apt/history.log";

/// Parses runs, oldest first. A run whose beginning was cut off is skipped; one without an end gets its start time.
pub fn parse_history(text: &str, zone: &TimeZone) -> Vec<PackageManagerRun> {
    let mut runs: Vec<PackageManagerRun> = Vec::new();
    let mut open = false;
    for (key, value) in text.lines().filter_map(|line| line.split_once(": ")) {
        match (key, runs.last_mut().filter(|_| open)) {
            ("Start-Date", _) => {
                let began = clock::parse_local_time(value, zone);
                open = began.is_some();
                runs.extend(began.map(start_run));
            }
            (_, None) => {}
            ("End-Date", Some(run)) => {
                run.ended = clock::parse_local_time(value, zone).unwrap_or(run.began);
                open = false;
            }
            (key, Some(run)) => apply_field(run, key, value),
        }
    }
    runs
}

fn start_run(began: Timestamp) -> PackageManagerRun {
    PackageManagerRun {
        began,
        ended: began,
        tool: "apt",
        user: None,
        command: None,
        changes: Vec::new(),
        source: APT_LOG,
    }
}

fn apply_field(run: &mut PackageManagerRun, key: &str, value: &str) {
    match key {
        "Commandline" => run.command = Some(value.to_owned()),
        // `deploy (1001)`
        "Requested-By" => run.user = value.rsplit_once(" (").map(|(user, _)| user.to_owned()),
        "Install" | "Reinstall" | "Upgrade" | "Downgrade" => run.changes.extend(parse_changes(value, run.began, true)),
        "Remove" | "Purge" => run.changes.extend(parse_changes(value, run.began, false)),
        _ => {}
    }
}

/// Parses `forge-tool:amd64 (1.0), forge-demo:amd64 (1.0-1, 1.1-1)`: the last version is the new one.
fn parse_changes(value: &str, at: Timestamp, stays: bool) -> impl Iterator<Item = LoggedPackageChange> {
    value.split("), ").filter_map(move |one| {
        let (name, versions) = one.trim_end_matches(')').split_once(" (")?;
        let versions = versions.split(", ").filter(|word| *word != "automatic");
        let to = versions.last().filter(|_| stays).map(str::to_owned);
        Some(LoggedPackageChange { at, package: strip_architecture(name).to_owned(), to })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const RECORDED: &str = include_str!("../../../tests/samples/culprit/apt-history.log");

    fn told(runs: &[PackageManagerRun]) -> Vec<String> {
        let change =
            |change: &LoggedPackageChange| format!("{}={}", change.package, change.to.as_deref().unwrap_or("gone"));
        let one = |run: &PackageManagerRun| {
            let changes: Vec<String> = run.changes.iter().map(change).collect();
            let (user, command) = (run.user.as_deref().unwrap_or("-"), run.command.as_deref().unwrap_or("-"));
            format!("{} {user} `{command}` {}", clock::format_time(run.began), changes.join(" "))
        };
        runs.iter().map(one).collect()
    }

    #[test]
    fn recorded_apt_history_is_parsed() {
        insta::assert_snapshot!(told(&parse_history(RECORDED, &TimeZone::UTC)).join("\n"));
    }

    #[test]
    fn truncated_history_yields_no_invented_runs() {
        let whole = parse_history(RECORDED, &TimeZone::UTC);
        for at in (0..RECORDED.len()).filter(|at| RECORDED.is_char_boundary(*at)) {
            let runs = parse_history(&RECORDED[at..], &TimeZone::UTC);
            let known = |run: &PackageManagerRun| whole.iter().any(|one| one.began == run.began);
            assert!(runs.iter().all(known), "cut at {at}");
            parse_history(&RECORDED[..at], &TimeZone::UTC);
        }
    }

    #[test]
    fn lines_outside_a_run_are_ignored() {
        let text = "Requested-By: mallory (0)\nStart-Date: never\nInstall: x (1)\n";
        assert_eq!(parse_history(text, &TimeZone::UTC), []);
    }
}
