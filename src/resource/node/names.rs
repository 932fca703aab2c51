//! What may be declared of a node: keys and values as the API takes them, and none that somebody else needs.

use crate::diag::Diag;
use crate::kube::{Mark, OPERANDS};
use crate::model::{SecretStore, Value};
use crate::resource::support::{bad_value, ticked};

/// Notes of forge itself.
const OWN: &str = "forge/";
/// Taints that controllers set and take out as the state of a node changes.
const OF_STATE: [&str; 2] = ["node.kubernetes.io/", "node.cloudprovider.kubernetes.io/"];
const EFFECTS: [&str; 3] = ["NoSchedule", "PreferNoSchedule", "NoExecute"];

/// # Errors
/// No node has such a name.
pub(super) fn node(name: &str) -> Result<(), Diag> {
    match is_domain(name) {
        true => Ok(()),
        false => Err(bad_value(format!("`{name}` cannot name a node"))
            .hint("use the name that the cluster has it by: small letters, digits, `-` and `.`")),
    }
}

/// # Errors
/// The API takes no such label, or it is not a step's to set.
pub(super) fn label(key: &str, value: &str) -> Result<(), Diag> {
    if key == OPERANDS {
        return Err(bad_value(format!("`{key}` is what a drain sets and gives back")).hint(
            "to keep single parts of the operator from a node, declare their own labels, `nvidia.com/gpu.deploy.…`",
        ));
    }
    named("label", key)?;
    valued("label", key, value)
}

/// # Errors
/// The API takes no such annotation, or it is not a step's to set.
pub(super) fn annotation(key: &str, value: &str) -> Result<(), Diag> {
    named("annotation", key)?;
    open("annotation", key, value)
}

/// Returns the taints of a key: an effect, one with its value, or several of either.
///
/// # Errors
/// The API takes no such taint, or it is not a step's to set.
pub(super) fn taints(key: &str, written: &Value) -> Result<Vec<(Mark, String)>, Diag> {
    if OF_STATE.iter().any(|prefix| key.starts_with(prefix)) {
        return Err(bad_value(format!("taint `{key}` follows the state of the node"))
            .hint("a host that is drained is cordoned by its window: `rollout: { drain: … }`"));
    }
    named("taint", key)?;
    match written {
        Value::Array(several) => several.iter().map(|one| taint(key, one)).collect(),
        one => Ok(vec![taint(key, one)?]),
    }
}

fn taint(key: &str, written: &Value) -> Result<(Mark, String), Diag> {
    let text = |value: Option<&Value>| value.and_then(Value::as_str).unwrap_or_default().to_owned();
    let (effect, value) = match written {
        Value::Object(map) => {
            if let Some(other) = map.keys().find(|key| !matches!(key.as_str(), "effect" | "value")) {
                return Err(bad_value(format!("taint `{key}` knows no `{other}`")).hint("give `effect` and `value`"));
            }
            (text(map.get("effect")), text(map.get("value")))
        }
        effect => (text(Some(effect)), String::new()),
    };
    if !EFFECTS.contains(&effect.as_str()) {
        return Err(
            bad_value(format!("`{effect}` is no effect of a taint")).hint(format!("write one of {}", ticked(&EFFECTS)))
        );
    }
    valued("taint", key, &value)?;
    Ok((Mark::Taint { key: key.to_owned(), effect }, value))
}

fn named(what: &str, key: &str) -> Result<(), Diag> {
    if key.starts_with(OWN) {
        return Err(bad_value(format!("`{key}` is one of forge's own notes")));
    }
    let (prefix, name) = key.split_once('/').map_or((None, key), |(prefix, name)| (Some(prefix), name));
    match prefix.is_none_or(is_domain) && is_word(name) {
        true => Ok(()),
        false => Err(bad_value(format!("`{key}` cannot name a {what}"))
            .hint("it is a name of letters, digits, `-`, `_` and `.`, at most 63, and may have a domain before it: `example.com/name`")),
    }
}

fn valued(what: &str, key: &str, value: &str) -> Result<(), Diag> {
    open(what, key, value)?;
    match value.is_empty() || is_word(value) {
        true => Ok(()),
        false => Err(bad_value(format!("`{value}` cannot be the value of {what} `{key}`"))
            .hint("use letters, digits, `-`, `_` and `.`, at most 63, with a letter or digit first and last")),
    }
}

fn open(what: &str, key: &str, value: &str) -> Result<(), Diag> {
    match SecretStore::mentions(value) {
        true => Err(bad_value(format!("{what} `{key}` holds a secret, and whoever may read nodes reads it"))),
        false => Ok(()),
    }
}

fn is_word(text: &str) -> bool {
    let ends = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    let bytes = text.as_bytes();
    let inner = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    bytes.len() <= 63 && bytes.iter().all(inner) && ends(bytes.first()) && ends(bytes.last())
}

fn is_domain(text: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let part =
        |part: &str| !part.is_empty() && part.bytes().all(inner) && !part.starts_with('-') && !part.ends_with('-');
    text.len() <= 253 && text.split('.').all(part)
}
