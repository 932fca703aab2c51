//! The parts of this machine that a sandbox could change: files, kernel settings, services with their processes, users,
//! groups, mounts.

use std::collections::BTreeMap;
use std::process::Command;

/// Everything that is compared, by part.
pub struct Machine {
    parts: BTreeMap<&'static str, BTreeMap<String, String>>,
}

/// Path, then type, mode, owner, size and ctime, which no program can set back.
const FILES: &str = r"find /etc /usr /var/lib /opt /srv /home -xdev -printf '%p\t%y %m %U %G %s %C@\n' 2>/dev/null; \
    find /root -maxdepth 1 -mindepth 1 -printf '%p\t%y %m\n' 2>/dev/null";
/// Writable settings, except those of network devices, which appear and disappear with the devices.
const KERNEL: &str = r"find /proc/sys -type f -perm -u+w ! -path '/proc/sys/net/*/conf/*' ! -path '/proc/sys/net/*/neigh/*' \
    ! -name ns_last_pid ! -path '*/fs/binfmt_misc/*' -exec grep -H '' {} + 2>/dev/null | sed 's/:/\t/'";
const UNITS: &str = r"[ ! -d /run/systemd/system ] || systemctl list-units --all --plain --no-legend --type=service | \
    while read -r u x; do printf '%s\t%s\n' $u $(systemctl show -p InvocationID,ExecMainStartTimestampMonotonic --value $u | tr -d '\n'); done";
/// Excludes mounts below `/var/cache`: they belong to the tests on real hosts, which may run at the same time.
const NAMES: &str = r#"printf 'host\t%s\n' $(uname -n); getent passwd | sed 's/:/\t/'; getent group | sed 's/:/\t/'; \
    awk '$5 !~ "^/var/cache/" {print $5 "\t" $4}' /proc/self/mountinfo"#;
impl Machine {
    pub fn look() -> Self {
        let parts = [("files", FILES), ("kernel", KERNEL), ("units", UNITS), ("names", NAMES)];
        Self { parts: parts.into_iter().map(|(name, code)| (name, listing(code))).collect() }
    }

    /// Returns the snapshot with a false entry: a comparison with it must fail.
    pub fn with_a_lie(mut self, part: &'static str) -> Self {
        self.parts.get_mut(part).unwrap().insert("no such thing".into(), "here".into());
        self
    }

    /// Fails with the entries that were removed, added or changed.
    #[track_caller]
    pub fn is_unchanged(&self) {
        let now = Self::look();
        for (part, before) in &self.parts {
            assert!(!before.is_empty() || *part == "units", "no entries of {part}");
            let after = &now.parts[part];
            let moved = |(name, value): &(&String, &String)| after.get(*name) != Some(value);
            let changed: Vec<_> = before.iter().filter(moved).take(10).collect();
            let new: Vec<_> = after.keys().filter(|name| !before.contains_key(*name)).take(10).collect();
            assert!(changed.is_empty() && new.is_empty(), "{part}: changed {changed:#?}, new {new:#?}");
        }
    }
}

fn listing(code: &str) -> BTreeMap<String, String> {
    let output = Command::new("sh").args(["-c", code]).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.lines().filter_map(|line| line.split_once('\t')).map(|(a, b)| (a.to_owned(), b.to_owned())).collect()
}
