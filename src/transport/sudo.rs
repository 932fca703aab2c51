//! Classifies the error output of a sudo that did not start a shell.

use super::{ConnectionSudo, ConnectionTarget, TransportError, TransportErrorKind};

/// Returns why sudo did not start a shell, from the output before one would have started; `None` if the output does not
/// look like sudo's.
pub(super) fn find_sudo_refusal(said: &[u8], target: &ConnectionTarget) -> Option<TransportError> {
    if target.sudo == ConnectionSudo::None {
        return None;
    }
    let text = String::from_utf8_lossy(said);
    let found = SUDO_MESSAGES.iter().find(|(saying, _)| text.contains(saying)).map(|(_, why)| *why)?;
    Some(refusal_error(found, target).with_output(said))
}

/// Returns the error for a password that was requested twice.
pub(super) fn wrong_password_error(target: &ConnectionTarget) -> TransportError {
    refusal_error(SudoRefusal::WrongPassword, target)
}

#[derive(Clone, Copy)]
enum SudoRefusal {
    WrongPassword,
    NeedsPassword,
    NeedsTerminal,
    Denied,
    Missing,
    Expired,
}

/// Error texts of sudo 1.8 to 1.9 and sudo-rs 0.2 under `LC_ALL=C`, the most specific first.
const SUDO_MESSAGES: &[(&str, SudoRefusal)] = &[
    ("incorrect password attempt", SudoRefusal::WrongPassword),
    ("incorrect authentication attempt", SudoRefusal::WrongPassword),
    ("Sorry, try again", SudoRefusal::WrongPassword),
    ("Authentication failed, try again", SudoRefusal::WrongPassword),
    ("is not in the sudoers file", SudoRefusal::Denied),
    ("may not run sudo", SudoRefusal::Denied),
    ("is not allowed to", SudoRefusal::Denied),
    ("I'm afraid I can't do that", SudoRefusal::Denied),
    ("interactive authentication is required", SudoRefusal::NeedsPassword),
    ("account validation failure", SudoRefusal::Expired),
    ("account or password is expired", SudoRefusal::Expired),
    ("Account expired", SudoRefusal::Expired),
    ("must have a tty", SudoRefusal::NeedsTerminal),
    ("a password is required", SudoRefusal::NeedsPassword),
    ("a terminal is required", SudoRefusal::NeedsPassword),
    ("no password was provided", SudoRefusal::NeedsPassword),
    ("sudo: not found", SudoRefusal::Missing),
    ("sudo: command not found", SudoRefusal::Missing),
    ("'sudo': No such file", SudoRefusal::Missing),
    ("sudo: No such file", SudoRefusal::Missing),
    ("sudo’: No such file", SudoRefusal::Missing),
    ("must be owned by uid 0", SudoRefusal::Missing),
    ("effective uid is not 0", SudoRefusal::Missing),
];

fn refusal_error(why: SudoRefusal, target: &ConnectionTarget) -> TransportError {
    let user = target.user_name();
    let (kind, message, hint) = match why {
        SudoRefusal::WrongPassword => (
            TransportErrorKind::SudoPassword,
            format!("sudo refused the password for {user}"),
            "check the secret that `connect.sudo` names",
        ),
        SudoRefusal::NeedsPassword => (
            TransportErrorKind::SudoNeedsPassword,
            format!("sudo requires a password for {user}"),
            "set `sudo: { password: … }` in `connect`, or allow NOPASSWD in sudoers",
        ),
        SudoRefusal::NeedsTerminal => (
            TransportErrorKind::SudoDenied,
            format!("sudo requires a terminal for {user}"),
            "remove `Defaults requiretty` from sudoers for this user",
        ),
        SudoRefusal::Denied => (
            TransportErrorKind::SudoDenied,
            format!("sudo does not allow {user} to become root"),
            "allow the user to run any command as root in sudoers, or connect as another user",
        ),
        SudoRefusal::Expired => (
            TransportErrorKind::SudoDenied,
            format!("the account or password of {user} has expired on the host"),
            "renew it on the host",
        ),
        SudoRefusal::Missing => (
            TransportErrorKind::SudoMissing,
            "the host has no working sudo".to_owned(),
            "install sudo, or connect as root without `sudo`",
        ),
    };
    TransportError::new(kind, message).hint(hint)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal_kind(said: &str) -> Option<(TransportErrorKind, String)> {
        let target = ConnectionTarget {
            user: Some("admin".into()),
            sudo: ConnectionSudo::NoPassword,
            ..ConnectionTarget::default()
        };
        find_sudo_refusal(said.as_bytes(), &target).map(|error| (error.kind, error.message))
    }

    #[test]
    fn sudo_refusals_are_classified() {
        use TransportErrorKind as K;
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
            assert_eq!(refusal_kind(said), Some((kind, message.to_owned())), "{said}");
        }
        assert_eq!(refusal_kind("bash: line 1: fortune: command not found\n"), None);
    }

    #[test]
    fn sudo_messages_are_ignored_without_sudo() {
        assert_eq!(find_sudo_refusal(b"sudo: a password is required", &ConnectionTarget::default()), None);
    }
}
