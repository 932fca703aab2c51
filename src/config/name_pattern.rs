//! Patterns of names: globs.

use crate::diag::{Diag, DiagCode};
use globset::{GlobBuilder, GlobMatcher};
use std::sync::OnceLock;

/// A name or a glob pattern over names.
#[derive(Clone, Debug)]
pub(super) struct NamePattern {
    pub(super) text: String,
    pub(super) matcher: OnceLock<Option<GlobMatcher>>,
}

impl NamePattern {
    pub fn new(text: &str) -> Self {
        Self { text: text.to_owned(), matcher: OnceLock::new() }
    }

    /// Returns whether the pattern matches. Text that is not a valid glob matches only itself.
    pub fn is_match(&self, name: &str) -> bool {
        if self.text == name {
            return true;
        }
        let compile = || GlobBuilder::new(&self.text).literal_separator(true).build().ok().map(|g| g.compile_matcher());
        self.matcher.get_or_init(compile).as_ref().is_some_and(|matcher| matcher.is_match(name))
    }

    pub fn admits_step(&self, recipe: &str, step: &str) -> bool {
        self.is_match(recipe) || (self.text.contains('/') && self.is_match(&format!("{recipe}/{step}")))
    }
}

impl NamePattern {
    pub(super) fn build_no_match_diag(&self, steps: &[(&str, &str)]) -> Diag {
        let diag = Diag::error(DiagCode::EmptySelector, format!("`{}` matches no step of the inventory", self.text));
        if let Some((recipe, step)) = steps.iter().find(|(_, step)| *step == self.text) {
            return diag.hint(format!("write the step with its recipe: `{recipe}/{step}`"));
        }
        let mut names: Vec<String> = match self.text.contains('/') {
            true => steps.iter().map(|(recipe, step)| format!("{recipe}/{step}")).collect(),
            false => steps.iter().map(|(recipe, _)| (*recipe).to_owned()).collect(),
        };
        names.dedup();
        diag.suggest_name(&self.text, names.iter().map(String::as_str))
    }
}
