//! Secrets that a program on this machine prints: `age`, `sops`, or a command of the inventory.

use super::load_context::{LoadContext, PlannedSecretProgram};
use super::load_options::SecretPrograms;
use super::yaml_table::{self, YamlTable};
use super::{Project, YamlData, YamlNode, scalar};
use crate::diag::{Diag, DiagCode, Span};
use crate::model::{SecretPlaceholder, SecretProgram, SecretProgramError};
use camino::Utf8PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// How long a program may run if the inventory does not say.
const DEFAULT_LIMIT: Duration = Duration::from_secs(30);
/// The environment variable with the path of the user's age identity.
const IDENTITY_VARIABLE: &str = "FORGE_AGE_IDENTITY";
/// The age identity of a user who sets no variable.
const DEFAULT_IDENTITY: &str = "~/.config/forge/age.key";

impl LoadContext<'_> {
    /// Reads the declaration of a program. `source` is the key that names it.
    pub(super) fn read_secret_program(
        &mut self,
        table: &YamlTable<'_>,
        source: &str,
        value: &YamlNode,
    ) -> Option<SecretProgram> {
        let limit = table.get_limit("timeout", &mut self.diags).map_or(DEFAULT_LIMIT, Duration::from_secs);
        let program = match source {
            "age" => self.read_age_file(table, value),
            "sops" => self.read_sops_file(table, value),
            _ => self.read_secret_command(value),
        };
        program.map(|program| SecretProgram { limit, ..program })
    }

    fn build_program(&self, label: &str, words: Vec<String>) -> SecretProgram {
        let (label, folder) = (scalar::shorten_text(label), self.root.clone());
        SecretProgram { label, words, folder, limit: DEFAULT_LIMIT, identity: None }
    }

    fn read_secret_command(&mut self, node: &YamlNode) -> Option<SecretProgram> {
        let items = yaml_table::expect_items(node, "command", &mut self.diags);
        let words = items.iter().map(|item| yaml_table::expect_text(item, "command", &mut self.diags));
        let words: Vec<String> = words.collect::<Vec<_>>().into_iter().collect::<Option<_>>()?;
        let forbidden = |word: &String| word.contains('\0');
        if words.first().is_none_or(String::is_empty) || words.iter().any(forbidden) {
            self.push_diag(Diag::error(DiagCode::BadValue, "`command` needs a program").with_span(node.span));
            return None;
        }
        self.require_trust(&format!("a secret runs the program `{}` on this machine", words[0]), node.span);
        Some(self.build_program(&format!("command {}", words.join(" ")), words))
    }

    /// The file is decrypted with the user's own identity by a program that contacts nothing, so it needs no trust, like
    /// a variable of the user's environment. An identity that the inventory names is a file like any other.
    fn read_age_file(&mut self, table: &YamlTable<'_>, node: &YamlNode) -> Option<SecretProgram> {
        let (text, path) = self.read_encrypted_path(node, "age")?;
        let identity = match table.get("identity") {
            Some(node) => {
                let text = yaml_table::expect_text(node, "identity", &mut self.diags)?;
                self.resolve_secret_path(&text, node.span).map_err(|diag| self.push_diag(*diag)).ok()?
            }
            None => self.find_user_identity(),
        };
        let words = ["age", "--decrypt", "--identity", identity.as_str(), path.as_str()].map(str::to_owned);
        Some(SecretProgram { identity: Some(identity), ..self.build_program(&format!("age {text}"), words.into()) })
    }

    fn find_user_identity(&self) -> Utf8PathBuf {
        let named = self.options.read_variable(IDENTITY_VARIABLE).map(Utf8PathBuf::from);
        let path = named.unwrap_or_else(|| match self.options.read_variable("HOME") {
            Some(home) => DEFAULT_IDENTITY.replacen('~', &home, 1).into(),
            None => DEFAULT_IDENTITY.into(),
        });
        // The program starts in the folder of the inventory.
        camino::absolute_utf8(&path).unwrap_or(path)
    }

    /// A file of sops names the services that decrypt it, and sops sends the user's tokens to them.
    fn read_sops_file(&mut self, table: &YamlTable<'_>, node: &YamlNode) -> Option<SecretProgram> {
        self.require_trust("sops contacts the key services that its file names", node.span);
        let (text, path) = self.read_encrypted_path(node, "sops")?;
        let key = match table.get("key") {
            Some(node) => Some(self.read_sops_key(node)?),
            None => None,
        };
        let mut words: Vec<String> = vec!["sops".to_owned(), "--decrypt".to_owned()];
        if let Some(key) = &key {
            words.extend(["--extract".to_owned(), build_sops_selector(key)]);
        }
        words.push(path.into_string());
        let name = key.map(|key| format!(" {}", key.join("."))).unwrap_or_default();
        Some(self.build_program(&format!("sops {text}{name}"), words))
    }

    /// Returns the parts of `a.b.0`, or the texts of a list, for parts that contain a dot.
    fn read_sops_key(&mut self, node: &YamlNode) -> Option<Vec<String>> {
        let parts: Vec<String> = match &node.data {
            YamlData::Seq(items) => {
                let parts = items.iter().map(|item| yaml_table::expect_text(item, "key", &mut self.diags));
                parts.collect::<Vec<_>>().into_iter().collect::<Option<_>>()?
            }
            _ => yaml_table::expect_text(node, "key", &mut self.diags)?.split('.').map(str::to_owned).collect(),
        };
        let plain = |part: &String| !part.is_empty() && !part.chars().any(|c| c.is_control() || "\"\\[]".contains(c));
        if parts.is_empty() || !parts.iter().all(plain) {
            let diag = Diag::error(DiagCode::BadValue, "`key` must be names of keys, separated by `.`");
            self.push_diag(
                diag.with_span(node.span).hint("write it as `database.password`, or `[database, \"pass.word\"]`"),
            );
            return None;
        }
        Some(parts)
    }

    /// Returns the path of an encrypted file, as written and as an absolute path.
    fn read_encrypted_path(&mut self, node: &YamlNode, key: &str) -> Option<(String, Utf8PathBuf)> {
        let text = yaml_table::expect_text(node, key, &mut self.diags)?;
        let path = self.resolve_secret_path(&text, node.span).map_err(|diag| self.push_diag(*diag)).ok()?;
        if !path.is_file() {
            let message = format!("the secret file `{text}` cannot be read: no such file");
            self.push_diag(Diag::error(DiagCode::SecretUnavailable, message).with_span(node.span));
            return None;
        }
        Some((text, camino::absolute_utf8(&path).unwrap_or(path)))
    }

    fn require_trust(&mut self, message: &str, span: Span) {
        if !self.options.trust {
            let hint = "pass `--trust` if you trust this inventory as you trust a script";
            self.push_diag(Diag::error(DiagCode::NeedsTrust, message).with_span(span).hint(hint));
        }
    }

    /// Returns the placeholder of a program's output. A program that several places declare runs once.
    pub(super) fn plan_secret_program(
        &mut self,
        program: SecretProgram,
        span: Span,
        deferred: bool,
    ) -> SecretPlaceholder {
        if let Some(known) = self.programs.iter_mut().find(|known| known.program == program) {
            known.deferred &= deferred;
            return known.placeholder.clone();
        }
        let placeholder = self.secrets.reserve(&program.label);
        self.programs.push(PlannedSecretProgram { program, placeholder: placeholder.clone(), span, deferred });
        placeholder
    }

    /// Runs the planned programs, as far as this verb needs their secrets.
    pub(super) fn read_planned_secrets(&mut self, project: &mut Project) {
        let variables = Arc::new(self.secret_variables.clone());
        for PlannedSecretProgram { program, placeholder, span, deferred } in std::mem::take(&mut self.programs) {
            let done = match self.options.programs {
                SecretPrograms::Run { run, for_notify } if for_notify || !deferred => {
                    check_identity(&program).and_then(|()| run(&program, &variables))
                }
                SecretPrograms::Report(why) if !deferred => {
                    self.push_diag(build_unread_diag(&program.label, why, span));
                    continue;
                }
                _ => Err(SecretProgramError::new("it was not read")),
            };
            match done {
                Ok(value) => self.fill_secret(&placeholder, &program.label, value, span),
                Err(error) if deferred => project.drift.fail_secret(&placeholder, &error.why),
                Err(_) if matches!(self.options.programs, SecretPrograms::Skip) => {}
                Err(error) => self.push_diag(build_failed_program_diag(&program, &error, span)),
            }
        }
    }
}

/// Returns sops's expression for a key: `["a"]["b"][0]`.
fn build_sops_selector(key: &[String]) -> String {
    let is_index = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    key.iter().map(|part| if is_index(part) { format!("[{part}]") } else { format!("[\"{part}\"]") }).collect()
}

fn check_identity(program: &SecretProgram) -> Result<(), SecretProgramError> {
    match program.identity.as_ref().filter(|path| !path.is_file()) {
        Some(path) => Err(SecretProgramError::new(format!("no age identity: `{path}` not found"))),
        None => Ok(()),
    }
}

fn build_unread_diag(label: &str, why: &str, span: Span) -> Diag {
    Diag::warning(DiagCode::SecretUnavailable, format!("the secret `{label}` was not read: {why}"))
        .with_span(span)
        .hint("`forge plan INVENTORY` reads it")
}

fn build_failed_program_diag(program: &SecretProgram, error: &SecretProgramError, span: Span) -> Diag {
    let name = program.words.first().map(String::as_str).unwrap_or_default();
    let message = format!("the secret `{}` cannot be read: {}", program.label, error.why);
    let diag = Diag::error(DiagCode::SecretUnavailable, message).with_span(span);
    let diag = error.printed.iter().fold(diag, |diag, line| diag.note(format!("{name}: {line}")));
    match (name, error.missing) {
        ("age", true) => diag.hint("install age: package `age` of Debian 12 and later"),
        ("sops", true) => diag.hint("install sops: https://getsops.io"),
        ("age", false) if check_identity(program).is_err() => diag.hint(format!(
            "`age-keygen -o FILE` makes an identity; `{IDENTITY_VARIABLE}` or `identity` names another file than `{DEFAULT_IDENTITY}`"
        )),
        _ => diag,
    }
}
