//! Public keys as `authorized_keys` holds them: declared ones are checked, those of a host are read.

use crate::diag::Diag;
use crate::model::SecretStore;
use crate::resource::support::{bad_value, ticked};
use base64::Engine as _;
use sha2::{Digest, Sha256};

/// The types that sshd takes, with the number of fields inside of their blob.
const TYPES: &[(&str, usize)] = &[
    ("ssh-ed25519", 2),
    ("ssh-rsa", 3),
    ("ecdsa-sha2-nistp256", 3),
    ("ecdsa-sha2-nistp384", 3),
    ("ecdsa-sha2-nistp521", 3),
    ("sk-ssh-ed25519@openssh.com", 3),
    ("sk-ecdsa-sha2-nistp256@openssh.com", 4),
];

/// A key that is to be there.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Key {
    pub kind: &'static str,
    /// Base64.
    pub blob: String,
    pub comment: String,
}

impl Key {
    /// Reads `TYPE BASE64 [COMMENT]`.
    ///
    /// # Errors
    /// It is no public key, or a secret one. The text of it is not repeated then: nobody knows what it is.
    pub fn parse(field: &str, text: &str) -> Result<Self, Diag> {
        let text = text.trim();
        if text.contains("PRIVATE KEY") {
            return Err(bad_value(format!("`{field}` is a PRIVATE key: it must not stand in an inventory"))
                .hint("take it out of every version of that file, make a new pair, and declare its `.pub` file"));
        }
        if SecretStore::mentions(text) {
            return Err(bad_value(format!("`{field}` holds a secret; public keys are none"))
                .hint("declare the parameter or the export as plain text"));
        }
        if text.contains(['\n', '\r']) {
            return Err(bad_value(format!("`{field}` has several lines")).hint("give one key per element of `keys`"));
        }
        let mut words = text.splitn(3, [' ', '\t']);
        let (kind, blob) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        let Some((kind, fields)) = TYPES.iter().find(|(name, _)| *name == kind) else {
            return Err(no_type(field, kind));
        };
        check(kind, *fields, blob).map_err(|why| {
            bad_value(format!("`{field}` is no whole `{kind}` key: {why}"))
                .hint("copy the line of the `.pub` file as it is")
        })?;
        let comment = words.next().unwrap_or_default().trim().to_owned();
        Ok(Self { kind, blob: blob.to_owned(), comment })
    }

    /// Returns the line of the file.
    pub fn line(&self, options: &str) -> String {
        let parts = [options, self.kind, &self.blob, &self.comment];
        let parts: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
        parts.join(" ")
    }

    /// Returns the fingerprint as `ssh-keygen -l` shows it.
    pub fn fingerprint(&self) -> String {
        let bytes = base64::engine::general_purpose::STANDARD.decode(&self.blob).unwrap_or_default();
        let digest = base64::engine::general_purpose::STANDARD_NO_PAD.encode(Sha256::digest(bytes));
        format!("SHA256:{digest}")
    }
}

fn no_type(field: &str, word: &str) -> Diag {
    let names: Vec<&str> = TYPES.iter().map(|(name, _)| *name).collect();
    let diag = bad_value(format!("`{field}` does not begin with the type of a public key"));
    match word {
        "ssh-dss" => diag.hint("DSA keys are refused by every current sshd: make an `ssh-ed25519` key"),
        _ if word.contains(['=', ',', '"']) || matches!(word, "restrict" | "no-pty") => {
            diag.hint("what restricts a key stands in `options`")
        }
        _ => diag.hint(format!("types are {}", ticked(&names))),
    }
}

/// Checks that a blob is what its type says: fields with their length before them, the first of them the type.
fn check(kind: &str, fields: usize, blob: &str) -> Result<(), &'static str> {
    let bytes = base64::engine::general_purpose::STANDARD.decode(blob).map_err(|_| "its second word is not base64")?;
    let mut rest = bytes.as_slice();
    let mut found = Vec::new();
    while !rest.is_empty() {
        let (field, after) = field(rest).ok_or("it is cut off")?;
        found.push(field);
        rest = after;
    }
    match found.first() {
        Some(first) if *first == kind.as_bytes() && found.len() == fields => Ok(()),
        Some(first) if *first == kind.as_bytes() => Err("it is cut off"),
        _ => Err("its second word is of another type"),
    }
}

fn field(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = bytes.split_first_chunk::<4>()?;
    rest.split_at_checked(u32::from_be_bytes(*length) as usize)
}

/// One line of a host's file that holds a key.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Entry<'a> {
    pub options: &'a str,
    pub kind: &'a str,
    pub blob: &'a str,
}

/// Reads a line as sshd does; `None` for comments, blank lines, and what holds no key.
pub(super) fn entry(line: &str) -> Option<Entry<'_>> {
    let line = line.trim();
    if line.is_empty() || line.starts_with('#') {
        return None;
    }
    let plain = of_type(line).map(|(kind, blob)| Entry { options: "", kind, blob });
    plain.or_else(|| {
        let end = end_of_options(line)?;
        let (kind, blob) = of_type(line[end..].trim_start())?;
        Some(Entry { options: &line[..end], kind, blob })
    })
}

fn of_type(text: &str) -> Option<(&str, &str)> {
    let mut words = text.split([' ', '\t']).filter(|word| !word.is_empty());
    let (kind, blob) = (words.next()?, words.next()?);
    let known =
        |kind: &str| TYPES.iter().any(|(name, _)| *name == kind) || kind == "ssh-dss" || kind.contains("-cert-v01@");
    known(kind).then_some((kind, blob))
}

/// Returns where options end: at the first blank outside of quotes.
fn end_of_options(line: &str) -> Option<usize> {
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

    fn refused(text: &str) -> String {
        Key::parse("key", text).unwrap_err().message
    }

    #[test]
    fn a_key_with_and_without_comment() {
        let key = Key::parse("key", &format!("ssh-ed25519 {ED} a b\n")).unwrap();
        assert_eq!((key.kind, key.comment.as_str()), ("ssh-ed25519", "a b"));
        assert_eq!(key.line("restrict"), format!("restrict ssh-ed25519 {ED} a b"));
        assert_eq!(Key::parse("key", &format!("ssh-ed25519 {ED}")).unwrap().line(""), format!("ssh-ed25519 {ED}"));
        assert_eq!(key.fingerprint(), "SHA256:+DiY3wvvV6TuJJhbpZisF/zLDA0zPMSvHdkr4UvCOqU");
    }

    #[test]
    fn what_is_no_public_key_is_refused() {
        assert_eq!(
            refused("-----BEGIN OPENSSH PRIVATE KEY-----\nb3Blb"),
            "`key` is a PRIVATE key: it must not stand in an inventory"
        );
        assert_eq!(refused("ssh-ed25519 AAAA%"), "`key` is no whole `ssh-ed25519` key: its second word is not base64");
        assert_eq!(
            refused(&format!("ssh-ed25519 {}", &ED[..40])),
            "`key` is no whole `ssh-ed25519` key: it is cut off"
        );
        assert_eq!(
            refused(&format!("ssh-rsa {ED}")),
            "`key` is no whole `ssh-rsa` key: its second word is of another type"
        );
        assert_eq!(refused("hello"), "`key` does not begin with the type of a public key");
        assert_eq!(refused("ssh-ed25519 a\nssh-ed25519 b"), "`key` has several lines");
        let hint = |text: &str| Key::parse("key", text).unwrap_err().hint.unwrap();
        assert_eq!(hint("restrict ssh-ed25519 x"), "what restricts a key stands in `options`");
        assert_eq!(hint("ssh-dss x"), "DSA keys are refused by every current sshd: make an `ssh-ed25519` key");
    }

    #[test]
    fn lines_of_a_host_are_read_as_sshd_reads_them() {
        let of = |line| entry(line).map(|e| (e.options, e.kind, e.blob));
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
