//! Guards: the host takes a change back by itself unless a new session confirms it.

/// Seconds after which a guard restores the state before, if its step does not declare another time.
pub const GUARD_DEFAULT_S: u64 = 300;

/// Directories and files that decide who reaches a host and may act there.
const ACCESS_PATHS: [&str; 28] = [
    "/etc/ssh",
    "/etc/default/ssh",
    "/etc/sysconfig/sshd",
    "/etc/sudoers",
    "/etc/sudoers.d",
    "/etc/passwd",
    "/etc/shadow",
    "/etc/nologin",
    "/etc/nsswitch.conf",
    "/etc/pam.d",
    "/etc/security",
    "/etc/environment",
    "/etc/bash.bashrc",
    "/etc/bashrc",
    "/etc/zsh",
    "/etc/zshenv",
    "/etc/shells",
    "/etc/hosts.allow",
    "/etc/hosts.deny",
    "/etc/netplan",
    "/etc/network",
    "/etc/systemd/network",
    "/etc/NetworkManager",
    "/etc/ufw",
    "/etc/default/ufw",
    "/etc/iptables",
    "/etc/sysconfig/iptables",
    "/etc/firewalld",
];

/// Directories that sshd checks before it reads the keys of root. Paths below them do not count.
const HOME_PATHS: [&str; 3] = ["/", "/root", "/home"];

/// Files of an account that its shell reads at each login, also for one command.
const SHELL_FILES: [&str; 4] = [".bashrc", ".zshenv", ".cshrc", ".tcshrc"];

/// The beginning of the paths from which the packet filter is loaded: `/etc/nftables.conf`, `/etc/nftables.d`.
const FILTER_PATHS: &str = "/etc/nftables";

/// Units through which forge reaches a host.
const ACCESS_UNITS: [&str; 13] = [
    "ssh.service",
    "ssh.socket",
    "sshd.service",
    "sshd.socket",
    "networking.service",
    "NetworkManager.service",
    "systemd-networkd.service",
    "nftables.service",
    "firewalld.service",
    "ufw.service",
    "netfilter-persistent.service",
    "iptables.service",
    "ip6tables.service",
];

/// Units that replace the rules of `iptables`.
const IPTABLES_UNITS: [&str; 4] =
    ["ufw.service", "netfilter-persistent.service", "iptables.service", "ip6tables.service"];

/// Units that replace the whole packet filter.
const FILTER_UNITS: [&str; 2] = ["nftables.service", "firewalld.service"];

/// What a step declares about its guard.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StepGuard {
    /// A guard if the change can cut forge off.
    #[default]
    Derived,
    /// No guard.
    Off,
    /// A guard, with its time in seconds.
    After(u64),
}

impl StepGuard {
    /// Returns what the step declares: `5m`, `off`; `None` if it declares nothing.
    pub fn describe(self) -> Option<String> {
        match self {
            Self::Derived => None,
            Self::Off => Some("off".to_owned()),
            Self::After(seconds) => Some(format_guard_time(seconds)),
        }
    }
}

/// What a guard restores if a change is not confirmed. A kind derives it from its differences.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GuardEffect {
    /// Files and links as they were, or nothing; directories keep their content and get their owner and mode back.
    pub paths: Vec<String>,
    /// Units in their former state.
    pub units: Vec<GuardedUnit>,
    /// The packet filter.
    pub tables: GuardedTables,
    /// Whether the step runs again once the files that it applies are restored.
    pub reruns: bool,
    /// Whether the change only lets more in: a new key. It is guarded only if its step declares a guard.
    pub only_admits: bool,
}

/// A unit before a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GuardedUnit {
    /// The name with its type: `ssh.service`.
    pub name: String,
    /// Whether the change starts, stops, restarts or reloads it.
    pub acts: bool,
    /// Whether it ran.
    pub ran: bool,
    /// Whether a reload is enough to read the restored files.
    pub reloads: bool,
    /// Whether it started at boot; `None` if the change does not concern that.
    pub enabled: Option<bool>,
}

/// Tables of the packet filter that a guard restores.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum GuardedTables {
    /// None.
    #[default]
    None,
    /// One table of nftables: `inet cluster`.
    Named(String),
    /// Every table of nftables.
    All,
    /// Every table of `iptables` and `ip6tables`: `nft` cannot load all of their rules.
    Iptables,
}

impl GuardEffect {
    /// Returns the effect of a change that concerns only paths.
    pub fn restore_paths(paths: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self { paths: paths.into_iter().map(Into::into).collect(), ..Self::default() }
    }

    /// Returns the effect of a change of a unit.
    pub fn restore_unit(unit: GuardedUnit) -> Self {
        let tables = match unit.name.as_str() {
            name if unit.acts && FILTER_UNITS.contains(&name) => GuardedTables::All,
            name if unit.acts && IPTABLES_UNITS.contains(&name) => GuardedTables::Iptables,
            _ => GuardedTables::None,
        };
        Self { units: vec![unit], tables, ..Self::default() }
    }

    /// Reports whether the change can cut forge off from the host.
    pub fn concerns_access(&self) -> bool {
        let unit = |unit: &GuardedUnit| unit.acts && is_access_unit(&unit.name);
        self.tables != GuardedTables::None
            || !self.only_admits && self.paths.iter().any(|path| is_access_path(path))
            || self.units.iter().any(unit)
    }

    /// Reports whether there is nothing to restore.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// Reports whether forge reaches hosts through the unit: `ssh.service`.
pub fn is_access_unit(name: &str) -> bool {
    ACCESS_UNITS.contains(&name)
}

/// Reports whether a file below such a path can cut forge off from its host.
pub fn is_access_path(path: &str) -> bool {
    let below = |folder: &str| path.strip_prefix(folder).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    ACCESS_PATHS.iter().any(|folder| below(folder))
        || path.starts_with(FILTER_PATHS)
        || HOME_PATHS.contains(&path)
        || is_home(path)
        || is_shell_file(path)
        || holds_login_keys(path)
}

/// Reports whether sshd reads keys of an account from the path: `~/.ssh`, `~/.ssh/authorized_keys`, and files of such a
/// name at other places.
fn holds_login_keys(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or_default();
    name == ".ssh" || name.starts_with("authorized_keys")
}

fn is_shell_file(path: &str) -> bool {
    let Some((folder, name)) = path.rsplit_once('/') else { return false };
    SHELL_FILES.contains(&name) && (folder == "/root" || is_home(folder))
}

fn is_home(path: &str) -> bool {
    path.strip_prefix("/home/").is_some_and(|name| !name.contains('/'))
}

/// Formats the time of a guard as it is declared: `90s`, `5m`, `1h`.
pub fn format_guard_time(seconds: u64) -> String {
    match seconds {
        hours if hours % 3600 == 0 => format!("{}h", hours / 3600),
        minutes if minutes % 60 == 0 => format!("{}m", minutes / 60),
        seconds => format!("{seconds}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unit(name: &str, acts: bool) -> GuardEffect {
        GuardEffect::restore_unit(GuardedUnit { name: name.into(), acts, ran: true, reloads: false, enabled: None })
    }

    #[test]
    fn paths_of_access_are_recognized_by_whole_names() {
        for path in ["/etc/ssh/sshd_config", "/etc/sudoers", "/etc/sudoers.d/x", "/etc/nftables.conf", "/etc/ssh"] {
            assert!(is_access_path(path), "{path}");
        }
        for path in ["/root/.ssh", "/home/a/.ssh/authorized_keys", "/etc/keys/authorized_keys.root", "/etc/pam.d/sshd"]
        {
            assert!(is_access_path(path), "{path}");
        }
        for path in ["/home", "/home/ann", "/home/ann/.bashrc", "/root/.zshenv", "/etc/bash.bashrc", "/etc/environment"]
        {
            assert!(is_access_path(path), "{path}");
        }
        for path in ["/etc/default/ssh", "/etc/ufw/ufw.conf", "/etc/iptables/rules.v4", "/etc/default/ufw"] {
            assert!(is_access_path(path), "{path}");
        }
        for path in ["/etc/security/limits.d/memlock.conf", "/etc/security/access.conf", "/etc/bashrc"] {
            assert!(is_access_path(path), "{path}");
        }
        for path in [
            "/home/ann/notes",
            "/home/ann/bin/.bashrc.d",
            "/srv/home",
            "/etc/environment.d/a.conf",
            "/etc/skel/.bashrc",
        ] {
            assert!(!is_access_path(path), "{path}");
        }
        for path in ["/root/.ssh/known_hosts", "/root/.sshrc", "/root/notes", "/etc/passwd-", "/srv"] {
            assert!(!is_access_path(path), "{path}");
        }
        for path in ["/etc/sshguard", "/etc/networks", "/etc/motd", "/srv/etc/ssh/x", "/etc/systemd/networkd.conf"] {
            assert!(!is_access_path(path), "{path}");
        }
        assert!(GuardEffect::restore_paths(["/etc/motd", "/etc/netplan/a.yaml"]).concerns_access());
        assert!(!GuardEffect::restore_paths(["/etc/motd", "/etc/hosts"]).concerns_access());
    }

    #[test]
    fn units_of_access_are_guarded_if_they_act() {
        assert!(unit("ssh.service", true).concerns_access());
        assert!(!unit("ssh.service", false).concerns_access(), "only enabled or disabled");
        assert!(!unit("nginx.service", true).concerns_access());
        assert_eq!(unit("nftables.service", true).tables, GuardedTables::All);
        assert_eq!(unit("nftables.service", false).tables, GuardedTables::None);
        assert!(unit("ufw.service", true).concerns_access());
        assert_eq!(unit("ufw.service", true).tables, GuardedTables::Iptables);
    }

    #[test]
    fn guard_time_is_shown_as_declared() {
        let shown = [8, 60, 90, 300, 3600].map(format_guard_time);
        assert_eq!(shown, ["8s", "1m", "90s", "5m", "1h"]);
    }
}
