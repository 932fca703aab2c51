//! Where secrets come from: the environment, a file, or a program on this machine.

use super::load_context::LoadContext;
use super::notify::DeferredSecret;
use super::yaml_node::list_scalars;
use super::yaml_table::{self, YamlTable};
use super::{YamlData, YamlNode, file_access};
use crate::diag::{Diag, DiagCode, Span};
use crate::model::SecretPlaceholder;
use camino::{Utf8Path, Utf8PathBuf};
use secrecy::{ExposeSecret, SecretString};

/// Keys that name a source; a secret has exactly one of them.
const SOURCES: [&str; 5] = ["env", "file", "age", "sops", "command"];
/// All keys of a secret.
pub(super) const SECRET_KEYS: [&str; 8] = ["env", "file", "age", "sops", "command", "identity", "key", "timeout"];

fn describe_empty_file(path: &str) -> String {
    format!("the secret file `{path}` is empty")
}

impl LoadContext<'_> {
    /// Reads a secret and returns its placeholder.
    pub fn read_secret(&mut self, node: &YamlNode, what: &str) -> Option<String> {
        let (table, source, value) = self.open_secret(node, what)?;
        match source {
            "env" => self.read_secret_env(value),
            "file" => self.read_secret_file(value),
            _ => {
                let program = self.read_secret_program(&table, source, value)?;
                Some(self.plan_secret_program(program, value.span, false).0)
            }
        }
    }

    /// Like [`read_secret`](Self::read_secret), for a secret that is needed only to send notifications: if it is missing, that is
    /// reported when it is needed.
    pub fn read_deferred_secret(&mut self, node: &YamlNode, what: &str) -> Option<DeferredSecret> {
        let (table, source, value) = self.open_secret(node, what)?;
        match source {
            "env" => {
                let name = yaml_table::expect_text(value, "env", &mut self.diags)?;
                let read = match self.lookup_secret_variable(&name) {
                    Ok(secret) => Ok(self.store_secret(&name, secret, value.span)?),
                    Err(why) => Err(why),
                };
                Some(DeferredSecret { label: format!("env {name}"), value: read })
            }
            "file" => self.read_deferred_secret_file(value),
            _ => {
                let program = self.read_secret_program(&table, source, value)?;
                let label = program.label.clone();
                Some(DeferredSecret { label, value: Ok(self.plan_secret_program(program, value.span, true).0) })
            }
        }
    }

    /// Returns the keys of a secret, and the one that names its source with its value.
    fn open_secret<'n>(
        &mut self,
        node: &'n YamlNode,
        what: &str,
    ) -> Option<(YamlTable<'n>, &'static str, &'n YamlNode)> {
        let YamlData::Map(entries) = &node.data else {
            let message = format!("{what} is a secret and must not be in plain text");
            let diag = Diag::error(DiagCode::BadValue, message).with_span(node.span);
            let hint = "write `{ env: NAME }`, `{ file: PATH }`, `{ age: PATH }`, `{ sops: PATH, key: NAME }` or \
                        `{ command: [PROGRAM] }`";
            self.push_diag(list_scalars(node).into_iter().fold(diag.hint(hint), Diag::hiding));
            return None;
        };
        let before = self.diags.0.len();
        let table = YamlTable::open(node, "a secret", &SECRET_KEYS, &mut self.diags)?;
        // The value of an unknown key may be the secret itself.
        let unknown = entries.iter().filter(|(key, _)| !SECRET_KEYS.contains(&key.text.as_str()));
        let hidden: Vec<Span> = unknown.flat_map(|(_, value)| list_scalars(value)).collect();
        self.diags.0[before..].iter_mut().for_each(|diag| diag.hidden.extend(&hidden));
        let given: Vec<_> = SOURCES.iter().filter_map(|source| Some((*source, table.get(source)?))).collect();
        let [(source, value)] = given[..] else {
            let message = "a secret needs exactly one of `env`, `file`, `age`, `sops` and `command`";
            let diag = Diag::error(DiagCode::Exclusive, message).with_span(node.span);
            self.push_diag(hidden.into_iter().fold(diag, Diag::hiding));
            return None;
        };
        self.check_secret_options(&table, source);
        Some((table, source, value))
    }

    /// Reports keys that the source does not have.
    fn check_secret_options(&mut self, table: &YamlTable<'_>, source: &str) {
        let options: &[&str] = match source {
            "age" => &["identity", "timeout"],
            "sops" => &["key", "timeout"],
            "command" => &["timeout"],
            _ => &[],
        };
        for (key, _) in table.entries_named(&["identity", "key", "timeout"]) {
            if !options.contains(&key.text.as_str()) {
                let message = format!("`{}` does not apply to a secret from `{source}`", key.text);
                self.push_diag(Diag::error(DiagCode::Exclusive, message).with_span(key.span));
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
            Ok(path) => match file_access::read_text_file(&path) {
                Ok(value) => match value.trim_end_matches(['\n', '\r']) {
                    "" => Err(describe_empty_file(&text)),
                    value => Ok(self.store_secret(&text, value.to_owned(), node.span)?),
                },
                Err(why) => failed(why),
            },
        };
        Some(DeferredSecret { label: format!("file {text}"), value })
    }

    fn read_secret_env(&mut self, node: &YamlNode) -> Option<String> {
        let name = yaml_table::expect_text(node, "env", &mut self.diags)?;
        match self.lookup_secret_variable(&name) {
            Ok(value) => self.store_secret(&name, value, node.span),
            Err(why) => {
                let diag = Diag::error(DiagCode::SecretUnavailable, why).with_span(node.span);
                self.push_diag(diag.hint(format!("set `{name}` before running forge")));
                None
            }
        }
    }

    /// Returns the value of an environment variable, or why it is not a secret.
    fn lookup_secret_variable(&mut self, name: &str) -> Result<String, String> {
        self.secret_variables.insert(name.to_owned());
        match (self.options.env)(name) {
            Some(value) if value.is_empty() => Err(format!("the environment variable `{name}` is empty")),
            Some(value) => Ok(value),
            None => Err(format!("the environment variable `{name}` is not set")),
        }
    }

    fn read_secret_file(&mut self, node: &YamlNode) -> Option<String> {
        let text = yaml_table::expect_text(node, "file", &mut self.diags)?;
        let path = self.resolve_secret_path(&text, node.span).map_err(|diag| self.push_diag(*diag)).ok()?;
        let why = match file_access::read_text_file(&path) {
            Ok(value) => match value.strip_suffix('\n').unwrap_or(&value) {
                "" => describe_empty_file(&text),
                value => return self.store_secret(&text, value.to_owned(), node.span),
            },
            Err(why) => format!("the secret file `{text}` cannot be read: {why}"),
        };
        self.push_diag(Diag::error(DiagCode::SecretUnavailable, why).with_span(node.span));
        None
    }

    /// Returns the path of a secret file. It may be outside the tree only with `--trust`: otherwise an inventory could
    /// send any file of the controller to a host of its choice.
    pub(super) fn resolve_secret_path(&self, text: &str, span: Span) -> Result<Utf8PathBuf, Box<Diag>> {
        if self.options.trust {
            return Ok(self.expand_home(text));
        }
        self.confine_path(text, span).map_err(|diag| match diag.code {
            DiagCode::Escape => Box::new(diag.hint("pass `--trust` to let this inventory read it")),
            _ => Box::new(Diag { code: DiagCode::SecretUnavailable, ..*diag }),
        })
    }

    /// Returns a path of the user: under `~`, absolute, or relative to the inventory's folder.
    fn expand_home(&self, text: &str) -> Utf8PathBuf {
        let home = text
            .strip_prefix("~/")
            .and_then(|rest| Some(Utf8Path::new(&self.options.read_variable("HOME")?).join(rest)));
        home.unwrap_or_else(|| self.root.join(text))
    }

    fn store_secret(&mut self, name: &str, value: String, span: Span) -> Option<String> {
        self.check_secret_text(name, &value, span).then(|| self.secrets.insert(name, SecretString::from(value)).0)
    }

    /// Stores the value of a secret that a program printed.
    pub(super) fn fill_secret(
        &mut self,
        placeholder: &SecretPlaceholder,
        label: &str,
        value: SecretString,
        span: Span,
    ) {
        if self.check_secret_text(label, value.expose_secret(), span) {
            self.secrets.fill(placeholder, value);
        }
    }

    fn check_secret_text(&mut self, name: &str, value: &str, span: Span) -> bool {
        let fits = !value.chars().any(|c| matches!(c, '\0' | '\u{e000}' | '\u{e001}'));
        if !fits {
            let message = format!("the secret `{name}` contains a character that forge does not support");
            self.push_diag(Diag::error(DiagCode::ForbiddenCharacter, message).with_span(span));
        }
        fits
    }
}
