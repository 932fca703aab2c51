//! Finds the exports that a step reads.

use super::template::{TemplateForm, TemplateRoot};
use super::template_list::list_step_templates;
use super::{Recipe, RecipeStep};
use crate::diag::Span;

/// Returns the exports that a step reads: recipe, name and place.
pub(super) fn find_read_exports(
    recipe: &Recipe,
    step: &RecipeStep,
    project: &super::Project,
) -> Vec<(String, String, Span)> {
    let mut found = Vec::new();
    let file = super::expand::read_template_file(project, recipe, step).flatten();
    let mut texts = list_step_templates(step);
    texts.extend(file.iter().map(|text| (text.as_str(), TemplateForm::Template, step.span)));
    for (text, form, span) in texts {
        if let Ok(program) = project.programs.get(text, form).as_ref() {
            let reads = program.reads().iter().filter(|read| read.root == TemplateRoot::Exports);
            found.extend(reads.filter_map(|read| Some((read.path.first()?.clone(), read.path.get(1)?.clone(), span))));
        }
    }
    found
}
