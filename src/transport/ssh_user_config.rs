//! Timeouts from the user's own ssh configuration, used if the inventory sets none.

use super::ConnectionTarget;
use super::jump_host::JumpHost;
use super::ssh_config_files::read_for_all_hosts;
use super::ssh_program::ssh_command;
use std::process::Stdio;
use std::time::Duration;

/// Timeout of `ssh -G`; `Match exec` and canonical names can delay it.
const QUERY_LIMIT: Duration = Duration::from_secs(10);

/// Connect timeouts, and whether the user sets the keepalive.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ConnectTimeouts {
    /// For the host itself.
    pub host: Duration,
    /// For each declared jump host, first hop first.
    pub jumps: Vec<Duration>,
    /// Whether the user's configuration sets `ServerAliveInterval` for the host.
    pub own_keepalive: bool,
}

impl ConnectTimeouts {
    /// Returns the longest of the timeouts.
    pub(super) fn longest_timeout(&self) -> Duration {
        self.jumps.iter().copied().fold(self.host, Duration::max)
    }
}

/// Settings of the configuration for one host; `None` if unset.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct UserSettings {
    connect: Option<Duration>,
    keepalive: Option<u64>,
}

/// Returns the timeouts for `target`: the declared one, else those of the user's configuration, else forge's default.
///
/// ssh uses the first value it finds, and options precede files: a default of forge's cannot be an option if the user's
/// file has a value. Nor can it follow in a file of forge's that includes the user's: ssh refuses to include a file
/// that users other than its owner may write (`/dev/null`, say), though not as `-F`, and resolves relative paths of the
/// system's file in `~/.ssh`. So forge queries ssh, unless the files set the options for all hosts alike.
pub(super) async fn find_timeouts(target: &ConnectionTarget) -> ConnectTimeouts {
    let host =
        query_ssh_config(target, target.user.as_deref(), target.port.map(|port| port.to_string()), &target.address)
            .await;
    let mut jumps = Vec::new();
    for jump in &target.jump {
        jumps.push(find_jump_timeout(target, &JumpHost::parse(jump)).await);
    }
    ConnectTimeouts { host: effective_timeout(target, host), jumps, own_keepalive: host.keepalive.is_some() }
}

async fn find_jump_timeout(target: &ConnectionTarget, jump: &JumpHost<'_>) -> Duration {
    // A declared timeout applies to the whole way: nothing is left to query.
    if !target.timeout.is_zero() {
        return target.timeout;
    }
    effective_timeout(target, query_ssh_config(target, jump.user, jump.port.map(str::to_owned), jump.host).await)
}

fn effective_timeout(target: &ConnectionTarget, user: UserSettings) -> Duration {
    match (target.timeout.is_zero(), user.connect) {
        (true, Some(own)) => own,
        _ => target.connect_timeout(),
    }
}

/// Queries ssh for its effective configuration. No answer counts as unset: the login that follows uses the same
/// configuration and reports its errors.
async fn query_ssh_config(
    target: &ConnectionTarget,
    user: Option<&str>,
    port: Option<String>,
    address: &str,
) -> UserSettings {
    if let Some(values) = read_for_all_hosts(target.config.as_deref(), &["connecttimeout", "serveraliveinterval"]) {
        let [connect, keepalive] = [0, 1].map(|place| values[place].filter(|seconds| *seconds > 0));
        return UserSettings { connect: connect.map(Duration::from_secs), keepalive };
    }
    match print_ssh_config(target, user, port, address).await {
        Some(answer) => parse_ssh_config(&answer),
        None => {
            tracing::debug!(address, "`ssh -G` gave no answer");
            UserSettings::default()
        }
    }
}

/// Returns the first file of user's host keys that ssh uses for `name`; `None` if ssh does not answer. `name` may be the
/// one of the target or of a jump host.
pub(super) async fn find_known_hosts_file(target: &ConnectionTarget, name: &str) -> Option<String> {
    let is_jump = target.jump.iter().any(|jump| JumpHost::parse(jump).host == name);
    let address = if is_jump { name } else { &target.address };
    parse_known_hosts_file(&print_ssh_config(target, None, None, address).await?)
}

/// The line lists several files, separated by blanks, which a name may contain too.
fn parse_known_hosts_file(answer: &str) -> Option<String> {
    let files = answer.lines().find_map(|line| line.strip_prefix("userknownhostsfile "))?;
    files.split_whitespace().next().map(str::to_owned)
}

/// Returns the configuration that ssh would use, one option a line.
async fn print_ssh_config(
    target: &ConnectionTarget,
    user: Option<&str>,
    port: Option<String>,
    address: &str,
) -> Option<String> {
    let mut ssh = ssh_command("ssh", target);
    if let Some(config) = &target.config {
        ssh.arg("-F").arg(config);
    }
    // Debian's ssh sets a keepalive of 300 s itself in batch mode, which would look like the user's.
    ssh.args(["-G", "-o", "BatchMode=no"]);
    user.iter().for_each(|user| {
        ssh.args(["-l", user]);
    });
    port.iter().for_each(|port| {
        ssh.args(["-p", port]);
    });
    ssh.args(["--", address]).stdin(Stdio::null()).kill_on_drop(true);
    match tokio::time::timeout(QUERY_LIMIT, ssh.output()).await {
        Ok(Ok(answer)) if answer.status.success() => Some(String::from_utf8_lossy(&answer.stdout).into_owned()),
        _ => None,
    }
}

/// Parses the output of `ssh -G`. It also prints ssh's own defaults, `none` and 0: they count as unset.
fn parse_ssh_config(answer: &str) -> UserSettings {
    let seconds = |key: &str| {
        let value = answer.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(' '))?;
        value.trim().parse().ok().filter(|seconds: &u64| *seconds > 0)
    };
    UserSettings {
        connect: seconds("connecttimeout").map(Duration::from_secs),
        keepalive: seconds("serveraliveinterval"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ssh_defaults_count_as_unset() {
        let said = |connect: &str, alive: &str| {
            parse_ssh_config(&format!(
                "user root\nconnecttimeout {connect}\nserveralivecountmax 3\nserveraliveinterval {alive}\n"
            ))
        };
        assert_eq!(said("none", "0"), UserSettings::default());
        assert_eq!(said("0", "0"), UserSettings::default());
        assert_eq!(said("77", "5"), UserSettings { connect: Some(Duration::from_secs(77)), keepalive: Some(5) });
        assert_eq!(parse_ssh_config(""), UserSettings::default());
    }

    /// Queries this machine's ssh. The file is writable by other users, which ssh accepts with `-F`.
    #[tokio::test]
    async fn inventory_timeout_overrides_user_config_and_default() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let config = camino::Utf8PathBuf::from_path_buf(folder.path().join("config")).unwrap();
        let text = "Host slow\n  UserKnownHostsFile /srv/keys/known_hosts\n  ConnectTimeout 77\n  ServerAliveInterval 5\nMatch user me\n  ConnectTimeout 33\n";
        std::fs::write(&config, text).unwrap();
        std::fs::set_permissions(&config, std::fs::Permissions::from_mode(0o666)).unwrap();
        let target = |address: &str| ConnectionTarget {
            address: address.into(),
            config: Some(config.clone()),
            ..ConnectionTarget::default()
        };
        let seconds = Duration::from_secs;
        let times = |host, jumps: &[u64], own_keepalive| {
            let jumps = jumps.iter().copied().map(seconds).collect();
            ConnectTimeouts { host: seconds(host), jumps, own_keepalive }
        };

        assert_eq!(
            find_known_hosts_file(&target("slow"), "10.0.0.1").await.as_deref(),
            Some("/srv/keys/known_hosts"),
            "the one of the address as given, which the configuration may rename"
        );
        assert_eq!(find_timeouts(&target("slow")).await, times(77, &[], true));
        assert_eq!(find_timeouts(&target("plain")).await, times(15, &[], false));
        assert_eq!(
            find_timeouts(&ConnectionTarget { user: Some("me".into()), ..target("plain") }).await,
            times(33, &[], false)
        );
        assert_eq!(
            find_timeouts(&ConnectionTarget { timeout: seconds(4), ..target("slow") }).await,
            times(4, &[], true)
        );

        let through = ConnectionTarget { jump: vec!["a".into(), "me@b:2".into(), "slow".into()], ..target("plain") };
        let found = find_timeouts(&through).await;
        assert_eq!(found, times(15, &[15, 33, 77], false));
        assert_eq!(found.longest_timeout(), seconds(77));
        assert_eq!(
            find_timeouts(&ConnectionTarget { timeout: seconds(4), ..through }).await,
            times(4, &[4, 4, 4], false)
        );
        let broken =
            ConnectionTarget { config: Some(folder.path().join("none").to_str().unwrap().into()), ..target("plain") };
        assert_eq!(find_timeouts(&broken).await, times(15, &[], false));
    }
}
