//! Finds where the value of a templated field was written, through parameters and stacks to the text of an inventory.

use super::scalar::is_template;
use super::template::{TemplateForm, TemplateRoot};
use super::{Project, Recipe, RecipeInstance, RecipeStep, SourcedValue, StackInstance, YamlData, YamlNode, yaml};
use crate::diag::{Diag, FileId, Span};
use std::collections::{BTreeMap, HashMap};

/// Finds values in the files of a project. Parses each file at most once.
#[derive(Debug)]
pub struct WrittenValues<'p> {
    project: &'p Project,
    trees: HashMap<FileId, Option<YamlNode>>,
}

impl<'p> WrittenValues<'p> {
    /// Returns a finder that has not parsed any file yet.
    pub fn new(project: &'p Project) -> Self {
        Self { project, trees: HashMap::new() }
    }

    /// Returns the place, `file:line:col`, of the value of a step's field on the hosts of `instance`: the place of the
    /// parameter's value if a parameter decides it, otherwise the field's own place.
    pub fn locate_field(&mut self, instance: &RecipeInstance, step: &RecipeStep, field: &str) -> Option<String> {
        let node = step.field_node(field)?;
        let span = self.find_origin(instance, step, node.span).unwrap_or(node.span);
        Some(self.project.sources.format_location(span))
    }

    /// Moves an error of a field to the parameter that gave the value; `None` if the value is in the step itself.
    pub(super) fn move_to_param(&mut self, diag: &Diag, instance: &RecipeInstance, step: &RecipeStep) -> Option<Diag> {
        let field = diag.span?;
        let span = self.find_origin(instance, step, field)?;
        Some(
            diag.clone()
                .with_span(span)
                .with_other_span(field, format!("used here by `{}/{}`", instance.recipe.name, step.name)),
        )
    }

    /// Returns the place of the parameter's value that decides the field at `field`. `None` if several parameters
    /// decide it, or if the parameter has its default value.
    fn find_origin(&mut self, instance: &RecipeInstance, step: &RecipeStep, field: Span) -> Option<Span> {
        let path = self.find_only_param(find_scalar(&step.body, field)?)?;
        self.find_param_span(&path, &instance.recipe, &instance.params, instance.through.as_deref())
    }

    fn find_param_span(
        &mut self,
        path: &[String],
        recipe: &Recipe,
        params: &BTreeMap<String, SourcedValue>,
        through: Option<&StackInstance>,
    ) -> Option<Span> {
        let (name, inner) = path.split_first()?;
        let default = recipe.params.get(name)?.span;
        let given = params.get(name)?.span.filter(|span| *span != default)?;
        let (mut node, mut rest) = (self.find_node(given)?, inner);
        while let Some((key, after)) = rest.split_first()
            && let Some(value) = node.get(key)
        {
            (node, rest) = (value, after);
        }
        let span = node.span;
        let YamlData::Scalar { text, .. } = &node.data else { return Some(span) };
        if !is_template(text) {
            return Some(span);
        }
        // The value is a template in a stack: follow the stack's own parameter.
        let text = text.clone();
        let outer = through.zip(self.find_only_param(&text)).and_then(|(stack, mut path)| {
            path.extend_from_slice(rest);
            self.find_param_span(&path, &stack.stack, &stack.params, stack.outer.as_deref())
        });
        outer.or(Some(span))
    }

    /// Returns the path of the parameter if a template reads nothing else.
    fn find_only_param(&self, text: &str) -> Option<Vec<String>> {
        let program = self.project.programs.get(text, TemplateForm::Template);
        let reads = program.as_ref().as_ref().ok()?.reads();
        let (first, others) = reads.split_first()?;
        let only = first.root == TemplateRoot::Params
            && others.iter().all(|read| (&read.root, &read.path) == (&first.root, &first.path));
        only.then(|| first.path.clone())
    }

    /// Returns the node at `span`.
    fn find_node(&mut self, span: Span) -> Option<&YamlNode> {
        let sources = &self.project.sources;
        let tree = self.trees.entry(span.file).or_insert_with(|| {
            // Its errors were reported when it was read.
            yaml::parse(span.file, sources.text(span.file), &mut Vec::new())
        });
        find_node_at(tree.as_ref()?, span)
    }
}

fn find_scalar(tree: &YamlNode, span: Span) -> Option<&str> {
    match &find_node_at(tree, span)?.data {
        YamlData::Scalar { text, .. } if is_template(text) => Some(text),
        _ => None,
    }
}

fn find_node_at(tree: &YamlNode, span: Span) -> Option<&YamlNode> {
    if tree.span == span {
        return Some(tree);
    }
    match &tree.data {
        YamlData::Seq(items) => items.iter().find_map(|item| find_node_at(item, span)),
        YamlData::Map(entries) => entries.iter().find_map(|(_, node)| find_node_at(node, span)),
        _ => None,
    }
}
