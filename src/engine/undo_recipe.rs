//! Turns the journals of hosts into recipes that declare the state before a run. Pure.

use super::later_changes::{LaterChanges, PathStat};
use super::undo_request::{GeneratedUndo, ReportedChange, UndoRefusal, UndoRequest, UndoSelection, UndoneChange};
use crate::config::{GeneratedRecipe, escape_template};
use crate::model::{HostName, StepId, UndoDeclaration, Value, format_guard_time};
use crate::probe::Observation;
use crate::resource::{
    self, ClusterUndoContext, GuardSupport, declare_former_path, find_cluster_refusal, is_undo_declaration,
};
use crate::state::{FormerRecord, FormerState, UndoGroup, UndoStep};
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};

/// What one host kept before a run.
#[derive(Clone, Debug, Default)]
pub(super) struct HostJournal {
    /// In the order of the run.
    pub groups: Vec<JournalGroup>,
    /// What later runs changed.
    pub later: LaterChanges,
    /// Of a run that the host does not keep, the oldest one that it keeps. Not of the cluster.
    pub oldest: Option<String>,
    /// The names of records, with the runs that wrote them. Not of the cluster.
    pub recorded: BTreeSet<(String, String)>,
    /// The steps of the run whose change was undone, with their records. Not of the cluster.
    pub settled: BTreeSet<StepId>,
    /// The present state of what the steps declare. Only of the cluster: hosts compare their files by themselves.
    pub seen: Observation,
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
    pub after: BTreeMap<String, PathStat>,
    pub now: BTreeMap<String, PathStat>,
    /// The objects of the cluster that the group created, by their claims, and when its journal was begun.
    pub created: BTreeMap<String, String>,
    pub since: String,
}

/// A step of the run that is undone, as long as the recipe of the undo has no name.
struct NamedChange {
    step: StepId,
    /// The names of the generated steps, in their order; at least one.
    generated: Vec<String>,
    records: Vec<FormerRecord>,
}

impl NamedChange {
    fn in_recipe(self, recipe: &str) -> UndoneChange {
        let generated: Vec<StepId> = self.generated.iter().map(|name| StepId::new(recipe, name)).collect();
        let last = generated.last().cloned().unwrap_or_else(|| StepId::new(recipe, ""));
        UndoneChange { step: self.step, generated: generated.into_iter().collect(), last, records: self.records }
    }
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
    let mut changes: BTreeMap<HostName, Vec<NamedChange>> = BTreeMap::new();
    for (host, journal) in &journals {
        let forgotten = find_forgotten_changes(selection, host, journal);
        undo.forgotten += forgotten.len();
        undo.refused.extend(forgotten);
        let host_undo = RunOnHost::new(cluster, selection, host.is_cluster(), journal);
        let refusals = host_undo.find_refusals();
        let own = |(at, why): (&usize, &String)| UndoRefusal {
            host: host.clone(),
            step: Some(host_undo.steps[*at].1.step.clone()),
            why: why.clone(),
        };
        undo.refused.extend(refusals.iter().map(own));
        let taken: Vec<usize> = host_undo.selected.iter().copied().filter(|at| !refusals.contains_key(at)).collect();
        let written = host_undo.declare_before(&taken);
        for remains in host_undo.list_remains(&taken) {
            undo.remains.entry(remains).or_default().push(host.clone());
        }
        if written.steps.is_empty() {
            continue;
        }
        undo.changes += taken.iter().filter(|at| !host_undo.steps[**at].1.effect.is_empty()).count();
        changes.insert(host.clone(), host_undo.list_changes(&taken, &written));
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
            let own = changes.remove(host).unwrap_or_default().into_iter();
            hosts.insert(host.clone(), own.map(|change| change.in_recipe(&name)).collect());
        }
        let summary = format!("State before run {}", selection.run);
        let text = json!({ "recipe": name, "summary": summary, "steps": steps });
        GeneratedRecipe { name, text: format!("{text:#}\n"), hosts: own }
    });
    let recipes = recipes.collect();
    undo.request = UndoRequest::new(selection, recipes, hosts);
    undo
}

/// Returns the changes of a host whose journal does not have the run. A host that keeps an older run would keep this one,
/// too, if it had changed anything there.
fn find_forgotten_changes(selection: UndoSelection<'_>, host: &HostName, journal: &HostJournal) -> Vec<UndoRefusal> {
    if !journal.groups.is_empty() {
        return Vec::new();
    }
    let keeps_older = journal.oldest.as_deref().is_some_and(|oldest| oldest < selection.run);
    if let Some(changed) = selection.changed {
        // A script keeps the state before it changes anything.
        let may_have_changed = |certainty| certainty == ReportedChange::Made || !keeps_older;
        let steps = changed.list_steps(host, selection.filter).into_iter();
        let refuse = |(step, certainty)| {
            let why = match certainty {
                ReportedChange::Made => FORGOTTEN,
                ReportedChange::Tried => NOTHING_KEPT,
            };
            UndoRefusal { host: host.clone(), step: Some(step), why: why.to_owned() }
        };
        return steps.filter(|(_, certainty)| may_have_changed(*certainty)).map(refuse).collect();
    }
    match keeps_older || host.is_cluster() {
        true => Vec::new(),
        false => vec![UndoRefusal { host: host.clone(), step: None, why: NOT_KNOWN.to_owned() }],
    }
}

const FORGOTTEN: &str = "the state before the run is not kept there";
const NOTHING_KEPT: &str = "the step did not succeed, and the host keeps no state from before it: it changed nothing, or the host has removed that \
     state since";
const NOT_KNOWN: &str = "whether the run changed the host is not known: neither this machine nor the host keeps it";

/// The changes of the run on one host.
struct RunOnHost<'j> {
    cluster: &'j str,
    selection: UndoSelection<'j>,
    of_cluster: bool,
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
    /// The generated step that restores each path.
    paths: BTreeMap<String, String>,
}

impl<'j> RunOnHost<'j> {
    fn new(cluster: &'j str, selection: UndoSelection<'j>, of_cluster: bool, journal: &'j HostJournal) -> Self {
        let groups = journal.groups.iter().enumerate().filter(|(_, group)| group.group.cluster == cluster);
        let steps: Vec<_> =
            groups.flat_map(|(at, group)| group.group.steps.iter().map(move |step| (at, step))).collect();
        let admits = |(_, (_, step)): &(usize, &(usize, &UndoStep))| {
            selection.filter.admits_step(&step.step.recipe, &step.step.step)
        };
        let selected = steps.iter().enumerate().filter(admits).map(|(at, _)| at).collect();
        Self { cluster, selection, of_cluster, journal, steps, selected }
    }

    /// Returns why steps cannot be undone, by position.
    fn find_refusals(&self) -> BTreeMap<usize, String> {
        let mut refused = BTreeMap::new();
        for at in &self.selected {
            if let Some(why) = self.find_own_refusal(self.steps[*at].1) {
                refused.insert(*at, why);
            }
        }
        // What one step leaves may keep another from being undone.
        while self.of_cluster
            && let Some((at, why)) = self.find_cluster_refusal(&refused)
        {
            refused.insert(at, why);
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
        if let Some(declared) =
            step.effect.steps.iter().find(|declared| !is_undo_declaration(declared, self.of_cluster))
        {
            return Some(format!("the journal was altered: no undo declares `{}`", declared.kind));
        }
        if !self.of_cluster
            && let Some(why) = step.effect.steps.iter().find_map(resource::find_declaration_error)
        {
            return Some(why);
        }
        if !self.is_proven(step)
            && let Some(why) = step.effect.steps.iter().find_map(resource::find_unproven_refusal)
        {
            return Some(why.to_owned());
        }
        if let Some(run) = self.journal.later.find_run(self.cluster, &step.step) {
            return Some(format!("run {run} changed it again: undo that run first"));
        }
        let removed = || step.effect.removes.iter().find_map(|path| self.find_later_edit(path));
        step.effect.paths.iter().find_map(|path| self.find_path_refusal(path)).or_else(removed)
    }

    /// Whether the run, or a later one, proved the step, as its record says. Steps of an undo have no records, and an undone
    /// step has none any longer: they count as proven.
    fn is_proven(&self, step: &UndoStep) -> bool {
        let name = step.step.record_name(self.cluster);
        let is_own = |recorded: &(String, String)| recorded.0 == name && *recorded.1 >= *self.selection.run;
        self.journal.recorded.iter().any(is_own)
            || self.journal.settled.contains(&step.step)
            || step.records.iter().all(|record| record.step != step.step)
    }

    /// Returns the first step of the cluster that cannot be undone together with the others that are not refused.
    fn find_cluster_refusal(&self, refused: &BTreeMap<usize, String>) -> Option<(usize, String)> {
        let taken: Vec<usize> = self.selected.iter().copied().filter(|at| !refused.contains_key(at)).collect();
        taken.iter().find_map(|at| {
            let all = self.complete_declarations(*at, &taken);
            let why = all.iter().find_map(|declared| find_cluster_refusal(declared, &self.journal.seen))?;
            Some((*at, why))
        })
    }

    /// Returns the declarations of a step as they are planned. Those of the cluster depend on what the run created, and on
    /// what the other `taken` steps remove.
    fn complete_declarations(&self, at: usize, taken: &[usize]) -> Vec<UndoDeclaration> {
        let (group, step) = self.steps[at];
        let group = &self.journal.groups[group];
        if !self.of_cluster {
            let mark = UndoGroup::removal_mark_path(self.selection.run, group.number, at);
            let is_proven = self.is_proven(step);
            let rest = |declared| resource::declare_removal_of_rest(declared, &mark).filter(|_| !is_proven);
            let own = |own| resource::permit_overwrite(own, self.selection.overwrite);
            let own = |declared| rest(declared).into_iter().chain([own(declared)]);
            return step.effect.steps.iter().flat_map(own).collect();
        }
        let others = taken.iter().flat_map(|at| &self.steps[*at].1.effect.steps).collect();
        let context = ClusterUndoContext {
            overwrite: self.selection.overwrite,
            created: &group.created,
            since: &group.since,
            others,
        };
        step.effect.steps.iter().map(|declared| context.complete_declaration(declared)).collect()
    }

    fn find_path_refusal(&self, path: &str) -> Option<String> {
        match self.first_state(path) {
            None => return Some(format!("the state of `{path}` before the run is not known")),
            Some((_, _, FormerState::Other)) => return Some(format!("`{path}` was neither a file nor a link")),
            Some(_) => {}
        }
        self.find_later_edit(path)
    }

    /// Returns that a path was changed after the run, unless the change is overwritten.
    fn find_later_edit(&self, path: &str) -> Option<String> {
        let last = self.journal.groups.iter().rev().find(|group| group.before.contains_key(path))?;
        let first = self.journal.groups.iter().find(|group| group.before.contains_key(path))?;
        let (after, now) = (last.after.get(path), last.now.get(path));
        let is_unchanged = match (after, now) {
            (Some(after), Some(now)) => after.is_unchanged(now),
            (after, now) => after.is_none() && now.is_none(),
        };
        let moved =
            last.ended && !is_unchanged && !first.same.contains(path) && !self.journal.later.is_as_left(path, after);
        // The journal has no digest of what the run left.
        let is_alike = after.zip(now).is_some_and(|(after, now)| after.has_same_shape(now));
        let how = match is_alike {
            true => "was written or touched after the run; its size, owner and mode are unchanged",
            false => "was changed after the run",
        };
        (moved && !self.selection.overwrite).then(|| format!("`{path}` {how}"))
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
        let complete = |at: usize| self.complete_declarations(at, taken).into_iter().map(move |one| (at, one));
        let (origins, mut all): (Vec<usize>, Vec<UndoDeclaration>) =
            taken.iter().rev().copied().flat_map(complete).unzip();
        resource::align_memberships(&mut all);
        resource::align_units(&mut all);
        let list_own = |at: usize, last: bool| {
            let own = origins.iter().zip(&all).filter(move |(origin, one)| **origin == at && one.is_last() == last);
            own.map(|(_, declared)| declared)
        };
        let mut named: Vec<(&UndoDeclaration, String)> = Vec::new();
        for at in taken.iter().rev() {
            let step = self.steps[*at].1;
            for declared in list_own(*at, false) {
                named.push((declared, written.push_declaration(step, declared, &[])));
            }
            for path in step.effect.paths.iter().filter(|path| restored.insert(path)) {
                let declared = self.declare_path(path, step.secret);
                let name = written.push_declaration(step, &declared, &[]);
                written.paths.insert(path.clone(), name);
                // A process whose stop failed keeps the file that stops it.
                let users = named.iter().filter(|(user, _)| resource::needs_unit_file(user, path));
                let users: Vec<Value> = users.map(|(_, name)| json!({ "step": name })).collect();
                if declared.fields.get("copy").is_none() && !users.is_empty() {
                    written.require_steps(users);
                }
            }
        }
        for at in taken {
            let step = self.steps[*at].1;
            for declared in list_own(*at, true) {
                // A timer restarts on its own files.
                let own = step.effect.paths.iter().filter_map(|path| written.paths.get(path).cloned());
                let inputs: BTreeSet<String> =
                    written.list_generated_names(&step.restart_on).into_iter().chain(own).collect();
                let inputs: Vec<String> = inputs.into_iter().filter(|_| !declared.follows).collect();
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

    /// Returns the steps of the run that are undone, with what was generated for them and the records before the first
    /// change of each.
    fn list_changes(&self, taken: &[usize], written: &GeneratedSteps) -> Vec<NamedChange> {
        let steps: BTreeSet<&StepId> = taken.iter().map(|at| &self.steps[*at].1.step).collect();
        let build = |step: &StepId| {
            let own: Vec<&UndoStep> =
                taken.iter().map(|at| self.steps[*at].1).filter(|taken| taken.step == *step).collect();
            let mut records: Vec<FormerRecord> = Vec::new();
            for record in own.iter().flat_map(|taken| &taken.records) {
                if records.iter().all(|known| known.step != record.step) {
                    records.push(record.clone());
                }
            }
            NamedChange { step: step.clone(), generated: written.list_names_for(step, &own), records }
        };
        steps.into_iter().map(build).collect()
    }

    fn list_remains(&self, taken: &[usize]) -> BTreeSet<String> {
        let own = taken.iter().map(|at| &self.steps[*at].1.effect);
        let own = own.flat_map(|effect| effect.remains.iter().chain(&effect.lost).cloned());
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
    /// Adds a step and returns its name.
    fn push_declaration(&mut self, step: &UndoStep, declared: &UndoDeclaration, restart_on: &[String]) -> String {
        let name = self.choose_name(step);
        let mut written = json!({ "name": name });
        if declared.absent {
            written["when"] = json!("false");
            written["otherwise"] = json!("absent");
        }
        if let Some(seconds) = step.guard_s.filter(|_| !declared.follows)
            && resource::kind_traits(&declared.kind).guard == GuardSupport::Own
        {
            written["guard"] = json!(format_guard_time(seconds));
        }
        if !restart_on.is_empty() {
            written["restart_on"] = json!(restart_on);
        }
        written[&declared.kind] = escape_templates(&declared.fields);
        self.steps.push(written);
        name
    }

    /// Makes the last step wait for the success of others.
    fn require_steps(&mut self, needed: Vec<Value>) {
        if let Some(last) = self.steps.last_mut() {
            last["needs"] = Value::Array(needed);
        }
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

    /// Returns the names of the generated steps that restore what a step of the run changed, in their order. A step that
    /// left nothing to restore is restored with all others.
    fn list_names_for(&self, step: &StepId, changes: &[&UndoStep]) -> Vec<String> {
        let mut wanted: BTreeSet<String> = self.list_generated_names(std::slice::from_ref(step)).into_iter().collect();
        // A path that several steps changed is restored once.
        let paths = changes.iter().flat_map(|change| &change.effect.paths);
        wanted.extend(paths.filter_map(|path| self.paths.get(path).cloned()));
        let names = self.steps.iter().filter_map(|step| step["name"].as_str());
        names.filter(|name| wanted.is_empty() || wanted.contains(*name)).map(str::to_owned).collect()
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
