//! Finds steps of one host that declare the same resource differently.

use super::expand::{ClaimKey, ExpandedStep, ExpansionState, StepExpander};
use super::{Host, RecipeInstance, RecipeStep};
use crate::diag::{Diag, DiagCode, DiagList, Span};
use crate::model::{StepId, Value, list_directories, resolve_directories};
use crate::resource::DeclaredMembership;
use hashbrown::{HashMap, HashSet};
use std::borrow::Cow;
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

/// All claims of the steps of one host. Paths are without the links of their directories.
#[derive(Default)]
struct HostClaims {
    /// The links that steps declare, with their targets.
    links: HashMap<String, String>,
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
    /// The kind and name of the resource as the step names it.
    key: ClaimKey,
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
}

/// Compares the claims of all steps of one host.
pub(super) fn check_host(host: &Host, turns: &[(&Arc<RecipeStep>, Arc<[ExpandedStep]>)], diags: &mut DiagList) {
    let own = turns.iter().flat_map(|(step, turns)| turns.iter().map(move |turn| (*step, turn)));
    let mut claims = HostClaims::with_links(own.clone().map(|(_, turn)| turn));
    for conflict in own.flat_map(|(step, turn)| claims.add_step(step, turn)) {
        diags.push(conflict.into_diag(host));
    }
}

/// Finds conflicts that depend on the facts of a host, so that the inventory alone does not show them: one step is
/// removed by its condition (`otherwise: absent`), and another declares the same resource.
pub fn find_conflicts_by_facts(turns: &[(&RecipeStep, &ExpandedStep)]) -> Vec<StepConflict> {
    let depends = |step: &RecipeStep, turn: &ExpandedStep| step.when.is_some() || !turn.reads.is_empty();
    if !turns.iter().any(|(step, turn)| depends(step, turn)) {
        return Vec::new();
    }
    let mut claims = HostClaims::with_links(turns.iter().map(|(_, turn)| *turn));
    let mut seen: HashMap<Cow<'_, ClaimKey>, bool> = HashMap::with_capacity(2 * turns.len());
    let mut shared: HashSet<Cow<'_, ClaimKey>> = HashSet::new();
    for (step, turn) in turns {
        let by_facts = depends(step, turn);
        for key in turn.claim_keys().iter().map(|key| claims.resolve_key(key)) {
            match seen.insert(key.clone(), by_facts) {
                Some(other) if by_facts || other => drop(shared.insert(key)),
                _ => {}
            }
        }
    }
    let is_shared = |claims: &HostClaims, turn: &ExpandedStep| {
        turn.claim_keys().iter().any(|key| shared.contains(&claims.resolve_key(key)))
    };
    let own: Vec<_> =
        turns.iter().filter(|(_, turn)| is_shared(&claims, turn) || find_membership(turn).is_some()).collect();
    own.into_iter().flat_map(|(step, turn)| claims.add_step(step, turn)).collect()
}

fn find_membership(turn: &ExpandedStep) -> Option<DeclaredMembership> {
    match &turn.state {
        ExpansionState::Resource(resource) => resource.declared_membership(),
        _ => None,
    }
}

impl StepClaim {
    /// Returns the claim on one resource, which the step names `named`. `key` replaces its name in the declaration, so that
    /// two names of one file make no difference.
    fn with_key(&self, named: ClaimKey, key: &ClaimKey) -> Self {
        let mut own = Self { key: named, ..self.clone() };
        if own.key != *key
            && let Value::Object(fields) = &mut own.desired
        {
            let names = fields.values_mut().filter(|value| value.as_str() == Some(&own.key.1));
            names.for_each(|value| *value = Value::from(key.1.as_str()));
        }
        own
    }

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

/// Links of the supported distributions, if their `/usr` is merged.
const DISTRIBUTION_LINKS: [(&str, &str); 6] = [
    ("/var/run", "/run"),
    ("/var/lock", "/run/lock"),
    ("/bin", "/usr/bin"),
    ("/sbin", "/usr/sbin"),
    ("/lib", "/usr/lib"),
    ("/lib64", "/usr/lib64"),
];

impl HostClaims {
    /// Returns no claims, and the links that these steps declare.
    fn with_links<'s>(turns: impl Iterator<Item = &'s ExpandedStep>) -> Self {
        let declared = turns.filter_map(|turn| match &turn.state {
            ExpansionState::Resource(resource) => {
                resource.declared_link().map(|(path, target)| (path.to_owned(), target.to_owned()))
            }
            _ => None,
        });
        Self { links: declared.collect(), ..Self::default() }
    }

    /// Returns a path without the links that are known. Few paths lead through one.
    fn resolve_path<'p>(&self, path: &'p str) -> Cow<'p, str> {
        let find_target = |path: &str| {
            let known = || DISTRIBUTION_LINKS.iter().find(|(link, _)| *link == path).map(|(_, target)| *target);
            self.links.get(path).map(String::as_str).or_else(known)
        };
        if list_directories(path).all(|directory| find_target(directory).is_none()) {
            return Cow::Borrowed(path);
        }
        Cow::Owned(resolve_directories(path, |path| find_target(path).map(str::to_owned)))
    }

    /// Returns the key of a claim that is the same for all paths to one file.
    fn resolve_key<'k>(&self, key: &'k ClaimKey) -> Cow<'k, ClaimKey> {
        match key {
            ("path", path) => match self.resolve_path(path) {
                Cow::Borrowed(_) => Cow::Borrowed(key),
                Cow::Owned(path) => Cow::Owned(("path", path)),
            },
            _ => Cow::Borrowed(key),
        }
    }

    /// Adds the claims of a step, and returns their conflicts with those of earlier steps.
    fn add_step(&mut self, step: &RecipeStep, turn: &ExpandedStep) -> Vec<StepConflict> {
        let ExpansionState::Resource(resource) = &turn.state else { return Vec::new() };
        let own = StepClaim {
            step: turn.id.clone(),
            span: step.span,
            key: <_>::default(),
            desired: resource.claimed_value(),
            open: resource.open_fields(),
            absent: turn.absent,
        };
        let mut found = self.find_removed_paths(&own, &resource.removed_trees());
        for named in resource.exclusive_claims() {
            let key = self.resolve_key(&named).into_owned();
            let own = own.with_key(named, &key);
            found.extend(self.find_removing_step(&key, &own));
            match self.whole.get(&key) {
                Some(first) if first.contradicts(&own, key.0) => found.push(build_conflict(first, &own)),
                _ => {}
            }
            if let Some(part) = self.parts.get(&key).filter(|part| !(part.is_removal() && own.is_removal())) {
                found.push(build_overlap(part, &own, own.span));
            }
            self.whole.entry(key).or_insert(own);
        }
        for named in resource.shared_claims() {
            let key = self.resolve_key(&named).into_owned();
            let own = own.with_key(named, &key);
            found.extend(self.find_removing_step(&key, &own));
            if let Some(whole) = self.whole.get(&key).filter(|whole| !(whole.is_removal() && own.is_removal())) {
                found.push(build_overlap(&own, whole, own.span));
            }
            self.parts.entry(key).or_insert(own);
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
            let place = self.resolve_path(tree).into_owned();
            let inside = |(key, claim): &(&ClaimKey, &StepClaim)| is_kept_inside(key, claim, &place);
            let mut kept: Vec<_> = self.whole.iter().chain(&self.parts).filter(inside).collect();
            kept.sort_by_key(|(key, _)| *key);
            let own = StepClaim { key: ("path", tree.clone()), ..own.clone() };
            found.extend(kept.first().map(|(_, first)| build_removal(first, &own, own.span)));
            self.removed_trees.push((place, own));
        }
        found
    }

    /// Returns the conflict with an earlier step that removes the directory of what a step declares.
    fn find_removing_step(&self, key: &ClaimKey, own: &StepClaim) -> Option<StepConflict> {
        let (_, removing) = self.removed_trees.iter().find(|(tree, _)| is_kept_inside(key, own, tree))?;
        Some(build_removal(own, removing, own.span))
    }
}

/// Reports whether a step declares something in the directory `tree` that it does not remove.
fn is_kept_inside((kind, path): &ClaimKey, claim: &StepClaim, tree: &str) -> bool {
    let is_below = path.strip_prefix(tree).is_some_and(|rest| rest.starts_with('/'));
    *kind == "path" && is_below && !claim.is_removal()
}

/// Reports a directory that one step removes with what another declares in it. `later` is the place of the claim that was
/// read second.
fn build_removal(kept: &StepClaim, removing: &StepClaim, later: Span) -> StepConflict {
    let other = if kept.span == later { removing.span } else { kept.span };
    let ((_, path), (_, tree)) = (&kept.key, &removing.key);
    let through = match path.starts_with(&format!("{tree}/")) {
        true => "",
        false => ": a link leads to the same directory",
    };
    StepConflict {
        steps: [kept.step.clone(), removing.step.clone()],
        message: format!(
            "`{}` declares `{path}`, and `{}` removes `{tree}` with everything in it{through}",
            kept.step, removing.step
        ),
        later: (later, "declared here"),
        other: (other, "and here"),
    }
}

fn build_conflict(first: &StepClaim, again: &StepClaim) -> StepConflict {
    let (kept, removing) = if first.is_removal() { (again, first) } else { (first, again) };
    let ((kind, title), also) = (&kept.key, describe_other_path(removing, kept));
    let message = match removing.is_removal() && !kept.is_removal() {
        true => format!("`{}` declares the {kind} `{title}`, and `{}` removes it{also}", kept.step, removing.step),
        false => format!("`{}` and `{}` declare the {kind} `{title}` differently{also}", first.step, again.step),
    };
    StepConflict {
        steps: [first.step.clone(), again.step.clone()],
        message,
        later: (again.span, "declared again here"),
        other: (first.span, "first declared here"),
    }
}

/// Returns the path of `other` if a link leads from it to that of `named`, or the other way round.
fn describe_other_path(other: &StepClaim, named: &StepClaim) -> String {
    match other.key == named.key {
        true => String::new(),
        false => format!(": `{}` leads to the same file", other.key.1),
    }
}

/// Reports a claim on a part of a resource that another step claims as a whole. `later` is the place of the claim that
/// was read second.
fn build_overlap(part: &StepClaim, whole: &StepClaim, later: Span) -> StepConflict {
    let other = if part.span == later { whole.span } else { part.span };
    let ((kind, title), also) = (&part.key, describe_other_path(whole, part));
    StepConflict {
        steps: [part.step.clone(), whole.step.clone()],
        message: format!(
            "`{}` declares a part of the {kind} `{title}`, which `{}` declares entirely{also}",
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
