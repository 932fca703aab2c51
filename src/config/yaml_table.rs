//! Reads maps with known keys. Reports all unknown keys, missing keys and wrong types, and continues after each.

use super::{YamlData, YamlKey, YamlNode, scalar, unknown_keys};
use crate::diag::{Diag, DiagCode, DiagList, Span};

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
        let entries = expect_map(node, what, diags)?;
        for (key, value) in entries.iter().filter(|(key, _)| !known.contains(&key.text.as_str())) {
            diags.push(unknown_keys::build_unknown_key_diag(key, value, what, known));
        }
        Some(Self { what, span: node.span, entries })
    }

    /// Returns the entries whose keys are in `names`.
    pub fn entries_named<'t>(&'t self, names: &'t [&str]) -> impl Iterator<Item = &'n (YamlKey, YamlNode)> + 't {
        self.entries.iter().filter(|(key, _)| names.contains(&key.text.as_str()))
    }

    /// Returns the value of `key`. A key without a value counts as missing.
    pub fn get(&self, key: &str) -> Option<&'n YamlNode> {
        let (_, node) = self.entries.iter().find(|(k, _)| k.text == key)?;
        (!matches!(node.data, YamlData::Null)).then_some(node)
    }

    /// Returns the key itself, with its place.
    pub fn find_key(&self, key: &str) -> Option<&'n YamlKey> {
        self.entries.iter().map(|(k, _)| k).find(|k| k.text == key)
    }

    /// Returns the value of `key`, or reports that it is missing.
    pub fn require_value(&self, key: &str, diags: &mut DiagList) -> Option<&'n YamlNode> {
        let found = self.get(key);
        if found.is_none() {
            let place = self.find_key(key).map_or(self.span, |key| key.span);
            diags.push(Diag::error(DiagCode::MissingKey, format!("{} needs `{key}`", self.what)).with_span(place));
        }
        found
    }

    pub fn get_text(&self, key: &str, diags: &mut DiagList) -> Option<String> {
        self.get(key).and_then(|node| expect_text(node, key, diags))
    }

    pub fn get_bool(&self, key: &str, diags: &mut DiagList) -> Option<bool> {
        self.get(key).and_then(|node| expect_bool(node, key, diags))
    }

    /// Returns a duration in whole seconds.
    pub fn get_duration(&self, key: &str, diags: &mut DiagList) -> Option<u64> {
        self.get(key).and_then(|node| expect_duration(node, key, diags))
    }

    /// Returns a duration in whole seconds, which must be longer than zero.
    pub fn get_limit(&self, key: &str, diags: &mut DiagList) -> Option<u64> {
        self.get(key).and_then(|node| expect_limit(node, key, diags))
    }

    pub fn get_int(&self, key: &str, min: i64, max: i64, diags: &mut DiagList) -> Option<i64> {
        self.get(key).and_then(|node| expect_int(node, key, min, max, diags))
    }

    /// Returns the items of a list. Reports any other type.
    pub fn get_items(&self, key: &str, diags: &mut DiagList) -> Vec<&'n YamlNode> {
        self.get(key).map_or_else(Vec::new, |node| expect_items(node, key, diags))
    }
}

pub(super) fn build_wrong_type_diag(node: &YamlNode, what: &str, expected: &str) -> Diag {
    let message = format!("{what} must be {expected}, found {}", scalar::describe_node(node));
    Diag::error(DiagCode::WrongType, message).with_span(node.span)
}

pub(super) fn quote_key(key: &str) -> String {
    format!("`{key}`")
}

pub(super) fn expect_map<'n>(
    node: &'n YamlNode,
    what: &str,
    diags: &mut DiagList,
) -> Option<&'n [(YamlKey, YamlNode)]> {
    match &node.data {
        YamlData::Map(entries) => Some(entries),
        _ => {
            diags.push(build_wrong_type_diag(node, what, "a map"));
            None
        }
    }
}

/// Returns the entries of an optional map; none if it is missing.
pub(super) fn expect_entries<'n>(
    node: Option<&'n YamlNode>,
    key: &str,
    diags: &mut DiagList,
) -> &'n [(YamlKey, YamlNode)] {
    node.and_then(|node| expect_map(node, &quote_key(key), diags)).unwrap_or(&[])
}

pub(super) fn expect_items<'n>(node: &'n YamlNode, key: &str, diags: &mut DiagList) -> Vec<&'n YamlNode> {
    match &node.data {
        YamlData::Seq(items) => items.iter().collect(),
        _ => {
            diags.push(build_wrong_type_diag(node, &quote_key(key), "a list"));
            Vec::new()
        }
    }
}

pub(super) fn expect_text(node: &YamlNode, key: &str, diags: &mut DiagList) -> Option<String> {
    match &node.data {
        YamlData::Scalar { text, .. } => Some(text.clone()),
        _ => {
            diags.push(build_wrong_type_diag(node, &quote_key(key), "text"));
            None
        }
    }
}

pub(super) fn expect_bool(node: &YamlNode, key: &str, diags: &mut DiagList) -> Option<bool> {
    let plain = match &node.data {
        YamlData::Scalar { text, quoted: false } => scalar::parse_bool(text),
        _ => None,
    };
    if plain.is_none() {
        diags.push(build_not_a_bool_diag(node, &quote_key(key)));
    }
    plain
}

/// Returns the error for a value that is not a boolean, with a hint for booleans of YAML 1.1.
pub(super) fn build_not_a_bool_diag(node: &YamlNode, what: &str) -> Diag {
    let diag = build_wrong_type_diag(node, what, "`true` or `false`");
    match &node.data {
        YamlData::Scalar { text, .. } => match scalar::guess_bool(text) {
            Some(meant) => diag.hint(format!("write `{meant}` without quotes")),
            None => diag,
        },
        _ => diag,
    }
}

pub(super) fn expect_duration(node: &YamlNode, key: &str, diags: &mut DiagList) -> Option<u64> {
    let seconds = match &node.data {
        YamlData::Scalar { text, .. } => scalar::parse_whole_seconds(text),
        _ => None,
    };
    if seconds.is_none() {
        diags.push(build_not_a_duration_diag(node, &quote_key(key)));
    }
    seconds
}

/// Like [`expect_duration`], but rejects zero.
pub(super) fn expect_limit(node: &YamlNode, key: &str, diags: &mut DiagList) -> Option<u64> {
    match expect_duration(node, key, diags)? {
        0 => {
            diags.push(build_zero_duration_diag(node, &quote_key(key)));
            None
        }
        seconds => Some(seconds),
    }
}

/// Returns the error for a limit of zero.
pub(super) fn build_zero_duration_diag(node: &YamlNode, what: &str) -> Diag {
    Diag::error(DiagCode::BadValue, format!("{what} must be longer than zero")).with_span(node.span)
}

pub(super) fn build_not_a_duration_diag(node: &YamlNode, what: &str) -> Diag {
    let diag = build_wrong_type_diag(node, what, "a duration");
    match &node.data {
        YamlData::Scalar { text, .. } if scalar::parse_int(text).is_some() => {
            diag.hint(format!("write the unit: `{text}s` or `{text}m`"))
        }
        YamlData::Scalar { text, .. } if crate::model::parse_duration(text).is_some() => diag.hint("use whole seconds"),
        _ => diag.hint(crate::model::DURATION_FORM),
    }
}

pub(super) fn expect_int(node: &YamlNode, key: &str, min: i64, max: i64, diags: &mut DiagList) -> Option<i64> {
    let number = match &node.data {
        YamlData::Scalar { text, quoted: false } => scalar::parse_int(text),
        _ => None,
    };
    match number {
        Some(number) if (min..=max).contains(&number) => return Some(number),
        Some(number) => diags.push(build_out_of_range_diag(node, &quote_key(key), number, min, max)),
        None => diags.push(build_wrong_type_diag(node, &quote_key(key), "a whole number")),
    }
    None
}

pub(super) fn build_out_of_range_diag(node: &YamlNode, what: &str, number: i64, min: i64, max: i64) -> Diag {
    let bounds = match (min, max) {
        (min, i64::MAX) => format!("at least {min}"),
        (i64::MIN, max) => format!("at most {max}"),
        (min, max) => format!("from {min} to {max}"),
    };
    Diag::error(DiagCode::BadValue, format!("{what} must be {bounds}, found {number}")).with_span(node.span)
}
