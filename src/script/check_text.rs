//! What the text of a check must be.

use crate::model::SecretStore;

/// Why a text cannot be a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CheckTextFault {
    /// It has no command, so it would always pass.
    NoCommand,
    /// It contains a secret, which the programs that it starts may have in their command lines.
    Secret,
}

impl CheckTextFault {
    /// Completes a message that begins with the name of the field.
    pub fn describe(self) -> &'static str {
        match self {
            Self::NoCommand => "is empty or only a comment, so it would always pass",
            Self::Secret => "must not contain a secret: every account of the host can read command lines",
        }
    }

    /// Returns how to fix it.
    pub fn hint(self) -> &'static str {
        match self {
            Self::NoCommand => "write a command whose exit code decides; `true` passes on purpose",
            Self::Secret => "use a `command` step, whose scripts get it in `env`",
        }
    }
}

/// Returns why a text cannot be a check, if it cannot.
pub fn find_check_fault(script: &str) -> Option<CheckTextFault> {
    if SecretStore::has_placeholder(script) {
        return Some(CheckTextFault::Secret);
    }
    let is_command = |line: &str| !line.is_empty() && !line.starts_with('#');
    (!script.lines().map(str::trim).any(is_command)).then_some(CheckTextFault::NoCommand)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_without_a_command_is_not_a_check() {
        for script in ["", " \n\t", "# test -e /srv/two", "\n  # one\n\n# two\n"] {
            assert_eq!(find_check_fault(script), Some(CheckTextFault::NoCommand), "{script:?}");
        }
        for script in ["true", ":", "# why\ntest -e /srv/two", "x # y"] {
            assert_eq!(find_check_fault(script), None, "{script:?}");
        }
        let secret = SecretStore::default().reserve("S").0;
        assert_eq!(find_check_fault(&format!("test {secret}")), Some(CheckTextFault::Secret));
    }
}
