//! Reads the names that an inventory and its recipes declare, without validation: completion also works on files with
//! errors.

use super::file_access::{confine_path, read_text_file};
use super::inventory::range::RangePattern;
use super::load::{find_mentioned_recipes, list_yaml_files};
use super::{YamlData, YamlNode, scalar, yaml};
use crate::diag::{FileId, Span};
use camino::{Utf8Path, Utf8PathBuf};

/// Maximum number of names of each kind.
const MAX_NAMES: usize = 20_000;
/// Maximum size of a file. Bytes.
const MAX_FILE_BYTES: u64 = 4 << 20;
/// Maximum number of recipes.
const MAX_RECIPES: usize = 500;

/// Names for the command line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeclaredNames {
    /// Names of hosts, after ranges are expanded; at most 20,000.
    pub hosts: Vec<String>,
    /// Names of groups; `all` comes first.
    pub groups: Vec<String>,
    /// The recipes of the inventory's tree and the built-in recipes that it names, with their steps.
    pub recipes: Vec<DeclaredRecipe>,
}

/// A recipe and the names of its steps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeclaredRecipe {
    /// The name that `apply` entries and `--step` use.
    pub name: String,
    /// Names of its steps, without those that are templates.
    pub steps: Vec<String>,
}

/// Reads the name of an inventory's cluster. Returns `None` if there is none, or the file cannot be read.
pub fn read_cluster_name(inventory: &Utf8Path) -> Option<String> {
    let (_, tree) = read_yaml_tree(inventory)?;
    match &tree.get("cluster")?.data {
        YamlData::Scalar { text, .. } => Some(text.clone()),
        _ => None,
    }
}

/// Reads the names of an inventory. Skips files that cannot be read, and accesses only files.
pub fn read_declared_names(inventory: &Utf8Path, built_in: &[(&str, &str)]) -> DeclaredNames {
    let Some((text, tree)) = read_yaml_tree(inventory) else { return DeclaredNames::default() };
    let mut names =
        DeclaredNames { hosts: list_host_names(&tree), groups: vec!["all".to_owned()], ..DeclaredNames::default() };
    names.groups.extend(map_keys(tree.get("groups")).filter(|name| *name != "all").map(str::to_owned).take(MAX_NAMES));
    let mut texts = vec![text];
    for file in list_recipe_paths(inventory, &tree) {
        if let Some((text, tree)) = read_yaml_tree(&file) {
            names.recipes.extend(read_declared_recipe(&tree));
            texts.push(text);
        }
    }
    while let Some(text) = texts.pop() {
        for (name, text) in find_mentioned_recipes(&text, built_in) {
            if names.recipes.len() < MAX_RECIPES && !names.recipes.iter().any(|recipe| recipe.name == name) {
                names.recipes.extend(parse_tree(text).as_ref().and_then(read_declared_recipe));
                texts.push(text.to_owned());
            }
        }
    }
    names
}

fn read_yaml_tree(path: &Utf8Path) -> Option<(String, YamlNode)> {
    let small = fs_err::metadata(path).is_ok_and(|about| about.is_file() && about.len() <= MAX_FILE_BYTES);
    let text = small.then(|| read_text_file(path).ok())??;
    let tree = parse_tree(&text)?;
    Some((text, tree))
}

fn parse_tree(text: &str) -> Option<YamlNode> {
    yaml::parse(FileId(0), text, &mut Vec::new())
}

fn map_keys(node: Option<&YamlNode>) -> impl Iterator<Item = &str> {
    let entries = match node.map(|node| &node.data) {
        Some(YamlData::Map(entries)) => entries.as_slice(),
        _ => &[],
    };
    entries.iter().map(|(key, _)| key.text.as_str())
}

fn list_items(node: Option<&YamlNode>) -> &[YamlNode] {
    match node.map(|node| &node.data) {
        Some(YamlData::Seq(items)) => items,
        _ => &[],
    }
}

fn scalar_text(node: &YamlNode) -> Option<&str> {
    match &node.data {
        YamlData::Scalar { text, .. } => Some(text),
        _ => None,
    }
}

fn list_host_names(inventory: &YamlNode) -> Vec<String> {
    let node = inventory.get("hosts");
    let mut found = Vec::new();
    for pattern in map_keys(node).chain(list_items(node).iter().filter_map(scalar_text)) {
        if found.len() >= MAX_NAMES {
            break;
        }
        found.extend(RangePattern::parse(pattern).map(|pattern| pattern.expand()).unwrap_or_default());
    }
    found.truncate(MAX_NAMES);
    found
}

/// Returns the files of the folders of recipes, in the inventory's tree.
fn list_recipe_paths(inventory: &Utf8Path, tree: &YamlNode) -> Vec<Utf8PathBuf> {
    let beside = inventory.parent().filter(|folder| !folder.as_str().is_empty()).unwrap_or(Utf8Path::new("."));
    let Ok(root) = beside.canonicalize_utf8() else { return Vec::new() };
    let named: Vec<&str> = match tree.get("recipes") {
        None => vec!["recipes"],
        Some(node) => {
            scalar_text(node).into_iter().chain(list_items(Some(node)).iter().filter_map(scalar_text)).collect()
        }
    };
    let nowhere = Span { file: FileId(0), start: 0, end: 0 };
    let folders = named.into_iter().filter_map(|name| confine_path(&root, name, nowhere).ok());
    let files = folders.filter_map(|folder| list_yaml_files(&folder).ok()).flatten();
    // A symbolic link out of the tree is skipped, like any other file outside it.
    files.filter_map(|file| confine_path(&root, file.as_str(), nowhere).ok()).take(MAX_RECIPES).collect()
}

fn read_declared_recipe(tree: &YamlNode) -> Option<DeclaredRecipe> {
    let name = scalar_text(tree.get("recipe")?)?.to_owned();
    let steps = list_items(tree.get("steps")).iter().filter_map(|step| scalar_text(step.get("name")?));
    Some(DeclaredRecipe { name, steps: steps.filter(|step| !scalar::is_template(step)).map(str::to_owned).collect() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write_and_read_names(inventory: &str, recipes: &[(&str, &str)]) -> DeclaredNames {
        let folder = tempfile::tempdir().unwrap();
        let root = Utf8Path::from_path(folder.path()).unwrap();
        std::fs::create_dir(root.join("recipes")).unwrap();
        recipes.iter().for_each(|(name, text)| std::fs::write(root.join("recipes").join(name), text).unwrap());
        std::fs::write(root.join("inventory.yaml"), inventory).unwrap();
        read_declared_names(&root.join("inventory.yaml"), &[("shipped", "recipe: shipped\nsteps: [{ name: one }]\n")])
    }

    #[test]
    fn names_are_read_from_invalid_inventories_too() {
        let web = "recipe: web\nsteps:\n  - { name: site, fiel: {} }\n  - { name: reload now }\n";
        let inventory = "hosts:\n  gpu-[01:03]: {}\n  login: {}\ngroups: { gpu: { hosts: [\"gpu-*\"] }, all: {} }\n\
                         apply: [{ recipe: web, onn: all }, { recipe: shipped, on: all }]\n";
        let found = write_and_read_names(inventory, &[("web.yaml", web), ("broken.yaml", "recipe: [")]);
        assert_eq!(found.hosts, ["gpu-01", "gpu-02", "gpu-03", "login"]);
        assert_eq!(found.groups, ["all", "gpu"]);
        let recipe = |name: &str, steps: &[&str]| DeclaredRecipe {
            name: name.to_owned(),
            steps: steps.iter().map(|step| (*step).to_owned()).collect(),
        };
        assert_eq!(found.recipes, [recipe("web", &["site", "reload now"]), recipe("shipped", &["one"])]);
    }

    #[test]
    fn unreadable_inventories_yield_no_names() {
        assert_eq!(read_declared_names(Utf8Path::new("/nowhere/x.yaml"), &[]), DeclaredNames::default());
        assert_eq!(read_declared_names(Utf8Path::new("/dev/zero"), &[]), DeclaredNames::default());
        let many: String = (0..9).map(|at| format!("  h{at}-[00000:99999]: {{}}\n")).collect();
        assert_eq!(write_and_read_names(&format!("hosts:\n{many}"), &[]).hosts.len(), MAX_NAMES);
        let outside = write_and_read_names("hosts: [a]\nrecipes: [/etc, ../..]\n", &[]);
        assert!(outside.recipes.is_empty(), "{outside:?}");
    }
}
