//! Shared state of a load: diagnostics, secrets, and the directory tree that files may come from.

use super::notify::DeferredSecret;
use super::{LoadOptions, YamlData, YamlNode, yaml_table};
use crate::diag::{Diag, DiagCode, DiagList, FileId, SourceMap, Span};
use crate::model::SecretStore;
use camino::{Utf8Path, Utf8PathBuf};
use secrecy::SecretString;
use std::collections::BTreeSet;
use std::io::Read;

/// Files larger than this are not read. Bytes.
const MAX_FILE: u64 = 64 << 20;

pub(super) struct LoadContext<'o> {
    pub diags: DiagList,
    pub sources: SourceMap,
    pub secrets: SecretStore,
    /// Environment variables that secrets were read from.
    pub secret_variables: BTreeSet<String>,
    pub options: &'o LoadOptions<'o>,
    /// Canonical path of the inventory's folder, the root of its tree.
    pub root: Utf8PathBuf,
    /// Whether this run computes digests that are not declared.
    pub learn: bool,
    /// File names, without extension, of recipes that could not be read.
    pub unread: Vec<String>,
}

impl<'o> LoadContext<'o> {
    pub fn new(options: &'o LoadOptions<'o>, root: Utf8PathBuf) -> Self {
        Self {
            diags: DiagList::default(),
            sources: SourceMap::default(),
            secrets: SecretStore::default(),
            secret_variables: BTreeSet::new(),
            options,
            root,
            learn: false,
            unread: Vec::new(),
        }
    }

    pub fn push_diag(&mut self, diag: Diag) {
        self.diags.push(diag);
    }

    /// Reads a YAML file. Messages show it as `shown`.
    pub fn read_yaml(&mut self, path: &Utf8Path, shown: &Utf8Path, span: Option<Span>) -> Option<(FileId, YamlNode)> {
        match read_text_file(path) {
            Ok(text) => self.parse_yaml(shown, text),
            Err(why) => {
                let diag = build_unreadable_diag(shown.as_str(), &why, span);
                self.push_diag(match find_similar_file(path) {
                    Some(near) => diag.hint(format!("did you mean `{}`?", shown.with_file_name(near))),
                    None => diag,
                });
                None
            }
        }
    }

    pub fn parse_yaml(&mut self, shown: &Utf8Path, text: String) -> Option<(FileId, YamlNode)> {
        let file = self.sources.add_file(shown, text.as_str());
        let node = super::yaml::parse(file, &text, &mut self.diags.0)?;
        Some((file, node))
    }

    /// Returns the canonical path of `text`, which must be inside the inventory's tree after all symbolic links are
    /// resolved.
    ///
    /// # Errors
    /// [`DiagCode::Escape`], or [`DiagCode::Unreadable`] if it does not exist.
    pub fn confine_path(&self, text: &str, span: Span) -> Result<Utf8PathBuf, Box<Diag>> {
        confine_path(&self.root, text, span)
    }

    /// Reads a secret from `{ env: NAME }` or `{ file: PATH }` and returns its placeholder.
    pub fn read_secret(&mut self, node: &YamlNode, what: &str) -> Option<String> {
        if !matches!(node.data, YamlData::Map(_)) {
            let message = format!("{what} is a secret and must not be in plain text");
            let diag = Diag::error(DiagCode::BadValue, message).with_span(node.span);
            self.push_diag(diag.hint("write `{ env: NAME }` or `{ file: PATH }`"));
            return None;
        }
        let table = yaml_table::YamlTable::open(node, "a secret", &["env", "file"], &mut self.diags)?;
        match (table.get("env"), table.get("file")) {
            (Some(env), None) => self.read_secret_env(env),
            (None, Some(file)) => self.read_secret_file(file),
            _ => {
                self.push_diag(
                    Diag::error(DiagCode::Exclusive, "a secret needs either `env` or `file`").with_span(node.span),
                );
                None
            }
        }
    }

    /// Like [`read_secret`](Self::read_secret), for a secret that is needed only to send notifications: if it is missing, that is
    /// reported when it is needed.
    pub fn read_deferred_secret(&mut self, node: &YamlNode, what: &str) -> Option<DeferredSecret> {
        if !matches!(node.data, YamlData::Map(_)) {
            // Reports a secret in plain text with the same message as any other secret.
            self.read_secret(node, what);
            return None;
        }
        let table = yaml_table::YamlTable::open(node, "a secret", &["env", "file"], &mut self.diags)?;
        match (table.get("env"), table.get("file")) {
            (Some(env), None) => {
                let name = yaml_table::expect_text(env, "env", &mut self.diags)?;
                let value = match self.lookup_secret_variable(&name) {
                    Some(value) => Ok(self.store_secret(&name, value, env.span)?),
                    None => Err(format!("the environment variable `{name}` is not set")),
                };
                Some(DeferredSecret { label: format!("env {name}"), value })
            }
            (None, Some(file)) => self.read_deferred_secret_file(file),
            _ => {
                self.push_diag(
                    Diag::error(DiagCode::Exclusive, "a secret needs either `env` or `file`").with_span(node.span),
                );
                None
            }
        }
    }

    fn read_deferred_secret_file(&mut self, node: &YamlNode) -> Option<DeferredSecret> {
        let text = yaml_table::expect_text(node, "file", &mut self.diags)?;
        let failed = |why: String| Err(format!("the secret file `{text}` cannot be read: {why}"));
        let value = match self.resolve_secret_path(&text, node.span) {
            Err(diag) if diag.code == DiagCode::Escape => {
                self.push_diag(*diag);
                return None;
            }
            Err(_) => failed("no such file".to_owned()),
            Ok(path) => match read_text_file(&path) {
                Ok(value) => {
                    Ok(self.store_secret(&text, value.trim_end_matches(['\n', '\r']).to_owned(), node.span)?)
                }
                Err(why) => failed(why),
            },
        };
        Some(DeferredSecret { label: format!("file {text}"), value })
    }

    fn read_secret_env(&mut self, node: &YamlNode) -> Option<String> {
        let name = yaml_table::expect_text(node, "env", &mut self.diags)?;
        match self.lookup_secret_variable(&name) {
            Some(value) => self.store_secret(&name, value, node.span),
            None => {
                let diag =
                    Diag::error(DiagCode::SecretUnavailable, format!("the environment variable `{name}` is not set"));
                self.push_diag(diag.with_span(node.span).hint(format!("set `{name}` before running forge")));
                None
            }
        }
    }

    fn lookup_secret_variable(&mut self, name: &str) -> Option<String> {
        self.secret_variables.insert(name.to_owned());
        (self.options.env)(name)
    }

    fn read_secret_file(&mut self, node: &YamlNode) -> Option<String> {
        let text = yaml_table::expect_text(node, "file", &mut self.diags)?;
        let path = match self.resolve_secret_path(&text, node.span) {
            Ok(path) => path,
            Err(diag) => {
                self.push_diag(*diag);
                return None;
            }
        };
        match read_text_file(&path) {
            Ok(value) => self.store_secret(&text, value.strip_suffix('\n').unwrap_or(&value).to_owned(), node.span),
            Err(why) => {
                self.push_diag(
                    Diag::error(DiagCode::SecretUnavailable, format!("the secret file `{text}` cannot be read: {why}"))
                        .with_span(node.span),
                );
                None
            }
        }
    }

    /// Returns the path of a secret file. It may be outside the tree only with `--trust`: otherwise an inventory could
    /// send any file of the controller to a host of its choice.
    fn resolve_secret_path(&self, text: &str, span: Span) -> Result<Utf8PathBuf, Box<Diag>> {
        if self.options.trust {
            return Ok(self.root.join(text));
        }
        self.confine_path(text, span).map_err(|diag| match diag.code {
            DiagCode::Escape => Box::new(diag.hint("pass `--trust` to let this inventory read it")),
            _ => Box::new(Diag { code: DiagCode::SecretUnavailable, ..*diag }),
        })
    }

    fn store_secret(&mut self, name: &str, value: String, span: Span) -> Option<String> {
        if value.chars().any(|c| matches!(c, '\0' | '\u{e000}' | '\u{e001}')) {
            self.push_diag(
                Diag::error(
                    DiagCode::ForbiddenCharacter,
                    format!("the secret `{name}` contains a character that forge does not support"),
                )
                .with_span(span),
            );
            return None;
        }
        Some(self.secrets.insert(name, SecretString::from(value)).0)
    }
}

pub(super) fn confine_path(root: &Utf8Path, text: &str, span: Span) -> Result<Utf8PathBuf, Box<Diag>> {
    let joined = root.join(text);
    let escapes = || Diag::error(DiagCode::Escape, format!("`{text}` leaves the inventory's tree")).with_span(span);
    if !is_lexically_inside(root, &joined) {
        return Err(Box::new(escapes()));
    }
    let path = joined
        .canonicalize_utf8()
        .map_err(|error| Box::new(build_unreadable_diag(text, &describe_io_error(&error), Some(span))))?;
    match path.starts_with(root) {
        true => Ok(path),
        false => Err(Box::new(escapes().note("a symbolic link leads out of it"))),
    }
}

/// Checks the path lexically before it is resolved, so that the message does not reveal which files exist elsewhere.
fn is_lexically_inside(root: &Utf8Path, joined: &Utf8Path) -> bool {
    let mut depth = Vec::new();
    for part in joined.components() {
        match part {
            camino::Utf8Component::ParentDir => {
                depth.pop();
            }
            camino::Utf8Component::CurDir => {}
            other => depth.push(other),
        }
    }
    depth.iter().collect::<Utf8PathBuf>().starts_with(root)
}

pub(super) fn build_unreadable_diag(shown: &str, why: &str, span: Option<Span>) -> Diag {
    let diag = Diag::error(DiagCode::Unreadable, format!("`{shown}` cannot be read: {why}"));
    match span {
        Some(span) => diag.with_span(span),
        None => diag,
    }
}

/// Returns the YAML file with the most similar name in the folder of a missing file.
fn find_similar_file(missing: &Utf8Path) -> Option<String> {
    if missing.exists() {
        return None;
    }
    let typed = missing.file_name()?;
    let folder = missing.parent().filter(|folder| !folder.as_str().is_empty()).unwrap_or(Utf8Path::new("."));
    let names: Vec<String> = folder
        .read_dir_utf8()
        .ok()?
        .filter_map(|entry| Some(entry.ok()?.file_name().to_owned()))
        .filter(|name| name.ends_with(".yaml") || name.ends_with(".yml"))
        .collect();
    let same_stem = names.iter().find(|name| Utf8Path::new(name).file_stem() == missing.file_stem());
    let near = || crate::diag::did_you_mean(typed, names.iter().map(String::as_str));
    same_stem.map(String::as_str).or_else(near).map(str::to_owned)
}

/// Reads a text file.
///
/// # Errors
/// Why the file cannot be read, as a lowercase fragment.
pub(super) fn read_text_file(path: &Utf8Path) -> Result<String, String> {
    let meta = fs_err::metadata(path).map_err(|error| describe_io_error(&error))?;
    if !meta.is_file() {
        return Err("it is not a regular file".to_owned());
    }
    if meta.len() > MAX_FILE {
        return Err(format!("it is larger than {} MiB", MAX_FILE >> 20));
    }
    // The file may grow after the check, and files in /proc report no size.
    let mut bytes = Vec::new();
    let file = fs_err::File::open(path).map_err(|error| describe_io_error(&error))?;
    file.take(MAX_FILE + 1).read_to_end(&mut bytes).map_err(|error| describe_io_error(&error))?;
    if bytes.len() as u64 > MAX_FILE {
        return Err(format!("it is larger than {} MiB", MAX_FILE >> 20));
    }
    String::from_utf8(bytes).map_err(|error| format!("byte {} is not UTF-8", error.utf8_error().valid_up_to()))
}

/// Returns the operating system's text for an error, without its number.
pub(super) fn describe_io_error(error: &std::io::Error) -> String {
    match error.kind() {
        std::io::ErrorKind::NotFound => "no such file".to_owned(),
        std::io::ErrorKind::PermissionDenied => "permission denied".to_owned(),
        _ => error.to_string(),
    }
}
