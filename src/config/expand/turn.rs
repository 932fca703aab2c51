//! Expands one step into its instances: evaluates `when`, `each` and `key`, then renders, checks and builds the body.

use super::info::Info;
use super::local::Folder;
use super::{Deferred, Expanded, State};
use crate::config::check::{Checked, check};
use crate::config::render::Renderer;
use crate::config::scalar;
use crate::config::template::{Bindings, Eval, tree};
use crate::config::{Instance, Need, Project, Step};
use crate::diag::{Code, Diag};
use crate::model::{Scope, StepId, Value};
use crate::resource::{self, Fields, Kind};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// One step on one host, with the bindings of its templates.
struct Work<'w> {
    project: &'w Project,
    instance: &'w Arc<Instance>,
    step: &'w Arc<Step>,
    bindings: &'w Bindings,
}

/// Expands a step.
pub(super) fn expand(
    project: &Project,
    instance: &Arc<Instance>,
    step: &Arc<Step>,
    info: &Info,
    bindings: &Bindings,
) -> Vec<Expanded> {
    let work = Work { project, instance, step, bindings };
    let id = StepId::new(&instance.recipe.name, &step.name);
    if instance.absent && step.scope == Scope::Fleet {
        let state = State::NotApplicable("a `fleet` step creates nothing to remove".to_owned());
        return vec![Expanded::new(id, state, BTreeSet::new(), true)];
    }
    if step.each.is_none() {
        return vec![work.turn(id, bindings, true)];
    }
    // A condition without `item` is evaluated before the list, which may not be known if the condition is false.
    if !info.when_per_item
        && let Some(turn) = work.settled_by_when(&id)
    {
        return vec![turn];
    }
    match work.items() {
        Items::Known(items, reads) => work.turns(items, &reads, info.when_per_item),
        Items::Other(state, reads) => vec![Expanded::new(id, state, reads, instance.absent)],
    }
}

/// Returns the bindings of one instance, with `item` and `key` of its turn.
pub(super) fn of_key(project: &Project, step: &Arc<Step>, turn: &StepId, bindings: Bindings) -> Bindings {
    let Some(key) = &turn.key else { return bindings };
    let mut renderer = Renderer::new(&project.programs, &project.sources, &bindings);
    let value = step.each.as_ref().and_then(|each| renderer.value(each));
    let Some(Eval::Known { value, .. }) = value else { return bindings };
    let items = pairs(&value).unwrap_or_default();
    let found = items.into_iter().map(|(own, item)| with_item(&bindings, own, &item)).find(|turn| {
        let found = turn_key(project, step, turn);
        matches!(found, Ok(Ok(found)) if *found == **key)
    });
    found.unwrap_or(bindings)
}

enum Items {
    Known(Vec<(Option<String>, Value)>, BTreeSet<String>),
    Other(State, BTreeSet<String>),
}

impl Work<'_> {
    fn renderer<'r>(&'r self, bindings: &'r Bindings) -> Renderer<'r> {
        Renderer::new(&self.project.programs, &self.project.sources, bindings)
    }

    /// Returns the only instance if `when` settles the step without the items.
    fn settled_by_when(&self, id: &StepId) -> Option<Expanded> {
        let mut renderer = self.renderer(self.bindings);
        let state = match self.when(&mut renderer) {
            When::True => return None,
            When::False if self.step.otherwise_absent => return None,
            When::False => State::NotApplicable("`when` is false".to_owned()),
            When::Other(state) => state,
        };
        Some(Expanded::new(id.clone(), state, renderer.reads, self.instance.absent))
    }

    fn items(&self) -> Items {
        let mut renderer = self.renderer(self.bindings);
        let Some(each) = &self.step.each else { return Items::Known(Vec::new(), BTreeSet::new()) };
        match renderer.value(each) {
            Some(Eval::Known { value, .. }) => match pairs(&value) {
                Some(items) if items.is_empty() => {
                    Items::Other(State::NotApplicable("`each` is empty".to_owned()), renderer.reads)
                }
                Some(items) => Items::Known(items, renderer.reads),
                None => {
                    let diag = Diag::error(Code::BadStep, "`each` must be a list or a map").at(each.span);
                    Items::Other(State::Invalid(vec![diag]), renderer.reads)
                }
            },
            Some(Eval::Deferred(need)) => Items::Other(self.waiting(need), renderer.reads),
            None => Items::Other(State::Invalid(renderer.diags), BTreeSet::new()),
        }
    }

    fn waiting(&self, need: Need) -> State {
        State::Deferred(Deferred { need, kind: self.step.kind, title: None, fields: Vec::new() })
    }

    fn turns(
        &self,
        items: Vec<(Option<String>, Value)>,
        reads: &BTreeSet<String>,
        when_per_item: bool,
    ) -> Vec<Expanded> {
        let mut seen: BTreeMap<Arc<str>, usize> = BTreeMap::new();
        let mut turns: Vec<Expanded> = Vec::with_capacity(items.len());
        for (own, item) in items {
            let bindings = with_item(self.bindings, own, &item);
            let mut turn = self.keyed_turn(&bindings, when_per_item);
            turn.reads.extend(reads.iter().cloned());
            if let Some(key) = &turn.id.key
                && seen.insert(key.clone(), turns.len()).is_some()
            {
                let place = self.step.key.as_ref().or(self.step.each.as_ref()).map_or(self.step.span, |expr| expr.span);
                turn.state = State::Invalid(vec![
                    Diag::error(Code::Duplicate, format!("two items have the key `{key}`")).at(place),
                ]);
            }
            turns.push(turn);
        }
        turns
    }

    fn keyed_turn(&self, bindings: &Bindings, when_per_item: bool) -> Expanded {
        let id = StepId::new(&self.instance.recipe.name, &self.step.name);
        let state = match turn_key(self.project, self.step, bindings) {
            Ok(Ok(key)) => {
                return self.turn(
                    StepId { key: Some(key), ..id },
                    bindings,
                    when_per_item || self.step.otherwise_absent,
                );
            }
            Ok(Err(need)) => self.waiting(need),
            Err(diags) => State::Invalid(diags),
        };
        Expanded::new(id, state, BTreeSet::new(), self.instance.absent)
    }

    fn turn(&self, id: StepId, bindings: &Bindings, ask_when: bool) -> Expanded {
        let mut renderer = self.renderer(bindings);
        let mut absent = self.instance.absent;
        let state = match if ask_when { self.when(&mut renderer) } else { When::True } {
            When::Other(state) => state,
            When::False if !self.step.otherwise_absent => State::NotApplicable("`when` is false".to_owned()),
            when => {
                absent |= matches!(when, When::False);
                self.body(&mut renderer, bindings, absent)
            }
        };
        Expanded::new(id, state, renderer.reads, absent)
    }

    fn when(&self, renderer: &mut Renderer<'_>) -> When {
        let Some(when) = &self.step.when else { return When::True };
        match renderer.condition(when) {
            Some(Eval::Known { value: true, .. }) => When::True,
            Some(Eval::Known { value: false, .. }) => When::False,
            Some(Eval::Deferred(need)) => When::Other(self.waiting(need)),
            None => When::Other(State::Invalid(std::mem::take(&mut renderer.diags))),
        }
    }

    fn body(&self, renderer: &mut Renderer<'_>, bindings: &Bindings, absent: bool) -> State {
        let Some(kind) = resource::kind(self.step.kind) else {
            return State::Invalid(vec![
                Diag::error(Code::NoResource, format!("kind `{}` not found", self.step.kind)).at(self.step.span),
            ]);
        };
        let body = renderer.tree(&self.step.body);
        let folder = Folder { project: self.project, recipe: &self.instance.recipe, bindings };
        let what = format!("`{}`", kind.name);
        let mut checked = check(&body, kind.fields, &what, &folder);
        let mut diags = std::mem::take(&mut renderer.diags);
        diags.append(&mut checked.diags);
        renderer.reads.append(&mut checked.reads);
        match diags.is_empty() {
            true => self.build(kind, checked, absent),
            false => State::Invalid(diags),
        }
    }

    fn build(&self, kind: &Kind, mut checked: Checked, absent: bool) -> State {
        if self.step.scope == Scope::Fleet && kind.name == "command" {
            // A `fleet` step is read-only: if its check fails, no command repairs it.
            checked.fields.0.entry("apply").or_insert_with(|| Value::from("false"));
        }
        if kind.name == "artifact" {
            self.project.digests.complete(&mut checked.fields);
        }
        let waits = checked.deferred.first().cloned();
        match (waits, (kind.build)(&checked.fields, absent)) {
            (None, Ok(resource)) => State::Resource(resource.into()),
            (None, Err(diag)) => State::Invalid(vec![placed(diag, self.step)]),
            // A removal does not need the content, so it does not wait for it.
            (Some(_), Ok(resource)) if absent => State::Resource(resource.into()),
            (Some((_, need)), _) => State::Deferred(Deferred {
                need,
                kind: kind.name,
                title: title(&checked.fields),
                fields: checked.deferred.into_iter().map(|(field, _)| field).collect(),
            }),
        }
    }
}

enum When {
    True,
    False,
    Other(State),
}

/// Adds the location of the field or the body to a diagnostic: a kind does not know the locations of its fields.
fn placed(diag: Diag, step: &Step) -> Diag {
    match diag.span {
        Some(_) => diag,
        None => {
            let span = diag.field.and_then(|field| step.field(field)).map_or(step.body.span, |node| node.span);
            diag.at(span)
        }
    }
}

/// Returns the title of a resource from the fields that are known.
fn title(fields: &Fields) -> Option<String> {
    let one = ["path", "name"].into_iter().find_map(|name| fields.text(name).map(str::to_owned));
    one.or_else(|| fields.texts("names").map(|names| names.join(", ")))
}

/// Returns the items of a list or a map. Items of a map have a key.
fn pairs(value: &Value) -> Option<Vec<(Option<String>, Value)>> {
    match value {
        Value::Array(items) => Some(items.iter().map(|item| (None, item.clone())).collect()),
        Value::Object(map) => Some(map.iter().map(|(key, value)| (Some(key.clone()), value.clone())).collect()),
        _ => None,
    }
}

fn with_item(bindings: &Bindings, own: Option<String>, item: &Value) -> Bindings {
    let own = own.or_else(|| scalar_text(item));
    Bindings { item: Some(tree("item", item)), key: own.map(minijinja::Value::from), ..bindings.clone() }
}

fn scalar_text(item: &Value) -> Option<String> {
    match item {
        Value::String(text) => Some(text.clone()),
        Value::Number(_) | Value::Bool(_) => Some(item.to_string()),
        _ => None,
    }
}

/// Returns the key of an instance: the value of `key`, else the key in the map or the text of the item.
fn turn_key(project: &Project, step: &Step, bindings: &Bindings) -> Result<Result<Arc<str>, Need>, Vec<Diag>> {
    let bad = |message: &str| {
        let place = step.key.as_ref().or(step.each.as_ref()).map_or(step.span, |expr| expr.span);
        Err(vec![Diag::error(Code::BadStep, message).at(place).hint("set a key for each item: `key: item.name`")])
    };
    let text = match &step.key {
        None => bindings.key.as_ref().map(|key| key.to_string()),
        Some(expr) => {
            let mut renderer = Renderer::new(&project.programs, &project.sources, bindings);
            match renderer.value(expr) {
                Some(Eval::Known { value, .. }) => scalar_text(&value),
                Some(Eval::Deferred(need)) => return Ok(Err(need)),
                None => return Err(renderer.diags),
            }
        }
    };
    match text {
        Some(text) if crate::model::SecretStore::mentions(&text) => bad("a secret cannot be the key of an item"),
        Some(text)
            if text.is_empty() || text.len() > 100 || text.contains(|c: char| c.is_control() || "[]".contains(c)) =>
        {
            bad(&format!("`{}` is not a valid key of an item", scalar::shorten(&text)))
        }
        Some(text) => Ok(Ok(text.into())),
        None => bad("items of `each` that are not text need a key"),
    }
}
