//! The parts of a secret with several lines that are secret by themselves: a kubeconfig is secret, `kind: Config` in it
//! is not.
//!
//! A line that would be masked by itself would be masked everywhere, and an object or export with the same line would
//! count as secret. So these rules decide, the first that holds:
//! 1. A line of an encapsulated key (PEM, between `-----BEGIN` and `-----END`) is secret.
//! 2. Of `key: value`, `key = value` and `- value`, only the value can be secret. It is if the key, or the key above
//!    it, names a secret (`token`, `client-key-data`, `StoragePass`), except for words such as `true` and `null`.
//! 3. Another value, and a comment, is secret if it looks generated ([`looks_generated`]).
//! 4. A line without structure is secret if nothing in the text has structure: each line of a list of passwords.
//!    Otherwise rule 3 decides.

/// The shortest text, in bytes, that is secret since its key says so.
const SHORTEST_NAMED: usize = 4;

/// The shortest text, in bytes, that is secret without such a key.
const SHORTEST_UNNAMED: usize = 12;

/// How keys end whose values are secret, in lower case and without separators.
const SECRET_KEYS: [&str; 14] = [
    "password",
    "passwd",
    "passphrase",
    "pass",
    "pwd",
    "token",
    "secret",
    "credential",
    "apikey",
    "accesskey",
    "secretkey",
    "privatekey",
    "presharedkey",
    "keydata",
];

/// Keys below a key of secrets that name or describe one.
const REFERENCE_KEYS: [&str; 5] = ["name", "namespace", "key", "kind", "type"];

/// Keys of objects of Kubernetes whose fields are secret if the object is.
const SECRET_PARENTS: [&str; 2] = ["data", "stringdata"];

/// Values that a key of a secret has if it has none, or is a switch.
const SWITCHES: [&str; 8] = ["true", "false", "null", "none", "enabled", "disabled", "default", "required"];

/// Returns the parts of a text with several lines that are secret by themselves.
pub(super) fn list_secret_parts(text: &str) -> Vec<&str> {
    let is_structured = text.lines().map(parse_line).any(|line| matches!(line, Line::Value { .. } | Line::Parent(_)));
    let (mut parts, mut parents, mut in_key) = (Vec::new(), Vec::new(), false);
    for raw in text.lines() {
        let (line, depth) = (raw.trim(), raw.len() - raw.trim_start().len());
        if line.starts_with("-----") {
            in_key = line.starts_with("-----BEGIN");
            continue;
        }
        if in_key {
            parts.extend(Some(line).filter(|line| line.len() >= SHORTEST_UNNAMED));
            continue;
        }
        if line.is_empty() {
            continue;
        }
        // Items of a list may have the depth of its key.
        let is_item = line.starts_with("- ");
        while parents.last().is_some_and(|(above, _)| *above > depth || *above == depth && !is_item) {
            parents.pop();
        }
        let above = parents.last().map_or(Naming::Other, |(_, naming)| *naming);
        match parse_line(raw) {
            Line::Parent(key) => parents.push((depth, name_parent(key))),
            Line::Value { key, value } => {
                let is_reference = key.is_some_and(|key| REFERENCE_KEYS.contains(&key.to_ascii_lowercase().as_str()));
                let is_named = match above {
                    Naming::Other => key.is_some_and(names_secret),
                    Naming::Secret => !is_reference,
                    Naming::Fields => true,
                };
                parts.extend(Some(value).filter(|value| is_secret_value(value, is_named)));
                parts.extend(list_generated_words(value));
            }
            Line::Comment(comment) => {
                parts.extend(Some(comment).filter(|comment| is_secret_value(comment, false)));
                parts.extend(list_generated_words(comment));
            }
            Line::Plain(line) => {
                let is_secret = match is_structured {
                    true => is_secret_value(line, above == Naming::Secret),
                    false => line.len() >= SHORTEST_UNNAMED,
                };
                parts.extend(Some(line).filter(|_| is_secret));
                parts.extend(list_generated_words(line));
            }
        }
    }
    parts
}

/// What a key says about the lines below it.
#[derive(Clone, Copy, PartialEq)]
enum Naming {
    /// They are secret.
    Secret,
    /// The values of their keys are secret.
    Fields,
    Other,
}

fn name_parent(key: &str) -> Naming {
    match normalize_key(key) {
        key if SECRET_PARENTS.contains(&key.as_str()) => Naming::Fields,
        _ if names_secret(key) => Naming::Secret,
        _ => Naming::Other,
    }
}

/// The structure of one line.
enum Line<'l> {
    /// A key whose value follows in the next lines.
    Parent(&'l str),
    /// A value, with its key unless it is an item of a list.
    Value {
        key: Option<&'l str>,
        value: &'l str,
    },
    Comment(&'l str),
    Plain(&'l str),
}

fn parse_line(line: &str) -> Line<'_> {
    let line = line.trim();
    if let Some(comment) = ["#", ";", "//"].iter().find_map(|mark| line.strip_prefix(mark)) {
        // What was commented out has a structure of its own.
        return match parse_line(comment) {
            value @ Line::Value { key: Some(_), .. } => value,
            _ => Line::Comment(comment.trim()),
        };
    }
    let (is_item, item) = match line.strip_prefix("- ") {
        Some(item) => (true, item.trim()),
        None => (false, line.strip_prefix("export ").unwrap_or(line)),
    };
    if let Some((key, value)) = split_pair(item) {
        return match strip_quotes(value) {
            "" | "{" | "[" | "|" | "|-" | "|+" | ">" | ">-" | ">+" => Line::Parent(key),
            value => Line::Value { key: Some(key), value },
        };
    }
    match is_item {
        true => Line::Value { key: None, value: strip_quotes(item) },
        false => Line::Plain(line),
    }
}

/// Splits `key: value` and `key = value`. Base64 ends with `=`, which separates nothing there.
fn split_pair(line: &str) -> Option<(&str, &str)> {
    let (key, value) = match line.strip_suffix(':') {
        Some(key) => (key, ""),
        None => {
            let colon = line.find(": ").map(|at| (&line[..at], &line[at + 2..]));
            let equals = line.find('=').map(|at| (&line[..at], &line[at + 1..]));
            let equals = equals.filter(|(_, value)| !value.is_empty() && !value.starts_with('='));
            let secret_word = || line.split_once(' ').filter(|(key, value)| names_secret(key) && !value.contains(' '));
            let first = [colon, equals].into_iter().flatten().min_by_key(|(key, _)| key.len());
            first.filter(|(key, _)| is_key(strip_quotes(key))).or_else(secret_word)?
        }
    };
    let key = strip_quotes(key);
    is_key(key).then_some((key, value.trim()))
}

fn is_key(text: &str) -> bool {
    let is_part = |c: char| c.is_ascii_alphanumeric() || "_-./".contains(c);
    text.starts_with(|c: char| c.is_ascii_alphabetic() || matches!(c, '_' | '.')) && text.chars().all(is_part)
}

fn strip_quotes(text: &str) -> &str {
    text.trim().trim_end_matches(',').trim_matches(['"', '\''])
}

fn normalize_key(key: &str) -> String {
    key.to_ascii_lowercase().replace(['_', '-', '.', '/'], "")
}

fn names_secret(key: &str) -> bool {
    let key = normalize_key(key);
    let ends_with = |key: &str| SECRET_KEYS.iter().any(|end| key.ends_with(end));
    ends_with(&key) || key.strip_suffix('s').is_some_and(ends_with)
}

fn is_secret_value(value: &str, is_named: bool) -> bool {
    let is_switch = || SWITCHES.contains(&value.to_ascii_lowercase().as_str());
    is_named && value.len() >= SHORTEST_NAMED && !is_switch()
        || value.len() >= SHORTEST_UNNAMED && looks_generated(value)
}

/// Returns the words of a line with several words that look generated: `Bearer eyJhbGci…` is also printed without
/// `Bearer`.
fn list_generated_words(line: &str) -> impl Iterator<Item = &str> {
    let has_several = line.contains(char::is_whitespace);
    let words = line.split_whitespace().filter(move |_| has_several).map(strip_quotes);
    words.filter(|word| is_secret_value(word, false))
}

/// Reports whether a text looks like a key, token, digest or password instead of words, names, versions and addresses:
/// a URL with a password, unusual punctuation, long digits, or a part that mixes letters and digits or upper and lower
/// case as no name does. Texts in other scripts than ASCII do not.
fn looks_generated(text: &str) -> bool {
    let has_password = text.split_once("://").is_some_and(|(_, rest)| rest.contains('@'));
    let punctuation = text.chars().filter(|c| "!#$%^&*?~`|".contains(*c)).count();
    has_password
        || punctuation >= 3
        || text.split_whitespace().any(is_base64)
        || text.split(|c: char| !c.is_alphanumeric()).any(is_generated_part)
        || is_grouped_code(text)
}

/// The shortest base64, in bytes, that is recognized by its letters: `/` and `+` can leave only short parts of it.
const SHORTEST_BASE64: usize = 24;

fn is_base64(word: &str) -> bool {
    let word = strip_quotes(word);
    let has = |is: fn(&char) -> bool| word.chars().any(|c| is(&c));
    word.len() >= SHORTEST_BASE64
        && word.chars().all(|c| c.is_ascii_alphanumeric() || "+/=_-".contains(c))
        && has(char::is_ascii_digit)
        && has(char::is_ascii_lowercase)
        && has(char::is_ascii_uppercase)
}

/// Reports whether a text is a code in groups, such as `K7DX-92QP-LM3X`.
fn is_grouped_code(text: &str) -> bool {
    let is_group = |part: &str| {
        part.len() >= 4
            && part.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit())
            && part.contains(|c: char| c.is_ascii_digit())
            && part.contains(|c: char| c.is_ascii_uppercase())
    };
    text.split('-').filter(|part| is_group(part)).count() >= 2
}

fn is_generated_part(part: &str) -> bool {
    let digits = part.chars().filter(char::is_ascii_digit).count();
    let letters = part.len() - digits;
    match (letters, digits) {
        (0, _) => digits >= 9,
        (_, 0) => is_generated_name(part),
        _ => part.len() >= 8 && count_changes(part, |c| c.is_ascii_digit()) >= 2,
    }
}

/// Reports whether letters alone are not a name: names in camel case have words of some letters.
fn is_generated_name(part: &str) -> bool {
    let words = 1 + part.as_bytes().windows(2).filter(|two| is_upper_after_lower(two)).count();
    part.is_ascii() && part.len() >= 8 && (part.len() < 3 * words || part.len() > 20 * words)
}

fn is_upper_after_lower(two: &[u8]) -> bool {
    matches!(two, [one, other] if one.is_ascii_lowercase() && other.is_ascii_uppercase())
}

fn count_changes(part: &str, of: impl Fn(&u8) -> bool) -> usize {
    part.as_bytes().windows(2).filter(|two| matches!(two, [one, other] if of(one) != of(other))).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kubeconfig_has_only_its_keys_as_secret_parts() {
        let config = "apiVersion: v1\nkind: Config\ncurrent-context: kubernetes-admin@kubernetes\npreferences: {}\n---\n\
            clusters:\n- cluster:\n    certificate-authority-data: LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCk1JSUM=\n    \
            server: https://10.0.14.31:6443\n    insecure-skip-tls-verify: false\n  name: kubernetes\ncontexts:\n\
            - context:\n    cluster: kubernetes\n    namespace: gpu-operator\n    user: kubernetes-admin\n  \
            name: kubernetes-admin@kubernetes\nusers:\n- name: kubernetes-admin\n  user:\n    \
            client-key-data: LS0tLS1CRUdJTiBSU0EgUFJJVkFURSBLRVktLS0tLQ==\n    token: abcdef.0123456789abcdef\n\
            - name: other\n  user:\n    username: admin\n    password: 'hunter2'\n    exec:\n      \
            apiVersion: client.authentication.k8s.io/v1\n      command: kubelogin\n";
        let expected = [
            "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCk1JSUM=",
            "LS0tLS1CRUdJTiBSU0EgUFJJVkFURSBLRVktLS0tLQ==",
            "abcdef.0123456789abcdef",
            "hunter2",
        ];
        assert_eq!(list_secret_parts(config), expected);
    }

    #[test]
    fn secret_object_has_all_its_data_as_secret_parts() {
        let object = "apiVersion: v1\nkind: Secret\nmetadata:\n  name: database-account\n  namespace: monitoring\n\
            stringData:\n  mode: production\n  config.yaml: |\n    kind: Config\n    listen: 0.0.0.0:9100\n    \
            token: |\n      tr0ub\n      four\ndata:\n  pin: MTIzNA==\ntype: kubernetes.io/basic-auth\n";
        assert_eq!(list_secret_parts(object), ["production", "tr0ub", "four", "MTIzNA=="]);
    }

    #[test]
    fn body_of_a_key_is_secret_and_its_frame_is_not() {
        let key =
            "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQ\nAQABAoIBAQC=\nabc=\n-----END PRIVATE KEY-----\n";
        assert_eq!(list_secret_parts(key), ["MIIEvQIBADANBgkqhkiG9w0BAQ", "AQABAoIBAQC="]);
        let file = format!("tls:\n  mode: strict-transport\n  key: |\n{}", key.replace("\nMII", "\n    MII"));
        assert_eq!(list_secret_parts(&file), ["MIIEvQIBADANBgkqhkiG9w0BAQ", "AQABAoIBAQC="]);
    }

    #[test]
    fn files_of_keys_and_values_have_values_as_secret_parts() {
        for (text, expected) in [
            ("AuthType=auth/munge\nStoragePass=tr0ub4dor\nStorageHost=database\n", &["tr0ub4dor"][..]),
            (
                "[Interface]\nPrivateKey = yAnz5TF+lXXJte14tji3zlMNq+hd2rYUIgJBgB3fBmk=\nAddress = 10.0.0.2/24\n",
                &["yAnz5TF+lXXJte14tji3zlMNq+hd2rYUIgJBgB3fBmk="],
            ),
            (
                "{\n  \"mode\": \"production-like\",\n  \"api_token\": \"hunter2\",\n  \"list\": [\n    1\n  ]\n}\n",
                &["hunter2"],
            ),
            ("machine api.example\nlogin somebody-there\npassword tr0ub\n", &["tr0ub"]),
            ("#!/bin/sh\nset -euo pipefail\nexport TOKEN=abcde\n# password: earlier\n", &["abcde", "earlier"]),
            ("passwords:\n- alpha\n- beta-gamma\nhosts:\n- gamma-delta-epsilon\n", &["alpha", "beta-gamma"]),
            ("imagePullSecrets:\n- name: registry\nsecrets:\n  database: tr0ub\n", &["tr0ub"]),
            (
                "header: Authorization Bearer eyJhbGciOiJIUzI1NiJ9\nmode: very-ordinary-mode\n",
                &["Authorization Bearer eyJhbGciOiJIUzI1NiJ9", "eyJhbGciOiJIUzI1NiJ9"],
            ),
            ("password: true\ntoken: null\n", &[]),
            (
                "url: https://user:pass@host.example/x\nother: https://host.example:8443/path\n",
                &["https://user:pass@host.example/x"],
            ),
        ] {
            assert_eq!(list_secret_parts(text), expected, "{text}");
        }
    }

    /// Nothing in such a text says what is not secret.
    #[test]
    fn long_lines_without_structure_are_secret() {
        let text = "correct horse battery staple\nshort\nhost.example:5432:database:account:password\n";
        assert_eq!(
            list_secret_parts(text),
            ["correct horse battery staple", "host.example:5432:database:account:password"]
        );
    }

    #[test]
    fn names_versions_and_addresses_do_not_look_generated() {
        for plain in [
            "kubernetes-admin@kubernetes",
            "https://10.0.14.31:6443",
            "registry.example.com/nvidia/driver:560.35.03",
            "h100-node-14-31.cluster.local",
            "requiredDuringSchedulingIgnoredDuringExecution",
            "/etc/kubernetes/pki/apiserver-etcd-client.crt",
            "2026-12-01T03:05:52Z",
            "rbac.authorization.k8s.io/v1beta1",
            "NVreg_EnableGpuFirmware",
            "fd00:10:14::31/64",
        ] {
            assert!(!looks_generated(plain), "{plain}");
        }
        for generated in [
            "8be4df61-93ca-11d2-aa0d-00e098032b8c",
            "K7DX-92QP-LM3X-77AA",
            "ghp_16C7e42F292c6912E7710c838347Ae178B4a",
            "xJqRtVbNmKLpWzQyHdFgScAeUi",
            "correct#horse!battery$",
            "AKIAIOSFODNN7EXAMPLE",
            "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
            "$6$rounds$abc",
            "0123456789012",
        ] {
            assert!(looks_generated(generated), "{generated}");
        }
    }
}
