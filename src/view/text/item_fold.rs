//! Folds the items of a step with `each` whose changes are equal but for the item's own name: one text, and all names.
//!
//! Architecture Invariant: the fold is lossless. With an item's name in place of the shown one, the text is the item's own.

use super::group::StepGroup;
use super::host_values::{FoldedStep, fold_host_values};
use crate::model::{DisruptionClass, StepScope, StepVerdict};
use crate::plan::{PredictedEffects, StepPlan, UnmetDependency};
use indexmap::IndexMap;

/// Fewer items are shown one by one.
const MIN_ITEMS_TO_FOLD: usize = 3;
/// Replaces the item's name in a text. Texts of a plan do not contain it: output escapes control characters.
const NAME: &str = "\u{1}";

/// Folds hosts first, then items on the same hosts.
pub fn fold_steps(groups: Vec<StepGroup<'_>>) -> Vec<FoldedStep<'_>> {
    fold_items(fold_host_values(groups))
}

/// What items of one fold share, with [`NAME`] in place of their names.
#[derive(PartialEq, Eq, Hash)]
struct ItemShape<'a> {
    recipe: &'a str,
    step: &'a str,
    kind: &'a str,
    place: &'a str,
    verdict: StepVerdict,
    disruption: DisruptionClass,
    scope: StepScope,
    hosts: Vec<&'a str>,
    fixed: (Option<&'a PredictedEffects>, Option<&'a UnmetDependency>, Option<&'a str>),
    texts: Vec<Option<String>>,
}

impl<'a> ItemShape<'a> {
    /// Returns `None` for a step without `each`, and for one that differs between hosts.
    fn of_step(folded: &FoldedStep<'a>) -> Option<Self> {
        let step: &'a StepPlan = folded.group.step;
        let key = step
            .id
            .key
            .as_deref()
            .filter(|key| !key.is_empty() && folded.values.is_empty() && !folded.group.check_differs)?;
        let general = |text: &str| Some(text.replace(key, NAME));
        let raw = |text: &crate::model::UntrustedText| general(text.raw());
        let mut texts = vec![raw(&step.title), raw(&step.reason), step.hint.as_deref().and_then(general)];
        texts.push(step.irreversible.as_ref().and_then(raw));
        texts.push(step.check.as_ref().and_then(|check| raw(&check.output)));
        for change in &step.changes {
            texts.push(general(&change.attribute));
            texts.push(change.secret.then(String::new));
            texts.extend([&change.from, &change.to, &change.diff].map(|text| text.as_ref().and_then(raw)));
        }
        Some(Self {
            recipe: &step.id.recipe,
            step: &step.id.step,
            kind: &step.kind,
            place: &step.place,
            verdict: step.verdict,
            disruption: step.disruption,
            scope: step.scope,
            hosts: folded.group.hosts.iter().map(|host| host.as_str()).collect(),
            fixed: (step.envelope.as_deref(), step.waits_for.as_deref(), step.held.as_deref()),
            texts,
        })
    }
}

fn fold_items(steps: Vec<FoldedStep<'_>>) -> Vec<FoldedStep<'_>> {
    // By shape: the places of its items. Only neighbours of one step are compared, so that the order stays.
    let mut out: Vec<FoldedStep<'_>> = Vec::with_capacity(steps.len());
    let mut rest = steps.into_iter().peekable();
    while let Some(first) = rest.next() {
        let id = &first.group.step.id;
        let mut same = vec![first];
        while let Some(next) = rest.next_if(|next| {
            let other = &next.group.step.id;
            other.key.is_some() && other.recipe == id.recipe && other.step == id.step
        }) {
            same.push(next);
        }
        out.extend(fold_neighbours(same));
    }
    out
}

fn fold_neighbours(same: Vec<FoldedStep<'_>>) -> Vec<FoldedStep<'_>> {
    if same.len() < MIN_ITEMS_TO_FOLD {
        return same;
    }
    let mut shapes: IndexMap<Result<ItemShape<'_>, usize>, Vec<FoldedStep<'_>>> = IndexMap::new();
    for (at, step) in same.into_iter().enumerate() {
        shapes.entry(ItemShape::of_step(&step).ok_or(at)).or_default().push(step);
    }
    shapes.into_values().flat_map(merge_items).collect()
}

fn merge_items(mut items: Vec<FoldedStep<'_>>) -> Vec<FoldedStep<'_>> {
    if items.len() < MIN_ITEMS_TO_FOLD {
        return items;
    }
    let names = items.iter().filter_map(|item| item.group.step.id.key.as_deref()).collect();
    items.truncate(1);
    items.iter_mut().for_each(|first| first.items = Vec::clone(&names));
    items
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Plan;
    use crate::resource::AttributeChange;
    use crate::view::sample;
    use crate::view::text::group;

    fn item_step(key: &str, title: &str, value: &str) -> StepPlan {
        let mut step = sample::step("labels", "node", title, StepVerdict::Change, &format!("`{title}` differs"));
        step.id.key = Some(key.into());
        StepPlan { changes: vec![AttributeChange::new("label rack", None, Some(value))], ..step }
    }

    fn folded_items(plan: &Plan) -> Vec<Vec<String>> {
        let folded = fold_steps(group::group_steps(plan, StepPlan::will_run));
        folded.iter().map(|step| step.items.iter().map(ToString::to_string).collect()).collect()
    }

    fn plan_of(steps: Vec<StepPlan>) -> Plan {
        sample::plan(vec![sample::observed_host("kubernetes", steps)])
    }

    #[test]
    fn items_that_differ_only_in_their_name_are_one() {
        let steps: Vec<StepPlan> = (1..=1000).map(|n| format!("gpu{n:04}")).map(|n| item_step(&n, &n, "a")).collect();
        let folded = folded_items(&plan_of(steps));
        assert_eq!((folded.len(), folded[0].len(), folded[0][999].as_str()), (1, 1000, "gpu1000"));
    }

    #[test]
    fn items_with_other_changes_are_shown_apart() {
        let mut steps: Vec<StepPlan> = ["a1", "a2", "a3", "a4"].map(|name| item_step(name, name, "x")).into();
        steps.push(item_step("a5", "a5", "y"));
        assert_eq!(folded_items(&plan_of(steps.clone())), [vec!["a1", "a2", "a3", "a4"], vec![]]);
        assert_eq!(folded_items(&plan_of(steps[3..].to_vec())), [Vec::<String>::new(), Vec::new()]);
        let other: Vec<StepPlan> = ["a1", "a2", "a3"].map(|name| item_step(name, "fixed", name)).into();
        assert_eq!(folded_items(&plan_of(other)), [vec!["a1", "a2", "a3"]], "the name may be the value");
    }

    #[test]
    fn items_on_other_hosts_are_shown_apart() {
        let own = |name: &str| item_step(name, name, "x");
        let hosts = [("h1", ["a", "b", "c"].map(own).to_vec()), ("h2", ["a", "b"].map(own).to_vec())];
        let plan = sample::plan(hosts.map(|(host, steps)| sample::observed_host(host, steps)).into());
        assert_eq!(folded_items(&plan), [Vec::<String>::new(), Vec::new(), Vec::new()]);
    }
}
