//! Finds steps of one host that declare the same resource differently.

use super::expand::{ExpandedStep, ExpansionState, StepExpander};
use super::{Host, RecipeInstance, RecipeStep};
use crate::diag::{Diag, DiagCode, DiagList, Span};
use crate::model::Value;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// Finds conflicts. Hosts with the same recipes and values are checked once.
#[derive(Default)]
pub(super) struct ConflictFinder {
    seen: HashSet<Vec<usize>>,
}

/// All claims of the steps of one host.
#[derive(Default)]
struct HostClaims {
    whole: HashMap<ClaimKey, StepClaim>,
    /// Claims on parts of a resource; of several parts, only the first.
    parts: HashMap<ClaimKey, StepClaim>,
}

type ClaimKey = (&'static str, String);

#[derive(Clone)]
struct StepClaim {
    step: String,
    span: Span,
    desired: Value,
    absent: bool,
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
        for (step, turns) in turns {
            turns.iter().for_each(|turn| record_claims(step, turn, host, &mut claims, diags));
        }
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
            (false, false) => self.desired != other.desired,
            _ => true,
        }
    }
}

fn record_claims(step: &RecipeStep, turn: &ExpandedStep, host: &Host, claims: &mut HostClaims, diags: &mut DiagList) {
    let ExpansionState::Resource(resource) = &turn.state else { return };
    let own = StepClaim {
        step: turn.id.to_string(),
        span: step.span,
        desired: resource.claimed_value(),
        absent: turn.absent,
    };
    for key in resource.exclusive_claims() {
        match claims.whole.get(&key) {
            Some(first) if first.contradicts(&own, key.0) => diags.push(build_conflict_diag(&key, first, &own, host)),
            _ => {}
        }
        if let Some(part) = claims.parts.get(&key).filter(|part| !(part.is_removal() && own.is_removal())) {
            diags.push(build_overlap_diag(&key, part, &own, own.span, host));
        }
        claims.whole.entry(key).or_insert_with(|| own.clone());
    }
    for key in resource.shared_claims() {
        if let Some(whole) = claims.whole.get(&key).filter(|whole| !(whole.is_removal() && own.is_removal())) {
            diags.push(build_overlap_diag(&key, &own, whole, own.span, host));
        }
        claims.parts.entry(key).or_insert_with(|| own.clone());
    }
}

fn build_conflict_diag((kind, title): &ClaimKey, first: &StepClaim, again: &StepClaim, host: &Host) -> Diag {
    let message = format!("`{}` and `{}` declare the {kind} `{title}` differently", first.step, again.step);
    let diag = Diag::error(DiagCode::Conflict, message)
        .with_span(again.span)
        .label("declared again here")
        .with_other_span(first.span, "first declared here");
    diag.note(format!("for example on host `{}`", host.name))
}

/// Reports a claim on a part of a resource that another step claims as a whole. `later` is the place of the claim that
/// was read second.
fn build_overlap_diag((kind, title): &ClaimKey, part: &StepClaim, whole: &StepClaim, later: Span, host: &Host) -> Diag {
    let message =
        format!("`{}` declares a part of the {kind} `{title}`, which `{}` declares entirely", part.step, whole.step);
    let other = if part.span == later { whole.span } else { part.span };
    let diag = Diag::error(DiagCode::Conflict, message)
        .with_span(later)
        .label("declared here")
        .with_other_span(other, "and here");
    diag.note(format!("for example on host `{}`", host.name))
}
