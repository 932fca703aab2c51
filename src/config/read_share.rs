//! Reads a share of hosts.

use super::host_share::HostShare;
use super::load_context::LoadContext;
use super::{YamlNode, scalar, yaml_table};
use crate::diag::{Diag, DiagCode};

/// Parses a count or a percentage.
pub(super) fn read_share(node: &YamlNode, key: &str, cx: &mut LoadContext<'_>) -> Option<HostShare> {
    let text = yaml_table::expect_text(node, key, &mut cx.diags)?;
    let share = match text.strip_suffix('%') {
        Some(percent) => percent.parse().ok().filter(|p| *p <= 100).map(HostShare::Percent),
        None => text.parse().ok().map(HostShare::Count),
    };
    if share.is_none() {
        let diag = Diag::error(
            DiagCode::BadValue,
            format!("`{key}` must be a count or a percentage, found `{}`", scalar::shorten_text(&text)),
        );
        cx.push_diag(diag.with_span(node.span).hint("write it like `2` or `25%`"));
    }
    share
}
