//! Checks the dependencies between modules, banned calls, and the length and doc comment of files. Findings have file
//! and line.

#![allow(
    clippy::disallowed_methods,
    clippy::expect_used,
    clippy::unwrap_used,
    reason = "tests may start programs, and a panic fails the test"
)]

#[path = "tidy/circles.rs"]
mod circles;
#[path = "tidy/imports.rs"]
mod imports;
#[path = "tidy/kinds.rs"]
mod kinds;
#[path = "tidy/names.rs"]
mod names;
#[path = "tidy/walls.rs"]
mod walls;

use std::fs;
use std::path::{Path, PathBuf};

/// Every module, highest layer first, in the order of `src/lib.rs`. A module imports only modules below it.
const ROOMS: &[&str] = &[
    "cli",
    "view",
    "engine",
    "drift",
    "plan",
    "config",
    "graph",
    "resource",
    "acceptance",
    "facts",
    "notify",
    "artifact",
    "kube",
    "state",
    "transport",
    "probe",
    "object",
    "script",
    "diag",
    "model",
];

/// Text that is allowed in some places only, with the reason.
struct Ban {
    /// Whole words or paths, as written in code.
    words: &'static [&'static str],
    /// Prefixes of paths under `src/` where they are banned; empty for all.
    within: &'static [&'static str],
    /// Prefixes of paths under `src/` where they are allowed nevertheless.
    but: &'static [&'static str],
    reason: &'static str,
}

const BANS: &[Ban] = &[
    Ban {
        words: &["tokio", "std::fs", "fs_err", "std::process::Command", "std::net", "openssh"],
        within: &[
            "resource/",
            "acceptance/",
            "drift/",
            "plan/",
            "probe/",
            "object/",
            "script/",
            "facts/",
            "graph/",
            "diag/",
            "model/",
        ],
        but: &[],
        reason: "these modules do no I/O",
    },
    Ban {
        words: &["serde_saphyr"],
        within: &[],
        but: &["config/yaml", "object/yaml", "model/yaml_text"],
        reason: "one file parses the YAML of people, one that of programs, and one writes YAML",
    },
    Ban {
        words: &["reqwest", "hyper", "lettre", "rustls", "rustls_native_certs"],
        within: &[],
        but: &["artifact/", "notify/", "kube/error"],
        reason: "only `artifact` fetches files, and only `notify` sends notifications; errors of TLS have hints",
    },
    Ban {
        words: &["::kube", "k8s_openapi"],
        within: &[],
        but: &["kube/"],
        reason: "only `kube` connects to the cluster",
    },
    Ban {
        words: &["crate::kube"],
        within: &["resource/", "acceptance/", "drift/", "plan/", "config/", "graph/", "facts/", "probe/", "object/"],
        but: &[],
        reason: "these modules do no I/O: the types of the cluster's API are in `object`",
    },
    Ban { words: &["openssh"], within: &[], but: &["transport/"], reason: "only `transport` opens sessions" },
    Ban {
        words: &["println!", "eprintln!", "print!", "eprint!", "dbg!", "anstream"],
        within: &[],
        but: &["view/", "cli/"],
        reason: "nothing below `view` and `cli` prints",
    },
    Ban {
        words: &["std::env::var", "env::var", "env::vars"],
        within: &[],
        but: &["cli/env.rs"],
        reason: "environment variables are declared in one place",
    },
    Ban { words: &["process::exit"], within: &[], but: &[], reason: "`main` returns the exit code" },
    Ban {
        words: &["SystemTime::now", "Instant::now", "Zoned::now", "Timestamp::now"],
        within: &[
            "drift/",
            "plan/",
            "resource/",
            "acceptance/",
            "config/",
            "graph/",
            "probe/",
            "object/",
            "script/",
            "facts/",
            "diag/",
            "model/",
        ],
        but: &[],
        reason: "planning does not read the clock",
    },
];

const MAX_LINES: usize = 700;

/// A source file: its path under `src/` and its text.
struct Source {
    path: String,
    text: String,
}

impl Source {
    /// Returns the lines of code, numbered from 1, without comments and without the lines after `mod tests {`.
    fn code(&self) -> impl Iterator<Item = (usize, &str)> {
        let lines = self.text.lines().take_while(|line| !line.starts_with("mod tests {"));
        lines.enumerate().map(|(at, line)| (at + 1, line)).filter(|(_, line)| !line.trim_start().starts_with("//"))
    }

    /// Returns the folder of the modules that this file declares: `probe/` for `probe/mod.rs`, `cli/run/` for
    /// `cli/run.rs`.
    fn modules(&self) -> String {
        let stem = self.path.trim_end_matches(".rs");
        match stem {
            "lib" | "main" => String::new(),
            stem => format!("{}/", stem.strip_suffix("/mod").unwrap_or(stem)),
        }
    }

    /// Returns the modules that are compiled for tests only, as paths without extension: `#[cfg(test)]`, then `mod
    /// name;`.
    fn test_modules(&self) -> Vec<String> {
        let lines: Vec<&str> = self.text.lines().collect();
        let pairs = lines.windows(2).filter(|pair| pair[0] == "#[cfg(test)]");
        let names = pairs.filter_map(|pair| pair[1].rsplit_once("mod ")?.1.strip_suffix(';'));
        names.map(|name| format!("{}{name}", self.modules())).collect()
    }

    fn room(&self) -> Option<&str> {
        self.path.split_once('/').map(|(room, _)| room)
    }
}

/// Returns the sources that are compiled into forge itself.
fn code() -> Vec<Source> {
    let mut sources = sources();
    let tests: Vec<String> = sources.iter().flat_map(Source::test_modules).collect();
    sources.retain(|source| {
        !tests.iter().any(|test| source.path == format!("{test}.rs") || source.path.starts_with(&format!("{test}/")))
    });
    sources
}

fn sources() -> Vec<Source> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut sources = Vec::new();
    collect(&root, &root, &mut sources);
    sources.sort_by(|a, b| a.path.cmp(&b.path));
    sources
}

fn collect(root: &Path, folder: &Path, sources: &mut Vec<Source>) {
    let mut entries: Vec<PathBuf> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    entries.sort();
    for path in entries {
        if path.is_dir() {
            collect(root, &path, sources);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(&path).unwrap();
            sources.push(Source { path: path.strip_prefix(root).unwrap().display().to_string(), text });
        }
    }
}

fn assert_none(found: &[String]) {
    assert!(found.is_empty(), "\n{}\n", found.join("\n"));
}

fn layer(room: &str) -> Option<usize> {
    ROOMS.iter().position(|known| *known == room)
}

/// Returns the modules named after `crate::` in a line, also in `crate::{a, b}`.
fn imports(line: &str) -> Vec<&str> {
    let after = line
        .match_indices("crate::")
        .filter(|(at, _)| !line[..*at].ends_with('$'))
        .map(|(at, found)| &line[at + found.len()..]);
    after
        .flat_map(|rest| match rest.strip_prefix('{') {
            Some(list) => list.split('}').next().unwrap_or("").split(',').map(first_word).collect::<Vec<_>>(),
            None => vec![first_word(rest)],
        })
        .collect()
}

fn first_word(text: &str) -> &str {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len());
    &text[..end]
}

#[test]
fn modules_import_only_lower_layers() {
    let mut found = Vec::new();
    for source in &code() {
        let Some(own) = source.room().and_then(layer) else { continue };
        for (number, line) in source.code() {
            let above = imports(line).into_iter().filter(|room| layer(room).is_some_and(|other| other < own));
            found.extend(above.map(|room| format!("src/{}:{number}: imports `{room}` of a higher layer", source.path)));
        }
    }
    assert_none(&found);
}

#[test]
fn layers_cover_all_modules_in_lib_order() {
    let lib = sources().into_iter().find(|source| source.path == "lib.rs").unwrap();
    let rooms: Vec<&str> =
        lib.text.lines().filter_map(|line| line.strip_prefix("pub mod ")?.strip_suffix(';')).collect();
    let layers: Vec<Option<usize>> = rooms.iter().map(|room| layer(room)).collect();
    assert!(layers.iter().all(Option::is_some), "a module without a layer: {rooms:?}");
    assert!(layers.is_sorted(), "the order of `src/lib.rs` differs from that of the layers: {rooms:?}");
}

#[test]
fn banned_names_are_not_used() {
    let mut found = Vec::new();
    let sources = code();
    for (source, ban) in sources.iter().flat_map(|source| BANS.iter().map(move |ban| (source, ban))) {
        let starts = |prefixes: &[&str]| prefixes.iter().any(|prefix| source.path.starts_with(prefix));
        if starts(ban.but) || !(ban.within.is_empty() || starts(ban.within)) {
            continue;
        }
        for (number, line) in source.code() {
            let named = ban.words.iter().filter(|word| mentions(line, word));
            found.extend(named.map(|word| format!("src/{}:{number}: names `{word}`: {}", source.path, ban.reason)));
        }
    }
    assert_none(&found);
}

/// Reports whether the line contains `word` as code, not as part of another word or inside a string.
fn mentions(line: &str, word: &str) -> bool {
    let word_like = |c: char| c.is_alphanumeric() || c == '_';
    line.match_indices(word).any(|(at, _)| {
        let joined_before = line[..at].ends_with(word_like);
        let joined_after = !word.ends_with('!') && line[at + word.len()..].starts_with(word_like);
        let in_string = line[..at].matches('"').count() % 2 == 1;
        !joined_before && !joined_after && !in_string
    })
}

#[test]
fn files_have_a_doc_comment_and_limited_length() {
    let mut found = Vec::new();
    for source in sources() {
        if !source.text.starts_with("//! ") {
            found.push(format!("src/{}:1: no `//!` comment that describes the file", source.path));
        }
        let lines = source.text.lines().count();
        if lines > MAX_LINES {
            found.push(format!("src/{}: {lines} lines, more than {MAX_LINES}", source.path));
        }
    }
    assert_none(&found);
}

#[test]
fn import_and_ban_checks_detect_matches() {
    assert_eq!(imports("use crate::{cli::run, model};"), ["cli", "model"]);
    assert_eq!(imports("    let x: crate::view::Text = crate::model::f();"), ["view", "model"]);
    assert_eq!(imports("use super::crates;"), [""; 0]);
    assert!(mentions("use tokio::sync;", "tokio") && mentions("    println!(\"x\");", "println!"));
    assert!(!mentions("use tokio_stream::x;", "tokio") && !mentions("say(\"use tokio\")", "tokio"));
    assert!(!mentions("    eprintln!(\"x\");", "println!"));
}
