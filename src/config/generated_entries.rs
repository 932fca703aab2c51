//! Puts generated recipes in the place of everything that an inventory applies.

use super::GeneratedRecipe;
use super::instances::RecipeLibrary;
use super::inventory::{RawApplyEntry, RawInventory};
use super::load_context::LoadContext;
use super::recipe;
use crate::diag::Span;
use crate::model::HostName;
use std::sync::Arc;

/// Makes the generated recipes everything that the inventory applies, and returns them.
pub(super) fn replace_entries(
    inventory: &mut RawInventory,
    recipes: &[GeneratedRecipe],
    cx: &mut LoadContext<'_>,
) -> RecipeLibrary {
    let mut library = RecipeLibrary::new();
    inventory.apply.clear();
    for generated in recipes {
        let path = generated.shown_path();
        let Some((file, node)) = cx.parse_yaml(&path, generated.text.clone()) else { continue };
        let Some(recipe) = recipe::read_recipe(&node, &path, cx) else { continue };
        let span = Span { file, start: 0, end: 0 };
        // No entry selects the cluster: its steps run there once, whichever hosts the recipe is applied to.
        let of_cluster = generated.hosts.iter().any(HostName::is_cluster);
        let hosts: Vec<&str> = match of_cluster {
            true => vec!["all"],
            false => generated.hosts.iter().map(HostName::as_str).collect(),
        };
        inventory.apply.push(RawApplyEntry::of_hosts((recipe.name.clone(), span), (hosts.join(","), span)));
        library.insert(recipe.name.clone(), Arc::new(recipe));
    }
    library
}
