//! One line of fstab: its spelling, and its comparison with the current entry.

use super::declaration::MountResource;
use super::mount_diff::FstabDiff;
use crate::model::{DisruptionClass, UntrustedText};
use crate::probe::{FstabLine, MountState};
use crate::resource::Assessment;
use serde_json::json;

/// The table of file systems.
pub(super) const FSTAB: &str = "/etc/fstab";

/// Returns the declared line.
pub(super) fn fstab_line(want: &MountResource) -> String {
    let options = if want.options.is_empty() { "defaults".to_owned() } else { want.options.join(",") };
    let fields = [&want.source, &want.path, &want.fstype, &options].map(|field| escape_field(field));
    format!("{} {} {}", fields.join(" "), want.dump, want.pass)
}

/// Escapes blanks, which separate the fields, and `#`, which may begin a comment, as octal numbers.
fn escape_field(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        match c {
            ' ' | '\t' | '\n' | '\\' | '#' => out.push_str(&format!("\\{:03o}", u32::from(c))),
            c => out.push(c),
        }
    }
    out
}

/// Compares the lines for the mount point with the declared one, field by field. Whitespace and the order of options do
/// not matter.
pub(super) fn assess_fstab(want: &MountResource, state: &MountState) -> Assessment<FstabDiff> {
    let line = fstab_line(want);
    let reason = match state.fstab.as_slice() {
        [] => "fstab has no entry".to_owned(),
        [one] if split_fields(one.text.raw()) == split_fields(&line) => {
            return Assessment::ok("the entry in fstab matches", fstab_basis(state));
        }
        [one] => format!("line {} of fstab differs", one.line),
        several => format!("fstab has {} entries for it, in lines {}", several.len(), join_line_numbers(several)),
    };
    assess_edit(reason, state, Some(line))
}

/// Reports whether the only entry has the option.
pub(super) fn has_option(state: &MountState, option: &str) -> bool {
    match state.fstab.as_slice() {
        [one] => split_fields(one.text.raw()).1.iter().any(|own| own == option),
        _ => false,
    }
}

pub(super) fn assess_fstab_absent(state: &MountState) -> Assessment<FstabDiff> {
    match state.fstab.is_empty() {
        true => Assessment::ok("fstab has no entry", fstab_basis(state)),
        false => assess_edit(format!("fstab has an entry in line {}", join_line_numbers(&state.fstab)), state, None),
    }
}

fn assess_edit(reason: String, state: &MountState, new: Option<String>) -> Assessment<FstabDiff> {
    let old = state.fstab.iter().map(|line| line.text.clone()).collect();
    Assessment::differs(reason, FstabDiff { old, new }, DisruptionClass::D0, fstab_basis(state))
}

fn fstab_basis(state: &MountState) -> crate::model::Value {
    json!(state.fstab.iter().map(|line| &line.text).collect::<Vec<&UntrustedText>>())
}

fn join_line_numbers(lines: &[FstabLine]) -> String {
    crate::resource::shared::support::join_words(&lines.iter().map(|line| line.line.to_string()).collect::<Vec<_>>())
}

/// Returns the fields of a line; omitted fields have their defaults.
fn split_fields(line: &str) -> (Vec<String>, Vec<String>, [String; 2]) {
    let mut words = line.split_ascii_whitespace().map(str::to_owned);
    let mut names: Vec<String> = words.by_ref().take(3).collect();
    if let Some(point) = names.get_mut(1).filter(|point| point.len() > 1) {
        *point = point.trim_end_matches('/').to_owned();
    }
    let mut options: Vec<String> = words.next().unwrap_or_default().split(',').map(str::to_owned).collect();
    options.retain(|option| !option.is_empty() && option != "defaults");
    options.sort();
    let numbers = [words.next(), words.next()].map(|number| number.unwrap_or_else(|| "0".to_owned()));
    (names, options, numbers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whitespace_and_option_order_do_not_affect_comparison() {
        assert_eq!(split_fields("tmpfs\t/a  tmpfs"), split_fields("tmpfs /a/ tmpfs defaults 0 0"));
        assert_eq!(split_fields("d /a ext4 noatime,nofail 0 2"), split_fields("d /a ext4 nofail,noatime 0 2"));
        assert_ne!(split_fields("d /a ext4 noatime 0 2"), split_fields("d /a ext4 noatime 0 1"));
        assert_ne!(split_fields("d /a ext4 noatime 0 2"), split_fields("d /a xfs noatime 0 2"));
    }

    #[test]
    fn special_characters_are_escaped_as_octal() {
        assert_eq!(escape_field("/a b\\c#"), "/a\\040b\\134c\\043");
    }
}
