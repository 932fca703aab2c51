//! Classifies the error output of an `ssh` that could not connect.

use super::jump_host::JumpHost;
use super::{ConnectionTarget, TransportError, TransportErrorKind};
use std::borrow::Cow;

/// The logs of a failed `ssh`.
pub(super) struct SshFailureLogs<'a> {
    /// Its own log (`-E`).
    pub log: &'a str,
    /// Its stderr: what the host printed during the login; without a log, errors of ssh.
    pub stderr: &'a str,
    /// The log of the jump hosts that forge put before it.
    pub jumps: &'a str,
    /// The file of host keys that ssh uses for the host with an unknown key, if forge asked.
    pub known_hosts: Option<&'a str>,
}

/// Returns why `ssh` did not connect. Errors of a jump host take precedence over those of the connection through it,
/// which only sees that no data arrives.
pub(super) fn diagnose_failure(failure: &SshFailureLogs<'_>, target: &ConnectionTarget) -> TransportError {
    TransportError { address: Some(target.address.clone()), ..classify_failure(failure, target) }
}

fn classify_failure(failure: &SshFailureLogs<'_>, target: &ConnectionTarget) -> TransportError {
    let said = if failure.log.trim().is_empty() { failure.stderr } else { failure.log };
    match find_error_kind(said).unwrap_or(TransportErrorKind::Connect) {
        TransportErrorKind::Dropped | TransportErrorKind::ConnectTimeout | TransportErrorKind::Connect
            if !failure.jumps.trim().is_empty() =>
        {
            jump_error(failure, target)
        }
        TransportErrorKind::Dropped if is_login_refusal(failure) => refusal_error(failure, target),
        TransportErrorKind::Dropped if said.contains(NO_PEER) => proxy_error(target).with_output(said.as_bytes()),
        kind => describe_error(kind, said, failure.known_hosts, target).with_output(said.as_bytes()),
    }
}

/// Reports whether the host printed something and then closed the connection: sshd shows the reason of PAM, such as an
/// expired account or `/etc/nologin`, and closes. Limits and filters close before anything can be printed.
fn is_login_refusal(failure: &SshFailureLogs<'_>) -> bool {
    let is_before_login = failure.log.contains("_exchange_identification");
    !is_before_login && !failure.stderr.trim().is_empty() && !failure.log.is_empty()
}

fn refusal_error(failure: &SshFailureLogs<'_>, target: &ConnectionTarget) -> TransportError {
    let message = format!("`{}` closed the connection during the login of {}", target.address, target.user_name());
    // A banner, and an sshd that restarts, look alike: it is tried again.
    TransportError::new(TransportErrorKind::Dropped, message)
        .hint("check the account on the host (`chage -l`), `/etc/nologin`, and the log of sshd")
        .with_output(failure.stderr.as_bytes())
}

/// Returns the name of the host whose key is unknown, as ssh logs it, without a port.
pub(super) fn find_unknown_key_name<'a>(log: &'a str, jumps: &'a str) -> Option<&'a str> {
    let name = [log, jumps].into_iter().find_map(find_key_name)?;
    Some(name.trim_start_matches('[').split(']').next().unwrap_or(name))
}

/// Returns the name of the host whose key is unknown. The log may also have texts of the host, and the name becomes part
/// of a command that people copy: a name with other characters is none of ssh.
fn find_key_name(log: &str) -> Option<&str> {
    let name = text_between(log, "host key is known for ", " and you")?;
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._:%[]-".contains(&byte);
    (!name.starts_with('-') && name.bytes().all(is_plain)).then_some(name)
}

/// ssh's name for the peer when it connects through a proxy command.
const NO_PEER: &str = "UNKNOWN port 65535";

fn jump_error(failure: &SshFailureLogs<'_>, target: &ConnectionTarget) -> TransportError {
    let said = failure.jumps;
    let inner = find_error_kind(said).unwrap_or(TransportErrorKind::Connect);
    let words = describe_error(inner, said, failure.known_hosts, target);
    let why = match inner {
        TransportErrorKind::HostKeyUnknown | TransportErrorKind::HostKeyChanged => words.message,
        TransportErrorKind::Auth => "no key was accepted".to_owned(),
        TransportErrorKind::Dns => "a host name on the way does not resolve".to_owned(),
        TransportErrorKind::Refused => "a connection on the way was refused".to_owned(),
        TransportErrorKind::NoRoute => "no route".to_owned(),
        TransportErrorKind::ConnectTimeout => "no answer".to_owned(),
        _ => "the connection was closed".to_owned(),
    };
    let message = format!("the connection through jump host `{}` failed: {why}", target.jump.join(","));
    let mut error = TransportError::new(TransportErrorKind::Jump, message);
    error.hint = words.hint.filter(|_| inner != TransportErrorKind::Dns && inner != TransportErrorKind::Refused);
    error.retryable = words.retryable;
    error.with_output(said.as_bytes())
}

/// The error of a `ProxyJump` or `ProxyCommand` in the user's configuration, whose output ssh does not pass on.
fn proxy_error(target: &ConnectionTarget) -> TransportError {
    let message = format!("the proxy on the way to `{}` closed the connection", target.address);
    TransportError::new(TransportErrorKind::Jump, message)
        .hint(format!("run `ssh {} true` to see its error output", quote_word(&target.address)))
}

/// Error texts of OpenSSH 7.6 to 10, the most specific first: a log may contain several.
const SSH_MESSAGES: &[(&str, TransportErrorKind)] = &[
    ("REMOTE HOST IDENTIFICATION HAS CHANGED", TransportErrorKind::HostKeyChanged),
    ("REVOKED HOST KEY DETECTED", TransportErrorKind::HostKeyChanged),
    ("host key is known for", TransportErrorKind::HostKeyUnknown),
    ("Host key verification failed", TransportErrorKind::HostKeyUnknown),
    ("Permission denied (", TransportErrorKind::Auth),
    ("Too many authentication failures", TransportErrorKind::Auth),
    ("No supported authentication methods", TransportErrorKind::Auth),
    ("Could not resolve hostname", TransportErrorKind::Dns),
    ("Name or service not known", TransportErrorKind::Dns),
    ("Connection refused", TransportErrorKind::Refused),
    ("No route to host", TransportErrorKind::NoRoute),
    ("Network is unreachable", TransportErrorKind::NoRoute),
    ("Host is down", TransportErrorKind::NoRoute),
    ("Connection timed out", TransportErrorKind::ConnectTimeout),
    ("Operation timed out", TransportErrorKind::ConnectTimeout),
    ("Connection to UNKNOWN port 65535 timed out", TransportErrorKind::ConnectTimeout),
    (" timed out", TransportErrorKind::ConnectTimeout),
    ("Bad configuration option", TransportErrorKind::SshConfig),
    ("bad configuration option", TransportErrorKind::SshConfig),
    ("Bad owner or permissions on", TransportErrorKind::SshConfig),
    ("Can't open user config file", TransportErrorKind::SshConfig),
    ("terminating,", TransportErrorKind::SshConfig),
    ("hostname contains invalid characters", TransportErrorKind::SshConfig),
    ("Unable to negotiate with", TransportErrorKind::Connect),
    ("kex_exchange_identification", TransportErrorKind::Dropped),
    ("Connection closed by", TransportErrorKind::Dropped),
    ("Connection reset by", TransportErrorKind::Dropped),
    ("Broken pipe", TransportErrorKind::Dropped),
];

fn find_error_kind(said: &str) -> Option<TransportErrorKind> {
    SSH_MESSAGES.iter().find(|(saying, _)| said.contains(saying)).map(|(_, kind)| *kind)
}

fn describe_error(
    kind: TransportErrorKind,
    said: &str,
    known_hosts: Option<&str>,
    target: &ConnectionTarget,
) -> TransportError {
    let new = |message: String| TransportError::new(kind, message);
    let address = &target.address;
    match kind {
        TransportErrorKind::HostKeyUnknown => unknown_key_error(said, known_hosts, target),
        TransportErrorKind::HostKeyChanged => changed_key_error(said, target),
        TransportErrorKind::Auth => new(format!("the host accepted no key of {}", target.user_name()))
            .hint("add the public key to the user's `authorized_keys`, load the key into the agent, or name it as `connect.identity`"),
        TransportErrorKind::Dns => {
            let mut error = new(format!("host name `{address}` does not resolve"))
                .hint("set the host's `address`, or check DNS on this machine");
            error.retryable = said.contains("Temporary failure");
            error
        }
        TransportErrorKind::Refused => new(format!("`{address}` refused the connection: nothing listens on port {}", format_port(target)))
            .hint("check that sshd is running there, and check `connect.port`"),
        TransportErrorKind::NoRoute => new(format!("no route to `{address}`")),
        TransportErrorKind::ConnectTimeout => connect_timeout_error(target),
        TransportErrorKind::SshConfig => new("`ssh` rejected its configuration".to_owned())
            .hint(format!("run `ssh {address} true` to see its error output")),
        TransportErrorKind::Dropped => new(format!("`{address}` closed the connection before the login"))
            .hint("sshd may be starting, at its connection limit (`MaxStartups`), or blocking this machine"),
        _ => new(format!("`ssh` could not connect to `{address}`")),
    }
}

/// Returns the error for a connection that timed out.
pub(super) fn connect_timeout_error(target: &ConnectionTarget) -> TransportError {
    let seconds = target.connect_timeout().as_secs_f64();
    TransportError::new(
        TransportErrorKind::ConnectTimeout,
        format!("`{}` did not answer within {seconds} s", target.address),
    )
}

fn format_port(target: &ConnectionTarget) -> String {
    target.port.map_or_else(|| "22 (or the one in the ssh configuration)".to_owned(), |port| port.to_string())
}

/// Parses `No ED25519 host key is known for [10.0.0.1]:2222 and you have requested strict checking.`
fn unknown_key_error(said: &str, known_hosts: Option<&str>, target: &ConnectionTarget) -> TransportError {
    let name = find_key_name(said).unwrap_or(&target.address);
    let error = TransportError::new(TransportErrorKind::HostKeyUnknown, format!("unknown host key of `{name}`"));
    let file = match (&target.known_hosts, known_hosts) {
        (Some(declared), _) => quote_word(declared.as_str()),
        (None, Some(nowhere @ ("/dev/null" | "none"))) => {
            return error.hint(format!(
                "the ssh configuration keeps no host keys (`UserKnownHostsFile {nowhere}`): name a file as \
                 `connect.known_hosts`"
            ));
        }
        // A quoted `~` would be the name of a folder.
        (None, Some(file)) if !file.starts_with("~/") => quote_word(file),
        (None, found) => found.unwrap_or("~/.ssh/known_hosts").to_owned(),
    };
    let bare = name.trim_start_matches('[').split(']').next().unwrap_or(name);
    let behind = target.jump.first().is_some_and(|first| JumpHost::parse(first).host != bare);
    let add = match behind {
        false => format!("ssh-keyscan {} >> {file}", keyscan_arguments(name)),
        true => format!("ssh -J {} {}", target.jump.join(","), target.address),
    };
    error.hint(format!("verify its fingerprint and add it with `{add}`, or set `host_key: accept_new`"))
}

/// Converts `[10.0.0.1]:2222` to `-p 2222 10.0.0.1` for ssh-keyscan.
fn keyscan_arguments(name: &str) -> String {
    match name.strip_prefix('[').and_then(|inner| inner.split_once("]:")) {
        Some((host, port)) => format!("-p {port} {host}"),
        None => name.to_owned(),
    }
}

/// Parses `Offending ED25519 key in /root/.ssh/known_hosts:3` and `Host key for [10.0.0.1]:2222 has changed and …`.
fn changed_key_error(said: &str, target: &ConnectionTarget) -> TransportError {
    let name = text_between(said, "Host key for ", " has changed").unwrap_or(&target.address);
    let new = |message| TransportError::new(TransportErrorKind::HostKeyChanged, message);
    let offending = said.lines().find_map(|line| {
        let place = line.strip_prefix("Offending ")?.split_once(" in ")?.1.trim_end();
        place.rsplit_once(':').filter(|(_, number)| number.parse::<u32>().is_ok())
    });
    match offending {
        Some((file, line)) => new(format!("the host key of `{name}` has changed: line {line} of `{file}` has a different key"))
            .hint(format!("if the host was reinstalled, remove the old key with `ssh-keygen -f {} -R {}`; otherwise this may be a man-in-the-middle attack", quote_word(file), quote_word(name))),
        None => new(format!("the host key of `{name}` has changed or is revoked")),
    }
}

/// Returns `text` quoted as one word of a command that a person copies.
fn quote_word(text: &str) -> String {
    shlex::try_quote(text).map_or_else(|_| text.to_owned(), Cow::into_owned)
}

fn text_between<'a>(text: &'a str, before: &str, after: &str) -> Option<&'a str> {
    let rest = &text[text.find(before)? + before.len()..];
    Some(&rest[..rest.find(after)?])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn diagnose_logs(log: &str, jumps: &str) -> TransportError {
        let jump = if jumps.is_empty() { vec![] } else { vec!["me@bastion".to_owned(), "inner".to_owned()] };
        let target =
            ConnectionTarget { address: "n1".into(), user: Some("root".into()), jump, ..ConnectionTarget::default() };
        diagnose_failure(&SshFailureLogs { log, stderr: "", jumps, known_hosts: None }, &target)
    }

    fn diagnose_login(log: &str, stderr: &str, known_hosts: Option<&str>) -> TransportError {
        let target = ConnectionTarget { address: "n1".into(), user: Some("deploy".into()), ..Default::default() };
        diagnose_failure(&SshFailureLogs { log, stderr, jumps: "", known_hosts }, &target)
    }

    /// Recorded from OpenSSH 9.2 on Debian 12: an account that `chage -E` let expire.
    #[test]
    fn reason_that_the_host_prints_during_the_login_is_kept() {
        let closed = "Connection closed by 10.0.0.1 port 22\r\n";
        let printed = "Your account has expired; please contact your system administrator.\n";
        let error = diagnose_login(closed, printed, None);
        assert_eq!((error.kind, error.retryable), (TransportErrorKind::Dropped, true));
        assert_eq!(error.message, "`n1` closed the connection during the login of `deploy`");
        assert_eq!(error.said.unwrap().raw(), printed.trim());
        assert!(error.hint.unwrap().contains("`chage -l`"));
        assert_eq!(diagnose_login(closed, "", None).kind, TransportErrorKind::Dropped);
        let limit = format!("kex_exchange_identification: Connection closed by remote host\r\n{closed}");
        assert_eq!(diagnose_login(&limit, "", None).kind, TransportErrorKind::Dropped);
    }

    #[test]
    fn banner_of_a_host_does_not_decide_the_error() {
        let denied = "deploy@n1: Permission denied (publickey).\r\n";
        let error = diagnose_login(denied, "Connection refused is what you get\n", None);
        assert_eq!(error.kind, TransportErrorKind::Auth);
        assert_eq!(error.said.unwrap().raw(), denied.trim());
        let local = diagnose_login("", "hostname contains invalid characters\n", None);
        assert_eq!(local.kind, TransportErrorKind::SshConfig, "without a log, stderr has the errors of ssh");
    }

    #[test]
    fn unknown_host_key_hint_names_the_file_that_ssh_uses() {
        let log = "No ED25519 host key is known for n1 and you have requested strict checking.\r\n";
        assert_eq!(find_unknown_key_name(log, ""), Some("n1"));
        let hint = |file| diagnose_login(log, "", file).hint.unwrap();
        assert!(hint(None).contains("`ssh-keyscan n1 >> ~/.ssh/known_hosts`"));
        assert!(hint(Some("~/.ssh/known_hosts")).contains("`ssh-keyscan n1 >> ~/.ssh/known_hosts`"));
        assert!(hint(Some("/srv/a b")).contains("`ssh-keyscan n1 >> '/srv/a b'`"));
        let none = "the ssh configuration keeps no host keys (`UserKnownHostsFile /dev/null`): name a file as \
                    `connect.known_hosts`";
        assert_eq!(hint(Some("/dev/null")), none);
    }

    /// Recorded from OpenSSH 9.2 on Debian 12.
    const CHANGED: &str = "@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@\r\n\
        @    WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!     @\r\n\
        Add correct host key in /root/.ssh/known_hosts to get rid of this message.\r\n\
        Offending ED25519 key in /root/.ssh/known_hosts:3\r\n\
        Host key for [10.0.0.1]:2222 has changed and you have requested strict checking.\r\n\
        Host key verification failed.\r\n";

    #[test]
    fn changed_host_key_error_names_the_known_hosts_line() {
        let error = diagnose_logs(CHANGED, "");
        assert_eq!(error.kind, TransportErrorKind::HostKeyChanged);
        assert_eq!(
            error.message,
            "the host key of `[10.0.0.1]:2222` has changed: line 3 of `/root/.ssh/known_hosts` has a different key"
        );
        assert_eq!(
            error.hint.unwrap(),
            "if the host was reinstalled, remove the old key with `ssh-keygen -f /root/.ssh/known_hosts \
             -R '[10.0.0.1]:2222'`; otherwise this may be a man-in-the-middle attack"
        );
    }

    #[test]
    fn unknown_host_key_hint_shows_how_to_add_it() {
        let log = "No ED25519 host key is known for [10.0.0.1]:2222 and you have requested strict checking.\r\n\
                   Host key verification failed.\r\n";
        let error = diagnose_logs(log, "");
        assert_eq!((error.kind, error.retryable), (TransportErrorKind::HostKeyUnknown, false));
        assert_eq!(error.message, "unknown host key of `[10.0.0.1]:2222`");
        assert_eq!(
            error.hint.unwrap(),
            "verify its fingerprint and add it with `ssh-keyscan -p 2222 10.0.0.1 >> ~/.ssh/known_hosts`, or set \
             `host_key: accept_new`"
        );
    }

    #[test]
    fn ssh_messages_are_classified() {
        use TransportErrorKind as K;
        let cases = [
            ("root@n1: Permission denied (publickey,password).\r\n", K::Auth, false),
            ("Received disconnect from 10.0.0.1 port 22:2: Too many authentication failures\r\n", K::Auth, false),
            ("ssh: Could not resolve hostname n1: Name or service not known\r\n", K::Dns, false),
            ("ssh: Could not resolve hostname n1: Temporary failure in name resolution\r\n", K::Dns, true),
            ("ssh: connect to host n1 port 22: Connection refused\r\n", K::Refused, true),
            ("ssh: connect to host n1 port 22: No route to host\r\n", K::NoRoute, true),
            ("ssh: connect to host n1 port 22: Connection timed out\r\n", K::ConnectTimeout, true),
            (
                "Connection timed out during banner exchange\r\nConnection to 10.0.0.1 port 22 timed out\r\n",
                K::ConnectTimeout,
                true,
            ),
            ("kex_exchange_identification: read: Connection reset by peer\r\n", K::Dropped, true),
            (
                "kex_exchange_identification: Connection closed by remote host\r\nConnection closed by 10.0.0.1 port 22\r\n",
                K::Dropped,
                true,
            ),
            (
                "/root/x: line 1: Bad configuration option: hostnmae\r\n/root/x: terminating, 1 bad configuration options\r\n",
                K::SshConfig,
                false,
            ),
            ("hostname contains invalid characters\n", K::SshConfig, false),
            (
                "Unable to negotiate with 10.0.0.1 port 22: no matching host key type found. Their offer: ssh-dss\r\n",
                K::Connect,
                false,
            ),
            ("something new\r\n", K::Connect, false),
        ];
        for (said, kind, retryable) in cases {
            let error = diagnose_logs(said, "");
            assert_eq!((error.kind, error.retryable), (kind, retryable), "{said}");
            assert_eq!(error.said.unwrap().raw(), said.trim());
        }
    }

    #[test]
    fn jump_host_error_takes_precedence_over_the_target_error() {
        let log = "kex_exchange_identification: Connection closed by remote host\r\nConnection closed by UNKNOWN port 65535\r\n";
        let error = diagnose_logs(log, "me@bastion: Permission denied (publickey).\r\n");
        assert_eq!((error.kind, error.retryable), (TransportErrorKind::Jump, false));
        assert_eq!(error.message, "the connection through jump host `me@bastion,inner` failed: no key was accepted");
        let error =
            diagnose_logs(log, "No ED25519 host key is known for bastion and you have requested strict checking.\r\n");
        assert_eq!(
            error.message,
            "the connection through jump host `me@bastion,inner` failed: unknown host key of `bastion`"
        );
        assert!(error.hint.unwrap().contains("`ssh-keyscan bastion >> ~/.ssh/known_hosts`"));
        let error =
            diagnose_logs(log, "No ED25519 host key is known for inner and you have requested strict checking.\r\n");
        assert!(error.hint.unwrap().contains("`ssh -J me@bastion,inner n1`"));
        assert_eq!(diagnose_logs(log, "").message, "the proxy on the way to `n1` closed the connection");
        let refused = "root@n1: Permission denied (publickey).\r\n";
        assert_eq!(diagnose_logs(refused, "some warning").kind, TransportErrorKind::Auth);
    }
}
