//! Reads maps with known keys. Reports all unknown keys, missing keys and wrong types, and continues after each.

use super::{YamlData, YamlKey, YamlNode, scalar, unknown};
use crate::diag::{Code, Diag, DiagList, Span};

/// A map whose keys are checked against the known keys.
#[derive(Clone, Copy)]
pub(super) struct YamlTable<'n> {
    /// Description with article, for messages: `a step`.
    what: &'static str,
    pub span: Span,
    entries: &'n [(YamlKey, YamlNode)],
}

impl<'n> YamlTable<'n> {
    /// Opens `node` as a map. Reports a wrong type, and every key that is not in `known`.
    pub fn open(node: &'n YamlNode, what: &'static str, known: &[&str], diags: &mut DiagList) -> Option<Self> {
        let entries = map(node, what, diags)?;
        for (key, value) in entries.iter().filter(|(key, _)| !known.contains(&key.text.as_str())) {
            diags.push(unknown::key(key, value, what, known));
        }
        Some(Self { what, span: node.span, entries })
    }

    /// Returns the entries whose keys are in `names`.
    pub fn of<'t>(&'t self, names: &'t [&str]) -> impl Iterator<Item = &'n (YamlKey, YamlNode)> + 't {
        self.entries.iter().filter(|(key, _)| names.contains(&key.text.as_str()))
    }

    /// Returns the value of `key`. A key without a value counts as missing.
    pub fn get(&self, key: &str) -> Option<&'n YamlNode> {
        let (_, node) = self.entries.iter().find(|(k, _)| k.text == key)?;
        (!matches!(node.data, YamlData::Null)).then_some(node)
    }

    /// Returns the key itself, with its place.
    pub fn key(&self, key: &str) -> Option<&'n YamlKey> {
        self.entries.iter().map(|(k, _)| k).find(|k| k.text == key)
    }

    /// Returns the value of `key`, or reports that it is missing.
    pub fn require(&self, key: &str, diags: &mut DiagList) -> Option<&'n YamlNode> {
        let found = self.get(key);
        if found.is_none() {
            let place = self.key(key).map_or(self.span, |key| key.span);
            diags.push(Diag::error(Code::MissingKey, format!("{} needs `{key}`", self.what)).at(place));
        }
        found
    }

    pub fn text(&self, key: &str, diags: &mut DiagList) -> Option<String> {
        self.get(key).and_then(|node| text(node, key, diags))
    }

    pub fn bool(&self, key: &str, diags: &mut DiagList) -> Option<bool> {
        self.get(key).and_then(|node| boolean(node, key, diags))
    }

    /// Returns a duration in whole seconds.
    pub fn duration(&self, key: &str, diags: &mut DiagList) -> Option<u64> {
        self.get(key).and_then(|node| duration(node, key, diags))
    }

    /// Returns a duration in whole seconds, which must be longer than zero.
    pub fn limit(&self, key: &str, diags: &mut DiagList) -> Option<u64> {
        self.get(key).and_then(|node| limit(node, key, diags))
    }

    pub fn int(&self, key: &str, min: i64, max: i64, diags: &mut DiagList) -> Option<i64> {
        self.get(key).and_then(|node| int(node, key, min, max, diags))
    }

    /// Returns the items of a list. Reports any other type.
    pub fn items(&self, key: &str, diags: &mut DiagList) -> Vec<&'n YamlNode> {
        self.get(key).map_or_else(Vec::new, |node| items(node, key, diags))
    }
}

pub(super) fn wrong_type(node: &YamlNode, what: &str, expected: &str) -> Diag {
    let message = format!("{what} must be {expected}, found {}", scalar::describe(node));
    Diag::error(Code::WrongType, message).at(node.span)
}

pub(super) fn quoted(key: &str) -> String {
    format!("`{key}`")
}

pub(super) fn map<'n>(node: &'n YamlNode, what: &str, diags: &mut DiagList) -> Option<&'n [(YamlKey, YamlNode)]> {
    match &node.data {
        YamlData::Map(entries) => Some(entries),
        _ => {
            diags.push(wrong_type(node, what, "a map"));
            None
        }
    }
}

/// Returns the entries of an optional map; none if it is missing.
pub(super) fn entries<'n>(node: Option<&'n YamlNode>, key: &str, diags: &mut DiagList) -> &'n [(YamlKey, YamlNode)] {
    node.and_then(|node| map(node, &quoted(key), diags)).unwrap_or(&[])
}

pub(super) fn items<'n>(node: &'n YamlNode, key: &str, diags: &mut DiagList) -> Vec<&'n YamlNode> {
    match &node.data {
        YamlData::Seq(items) => items.iter().collect(),
        _ => {
            diags.push(wrong_type(node, &quoted(key), "a list"));
            Vec::new()
        }
    }
}

pub(super) fn text(node: &YamlNode, key: &str, diags: &mut DiagList) -> Option<String> {
    match &node.data {
        YamlData::Scalar { text, .. } => Some(text.clone()),
        _ => {
            diags.push(wrong_type(node, &quoted(key), "text"));
            None
        }
    }
}

pub(super) fn boolean(node: &YamlNode, key: &str, diags: &mut DiagList) -> Option<bool> {
    let plain = match &node.data {
        YamlData::Scalar { text, quoted: false } => scalar::boolean(text),
        _ => None,
    };
    if plain.is_none() {
        diags.push(not_a_bool(node, &quoted(key)));
    }
    plain
}

/// Returns the error for a value that is not a boolean, with a hint for booleans of YAML 1.1.
pub(super) fn not_a_bool(node: &YamlNode, what: &str) -> Diag {
    let diag = wrong_type(node, what, "`true` or `false`");
    match &node.data {
        YamlData::Scalar { text, .. } => match scalar::lookalike_bool(text) {
            Some(meant) => diag.hint(format!("write `{meant}` without quotes")),
            None => diag,
        },
        _ => diag,
    }
}

pub(super) fn duration(node: &YamlNode, key: &str, diags: &mut DiagList) -> Option<u64> {
    let seconds = match &node.data {
        YamlData::Scalar { text, .. } => scalar::duration(text),
        _ => None,
    };
    if seconds.is_none() {
        diags.push(not_a_duration(node, &quoted(key)));
    }
    seconds
}

/// Like [`duration`], but rejects zero.
pub(super) fn limit(node: &YamlNode, key: &str, diags: &mut DiagList) -> Option<u64> {
    match duration(node, key, diags)? {
        0 => {
            diags.push(no_time(node, &quoted(key)));
            None
        }
        seconds => Some(seconds),
    }
}

/// Returns the error for a limit of zero.
pub(super) fn no_time(node: &YamlNode, what: &str) -> Diag {
    Diag::error(Code::BadValue, format!("{what} must be longer than zero")).at(node.span)
}

pub(super) fn not_a_duration(node: &YamlNode, what: &str) -> Diag {
    let diag = wrong_type(node, what, "a duration");
    match &node.data {
        YamlData::Scalar { text, .. } if scalar::int(text).is_some() => {
            diag.hint(format!("write the unit: `{text}s` or `{text}m`"))
        }
        YamlData::Scalar { text, .. } if crate::model::parse_duration(text).is_some() => diag.hint("use whole seconds"),
        _ => diag.hint(crate::model::DURATION_FORM),
    }
}

pub(super) fn int(node: &YamlNode, key: &str, min: i64, max: i64, diags: &mut DiagList) -> Option<i64> {
    let number = match &node.data {
        YamlData::Scalar { text, quoted: false } => scalar::int(text),
        _ => None,
    };
    match number {
        Some(number) if (min..=max).contains(&number) => return Some(number),
        Some(number) => diags.push(out_of_range(node, &quoted(key), number, min, max)),
        None => diags.push(wrong_type(node, &quoted(key), "a whole number")),
    }
    None
}

pub(super) fn out_of_range(node: &YamlNode, what: &str, number: i64, min: i64, max: i64) -> Diag {
    let bounds = match (min, max) {
        (min, i64::MAX) => format!("at least {min}"),
        (i64::MIN, max) => format!("at most {max}"),
        (min, max) => format!("from {min} to {max}"),
    };
    Diag::error(Code::BadValue, format!("{what} must be {bounds}, found {number}")).at(node.span)
}
