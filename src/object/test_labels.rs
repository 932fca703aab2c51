//! Labels of a node that say which acceptance tests its host has passed.

use super::ClusterNode;
use std::collections::BTreeMap;

/// The label of the set `quick` is `forge/test-quick`. Workloads select nodes by it.
pub const TEST_LABEL_PREFIX: &str = "forge/test-";

/// The value of the label. A node whose host does not hold the set has no label.
const TEST_LABEL_VALUE: &str = "passed";

/// Maximum length of the part of a label behind the slash. Source: Kubernetes documentation, "Labels and Selectors".
const MAX_LABEL_NAME: usize = 63;

/// Reports whether a set of that name can have a label.
pub fn is_label_name(set: &str) -> bool {
    let is_inner = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    let prefix = TEST_LABEL_PREFIX.split_once('/').map_or("", |(_, name)| name);
    prefix.len() + set.len() <= MAX_LABEL_NAME
        && set.bytes().all(is_inner)
        && set.bytes().last().is_some_and(|last| last.is_ascii_alphanumeric())
}

/// Returns the labels of a node that have to change: `None` for one to remove. `results` says of each set whether the host
/// holds it.
pub fn list_label_changes(
    node: &ClusterNode,
    results: &BTreeMap<String, bool>,
) -> BTreeMap<String, Option<&'static str>> {
    let labels = results.iter().map(|(set, holds)| {
        let wanted = holds.then_some(TEST_LABEL_VALUE);
        (format!("{TEST_LABEL_PREFIX}{set}"), wanted)
    });
    labels.filter(|(label, wanted)| node.labels.get(label).map(String::as_str) != *wanted).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_labels_that_differ_change() {
        let labels = [("forge/test-quick", "passed"), ("forge/test-full", "passed"), ("forge/test-odd", "yes")];
        let labels = labels.map(|(label, value)| (label.to_owned(), value.to_owned()));
        let node = ClusterNode { labels: labels.into(), ..ClusterNode::default() };
        let results = [("quick", true), ("full", false), ("odd", true), ("burn-in", true), ("new", false)];
        let changes = list_label_changes(&node, &results.map(|(set, holds)| (set.to_owned(), holds)).into());
        let changes: Vec<_> = changes.iter().map(|(label, value)| (label.as_str(), *value)).collect();
        let passed = Some("passed");
        assert_eq!(changes, [("forge/test-burn-in", passed), ("forge/test-full", None), ("forge/test-odd", passed)]);
    }

    #[test]
    fn names_of_sets_fit_into_a_label() {
        let long = "a".repeat(58);
        for (set, fits) in
            [("quick", true), ("burn-in", true), ("a b", false), ("a-", false), ("", false), (&long, true)]
        {
            assert_eq!(is_label_name(set), fits, "{set}");
        }
        assert!(!is_label_name(&"a".repeat(59)));
    }
}
