//! `/var/log/dnf.log` and `/var/log/dnf.rpm.log`: command lines of dnf, and package changes.

use super::clock;
use super::packages::{LoggedPackageChange, PackageManagerRun};
use jiff::Timestamp;

pub const DNF_LOG: &str = "/var/log/dnf.rpm.log";

/// Architecture suffixes of package names.
const ARCHITECTURES: [&str; 8] = ["x86_64", "noarch", "aarch64", "i686", "i386", "ppc64le", "s390x", "src"];

/// Parses runs, oldest first: a command line, and the changes until the next one. Runs without changes are left out.
pub fn parse_logs(commands: &str, packages: &str) -> Vec<PackageManagerRun> {
    let mut runs: Vec<PackageManagerRun> = commands.lines().filter_map(parse_command).collect();
    runs.sort_by_key(|run| run.began);
    for change in packages.lines().filter_map(parse_change) {
        match runs.iter_mut().rfind(|run| run.began <= change.at) {
            Some(run) => {
                run.ended = run.ended.max(change.at);
                run.changes.push(change);
            }
            // The log was rotated or cut: the command line is missing.
            None => runs.insert(0, PackageManagerRun { changes: vec![change.clone()], ..start_run(change.at) }),
        }
    }
    runs.retain(|run| !run.changes.is_empty());
    runs
}

fn start_run(began: Timestamp) -> PackageManagerRun {
    PackageManagerRun {
        began,
        ended: began,
        tool: "dnf",
        user: None,
        command: None,
        changes: Vec::new(),
        source: DNF_LOG,
    }
}

/// Parses `2026-03-01T10:00:00+0000 DDEBUG Command: dnf install -y nginx`.
fn parse_command(line: &str) -> Option<PackageManagerRun> {
    let (time, rest) = line.split_once(' ')?;
    let command = rest.split_once(" Command: ")?.1.trim();
    Some(PackageManagerRun { command: Some(command.to_owned()), ..start_run(clock::parse_iso_time(time)?) })
}

/// Parses `2026-03-01T10:00:00+0000 SUBDEBUG Upgrade: openssl-1:3.2.2-6.el9.x86_64`. An upgrade has two lines; the one
/// of the old package is not needed.
fn parse_change(line: &str) -> Option<LoggedPackageChange> {
    let mut words = line.split(' ');
    let (time, _, what, package) = (words.next()?, words.next()?, words.next()?, words.next()?);
    let stays = match what {
        "Install:" | "Installed:" | "Upgrade:" | "Downgrade:" | "Reinstall:" => true,
        "Erase:" | "Erased:" | "Obsoleted:" => false,
        _ => return None,
    };
    let (name, version) = split_package_version(package)?;
    Some(LoggedPackageChange {
        at: clock::parse_iso_time(time)?,
        package: name.to_owned(),
        to: stays.then(|| version.to_owned()),
    })
}

/// Splits `openssl-1:3.2.2-6.el9.x86_64` into `openssl` and `1:3.2.2-6.el9`.
fn split_package_version(package: &str) -> Option<(&str, &str)> {
    let plain = match package.rsplit_once('.') {
        Some((plain, end)) if ARCHITECTURES.contains(&end) => plain,
        _ => package,
    };
    let release = plain.rfind('-')?;
    let version = plain[..release].rfind('-')?;
    Some((&plain[..version], &plain[version + 1..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    const COMMANDS: &str = include_str!("../../../tests/samples/culprit/dnf.log");
    const PACKAGES: &str = include_str!("../../../tests/samples/culprit/dnf.rpm.log");

    #[test]
    fn dnf_commands_are_matched_with_their_package_changes() {
        let change =
            |change: &LoggedPackageChange| format!("{}={}", change.package, change.to.as_deref().unwrap_or("gone"));
        let told = parse_logs(COMMANDS, PACKAGES).into_iter().map(|run| {
            let changes: Vec<String> = run.changes.iter().map(change).collect();
            format!(
                "{} `{}` {}",
                clock::format_time(run.began),
                run.command.as_deref().unwrap_or("-"),
                changes.join(" ")
            )
        });
        insta::assert_snapshot!(told.collect::<Vec<_>>().join("\n"));
    }

    #[test]
    fn changes_before_the_first_command_have_no_command() {
        let runs = parse_logs("", PACKAGES);
        assert!(runs.iter().all(|run| run.command.is_none()) && !runs.is_empty());
        assert_eq!(parse_logs(COMMANDS, "garbage\n2026 SUBDEBUG Erase: x\n"), []);
    }

    #[test]
    fn package_names_may_have_hyphens_and_versions_epochs() {
        assert_eq!(split_package_version("kernel-core-5.14.0-503.el9.x86_64"), Some(("kernel-core", "5.14.0-503.el9")));
        assert_eq!(split_package_version("openssl-1:3.2.2-6.el9.x86_64"), Some(("openssl", "1:3.2.2-6.el9")));
        assert_eq!((split_package_version("x"), split_package_version("x-1")), (None, None));
    }
}
