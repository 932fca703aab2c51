//! `/var/log/dpkg.log`: which packages dpkg installed and removed, and when; it does not name the user.

use super::clock;
use super::packages::{LoggedPackageChange, PackageManagerRun, strip_architecture};
use jiff::tz::TimeZone;

pub const DPKG_LOG: &str = "/var/log/dpkg.log";

/// Parses runs, oldest first: each begins with `startup`. A run whose beginning was cut off is skipped.
pub fn parse_log(text: &str, zone: &TimeZone) -> Vec<PackageManagerRun> {
    let mut runs: Vec<PackageManagerRun> = Vec::new();
    for line in text.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let [day, time, rest @ ..] = words.as_slice() else { continue };
        let Some(at) = clock::parse_local_time(&format!("{day} {time}"), zone) else { continue };
        match (rest, runs.last_mut()) {
            (["startup", ..], _) => runs.push(PackageManagerRun {
                began: at,
                ended: at,
                tool: "dpkg",
                user: None,
                command: None,
                changes: Vec::new(),
                source: DPKG_LOG,
            }),
            (["install" | "upgrade", name, _, to], Some(run)) => push_change(run, at, name, Some(to)),
            (["remove" | "purge", name, ..], Some(run)) => push_change(run, at, name, None),
            _ => {}
        }
    }
    runs.retain(|run| !run.changes.is_empty());
    runs
}

fn push_change(run: &mut PackageManagerRun, at: jiff::Timestamp, name: &str, to: Option<&str>) {
    run.ended = at;
    run.changes.push(LoggedPackageChange {
        at,
        package: strip_architecture(name).to_owned(),
        to: to.map(str::to_owned),
    });
}

/// Returns the runs of dpkg that apt did not start.
pub fn exclude_apt_runs(runs: Vec<PackageManagerRun>, apt: &[PackageManagerRun]) -> Vec<PackageManagerRun> {
    let of_apt = |run: &PackageManagerRun| {
        let names: Vec<String> = run.changes.iter().map(|change| change.package.clone()).collect();
        apt.iter().any(|apt| apt.covers_time(run.began) && apt.last_change_of(&names).is_some())
    };
    runs.into_iter().filter(|run| !of_apt(run)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drift::culprit::apt;

    const RECORDED: &str = include_str!("../../../tests/samples/culprit/dpkg.log");
    const HISTORY: &str = include_str!("../../../tests/samples/culprit/apt-history.log");

    fn told(runs: &[PackageManagerRun]) -> Vec<String> {
        let change =
            |change: &LoggedPackageChange| format!("{}={}", change.package, change.to.as_deref().unwrap_or("gone"));
        let changes = |run: &PackageManagerRun| run.changes.iter().map(change).collect::<Vec<_>>().join(" ");
        runs.iter().map(|run| format!("{} {}", clock::format_time(run.began), changes(run))).collect()
    }

    #[test]
    fn dpkg_runs_started_by_apt_are_excluded() {
        let (all, apt) = (parse_log(RECORDED, &TimeZone::UTC), apt::parse_history(HISTORY, &TimeZone::UTC));
        assert!(all.len() > exclude_apt_runs(all.clone(), &apt).len());
        insta::assert_snapshot!(told(&exclude_apt_runs(all, &apt)).join("\n"));
    }

    #[test]
    fn truncated_or_invalid_dpkg_log_yields_no_runs() {
        for at in 0..RECORDED.len() {
            let runs = parse_log(&RECORDED[at..], &TimeZone::UTC);
            assert!(runs.iter().all(|run| !run.changes.is_empty()), "cut at {at}");
        }
        assert_eq!(parse_log("2026-11-22 03:03:37 install evil <none> 1\nstartup\n\u{1b}[2J\n", &TimeZone::UTC), []);
    }
}
