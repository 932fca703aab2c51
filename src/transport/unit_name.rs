//! The name of a long step's unit.

use crate::model::StepId;
use sha2::{Digest, Sha256};
use std::fmt;

/// The name of a long step's unit: `forge-…`, without `.service`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UnitName(String);

/// Maximum length of a unit name. systemd allows 255 bytes with the suffix.
const NAME_CAP: usize = 200;

impl UnitName {
    /// Builds the unit name of a step in a run. Characters that systemd would escape become `-`; a digest at the end
    /// distinguishes steps whose names differ only in such characters.
    pub fn new(run: &str, step: &StepId) -> Self {
        let text = format!("forge-{run}-{step}");
        let plain = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.') { c } else { '-' };
        let digest = Sha256::digest(text.as_bytes());
        let start: String = text.chars().map(plain).take(NAME_CAP - 7).collect();
        Self(format!("{start}-{:02x}{:02x}{:02x}", digest[0], digest[1], digest[2]))
    }

    /// Parses a unit name from a host or a journal; `None` if it is not one of forge's.
    pub fn parse(text: &str) -> Option<Self> {
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        (text.starts_with("forge-") && text.len() <= NAME_CAP && text.chars().all(plain)).then(|| Self(text.to_owned()))
    }

    /// Returns the name without `.service`.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the run that started the unit, if the unit is for `step`.
    pub fn run_name_for(&self, step: &StepId) -> Option<&str> {
        let own = Self::new("", step);
        let (end, digest) = (own.0.strip_prefix("forge-")?, "-123456".len());
        let end = &end[..end.len() - digest];
        let run = self.0.strip_prefix("forge-")?;
        let run = run.get(..run.len().checked_sub(digest)?)?.strip_suffix(end)?;
        (Self::new(run, step) == *self).then_some(run)
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
    fn unit_names_are_safe_and_unique() {
        let name = UnitName::new("20261121T093015-4f2a", &StepId::new("web", "install; rm -rf /"));
        assert_eq!(name.as_str(), "forge-20261121T093015-4f2a-web-install--rm--rf---51cebe");
        assert_ne!(name, UnitName::new("20261121T093015-4f2a", &StepId::new("web", "install: rm -rf /")));
        assert_eq!(UnitName::parse(name.as_str()), Some(name.clone()));
        let step = StepId::new("web", "install; rm -rf /");
        assert_eq!(name.run_name_for(&step), Some("20261121T093015-4f2a"));
        assert_eq!(name.run_name_for(&StepId::new("web", "install: rm -rf /")), None);
        assert_eq!(UnitName("forge-x".into()).run_name_for(&step), None);
        assert_eq!(UnitName::parse("forge-../x"), None);
        assert_eq!(UnitName::parse("ssh"), None);
    }
}
