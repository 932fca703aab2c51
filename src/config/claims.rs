//! Two steps of one host that declare the same thing differently.

use super::expand::{Expanded, Expander, State};
use super::{Host, Instance, Step};
use crate::diag::{Code, Diag, Diags, Span};
use crate::model::Value;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// Finds conflicts; hosts with the same recipes and values are looked at once.
#[derive(Default)]
pub(super) struct Claims {
    seen: HashSet<Vec<usize>>,
}

struct Claim {
    step: String,
    span: Span,
    desired: Value,
    absent: bool,
}

impl Claims {
    /// Returns whether hosts with the very same recipes, none of whose steps depend on the host, were looked
    /// at before.
    pub fn looked_at(&mut self, expander: &Expander<'_>, own: &[Arc<Instance>]) -> bool {
        let shared =
            |instance: &Arc<Instance>| instance.recipe.steps.iter().all(|step| expander.is_shared(instance, step));
        own.iter().all(shared) && !self.seen.insert(own.iter().map(|instance| Arc::as_ptr(instance) as usize).collect())
    }

    /// Compares all turns of one host.
    pub fn host(&self, host: &Host, turns: &[(&Arc<Step>, Arc<[Expanded]>)], diags: &mut Diags) {
        let mut claims: HashMap<(&'static str, String), Claim> = HashMap::new();
        for (step, turns) in turns {
            turns.iter().for_each(|turn| claim(step, turn, host, &mut claims, diags));
        }
    }
}

fn claim(
    step: &Step,
    turn: &Expanded,
    host: &Host,
    claims: &mut HashMap<(&'static str, String), Claim>,
    diags: &mut Diags,
) {
    let State::Resource(resource) = &turn.state else { return };
    for key in resource.claims() {
        let own =
            Claim { step: turn.id.to_string(), span: step.span, desired: resource.desired(), absent: turn.absent };
        match claims.get(&key) {
            Some(first) if first.desired != own.desired || first.absent != own.absent => {
                diags.push(conflict(&key, first, &own, host))
            }
            Some(_) => {}
            None => {
                claims.insert(key, own);
            }
        }
    }
}

fn conflict((kind, title): &(&'static str, String), first: &Claim, again: &Claim, host: &Host) -> Diag {
    let message = format!("`{}` and `{}` declare the {kind} `{title}` differently", first.step, again.step);
    let diag = Diag::error(Code::Conflict, message)
        .at(again.span)
        .label("declared again here")
        .also(first.span, "first declared here");
    diag.note(format!("for example on host `{}`", host.name))
}
