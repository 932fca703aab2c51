//! The built-in documentation: an installed binary shows every page that forge refers to.

use super::support::Place;
use std::path::Path;

/// Returns every reference to a page in `text`: `docs/…` by its path, `forge explain …` by its topic.
fn named<'t>(text: &'t str, mark: &str) -> Vec<&'t str> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || "/._-".contains(c);
    let after = |(at, _): (usize, &str)| text[at..].split(|c| !is_part(c)).next().unwrap_or_default();
    text.match_indices(mark).map(|(at, mark)| (at + mark.len(), mark)).map(after).collect()
}

#[test]
fn explain_shows_builtin_pages() {
    let place = Place::new();
    for topic in ["rollout", "docs/rollout.md", "kinds", "file", "exit-codes"] {
        let told = place.forge(&["explain", topic]);
        assert!(told.starts_with("exit 0\n") && told.lines().count() > 10, "{topic}: {told}");
    }
    let file = place.forge(&["explain", "file"]);
    assert!(file.contains("stdout\nfile`\n") || file.contains("`file`\n\n"), "{file}");
    assert!(file.contains("\n    - name: message of the day\n      file:\n"), "{file}");
    let json = place.forge(&["explain", "file", "--format", "json"]);
    assert!(json.contains("\"result\": \"page\"") && json.contains("\"topic\": \"file\""), "{json}");
    let near = place.forge(&["explain", "rolout"]);
    assert!(
        near.contains(
            "error: `rolout` is not a value, step, kind, topic or error code\n  hint: did you mean `rollout`?"
        ),
        "{near}"
    );
    let recipe = place.forge(&["explain", "nvidia-drivr"]);
    assert!(
        recipe.contains("did you mean the recipe `nvidia-driver`? `forge recipes nvidia-driver` shows it"),
        "{recipe}"
    );
}

#[test]
fn every_referenced_page_is_built_in() {
    let place = Place::new();
    let schemas = place.forge(&["schema"]);
    let verbs = place.forge(&["--help"]);
    let mut texts =
        vec![schemas, verbs.clone(), std::fs::read_to_string(source("src/view/starter_inventory/hello.yaml")).unwrap()];
    let names = verbs.lines().filter_map(|line| line.strip_prefix("  ")?.split_whitespace().next());
    let names = names.filter(|name| name.bytes().all(|byte| byte.is_ascii_lowercase()));
    texts.extend(names.map(|verb| place.forge(&[verb, "--help"])));
    let codes = std::fs::read_dir(source("src/diag/pages")).unwrap().map(|entry| entry.unwrap().path());
    texts.extend(codes.map(|path| std::fs::read_to_string(path).unwrap()));
    texts.extend(sources(&source("src")));
    let mut pages: Vec<String> = Vec::new();
    for text in &texts {
        pages.extend(named(text, "docs/").iter().map(|rest| format!("docs/{}", rest.trim_end_matches('.'))));
        let topics = named(text, "`forge explain ")
            .into_iter()
            .filter(|topic| topic.bytes().all(|b| b.is_ascii_lowercase() || b == b'-'));
        pages.extend(topics.filter(|topic| !topic.is_empty()).map(str::to_owned));
    }
    pages.sort();
    pages.dedup();
    assert!(pages.iter().any(|page| page == "editors") && pages.len() > 3, "{pages:?}");
    for page in pages {
        let told = place.forge(&["explain", &page]);
        assert!(told.starts_with("exit 0\n"), "`{page}` is not built in:\n{told}");
    }
}

fn source(path: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// Returns the code that may print: no comments, no tests, nothing that includes a file of the repository.
fn sources(folder: &Path) -> Vec<String> {
    let mut texts = Vec::new();
    for path in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_dir() && name != "tests" {
            texts.extend(sources(&path));
        } else if name.ends_with(".rs") && name != "manual.rs" && name != "tests.rs" {
            let text = std::fs::read_to_string(&path).unwrap();
            let code = text.split("#[cfg(test)]").next().unwrap_or_default();
            let lines = code.lines().filter(|line| {
                let line = line.trim_start();
                !(line.starts_with("//! ") || line.starts_with("// ") || line.contains("include_str!"))
            });
            texts.push(lines.collect::<Vec<_>>().join("\n"));
        }
    }
    texts
}
