//! Determines which other recipes a recipe reads.

use super::expand::read_template_file;
use super::instances::RecipeLibrary;
use super::recipe_requirement::RecipeRequirement;
use super::template::{ProgramCache, TemplateForm, TemplateRead, TemplateRoot};
use super::template_list::{list_rule_templates, list_step_templates, list_verify_templates};
use super::{Project, Recipe, RecipeStep, RecipeVerification};
use crate::diag::Span;
use std::borrow::Cow;
use std::collections::BTreeSet;

/// A template with its form and place.
type LocatedTemplate<'r> = (Cow<'r, str>, TemplateForm, Span);

/// An exported value that a recipe reads.
pub(super) struct ExportRead {
    /// The recipe that exports it.
    pub recipe: String,
    pub name: String,
    /// The place of the template that reads it.
    pub span: Span,
}

/// Returns the other recipes whose parameters a recipe reads: they must be applied to the same host. A template that
/// tests `recipes["other"] is defined` does not require the recipe.
pub(super) fn find_read_parameters(recipe: &Recipe, project: &Project) -> Vec<RecipeRequirement> {
    let mut needs = Vec::new();
    for (text, form, span) in list_recipe_templates(recipe) {
        if let Ok(program) = project.programs.get(&text, form).as_ref() {
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

/// Returns the recipes whose parameters or exports a verification reads.
pub fn list_recipes_read_by(verify: &RecipeVerification, project: &Project) -> BTreeSet<String> {
    let mut recipes = BTreeSet::new();
    for (text, form, _) in locate_templates(list_verify_templates(verify)) {
        if let Ok(program) = project.programs.get(&text, form).as_ref() {
            let is_other = |root: TemplateRoot| matches!(root, TemplateRoot::Recipes | TemplateRoot::Exports);
            let reads = program.reads().iter().filter(|read| is_other(read.root));
            recipes.extend(reads.filter_map(|read| read.path.first().cloned()));
        }
    }
    recipes
}

/// Returns the recipes and names of the exports that a recipe reads.
pub fn list_read_exports(recipe: &Recipe, project: &Project) -> BTreeSet<(String, String)> {
    find_read_exports(recipe, project).into_iter().map(|read| (read.recipe, read.name)).collect()
}

/// Returns the exports that a recipe reads, in its steps, rules and verification.
pub(super) fn find_read_exports(recipe: &Recipe, project: &Project) -> Vec<ExportRead> {
    let files = recipe.steps.iter().filter_map(|step| read_file_template(recipe, step, project));
    let all: Vec<LocatedTemplate<'_>> = list_recipe_templates(recipe).into_iter().chain(files).collect();
    find_exports(&all, &project.programs)
}

/// Returns the exports that a step reads.
pub(super) fn find_exports_of_step(recipe: &Recipe, step: &RecipeStep, project: &Project) -> Vec<ExportRead> {
    let own = locate_templates(list_step_templates(step)).chain(read_file_template(recipe, step, project));
    find_exports(&own.collect::<Vec<_>>(), &project.programs)
}

fn find_exports(templates: &[LocatedTemplate<'_>], programs: &ProgramCache) -> Vec<ExportRead> {
    let mut found = Vec::new();
    for (text, form, span) in templates {
        if let Ok(program) = programs.get(text, *form).as_ref() {
            let reads = program.reads().iter().filter(|read| read.root == TemplateRoot::Exports);
            found.extend(reads.filter_map(|read| {
                let (recipe, name) = (read.path.first()?.clone(), read.path.get(1)?.clone());
                Some(ExportRead { recipe, name, span: *span })
            }));
        }
    }
    found
}

/// Returns the templates of a recipe: of its steps, rules and verification, without the template files of its steps.
fn list_recipe_templates(recipe: &Recipe) -> Vec<LocatedTemplate<'_>> {
    let steps = recipe.steps.iter().flat_map(|step| list_step_templates(step));
    let rules = recipe.rules.iter().flat_map(list_rule_templates);
    let verify = recipe.verify.iter().flat_map(list_verify_templates);
    locate_templates(steps.chain(rules).chain(verify)).collect()
}

fn locate_templates<'r>(
    all: impl IntoIterator<Item = (&'r str, TemplateForm, Span)>,
) -> impl Iterator<Item = LocatedTemplate<'r>> {
    all.into_iter().map(|(text, form, span)| (text.into(), form, span))
}

/// Returns the content of the template file of a step, whose place is the step.
fn read_file_template<'r>(recipe: &Recipe, step: &RecipeStep, project: &Project) -> Option<LocatedTemplate<'r>> {
    let text = read_template_file(project, recipe, step).flatten()?;
    Some((text.into(), TemplateForm::Template, step.span))
}

/// Returns the other recipes whose version a recipe's steps read: the rendered values must equal that version.
pub(super) fn find_read_versions(recipe: &Recipe, library: &RecipeLibrary, project: &Project) -> BTreeSet<String> {
    let is_version = |read: &TemplateRead| {
        let other = library.get(read.path.first()?)?;
        // A read of the whole recipe may include its version.
        let param = |name: &String| other.params.get(name).is_some_and(|p| p.ty == super::ParamType::Version);
        read.path.get(1).is_none_or(param).then(|| other.name.clone())
    };
    let mut found = BTreeSet::new();
    for (text, form, _) in recipe.steps.iter().flat_map(|step| list_step_templates(step)) {
        if let Ok(program) = project.programs.get(text, form).as_ref() {
            found.extend(
                program.reads().iter().filter(|read| read.root == TemplateRoot::Recipes).filter_map(is_version),
            );
        }
    }
    found.remove(&recipe.name);
    found
}
