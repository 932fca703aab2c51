//! Mount options, in the spelling of fstab and of the kernel.

/// Comparison of a declared option with the current mount.
#[derive(Debug, PartialEq)]
pub(super) enum MountOptionMatch {
    Holds,
    /// The kernel shows this value instead.
    Differs(String),
    /// The kernel shows a share of the memory, such as `size=50%`, in bytes: this value.
    ShownInBytes(String),
    /// The kernel does not show it: the option is for `mount` and systemd, or has its default value.
    NotShown,
}

/// Pairs of a flag and its opposite; the kernel shows the second one only, except for `rw`.
const FLAGS: [(&str, &str); 6] = [
    ("rw", "ro"),
    ("suid", "nosuid"),
    ("dev", "nodev"),
    ("exec", "noexec"),
    ("async", "sync"),
    ("symfollow", "nosymfollow"),
];

/// Options that imply `nosuid`, `nodev` and in some cases `noexec`, unless overridden.
const USER_MOUNT_OPTIONS: [&str; 4] = ["user", "users", "owner", "group"];

/// Policies for access times, of which a mount has exactly one. `relatime` is the kernel's default.
const ATIME: [&str; 3] = ["noatime", "strictatime", "relatime"];

/// Options that the kernel shows under another name.
const RENAMED: [(&str, &str); 1] = [("nfsvers", "vers")];

/// Options of tmpfs that the kernel shows only if they have another value than this one: tmpfs(5).
const TMPFS_DEFAULTS: [(&str, &str); 3] = [("mode", "1777"), ("uid", "0"), ("gid", "0")];

/// Compares `declared` with the effective options of a mount of the type `fstype`.
pub(super) fn match_option(declared: &str, fstype: &str, shown: &[String]) -> MountOptionMatch {
    match (match_shown_option(declared, shown), declared.split_once('=')) {
        (MountOptionMatch::NotShown, Some((key, value))) if fstype == "tmpfs" => {
            match TMPFS_DEFAULTS.iter().find(|(name, _)| *name == key) {
                Some((_, usual)) if is_same_value(key, value, usual) => MountOptionMatch::Holds,
                Some((_, usual)) => MountOptionMatch::Differs(format!("{key}={usual}")),
                None => MountOptionMatch::NotShown,
            }
        }
        (found, _) => found,
    }
}

fn match_shown_option(declared: &str, shown: &[String]) -> MountOptionMatch {
    let has = |option: &str| shown.iter().any(|s| s == option);
    if let Some((good, bad)) = FLAGS.iter().find(|(good, bad)| declared == *good || declared == *bad) {
        return match (declared == *bad, has(bad)) {
            (true, true) | (false, false) => MountOptionMatch::Holds,
            (true, false) => MountOptionMatch::Differs((*good).to_owned()),
            (false, true) => MountOptionMatch::Differs((*bad).to_owned()),
        };
    }
    if ATIME.contains(&declared) {
        let found = ATIME.into_iter().find(|way| has(way)).unwrap_or("strictatime");
        return if found == declared { MountOptionMatch::Holds } else { MountOptionMatch::Differs(found.to_owned()) };
    }
    if has(declared) {
        return MountOptionMatch::Holds;
    }
    match declared.split_once('=') {
        Some((key, value)) => match_key_value(key, value, shown),
        None => MountOptionMatch::NotShown,
    }
}

fn match_key_value(key: &str, value: &str, shown: &[String]) -> MountOptionMatch {
    let key = RENAMED.iter().find(|(old, _)| *old == key).map_or(key, |(_, new)| new);
    let found = shown.iter().find_map(|option| option.strip_prefix(key)?.strip_prefix('='));
    match found {
        None => MountOptionMatch::NotShown,
        // The memory size at mount time is not known.
        Some(found) if value.ends_with('%') => MountOptionMatch::ShownInBytes(format!("{key}={found}")),
        Some(found) if is_same_value(key, value, found) => MountOptionMatch::Holds,
        Some(found) => MountOptionMatch::Differs(format!("{key}={found}")),
    }
}

fn is_same_value(key: &str, one: &str, other: &str) -> bool {
    let by = |read: fn(&str) -> Option<u128>| read(one).is_some_and(|value| Some(value) == read(other));
    one == other || by(parse_bytes) || (key.ends_with("mode") || key.ends_with("mask")) && by(parse_octal)
}

/// Parses a size such as `64m` into bytes.
fn parse_bytes(text: &str) -> Option<u128> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let shift = match text[digits.len()..].to_ascii_lowercase().as_str() {
        "" => 0,
        "k" => 10,
        "m" => 20,
        "g" => 30,
        "t" => 40,
        _ => return None,
    };
    if digits.len() > 1 && digits.starts_with('0') {
        return None;
    }
    digits.parse::<u128>().ok()?.checked_shl(shift)
}

fn parse_octal(text: &str) -> Option<u128> {
    u128::from_str_radix(text, 8).ok()
}

/// Reports whether a remount can change the value of an option. NFS ignores its own in a remount, and tmpfs owner and mode
/// of its root: nfs(5), tmpfs(5).
pub(super) fn can_be_remounted(fstype: &str, option: &str) -> bool {
    let Some((key, _)) = option.split_once('=') else { return true };
    match fstype {
        "nfs" | "nfs4" => false,
        "tmpfs" => !["mode", "uid", "gid"].contains(&key),
        _ => true,
    }
}

/// Returns the restrictions, such as `ro` and `noexec`, that the mount has and no option declares.
pub(super) fn undeclared_restrictions(declared: &[String], shown: &[String]) -> Vec<(&'static str, &'static str)> {
    if declared.iter().any(|option| USER_MOUNT_OPTIONS.contains(&option.as_str())) {
        return Vec::new();
    }
    let said = |option: &&str| declared.iter().any(|d| d == option);
    FLAGS.into_iter().filter(|(good, bad)| shown.iter().any(|s| s == bad) && !said(good) && !said(bad)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn match_shown(declared: &str, shown: &str) -> MountOptionMatch {
        let shown: Vec<String> = shown.split(',').map(str::to_owned).collect();
        match_option(declared, "ext4", &shown)
    }

    #[test]
    fn tmpfs_has_its_defaults_where_the_kernel_shows_none() {
        let compare = |declared, shown: &str| match_option(declared, "tmpfs", &[shown.to_owned()]);
        assert_eq!(compare("mode=01777", "rw"), MountOptionMatch::Holds);
        assert_eq!(compare("mode=0700", "rw"), MountOptionMatch::Differs("mode=1777".into()));
        assert_eq!(compare("mode=0700", "mode=700"), MountOptionMatch::Holds);
        assert_eq!(compare("uid=5", "rw"), MountOptionMatch::Differs("uid=0".into()));
        assert_eq!(compare("size=5", "rw"), MountOptionMatch::NotShown);
        assert!(!can_be_remounted("tmpfs", "mode=0700") && can_be_remounted("tmpfs", "size=1g"));
        assert!(!can_be_remounted("nfs4", "vers=4.2") && can_be_remounted("nfs4", "ro"));
    }

    #[test]
    fn sizes_and_modes_are_compared_by_value() {
        assert_eq!(match_shown("size=64m", "rw,relatime,size=65536k"), MountOptionMatch::Holds);
        assert_eq!(match_shown("mode=0755", "rw,mode=755"), MountOptionMatch::Holds);
        assert_eq!(match_shown("size=64m", "rw,size=32768k"), MountOptionMatch::Differs("size=32768k".into()));
        let in_bytes = MountOptionMatch::ShownInBytes("size=32768k".into());
        assert_eq!(match_shown("size=50%", "rw,size=32768k"), in_bytes);
        assert_eq!(match_shown("nfsvers=4.2", "rw,vers=4.2"), MountOptionMatch::Holds);
        assert_eq!(match_shown("nfsvers=3", "rw,vers=4.2"), MountOptionMatch::Differs("vers=4.2".into()));
    }

    #[test]
    fn missing_or_opposite_flag_differs() {
        assert_eq!(match_shown("noexec", "rw,noexec"), MountOptionMatch::Holds);
        assert_eq!(match_shown("noexec", "rw"), MountOptionMatch::Differs("exec".into()));
        assert_eq!(match_shown("exec", "rw,noexec"), MountOptionMatch::Differs("noexec".into()));
        assert_eq!(match_shown("rw", "ro"), MountOptionMatch::Differs("ro".into()));
        assert_eq!(match_shown("async", "rw"), MountOptionMatch::Holds);
        assert_eq!(match_shown("noatime", "rw,relatime"), MountOptionMatch::Differs("relatime".into()));
        assert_eq!(match_shown("strictatime", "rw"), MountOptionMatch::Holds);
        assert_eq!(match_shown("relatime", "rw,noatime"), MountOptionMatch::Differs("noatime".into()));
    }

    #[test]
    fn options_absent_from_the_mount_table_are_not_shown() {
        for option in ["defaults", "nofail", "x-systemd.automount", "_netdev", "acl", "mode=1777"] {
            assert_eq!(match_shown(option, "rw,relatime"), MountOptionMatch::NotShown, "{option}");
        }
    }

    #[test]
    fn undeclared_restrictions_are_listed() {
        let shown: Vec<String> = ["ro", "noexec", "relatime", "size=1k"].map(str::to_owned).into();
        assert_eq!(undeclared_restrictions(&[], &shown), [("rw", "ro"), ("exec", "noexec")]);
        assert_eq!(undeclared_restrictions(&["ro".into(), "exec".into()], &shown), []);
        assert_eq!(undeclared_restrictions(&["users".into()], &shown), []);
    }
}
