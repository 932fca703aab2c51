//! Finds stacks that use themselves.

use super::Recipe;
use super::instances::RecipeLibrary;
use crate::diag::{Diag, DiagCode, DiagList, Span};
use indexmap::IndexMap;
use std::collections::{BTreeMap, BTreeSet};

/// Cycles reported in one load: finding the shortest cycle walks all recipes.
const MAX_CYCLES: usize = 20;

/// Reports stacks that use themselves, directly or through other stacks.
pub(super) fn check_recipe_cycles(library: &RecipeLibrary, diags: &mut DiagList) {
    let mut told: BTreeSet<BTreeSet<&str>> = BTreeSet::new();
    let closing = find_cycle_closing_recipes(library);
    for recipe in library.values().filter(|recipe| closing.contains(recipe.name.as_str())).take(MAX_CYCLES) {
        let Some(circle) = find_shortest_cycle(recipe, library) else { continue };
        if !told.insert(circle.iter().map(|(name, _)| *name).collect()) {
            continue;
        }
        let names: Vec<String> = std::iter::once(recipe.name.as_str())
            .chain(circle.iter().map(|(name, _)| *name))
            .map(|name| format!("`{name}`"))
            .collect();
        let mut diag = Diag::error(DiagCode::RecipeCycle, format!("recipes use each other: {}", names.join(" → ")));
        for (name, span) in circle {
            diag = if diag.span.is_none() {
                diag.with_span(span)
            } else {
                diag.with_other_span(span, format!("uses `{name}`"))
            };
        }
        diags.push(diag);
    }
}

/// Returns both ends of each use that closes a cycle, which means that it leads back to a recipe whose uses are still
/// being followed. Visits each recipe once.
fn find_cycle_closing_recipes(library: &RecipeLibrary) -> BTreeSet<&str> {
    let mut closing = BTreeSet::new();
    // Whether all uses of a recipe were followed to the end.
    let mut is_done: BTreeMap<&str, bool> = BTreeMap::new();
    for root in library.values() {
        if is_done.contains_key(root.name.as_str()) {
            continue;
        }
        is_done.insert(&root.name, false);
        let mut way = vec![(root.as_ref(), 0)];
        while let Some((recipe, next)) = way.last_mut() {
            let (from, used) = (*recipe, recipe.uses.get(*next));
            *next += 1;
            let Some(used) = used else {
                is_done.insert(&from.name, true);
                way.pop();
                continue;
            };
            let Some(used) = library.get(&used.recipe) else { continue };
            match is_done.get(used.name.as_str()) {
                Some(true) => {}
                Some(false) => closing.extend([from.name.as_str(), used.name.as_str()]),
                None => {
                    is_done.insert(&used.name, false);
                    way.push((used.as_ref(), 0));
                }
            }
        }
    }
    closing
}

/// Returns the shortest path from a recipe back to itself: each recipe on it with the place of its use.
fn find_shortest_cycle<'l>(start: &'l Recipe, library: &'l RecipeLibrary) -> Option<Vec<(&'l str, Span)>> {
    let mut came: IndexMap<&str, (&str, Span)> = IndexMap::new();
    let mut open = std::collections::VecDeque::from([start.name.as_str()]);
    while let Some(name) = open.pop_front() {
        for used in library.get(name).into_iter().flat_map(|recipe| &recipe.uses) {
            if used.recipe == start.name {
                let mut way = vec![(used.recipe.as_str(), used.span)];
                let mut at = name;
                while let Some((from, span)) = came.get(at) {
                    way.push((at, *span));
                    at = *from;
                }
                way.reverse();
                return Some(way);
            }
            if library.contains_key(&used.recipe) && !came.contains_key(used.recipe.as_str()) {
                came.insert(&used.recipe, (name, used.span));
                open.push_back(&used.recipe);
            }
        }
    }
    None
}
