//! All built-in recipes as a project without hosts, for commands that run without an inventory.

use super::builtin_data::BUILTIN_RECIPES;
use super::load::{empty_project, read_builtin_recipe};
use super::load_context::LoadContext;
use super::load_options::LoadOptions;
use super::{Project, RecipeLibrary};
use camino::{Utf8Path, Utf8PathBuf};

/// Returns a project whose library contains only the built-in recipes. A test ensures that they have no errors.
pub fn builtin_project() -> Project {
    let options = LoadOptions {
        trust: false,
        embedded: BUILTIN_RECIPES,
        env: &|_| None,
        programs: crate::config::SecretPrograms::Skip,
    };
    let mut cx = LoadContext::new(&options, Utf8PathBuf::new());
    let library = read_builtin_library(&mut cx);
    Project { library, ..empty_project(Utf8Path::new(""), &cx) }
}

fn read_builtin_library(cx: &mut LoadContext<'_>) -> RecipeLibrary {
    let mut library = RecipeLibrary::new();
    BUILTIN_RECIPES.iter().for_each(|(name, text)| read_builtin_recipe(name, text, &mut library, cx));
    library
}

#[cfg(test)]
mod tests {
    use super::super::inventory::ResolvedInventory;
    use super::super::load::check_recipes;
    use super::super::template::ProgramCache;
    use super::*;
    use crate::diag::render_diag;

    /// An inventory reads only the built-in recipes that it names, so this test checks all of them.
    #[test]
    fn all_builtin_recipes_pass_validation() {
        let options = LoadOptions {
            trust: false,
            embedded: BUILTIN_RECIPES,
            env: &|_| None,
            programs: crate::config::SecretPrograms::Skip,
        };
        let mut cx = LoadContext::new(&options, Utf8PathBuf::new());
        let library = read_builtin_library(&mut cx);
        let resolved = ResolvedInventory {
            hosts: Default::default(),
            vars: Vec::new(),
            groups: Default::default(),
            group_vars: Default::default(),
            entries: Vec::new(),
        };
        check_recipes(&library, &resolved, &ProgramCache::default(), &mut cx);
        let said: Vec<String> = cx.diags.0.iter().map(|diag| render_diag(diag, &cx.sources, false)).collect();
        assert!(said.is_empty(), "{}", said.join("\n"));
        assert_eq!(library.len(), BUILTIN_RECIPES.len());
    }
}
