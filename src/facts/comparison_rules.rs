//! The parts of a fact that should be equal on similar hosts: declared next to each fact and read from its value.

use super::unknown_part::unknown_reason;
use crate::model::Value;
use std::collections::BTreeMap;
use std::fmt;

/// Removes the parts of a value that legitimately differ between hosts.
pub type ValueNormalizer = fn(&Value) -> Value;

/// A part of a fact that should be equal on similar hosts.
pub struct ComparisonRule {
    /// The path below the fact, separated by dots; empty for the whole fact. `*` matches every entry of a list.
    pub at: &'static str,
    of: ComparisonKind,
}

enum ComparisonKind {
    /// One value.
    Value(ValueNormalizer),
    /// A map: each value separately. A missing name counts as null.
    Entries,
    /// A map: whether a name exists.
    Names,
    /// A list whose entries are identified by the text of a key, or a map (no key): the set of entries, and these
    /// fields of each.
    Each { key: &'static str, fields: &'static [&'static str] },
    /// A list: the number of entries with equal values in these fields.
    Tally { fields: &'static [&'static str] },
    /// A list: the values of a field, grouped by the text of another.
    Per { key: &'static str, field: &'static str },
}

pub(super) const fn compare_value(at: &'static str) -> ComparisonRule {
    ComparisonRule { at, of: ComparisonKind::Value(Value::clone) }
}

pub(super) const fn compare_normalized(at: &'static str, tidy: ValueNormalizer) -> ComparisonRule {
    ComparisonRule { at, of: ComparisonKind::Value(tidy) }
}

pub(super) const fn compare_entries(at: &'static str) -> ComparisonRule {
    ComparisonRule { at, of: ComparisonKind::Entries }
}

pub(super) const fn compare_names(at: &'static str) -> ComparisonRule {
    ComparisonRule { at, of: ComparisonKind::Names }
}

pub(super) const fn compare_each(
    at: &'static str,
    key: &'static str,
    fields: &'static [&'static str],
) -> ComparisonRule {
    ComparisonRule { at, of: ComparisonKind::Each { key, fields } }
}

pub(super) const fn compare_counts(at: &'static str, fields: &'static [&'static str]) -> ComparisonRule {
    ComparisonRule { at, of: ComparisonKind::Tally { fields } }
}

pub(super) const fn compare_by_key(at: &'static str, key: &'static str, field: &'static str) -> ComparisonRule {
    ComparisonRule { at, of: ComparisonKind::Per { key, field } }
}

/// A value that is compared, or why it could not be read.
pub type ComparedValue = Result<Value, String>;

/// The compared values of one part of a fact, by their path below the part.
pub type ComparedRows = BTreeMap<String, ComparedValue>;

/// Formats the part as the reference shows it.
impl fmt::Display for ComparisonRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fields = |fields: &[&str]| fields.iter().map(|field| format!("`{field}`")).collect::<Vec<_>>().join(", ");
        let at = if self.at.is_empty() { "" } else { &format!("`{}`", self.at) };
        let of = if self.at.is_empty() { "" } else { &format!(" of `{}`", self.at) };
        match self.of {
            ComparisonKind::Value(_) if at.is_empty() => f.write_str("the value"),
            ComparisonKind::Value(_) => f.write_str(at),
            ComparisonKind::Entries => write!(f, "each value by name{of}"),
            ComparisonKind::Names => write!(f, "the set of names{of}"),
            ComparisonKind::Each { key: "", fields: list } => write!(f, "by name{of}: {}", fields(list)),
            ComparisonKind::Each { key, fields: list } => write!(f, "by `{key}`{of}: {}", fields(list)),
            ComparisonKind::Tally { fields: list } => write!(f, "number of entries{of} with equal {}", fields(list)),
            ComparisonKind::Per { key, field } => write!(f, "`{field}` per `{key}`{of}"),
        }
    }
}

impl ComparisonRule {
    /// Returns the values to compare.
    ///
    /// # Errors
    /// The reason, if the whole part is unknown.
    pub fn collect_rows(&self, fact: &Value) -> Result<ComparedRows, String> {
        let value = find_value(fact, self.at)?;
        match &self.of {
            ComparisonKind::Value(tidy) => Ok([(String::new(), known_value(&value).map(|value| tidy(&value)))].into()),
            ComparisonKind::Entries => {
                Ok(map_entries(&value).map(|(name, value)| (format!(".{name}"), known_value(value))).collect())
            }
            ComparisonKind::Names => {
                Ok(map_entries(&value).map(|(name, _)| (format!(".{name}"), Ok(true.into()))).collect())
            }
            ComparisonKind::Each { key, fields } => Ok(collect_each(&value, key, fields)),
            ComparisonKind::Tally { fields } => count_entries(&value, fields),
            ComparisonKind::Per { key, field } => Ok(collect_by_key(&value, key, field)),
        }
    }

    /// Returns the value of a host that has the part but not this row; `None` if another row already shows that.
    pub fn absent_value(&self) -> Option<Value> {
        match self.of {
            ComparisonKind::Value(_) | ComparisonKind::Entries => Some(Value::Null),
            ComparisonKind::Names => Some(false.into()),
            ComparisonKind::Tally { .. } => Some(0.into()),
            ComparisonKind::Each { .. } | ComparisonKind::Per { .. } => None,
        }
    }

    /// Returns the fields that it names, for a test against the documented fields.
    #[cfg(test)]
    pub(super) fn field_names(&self) -> Vec<&'static str> {
        let first = |path: &'static str| path.split('.').next().unwrap_or(path);
        let inside = match self.of {
            ComparisonKind::Each { key, fields } => [&[key], fields].concat(),
            ComparisonKind::Tally { fields } => fields.to_vec(),
            ComparisonKind::Per { key, field } => vec![key, field],
            ComparisonKind::Value(_) | ComparisonKind::Entries | ComparisonKind::Names => Vec::new(),
        };
        let all = if self.at.is_empty() { inside } else { vec![self.at] };
        all.into_iter().map(first).filter(|field| !field.is_empty()).collect()
    }
}

fn known_value(value: &Value) -> ComparedValue {
    match unknown_reason(value) {
        Some(why) => Err(why.to_owned()),
        None => Ok(value.clone()),
    }
}

/// Looks up a path. Everything below null is null, and everything below an unknown value is unknown.
fn find_value(value: &Value, path: &str) -> ComparedValue {
    let value = known_value(value)?;
    let (first, rest) = match path.split_once('.') {
        _ if path.is_empty() => return Ok(value),
        Some((first, rest)) => (first, rest),
        None => (path, ""),
    };
    match (&value, first) {
        (Value::Array(list), "*") => {
            list.iter().map(|entry| find_value(entry, rest)).collect::<Result<Vec<_>, _>>().map(Value::from)
        }
        _ => value.get(first).map_or(Ok(Value::Null), |inner| find_value(inner, rest)),
    }
}

fn map_entries(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
    value.as_object().into_iter().flatten()
}

fn list_entries(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// Returns the text of a field; numbers in their written form.
fn field_text(entry: &Value, key: &str) -> Option<String> {
    match find_value(entry, key).ok()? {
        Value::String(text) => Some(text),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

fn collect_each(value: &Value, key: &str, fields: &[&str]) -> ComparedRows {
    let listed: Vec<(String, &Value)> = match key {
        "" => map_entries(value).map(|(name, entry)| (name.clone(), entry)).collect(),
        key => list_entries(value).iter().filter_map(|entry| Some((field_text(entry, key)?, entry))).collect(),
    };
    let mut names: Vec<Value> = listed.iter().map(|(name, _)| name.as_str().into()).collect();
    names.sort_by_key(Value::to_string);
    let fields = listed.iter().flat_map(|(name, entry)| {
        fields.iter().map(move |field| (format!("[{name}].{field}"), find_value(entry, field)))
    });
    [(String::new(), Ok(names.into()))].into_iter().chain(fields).collect()
}

/// Counts entries. If a field of one entry is unknown, that entry cannot be grouped, so the whole count is unknown.
fn count_entries(value: &Value, fields: &[&str]) -> Result<ComparedRows, String> {
    let mut counts: BTreeMap<String, u64> = BTreeMap::new();
    for entry in list_entries(value) {
        let words: Vec<String> = fields
            .iter()
            .map(|field| find_value(entry, field).map(|value| format_word(&value)))
            .collect::<Result<_, _>>()?;
        *counts.entry(format!("[{}]", words.join(" "))).or_default() += 1;
    }
    Ok(counts.into_iter().map(|(kind, count)| (kind, Ok(count.into()))).collect())
}

fn format_word(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => "-".to_owned(),
        other => other.to_string(),
    }
}

/// Returns the values of a field by key. Entries without the key are skipped.
fn collect_by_key(value: &Value, key: &str, field: &str) -> ComparedRows {
    let mut rows: BTreeMap<String, Result<BTreeMap<String, Value>, String>> = BTreeMap::new();
    for (name, entry) in list_entries(value).iter().filter_map(|entry| Some((field_text(entry, key)?, entry))) {
        let row = rows.entry(format!("[{name}].{field}")).or_insert_with(|| Ok(BTreeMap::new()));
        match (row.as_mut(), find_value(entry, field)) {
            (Ok(values), Ok(value)) => drop(values.insert(format_word(&value), value)),
            (Ok(_), Err(why)) => *row = Err(why),
            (Err(_), _) => {}
        }
    }
    let one = |values: BTreeMap<String, Value>| match values.len() {
        1 => values.into_values().next().unwrap_or_default(),
        _ => values.into_values().collect(),
    };
    rows.into_iter().map(|(name, values)| (name, values.map(one))).collect()
}

/// Words of a kernel command line that name a disk, an address or the host itself.
const HOST_SPECIFIC_WORDS: &[&str] = &[
    "BOOT_IMAGE",
    "initrd",
    "root",
    "resume",
    "resume_offset",
    "ip",
    "nameserver",
    "BOOTIF",
    "hostname",
    "systemd.hostname",
    "systemd.machine_id",
    "rd.luks.uuid",
    "rd.luks.name",
    "rd.lvm.lv",
    "rd.md.uuid",
    "cryptdevice",
    "nfsroot",
    "netroot",
    "rd.iscsi.initiator",
];

/// Returns the words of a command line, sorted, without the host-specific ones.
pub(super) fn normalize_cmdline(value: &Value) -> Value {
    let own = |word: &&str| HOST_SPECIFIC_WORDS.contains(&word.split('=').next().unwrap_or(word));
    let mut words: Vec<&str> = value.as_str().unwrap_or("").split_whitespace().filter(|word| !own(word)).collect();
    words.sort_unstable();
    words.into()
}

/// Rounds bytes to steps between 1/64 and 1/32 of the value: kernels reserve slightly different amounts of equal memory
/// modules.
pub(super) fn round_bytes(value: &Value) -> Value {
    match value.as_u64() {
        Some(bytes) if bytes >= 64 => {
            let step = 1 << (bytes.ilog2() - 5);
            Value::from((bytes + step / 2) / step * step)
        }
        _ => value.clone(),
    }
}

/// Returns the names of a map, sorted.
pub(super) fn sorted_keys(value: &Value) -> Value {
    let mut names: Vec<&String> = map_entries(value).map(|(name, _)| name).collect();
    names.sort();
    names.into_iter().map(String::as_str).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[track_caller]
    fn rows_as_json(alike: &ComparisonRule, fact: &Value) -> Value {
        match alike.collect_rows(fact) {
            Err(why) => json!({ "unknown": why }),
            Ok(rows) => rows
                .into_iter()
                .map(|(name, told)| (name, told.unwrap_or_else(|why| format!("? {why}").into())))
                .collect(),
        }
    }

    #[test]
    fn values_are_found_by_path_and_unknown_is_preserved() {
        let fact = json!({ "a": { "b": 1 }, "n": null, "u": { "unknown": "why" } });
        assert_eq!(rows_as_json(&compare_value("a.b"), &fact), json!({ "": 1 }));
        assert_eq!(rows_as_json(&compare_value("n.x"), &fact), json!({ "": null }), "everything below null is null");
        assert_eq!(rows_as_json(&compare_value("u.x"), &fact), json!({ "unknown": "why" }));
        assert_eq!(rows_as_json(&compare_value(""), &json!("none")), json!({ "": "none" }));
    }

    #[test]
    fn list_entries_are_compared_by_key() {
        let rdma = json!([
            { "bdf": "b", "psid": "MT_1", "firmware": "28.1", "ports": [{ "rate": 400 }, { "rate": 200 }] },
            { "bdf": "a", "psid": "MT_1", "firmware": "28.2", "ports": [] },
            { "bdf": null, "psid": "MT_2", "firmware": { "unknown": "no" } },
        ]);
        let expected = json!({ "": ["a", "b"], "[a].ports.*.rate": [], "[b].ports.*.rate": [400, 200] });
        assert_eq!(rows_as_json(&compare_each("", "bdf", &["ports.*.rate"]), &rdma), expected);
        let expected = json!({ "[MT_1].firmware": ["28.1", "28.2"], "[MT_2].firmware": "? no" });
        assert_eq!(rows_as_json(&compare_by_key("", "psid", "firmware"), &rdma), expected);
        let disks = json!({ "/": { "total": 7 } });
        assert_eq!(rows_as_json(&compare_each("", "", &["total"]), &disks), json!({ "": ["/"], "[/].total": 7 }));
    }

    #[test]
    fn list_entries_without_a_key_are_counted() {
        let pci = json!([{ "d": "x", "v": 1 }, { "d": "x", "v": 1 }, { "d": "y", "v": null }]);
        assert_eq!(rows_as_json(&compare_counts("", &["d", "v"]), &pci), json!({ "[x 1]": 2, "[y -]": 1 }));
        let hidden = json!([{ "d": { "unknown": "hidden" } }]);
        assert_eq!(rows_as_json(&compare_counts("", &["d"]), &hidden), json!({ "unknown": "hidden" }));
        assert_eq!(rows_as_json(&compare_entries("m"), &json!({ "m": { "k": 1 } })), json!({ ".k": 1 }));
        assert_eq!(rows_as_json(&compare_names(""), &json!({ "nouveau": {} })), json!({ ".nouveau": true }));
    }

    #[test]
    fn host_specific_values_are_ignored() {
        let line = json!("BOOT_IMAGE=/vmlinuz-5 root=UUID=7 ro quiet iommu=pt rd.lvm.lv=a/b");
        assert_eq!(normalize_cmdline(&line), json!(["iommu=pt", "quiet", "ro"]));
        let (one, other) = (2_163_907_104_768_u64, 2_163_901_235_200_u64);
        assert_eq!(round_bytes(&one.into()), round_bytes(&other.into()), "a few MB less of the same modules");
        assert_ne!(round_bytes(&one.into()), round_bytes(&(one - (64 << 30)).into()), "a module of 64 GiB less");
        assert_eq!(sorted_keys(&json!({ "performance": 190, "powersave": 2 })), json!(["performance", "powersave"]));
    }

    #[test]
    fn compared_fields_are_documented() {
        for fact in crate::facts::all_facts() {
            let known: Vec<&str> = fact.fields.iter().map(|(name, _)| *name).collect();
            let named = fact.alike.iter().flat_map(ComparisonRule::field_names);
            let wrong: Vec<&str> = named.filter(|field| !known.is_empty() && !known.contains(field)).collect();
            assert!(wrong.is_empty(), "{}: {wrong:?}: not a field of it", fact.name);
        }
    }
}
