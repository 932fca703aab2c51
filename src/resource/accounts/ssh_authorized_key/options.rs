//! The options of a declared key: sshd ignores a whole line of which it does not accept one option.

use super::key;
use crate::diag::{Diag, did_you_mean};
use crate::resource::shared::support::bad_value;

/// Options without a value.
const FLAGS: &[&str] = &[
    "agent-forwarding",
    "cert-authority",
    "no-agent-forwarding",
    "no-port-forwarding",
    "no-pty",
    "no-touch-required",
    "no-user-rc",
    "no-X11-forwarding",
    "port-forwarding",
    "pty",
    "restrict",
    "touch-required",
    "user-rc",
    "verify-required",
    "no-verify-required",
    "X11-forwarding",
];

/// Options with a value in double quotes.
const VALUED: &[&str] =
    &["command", "environment", "expiry-time", "from", "permitlisten", "permitopen", "principals", "tunnel"];

/// Checks options as sshd reads them: names without regard to case, separated by commas, values in double quotes.
///
/// Source: sshd(8), "AUTHORIZED_KEYS FILE FORMAT", and `sshauthopt_parse` in OpenSSH's `auth-options.c`.
///
/// # Errors
/// Fails for an option that sshd rejects.
pub(super) fn check_options(options: &str) -> Result<(), Diag> {
    if options.is_empty() {
        return Ok(());
    }
    if !is_one_word(options) {
        return Err(bad_value("`options` has an unquoted blank or an unterminated quote")
            .hint("separate options with commas: `no-pty,from=\"10.0.0.0/8\"`"));
    }
    split_options(options).into_iter().try_for_each(check_option)
}

/// Reports whether sshd reads these options as one word.
fn is_one_word(options: &str) -> bool {
    let probe = format!("{options} ssh-rsa AAAA");
    key::parse_entry(&probe).is_some_and(|entry| entry.options == options) && !options.starts_with('#')
}

/// Splits options at the commas outside of quotes. In a value, `\"` is a quote; no other character is escaped.
fn split_options(options: &str) -> Vec<&str> {
    let (mut found, mut start, mut quoted, mut before) = (Vec::new(), 0, false, ' ');
    for (at, c) in options.char_indices() {
        match c {
            '"' if !(quoted && before == '\\') => quoted = !quoted,
            ',' if !quoted => {
                found.push(&options[start..at]);
                start = at + 1;
            }
            _ => {}
        }
        before = c;
    }
    found.push(&options[start..]);
    found
}

fn check_option(option: &str) -> Result<(), Diag> {
    let (name, value) = match option.split_once('=') {
        Some((name, value)) => (name, Some(value)),
        None => (option, None),
    };
    let is_named = |known: &&&str| known.eq_ignore_ascii_case(name);
    if name.is_empty() {
        return Err(bad_value("`options` has an empty option, and sshd ignores a key with one")
            .hint("remove the comma at the start or the end, or the second of two"));
    }
    match (FLAGS.iter().find(is_named), VALUED.iter().find(is_named), value) {
        (Some(_), _, None) => Ok(()),
        (Some(flag), ..) => Err(bad_value(format!("`options`: `{flag}` takes no value"))
            .hint(format!("write `{flag}`; sshd ignores a key with an option that it does not accept"))),
        (None, Some(_), Some(value)) if is_quoted(value) => Ok(()),
        (None, Some(known), _) => Err(bad_value(format!("`options`: `{known}` requires a value in double quotes"))
            .hint(format!("write `{known}=\"VALUE\"`; sshd ignores a key with an option that it does not accept"))),
        (None, None, _) => {
            let near = did_you_mean(&name.to_ascii_lowercase(), FLAGS.iter().chain(VALUED).copied());
            let hint = match near {
                Some(near) => format!("did you mean `{near}`? sshd ignores a key with an option that it does not know"),
                None => "see sshd(8), AUTHORIZED_KEYS FILE FORMAT: sshd ignores a key with an option that it does not \
                         know"
                    .to_owned(),
            };
            Err(bad_value(format!("`options`: unknown option `{name}`")).hint(hint))
        }
    }
}

/// Reports whether a value is text in double quotes and nothing after it.
fn is_quoted(value: &str) -> bool {
    let Some(inner) = value.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) else { return false };
    !inner.ends_with('\\') && !inner.replace("\\\"", "").contains('"')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find_error(options: &str) -> String {
        check_options(options).unwrap_err().message
    }

    fn find_hint(options: &str) -> String {
        check_options(options).unwrap_err().hint.unwrap_or_default()
    }

    #[test]
    fn options_of_sshd_are_accepted() {
        for options in [
            "",
            "restrict",
            "RESTRICT,No-Pty,no-x11-forwarding",
            r#"from="10.0.0.0/8,!10.1.0.0/16",command="echo \"a, b\"",no-pty"#,
            r#"command="",permitopen="host:80",permitopen="host:81""#,
            r#"restrict,pty,expiry-time="20270131",environment="A=b c",tunnel="0",principals="a,b",permitlisten="80""#,
            "cert-authority,verify-required,no-touch-required",
        ] {
            assert_eq!(check_options(options).map_err(|diag| diag.message), Ok(()), "{options}");
        }
    }

    /// origin: `ssh -i` against OpenSSH 9.2 and 10.0, which reject each of the first three
    #[test]
    fn options_that_sshd_rejects_are_errors() {
        for (options, message) in [
            (r#"form="10.77.5.1""#, "`options`: unknown option `form`"),
            ("no-ptty", "`options`: unknown option `no-ptty`"),
            ("from=10.77.5.1", "`options`: `from` requires a value in double quotes"),
            ("restrict,From", "`options`: `from` requires a value in double quotes"),
            (r#"from="10.0.0.1"x"#, "`options`: `from` requires a value in double quotes"),
            (r#"restrict="yes""#, "`options`: `restrict` takes no value"),
            ("no-from", "`options`: unknown option `no-from`"),
            ("restrict,", "`options` has an empty option, and sshd ignores a key with one"),
            ("restrict,,pty", "`options` has an empty option, and sshd ignores a key with one"),
            ("no-pty, restrict", "`options` has an unquoted blank or an unterminated quote"),
            (r#"command="a\""#, "`options` has an unquoted blank or an unterminated quote"),
        ] {
            assert_eq!(find_error(options), message, "{options}");
        }
    }

    #[test]
    fn misspelled_option_has_a_suggestion() {
        assert!(find_hint("form=\"a\"").starts_with("did you mean `from`?"));
        assert!(find_hint("No-Ptty").starts_with("did you mean `no-pty`?"));
        assert!(find_hint("xyz").starts_with("see sshd(8)"));
    }
}
