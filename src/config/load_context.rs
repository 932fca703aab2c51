//! Shared state of a load: diagnostics, secrets, and the directory tree that files may come from.

use super::file_access::{build_unreadable_diag, confine_path, find_similar_file, read_text_file};
use super::notify::DeferredSecret;
use super::{GeneratedRecipe, LoadOptions, YamlData, YamlNode, yaml_table};
use crate::diag::{Diag, DiagCode, DiagList, FileId, SourceMap, Span};
use crate::model::SecretStore;
use camino::{Utf8Path, Utf8PathBuf};
use secrecy::SecretString;
use std::collections::BTreeSet;

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
    /// Whether this run needs the built-in sets of acceptance tests.
    pub tests: bool,
    /// Recipes that take the place of everything that the inventory applies.
    pub generated: Option<&'o [GeneratedRecipe]>,
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
            tests: false,
            generated: None,
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
