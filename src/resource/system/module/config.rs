//! Merges `modprobe.d`, `modules-load.d` and the kernel command line for one module.

use crate::probe::{ConfLine, ModuleState};
use std::collections::BTreeMap;

/// Returns the body of the step's own file in `modprobe.d`.
pub(super) fn render_modprobe_conf(name: &str, blacklisted: bool, options: &BTreeMap<String, String>) -> String {
    let mut body = String::new();
    if blacklisted {
        body.push_str(&format!("blacklist {name}\ninstall {name} /bin/false\n"));
    }
    if !options.is_empty() {
        let words: Vec<String> = options.iter().map(|(key, value)| format!(" {key}={value}")).collect();
        body.push_str(&format!("options {name}{}\n", words.concat()));
    }
    body
}

/// One option of a module and its place.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ModuleOption {
    /// `file:line`, or the kernel command line.
    pub place: String,
    /// The file; empty for the command line.
    pub file: String,
    pub key: String,
    /// Empty for an option without a value.
    pub value: String,
}

/// Returns every option of `name` in the order in which the module gets them; the last one takes effect.
pub(super) fn list_options(state: &ModuleState, name: &str) -> Vec<ModuleOption> {
    let mut settings = Vec::new();
    for line in &state.modprobe {
        let mut words = line.text.split_ascii_whitespace();
        if words.next() == Some("options") && words.next().is_some_and(|module| is_same_name(module, name)) {
            settings.extend(words.map(|word| parse_option(&line.format_location(), &line.file, word)));
        }
    }
    let own = |word: &str| {
        let (module, option) = word.split_once('.')?;
        is_same_name(module, name).then(|| parse_option("the kernel command line", "", option))
    };
    settings.extend(state.cmdline.raw().split_ascii_whitespace().filter_map(own));
    settings
}

fn parse_option(place: &str, file: &str, word: &str) -> ModuleOption {
    let (key, value) = word.split_once('=').unwrap_or((word, ""));
    ModuleOption {
        place: place.to_owned(),
        file: file.to_owned(),
        key: key.to_owned(),
        value: value.trim_matches('"').to_owned(),
    }
}

/// Returns the lines of `modules-load.d` that load `name`.
pub(super) fn find_loader_lines<'a>(state: &'a ModuleState, name: &str) -> Vec<&'a ConfLine> {
    state.modules_load.iter().filter(|line| is_same_name(&line.text, name)).collect()
}

/// Compares names; `-` and `_` are the same.
pub(super) fn is_same_name(one: &str, other: &str) -> bool {
    one.replace('-', "_") == other.replace('-', "_")
}

/// Reports whether the value `found` in the kernel matches the configured value `wanted`.
pub(super) fn is_in_force(found: &str, wanted: &str) -> bool {
    // The kernel shows arrays in full, including defaults of omitted elements, so only equal text matches.
    let (found, wanted) = (found.trim(), wanted.trim());
    if found == wanted {
        return true;
    }
    match found {
        "Y" => parse_truth(wanted) == Some(true),
        "N" => parse_truth(wanted) == Some(false),
        _ => parse_number(found).is_some_and(|n| Some(n) == parse_number(wanted)),
    }
}

/// Parses a boolean as the kernel does; an option without a value is true.
fn parse_truth(text: &str) -> Option<bool> {
    match text {
        "" | "y" | "Y" | "1" | "t" | "T" | "on" | "On" | "ON" | "true" => Some(true),
        "n" | "N" | "0" | "f" | "F" | "off" | "Off" | "OFF" | "false" => Some(false),
        _ => None,
    }
}

fn parse_number(text: &str) -> Option<i128> {
    let (digits, radix) = match text.strip_prefix("0x") {
        Some(hex) => (hex, 16),
        None if text.len() > 1 && text.starts_with('0') => (text, 8),
        None => (text, 10),
    };
    i128::from_str_radix(digits, radix).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn make_line(file: &str, text: &str) -> ConfLine {
        ConfLine { file: file.into(), line: 1, text: text.into() }
    }

    #[test]
    fn kernel_command_line_options_come_after_modprobe_options() {
        let state = ModuleState {
            modprobe: vec![
                make_line("/etc/modprobe.d/a.conf", "options nvme-core multipath=N x"),
                make_line("/etc/modprobe.d/b.conf", "options nvme multipath=Y"),
                make_line("/etc/modprobe.d/c.conf", "softdep nvme_core pre: y"),
            ],
            cmdline: "ro nvme_core.multipath=Y nvme.x=1".into(),
            ..ModuleState::default()
        };
        let settings = list_options(&state, "nvme_core");
        let words: Vec<String> = settings.iter().map(|s| format!("{} {}={}", s.place, s.key, s.value)).collect();
        assert_eq!(
            words,
            [
                "/etc/modprobe.d/a.conf:1 multipath=N",
                "/etc/modprobe.d/a.conf:1 x=",
                "the kernel command line multipath=Y"
            ]
        );
    }

    #[test]
    fn option_values_are_compared_as_the_kernel_parses_them() {
        for (found, wanted) in [("Y", "1"), ("N", "off"), ("Y", ""), ("16", "0x10"), ("8", "010"), ("a,b", "a,b")] {
            assert!(is_in_force(found, wanted), "{found} {wanted}");
        }
        for (found, wanted) in [("Y", "0"), ("N", "2"), ("1", "2"), ("a", "b"), ("8", "10")] {
            assert!(!is_in_force(found, wanted), "{found} {wanted}");
        }
    }

    #[test]
    fn modprobe_conf_contains_options_or_blacklist() {
        let options = [("a".to_owned(), "1".to_owned()), ("b".to_owned(), "x".to_owned())].into_iter().collect();
        assert_eq!(render_modprobe_conf("m", false, &options), "options m a=1 b=x\n");
        assert_eq!(render_modprobe_conf("m", true, &BTreeMap::new()), "blacklist m\ninstall m /bin/false\n");
    }
}
