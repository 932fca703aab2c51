//! Finds steps of one host that declare the same resource differently.

use super::expand::{ClaimKey, ExpandedStep, ExpansionState, StepExpander};
use super::{Host, RecipeInstance, RecipeStep};
use crate::diag::{Diag, DiagCode, DiagList, Span};
use crate::model::{StepId, Value};
use crate::resource::DeclaredMembership;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// Finds conflicts. Hosts with the same recipes and values are checked once.
#[derive(Default)]
pub(super) struct ConflictFinder {
    seen: HashSet<Vec<usize>>,
}

/// Two steps of a host of which each undoes what the other does.
#[derive(Debug)]
pub struct StepConflict {
    /// The two steps.
    pub steps: [StepId; 2],
    /// What they declare differently: a lowercase fragment.
    pub message: String,
    later: (Span, &'static str),
    other: (Span, &'static str),
}

/// All claims of the steps of one host.
#[derive(Default)]
struct HostClaims {
    whole: HashMap<ClaimKey, StepClaim>,
    /// Claims on parts of a resource; of several parts, only the first.
    parts: HashMap<ClaimKey, StepClaim>,
    /// Directories that are removed with everything in them.
    removed_trees: Vec<(String, StepClaim)>,
    memberships: Vec<MembershipClaim>,
}

#[derive(Clone)]
struct StepClaim {
    step: StepId,
    span: Span,
    desired: Value,
    open: &'static [&'static str],
    absent: bool,
}

struct MembershipClaim {
    step: StepId,
    span: Span,
    declared: DeclaredMembership,
}

impl ConflictFinder {
    /// Returns whether a host with the same recipes was checked before, provided that no step depends on the host.
    pub fn was_checked(&mut self, expander: &StepExpander<'_>, own: &[Arc<RecipeInstance>]) -> bool {
        let shared = |instance: &Arc<RecipeInstance>| {
            instance.recipe.steps.iter().all(|step| expander.is_shared(instance, step))
        };
        own.iter().all(shared) && !self.seen.insert(own.iter().map(|instance| Arc::as_ptr(instance) as usize).collect())
    }

    /// Compares the claims of all steps of one host.
    pub fn check_host(&self, host: &Host, turns: &[(&Arc<RecipeStep>, Arc<[ExpandedStep]>)], diags: &mut DiagList) {
        let mut claims = HostClaims::default();
        let own = turns.iter().flat_map(|(step, turns)| turns.iter().map(move |turn| (*step, turn)));
        for conflict in own.flat_map(|(step, turn)| claims.add_step(step, turn)) {
            diags.push(conflict.into_diag(host));
        }
    }
}

/// Finds conflicts that depend on the facts of a host, so that the inventory alone does not show them: one step is
/// removed by its condition (`otherwise: absent`), and another declares the same resource.
pub fn find_conflicts_by_facts(turns: &[(&RecipeStep, &ExpandedStep)]) -> Vec<StepConflict> {
    let depends = |step: &RecipeStep, turn: &ExpandedStep| step.when.is_some() || !turn.reads.is_empty();
    if !turns.iter().any(|(step, turn)| depends(step, turn)) {
        return Vec::new();
    }
    let mut seen: HashMap<&ClaimKey, bool> = HashMap::with_capacity(2 * turns.len());
    let mut shared: HashSet<&ClaimKey> = HashSet::new();
    for (step, turn) in turns {
        let by_facts = depends(step, turn);
        for key in turn.claim_keys() {
            match seen.insert(key, by_facts) {
                Some(other) if by_facts || other => drop(shared.insert(key)),
                _ => {}
            }
        }
    }
    let is_shared = |turn: &ExpandedStep| turn.claim_keys().iter().any(|key| shared.contains(key));
    let mut claims = HostClaims::default();
    let own = turns.iter().filter(|(_, turn)| is_shared(turn) || find_membership(turn).is_some());
    own.flat_map(|(step, turn)| claims.add_step(step, turn)).collect()
}

fn find_membership(turn: &ExpandedStep) -> Option<DeclaredMembership> {
    match &turn.state {
        ExpansionState::Resource(resource) => resource.declared_membership(),
        _ => None,
    }
}

impl StepClaim {
    /// Returns whether the claim removes the resource.
    fn is_removal(&self) -> bool {
        self.absent || self.desired["absent"] == true
    }

    /// Returns whether this claim and `other` conflict. Two removals of a path never conflict, whatever their kinds.
    fn contradicts(&self, other: &StepClaim, kind: &str) -> bool {
        match (self.is_removal(), other.is_removal()) {
            (true, true) => kind != "path" && self.desired != other.desired,
            (false, false) => {
                values_contradict(&self.desired, &other.desired, self.open)
                    || values_contradict(&other.desired, &self.desired, self.open)
            }
            _ => true,
        }
    }
}

/// Reports whether a declaration has a field that `other` lacks or declares with another value. `open` are the fields
/// that a declaration may leave to others: a service that must run, and the same one that must run and start at boot, do
/// not contradict each other.
pub fn values_contradict(one: &Value, other: &Value, open: &[&str]) -> bool {
    let is_left = |key: &String, value: &Value| value.is_null() && open.contains(&key.as_str());
    let differs = |key, value: &Value, there: &Value| value != there && !is_left(key, value) && !is_left(key, there);
    match (one, other) {
        (Value::Object(one), Value::Object(other)) => {
            one.iter().any(|(key, value)| other.get(key).is_none_or(|there| differs(key, value, there)))
        }
        _ => one != other,
    }
}

impl HostClaims {
    /// Adds the claims of a step, and returns their conflicts with those of earlier steps.
    fn add_step(&mut self, step: &RecipeStep, turn: &ExpandedStep) -> Vec<StepConflict> {
        let ExpansionState::Resource(resource) = &turn.state else { return Vec::new() };
        let own = StepClaim {
            step: turn.id.clone(),
            span: step.span,
            desired: resource.claimed_value(),
            open: resource.open_fields(),
            absent: turn.absent,
        };
        let mut found = self.find_removed_paths(&own, &resource.removed_trees());
        for key in resource.exclusive_claims() {
            found.extend(self.find_removing_step(&key, &own));
            match self.whole.get(&key) {
                Some(first) if first.contradicts(&own, key.0) => found.push(build_conflict(&key, first, &own)),
                _ => {}
            }
            if let Some(part) = self.parts.get(&key).filter(|part| !(part.is_removal() && own.is_removal())) {
                found.push(build_overlap(&key, part, &own, own.span));
            }
            self.whole.entry(key).or_insert_with(|| own.clone());
        }
        for key in resource.shared_claims() {
            found.extend(self.find_removing_step(&key, &own));
            if let Some(whole) = self.whole.get(&key).filter(|whole| !(whole.is_removal() && own.is_removal())) {
                found.push(build_overlap(&key, &own, whole, own.span));
            }
            self.parts.entry(key).or_insert_with(|| own.clone());
        }
        if let Some(declared) = resource.declared_membership() {
            let span = step.field_node(declared.field()).map_or(step.span, |node| node.span);
            let own = MembershipClaim { step: turn.id.clone(), span, declared };
            found.extend(self.memberships.iter().filter_map(|first| build_membership_conflict(first, &own)));
            self.memberships.push(own);
        }
        found
    }

    /// Adds directories that a step removes with everything in them, and returns the conflicts with earlier steps that
    /// declare something in them.
    fn find_removed_paths(&mut self, own: &StepClaim, trees: &[String]) -> Vec<StepConflict> {
        let mut found = Vec::new();
        for tree in trees {
            let inside = |(key, claim): &(&ClaimKey, &StepClaim)| is_kept_inside(key, claim, tree);
            let mut kept: Vec<_> = self.whole.iter().chain(&self.parts).filter(inside).collect();
            kept.sort_by_key(|(key, _)| *key);
            found.extend(kept.first().map(|(key, first)| build_removal(key, first, tree, own, own.span)));
            self.removed_trees.push((tree.clone(), own.clone()));
        }
        found
    }

    /// Returns the conflict with an earlier step that removes the directory of what a step declares.
    fn find_removing_step(&self, key: &ClaimKey, own: &StepClaim) -> Option<StepConflict> {
        let (tree, removing) = self.removed_trees.iter().find(|(tree, _)| is_kept_inside(key, own, tree))?;
        Some(build_removal(key, own, tree, removing, own.span))
    }
}

/// Reports whether a step declares something in the directory `tree` that it does not remove.
fn is_kept_inside((kind, path): &ClaimKey, claim: &StepClaim, tree: &str) -> bool {
    let is_below = path.strip_prefix(tree).is_some_and(|rest| rest.starts_with('/'));
    *kind == "path" && is_below && !claim.is_removal()
}

/// Reports a directory that one step removes with what another declares in it. `later` is the place of the claim that was
/// read second.
fn build_removal(
    (_, path): &ClaimKey,
    kept: &StepClaim,
    tree: &str,
    removing: &StepClaim,
    later: Span,
) -> StepConflict {
    let other = if kept.span == later { removing.span } else { kept.span };
    StepConflict {
        steps: [kept.step.clone(), removing.step.clone()],
        message: format!(
            "`{}` declares `{path}`, and `{}` removes `{tree}` with everything in it",
            kept.step, removing.step
        ),
        later: (later, "declared here"),
        other: (other, "and here"),
    }
}

fn build_conflict((kind, title): &ClaimKey, first: &StepClaim, again: &StepClaim) -> StepConflict {
    let (kept, removing) = if first.is_removal() { (again, first) } else { (first, again) };
    let message = match removing.is_removal() && !kept.is_removal() {
        true => format!("`{}` declares the {kind} `{title}`, and `{}` removes it", kept.step, removing.step),
        false => format!("`{}` and `{}` declare the {kind} `{title}` differently", first.step, again.step),
    };
    StepConflict {
        steps: [first.step.clone(), again.step.clone()],
        message,
        later: (again.span, "declared again here"),
        other: (first.span, "first declared here"),
    }
}

/// Reports a claim on a part of a resource that another step claims as a whole. `later` is the place of the claim that
/// was read second.
fn build_overlap((kind, title): &ClaimKey, part: &StepClaim, whole: &StepClaim, later: Span) -> StepConflict {
    let other = if part.span == later { whole.span } else { part.span };
    StepConflict {
        steps: [part.step.clone(), whole.step.clone()],
        message: format!(
            "`{}` declares a part of the {kind} `{title}`, which `{}` declares entirely",
            part.step, whole.step
        ),
        later: (later, "declared here"),
        other: (other, "and here"),
    }
}

/// Reports a list of members and a list of groups that contradict each other: each step would undo the other.
fn build_membership_conflict(first: &MembershipClaim, again: &MembershipClaim) -> Option<StepConflict> {
    let (user, group) = first.declared.find_contradiction(&again.declared)?;
    Some(StepConflict {
        steps: [first.step.clone(), again.step.clone()],
        message: format!(
            "`{}` and `{}` disagree whether `{user}` is in group `{group}`: one of them adds it, the other removes it",
            first.step, again.step
        ),
        later: (again.span, "declared here"),
        other: (first.span, "and here"),
    })
}

impl StepConflict {
    fn into_diag(self, host: &Host) -> Diag {
        let diag = Diag::error(DiagCode::Conflict, self.message)
            .with_span(self.later.0)
            .label(self.later.1)
            .with_other_span(self.other.0, self.other.1);
        diag.note(format!("for example on host `{}`", host.name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn open_fields_contradict_nothing() {
        let open = ["enabled"];
        let service = |state: &str, enabled: Value| json!({ "name": "kubelet", "state": state, "enabled": enabled });
        let (runs, starts) = (service("running", Value::Null), service("running", json!(true)));
        assert!(!values_contradict(&runs, &starts, &open) && values_contradict(&runs, &starts, &[]));
        assert!(values_contradict(&starts, &service("running", json!(false)), &open));
        assert!(values_contradict(&runs, &service("stopped", Value::Null), &open));
        assert!(values_contradict(&json!({ "path": "/a", "target": "/b" }), &json!({ "path": "/a" }), &open));
    }
}
