//! Public keys in the format of `authorized_keys`: validation of declared keys, and parsing of a host's file.

use crate::diag::Diag;
use crate::model::SecretStore;
use crate::resource::shared::support::{bad_value, join_quoted};
use base64::Engine as _;
use sha2::{Digest, Sha256};

/// Key types that sshd accepts, with the number of fields in their blob.
const KEY_TYPES: &[(&str, usize)] = &[
    ("ssh-ed25519", 2),
    ("ssh-rsa", 3),
    ("ecdsa-sha2-nistp256", 3),
    ("ecdsa-sha2-nistp384", 3),
    ("ecdsa-sha2-nistp521", 3),
    ("sk-ssh-ed25519@openssh.com", 3),
    ("sk-ecdsa-sha2-nistp256@openssh.com", 4),
];

/// A declared key.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct PublicKey {
    pub kind: &'static str,
    /// Base64.
    pub blob: String,
    pub comment: String,
}

impl PublicKey {
    /// Parses `TYPE BASE64 [COMMENT]`.
    ///
    /// # Errors
    /// Fails for text that is not a public key, or is a secret. The message then omits the text, which may be secret.
    pub fn parse(field: &str, text: &str) -> Result<Self, Diag> {
        let text = text.trim();
        if text.contains("PRIVATE KEY") {
            return Err(bad_value(format!("`{field}` is a PRIVATE key: it must not be in an inventory"))
                .hint("remove it from every version of that file, generate a new pair, and declare its `.pub` file"));
        }
        if SecretStore::has_placeholder(text) {
            return Err(bad_value(format!("`{field}` contains a secret, but public keys are not secret"))
                .hint("declare the parameter or the export as plain text"));
        }
        if text.contains(['\n', '\r']) {
            return Err(bad_value(format!("`{field}` has several lines")).hint("write one key per element of `keys`"));
        }
        let mut words = text.splitn(3, [' ', '\t']);
        let (kind, blob) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        let Some((kind, fields)) = KEY_TYPES.iter().find(|(name, _)| *name == kind) else {
            return Err(unknown_type_error(field, kind));
        };
        check_blob(kind, *fields, blob).map_err(|why| {
            bad_value(format!("`{field}` is not a valid `{kind}` key: {why}"))
                .hint("copy the complete line of the `.pub` file")
        })?;
        let comment = words.next().unwrap_or_default().trim().to_owned();
        Ok(Self { kind, blob: blob.to_owned(), comment })
    }

    /// Returns the key's line in the file.
    pub fn to_line(&self, options: &str) -> String {
        let parts = [options, self.kind, &self.blob, &self.comment];
        let parts: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
        parts.join(" ")
    }

    /// Returns the fingerprint in the form of `ssh-keygen -l`.
    pub fn fingerprint(&self) -> String {
        let bytes = base64::engine::general_purpose::STANDARD.decode(&self.blob).unwrap_or_default();
        let digest = base64::engine::general_purpose::STANDARD_NO_PAD.encode(Sha256::digest(bytes));
        format!("SHA256:{digest}")
    }
}

fn unknown_type_error(field: &str, word: &str) -> Diag {
    let names: Vec<&str> = KEY_TYPES.iter().map(|(name, _)| *name).collect();
    let diag = bad_value(format!("`{field}` does not begin with a public key type"));
    match word {
        "ssh-dss" => diag.hint("current sshd versions reject DSA keys: generate an `ssh-ed25519` key"),
        _ if word.contains(['=', ',', '"']) || matches!(word, "restrict" | "no-pty") => {
            diag.hint("declare key restrictions in `options`")
        }
        _ => diag.hint(format!("use one of {}", join_quoted(&names))),
    }
}

/// Checks that a blob matches its type: length-prefixed fields, the first of which is the type.
fn check_blob(kind: &str, fields: usize, blob: &str) -> Result<(), &'static str> {
    let bytes = base64::engine::general_purpose::STANDARD.decode(blob).map_err(|_| "its second word is not base64")?;
    let mut rest = bytes.as_slice();
    let mut found = Vec::new();
    while !rest.is_empty() {
        let (field, after) = split_field(rest).ok_or("it is truncated")?;
        found.push(field);
        rest = after;
    }
    match found.first() {
        Some(first) if *first == kind.as_bytes() && found.len() == fields => Ok(()),
        Some(first) if *first == kind.as_bytes() => Err("it is truncated"),
        _ => Err("its second word has another type"),
    }
}

fn split_field(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = bytes.split_first_chunk::<4>()?;
    rest.split_at_checked(u32::from_be_bytes(*length) as usize)
}

/// One line of a host's file that contains a key.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct AuthorizedKeyEntry<'a> {
    pub options: &'a str,
    pub kind: &'a str,
    pub blob: &'a str,
}

/// Parses a line as sshd does; `None` for comments, blank lines, and lines without a key.
pub(super) fn parse_entry(line: &str) -> Option<AuthorizedKeyEntry<'_>> {
    let line = line.trim();
    if line.is_empty() || line.starts_with('#') {
        return None;
    }
    let plain = parse_type_and_blob(line).map(|(kind, blob)| AuthorizedKeyEntry { options: "", kind, blob });
    plain.or_else(|| {
        let end = find_options_end(line)?;
        let (kind, blob) = parse_type_and_blob(line[end..].trim_start())?;
        Some(AuthorizedKeyEntry { options: &line[..end], kind, blob })
    })
}

fn parse_type_and_blob(text: &str) -> Option<(&str, &str)> {
    let mut words = text.split([' ', '\t']).filter(|word| !word.is_empty());
    let (kind, blob) = (words.next()?, words.next()?);
    let known = |kind: &str| {
        KEY_TYPES.iter().any(|(name, _)| *name == kind) || kind == "ssh-dss" || kind.contains("-cert-v01@")
    };
    known(kind).then_some((kind, blob))
}

/// Returns where options end: at the first blank outside of quotes.
fn find_options_end(line: &str) -> Option<usize> {
    let (mut quoted, mut escaped) = (false, false);
    for (at, c) in line.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' if quoted => escaped = true,
            '"' => quoted = !quoted,
            ' ' | '\t' if !quoted => return Some(at),
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    const ED: &str = "AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl";

    fn parse_error(text: &str) -> String {
        PublicKey::parse("key", text).unwrap_err().message
    }

    #[test]
    fn public_key_parses_with_and_without_comment() {
        let key = PublicKey::parse("key", &format!("ssh-ed25519 {ED} a b\n")).unwrap();
        assert_eq!((key.kind, key.comment.as_str()), ("ssh-ed25519", "a b"));
        assert_eq!(key.to_line("restrict"), format!("restrict ssh-ed25519 {ED} a b"));
        assert_eq!(
            PublicKey::parse("key", &format!("ssh-ed25519 {ED}")).unwrap().to_line(""),
            format!("ssh-ed25519 {ED}")
        );
        assert_eq!(key.fingerprint(), "SHA256:+DiY3wvvV6TuJJhbpZisF/zLDA0zPMSvHdkr4UvCOqU");
    }

    #[test]
    fn invalid_public_key_is_rejected() {
        assert_eq!(
            parse_error("-----BEGIN OPENSSH PRIVATE KEY-----\nb3Blb"),
            "`key` is a PRIVATE key: it must not be in an inventory"
        );
        assert_eq!(
            parse_error("ssh-ed25519 AAAA%"),
            "`key` is not a valid `ssh-ed25519` key: its second word is not base64"
        );
        assert_eq!(
            parse_error(&format!("ssh-ed25519 {}", &ED[..40])),
            "`key` is not a valid `ssh-ed25519` key: it is truncated"
        );
        assert_eq!(
            parse_error(&format!("ssh-rsa {ED}")),
            "`key` is not a valid `ssh-rsa` key: its second word has another type"
        );
        assert_eq!(parse_error("hello"), "`key` does not begin with a public key type");
        assert_eq!(parse_error("ssh-ed25519 a\nssh-ed25519 b"), "`key` has several lines");
        let hint = |text: &str| PublicKey::parse("key", text).unwrap_err().hint.unwrap();
        assert_eq!(hint("restrict ssh-ed25519 x"), "declare key restrictions in `options`");
        assert_eq!(hint("ssh-dss x"), "current sshd versions reject DSA keys: generate an `ssh-ed25519` key");
    }

    #[test]
    fn authorized_keys_lines_are_parsed_as_sshd_parses_them() {
        let of = |line| parse_entry(line).map(|e| (e.options, e.kind, e.blob));
        assert_eq!(of("ssh-rsa AAAA me"), Some(("", "ssh-rsa", "AAAA")));
        assert_eq!(of("\tssh-rsa  AAAA"), Some(("", "ssh-rsa", "AAAA")));
        assert_eq!(
            of(r#"from="10.0.0.*",command="echo \"a b\"" ssh-ed25519 BBBB"#),
            Some((r#"from="10.0.0.*",command="echo \"a b\"""#, "ssh-ed25519", "BBBB"))
        );
        for line in ["", "# ssh-rsa AAAA", "nonsense", "two words", "ssh-rsa"] {
            assert_eq!(of(line), None, "{line:?}");
        }
    }
}
