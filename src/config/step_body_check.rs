//! Checks the bodies of steps against the fields of their kinds, without any parameter.

use super::field_check::{FieldFileReader, RenderedFile, check_kind_fields};
use super::instances::RecipeLibrary;
use super::{YamlData, YamlNode, scalar};
use crate::diag::{Diag, DiagList, Span};

/// Checks the body of every step without rendering its templates: keys and literal values are valid or invalid
/// regardless of the parameters.
pub(super) fn check_step_bodies(library: &RecipeLibrary, diags: &mut DiagList) {
    for step in library.values().flat_map(|recipe| &recipe.steps) {
        let Some(kind) = crate::resource::find_kind(step.kind) else { continue };
        let checked = check_kind_fields(&defer_templates(&step.body), kind, &NoFiles);
        checked.diags.into_iter().for_each(|diag| diags.push(diag));
    }
}

/// Skips local files: they are read only for recipes that are applied.
struct NoFiles;

impl FieldFileReader for NoFiles {
    fn read_source(&self, _: &str, _: Span) -> Result<crate::model::Value, Box<Diag>> {
        Ok(crate::model::Value::Null)
    }

    fn locate_file(&self, _: &str, _: Span) -> Result<crate::model::Value, Box<Diag>> {
        Ok(crate::model::Value::Null)
    }

    fn render_template(&self, _: &str, _: Span) -> Result<RenderedFile, Box<Diag>> {
        Ok(RenderedFile::Waits(super::PendingInput::Facts))
    }
}

fn defer_templates(node: &YamlNode) -> YamlNode {
    let data = match &node.data {
        YamlData::Scalar { text, .. } if scalar::is_template(text) => YamlData::Unknown(super::PendingInput::Facts),
        YamlData::Seq(items) => YamlData::Seq(items.iter().map(defer_templates).collect()),
        YamlData::Map(entries) => {
            YamlData::Map(entries.iter().map(|(key, node)| (key.clone(), defer_templates(node))).collect())
        }
        other => other.clone(),
    };
    YamlNode { span: node.span, data }
}
