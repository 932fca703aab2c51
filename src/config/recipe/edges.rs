//! Reads `needs` and `after`: `nouveau`, `nouveau?`, `nvidia-gsp@configured`, `ssh-mesh/make key@verified`, barriers.

use crate::config::load_context::LoadContext;
use crate::config::read_share::read_share;
use crate::config::yaml_table::{self, YamlTable};
use crate::config::{HostBarrier, HostShare, RecipeEdge, YamlData, YamlKey, YamlNode};
use crate::diag::{Diag, DiagCode, Span};
use crate::model::StepPhase;
use std::collections::BTreeSet;

/// Reads the edges of one recipe. Its own steps can be named without the recipe.
pub(super) struct EdgeReader<'r> {
    pub recipe: &'r str,
    pub own: &'r BTreeSet<String>,
}

impl EdgeReader<'_> {
    /// Reads a list of edges, or a map from edges to their barriers. `barriers` is whether the key supports barriers:
    /// `after` only orders steps and does not.
    pub fn read_edges(&self, node: Option<&YamlNode>, barriers: bool, cx: &mut LoadContext<'_>) -> Vec<RecipeEdge> {
        let Some(node) = node else { return Vec::new() };
        match &node.data {
            YamlData::Seq(items) => items.iter().filter_map(|item| self.read_item(item, barriers, cx)).collect(),
            YamlData::Map(entries) => {
                entries.iter().filter_map(|(key, node)| self.read_map_entry(key, node, barriers, cx)).collect()
            }
            YamlData::Scalar { text, .. } => self.parse_edge(text, node.span, cx).into_iter().collect(),
            _ => {
                cx.push_diag(yaml_table::build_wrong_type_diag(node, "edges", "a list"));
                Vec::new()
            }
        }
    }

    fn read_item(&self, node: &YamlNode, barriers: bool, cx: &mut LoadContext<'_>) -> Option<RecipeEdge> {
        match &node.data {
            YamlData::Scalar { text, .. } => self.parse_edge(text, node.span, cx),
            _ => self.read_long_form(node, barriers, cx),
        }
    }

    /// `{ recipe: nvidia-driver, step: load, phase: effective, of: selected, least: 90% }`
    fn read_long_form(&self, node: &YamlNode, barriers: bool, cx: &mut LoadContext<'_>) -> Option<RecipeEdge> {
        let keys = ["recipe", "step", "phase", "optional", "of", "least"];
        let table = YamlTable::open(node, "an edge", &keys, &mut cx.diags)?;
        let recipe = table.get_text("recipe", &mut cx.diags);
        let step = table.get_text("step", &mut cx.diags);
        if recipe.is_none() && step.is_none() {
            cx.push_diag(Diag::error(DiagCode::MissingKey, "an edge needs `recipe` or `step`").with_span(node.span));
            return None;
        }
        let phase = read_phase(&table, cx)?;
        let optional = table.get_bool("optional", &mut cx.diags).unwrap_or(false);
        let barrier = read_barrier(&table, barriers, cx);
        let recipe = recipe.unwrap_or_else(|| self.recipe.to_owned());
        Some(RecipeEdge { recipe, step, phase, optional, barrier, span: node.span })
    }

    fn read_map_entry(
        &self,
        key: &YamlKey,
        node: &YamlNode,
        barriers: bool,
        cx: &mut LoadContext<'_>,
    ) -> Option<RecipeEdge> {
        let edge = self.parse_edge(&key.text, key.span, cx)?;
        if matches!(node.data, YamlData::Null) {
            return Some(edge);
        }
        let table = YamlTable::open(node, "an edge", &["of", "least", "phase"], &mut cx.diags)?;
        let phase = if table.get("phase").is_some() { read_phase(&table, cx)? } else { edge.phase };
        Some(RecipeEdge { phase, barrier: read_barrier(&table, barriers, cx), ..edge })
    }

    fn parse_edge(&self, text: &str, span: Span, cx: &mut LoadContext<'_>) -> Option<RecipeEdge> {
        let (name, phase) = match text.rsplit_once('@') {
            Some((name, phase)) => (name, parse_phase(phase, span, cx)?),
            None => (text, StepPhase::Effective),
        };
        let (name, optional) = match name.strip_suffix('?') {
            Some(name) => (name, true),
            None => (name, false),
        };
        let (recipe, step) = match name.split_once('/') {
            Some((recipe, step)) => (recipe, Some(step)),
            None if self.own.contains(name) => (self.recipe, Some(name)),
            None => (name, None),
        };
        if recipe.is_empty() || step.is_some_and(str::is_empty) {
            let diag =
                Diag::error(DiagCode::UnknownEdge, format!("`{text}` is not a valid step reference")).with_span(span);
            cx.push_diag(diag.hint("write `recipe`, `recipe/step` or a step of this recipe, optionally with `@phase`"));
            return None;
        }
        Some(RecipeEdge {
            recipe: recipe.to_owned(),
            step: step.map(str::to_owned),
            phase,
            optional,
            barrier: None,
            span,
        })
    }
}

fn read_phase(table: &YamlTable<'_>, cx: &mut LoadContext<'_>) -> Option<StepPhase> {
    match table.get("phase") {
        Some(node) => {
            let text = yaml_table::expect_text(node, "phase", &mut cx.diags)?;
            parse_phase(&text, node.span, cx)
        }
        None => Some(StepPhase::Effective),
    }
}

fn parse_phase(text: &str, span: Span, cx: &mut LoadContext<'_>) -> Option<StepPhase> {
    let phase = StepPhase::parse(text);
    if phase.is_none() {
        let diag = Diag::error(DiagCode::UnknownEdge, format!("`{text}` is not a valid phase")).with_span(span);
        cx.push_diag(diag.suggest_name(text, StepPhase::ALL.map(StepPhase::name)));
    }
    phase
}

fn read_barrier(table: &YamlTable<'_>, allowed: bool, cx: &mut LoadContext<'_>) -> Option<HostBarrier> {
    let key = table.find_key("of").or(table.find_key("least"))?;
    if !allowed {
        cx.push_diag(
            Diag::error(DiagCode::BadValue, "`after` does not support barriers")
                .with_span(key.span)
                .hint("use `needs`"),
        );
        return None;
    }
    if let Some(of) = table.get("of")
        && yaml_table::expect_text(of, "of", &mut cx.diags).is_some_and(|text| text != "selected")
    {
        cx.push_diag(Diag::error(DiagCode::BadValue, "`of` must be `selected`").with_span(of.span));
    }
    let least = table.get("least").and_then(|node| read_share(node, "least", cx));
    Some(HostBarrier { least: least.unwrap_or(HostShare::Percent(100)) })
}
