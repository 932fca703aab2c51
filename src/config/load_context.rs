//! Shared state of a load: diagnostics, secrets, and the directory tree that files may come from.

use super::file_access::{build_unreadable_diag, confine_path, find_similar_file, is_yaml_name, read_text_file};
use super::{GeneratedRecipe, LoadOptions, YamlNode};
use crate::diag::{Diag, DiagList, FileId, SourceMap, Span};
use crate::model::{SecretPlaceholder, SecretProgram, SecretStore};
use camino::{Utf8Path, Utf8PathBuf};
use std::collections::BTreeSet;

/// A program that runs once the inventory is known to be valid: before that, not all environment variables that it must
/// not get are known.
#[derive(Clone, Debug)]
pub(super) struct PlannedSecretProgram {
    pub program: SecretProgram,
    pub placeholder: SecretPlaceholder,
    /// Where the inventory first declares it.
    pub span: Span,
    /// Whether it is needed only to send notifications.
    pub deferred: bool,
}

pub(super) struct LoadContext<'o> {
    pub diags: DiagList,
    pub sources: SourceMap,
    pub secrets: SecretStore,
    /// Environment variables that secrets were read from.
    pub secret_variables: BTreeSet<String>,
    /// Programs that print secrets and have not run yet.
    pub programs: Vec<PlannedSecretProgram>,
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
            programs: Vec::new(),
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
                self.push_diag(match find_similar_file(path, is_yaml_name) {
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
}
