//! Names that people choose, and values that must be literal.

use super::load_context::LoadContext;
use super::{YamlNode, scalar};
use crate::diag::{Diag, DiagCode};

/// Reports whether `name` can name a cluster, host, group or recipe: these become file names and arguments.
pub(super) fn is_label(name: &str) -> bool {
    let inner = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-');
    name.len() <= 128 && name.bytes().next().is_some_and(|b| b.is_ascii_alphanumeric()) && name.bytes().all(inner)
}

/// Reports whether `name` is an identifier, which templates can read with dot notation.
pub(super) fn is_identifier(name: &str) -> bool {
    let first = name.bytes().next().is_some_and(|b| b.is_ascii_alphabetic() || b == b'_');
    first && name.len() <= 128 && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

/// Reports templates in values that must be literal.
pub(super) fn check_literal(node: &YamlNode, what: &str, cx: &mut LoadContext<'_>) {
    match &node.data {
        super::YamlData::Scalar { text, .. } if scalar::is_template(text) => {
            let diag = Diag::error(DiagCode::BadValue, format!("{what} is literal and cannot contain a template"))
                .with_span(node.span);
            cx.push_diag(diag.hint("use templates in `with` of an `apply` entry or in a recipe"));
        }
        super::YamlData::Seq(items) => items.iter().for_each(|item| check_literal(item, what, cx)),
        super::YamlData::Map(entries) => entries.iter().for_each(|(_, node)| check_literal(node, what, cx)),
        _ => {}
    }
}

/// Reports whether `text` can be a host name, an IP address or an alias in `~/.ssh/config`: it becomes an argument of
/// ssh.
pub(in crate::config) fn is_address(text: &str) -> bool {
    let inner = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-' | b':' | b'%');
    !text.is_empty() && text.len() <= 255 && !text.starts_with('-') && text.bytes().all(inner)
}
