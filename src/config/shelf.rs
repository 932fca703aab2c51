//! All built-in recipes as a project without hosts, for commands that run without an inventory.

use super::cx::LoadContext;
use super::load::{LoadOptions, blank, built_in};
use super::shipped::RECIPES;
use super::{Project, RecipeLibrary};
use camino::{Utf8Path, Utf8PathBuf};

/// Returns a project whose library contains only the built-in recipes. A test ensures that they have no errors.
pub fn shelf() -> Project {
    let options = LoadOptions { trust: false, embedded: RECIPES, env: &|_| None };
    let mut cx = LoadContext::new(&options, Utf8PathBuf::new());
    let library = read(&mut cx);
    Project { library, ..blank(Utf8Path::new(""), &cx) }
}

fn read(cx: &mut LoadContext<'_>) -> RecipeLibrary {
    let mut library = RecipeLibrary::new();
    RECIPES.iter().for_each(|(name, text)| built_in(name, text, &mut library, cx));
    library
}

#[cfg(test)]
mod tests {
    use super::super::inventory::ResolvedInventory;
    use super::super::load::look;
    use super::super::template::ProgramCache;
    use super::*;
    use crate::diag::render;

    /// An inventory reads only the built-in recipes that it names, so this test checks all of them.
    #[test]
    fn everything_built_in_is_read_without_a_mistake() {
        let options = LoadOptions { trust: false, embedded: RECIPES, env: &|_| None };
        let mut cx = LoadContext::new(&options, Utf8PathBuf::new());
        let library = read(&mut cx);
        let resolved = ResolvedInventory {
            hosts: Default::default(),
            vars: Vec::new(),
            groups: Default::default(),
            group_vars: Default::default(),
            entries: Vec::new(),
        };
        look(&library, &resolved, &ProgramCache::default(), &mut cx);
        let said: Vec<String> = cx.diags.0.iter().map(|diag| render(diag, &cx.sources, false)).collect();
        assert!(said.is_empty(), "{}", said.join("\n"));
        assert_eq!(library.len(), RECIPES.len());
    }
}
