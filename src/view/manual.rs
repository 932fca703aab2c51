//! The built-in documentation: an installed `forge` shows every page that it mentions.

use crate::resource::{all_kinds, find_kind, reference};
use schemars::JsonSchema;
use serde::Serialize;
use std::fmt::Write;

/// A page of the documentation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ManualPage {
    /// The topic for `forge explain`: `rollout`, or the name of a kind.
    pub topic: String,
    /// Markdown.
    pub text: String,
}

/// Topics with their files below `docs/` and their texts.
const TOPICS: &[(&str, &str, &str)] = &[
    ("acceptance", "acceptance.md", include_str!("../../docs/acceptance.md")),
    ("ansible", "ansible.md", include_str!("../../docs/ansible.md")),
    ("cluster", "cluster.md", include_str!("../../docs/cluster.md")),
    ("drift", "drift.md", include_str!("../../docs/drift.md")),
    ("editors", "editors.md", include_str!("../../docs/editors.md")),
    ("exit-codes", "reference/exit-codes.md", include_str!("../../docs/reference/exit-codes.md")),
    ("facts", "reference/facts.md", include_str!("../../docs/reference/facts.md")),
    ("helm", "helm.md", include_str!("../../docs/helm.md")),
    ("recipe-reference", "recipe-reference.md", include_str!("../../docs/recipe-reference.md")),
    ("recipes", "recipes.md", include_str!("../../docs/recipes.md")),
    ("rehearsal", "rehearsal.md", include_str!("../../docs/rehearsal.md")),
    ("review", "review.md", include_str!("../../docs/review.md")),
    ("rollout", "rollout.md", include_str!("../../docs/rollout.md")),
    ("sandbox", "sandbox.md", include_str!("../../docs/sandbox.md")),
    ("scale", "scale.md", include_str!("../../docs/scale.md")),
    ("security", "security.md", include_str!("../../docs/security.md")),
    ("troubleshooting", "troubleshooting.md", include_str!("../../docs/troubleshooting.md")),
];

/// The topic that lists all kinds.
const KINDS_TOPIC: &str = "kinds";
const KINDS_FOLDER: &str = "reference/kinds";

/// Returns the page of a topic or a kind, by its name or by its path in the repository (`docs/rollout.md`).
pub fn find_manual_page(name: &str) -> Option<ManualPage> {
    let file = name.strip_prefix("docs/").map(|path| path.split('#').next().unwrap_or_default().trim_end_matches('/'));
    let topic = TOPICS.iter().find(|(topic, path, _)| file.map_or(*topic == name, |file| *path == file));
    if let Some((topic, _, text)) = topic {
        return Some(ManualPage { topic: (*topic).to_owned(), text: (*text).to_owned() });
    }
    let inner = file.and_then(|file| file.strip_prefix(KINDS_FOLDER));
    match (file, inner) {
        (None, _) if name == KINDS_TOPIC => Some(kind_list_page()),
        (None, _) => find_kind_page(name),
        (Some(_), Some("" | "/README.md")) => Some(kind_list_page()),
        (Some(_), Some(inner)) => find_kind_page(inner.strip_prefix('/')?.strip_suffix(".md")?),
        (Some(_), None) => None,
    }
}

/// Returns the names of all pages.
pub fn list_manual_topics() -> impl Iterator<Item = &'static str> {
    let topics = TOPICS.iter().map(|(topic, ..)| *topic);
    topics.chain([KINDS_TOPIC]).chain(all_kinds().iter().map(|kind| kind.name))
}

fn find_kind_page(name: &str) -> Option<ManualPage> {
    find_kind(name).map(|kind| ManualPage { topic: kind.name.to_owned(), text: reference::render_kind_page(kind) })
}

fn kind_list_page() -> ManualPage {
    let mut text = String::from("# Kinds\n\nThe resource kinds of steps. Run `forge explain KIND` for details.\n\n");
    for kind in all_kinds() {
        // Writing to a `String` cannot fail.
        let _ = writeln!(text, "- `{}`: {}", kind.name, kind.summary);
    }
    ManualPage { topic: KINDS_TOPIC.to_owned(), text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn manual_pages_are_found_by_topic_kind_and_path() {
        let topic = |name: &str| find_manual_page(name).map(|page| page.topic);
        for (name, expected) in [
            ("rollout", "rollout"),
            ("docs/rollout.md", "rollout"),
            ("docs/recipe-reference.md#artifacts", "recipe-reference"),
            ("file", "file"),
            ("docs/reference/kinds/file.md", "file"),
            ("docs/reference/kinds", "kinds"),
            ("docs/reference/exit-codes.md", "exit-codes"),
        ] {
            assert_eq!(topic(name).as_deref(), Some(expected), "{name}");
        }
        assert_eq!((topic("docs/file.md"), topic("nothing"), topic("docs/nothing.md")), (None, None, None));
        assert!(find_manual_page("file").is_some_and(|page| page.text.starts_with("# `file`")));
    }
}
