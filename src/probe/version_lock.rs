//! The list of dnf's plugin `versionlock`: which package it holds at which version. Pure.

use super::HoldObstacle;
use super::rpm_order::compare_rpm_versions;
use std::cmp::Ordering;
use toml_edit::{DocumentMut, Item, Table};

/// What the list says about a package.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum VersionLock {
    /// It has no entry.
    None,
    /// Its entries allow the installed versions only, or no version is installed.
    Held,
    /// An entry allows a version that is not installed: dnf installs that one.
    Elsewhere(String),
}

/// What may follow a version in an entry.
const ARCHITECTURES: [&str; 12] = [
    "*",
    "x86_64",
    "noarch",
    "i686",
    "aarch64",
    "ppc64le",
    "s390x",
    "riscv64",
    "i386",
    "i586",
    "armv7hl",
    "loongarch64",
];

/// One entry of the list.
struct LockEntry {
    name: String,
    /// The entry, for people.
    text: String,
    /// The one version that it allows, perhaps followed by an architecture; `None` if it allows others.
    version: Option<String>,
}

/// Returns what a versionlock list says about `name`, of which these versions are installed. The first line of the list is
/// its path.
pub(crate) fn find_version_lock(locks: &str, name: &str, installed: &[&str]) -> VersionLock {
    let bare = name.rsplit_once('.').map_or(name, |(bare, _)| bare);
    let (path, list) = locks.split_once('\n').unwrap_or((locks, ""));
    let entries = match path.ends_with(".toml") {
        true => parse_toml_entries(list),
        false => list.lines().filter_map(parse_entry).collect(),
    };
    let own: Vec<&LockEntry> = entries.iter().filter(|entry| entry.name == name || entry.name == bare).collect();
    let holds = |entry: &&LockEntry| installed.iter().any(|version| entry.allows_only(version));
    // Of packages with several versions at once, such as kernels, entries of removed ones are left. dnf does not go back.
    let is_held = own.iter().any(holds);
    let elsewhere = |entry: &&&LockEntry| !(holds(entry) || is_held && entry.is_older_than(installed));
    match own.iter().find(elsewhere) {
        _ if own.is_empty() => VersionLock::None,
        Some(entry) if !installed.is_empty() => VersionLock::Elsewhere(entry.text.clone()),
        _ => VersionLock::Held,
    }
}

/// Returns why the host cannot hold packages, if its list says so instead of its path.
pub(crate) fn find_hold_obstacle(locks: &str) -> Option<HoldObstacle> {
    let Some(rest) = locks.strip_prefix("off ") else {
        return locks.is_empty().then_some(HoldObstacle::NotInstalled);
    };
    let mut words = rest.split_whitespace().map(str::to_owned);
    let mut word = || words.next().unwrap_or_default();
    Some(HoldObstacle::Disabled { file: word(), key: word(), value: word() })
}

impl LockEntry {
    /// Reports whether the version that the entry allows is older than each of `installed`.
    fn is_older_than(&self, installed: &[&str]) -> bool {
        let Some(locked) = self.version.as_deref() else { return false };
        let bare = locked.rsplit_once('.').filter(|(_, arch)| ARCHITECTURES.contains(arch));
        let locked = bare.map_or(locked, |(version, _)| version);
        installed.iter().all(|version| compare_rpm_versions(locked, version) == Ordering::Less)
    }

    /// Reports whether `installed` is the one version that the entry allows. An entry without an epoch allows any.
    fn allows_only(&self, installed: &str) -> bool {
        let Some(locked) = &self.version else { return false };
        let (epoch, installed) = installed.split_once(':').unwrap_or(("0", installed));
        let (same_epoch, bare) =
            locked.split_once(':').map_or((true, locked.as_str()), |(own, bare)| (own == epoch, bare));
        let rest = bare.strip_prefix(installed);
        let is_arch =
            |rest: &str| rest.is_empty() || rest.strip_prefix('.').is_some_and(|arch| ARCHITECTURES.contains(&arch));
        same_epoch && rest.is_some_and(is_arch)
    }
}

/// Parses `NAME-EPOCH:VERSION-RELEASE.ARCH`. A line that is not of this form locks nothing, and one after `!` excludes.
fn parse_entry(line: &str) -> Option<LockEntry> {
    let line = line.trim();
    let name = line.rsplit_once('-')?.0.rsplit_once('-')?.0;
    let version = &line[name.len() + 1..];
    let before_arch = version.strip_suffix(".*").unwrap_or(version);
    let version = (!before_arch.contains(['*', '?', '['])).then(|| version.to_owned());
    let entry = LockEntry { name: name.to_owned(), text: line.to_owned(), version };
    (!line.starts_with(['#', '!'])).then_some(entry)
}

/// Parses dnf 5's list of packages with conditions. A package with other conditions than one on `evr` may get other
/// versions.
fn parse_toml_entries(list: &str) -> Vec<LockEntry> {
    let Ok(list) = list.parse::<DocumentMut>() else { return Vec::new() };
    let packages = list.get("packages").and_then(Item::as_array_of_tables);
    packages.into_iter().flatten().map(parse_toml_entry).collect()
}

fn parse_toml_entry(package: &Table) -> LockEntry {
    let read = |table: &Table, key: &str| table.get(key).and_then(Item::as_str).unwrap_or_default().to_owned();
    let name = read(package, "name");
    let mut entry = LockEntry { text: name.clone(), name, version: None };
    let conditions = package.get("conditions").and_then(Item::as_array_of_tables);
    for condition in conditions.into_iter().flatten() {
        let [key, comparator, value] = ["key", "comparator", "value"].map(|key| read(condition, key));
        entry.text = format!("{} {key} {comparator} {value}", entry.text);
        if (key.as_str(), comparator.as_str()) == ("evr", "=") {
            entry.version = Some(value);
        }
    }
    entry
}

#[cfg(test)]
mod tests {
    use super::*;

    // origin: field, dnf 4.14 and its plugin versionlock on Debian 12
    fn lock(lines: &str, installed: &[&str]) -> VersionLock {
        find_version_lock(&format!("/etc/dnf/plugins/versionlock.list\n{lines}"), "opensm", installed)
    }

    #[test]
    fn lock_of_another_version_does_not_hold() {
        let elsewhere = |entry: &str| VersionLock::Elsewhere(entry.to_owned());
        let cases: [(&str, &[&str], VersionLock); 16] = [
            ("opensm-0:3.3.24-5.el9.*", &["3.3.24-5.el9"], VersionLock::Held),
            ("opensm-0:3.3.24-5.el9.x86_64", &["3.3.24-5.el9"], VersionLock::Held),
            ("opensm-3.3.24-5.el9.*", &["1:3.3.24-5.el9"], VersionLock::Held),
            ("opensm-0:3.3.24-5.el9.*", &["1:3.3.24-5.el9"], elsewhere("opensm-0:3.3.24-5.el9.*")),
            ("opensm-0:3.3.99-1.*", &["3.3.24-5.el9"], elsewhere("opensm-0:3.3.99-1.*")),
            ("opensm-0:3.3.24-5.el9.*\nopensm-0:3.3.99-1.*", &["3.3.24-5.el9"], elsewhere("opensm-0:3.3.99-1.*")),
            ("opensm-0:3.3.99-1.*\n!opensm-0:3.3.24-5.el9.*", &["3.3.24-5.el9"], elsewhere("opensm-0:3.3.99-1.*")),
            // The release `1` is not the release `1.el9`.
            ("opensm-0:3.3.24-5.el9.x86_64", &["3.3.24-5"], elsewhere("opensm-0:3.3.24-5.el9.x86_64")),
            ("opensm-0:3.3.*-*", &["3.3.24-5.el9"], elsewhere("opensm-0:3.3.*-*")),
            // A lock of each of the versions that are installed in parallel, as `versionlock add` writes them.
            ("opensm-0:1-1.*\nopensm-0:2-1.*", &["1-1", "2-1"], VersionLock::Held),
            ("opensm-0:1-1.*", &["1-1", "2-1"], VersionLock::Held),
            // The first kernel was removed; a later one than the installed ones is not.
            ("opensm-0:1-1.*\nopensm-0:2-1.*\nopensm-0:3-1.x86_64", &["2-1", "3-1"], VersionLock::Held),
            ("opensm-0:2-1.*\nopensm-0:10-1.*", &["1-1", "2-1"], elsewhere("opensm-0:10-1.*")),
            ("opensm-0:3.3.99-1.*", &[], VersionLock::Held),
            ("!opensm-0:3.3.24-5.el9.*\n# opensm-0:3.3.24-5.el9.*", &["3.3.24-5.el9"], VersionLock::None),
            ("opensm-libs-0:3.3.24-5.el9.*", &["3.3.24-5.el9"], VersionLock::None),
        ];
        for (lines, installed, expected) in cases {
            assert_eq!(lock(lines, installed), expected, "{lines} {installed:?}");
        }
    }

    // origin: reconstructed, dnf 5's documentation of versionlock
    #[test]
    fn dnf5_conditions_are_parsed() {
        let lock = |name: &str, installed: &str| {
            let list = "/etc/dnf/versionlock.toml\nversion = \"1.0\"\n[[packages]]\nname = \"nginx\"\ncomment = \"x\"\n\
                        [[packages.conditions]]\nkey = \"evr\"\ncomparator = \"=\"\nvalue = \"1:1.20-1.fc42\"\n\
                        [[packages]]\nname = \"bash\"\n[[packages.conditions]]\nkey = \"evr\"\ncomparator = \"<\"\nvalue = \"6\"\n";
            find_version_lock(list, name, &[installed])
        };
        assert_eq!(lock("nginx", "1:1.20-1.fc42"), VersionLock::Held);
        assert_eq!(lock("nginx", "1:1.21-1.fc42"), VersionLock::Elsewhere("nginx evr = 1:1.20-1.fc42".into()));
        assert_eq!(lock("bash", "5.2-1.fc42"), VersionLock::Elsewhere("bash evr < 6".into()));
        assert_eq!(lock("evr", "1"), VersionLock::None);
    }

    #[test]
    fn missing_and_disabled_plugins_are_told_apart() {
        assert_eq!(find_hold_obstacle(""), Some(HoldObstacle::NotInstalled));
        let (file, key, value) = ("/etc/dnf/dnf.conf".to_owned(), "plugins".to_owned(), "0".to_owned());
        let disabled = HoldObstacle::Disabled { file, key, value };
        assert_eq!(find_hold_obstacle("off /etc/dnf/dnf.conf plugins 0"), Some(disabled));
        assert_eq!(find_hold_obstacle("/etc/dnf/plugins/versionlock.list\n"), None);
    }
}
