//! Secrets: values that are used but never shown.

use super::secret_forms::list_secret_forms;
use super::secret_search::SecretForms;
use secrecy::{ExposeSecret, SecretString};
use std::collections::{BTreeMap, BTreeSet};

/// Opens a placeholder inside rendered text.
pub const PLACEHOLDER_OPEN: &str = "\u{e000}forge-secret:";
/// Closes a placeholder inside rendered text.
pub const PLACEHOLDER_CLOSE: char = '\u{e001}';

/// Text that represents a secret until the transport replaces it. Its delimiters are characters of a private use area,
/// which decoders reject in input files, so only the store creates placeholders.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecretPlaceholder(pub String);

/// All secrets of a run. Implements neither `Display` nor `Serialize`; `Debug` prints names only.
#[derive(Clone, Default)]
pub struct SecretStore {
    values: BTreeMap<String, SecretString>,
    /// The texts that show a value.
    forms: SecretForms,
    /// Names of placeholders that have no value, or not yet.
    reserved: BTreeSet<String>,
}

impl std::fmt::Debug for SecretStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.values.keys()).finish()
    }
}

/// Replaces characters that mean something in a document that a template renders, which is parsed with its placeholders.
fn clean_name(name: &str) -> String {
    name.replace(|c: char| !(c.is_alphanumeric() || "-_./ @+~".contains(c)), "_")
}

fn build_placeholder(name: &str) -> SecretPlaceholder {
    SecretPlaceholder(format!("{PLACEHOLDER_OPEN}{name}{PLACEHOLDER_CLOSE}"))
}

impl SecretStore {
    /// Stores `value` under `name` and returns the placeholder that templates render for it.
    pub fn insert(&mut self, name: &str, value: SecretString) -> SecretPlaceholder {
        let mut name = clean_name(name);
        let differs = |v: &SecretString| v.expose_secret() != value.expose_secret();
        while self.reserved.contains(&name) || self.values.get(&name).is_some_and(differs) {
            name.push('\'');
        }
        let placeholder = build_placeholder(&name);
        self.store_value(name, value);
        placeholder
    }

    /// Returns a placeholder for a secret that is not read yet, under `name` or a similar name.
    pub fn reserve(&mut self, name: &str) -> SecretPlaceholder {
        let mut name = clean_name(name);
        while self.values.contains_key(&name) || !self.reserved.insert(name.clone()) {
            name.push('\'');
        }
        build_placeholder(&name)
    }

    /// Stores the value of a reserved placeholder.
    pub fn fill(&mut self, placeholder: &SecretPlaceholder, value: SecretString) {
        let name = placeholder.0.strip_prefix(PLACEHOLDER_OPEN).and_then(|rest| rest.strip_suffix(PLACEHOLDER_CLOSE));
        self.store_value(name.unwrap_or(&placeholder.0).to_owned(), value);
    }

    fn store_value(&mut self, name: String, value: SecretString) {
        if let Some(before) = self.values.get(&name) {
            if before.expose_secret() == value.expose_secret() {
                return;
            }
            self.forms.remove_forms(&name);
        }
        self.forms.add_forms(&name, list_secret_forms(value.expose_secret()));
        self.values.insert(name, value);
    }

    /// Reports whether `text` contains a placeholder; such a body is secret as a whole.
    pub fn has_placeholder(text: &str) -> bool {
        text.contains(PLACEHOLDER_OPEN)
    }

    /// Returns `text` with every placeholder replaced by its secret. Only the transport and digests of secret bodies
    /// call this. Placeholders of unknown names are unchanged.
    pub fn reveal_placeholders(&self, text: &str) -> SecretString {
        let mut out = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(start) = rest.find(PLACEHOLDER_OPEN) {
            out.push_str(&rest[..start]);
            let after = &rest[start + PLACEHOLDER_OPEN.len()..];
            let Some(end) = after.find(PLACEHOLDER_CLOSE) else {
                out.push_str(&rest[start..]);
                rest = "";
                break;
            };
            match self.values.get(&after[..end]) {
                Some(value) => out.push_str(value.expose_secret()),
                None => out.push_str(&rest[start..start + PLACEHOLDER_OPEN.len() + end + PLACEHOLDER_CLOSE.len_utf8()]),
            }
            rest = &after[end + PLACEHOLDER_CLOSE.len_utf8()..];
        }
        out.push_str(rest);
        SecretString::from(out)
    }

    /// Returns `text` with every placeholder shown as `(secret NAME)`.
    pub fn mask_placeholders(text: &str) -> String {
        let mut out = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(start) = rest.find(PLACEHOLDER_OPEN) {
            out.push_str(&rest[..start]);
            let after = &rest[start + PLACEHOLDER_OPEN.len()..];
            let end = after.find(PLACEHOLDER_CLOSE).unwrap_or(after.len());
            out.push_str(&format!("(secret {})", &after[..end]));
            rest = after.get(end + PLACEHOLDER_CLOSE.len_utf8()..).unwrap_or("");
        }
        out.push_str(rest);
        out
    }

    /// Reports whether the run has no secrets.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// Returns `text` with every occurrence of a secret's value replaced by `(secret NAME)`, also of its escaped forms:
    /// the last safeguard for the output of hosts, APIs and programs.
    pub fn scrub_secrets(&self, text: &str) -> String {
        self.forms.replace_forms(&Self::mask_placeholders(text))
    }

    /// Reports whether `text` contains a secret: a placeholder, or a value in one of its forms.
    pub fn occurs_in(&self, text: &str) -> bool {
        Self::has_placeholder(text) || self.forms.occur_in(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reserved_name_is_not_shared() {
        let mut store = SecretStore::default();
        let later = store.reserve("age a");
        let (other, file) = (store.reserve("age a"), store.insert("age a", "c".into()));
        store.fill(&later, "a".into());
        store.fill(&other, "b".into());
        let text = format!("{}{}{}", later.0, other.0, file.0);
        assert_eq!(store.reveal_placeholders(&text).expose_secret(), "abc");
        assert_eq!(SecretStore::mask_placeholders(&later.0), "(secret age a)");
        assert_eq!(store.scrub_secrets("a b"), "a b", "short values are ordinary text");
    }

    const KUBECONFIG: &str = "apiVersion: v1\nkind: Config\ncurrent-context: admin@kubernetes\nusers:\n\
        - name: kubernetes-admin\n  user:\n    token: tr0ub4dor\n";

    /// Objects that are no secret begin as a kubeconfig does.
    #[test]
    fn lines_that_name_the_type_of_a_secret_file_are_not_secret() {
        let mut store = SecretStore::default();
        store.insert("kubeconfig", KUBECONFIG.into());
        let printed = "apiVersion: v1\nkind: Config\n";
        assert_eq!(store.scrub_secrets(printed), printed);
        assert!(!store.occurs_in(printed) && store.occurs_in("Bearer tr0ub4dor"));
        assert_eq!(store.scrub_secrets("Bearer tr0ub4dor"), "Bearer (secret kubeconfig)");
        assert_eq!(store.scrub_secrets(KUBECONFIG), "(secret kubeconfig)");
    }

    /// One pass, whatever the number of secrets.
    #[test]
    fn megabytes_are_searched_for_many_secrets() {
        let mut store = SecretStore::default();
        let body = |n: usize| format!("{n:03}MIIEvQIBADANBgkqhkiG9w0BAQ{n:03}EFAASCBKcwggSjAgEAAoIBAQ{n:05}\n");
        for n in 0..100 {
            let lines: String = (0..25).map(|line| body(n * 100 + line)).collect();
            store.insert(&format!("key {n}"), format!("-----BEGIN KEY-----\n{lines}-----END KEY-----\n").into());
        }
        let line = "2026-12-01 03:05:52 node-14 kernel: nvidia 0000:18:00.0: enabling device (0140 -> 0142) MIIE\n";
        let output = line.repeat((1 << 20) / line.len());
        assert_eq!(store.scrub_secrets(&output), output);
        assert_eq!(store.scrub_secrets(body(4207).trim()), "(secret key 42)");
    }
}
