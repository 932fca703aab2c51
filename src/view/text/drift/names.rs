//! Names of steps and hosts in the text of drift.

use crate::model::{HostName, UntrustedText};
use crate::view::escape;

/// Returns `recipe/step`.
pub(super) fn format_step_name(recipe: &UntrustedText, step: &UntrustedText) -> String {
    format!("{}/{}", escape::escape_untrusted(recipe), escape::escape_untrusted(step))
}

/// Returns each host once, in order of first appearance.
pub(super) fn distinct_hosts<'a>(hosts: impl IntoIterator<Item = &'a HostName>) -> Vec<&'a HostName> {
    let mut seen = std::collections::BTreeSet::new();
    hosts.into_iter().filter(|host| seen.insert(*host)).collect()
}
