//! Renders the templates of a tree. Values that are not known yet are marked, and errors get their place in the file.

use super::scalar::is_template;
use super::template::{EvalOutcome, ProgramCache, TemplateBindings, TemplateError, TemplateForm};
use super::{PendingInput, SourceExpr, YamlData, YamlKey, YamlNode};
use crate::diag::{Diag, DiagCode, SourceMap, Span};
use crate::model::Value;
use std::collections::BTreeSet;
use std::ops::Range;

/// Renders trees with one set of bindings, and collects the facts that were read and the errors.
pub(super) struct TreeRenderer<'r> {
    pub programs: &'r ProgramCache,
    pub sources: &'r SourceMap,
    pub bindings: &'r TemplateBindings,
    pub reads: BTreeSet<String>,
    pub diags: Vec<Diag>,
}

impl<'r> TreeRenderer<'r> {
    pub fn new(programs: &'r ProgramCache, sources: &'r SourceMap, bindings: &'r TemplateBindings) -> Self {
        Self { programs, sources, bindings, reads: BTreeSet::new(), diags: Vec::new() }
    }

    /// Returns the tree with every template replaced by its value. A template that fails becomes null, with an error in
    /// `diags`.
    pub fn render_tree(&mut self, node: &YamlNode) -> YamlNode {
        let data = match &node.data {
            YamlData::Scalar { text, .. } if is_template(text) => return self.render_text(text, node.span),
            YamlData::Seq(items) => YamlData::Seq(items.iter().map(|item| self.render_tree(item)).collect()),
            YamlData::Map(entries) => {
                YamlData::Map(entries.iter().map(|(key, node)| (self.check_key(key), self.render_tree(node))).collect())
            }
            other => other.clone(),
        };
        YamlNode { span: node.span, data }
    }

    /// Reports a template in a key: keys must be known at load.
    fn check_key(&mut self, key: &YamlKey) -> YamlKey {
        if is_template(&key.text) {
            let diag = Diag::error(DiagCode::BadTemplate, "a key is literal and cannot contain a template");
            self.diags.push(diag.with_span(key.span));
        }
        key.clone()
    }

    /// Renders the template at `span`.
    pub fn render_text(&mut self, text: &str, span: Span) -> YamlNode {
        let program = self.programs.get(text, TemplateForm::Template);
        let result = program.as_ref().as_ref().map_err(Clone::clone).and_then(|program| program.run(self.bindings));
        match result {
            Ok(EvalOutcome::Known { value, reads }) => {
                self.reads.extend(reads);
                value_to_node(&value, span)
            }
            Ok(EvalOutcome::Deferred(need)) => YamlNode { span, data: YamlData::Unknown(need) },
            Err(error) => {
                self.diags.push(build_template_diag(&error, text, span, self.sources));
                YamlNode { span, data: YamlData::Null }
            }
        }
    }

    /// Evaluates a condition; `None` after an error.
    pub fn evaluate_condition(&mut self, expr: &SourceExpr) -> Option<EvalOutcome<bool>> {
        self.evaluate_with(expr, |program, bindings| program.run_condition(bindings))
    }

    /// Evaluates an expression; `None` after an error.
    pub fn evaluate_value(&mut self, expr: &SourceExpr) -> Option<EvalOutcome<Value>> {
        self.evaluate_with(expr, |program, bindings| program.run(bindings))
    }

    fn evaluate_with<T>(
        &mut self,
        expr: &SourceExpr,
        run: impl Fn(&super::template::TemplateProgram, &TemplateBindings) -> Result<EvalOutcome<T>, TemplateError>,
    ) -> Option<EvalOutcome<T>> {
        let program = self.programs.get(&expr.source, TemplateForm::Expression);
        let result = program.as_ref().as_ref().map_err(Clone::clone).and_then(|program| run(program, self.bindings));
        match result {
            Ok(EvalOutcome::Known { value, reads }) => {
                self.reads.extend(reads.iter().cloned());
                Some(EvalOutcome::Known { value, reads })
            }
            Ok(deferred) => Some(deferred),
            Err(error) => {
                self.diags.push(build_template_diag(&error, &expr.source, expr.span, self.sources));
                None
            }
        }
    }
}

/// Converts a value to a tree at `span`. Text counts as quoted.
pub(super) fn value_to_node(value: &Value, span: Span) -> YamlNode {
    let data = match value {
        Value::Null => YamlData::Null,
        Value::Bool(flag) => YamlData::Scalar { text: flag.to_string(), quoted: false },
        Value::Number(number) => YamlData::Scalar { text: number.to_string(), quoted: false },
        Value::String(text) => YamlData::Scalar { text: text.clone(), quoted: true },
        Value::Array(items) => YamlData::Seq(items.iter().map(|item| value_to_node(item, span)).collect()),
        Value::Object(map) => {
            let pair =
                |(key, value): (&String, &Value)| (YamlKey { text: key.clone(), span }, value_to_node(value, span));
            YamlData::Map(map.iter().map(pair).collect())
        }
    };
    YamlNode { span, data }
}

/// Returns the first unknown value that a tree waits for.
pub(super) fn find_pending_input(node: &YamlNode) -> Option<PendingInput> {
    match &node.data {
        YamlData::Unknown(need) => Some(need.clone()),
        YamlData::Seq(items) => items.iter().find_map(find_pending_input),
        YamlData::Map(entries) => entries.iter().find_map(|(_, node)| find_pending_input(node)),
        _ => None,
    }
}

/// Converts an error of the template at `span` to a diagnostic.
pub(super) fn build_template_diag(error: &TemplateError, source: &str, span: Span, sources: &SourceMap) -> Diag {
    let code = if error.undefined { DiagCode::UnknownName } else { DiagCode::BadTemplate };
    let place = error.range.as_ref().map_or(span, |range| locate_range(range, source, span, sources));
    let diag = Diag::error(code, error.message.clone()).with_span(place);
    match &error.hint {
        Some(hint) => diag.hint(hint.clone()),
        None if error.range.as_ref().and_then(|range| source.get(range.clone())) == Some("=") => {
            diag.hint("use `==` to compare values")
        }
        None => diag,
    }
}

/// Finds the part of a file that a range of a template came from. YAML may have folded or escaped the text, so the
/// excerpt is searched in the scalar as typed; the fallback is the whole scalar.
pub(super) fn locate_range(range: &Range<usize>, source: &str, span: Span, sources: &SourceMap) -> Span {
    let typed = sources.text(span.file).get(span.start as usize..span.end as usize).unwrap_or("");
    let Some(excerpt) = source.get(range.clone()).filter(|excerpt| !excerpt.is_empty()) else { return span };
    let verbatim = typed.find(source).map(|start| start + range.start);
    match verbatim.or_else(|| typed.find(excerpt)) {
        Some(at) => {
            let start = span.start + at as u32;
            Span { start, end: start + excerpt.len() as u32, ..span }
        }
        None => span,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::template::build_tree;
    use serde_json::json;

    #[test]
    fn errors_point_inside_the_scalar() {
        let mut sources = SourceMap::default();
        let text = "path: \"/etc/{{ params.nmae }}\"\ncontent: |\n  a\n  {{ params.nmae }}\n";
        let file = sources.add_file("r.yaml", text);
        let node = super::super::yaml::parse(file, text, &mut Vec::new()).unwrap();
        let bindings = TemplateBindings {
            params: Some(build_tree("params", &json!({"name": "x"}))),
            ..TemplateBindings::default()
        };
        let programs = ProgramCache::default();
        let mut renderer = TreeRenderer::new(&programs, &sources, &bindings);
        renderer.render_tree(&node);
        let places: Vec<_> =
            renderer.diags.iter().map(|d| (sources.line_col(d.span.unwrap()), d.message.as_str())).collect();
        assert_eq!(places, [((1, 16), "`params.nmae` does not exist"), ((4, 6), "`params.nmae` does not exist")]);
    }

    #[test]
    fn known_parts_render_while_facts_are_pending() {
        let mut sources = SourceMap::default();
        let text = "list: \"{{ params.list }}\"\nfact: \"{{ facts.os.id }}\"\nplain: 560.10\n";
        let file = sources.add_file("r.yaml", text);
        let node = super::super::yaml::parse(file, text, &mut Vec::new()).unwrap();
        let bindings = TemplateBindings {
            params: Some(build_tree("params", &json!({"list": ["a", 1]}))),
            facts: Some(crate::config::template::build_facts(crate::config::FactSource::NotYet)),
            ..TemplateBindings::default()
        };
        let programs = ProgramCache::default();
        let mut renderer = TreeRenderer::new(&programs, &sources, &bindings);
        let tree = renderer.render_tree(&node);
        assert_eq!(find_pending_input(&tree), Some(PendingInput::Facts));
        assert_eq!(
            super::super::scalar::node_to_value(&tree),
            json!({"list": ["a", 1], "fact": null, "plain": "560.10"})
        );
    }
}
