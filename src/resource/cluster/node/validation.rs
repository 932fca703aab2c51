//! Validation of declared labels, annotations and taints of a node.

use crate::diag::Diag;
use crate::model::{SecretStore, Value};
use crate::object::{NodeMark, OPERANDS_LABEL};
use crate::resource::shared::support::{bad_value, join_quoted};

/// Prefix of forge's own notes.
const OWN_PREFIX: &str = "forge/";
/// Prefixes of taints that controllers add and remove as the state of a node changes.
const STATE_TAINT_PREFIXES: [&str; 2] = ["node.kubernetes.io/", "node.cloudprovider.kubernetes.io/"];
const EFFECTS: [&str; 3] = ["NoSchedule", "PreferNoSchedule", "NoExecute"];

/// Checks the name of a node.
///
/// # Errors
/// Fails if the name is not valid.
pub(super) fn check_node_name(name: &str) -> Result<(), Diag> {
    match is_domain(name) {
        true => Ok(()),
        false => Err(bad_value(format!("`{name}` is not a valid node name"))
            .with_field("name")
            .hint("use the node's name in the cluster: lower-case letters, digits, `-` and `.`")),
    }
}

/// Checks a label.
///
/// # Errors
/// Fails if the API rejects such a label, or if steps may not set it.
pub(super) fn check_label(key: &str, value: &str) -> Result<(), Diag> {
    if key == OPERANDS_LABEL {
        return Err(bad_value(format!("`{key}` is reserved: drains set and restore it"))
            .hint("to disable parts of the operator on a node, declare their labels, `nvidia.com/gpu.deploy.…`"));
    }
    check_key("label", key)?;
    check_value("label", key, value)
}

/// Checks an annotation.
///
/// # Errors
/// Fails if the API rejects such an annotation, or if steps may not set it.
pub(super) fn check_annotation(key: &str, value: &str) -> Result<(), Diag> {
    check_key("annotation", key)?;
    reject_secret("annotation", key, value)
}

/// Parses the taints of a key: an effect, an effect with its value, or a list of these.
///
/// # Errors
/// Fails if the API rejects such a taint, or if steps may not set it.
pub(super) fn parse_taints(key: &str, written: &Value) -> Result<Vec<(NodeMark, String)>, Diag> {
    if STATE_TAINT_PREFIXES.iter().any(|prefix| key.starts_with(prefix)) {
        return Err(bad_value(format!("taint `{key}` is managed by Kubernetes: it follows the state of the node"))
            .with_field("taints")
            .hint("to cordon a host, drain it in its window with `rollout: { drain: … }`"));
    }
    check_key("taint", key).map_err(|diag| diag.with_field("taints"))?;
    match written {
        Value::Array(several) => several.iter().map(|one| parse_taint(key, one)).collect(),
        one => Ok(vec![parse_taint(key, one)?]),
    }
}

fn parse_taint(key: &str, written: &Value) -> Result<(NodeMark, String), Diag> {
    let text = |value: Option<&Value>| value.and_then(Value::as_str).unwrap_or_default().to_owned();
    let (effect, value) = match written {
        Value::Object(map) => {
            if let Some(other) = map.keys().find(|key| !matches!(key.as_str(), "effect" | "value")) {
                return Err(bad_value(format!("taint `{key}` has unknown key `{other}`"))
                    .with_field("taints")
                    .hint("use `effect` and `value`"));
            }
            (text(map.get("effect")), text(map.get("value")))
        }
        effect => (text(Some(effect)), String::new()),
    };
    if !EFFECTS.contains(&effect.as_str()) {
        return Err(bad_value(format!("`{effect}` is not a valid taint effect"))
            .with_field("taints")
            .hint(format!("use one of {}", join_quoted(&EFFECTS))));
    }
    check_value("taint", key, &value).map_err(|diag| diag.with_field("taints"))?;
    Ok((NodeMark::Taint { key: key.to_owned(), effect }, value))
}

/// Checks the key of an entry that is restored. Its value was one of the API.
///
/// # Errors
/// Fails if steps may not set it.
pub(super) fn check_restored_key(mark: &NodeMark) -> Result<(), Diag> {
    match mark {
        NodeMark::Label(key) => check_label(key, ""),
        NodeMark::Annotation(key) => check_key("annotation", key),
        NodeMark::Taint { key, effect } => parse_taints(key, &Value::from(effect.as_str())).map(drop),
    }
}

fn check_key(what: &str, key: &str) -> Result<(), Diag> {
    if key.starts_with(OWN_PREFIX) {
        return Err(bad_value(format!("`{key}` is reserved for forge's own notes")));
    }
    let (prefix, name) = key.split_once('/').map_or((None, key), |(prefix, name)| (Some(prefix), name));
    match prefix.is_none_or(is_domain) && is_label_word(name) {
        true => Ok(()),
        false => Err(bad_value(format!("`{key}` is not a valid {what} key"))
            .hint("use letters, digits, `-`, `_` and `.`, at most 63, with an optional domain: `example.com/name`")),
    }
}

fn check_value(what: &str, key: &str, value: &str) -> Result<(), Diag> {
    reject_secret(what, key, value)?;
    match value.is_empty() || is_label_word(value) {
        true => Ok(()),
        false => Err(bad_value(format!("`{value}` is not a valid value of {what} `{key}`"))
            .hint("use letters, digits, `-`, `_` and `.`, at most 63, beginning and ending with a letter or digit")),
    }
}

fn reject_secret(what: &str, key: &str, value: &str) -> Result<(), Diag> {
    match SecretStore::has_placeholder(value) {
        true => {
            Err(bad_value(format!("{what} `{key}` contains a secret, and everyone who can read nodes can read it")))
        }
        false => Ok(()),
    }
}

fn is_label_word(text: &str) -> bool {
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
