//! Arguments of the `ssh` that holds a connection.

use super::jump_host::JumpHost;
use super::ssh_user_config::ConnectTimeouts;
use super::{ConnectionTarget, HostKeyCheck};
use crate::script::quote_word;
use camino::Utf8Path;
use std::time::Duration;

/// The files of a master, all in its own fresh folder.
#[derive(Clone, Debug)]
pub(super) struct MasterFiles {
    pub socket: String,
    pub log: String,
    /// Its stderr: what a host prints during the login, and errors before the log is open.
    pub stderr: String,
    /// The log of the jump hosts: a master that goes to the background leaves them no stderr.
    pub jump_log: String,
}

/// Returns the arguments of the master.
///
/// The user's configuration stays effective, except for options that would prompt, run commands, forward anything or
/// share the socket.
pub(super) fn master_arguments(
    target: &ConnectionTarget,
    files: &MasterFiles,
    timeouts: &ConnectTimeouts,
    idle_s: u64,
) -> Vec<String> {
    let mut arguments = to_words(&["-M", "-N", "-f", "-S", &files.socket, "-E", &files.log]);
    // ssh prints what a host says during the login only at this level: why an account may not log in, for example.
    arguments.extend(common_arguments(target, timeouts.host, "LogLevel=INFO"));
    if !timeouts.own_keepalive {
        arguments.extend(to_words(&["-o", "ServerAliveInterval=15"]));
    }
    let persist = format!("ControlPersist={idle_s}");
    for option in [
        persist.as_str(),
        "ClearAllForwardings=yes",
        "ForwardAgent=no",
        "ForwardX11=no",
        "PermitLocalCommand=no",
        "RemoteCommand=none",
        "RequestTTY=no",
    ] {
        arguments.extend(to_words(&["-o", option]));
    }
    if let Some(identity) = &target.identity {
        arguments.extend(to_words(&["-o", "IdentitiesOnly=yes", "-i", identity.as_str()]));
    }
    if let Some(user) = &target.user {
        arguments.extend(to_words(&["-l", user]));
    }
    if let Some(port) = target.port {
        arguments.extend(to_words(&["-p", &port.to_string()]));
    }
    let way: Vec<_> = target.jump.iter().map(String::as_str).zip(timeouts.jumps.iter().copied()).collect();
    if let Some(proxy) = proxy_command(target, &files.jump_log, &way) {
        arguments.extend(to_words(&["-o", &format!("ProxyCommand={proxy}")]));
    }
    arguments.extend(to_words(&["--", &target.address]));
    arguments
}

fn to_words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

/// Returns the options that the master and its jump hosts share: no prompts, the same host key policy, the same files.
fn common_arguments(target: &ConnectionTarget, timeout: Duration, log_level: &str) -> Vec<String> {
    let mut arguments = Vec::new();
    if let Some(config) = &target.config {
        arguments.extend(to_words(&["-F", config.as_str()]));
    }
    let policy = match target.host_key {
        HostKeyCheck::Strict => "StrictHostKeyChecking=yes",
        HostKeyCheck::AcceptNew => "StrictHostKeyChecking=accept-new",
    };
    let timeout = format!("ConnectTimeout={}", timeout.as_secs().max(1));
    for option in ["BatchMode=yes", policy, &timeout, "UpdateHostKeys=no", log_level] {
        arguments.extend(to_words(&["-o", option]));
    }
    if let Some(file) = &target.known_hosts {
        arguments.extend(to_words(&["-o", &format!("UserKnownHostsFile={}", quote_option(file))]));
    }
    arguments
}

/// `UserKnownHostsFile` takes a list of files: spaces need quotes, and `%` starts a token.
fn quote_option(file: &Utf8Path) -> String {
    format!("\"{}\"", file.as_str().replace('%', "%%"))
}

/// Returns the `ProxyCommand` that goes through `jumps`, first hop first, each with its timeout. `-J` would pass
/// neither `BatchMode` nor the known hosts to the jump hosts, so that a jump host could prompt on the terminal.
fn proxy_command(target: &ConnectionTarget, log: &str, jumps: &[(&str, Duration)]) -> Option<String> {
    let ((last, timeout), before) = jumps.split_last()?;
    let jump = JumpHost::parse(last);
    let mut arguments = to_words(&["ssh", "-E", log]);
    arguments.extend(common_arguments(target, *timeout, "LogLevel=ERROR"));
    if let Some(identity) = &target.identity {
        arguments.extend(to_words(&["-i", identity.as_str()]));
    }
    if let Some(user) = jump.user {
        arguments.extend(to_words(&["-l", user]));
    }
    if let Some(port) = jump.port {
        arguments.extend(to_words(&["-p", port]));
    }
    if let Some(inner) = proxy_command(target, log, before) {
        arguments.extend(to_words(&["-o", &format!("ProxyCommand={inner}")]));
    }
    // ssh prefixes the command with `exec`. The ssh that reads the text expands it once, so `%` in passed-on parts is
    // doubled.
    let fixed: Vec<String> = arguments.iter().map(|word| quote_word(&word.replace('%', "%%"))).collect();
    Some(format!("{} -W '[%h]:%p' -- {}", fixed.join(" "), quote_word(&jump.host.replace('%', "%%"))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jump_hosts_are_parsed() {
        let read = |text| {
            let JumpHost { user, host, port } = JumpHost::parse(text);
            (user, host, port)
        };
        assert_eq!(read("b"), (None, "b", None));
        assert_eq!(read("me@b:2222"), (Some("me"), "b", Some("2222")));
        assert_eq!(read("ssh://me@[fe80::1]:22"), (Some("me"), "fe80::1", Some("22")));
        assert_eq!(read("fe80::1"), (None, "fe80::1", None));
    }

    #[test]
    fn second_jump_escapes_the_tokens_of_the_first() {
        let way = [("a", Duration::from_secs(7)), ("me@b:2", Duration::from_secs(8))];
        let proxy = proxy_command(&ConnectionTarget::default(), "l", &way).unwrap();
        assert!(proxy.ends_with(" -W '[%h]:%p' -- 'b'"), "{proxy}");
        assert!(proxy.contains(r"-W '\''[%%h]:%%p'\'' -- '\''a'\'''"), "{proxy}");
        assert_eq!(proxy.matches("BatchMode=yes").count(), 2);
        assert_eq!((proxy.matches("ConnectTimeout=7").count(), proxy.matches("ConnectTimeout=8").count()), (1, 1));
    }

    fn master_files() -> MasterFiles {
        MasterFiles { socket: "s".into(), log: "l".into(), stderr: "e".into(), jump_log: "j".into() }
    }

    fn connect_timeouts(own_keepalive: bool) -> ConnectTimeouts {
        ConnectTimeouts { host: Duration::from_secs(9), jumps: Vec::new(), own_keepalive }
    }

    #[test]
    fn a_keepalive_of_the_user_is_not_overridden() {
        let given =
            |own| master_arguments(&ConnectionTarget::default(), &master_files(), &connect_timeouts(own), 60).join(" ");
        assert!(given(false).contains(" ConnectTimeout=9 ") && given(false).contains(" ServerAliveInterval=15 "));
        assert!(given(true).contains(" ConnectTimeout=9 ") && !given(true).contains("ServerAlive"));
    }

    #[test]
    fn an_address_cannot_be_an_option() {
        let target = ConnectionTarget { address: "-oProxyCommand=x".into(), ..ConnectionTarget::default() };
        let arguments = master_arguments(&target, &master_files(), &connect_timeouts(false), 60);
        assert_eq!(arguments[arguments.len() - 2..], ["--".to_owned(), "-oProxyCommand=x".to_owned()]);
    }
}
