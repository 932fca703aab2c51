//! Validation of declared labels, annotations and taints of a node.

use crate::diag::Diag;
use crate::kube::{NodeMark, OPERANDS};
use crate::model::{SecretStore, Value};
use crate::resource::support::{bad_value, ticked};

/// Prefix of forge's own notes.
const OWN: &str = "forge/";
/// Prefixes of taints that controllers add and remove as the state of a node changes.
const OF_STATE: [&str; 2] = ["node.kubernetes.io/", "node.cloudprovider.kubernetes.io/"];
const EFFECTS: [&str; 3] = ["NoSchedule", "PreferNoSchedule", "NoExecute"];

/// Checks the name of a node.
///
/// # Errors
/// Fails if the name is not valid.
pub(super) fn node(name: &str) -> Result<(), Diag> {
    match is_domain(name) {
        true => Ok(()),
        false => Err(bad_value(format!("`{name}` is not a valid node name"))
            .hint("use the node's name in the cluster: lower-case letters, digits, `-` and `.`")),
    }
}

/// Checks a label.
///
/// # Errors
/// Fails if the API rejects such a label, or if steps may not set it.
pub(super) fn label(key: &str, value: &str) -> Result<(), Diag> {
    if key == OPERANDS {
        return Err(bad_value(format!("`{key}` is reserved: drains set and restore it"))
            .hint("to disable parts of the operator on a node, declare their labels, `nvidia.com/gpu.deploy.…`"));
    }
    named("label", key)?;
    valued("label", key, value)
}

/// Checks an annotation.
///
/// # Errors
/// Fails if the API rejects such an annotation, or if steps may not set it.
pub(super) fn annotation(key: &str, value: &str) -> Result<(), Diag> {
    named("annotation", key)?;
    open("annotation", key, value)
}

/// Parses the taints of a key: an effect, an effect with its value, or a list of these.
///
/// # Errors
/// Fails if the API rejects such a taint, or if steps may not set it.
pub(super) fn taints(key: &str, written: &Value) -> Result<Vec<(NodeMark, String)>, Diag> {
    if OF_STATE.iter().any(|prefix| key.starts_with(prefix)) {
        return Err(bad_value(format!("taint `{key}` is managed by Kubernetes: it follows the state of the node"))
            .hint("to cordon a host, drain it in its window with `rollout: { drain: … }`"));
    }
    named("taint", key)?;
    match written {
        Value::Array(several) => several.iter().map(|one| taint(key, one)).collect(),
        one => Ok(vec![taint(key, one)?]),
    }
}

fn taint(key: &str, written: &Value) -> Result<(NodeMark, String), Diag> {
    let text = |value: Option<&Value>| value.and_then(Value::as_str).unwrap_or_default().to_owned();
    let (effect, value) = match written {
        Value::Object(map) => {
            if let Some(other) = map.keys().find(|key| !matches!(key.as_str(), "effect" | "value")) {
                return Err(
                    bad_value(format!("taint `{key}` has unknown key `{other}`")).hint("use `effect` and `value`")
                );
            }
            (text(map.get("effect")), text(map.get("value")))
        }
        effect => (text(Some(effect)), String::new()),
    };
    if !EFFECTS.contains(&effect.as_str()) {
        return Err(bad_value(format!("`{effect}` is not a valid taint effect"))
            .hint(format!("use one of {}", ticked(&EFFECTS))));
    }
    valued("taint", key, &value)?;
    Ok((NodeMark::Taint { key: key.to_owned(), effect }, value))
}

fn named(what: &str, key: &str) -> Result<(), Diag> {
    if key.starts_with(OWN) {
        return Err(bad_value(format!("`{key}` is reserved for forge's own notes")));
    }
    let (prefix, name) = key.split_once('/').map_or((None, key), |(prefix, name)| (Some(prefix), name));
    match prefix.is_none_or(is_domain) && is_word(name) {
        true => Ok(()),
        false => Err(bad_value(format!("`{key}` is not a valid {what} key"))
            .hint("use letters, digits, `-`, `_` and `.`, at most 63, with an optional domain: `example.com/name`")),
    }
}

fn valued(what: &str, key: &str, value: &str) -> Result<(), Diag> {
    open(what, key, value)?;
    match value.is_empty() || is_word(value) {
        true => Ok(()),
        false => Err(bad_value(format!("`{value}` is not a valid value of {what} `{key}`"))
            .hint("use letters, digits, `-`, `_` and `.`, at most 63, beginning and ending with a letter or digit")),
    }
}

fn open(what: &str, key: &str, value: &str) -> Result<(), Diag> {
    match SecretStore::mentions(value) {
        true => {
            Err(bad_value(format!("{what} `{key}` contains a secret, and everyone who can read nodes can read it")))
        }
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
