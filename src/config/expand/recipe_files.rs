//! Reads the local files that a step's body names, and renders templates.

use crate::config::builtin_data::BUILTIN_PATH;
use crate::config::field_check::{FieldFileReader, RenderedFile};
use crate::config::scalar::is_template;
use crate::config::template::{EvalOutcome, TemplateBindings, TemplateForm};
use crate::config::{Project, Recipe, RecipeStep, YamlData};
use crate::diag::{Diag, DiagCode, Span};
use crate::model::Value;
use camino::Utf8Path;

/// Files in the folder of one recipe, rendered with the bindings of one instance of a step.
pub(super) struct RecipeFolder<'f> {
    pub project: &'f Project,
    pub recipe: &'f Recipe,
    pub bindings: &'f TemplateBindings,
}

impl RecipeFolder<'_> {
    fn read_file(&self, path: &str, span: Span) -> Result<Value, Box<Diag>> {
        self.project.files.get_content(find_base_folder(self.recipe), path, span)
    }
}

/// Returns the folder that relative paths resolve from. A built-in recipe has none: its parameters name files relative
/// to the inventory's folder.
fn find_base_folder(recipe: &Recipe) -> &Utf8Path {
    let own = recipe.path.parent().filter(|_| !recipe.path.starts_with(BUILTIN_PATH));
    own.unwrap_or(Utf8Path::new(""))
}

impl FieldFileReader for RecipeFolder<'_> {
    fn read_source(&self, path: &str, span: Span) -> Result<Value, Box<Diag>> {
        self.read_file(path, span)
    }

    fn locate_file(&self, path: &str, span: Span) -> Result<Value, Box<Diag>> {
        self.project
            .files
            .locate_file(find_base_folder(self.recipe), path, span)
            .map(|path| Value::from(path.into_string()))
    }

    fn render_template(&self, path: &str, span: Span) -> Result<RenderedFile, Box<Diag>> {
        let Value::String(text) = self.read_file(path, span)? else {
            return Err(Box::new(Diag::error(DiagCode::BadTemplate, format!("`{path}` is not text")).with_span(span)));
        };
        let wrong = |error: &crate::config::TemplateError| Box::new(build_template_diag(error, path, &text, span));
        let program = self.project.programs.get(&text, TemplateForm::Template);
        let program = program.as_ref().as_ref().map_err(wrong)?;
        if let Some(error) = program.name_errors().first() {
            return Err(wrong(error));
        }
        match program.run(self.bindings).map_err(|error| wrong(&error))? {
            EvalOutcome::Known { value, reads } => {
                let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
                Ok(RenderedFile::Known { text, reads })
            }
            EvalOutcome::Deferred(need) => Ok(RenderedFile::Waits(need)),
        }
    }
}

/// Converts an error in a template file to a diagnostic at the step that names the file.
fn build_template_diag(error: &crate::config::TemplateError, path: &str, text: &str, span: Span) -> Diag {
    let code = if error.undefined { DiagCode::UnknownName } else { DiagCode::BadTemplate };
    let line =
        error.range.as_ref().and_then(|range| text.get(..range.start)).map(|before| before.matches('\n').count() + 1);
    let place = line.map_or_else(|| path.to_owned(), |line| format!("{path}:{line}"));
    let diag = Diag::error(code, error.message.clone()).with_span(span).note(format!("in the template `{place}`"));
    match &error.hint {
        Some(hint) => diag.hint(hint.clone()),
        None => diag,
    }
}

/// Returns the text of the template file that a step names: `None` if it names none, `Some(None)` if the path depends
/// on values or the file cannot be read.
pub(in crate::config) fn read_template_file(
    project: &Project,
    recipe: &Recipe,
    step: &RecipeStep,
) -> Option<Option<String>> {
    let YamlData::Map(entries) = &step.body.data else { return None };
    let (_, node) = entries.iter().find(|(key, _)| key.text == "template")?;
    let YamlData::Scalar { text, .. } = &node.data else { return None };
    if is_template(text) {
        return Some(None);
    }
    match project.files.get_content(find_base_folder(recipe), text, node.span) {
        Ok(Value::String(text)) => Some(Some(text)),
        _ => Some(None),
    }
}
