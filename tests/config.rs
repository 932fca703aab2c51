//! Loads whole projects: the recipes under `tests/data`, and the exact messages under `tests/errors`.
//! `FORGE_BLESS=1` writes the messages that a run gives.

use camino::{Utf8Path, Utf8PathBuf};
use forge::config::{self, LoadOptions};
use forge::diag::{Diags, Sources, render};

fn env(name: &str) -> Option<String> {
    (name == "FORGE_TEST_SECRET").then(|| "hunter2!".to_owned())
}

fn load(path: &Utf8Path) -> (Option<config::Project>, Diags, Sources) {
    config::load(path, &LoadOptions { trust: false, embedded: &[], env: &env })
}

fn rendered(diags: &Diags, sources: &Sources, root: &Utf8Path) -> String {
    let texts: Vec<String> = diags.0.iter().map(|diag| render(diag, sources, false)).collect();
    (texts.join("\n\n") + "\n").replace(&format!("{root}/"), "")
}

fn folders(of: &str) -> Vec<Utf8PathBuf> {
    let root = Utf8Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(of);
    let mut found: Vec<Utf8PathBuf> = root.read_dir_utf8().unwrap().map(|entry| entry.unwrap().into_path()).collect();
    found.sort();
    found
}

#[test]
fn example_projects_load() {
    for folder in folders("data") {
        let (project, diags, sources) = load(&folder.join("inventory.yaml"));
        assert!(project.is_some() && diags.0.is_empty(), "{folder}:\n{}", rendered(&diags, &sources, &folder));
    }
}

#[test]
fn messages_are_pinned() {
    let bless = std::env::var_os("FORGE_BLESS").is_some();
    let mut wrong = Vec::new();
    for folder in folders("errors") {
        let (_, diags, sources) = load(&folder.join("inventory.yaml"));
        let text = rendered(&diags, &sources, &folder);
        let expected = folder.join("expected.txt");
        if bless {
            std::fs::write(&expected, &text).unwrap();
        } else if std::fs::read_to_string(&expected).unwrap_or_default() != text {
            wrong.push(format!("{folder} gave:\n{text}"));
        }
        assert!(!diags.0.is_empty(), "{folder} has no mistake");
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
