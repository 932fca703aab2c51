//! Selects steps of a project by the options `--step` and `--skip`.

use super::Project;
use super::name_pattern::NamePattern;
use crate::diag::{Diag, DiagCode};
use crate::model::VerifyLevel;

/// Selects steps on the command line (`--step`, `--skip`). A pattern is a recipe or `recipe/step`, with globs.
#[derive(Clone, Debug, Default)]
pub struct StepFilter {
    only: Vec<NamePattern>,
    skip: Vec<NamePattern>,
    /// Deepest level to include; `None` for no limit.
    deepest: Option<VerifyLevel>,
}

impl StepFilter {
    /// Returns a filter of the patterns of `--step` and `--skip`. An empty `only` includes every step not in `skip`.
    pub fn new(only: &[String], skip: &[String]) -> Self {
        let patterns = |list: &[String]| list.iter().map(|text| NamePattern::new(text)).collect();
        Self { only: patterns(only), skip: patterns(skip), deepest: None }
    }

    /// Returns the same filter, limited to `level` and above.
    pub fn limit_to_level(&self, level: VerifyLevel) -> Self {
        Self { deepest: Some(level), ..self.clone() }
    }

    /// Returns the same filter without some steps: `recipe/step`.
    pub fn skip_also(&self, steps: &[String]) -> Self {
        let skip = self.skip.iter().cloned().chain(steps.iter().map(|text| NamePattern::new(text)));
        Self { skip: skip.collect(), ..self.clone() }
    }

    /// Returns whether the filter includes steps and verifications of that level.
    pub fn admits_level(&self, level: VerifyLevel) -> bool {
        self.deepest.is_none_or(|deepest| level <= deepest)
    }

    /// Returns the patterns as typed: those of `--step`, then those of `--skip`.
    pub fn written_patterns(&self) -> (Vec<String>, Vec<String>) {
        let texts = |list: &[NamePattern]| list.iter().map(|pattern| pattern.text.clone()).collect();
        (texts(&self.only), texts(&self.skip))
    }

    /// Returns whether the filter has no patterns.
    pub fn is_empty(&self) -> bool {
        self.only.is_empty() && self.skip.is_empty()
    }

    /// Returns whether the filter includes the step.
    pub fn admits_step(&self, recipe: &str, step: &str) -> bool {
        let any = |list: &[NamePattern]| list.iter().any(|pattern| pattern.admits_step(recipe, step));
        (self.only.is_empty() || any(&self.only)) && !any(&self.skip)
    }

    /// Returns whether the filter includes the recipe's verification, which is included only with the whole recipe.
    pub fn admits_recipe(&self, recipe: &str) -> bool {
        let any = |list: &[NamePattern]| list.iter().any(|pattern| pattern.is_match(recipe));
        (self.only.is_empty() || any(&self.only)) && !any(&self.skip)
    }

    /// Returns an error for the first pattern that matches no step of the project, or if the patterns together select
    /// no step. An empty selection is always an error, so that a typo is not reported as "no changes".
    pub fn find_mistake(&self, project: &Project) -> Option<Diag> {
        let steps: Vec<(&str, &str)> =
            project.recipes.values().flat_map(|r| r.steps.iter().map(|s| (r.name.as_str(), s.name.as_str()))).collect();
        let fits = |pattern: &NamePattern| steps.iter().any(|(recipe, step)| pattern.admits_step(recipe, step));
        if let Some(unused) = self.only.iter().chain(&self.skip).find(|pattern| !fits(pattern)) {
            return Some(unused.build_no_match_diag(&steps));
        }
        let none = !steps.is_empty() && !steps.iter().any(|(recipe, step)| self.admits_step(recipe, step));
        none.then(|| Diag::error(DiagCode::EmptySelector, "`--step` and `--skip` together select no step"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn build_filter(only: &[&str], skip: &[&str]) -> StepFilter {
        let own = |list: &[&str]| list.iter().map(|s| (*s).to_owned()).collect::<Vec<_>>();
        StepFilter::new(&own(only), &own(skip))
    }

    #[test]
    fn pattern_matches_a_recipe_or_a_step() {
        assert!(build_filter(&[], &[]).admits_step("web", "page"));
        assert!(build_filter(&["web"], &[]).admits_step("web", "page"));
        assert!(!build_filter(&["web"], &[]).admits_step("webber", "page"));
        assert!(build_filter(&["web/p*"], &[]).admits_step("web", "page"));
        assert!(!build_filter(&["web/p*"], &[]).admits_step("web", "service"));
        assert!(build_filter(&["n*"], &[]).admits_step("nvidia", "x"));
        assert!(!build_filter(&["web"], &["web/page"]).admits_step("web", "page"));
        assert!(build_filter(&["web", "db"], &[]).admits_step("db", "x"), "either of two patterns is enough");
        assert!(!build_filter(&[], &["db", "web"]).admits_step("web", "x"), "any of two skips is enough");
    }

    #[test]
    fn verification_runs_only_for_a_whole_recipe() {
        assert!(build_filter(&["web"], &[]).admits_recipe("web"));
        assert!(!build_filter(&["web/page"], &[]).admits_recipe("web"));
    }
}
