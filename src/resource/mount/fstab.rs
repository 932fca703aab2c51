//! One line of fstab: its spelling, and its comparison with the current entry.

use super::MountResource;
use crate::model::DisruptionClass;
use crate::model::UntrustedText;
use crate::probe::{FstabLine, MountState};
use crate::resource::{Assessment, AttributeChange};
use serde_json::json;

/// Returns the declared line.
pub(super) fn line(want: &MountResource) -> String {
    let options = if want.options.is_empty() { "defaults".to_owned() } else { want.options.join(",") };
    let fields = [&want.source, &want.path, &want.fstype, &options].map(|field| escape(field));
    format!("{} {} {}", fields.join(" "), want.dump, want.pass)
}

/// Escapes blanks, which separate the fields, and `#`, which may begin a comment, as octal numbers.
fn escape(text: &str) -> String {
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
pub(super) fn judge(want: &MountResource, state: &MountState) -> Assessment {
    let line = line(want);
    let basis = basis(state);
    match state.fstab.as_slice() {
        [] => {
            let reason = "fstab has no entry".to_owned();
            Assessment::change(
                reason,
                vec![AttributeChange::new("entry", None, Some(&line))],
                DisruptionClass::D0,
                basis,
            )
        }
        [one] if fields(one.text.raw()) == fields(&line) => Assessment::ok("the entry in fstab matches", basis),
        [one] => {
            let change = AttributeChange::new("entry", Some(one.text.raw()), Some(&line));
            Assessment::change(format!("line {} of fstab differs", one.line), vec![change], DisruptionClass::D0, basis)
        }
        several => {
            let mut changes: Vec<AttributeChange> =
                several.iter().map(|one| AttributeChange::new("entry", Some(one.text.raw()), None)).collect();
            changes.push(AttributeChange::new("entry", None, Some(&line)));
            let reason = format!("fstab has {} entries for it, in lines {}", several.len(), numbers(several));
            Assessment::change(reason, changes, DisruptionClass::D0, basis)
        }
    }
}

pub(super) fn judge_absent(state: &MountState) -> Assessment {
    let changes: Vec<AttributeChange> =
        state.fstab.iter().map(|one| AttributeChange::new("entry", Some(one.text.raw()), None)).collect();
    match changes.is_empty() {
        true => Assessment::ok("fstab has no entry", basis(state)),
        false => {
            let reason = format!("fstab has an entry in line {}", numbers(&state.fstab));
            Assessment::change(reason, changes, DisruptionClass::D0, basis(state))
        }
    }
}

fn basis(state: &MountState) -> crate::model::Value {
    json!(state.fstab.iter().map(|line| &line.text).collect::<Vec<&UntrustedText>>())
}

fn numbers(lines: &[FstabLine]) -> String {
    super::super::support::join(&lines.iter().map(|line| line.line.to_string()).collect::<Vec<_>>())
}

/// Returns the fields of a line; omitted fields have their defaults.
fn fields(line: &str) -> (Vec<String>, Vec<String>, [String; 2]) {
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
    fn fields_are_compared_not_blanks() {
        assert_eq!(fields("tmpfs\t/a  tmpfs"), fields("tmpfs /a/ tmpfs defaults 0 0"));
        assert_eq!(fields("d /a ext4 noatime,nofail 0 2"), fields("d /a ext4 nofail,noatime 0 2"));
        assert_ne!(fields("d /a ext4 noatime 0 2"), fields("d /a ext4 noatime 0 1"));
        assert_ne!(fields("d /a ext4 noatime 0 2"), fields("d /a xfs noatime 0 2"));
    }

    #[test]
    fn blanks_in_names_are_written_as_numbers() {
        assert_eq!(escape("/a b\\c#"), "/a\\040b\\134c\\043");
    }
}
