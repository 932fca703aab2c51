//! Finds files that need each other, directly or through others, inside one module of the crate. In a circle no file
//! can be understood, tested or moved without the others.

use super::imports::{CrateFiles, FileImport, ModulePath};
use super::{Source, code};
use std::collections::{BTreeMap, BTreeSet};

/// Files that need each other, and the imports between them.
struct ImportCircle {
    files: BTreeSet<ModulePath>,
    imports: Vec<FileImport>,
}

impl ImportCircle {
    fn room(&self) -> &str {
        self.files.first().and_then(|file| file.first()).map_or("", String::as_str)
    }

    fn render(&self) -> String {
        let mut pairs: BTreeMap<String, Vec<&str>> = BTreeMap::new();
        for import in &self.imports {
            let pair = format!("{} -> {}", import.from.join("/"), import.to.join("/"));
            pairs.entry(pair).or_default().push(&import.item);
        }
        let lines = pairs.into_iter().map(|(pair, items)| format!("    {pair}: {}\n", items.join(", ")));
        format!("{} files of `{}` need each other:\n{}", self.files.len(), self.room(), lines.collect::<String>())
    }
}

/// Returns the circles between files of one module each, the largest first.
fn find_circles(sources: &[Source]) -> Vec<ImportCircle> {
    let imports: Vec<FileImport> = CrateFiles::of_sources(sources)
        .list_imports()
        .into_iter()
        .filter(|import| !import.from.is_empty() && import.from.first() == import.to.first())
        .collect();
    let mut needs: BTreeMap<&ModulePath, BTreeSet<&ModulePath>> = BTreeMap::new();
    for import in &imports {
        needs.entry(&import.from).or_default().insert(&import.to);
    }
    let reachable: BTreeMap<&ModulePath, BTreeSet<&ModulePath>> =
        needs.keys().map(|file| (*file, find_reachable(&needs, file))).collect();
    let reaches = |from: &ModulePath, to: &ModulePath| reachable.get(from).is_some_and(|files| files.contains(to));
    let mut circles = Vec::new();
    let mut done: BTreeSet<&ModulePath> = BTreeSet::new();
    for file in reachable.keys().filter(|file| reaches(file, file)) {
        if done.contains(file) {
            continue;
        }
        let members = reachable[file].iter().filter(|other| reaches(other, file));
        let files: BTreeSet<ModulePath> = members.map(|other| (*other).clone()).collect();
        done.extend(reachable[file].iter().filter(|other| files.contains(**other)));
        let inside = |import: &&FileImport| files.contains(&import.from) && files.contains(&import.to);
        circles.push(ImportCircle { imports: imports.iter().filter(inside).cloned().collect(), files });
    }
    circles.sort_by_key(|circle| std::cmp::Reverse(circle.files.len()));
    circles
}

fn find_reachable<'a>(
    needs: &BTreeMap<&'a ModulePath, BTreeSet<&'a ModulePath>>,
    start: &ModulePath,
) -> BTreeSet<&'a ModulePath> {
    let mut found = BTreeSet::new();
    let mut open: Vec<&ModulePath> = needs.get(start).into_iter().flatten().copied().collect();
    while let Some(file) = open.pop() {
        if found.insert(file) {
            open.extend(needs.get(file).into_iter().flatten());
        }
    }
    found
}

#[test]
fn files_of_a_module_do_not_need_each_other_in_a_circle() {
    let found: Vec<String> = find_circles(&code()).iter().map(ImportCircle::render).collect();
    assert!(found.is_empty(), "move what they share into a file of its own below them:\n\n{}", found.join("\n"));
}

fn sources_of(files: &[(&str, &str)]) -> Vec<Source> {
    let source = |(path, text): &(&str, &str)| Source { path: (*path).to_owned(), text: (*text).to_owned() };
    files.iter().map(source).collect()
}

fn circles_of(files: &[(&str, &str)]) -> Vec<String> {
    find_circles(&sources_of(files)).iter().map(ImportCircle::render).collect()
}

#[test]
fn a_list_module_with_a_type_that_its_children_import_is_a_circle() {
    let found = circles_of(&[
        ("lib.rs", "pub mod fact;"),
        ("fact/mod.rs", "mod cpu;\nmod shape;\npub struct Fact;\nfn list() { cpu::read_cpu(); }"),
        ("fact/shape.rs", "pub struct Shape;"),
        ("fact/cpu.rs", "use super::{Fact, shape::{self, Shape}};\npub fn read_cpu() -> Fact { Fact }"),
    ]);
    assert_eq!(
        found,
        ["2 files of `fact` need each other:\n    fact -> fact/cpu: read_cpu\n    fact/cpu -> fact: Fact\n"]
    );
}

#[test]
fn a_reexport_counts_as_an_import_of_the_declaring_file() {
    let through_list = [
        ("lib.rs", "pub mod fact;"),
        (
            "fact/mod.rs",
            "mod cpu;\nmod shape;\npub use shape::*;\npub use cpu::read_cpu;\nfn list() { cpu::read_cpu(); }",
        ),
        ("fact/shape.rs", "pub struct Fact;"),
        ("fact/cpu.rs", "use crate::fact::{self, Fact};\npub fn read_cpu() -> Fact { fact::Fact }"),
    ];
    assert_eq!(circles_of(&through_list), [""; 0]);
    let mut back = through_list;
    back[2].1 = "pub struct Fact;\npub fn all() { let x = super::read_cpu(); }";
    assert_eq!(circles_of(&back).len(), 1, "the path in the function resolves to `fact/cpu`");
    assert!(circles_of(&back)[0].contains("fact/shape -> fact/cpu: read_cpu"));
}

#[test]
fn comments_strings_and_tests_import_nothing() {
    let found = circles_of(&[
        ("lib.rs", "pub mod a;"),
        ("a/mod.rs", "mod b;\npub struct A<'a>(&'a str);\npub fn f() { b::g(); }"),
        (
            "a/b.rs",
            "//! super::A\n/* super::A */ pub fn g() { h(\"super::A\", r#\"super::A\"#, '\\'', 'x'); }\n#[cfg(test)]\nmod tests {\n use super::super::A;\n}",
        ),
    ]);
    assert_eq!(found, [""; 0]);
}
