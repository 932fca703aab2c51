//! Statistics of the names in `src/`: `cargo test --test tidy names -- --nocapture` prints them. Names that consist of
//! one word, or that two types share, can neither be guessed nor searched for.

use super::{Source, code};
use regex::Regex;
use std::collections::BTreeMap;

/// Upper limits in percent.
const ONE_WORD_TYPES: usize = 15;
const DUPLICATE_TYPES: usize = 6;
const ONE_WORD_FUNCTIONS: usize = 40;

/// The declared types and functions by name, each with the files that declare it.
#[derive(Default)]
struct DeclaredNames {
    types: BTreeMap<String, Vec<String>>,
    functions: BTreeMap<String, Vec<String>>,
}

impl DeclaredNames {
    fn of_sources(sources: &[Source]) -> Self {
        let a_type =
            Regex::new(r"^(?:pub(?:\([^)]*\))? )?(?:unsafe )?(?:struct|enum|trait|type|union) ([A-Z]\w*)").unwrap();
        let a_function = Regex::new(r"^\s*(?:pub(?:\([^)]*\))? )?(?:const |async |unsafe )*fn ([a-z_]\w*)").unwrap();
        let mut names = Self::default();
        for source in sources {
            for (_, line) in source.code() {
                // Types that are declared inside of a function count as well; associated types of traits do not.
                let inner = line.trim_start();
                let typed = if inner.starts_with("type ") { line } else { inner };
                if let Some(found) = a_type.captures(typed) {
                    names.types.entry(found[1].to_owned()).or_default().push(source.path.clone());
                }
                if let Some(found) = a_function.captures(line) {
                    names.functions.entry(found[1].to_owned()).or_default().push(source.path.clone());
                }
            }
        }
        names
    }
}

fn count_words(type_name: &str) -> usize {
    type_name.chars().filter(char::is_ascii_uppercase).count()
}

fn percent(part: usize, whole: usize) -> usize {
    (part * 100).div_ceil(whole.max(1))
}

#[test]
#[allow(clippy::print_stdout, reason = "the statistics are for people")]
fn one_word_and_shared_names_stay_within_limits() {
    let names = DeclaredNames::of_sources(&code());
    let count = |names: &BTreeMap<String, Vec<String>>, of: &dyn Fn(&str, &[String]) -> bool| -> usize {
        names.iter().filter(|(name, files)| of(name, files)).map(|(_, files)| files.len()).sum()
    };
    let types = count(&names.types, &|_, _| true);
    let one_word = count(&names.types, &|name, _| count_words(name) == 1);
    let shared = count(&names.types, &|_, files| files.len() > 1);
    let functions = count(&names.functions, &|_, _| true);
    let short = count(&names.functions, &|name, _| !name.trim_matches('_').contains('_'));
    println!("types      {types:5}  of one word {one_word:4} ({} %)", percent(one_word, types));
    println!("             with the name of another one {shared:4} ({} %)", percent(shared, types));
    println!("functions  {functions:5}  of one word {short:4} ({} %)", percent(short, functions));
    for (name, files) in names.types.iter().filter(|(_, files)| files.len() > 1) {
        println!("type `{name}` is declared in {}", files.join(", "));
    }
    assert!(percent(one_word, types) <= ONE_WORD_TYPES, "too many types have a name of one word");
    assert!(percent(shared, types) <= DUPLICATE_TYPES, "too many types share their name");
    assert!(percent(short, functions) <= ONE_WORD_FUNCTIONS, "too many functions have a name of one word");
}

#[test]
fn declared_names_are_found() {
    let text = "//! X.\npub(crate) struct Ab<T>(T);\ntrait Cd {\n    type Error;\n    fn e(&self);\n}\n    async fn f_g() {}\n";
    let names = DeclaredNames::of_sources(&[Source { path: "a.rs".into(), text: text.into() }]);
    assert_eq!(names.types.keys().collect::<Vec<_>>(), ["Ab", "Cd"]);
    assert_eq!(names.functions.keys().collect::<Vec<_>>(), ["e", "f_g"]);
    assert_eq!((count_words("HostRun"), count_words("Host"), percent(1, 3)), (2, 1, 34));
}

/// A word in code style that the glossary takes from YAML, Kubernetes or messages, and not from the code of forge.
const FOREIGN_WORDS: &[&str] = &["Fnnnn", "Lease", "fails_as", "restart_on", "ConfigMap"];

#[test]
fn glossary_names_exist_in_the_code() {
    let text = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/glossary.md")).unwrap();
    let declared = Regex::new(r"\b(?:struct|enum|trait|type|fn|const|static|mod)\s+(\w+)").unwrap();
    let code = super::sources();
    let known: std::collections::BTreeSet<&str> = code
        .iter()
        .flat_map(|source| declared.captures_iter(&source.text).map(|found| found.get(1).unwrap().as_str()))
        .collect();
    // Types and functions: `HostRun`, `report_cycles`, `Graph::compute_waves`.
    let named = Regex::new(r"`((?:[A-Z]\w+)(?:::\w+)?|[a-z]+_\w+)`").unwrap();
    let mut unknown = Vec::new();
    for found in named.captures_iter(&text) {
        let parts = found[1].split("::").filter(|part| !known.contains(part) && !FOREIGN_WORDS.contains(part));
        unknown.extend(parts.map(str::to_owned));
    }
    assert!(unknown.is_empty(), "docs/glossary.md names what the code does not declare: {unknown:?}");
}
