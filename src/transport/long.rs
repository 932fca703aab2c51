//! Long steps: processes on the host that outlive the link.

use crate::model::StepId;
use std::fmt;

/// The name of a long step's unit: `forge-…`, without `.service`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UnitName(String);

/// The longest unit name. systemd allows 255 bytes with the suffix.
const NAME_CAP: usize = 200;

impl UnitName {
    /// Builds the name of a step's unit in a run. Characters that systemd would escape become `-`; names of
    /// different steps of a run may then be equal only if they differ in such characters alone.
    pub fn new(run: &str, step: &StepId) -> Self {
        let text = format!("forge-{run}-{step}");
        let plain = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.') { c } else { '-' };
        Self(text.chars().map(plain).take(NAME_CAP).collect())
    }

    /// Returns the unit of that name, as a host or a journal names it; `None` when it is not forge's.
    pub fn parse(text: &str) -> Option<Self> {
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        (text.starts_with("forge-") && text.len() <= NAME_CAP && text.chars().all(plain)).then(|| Self(text.to_owned()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for UnitName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_plain() {
        let name = UnitName::new("20261121T093015-4f2a", &StepId::new("web", "install; rm -rf /"));
        assert_eq!(name.as_str(), "forge-20261121T093015-4f2a-web-install--rm--rf--");
        assert_eq!(UnitName::parse(name.as_str()), Some(name));
        assert_eq!(UnitName::parse("forge-../x"), None);
        assert_eq!(UnitName::parse("ssh"), None);
    }
}
