//! Expands one step into its instances: evaluates `when`, `each` and `key`, then renders, checks and builds the body.

use super::expanded_step::{DeferredStep, ExpandedStep, ExpansionState, InapplicableReason};
use super::recipe_files::RecipeFolder;
use super::template_reads::StepTemplateInfo;
use crate::config::builtin_data::BUILTIN_PATH;
use crate::config::field_check::{CheckedFields, check_kind_fields};
use crate::config::template::{EvalOutcome, TemplateBindings, build_tree};
use crate::config::tree_render::TreeRenderer;
use crate::config::{PendingInput, Project, RecipeInstance, RecipeStep, scalar};
use crate::diag::{Diag, DiagCode};
use crate::model::{StepId, StepScope, Value};
use crate::resource::{self, FieldValues, ResourceKind};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// One step on one host, with the bindings of its templates.
struct StepExpansion<'w> {
    project: &'w Project,
    instance: &'w Arc<RecipeInstance>,
    step: &'w Arc<RecipeStep>,
    bindings: &'w TemplateBindings,
}

/// Expands a step.
pub(super) fn expand_step(
    project: &Project,
    instance: &Arc<RecipeInstance>,
    step: &Arc<RecipeStep>,
    info: &StepTemplateInfo,
    bindings: &TemplateBindings,
) -> Vec<ExpandedStep> {
    let work = StepExpansion { project, instance, step, bindings };
    let id = StepId::new(&instance.recipe.name, &step.name);
    let kept = match step.scope {
        StepScope::Fleet => Some(InapplicableReason::CreatesNothing),
        _ => step.keep.then_some(InapplicableReason::Kept),
    };
    if let Some(why) = kept.filter(|_| instance.absent) {
        return vec![ExpandedStep::new(id, ExpansionState::NotApplicable(why), BTreeSet::new(), true)];
    }
    if step.each.is_none() {
        return vec![work.expand_instance(id, bindings, true)];
    }
    // A condition without `item` is evaluated before the list, which may not be known if the condition is false.
    if !info.when_per_item
        && let Some(turn) = work.settle_by_when(&id)
    {
        return vec![turn];
    }
    match work.evaluate_items() {
        EachItems::Known(items, reads) => work.expand_items(items, &reads, info.when_per_item),
        EachItems::Other(state, reads) => vec![ExpandedStep::new(id, state, reads, instance.absent)],
    }
}

/// Returns the bindings of one instance, with `item` and `key` of its turn.
pub(super) fn bind_item_by_key(
    project: &Project,
    step: &Arc<RecipeStep>,
    turn: &StepId,
    bindings: TemplateBindings,
) -> TemplateBindings {
    let Some(key) = &turn.key else { return bindings };
    let mut renderer = TreeRenderer::new(&project.programs, &project.sources, &bindings);
    let value = step.each.as_ref().and_then(|each| renderer.evaluate_value(each));
    let Some(EvalOutcome::Known { value, .. }) = value else { return bindings };
    let items = to_keyed_items(&value).unwrap_or_default();
    let found = items.into_iter().map(|(own, item)| bind_item(&bindings, own, &item)).find(|turn| {
        let found = evaluate_instance_key(project, step, turn);
        matches!(found, Ok(Ok(found)) if *found == **key)
    });
    found.unwrap_or(bindings)
}

enum EachItems {
    Known(Vec<(Option<String>, Value)>, BTreeSet<String>),
    Other(ExpansionState, BTreeSet<String>),
}

impl StepExpansion<'_> {
    fn new_renderer<'r>(&'r self, bindings: &'r TemplateBindings) -> TreeRenderer<'r> {
        TreeRenderer::new(&self.project.programs, &self.project.sources, bindings)
    }

    /// Returns the only instance if `when` settles the step without the items.
    fn settle_by_when(&self, id: &StepId) -> Option<ExpandedStep> {
        let mut renderer = self.new_renderer(self.bindings);
        let state = match self.evaluate_when(&mut renderer) {
            WhenOutcome::True => return None,
            WhenOutcome::False if self.step.otherwise_absent => return None,
            WhenOutcome::False => ExpansionState::NotApplicable(InapplicableReason::WhenFalse),
            WhenOutcome::Other(state) => state,
        };
        Some(ExpandedStep::new(id.clone(), state, renderer.reads, self.instance.absent))
    }

    fn evaluate_items(&self) -> EachItems {
        let mut renderer = self.new_renderer(self.bindings);
        let Some(each) = &self.step.each else { return EachItems::Known(Vec::new(), BTreeSet::new()) };
        match renderer.evaluate_value(each) {
            Some(EvalOutcome::Known { value, .. }) => match to_keyed_items(&value) {
                Some(items) if items.is_empty() => {
                    EachItems::Other(ExpansionState::NotApplicable(InapplicableReason::NoItems), renderer.reads)
                }
                Some(items) => EachItems::Known(items, renderer.reads),
                None => {
                    let diag = Diag::error(DiagCode::BadStep, "`each` must be a list or a map").with_span(each.span);
                    EachItems::Other(ExpansionState::Invalid(vec![diag]), renderer.reads)
                }
            },
            Some(EvalOutcome::Deferred(need)) => EachItems::Other(self.build_deferred_state(need), renderer.reads),
            None => EachItems::Other(ExpansionState::Invalid(renderer.diags), BTreeSet::new()),
        }
    }

    fn build_deferred_state(&self, need: PendingInput) -> ExpansionState {
        ExpansionState::Deferred(DeferredStep { need, kind: self.step.kind, title: None, fields: Vec::new() })
    }

    fn expand_items(
        &self,
        items: Vec<(Option<String>, Value)>,
        reads: &BTreeSet<String>,
        when_per_item: bool,
    ) -> Vec<ExpandedStep> {
        let mut seen: BTreeMap<Arc<str>, usize> = BTreeMap::new();
        let mut turns: Vec<ExpandedStep> = Vec::with_capacity(items.len());
        for (own, item) in items {
            let bindings = bind_item(self.bindings, own, &item);
            let mut turn = self.expand_keyed_instance(&bindings, when_per_item);
            turn.reads.extend(reads.iter().cloned());
            if let Some(key) = &turn.id.key
                && seen.insert(key.clone(), turns.len()).is_some()
            {
                let place = self.step.key.as_ref().or(self.step.each.as_ref()).map_or(self.step.span, |expr| expr.span);
                turn.state = ExpansionState::Invalid(vec![
                    Diag::error(DiagCode::Duplicate, format!("two items have the key `{key}`")).with_span(place),
                ]);
            }
            turns.push(turn);
        }
        turns
    }

    fn expand_keyed_instance(&self, bindings: &TemplateBindings, when_per_item: bool) -> ExpandedStep {
        let id = StepId::new(&self.instance.recipe.name, &self.step.name);
        let state = match evaluate_instance_key(self.project, self.step, bindings) {
            Ok(Ok(key)) => {
                return self.expand_instance(
                    StepId { key: Some(key), ..id },
                    bindings,
                    when_per_item || self.step.otherwise_absent,
                );
            }
            Ok(Err(need)) => self.build_deferred_state(need),
            Err(diags) => ExpansionState::Invalid(diags),
        };
        ExpandedStep::new(id, state, BTreeSet::new(), self.instance.absent)
    }

    fn expand_instance(&self, id: StepId, bindings: &TemplateBindings, ask_when: bool) -> ExpandedStep {
        let mut renderer = self.new_renderer(bindings);
        let mut absent = self.instance.absent;
        let state = match if ask_when { self.evaluate_when(&mut renderer) } else { WhenOutcome::True } {
            WhenOutcome::Other(state) => state,
            WhenOutcome::False if !self.step.otherwise_absent => {
                ExpansionState::NotApplicable(InapplicableReason::WhenFalse)
            }
            when => {
                absent |= matches!(when, WhenOutcome::False);
                self.expand_body(&mut renderer, bindings, absent)
            }
        };
        ExpandedStep::new(id, state, renderer.reads, absent)
    }

    fn evaluate_when(&self, renderer: &mut TreeRenderer<'_>) -> WhenOutcome {
        let Some(when) = &self.step.when else { return WhenOutcome::True };
        match renderer.evaluate_condition(when) {
            Some(EvalOutcome::Known { value: true, .. }) => WhenOutcome::True,
            Some(EvalOutcome::Known { value: false, .. }) => WhenOutcome::False,
            Some(EvalOutcome::Deferred(need)) => WhenOutcome::Other(self.build_deferred_state(need)),
            None => WhenOutcome::Other(ExpansionState::Invalid(std::mem::take(&mut renderer.diags))),
        }
    }

    fn expand_body(
        &self,
        renderer: &mut TreeRenderer<'_>,
        bindings: &TemplateBindings,
        absent: bool,
    ) -> ExpansionState {
        let Some(kind) = resource::find_kind(self.step.kind) else {
            return ExpansionState::Invalid(vec![
                Diag::error(DiagCode::NoResource, format!("kind `{}` not found", self.step.kind))
                    .with_span(self.step.span),
            ]);
        };
        let body = renderer.render_tree(&self.step.body);
        let folder = RecipeFolder { project: self.project, recipe: &self.instance.recipe, bindings };
        let mut checked = check_kind_fields(&body, kind, &folder);
        let mut diags = std::mem::take(&mut renderer.diags);
        diags.append(&mut checked.diags);
        renderer.reads.append(&mut checked.reads);
        match diags.is_empty() {
            true => self.build_resource(kind, checked, absent),
            false => ExpansionState::Invalid(diags),
        }
    }

    fn build_resource(&self, kind: &ResourceKind, mut checked: CheckedFields, absent: bool) -> ExpansionState {
        if let (StepScope::Fleet, Some(field)) = (self.step.scope, kind.traits.change_field) {
            // A `fleet` step is read-only: if its check fails, no command repairs it.
            checked.fields.0.entry(field).or_insert_with(|| Value::from("false"));
        }
        if kind.traits.has_locked_digest {
            self.project.digests.fill_digest(&mut checked.fields);
        }
        let waits = checked.deferred.first().cloned();
        match (waits, (kind.build)(&checked.fields, absent)) {
            (None, Ok(resource)) => ExpansionState::Resource(resource.into()),
            // The hint of the kind is for those who can edit the recipe.
            (None, Err(diag))
                if absent && diag.code == DiagCode::BadStep && self.instance.recipe.path.starts_with(BUILTIN_PATH) =>
            {
                let hint = "this built-in recipe has no removal: delete its entry; plan and drift list what it left";
                ExpansionState::Invalid(vec![locate_diag(diag, self.step, kind).hint(hint)])
            }
            (None, Err(diag)) => ExpansionState::Invalid(vec![locate_diag(diag, self.step, kind)]),
            // A removal does not need the content, so it does not wait for it.
            (Some(_), Ok(resource)) if absent => ExpansionState::Resource(resource.into()),
            (Some((_, need)), _) => ExpansionState::Deferred(DeferredStep {
                need,
                kind: kind.name,
                title: find_title(&checked.fields),
                fields: checked.deferred.into_iter().map(|(field, _)| field).collect(),
            }),
        }
    }
}

enum WhenOutcome {
    True,
    False,
    Other(ExpansionState),
}

/// Adds the location of the field or the body to a diagnostic: a kind does not know the locations of its fields.
fn locate_diag(diag: Diag, step: &RecipeStep, kind: &ResourceKind) -> Diag {
    let is_field = |field: &str| kind.fields.iter().any(|spec| spec.name == field);
    debug_assert!(diag.field.is_none_or(is_field), "`{}` has no field `{:?}`", kind.name, diag.field);
    match diag.span {
        Some(_) => diag,
        None => {
            let span = diag.field.and_then(|field| step.field_node(field)).map_or(step.body.span, |node| node.span);
            diag.with_span(span)
        }
    }
}

/// Returns the title of a resource from the fields that are known.
fn find_title(fields: &FieldValues) -> Option<String> {
    let one = ["path", "name"].into_iter().find_map(|name| fields.get_text(name).map(str::to_owned));
    one.or_else(|| fields.get_text_list("names").map(|names| names.join(", ")))
}

/// Returns the items of a list or a map. Items of a map have a key.
fn to_keyed_items(value: &Value) -> Option<Vec<(Option<String>, Value)>> {
    match value {
        Value::Array(items) => Some(items.iter().map(|item| (None, item.clone())).collect()),
        Value::Object(map) => Some(map.iter().map(|(key, value)| (Some(key.clone()), value.clone())).collect()),
        _ => None,
    }
}

fn bind_item(bindings: &TemplateBindings, own: Option<String>, item: &Value) -> TemplateBindings {
    let own = own.or_else(|| to_scalar_text(item));
    TemplateBindings { item: Some(build_tree("item", item)), key: own.map(minijinja::Value::from), ..bindings.clone() }
}

fn to_scalar_text(item: &Value) -> Option<String> {
    match item {
        Value::String(text) => Some(text.clone()),
        Value::Number(_) | Value::Bool(_) => Some(item.to_string()),
        _ => None,
    }
}

/// Returns the key of an instance: the value of `key`, else the key in the map or the text of the item.
fn evaluate_instance_key(
    project: &Project,
    step: &RecipeStep,
    bindings: &TemplateBindings,
) -> Result<Result<Arc<str>, PendingInput>, Vec<Diag>> {
    let bad = |message: &str| {
        let place = step.key.as_ref().or(step.each.as_ref()).map_or(step.span, |expr| expr.span);
        Err(vec![
            Diag::error(DiagCode::BadStep, message).with_span(place).hint("set a key for each item: `key: item.name`"),
        ])
    };
    let text = match &step.key {
        None => bindings.key.as_ref().map(|key| key.to_string()),
        Some(expr) => {
            let mut renderer = TreeRenderer::new(&project.programs, &project.sources, bindings);
            match renderer.evaluate_value(expr) {
                Some(EvalOutcome::Known { value, .. }) => to_scalar_text(&value),
                Some(EvalOutcome::Deferred(need)) => return Ok(Err(need)),
                None => return Err(renderer.diags),
            }
        }
    };
    match text {
        Some(text) if crate::model::SecretStore::has_placeholder(&text) => bad("a secret cannot be the key of an item"),
        Some(text)
            if text.is_empty() || text.len() > 100 || text.contains(|c: char| c.is_control() || "[]".contains(c)) =>
        {
            bad(&format!("`{}` is not a valid key of an item", scalar::shorten_text(&text)))
        }
        Some(text) => Ok(Ok(text.into())),
        None => bad("items of `each` that are not text need a key"),
    }
}
