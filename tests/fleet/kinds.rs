//! Every kind on real hosts, without code: a file of `tests/fleet/kinds` says a recipe, what must hold, who tampers
//! and what removal leaves. Here it is applied, applied again, tampered with, repaired and removed.

use crate::support::{Fleet, Node, Output, Project};
use base64::Engine as _;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fleet/kinds");
/// Whatever passed leaves a mark here; `scripts/test` compares them with the labels of the reference.
const MARKS: &str = concat!(env!("CARGO_TARGET_TMPDIR"), "/proof");
/// Proofs at once: more would only wait for a processor.
const AT_ONCE: usize = 4;

/// One file of `tests/fleet/kinds`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Proof {
    /// The kinds it proves, if not the one that it is named after.
    #[serde(default)]
    kinds: Vec<String>,
    /// Run on the node before the first apply.
    #[serde(default)]
    before: String,
    /// The text of `recipes/proof.yaml`.
    recipe: String,
    /// Exits 0 on the node once the recipe is applied.
    holds: String,
    tampers: Vec<Tamper>,
    /// Exits 0 on the node once the recipe is removed. Without it the recipe is never removed.
    removed: Option<String>,
    /// Further files of the project.
    #[serde(default)]
    files: BTreeMap<String, String>,
    /// Further files of the project that are no text, in base64.
    #[serde(default)]
    binary: BTreeMap<String, String>,
}

/// A change behind forge's back.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Tamper {
    /// How it is made.
    r#do: String,
    /// The step that a plan must name, and no other.
    step: String,
    /// Exits 0 on the node once it is repaired.
    holds: String,
}

/// Notes that `kind` passed its proof.
pub fn mark(kind: &str) {
    fs_err::create_dir_all(MARKS).expect("a folder");
    fs_err::write(Path::new(MARKS).join(kind), "").expect("a file");
}

#[track_caller]
fn expect(out: &Output, code: i32, when: &str) {
    assert_eq!(out.code, code, "{when}: {out}");
}

/// The steps of the recipe `proof` that a plan shows a change of.
fn named(out: &Output) -> Vec<&str> {
    let words = out.stdout.split_whitespace().filter_map(|word| word.strip_prefix("proof/"));
    // `STEP[KEY]` is a turn of a step.
    let end = |word: &str| word.find('[').unwrap_or(word.len());
    let mut steps: Vec<&str> = words.map(|word| word[..end(word)].trim_end_matches([',', ':', '.', '`'])).collect();
    steps.sort_unstable();
    steps.dedup();
    steps
}

struct Trial<'a> {
    proof: &'a Proof,
    project: Project,
    node: &'a Node,
}

impl Trial<'_> {
    fn apply(&self, when: &str) -> Output {
        let out = self.project.forge(["apply", "inventory.yaml", "--yes"]);
        expect(&out, 0, when);
        out
    }

    fn plan(&self, code: i32, when: &str) -> Output {
        let out = self.project.forge(["plan", "inventory.yaml", "--detailed-exitcode"]);
        expect(&out, code, when);
        out
    }

    fn settled(&self, when: &str) {
        let again = self.apply(when);
        assert!(again.stdout.contains("nothing to do"), "{when}: {again}");
        self.plan(0, when);
    }

    fn converges(&self) {
        self.node.must(&self.proof.before);
        self.plan(2, "before the first apply");
        self.apply("the first apply");
        self.node.must(&self.proof.holds);
        self.settled("the second apply");
        expect(&self.project.forge(["verify", "inventory.yaml"]), 0, "verify");
    }

    fn repairs(&self, tamper: &Tamper) {
        self.node.must(&tamper.r#do);
        let found = self.plan(2, &tamper.r#do);
        assert_eq!(named(&found), [tamper.step.replace(' ', "-")], "{}: {found}", tamper.r#do);
        self.apply(&tamper.r#do);
        self.node.must(&tamper.holds);
        self.plan(0, &tamper.r#do);
    }

    fn removes(self, removed: &str) {
        let trial = Trial { project: self.project.inventory(&inventory(true)), ..self };
        trial.apply("the removal");
        trial.node.must(removed);
        trial.settled("the second removal");
    }
}

fn inventory(absent: bool) -> String {
    let ensure = if absent { ", ensure: absent" } else { "" };
    format!("apply:\n  - {{ recipe: proof, on: all{ensure} }}\n")
}

fn prove(proof: &Proof, node: &Node) {
    let project = Project::new(std::slice::from_ref(node)).recipe("proof", &proof.recipe).inventory(&inventory(false));
    let project = proof.files.iter().fold(project, |project, (path, text)| project.file(path, text));
    for (path, text) in &proof.binary {
        let words: String = text.split_whitespace().collect();
        let path = project.path(path);
        fs_err::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        fs_err::write(path, base64::engine::general_purpose::STANDARD.decode(words).expect("base64")).expect("a file");
    }
    let trial = Trial { proof, project, node };
    trial.converges();
    for tamper in &proof.tampers {
        trial.repairs(tamper);
    }
    if let Some(removed) = &proof.removed {
        trial.removes(removed);
    }
}

/// Returns the files, by kind; `FORGE_KIND` chooses one.
fn proofs() -> Vec<(String, PathBuf)> {
    let only = std::env::var("FORGE_KIND").ok();
    let paths = fs_err::read_dir(FOLDER).expect("the folder").map(|entry| entry.expect("an entry").path());
    let named = paths.filter(|path| path.extension().is_some_and(|end| end == "yaml"));
    let mut files: Vec<_> =
        named.map(|path| (path.file_stem().unwrap().to_string_lossy().into_owned(), path)).collect();
    files.retain(|(kind, _)| only.as_ref().is_none_or(|only| only == kind));
    files.sort();
    files
}

fn run(kind: &str, path: &Path) {
    let Some(nodes) = Fleet::take(1) else { return };
    let text = fs_err::read_to_string(path).expect("the file");
    let proof: Proof = serde_saphyr::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    assert!(proof.tampers.len() >= 3, "{}: at least three who tamper", path.display());
    prove(&proof, &nodes[0]);
    match proof.kinds.is_empty() {
        true => mark(kind),
        false => proof.kinds.iter().for_each(|kind| mark(kind)),
    }
}

#[test]
fn every_kind_is_applied_tampered_with_repaired_and_removed() {
    if Fleet::require().is_none() {
        return;
    }
    let (left, broken) = (Mutex::new(proofs()), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                loop {
                    let next = left.lock().unwrap().pop();
                    let Some((kind, path)) = next else { break };
                    let passed = std::panic::catch_unwind(|| run(&kind, &path)).is_ok();
                    println!("kind {kind}: {}", if passed { "proven" } else { "broken" });
                    if !passed {
                        broken.lock().unwrap().push(kind);
                    }
                }
            });
        }
    });
    assert!(broken.into_inner().unwrap().is_empty(), "kinds whose proof failed are named above");
}
