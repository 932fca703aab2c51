//! Modules that decide do no I/O, and need no module that does.

use super::imports::{CrateFiles, FileImport};
use super::{Source, assert_none, code};

/// Modules without I/O: what they return depends on their arguments alone. `config` also reads the inventory and the
/// files next to it.
const PURE_ROOMS: &[&str] = &[
    "model",
    "diag",
    "script",
    "object",
    "probe",
    "facts",
    "acceptance",
    "resource",
    "graph",
    "plan",
    "drift",
    "config",
];

/// Modules that read and write files, sessions, addresses or terminals, or that drive those.
const IO_ROOMS: &[&str] = &["transport", "artifact", "kube", "notify", "state", "engine", "cli", "view"];

/// Returns what pure modules import from modules with I/O. A re-export counts as the file that declares the item.
fn find_crossings(sources: &[Source]) -> Vec<FileImport> {
    let room_of = |file: &[String], rooms: &[&str]| file.first().is_some_and(|room| rooms.contains(&room.as_str()));
    let crosses = |import: &FileImport| room_of(&import.from, PURE_ROOMS) && room_of(&import.to, IO_ROOMS);
    CrateFiles::of_sources(sources).list_imports().into_iter().filter(crosses).collect()
}

fn render_import(import: &FileImport) -> String {
    format!("src/{}: needs `{}` of `{}`, which does I/O", import.from.join("/"), import.item, import.to.join("/"))
}

#[test]
fn every_module_is_pure_or_does_io() {
    let lists = || PURE_ROOMS.iter().chain(IO_ROOMS);
    let unlisted: Vec<&str> =
        super::ROOMS.iter().copied().filter(|room| lists().filter(|known| *known == room).count() != 1).collect();
    assert!(unlisted.is_empty(), "not in exactly one of the lists: {unlisted:?}");
}

#[test]
fn pure_modules_import_no_module_with_io() {
    assert_none(&find_crossings(&code()).iter().map(render_import).collect::<Vec<_>>());
}

/// Returns the lines of pure modules that name a module with I/O, even if that only re-exports an item of a pure one.
fn find_named_rooms(sources: &[Source]) -> Vec<String> {
    let is_pure = |source: &&Source| source.path.split('/').next().is_some_and(|room| PURE_ROOMS.contains(&room));
    let names_io = |line: &str| {
        let after = line.split("crate::").skip(1);
        after
            .map(|rest| rest.split(|c: char| !c.is_alphanumeric()).next())
            .any(|room| IO_ROOMS.contains(&room.unwrap_or("")))
    };
    let lines =
        sources.iter().filter(is_pure).flat_map(|source| source.code().map(move |(at, line)| (source, at, line)));
    lines
        .filter(|(.., line)| names_io(line))
        .map(|(source, at, line)| format!("src/{}:{at}: {}", source.path, line.trim()))
        .collect()
}

#[test]
fn pure_modules_name_no_module_with_io() {
    assert_none(&find_named_rooms(&code()));
    let text = "//! X.\nuse crate::artifact::Digest;\nuse crate::model::Digest;\n";
    let source = Source { path: "plan/mod.rs".to_owned(), text: text.to_owned() };
    assert_eq!(find_named_rooms(&[source]), ["src/plan/mod.rs:2: use crate::artifact::Digest;"]);
}

#[test]
fn an_import_through_a_reexport_crosses_only_to_the_declaring_file() {
    let source = |path: &str, text: &str| Source { path: path.to_owned(), text: text.to_owned() };
    let found = find_crossings(&[
        source("lib.rs", "pub mod artifact;\npub mod model;\npub mod plan;"),
        source("artifact/mod.rs", "pub use crate::model::Digest;\npub fn fetch() {}"),
        source("model/mod.rs", "pub struct Digest;"),
        source("plan/mod.rs", "use crate::artifact::{self, Digest};\nfn f() { artifact::fetch(); }"),
    ]);
    assert_eq!(
        found.iter().map(render_import).collect::<Vec<_>>(),
        ["src/plan: needs `fetch` of `artifact`, which does I/O"]
    );
}
