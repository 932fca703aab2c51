//! Finds which file of `src/` needs which other one: `use` statements (nested braces, `self`, `super`, `crate`, `*`),
//! paths in expressions, and re-exports, which count as an import of the file that declares the item.

use super::Source;
use std::collections::{BTreeMap, BTreeSet};

/// The module path of a file: `["probe", "path"]` for `probe/path.rs`.
pub type ModulePath = Vec<String>;

/// A use of an item of another file.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FileImport {
    pub from: ModulePath,
    /// The file that declares the item.
    pub to: ModulePath,
    /// The name of its declaration.
    pub item: String,
}

/// A name that a `use` statement brings into a file.
#[derive(Debug)]
struct UsedName {
    name: String,
    path: Vec<String>,
    is_public: bool,
}

/// What a file declares and names.
#[derive(Default)]
struct FileNames {
    declared: BTreeSet<String>,
    used: Vec<UsedName>,
    /// Paths outside of `use` statements with at least two parts: `shell::quote`.
    paths: BTreeSet<Vec<String>>,
    /// All words outside of `use` statements.
    words: BTreeSet<String>,
}

/// All files of a crate.
pub struct CrateFiles {
    files: BTreeMap<ModulePath, FileNames>,
}

/// How many re-exports in a row are followed.
const MAX_REEXPORTS: usize = 8;

impl CrateFiles {
    pub fn of_sources(sources: &[Source]) -> Self {
        let named = sources.iter().filter(|source| source.path != "main.rs");
        Self { files: named.map(|source| (module_path(&source.path), parse_names(&source.text))).collect() }
    }

    /// Returns every use of an item of another file, sorted and without repetition.
    pub fn list_imports(&self) -> BTreeSet<FileImport> {
        let mut imports = BTreeSet::new();
        for (from, names) in &self.files {
            // A re-export is no need of the file itself, unless its own code names the item too.
            let used = names.used.iter().filter(|used| !used.is_public || names.words.contains(&used.name));
            let paths = used.map(|used| &used.path).chain(&names.paths);
            for path in paths.filter_map(|path| self.make_absolute(from, path, 0)) {
                if let Some((to, item)) = self.find_declaration(&path, 0).filter(|(to, _)| to != from) {
                    imports.insert(FileImport { from: from.clone(), to, item });
                }
            }
        }
        imports
    }

    /// Returns the path from the root of the crate, or nothing for a path into another crate.
    fn make_absolute(&self, module: &ModulePath, path: &[String], depth: usize) -> Option<Vec<String>> {
        let (first, rest) = path.split_first()?;
        let join = |start: &[String], rest: &[String]| [start, rest].concat();
        match first.as_str() {
            "crate" => return Some(rest.to_vec()),
            "self" => return self.make_absolute_below(module, rest),
            "super" => {
                let parent = module.split_last()?.1.to_vec();
                return self.make_absolute_below(&parent, rest);
            }
            _ if depth > MAX_REEXPORTS => return None,
            _ => {}
        }
        let names = self.files.get(module)?;
        if let Some(used) = names.used.iter().find(|used| used.name == *first && used.path != path) {
            return Some(join(&self.make_absolute(module, &used.path, depth + 1)?, rest));
        }
        let child = join(module, std::slice::from_ref(first));
        (self.files.contains_key(&child) || names.declared.contains(first)).then(|| join(module, path))
    }

    fn make_absolute_below(&self, module: &ModulePath, rest: &[String]) -> Option<Vec<String>> {
        match rest.first().map(String::as_str) {
            Some("super") => self.make_absolute(module, rest, 0),
            _ => Some([module.as_slice(), rest].concat()),
        }
    }

    /// Returns the item that the path names first, and the file that declares it; nothing where it names a module.
    fn find_declaration(&self, path: &[String], depth: usize) -> Option<(ModulePath, String)> {
        let mut module = ModulePath::new();
        for (at, part) in path.iter().enumerate() {
            let names = self.files.get(&module)?;
            let child = [module.as_slice(), std::slice::from_ref(part)].concat();
            let is_last = at + 1 == path.len();
            if self.files.contains_key(&child) && !(is_last && names.declared.contains(part)) {
                module = child;
                continue;
            }
            if names.declared.contains(part) || depth > MAX_REEXPORTS {
                return Some((module, part.clone()));
            }
            let follow = |target: Vec<String>| self.find_declaration(&[&target, &path[at + 1..]].concat(), depth + 1);
            if let Some(used) = names.used.iter().find(|used| used.name == *part) {
                return follow(self.make_absolute(&module, &used.path, depth + 1)?);
            }
            let globs = names.used.iter().filter(|used| used.name == "*");
            let mut listed = globs.filter_map(|used| self.make_absolute(&module, used.path.split_last()?.1, depth + 1));
            let declaring = listed.find(|target| self.files.get(target).is_some_and(|file| file.declares(part)));
            return match declaring {
                Some(target) => follow([target, vec![part.clone()]].concat()),
                None => Some((module, part.clone())),
            };
        }
        None
    }
}

impl FileNames {
    fn declares(&self, name: &str) -> bool {
        self.declared.contains(name) || self.used.iter().any(|used| used.is_public && used.name == name)
    }
}

/// Returns the module path of a file under `src/`.
fn module_path(file: &str) -> ModulePath {
    let stem = file.trim_end_matches(".rs");
    let stem = stem.strip_suffix("/mod").unwrap_or(stem);
    if stem == "lib" { Vec::new() } else { stem.split('/').map(str::to_owned).collect() }
}

const ITEM_WORDS: &[&str] = &["struct", "enum", "trait", "type", "union", "fn", "const", "static"];

fn parse_names(text: &str) -> FileNames {
    let tokens = without_tests(split_tokens(text));
    let mut names = FileNames::default();
    let mut depth = 0_usize;
    let mut at = 0;
    while at < tokens.len() {
        let token = tokens[at].as_str();
        match token {
            "{" => depth += 1,
            "}" => depth = depth.saturating_sub(1),
            // `use<'a>` in a type is no statement.
            "use" if tokens.get(at + 1).is_some_and(|next| next != "<") => {
                let end = at + tokens[at..].iter().position(|token| token == ";").unwrap_or(tokens.len() - at);
                let is_public = at > 0 && matches!(tokens[at - 1].as_str(), "pub" | ")");
                read_use_tree(&tokens[at + 1..end], &[], is_public, &mut names.used);
                at = end + 1;
                continue;
            }
            word if ITEM_WORDS.contains(&word) && depth == 0 => {
                names.declared.extend(tokens.get(at + 1).filter(|name| is_word(name)).cloned());
            }
            "macro_rules" => names.declared.extend(tokens.get(at + 2).cloned()),
            _ => {}
        }
        if is_word(token) {
            names.words.insert(token.to_owned());
            let path = read_path(&tokens[at..]);
            at += 2 * path.len() - 1;
            if path.len() > 1 {
                names.words.extend(path.iter().cloned());
                names.paths.insert(path);
            }
            continue;
        }
        at += 1;
    }
    names
}

/// Returns the words at the start of the tokens that `::` joins.
fn read_path(tokens: &[String]) -> Vec<String> {
    let mut path = vec![tokens[0].clone()];
    for pair in tokens[1..].chunks(2) {
        match pair {
            [colons, word] if colons == "::" && is_word(word) => path.push(word.clone()),
            _ => break,
        }
    }
    path
}

/// Reads `a::{b, c::d as e}` into names and their paths.
fn read_use_tree(tokens: &[String], prefix: &[String], is_public: bool, found: &mut Vec<UsedName>) {
    let brace = tokens.iter().position(|token| token == "{");
    let before = &tokens[..brace.unwrap_or(tokens.len())];
    let renamed = before.iter().position(|token| token == "as");
    let words = before[..renamed.unwrap_or(before.len())].iter().filter(|token| is_word(token) || *token == "*");
    let mut path: Vec<String> = prefix.iter().chain(words).cloned().collect();
    if let Some(open) = brace {
        let mut depth = 0;
        let mut start = open + 1;
        for (at, token) in tokens.iter().enumerate().skip(open) {
            depth += usize::from(token == "{");
            depth -= usize::from(token == "}");
            if depth == 0 || (depth == 1 && token == ",") {
                read_use_tree(&tokens[start..at], &path, is_public, found);
                start = at + 1;
            }
        }
        return;
    }
    if path.len() > 1 && path.last().is_some_and(|last| last == "self") {
        path.pop();
    }
    let name = renamed.and_then(|at| before.get(at + 1)).or(path.last()).cloned();
    found.extend(name.map(|name| UsedName { name, path, is_public }));
}

fn is_word(token: &str) -> bool {
    token.starts_with(|c: char| c.is_alphabetic() || c == '_')
}

/// Removes the items that are compiled for tests only.
fn without_tests(tokens: Vec<String>) -> Vec<String> {
    let mut kept: Vec<String> = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        if tokens[at..].iter().take(7).map(String::as_str).eq(["#", "[", "cfg", "(", "test", ")", "]"]) {
            at += 7;
            let mut depth = 0_usize;
            while let Some(token) = tokens.get(at) {
                at += 1;
                match token.as_str() {
                    "{" | "(" | "[" => depth += 1,
                    "}" | ")" | "]" => depth = depth.saturating_sub(1),
                    _ => {}
                }
                if depth == 0 && matches!(token.as_str(), "}" | ";") {
                    break;
                }
            }
        } else {
            kept.push(tokens[at].clone());
            at += 1;
        }
    }
    kept
}

/// Splits code into words, `::` and single characters, without comments and without the text of literals.
fn split_tokens(text: &str) -> Vec<String> {
    let chars: Vec<char> = text.chars().collect();
    let word_like = |c: char| c.is_alphanumeric() || c == '_';
    let mut tokens = Vec::new();
    let mut at = 0;
    while at < chars.len() {
        let next = chars.get(at + 1).copied();
        match chars[at] {
            '/' if next == Some('/') => at += chars[at..].iter().take_while(|c| **c != '\n').count(),
            '/' if next == Some('*') => at = skip_comment(&chars, at),
            '"' => at = skip_string(&chars, at),
            '\'' => at = skip_char(&chars, at),
            ':' if next == Some(':') => {
                tokens.push("::".to_owned());
                at += 2;
            }
            c if word_like(c) => {
                let word: String = chars[at..].iter().take_while(|c| word_like(**c)).collect();
                at += word.chars().count();
                match (word.as_str(), chars.get(at)) {
                    ("r" | "br", Some('"' | '#')) => at = skip_raw_string(&chars, at),
                    _ => tokens.push(word),
                }
            }
            c if c.is_whitespace() => at += 1,
            c => {
                tokens.push(c.to_string());
                at += 1;
            }
        }
    }
    tokens
}

fn skip_comment(chars: &[char], start: usize) -> usize {
    let mut depth = 0;
    let mut at = start;
    while at < chars.len() {
        match (chars[at], chars.get(at + 1)) {
            ('/', Some('*')) => depth += 1,
            ('*', Some('/')) => depth -= 1,
            _ => {
                at += 1;
                continue;
            }
        }
        at += 2;
        if depth == 0 {
            break;
        }
    }
    at
}

fn skip_string(chars: &[char], start: usize) -> usize {
    let mut at = start + 1;
    while at < chars.len() && chars[at] != '"' {
        at += if chars[at] == '\\' { 2 } else { 1 };
    }
    at + 1
}

/// Skips `'a'` and `'\n'`, and of a lifetime only the quote.
fn skip_char(chars: &[char], start: usize) -> usize {
    match (chars.get(start + 1), chars.get(start + 2)) {
        (Some('\\'), _) => {
            let end = chars.iter().skip(start + 3).position(|c| *c == '\'');
            end.map_or(chars.len(), |end| start + 3 + end + 1)
        }
        (Some(_), Some('\'')) => start + 3,
        _ => start + 1,
    }
}

fn skip_raw_string(chars: &[char], start: usize) -> usize {
    let hashes = chars[start..].iter().take_while(|c| **c == '#').count();
    if chars.get(start + hashes) != Some(&'"') {
        return start + hashes;
    }
    let end: Vec<char> = std::iter::once('"').chain(std::iter::repeat_n('#', hashes)).collect();
    let from = start + hashes + 1;
    let found = chars[from..].windows(end.len()).position(|window| window == end.as_slice());
    found.map_or(chars.len(), |found| from + found + end.len())
}
