//! The published schemas agree with forge: they accept valid files, and reject files with structural errors.

use camino::{Utf8Path, Utf8PathBuf};
use forge::view::schemas;
use jsonschema::Validator;
use serde_json::Value;

fn validator(name: &str) -> Validator {
    jsonschema::validator_for(&schemas::find_schema(name).unwrap().to_value()).unwrap()
}

/// Parses YAML like an editor does. Returns `None` for invalid YAML, which is not checked.
fn read(text: &str) -> Option<Value> {
    serde_saphyr::from_str(text).ok()
}

fn mistakes(schema: &Validator, text: &str) -> Vec<String> {
    let value = read(text).expect("valid YAML");
    schema.iter_errors(&value).map(|error| format!("{}: {error}", error.instance_path())).collect()
}

fn yaml_below(folder: &Utf8Path, found: &mut Vec<Utf8PathBuf>) {
    for entry in folder.read_dir_utf8().unwrap().map(Result::unwrap) {
        match entry.path() {
            path if path.is_dir() => yaml_below(path, found),
            path if path.extension() == Some("yaml") => found.push(path.to_owned()),
            _ => {}
        }
    }
}

/// Returns the name of the schema for a text of the repository, by its keys; `None` if it is not a file of forge.
fn kind_of(text: &str) -> Option<&'static str> {
    let value = read(text)?;
    let has = |key: &str| value.get(key).is_some();
    match () {
        () if has("cluster") => Some("inventory"),
        () if has("recipe") => Some("recipe"),
        () => None,
    }
}

/// Returns every valid file of the repository, and every complete example of the docs.
fn texts() -> Vec<(String, String)> {
    let root = Utf8Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files = Vec::new();
    for folder in ["tests/data", "tests/scenarios", "tests/fleet/recipes", "demo"] {
        yaml_below(&root.join(folder), &mut files);
    }
    let file = |path: Utf8PathBuf| (path.to_string(), std::fs::read_to_string(path).unwrap());
    let mut texts: Vec<(String, String)> = files.into_iter().map(file).collect();
    for page in ["README.md", "docs/recipes.md", "docs/recipe-reference.md"] {
        let text = std::fs::read_to_string(root.join(page)).unwrap();
        let blocks = text.split("```yaml\n").skip(1).filter_map(|rest| rest.split("```").next());
        texts.extend(blocks.map(|block| (format!("{page}: {}", block.lines().next().unwrap_or("")), block.to_owned())));
    }
    texts
}

#[test]
fn schemas_accept_all_valid_files() {
    let (inventory, recipe) = (validator("inventory"), validator("recipe"));
    let mut wrong = Vec::new();
    let mut seen = [0, 0];
    for (name, text) in texts() {
        let schema = match kind_of(&text) {
            Some("inventory") => (&inventory, 0),
            Some(_) => (&recipe, 1),
            None => continue,
        };
        seen[schema.1] += 1;
        wrong.extend(mistakes(schema.0, &text).into_iter().map(|mistake| format!("{name}: {mistake}")));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(seen[0] >= 10 && seen[1] >= 20, "too few files were checked: {seen:?}");
}

#[test]
fn schemas_reject_structural_errors() {
    let recipe = |step: &str| format!("recipe: r\nsteps:\n  - {step}\n");
    let inventories = [
        "cluster: c\ngruops: {}\n",
        "hosts: [a]\n",
        "cluster: c\nhosts: { a: { adress: b } }\n",
        "cluster: c\nconnect: { port: 99999 }\n",
        "cluster: c\nconnect: { timeout: 10 }\n",
        "cluster: c\napply: [{ recipe: r }]\n",
        "cluster: c\napply: [{ recipe: r, on: all, ensure: gone }]\n",
        "cluster: c\nrollout: { canary: some }\n",
    ];
    let recipes = [
        recipe("{ name: s, file: { path: /a, contnet: x } }"),
        recipe("{ name: s, file: { path: relative } }"),
        recipe("{ name: s, file: { path: /a }, directory: { path: /b } }"),
        recipe("{ name: s }"),
        recipe("{ name: s, disruption: D9, file: { path: /a } }"),
        recipe("{ name: s, needs: [{ recpie: x }], file: { path: /a } }"),
        "recipe: r\n".to_owned(),
        "recipe: r\nparams: { a: { type: float } }\nsteps: []\n".to_owned(),
    ];
    for text in inventories {
        assert!(!mistakes(&validator("inventory"), text).is_empty(), "an editor would accept:\n{text}");
    }
    for text in &recipes {
        assert!(!mistakes(&validator("recipe"), text).is_empty(), "an editor would accept:\n{text}");
    }
}

/// Every published schema is a valid JSON Schema.
#[test]
fn published_schemas_are_valid_json_schema() {
    for schema in schemas::list_schemas() {
        let value = schema.to_value();
        assert!(jsonschema::meta::is_valid(&value), "{}", schema.name);
    }
}
