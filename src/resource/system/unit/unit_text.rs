//! The text of a unit, as far as forge reads it: its sections, and the links of its `[Install]` section.

use crate::diag::Diag;
use crate::resource::shared::support::bad_value;

/// Directory of the administrator's units.
pub(in crate::resource) const UNITS_FOLDER: &str = "/etc/systemd/system";

/// Rejects lines that systemd ignores: those before the first section, and sections that a unit of this type does not have.
pub(super) fn check_sections(unit: &str, content: &str) -> Result<(), Diag> {
    let own = unit.rsplit('.').next().unwrap_or_default();
    let mut in_section = false;
    let mut continues = false;
    for line in content.lines() {
        let text = line.trim();
        // A comment does not end the line that continues around it.
        if text.starts_with(['#', ';']) {
            continue;
        }
        let is_continuation = std::mem::replace(&mut continues, text.ends_with('\\'));
        if text.is_empty() || is_continuation {
            continue;
        }
        match text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            Some(name) => {
                let known =
                    ["Unit", "Install"].contains(&name) || name.eq_ignore_ascii_case(own) || name.starts_with("X-");
                if !known {
                    return Err(bad_value(format!("systemd ignores the section `[{name}]` of `{unit}`")));
                }
                in_section = true;
            }
            None if !in_section => {
                return Err(bad_value(format!("systemd ignores `{text}`: it is before the first section"))
                    .hint("begin with a header such as `[Service]`"));
            }
            None => {}
        }
    }
    Ok(())
}

/// A name in the `[Install]` section of a unit. Source: `systemd.unit(5)`, "[Install] Section Options".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct UnitInstall<'t> {
    /// The suffix of the target's folder; `None` for an alias.
    folder: Option<&'static str>,
    pub name: &'t str,
}

impl UnitInstall<'_> {
    /// Whether a target starts the unit.
    pub fn starts(&self) -> bool {
        self.folder.is_some()
    }

    /// Returns the path of the link that `systemctl enable` makes.
    pub fn link_path(&self, unit: &str) -> String {
        match self.folder {
            Some(folder) => format!("{UNITS_FOLDER}/{}.{folder}/{unit}", self.name),
            None => format!("{UNITS_FOLDER}/{}", self.name),
        }
    }
}

/// Returns the targets in which the text of a unit installs it, and its aliases.
pub(super) fn list_installs(text: &str) -> Vec<UnitInstall<'_>> {
    let folder = |key: &str| match key {
        "WantedBy" => Some(Some("wants")),
        "RequiredBy" => Some(Some("requires")),
        "UpheldBy" => Some(Some("upholds")),
        "Alias" => Some(None),
        _ => None,
    };
    let pairs = text.lines().filter_map(|line| line.split_once('='));
    let installs = pairs.filter_map(|(key, names)| Some((folder(key.trim())?, names)));
    installs
        .flat_map(|(folder, names)| names.split_whitespace().map(move |name| UnitInstall { folder, name }))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn install_section_names_targets() {
        let text = "[Install]\nWantedBy = timers.target  multi-user.target\nRequiredBy=a.service\nAlso=b\nWantedBy=\n";
        let links: Vec<String> = list_installs(text).iter().map(|install| install.link_path("x.timer")).collect();
        let folder = "/etc/systemd/system";
        let expected = ["timers.target.wants/x.timer", "multi-user.target.wants/x.timer", "a.service.requires/x.timer"];
        assert_eq!(links, expected.map(|link| format!("{folder}/{link}")));
        let alias = list_installs("Alias=y.timer\n");
        assert_eq!((alias[0].starts(), alias[0].link_path("x.timer")), (false, format!("{folder}/y.timer")));
    }
}
