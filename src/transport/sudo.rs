//! Classifies the error output of a sudo that did not start a shell.

use super::{ErrorKind, Sudo, Target, TransportError};

/// Returns why sudo did not start a shell, from the output before one would have started; `None` if the output does not
/// look like sudo's.
pub(super) fn refusal(said: &[u8], target: &Target) -> Option<TransportError> {
    if target.sudo == Sudo::None {
        return None;
    }
    let text = String::from_utf8_lossy(said);
    let found = SAYINGS.iter().find(|(saying, _)| text.contains(saying)).map(|(_, why)| *why)?;
    Some(error(found, target).said(said))
}

/// Returns the error for a password that was requested twice.
pub(super) fn wrong_password(target: &Target) -> TransportError {
    error(Why::WrongPassword, target)
}

#[derive(Clone, Copy)]
enum Why {
    WrongPassword,
    NeedsPassword,
    NeedsTerminal,
    Denied,
    Missing,
    Expired,
}

/// Error texts of sudo 1.8 to 1.9 and sudo-rs 0.2 under `LC_ALL=C`, the most specific first.
const SAYINGS: &[(&str, Why)] = &[
    ("incorrect password attempt", Why::WrongPassword),
    ("incorrect authentication attempt", Why::WrongPassword),
    ("Sorry, try again", Why::WrongPassword),
    ("Authentication failed, try again", Why::WrongPassword),
    ("is not in the sudoers file", Why::Denied),
    ("may not run sudo", Why::Denied),
    ("is not allowed to", Why::Denied),
    ("I'm afraid I can't do that", Why::Denied),
    ("interactive authentication is required", Why::NeedsPassword),
    ("account validation failure", Why::Expired),
    ("account or password is expired", Why::Expired),
    ("Account expired", Why::Expired),
    ("must have a tty", Why::NeedsTerminal),
    ("a password is required", Why::NeedsPassword),
    ("a terminal is required", Why::NeedsPassword),
    ("no password was provided", Why::NeedsPassword),
    ("sudo: not found", Why::Missing),
    ("sudo: command not found", Why::Missing),
    ("'sudo': No such file", Why::Missing),
    ("sudo: No such file", Why::Missing),
    ("sudo’: No such file", Why::Missing),
    ("must be owned by uid 0", Why::Missing),
    ("effective uid is not 0", Why::Missing),
];

fn error(why: Why, target: &Target) -> TransportError {
    let user = target.user_name();
    let (kind, message, hint) = match why {
        Why::WrongPassword => (
            ErrorKind::SudoPassword,
            format!("sudo refused the password for {user}"),
            "check the secret that `connect.sudo` names",
        ),
        Why::NeedsPassword => (
            ErrorKind::SudoNeedsPassword,
            format!("sudo requires a password for {user}"),
            "set `sudo: { password: … }` in `connect`, or allow NOPASSWD in sudoers",
        ),
        Why::NeedsTerminal => (
            ErrorKind::SudoDenied,
            format!("sudo requires a terminal for {user}"),
            "remove `Defaults requiretty` from sudoers for this user",
        ),
        Why::Denied => (
            ErrorKind::SudoDenied,
            format!("sudo does not allow {user} to become root"),
            "allow the user to run any command as root in sudoers, or connect as another user",
        ),
        Why::Expired => (
            ErrorKind::SudoDenied,
            format!("the account or password of {user} has expired on the host"),
            "renew it on the host",
        ),
        Why::Missing => (
            ErrorKind::SudoMissing,
            "the host has no working sudo".to_owned(),
            "install sudo, or connect as root without `sudo`",
        ),
    };
    TransportError::new(kind, message).hint(hint)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind_of(said: &str) -> Option<(ErrorKind, String)> {
        let target = Target { user: Some("admin".into()), sudo: Sudo::NoPassword, ..Target::default() };
        refusal(said.as_bytes(), &target).map(|error| (error.kind, error.message))
    }

    #[test]
    fn sudo_is_understood() {
        use ErrorKind as K;
        let cases = [
            ("sudo: a password is required\n", K::SudoNeedsPassword, "sudo requires a password for `admin`"),
            (
                "Sorry, try again.\nforge-0a:\nsudo: no password was provided\nsudo: 1 incorrect password attempt\n",
                K::SudoPassword,
                "sudo refused the password for `admin`",
            ),
            (
                "admin is not in the sudoers file.\nThis incident has been reported to the administrator.\n",
                K::SudoDenied,
                "sudo does not allow `admin` to become root",
            ),
            (
                "Sorry, user admin may not run sudo on n1.\n",
                K::SudoDenied,
                "sudo does not allow `admin` to become root",
            ),
            (
                "Sorry, user admin is not allowed to execute '/usr/bin/sh -c x' as root on n1.\n",
                K::SudoDenied,
                "sudo does not allow `admin` to become root",
            ),
            ("sudo: sorry, you must have a tty to run sudo\n", K::SudoDenied, "sudo requires a terminal for `admin`"),
            ("env: 'sudo': No such file or directory\n", K::SudoMissing, "the host has no working sudo"),
            ("env: sudo: No such file or directory\n", K::SudoMissing, "the host has no working sudo"),
        ];
        for (said, kind, message) in cases {
            assert_eq!(kind_of(said), Some((kind, message.to_owned())), "{said}");
        }
        assert_eq!(kind_of("bash: line 1: fortune: command not found\n"), None);
    }

    #[test]
    fn without_sudo_nothing_is_sudos_fault() {
        assert_eq!(refusal(b"sudo: a password is required", &Target::default()), None);
    }
}
