//! The fields that every kind of package repository has: its URIs, and its key with the fingerprints that pin it.

use super::apt_repository::declaration::root_file_target;
use super::apt_repository::openpgp;
use crate::diag::{Diag, DiagCode};
use crate::model::SecretStore;
use crate::resource::FieldValues;
use crate::resource::shared::file_target::{FileBody, FileTarget};
use crate::resource::shared::support::{bad_value, join_quoted};

/// The declared key of a repository.
pub(super) struct RepositoryKey {
    /// The key that forge installs.
    pub installed: Option<FileTarget>,
    /// The path of an existing key on the host.
    pub existing: Option<String>,
    /// The fingerprints that pin the key.
    pub fingerprints: Option<Vec<String>>,
}

impl RepositoryKey {
    /// Reads `key`, `key_text`, `key_path` and `fingerprint`. `own_path` returns the path of an installed key.
    pub(super) fn from_fields(fields: &FieldValues, own_path: impl Fn(&[u8]) -> String) -> Result<Self, Diag> {
        let (body, existing) = parse_key(fields)?;
        let fingerprints = fields.get_text("fingerprint").map(parse_fingerprints).transpose()?;
        if let (Some(body), Some(pinned)) = (&body, &fingerprints) {
            openpgp::check_pinned(body.bytes(), pinned).map_err(|why| {
                bad_value(format!("the key does not match `fingerprint`: {why}")).with_field("fingerprint")
            })?;
        }
        let installed = body.map(|body| root_file_target(own_path(body.bytes()), body.bytes()));
        Ok(Self { installed, existing, fingerprints })
    }

    /// Returns the path of the key on the host.
    pub(super) fn path(&self) -> Option<&str> {
        self.installed.as_ref().map(|key| key.path.as_str()).or(self.existing.as_deref())
    }

    /// Reports a repository that is neither signed nor trusted, or both, and fingerprints of no key.
    pub(super) fn check_trust(&self, trusted: bool) -> Result<(), Diag> {
        match (trusted, self.path().is_some()) {
            (true, true) => Err(Diag::error(DiagCode::Exclusive, "`trusted` and a key exclude each other")),
            (false, false) => {
                Err(Diag::error(DiagCode::MissingKey, "a repository needs `key`, `key_text` or `key_path`")
                    .hint("or set `trusted: true` to skip signature checks"))
            }
            (true, false) if self.fingerprints.is_some() => {
                Err(bad_value("`fingerprint` needs a key").with_field("fingerprint"))
            }
            _ => Ok(()),
        }
    }
}

/// Returns the key to install, or the path of an existing one.
fn parse_key(fields: &FieldValues) -> Result<(Option<FileBody>, Option<String>), Diag> {
    const KEYS: [&str; 3] = ["key", "key_text", "key_path"];
    let given: Vec<&str> = KEYS.into_iter().filter(|field| fields.contains(field)).collect();
    let field = match given.as_slice() {
        [] => return Ok((None, None)),
        ["key_path"] => return Ok((None, fields.get_text("key_path").map(str::to_owned))),
        [one] => *one,
        more => return Err(Diag::error(DiagCode::Exclusive, format!("{} exclude each other", join_quoted(more)))),
    };
    let body = FileBody::from_value(field, &fields.0[field])?;
    openpgp::read_fingerprints(body.bytes())
        .map_err(|why| bad_value(format!("`{field}` is not a key: {}", why.describe())).with_field(field))?;
    Ok((Some(body), None))
}

/// Returns the URIs of a repository, checked.
pub(super) fn parse_uris(fields: &FieldValues) -> Result<Vec<String>, Diag> {
    let uris = fields.get_text_list("uris").unwrap_or_default();
    if uris.is_empty() {
        return Err(Diag::error(DiagCode::MissingKey, "a repository needs `uris`"));
    }
    for uri in &uris {
        check_plain_word("uris", uri)?;
        check_uri(uri)?;
    }
    Ok(uris)
}

pub(super) fn check_plain_word(field: &'static str, word: &str) -> Result<(), Diag> {
    if SecretStore::has_placeholder(word) {
        return Err(bad_value(format!(
            "`{field}` contains a secret, but the file is readable by every user on the host"
        ))
        .with_field(field)
        .hint("write the credentials to a file in /etc/apt/auth.conf.d with a `file` step"));
    }
    match word.is_empty() || word.contains(char::is_whitespace) || word.contains("$(") {
        true => Err(bad_value(format!("`{word}` is not valid in `{field}`"))
            .with_field(field)
            .hint("remove blanks and apt variables such as `$(ARCH)`")),
        false => Ok(()),
    }
}

fn check_uri(uri: &str) -> Result<(), Diag> {
    let rest = uri.split_once(':').filter(|(scheme, _)| !scheme.is_empty()).map(|(_, rest)| rest);
    let Some(rest) = rest else { return Err(bad_value(format!("`{uri}` is not a valid URI")).with_field("uris")) };
    let host = rest.strip_prefix("//").and_then(|rest| rest.split('/').next()).unwrap_or_default();
    match host.contains('@') {
        true => Err(bad_value("`uris` contains credentials, but the file is readable by every user on the host")
            .with_field("uris")
            .hint("write the credentials to a file in /etc/apt/auth.conf.d with a `file` step")),
        false => Ok(()),
    }
}

/// Parses declared fingerprints: full length, with optional blanks as `gpg` prints them.
fn parse_fingerprints(text: &str) -> Result<Vec<String>, Diag> {
    let one = |part: &str| {
        let bare: String = part.chars().filter(|c| !c.is_whitespace()).collect::<String>().to_ascii_uppercase();
        match matches!(bare.len(), 40 | 64) && bare.bytes().all(|b| b.is_ascii_hexdigit()) {
            true => Ok(bare),
            false => Err(bad_value(format!("`{}` is not a valid fingerprint", part.trim()))
                .with_field("fingerprint")
                .hint("use the 40 hex digits that `gpg --show-keys` prints")),
        }
    };
    let mut prints = text.split(',').map(one).collect::<Result<Vec<_>, _>>()?;
    prints.sort();
    prints.dedup();
    Ok(prints)
}
