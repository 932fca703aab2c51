//! Determines which other recipes a recipe reads.

use super::Recipe;
use super::instances::RecipeLibrary;
use super::recipe_requirement::RecipeRequirement;
use super::template::{ProgramCache, TemplateForm, TemplateRead, TemplateRoot};
use super::template_list::{list_step_templates, list_verify_templates};
use crate::diag::Span;
use std::collections::BTreeSet;

/// Returns the other recipes whose parameters a recipe reads: they must be applied to the same host. A template that
/// tests `recipes["other"] is defined` does not require the recipe.
pub(super) fn find_read_parameters(recipe: &Recipe, programs: &ProgramCache) -> Vec<RecipeRequirement> {
    let mut all: Vec<(&str, TemplateForm, Span)> =
        recipe.steps.iter().flat_map(|step| list_step_templates(step)).collect();
    let rules = recipe.rules.iter().flat_map(|rule| rule.when.iter().chain([&rule.require]));
    all.extend(rules.map(|expr| (expr.source.as_str(), TemplateForm::Expression, expr.span)));
    all.extend(recipe.verify.iter().flat_map(list_verify_templates));
    let mut needs = Vec::new();
    for (text, form, span) in all {
        if let Ok(program) = programs.get(text, form).as_ref() {
            let reads = || program.reads().iter().filter(|read| read.root == TemplateRoot::Recipes);
            let asked = |recipe: &String| reads().any(|read| read.optional && read.path.first() == Some(recipe));
            let bare = reads().filter(|read| !read.optional).filter_map(|read| read.path.first());
            needs.extend(bare.filter(|recipe| !asked(recipe)).map(|recipe| RecipeRequirement {
                recipe: recipe.clone(),
                span,
                label: "its parameter is read here",
            }));
        }
    }
    needs
}

/// Returns the other recipes whose version a recipe's steps read: the rendered values must equal that version.
pub(super) fn find_read_versions(
    recipe: &Recipe,
    library: &RecipeLibrary,
    programs: &ProgramCache,
) -> BTreeSet<String> {
    let is_version = |read: &TemplateRead| {
        let other = library.get(read.path.first()?)?;
        // A read of the whole recipe may include its version.
        let param = |name: &String| other.params.get(name).is_some_and(|p| p.ty == super::ParamType::Version);
        read.path.get(1).is_none_or(param).then(|| other.name.clone())
    };
    let mut found = BTreeSet::new();
    for (text, form, _) in recipe.steps.iter().flat_map(|step| list_step_templates(step)) {
        if let Ok(program) = programs.get(text, form).as_ref() {
            found.extend(
                program.reads().iter().filter(|read| read.root == TemplateRoot::Recipes).filter_map(is_version),
            );
        }
    }
    found.remove(&recipe.name);
    found
}
