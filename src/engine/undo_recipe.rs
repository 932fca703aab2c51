//! Turns the journals of hosts into recipes that declare the state before a run. Pure.

use super::undo_request::{GeneratedUndo, HostUndo, UndoRefusal, UndoRequest, UndoSelection};
use crate::config::{GeneratedRecipe, escape_template};
use crate::model::{HostName, StepId, UndoDeclaration, Value};
use crate::resource::{declare_former_path, is_undo_declaration};
use crate::state::{FormerRecord, FormerState, UndoGroup, UndoStep};
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};

/// What one host kept before a run.
#[derive(Clone, Debug, Default)]
pub(super) struct HostJournal {
    /// In the order of the run.
    pub groups: Vec<JournalGroup>,
    /// The steps that later runs changed, with the run.
    pub later: Vec<(StepId, String)>,
}

/// The changes of one script.
#[derive(Clone, Debug, Default)]
pub(super) struct JournalGroup {
    pub number: u64,
    pub group: UndoGroup,
    /// The type of each path.
    pub before: BTreeMap<String, FormerState>,
    /// Whether the script came to its end, so that `after` is complete.
    pub ended: bool,
    /// Paths whose content is as before again, for example after an undo that was interrupted.
    pub same: BTreeSet<String>,
    /// Times, owner and mode of each path after the last change of the group, and now.
    pub after: BTreeMap<String, String>,
    pub now: BTreeMap<String, String>,
}

/// The longest name of a generated step.
const NAME_LENGTH: usize = 90;

/// Returns the recipes that undo a run on the hosts with these journals.
pub(super) fn build_undo(
    cluster: &str,
    selection: UndoSelection<'_>,
    journals: Vec<(HostName, HostJournal)>,
) -> GeneratedUndo {
    let mut undo = GeneratedUndo::default();
    let mut recipes: Vec<(Value, Vec<HostName>)> = Vec::new();
    let mut ends: BTreeMap<HostName, (String, Vec<FormerRecord>)> = BTreeMap::new();
    for (host, journal) in &journals {
        let host_undo = RunOnHost::new(cluster, selection, journal);
        let refusals = host_undo.find_refusals();
        let own = |(at, why): (&usize, &String)| UndoRefusal {
            host: host.clone(),
            step: Some(host_undo.steps[*at].1.step.clone()),
            why: why.clone(),
        };
        undo.refused.extend(refusals.iter().map(own));
        let taken: Vec<usize> = host_undo.selected.iter().copied().filter(|at| !refusals.contains_key(at)).collect();
        let written = host_undo.declare_before(&taken);
        let Some(last) = written.steps.last().and_then(|step| step["name"].as_str()).map(str::to_owned) else {
            continue;
        };
        undo.changes += taken.iter().filter(|at| !host_undo.steps[**at].1.effect.is_empty()).count();
        for remains in host_undo.list_remains(&taken) {
            undo.remains.entry(remains).or_default().push(host.clone());
        }
        ends.insert(host.clone(), (last, host_undo.list_records(&taken)));
        let steps = Value::Array(written.steps);
        match recipes.iter_mut().find(|(known, _)| *known == steps) {
            Some((_, hosts)) => hosts.push(host.clone()),
            None => recipes.push((steps, vec![host.clone()])),
        }
    }
    let mut hosts = BTreeMap::new();
    let recipes = recipes.into_iter().enumerate().map(|(at, (steps, own))| {
        let name = if at == 0 { "undo".to_owned() } else { format!("undo-{}", at + 1) };
        for host in &own {
            if let Some((last, records)) = ends.remove(host) {
                hosts.insert(host.clone(), HostUndo { last: StepId::new(&name, &last), records });
            }
        }
        let summary = format!("State before run {}", selection.run);
        let text = json!({ "recipe": name, "summary": summary, "steps": steps });
        GeneratedRecipe { name, text: format!("{text:#}\n"), hosts: own }
    });
    let recipes = recipes.collect();
    undo.request = UndoRequest::new(selection, recipes, hosts);
    undo
}

/// The changes of the run on one host.
struct RunOnHost<'j> {
    selection: UndoSelection<'j>,
    journal: &'j HostJournal,
    /// Every step, with the position of its group.
    steps: Vec<(usize, &'j UndoStep)>,
    /// Positions of the steps to undo, in the order of the run.
    selected: Vec<usize>,
}

/// Declarations of the state before, in the order of the undo.
#[derive(Default)]
struct GeneratedSteps {
    steps: Vec<Value>,
    names: BTreeSet<String>,
    /// The generated steps of each step of the run.
    origins: Vec<(StepId, String)>,
}

impl<'j> RunOnHost<'j> {
    fn new(cluster: &str, selection: UndoSelection<'j>, journal: &'j HostJournal) -> Self {
        let groups = journal.groups.iter().enumerate().filter(|(_, group)| group.group.cluster == cluster);
        let steps: Vec<_> =
            groups.flat_map(|(at, group)| group.group.steps.iter().map(move |step| (at, step))).collect();
        let admits = |(_, (_, step)): &(usize, &(usize, &UndoStep))| {
            selection.filter.admits_step(&step.step.recipe, &step.step.step)
        };
        let selected = steps.iter().enumerate().filter(admits).map(|(at, _)| at).collect();
        Self { selection, journal, steps, selected }
    }

    /// Returns why steps cannot be undone, by position.
    fn find_refusals(&self) -> BTreeMap<usize, String> {
        let mut refused = BTreeMap::new();
        for at in &self.selected {
            if let Some(why) = self.find_own_refusal(self.steps[*at].1) {
                refused.insert(*at, why);
            }
        }
        // A file is restored as a whole, so every step that changed it has to be undone.
        while let Some((at, why)) = self.find_shared_refusal(&refused) {
            refused.insert(at, why);
        }
        refused
    }

    fn find_own_refusal(&self, step: &UndoStep) -> Option<String> {
        if let Some(why) = &step.effect.irreversible {
            return Some(why.clone());
        }
        if let Some(declared) = step.effect.steps.iter().find(|declared| !is_undo_declaration(declared)) {
            return Some(format!("the journal was altered: no undo declares `{}`", declared.kind));
        }
        if let Some((_, run)) = self.journal.later.iter().find(|(later, _)| *later == step.step) {
            return Some(format!("run {run} changed it again: undo that run first"));
        }
        step.effect.paths.iter().find_map(|path| self.find_path_refusal(path))
    }

    fn find_path_refusal(&self, path: &str) -> Option<String> {
        match self.first_state(path) {
            None => return Some(format!("the state of `{path}` before the run is not known")),
            Some((_, _, FormerState::Other)) => return Some(format!("`{path}` was neither a file nor a link")),
            Some(_) => {}
        }
        let last = self.journal.groups.iter().rev().find(|group| group.before.contains_key(path))?;
        let first = self.journal.groups.iter().find(|group| group.before.contains_key(path))?;
        let moved = last.ended && last.after.get(path) != last.now.get(path) && !first.same.contains(path);
        (moved && !self.selection.overwrite).then(|| format!("`{path}` was changed after the run"))
    }

    fn find_shared_refusal(&self, refused: &BTreeMap<usize, String>) -> Option<(usize, String)> {
        let is_taken = |at: &usize| self.selected.contains(at) && !refused.contains_key(at);
        let kept: Vec<&UndoStep> =
            self.steps.iter().enumerate().filter(|(at, _)| !is_taken(at)).map(|(_, (_, step))| *step).collect();
        self.selected.iter().filter(|at| is_taken(at)).find_map(|at| {
            let own = &self.steps[*at].1.effect.paths;
            let other = kept.iter().find_map(|step| {
                let path = step.effect.paths.iter().find(|path| own.contains(path))?;
                Some(format!("`{path}` was also changed by `{}`, which is not undone", step.step))
            })?;
            Some((*at, other))
        })
    }

    /// Returns the number of the first group that changed a path, the number of the copy, and the type of the path.
    fn first_state(&self, path: &str) -> Option<(u64, usize, FormerState)> {
        self.journal.groups.iter().find_map(|group| {
            let state = *group.before.get(path)?;
            let at = group.group.paths().iter().position(|known| *known == path)?;
            Some((group.number, at, state))
        })
    }

    /// Declares the state before the steps at `taken`: the last change first; processes restart at the end.
    fn declare_before(&self, taken: &[usize]) -> GeneratedSteps {
        let mut written = GeneratedSteps::default();
        let mut restored: BTreeSet<&str> = BTreeSet::new();
        for at in taken.iter().rev() {
            let step = self.steps[*at].1;
            for declared in step.effect.steps.iter().filter(|declared| !declared.restarts) {
                written.push_declaration(step, declared, &[]);
            }
            for path in step.effect.paths.iter().filter(|path| restored.insert(path)) {
                written.push_declaration(step, &self.declare_path(path, step.secret), &[]);
            }
        }
        for at in taken {
            let step = self.steps[*at].1;
            for declared in step.effect.steps.iter().filter(|declared| declared.restarts) {
                let inputs = written.list_generated_names(&step.restart_on);
                written.push_declaration(step, declared, &inputs);
            }
        }
        written
    }

    fn declare_path(&self, path: &str, secret: bool) -> UndoDeclaration {
        let copy = match self.first_state(path) {
            Some((number, at, FormerState::File | FormerState::Link)) => {
                Some(UndoGroup::copy_path(self.selection.run, number, at))
            }
            _ => None,
        };
        declare_former_path(path, copy.as_deref(), secret)
    }

    /// Returns the records as they were before the first change of each step.
    fn list_records(&self, taken: &[usize]) -> Vec<FormerRecord> {
        let mut records: Vec<FormerRecord> = Vec::new();
        for record in taken.iter().flat_map(|at| &self.steps[*at].1.records) {
            if records.iter().all(|known| known.step != record.step) {
                records.push(record.clone());
            }
        }
        records
    }

    fn list_remains(&self, taken: &[usize]) -> BTreeSet<String> {
        let own = taken.iter().flat_map(|at| self.steps[*at].1.effect.remains.iter().cloned());
        let interrupted = taken.iter().filter(|at| {
            let (group, step) = self.steps[**at];
            !step.effect.paths.is_empty() && !self.journal.groups[group].ended
        });
        let unsure = interrupted.flat_map(|at| &self.steps[*at].1.effect.paths);
        let unsure =
            unsure.map(|path| format!("whether `{path}` was changed since is not known: the run was interrupted"));
        own.chain(unsure).collect()
    }
}

impl GeneratedSteps {
    fn push_declaration(&mut self, step: &UndoStep, declared: &UndoDeclaration, restart_on: &[String]) {
        let mut written = json!({ "name": self.choose_name(step) });
        if declared.absent {
            written["when"] = json!("false");
            written["otherwise"] = json!("absent");
        }
        if !restart_on.is_empty() {
            written["restart_on"] = json!(restart_on);
        }
        written[&declared.kind] = escape_templates(&declared.fields);
        self.steps.push(written);
    }

    /// Returns a unique name, which begins with the name of the step that is undone.
    fn choose_name(&mut self, step: &UndoStep) -> String {
        let plain = |c: char| if c.is_control() || "/@[]{}".contains(c) { ' ' } else { c };
        let base: String = step.step.to_string().chars().map(plain).take(NAME_LENGTH).collect();
        let base = base.trim().to_owned();
        let names = std::iter::once(base.clone()).chain((2..).map(|number| format!("{base} {number}")));
        let name = names.into_iter().find(|name| !self.names.contains(name)).unwrap_or(base);
        self.names.insert(name.clone());
        self.origins.push((step.step.clone(), name.clone()));
        name
    }

    fn list_generated_names(&self, origins: &[StepId]) -> Vec<String> {
        self.origins.iter().filter(|(origin, _)| origins.contains(origin)).map(|(_, name)| name.clone()).collect()
    }
}

/// Escapes templates in all texts.
fn escape_templates(value: &Value) -> Value {
    match value {
        Value::String(text) => Value::String(escape_template(text)),
        Value::Array(items) => Value::Array(items.iter().map(escape_templates).collect()),
        Value::Object(entries) => {
            Value::Object(entries.iter().map(|(key, value)| (key.clone(), escape_templates(value))).collect())
        }
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests;
