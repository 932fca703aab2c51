//! The parts of a secret with several lines that are masked by themselves, as output is often shown by line.
//!
//! Each line is one: no rule tells all passwords from ordinary text. The lines `apiVersion: …` and `kind: …` are not: a
//! kubeconfig begins with them as every object does. The value of a key that names a secret is a part as well, without
//! its key.

/// The shortest line, in bytes, that is masked by itself.
const SHORTEST_LINE: usize = 12;

/// The shortest value of a key, in bytes, that is masked by itself: `root` and `admin` occur in ordinary text.
const SHORTEST_VALUE: usize = 8;

/// Keys of lines that say what an object is, and are no secret.
const ORDINARY_KEYS: [&str; 2] = ["apiVersion", "kind"];

/// How keys end whose values are secret, in lower case and without separators.
const SECRET_KEYS: [&str; 12] = [
    "password",
    "passwd",
    "passphrase",
    "pwd",
    "token",
    "secret",
    "credential",
    "apikey",
    "accesskey",
    "secretkey",
    "privatekey",
    "keydata",
];

/// Returns the parts of a text with several lines that are secret by themselves, in the order of their lines.
pub(super) fn list_secret_parts(text: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    for line in text.lines().map(str::trim).filter(|line| !line.starts_with("-----")) {
        let pair = split_pair(line);
        let is_ordinary = pair.is_some_and(|(key, value)| ORDINARY_KEYS.contains(&key) && is_type_name(value));
        parts.extend(Some(line).filter(|line| line.len() >= SHORTEST_LINE && !is_ordinary));
        let value = pair.filter(|(key, _)| names_secret(key)).map(|(_, value)| value);
        let written = value.map(|value| value.split_once(" #").map_or(value, |(value, _)| value));
        parts.extend(written.map(strip_quotes).filter(|value| value.len() >= SHORTEST_VALUE && *value != line));
    }
    parts
}

/// Splits `key: value` and `key = value`.
fn split_pair(line: &str) -> Option<(&str, &str)> {
    let line = line.strip_prefix("- ").or_else(|| line.strip_prefix("export ")).unwrap_or(line);
    let at = line.find([':', '='])?;
    let key = strip_quotes(&line[..at]);
    let is_key = |c: char| c.is_ascii_alphanumeric() || "_-./".contains(c);
    (!key.is_empty() && key.chars().all(is_key)).then(|| (key, line[at + 1..].trim()))
}

fn strip_quotes(text: &str) -> &str {
    text.trim().trim_end_matches([',', ';']).trim_matches(['"', '\''])
}

/// Reports whether a text is the name or the version of a type: letters, digits and few separators.
fn is_type_name(text: &str) -> bool {
    text.len() <= 60 && text.chars().all(|c| c.is_ascii_alphanumeric() || "./-".contains(c))
}

fn names_secret(key: &str) -> bool {
    let key = key.to_ascii_lowercase().replace(['_', '-', '.', '/'], "");
    let ends_with = |key: &str| SECRET_KEYS.iter().any(|end| key.ends_with(end));
    ends_with(&key) || key.strip_suffix('s').is_some_and(ends_with)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_is_secret_but_those_that_name_the_type() {
        let config = "apiVersion: v1\nkind: Config\ncurrent-context: admin@kubernetes\nusers:\n- name: admin\n  user:\n    \
            token: tr0ub4dor\n    exec:\n      apiVersion: client.authentication.k8s.io/v1\n";
        let expected = ["current-context: admin@kubernetes", "- name: admin", "token: tr0ub4dor", "tr0ub4dor"];
        assert_eq!(list_secret_parts(config), expected);
        assert_eq!(list_secret_parts("kind: correct horse battery\nb\n"), ["kind: correct horse battery"]);
    }

    #[test]
    fn body_of_a_key_is_secret_and_its_frame_is_not() {
        let key = "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQ\nabc=\n-----END PRIVATE KEY-----\n";
        assert_eq!(list_secret_parts(key), ["MIIEvQIBADANBgkqhkiG9w0BAQ"]);
    }

    /// No rule tells passwords of words from other text.
    #[test]
    fn passwords_of_any_notation_are_masked_with_their_lines() {
        for text in [
            "{\"name\": \"admin\", \"password\": \"correct-horse-battery\"}\n",
            "- {name: a, password: hunter22}\n",
            "Environment=\"HF_TOKEN=correct-horse-battery\"\n",
            "primary_conninfo = 'host=db user=repl password=correct-horse'\n",
            "ldap_default_authtok = correct-horse-battery\n",
            "# owner: infra\ncorrect horse battery staple\n",
            "curl -u admin:hunter2hunter https://host.example\n",
        ] {
            let line = text.lines().last().unwrap_or_default();
            assert!(list_secret_parts(&format!("a: b\n{text}")).contains(&line), "{text}");
        }
    }

    #[test]
    fn value_of_a_key_that_names_a_secret_is_masked_without_its_key() {
        for (line, value) in [
            ("StoragePass=tr0ub4dor", None),
            ("password: 'hunter2-hunter2'  # rotated", Some("hunter2-hunter2")),
            ("\"api_token\": \"hunter2-hunter2\",", Some("hunter2-hunter2")),
            ("export HF_TOKEN=hunter2-hunter2;", Some("hunter2-hunter2")),
            ("password: root", None),
            ("listen: 0.0.0.0:9100", None),
        ] {
            assert_eq!(list_secret_parts(line).get(1).copied(), value, "{line}");
        }
    }
}
