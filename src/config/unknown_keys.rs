//! Reports unknown keys, with a hint where the intended key can be guessed.

use super::yaml_node::list_scalars;
use super::{YamlData, YamlKey, YamlNode};
use crate::diag::{Diag, DiagCode, did_you_mean};

/// Keys of Ansible and similar tools, with the keys of forge. The first one that the kind has is suggested.
const FOREIGN_FIELDS: &[(&str, &[&str])] = &[
    ("key", &["identity"]),
    ("private_key", &["identity"]),
    ("name", &["key", "names", "user", "path"]),
    ("pkg", &["name"]),
    ("unit", &["name"]),
    ("src", &["source", "target"]),
    ("dest", &["path", "into"]),
    ("destination", &["path", "into"]),
    ("dst", &["path", "into"]),
    ("to", &["target"]),
    ("file", &["path"]),
    ("text", &["content", "line"]),
    ("body", &["content"]),
    ("regexp", &["match"]),
    ("regex", &["match"]),
    ("insertafter", &["after"]),
    ("insertbefore", &["before"]),
    ("marker", &["comment"]),
    ("cmd", &["apply", "command"]),
    ("run", &["apply", "command"]),
    ("job", &["command"]),
    ("unless", &["check"]),
    ("chdir", &["cwd"]),
    ("environment", &["env"]),
    ("become_user", &["user"]),
    ("special_time", &["schedule"]),
    ("on_calendar", &["calendar"]),
    ("opts", &["options"]),
    ("params", &["options"]),
    ("checksum", &["sha256"]),
    ("sysctl_file", &["file"]),
    ("daemon_reload", &[]),
];

/// Returns the key of `known` that an unknown key most likely means.
pub(super) fn guess_known_key<'k>(typed: &str, known: &[&'k str]) -> Option<&'k str> {
    let words = FOREIGN_FIELDS.iter().find(|(word, _)| *word == typed).map(|(_, words)| *words).unwrap_or_default();
    let word = words.iter().find_map(|word| known.iter().find(|known| *known == word));
    word.copied().or_else(|| did_you_mean(typed, known.iter().copied()))
}

/// Reports whether the value of a key is probably a secret.
fn names_secret(key: &str) -> bool {
    let key = key.to_lowercase();
    ["pass", "secret", "token"].iter().any(|word| key.contains(word))
}

/// Returns the error for an unknown key of `what`.
pub(super) fn build_unknown_key_diag(key: &YamlKey, value: &YamlNode, what: &str, known: &[&str]) -> Diag {
    let diag = Diag::error(DiagCode::UnknownKey, format!("unknown key `{}` in {what}", key.text)).with_span(key.span);
    let diag = match names_secret(&key.text) {
        true => list_scalars(value).into_iter().fold(diag, Diag::hiding),
        false => diag,
    };
    let foreign = hint_foreign_state(what, key, value, known).or_else(|| hint_foreign_key(what, &key.text, known));
    if let Some(hint) = foreign.or_else(|| hint_cut_value(key, value)) {
        return diag.hint(hint);
    }
    match guess_known_key(&key.text, known) {
        Some(meant) => diag.hint(format!("did you mean `{meant}`?")),
        None => diag.suggest_name(&key.text, known.iter().copied()),
    }
}

/// Modules and task keywords of Ansible, and their equivalents in forge.
const FOREIGN_STEP_KEYS: &[(&[&str], &str)] = &[
    (&["ensure", "state"], "to remove it, set `ensure: absent` in `apply`, or `when` with `otherwise: absent` here"),
    (&["notify", "listen"], "set `restart_on: [STEP]` on the `service` that must restart"),
    (&["loop", "for_each", "with_items", "with_dict", "with_list", "with_nested"], "did you mean `each`?"),
    (&["if"], "did you mean `when`?"),
    (&["tags"], "select steps by name: `--step` and `--skip`"),
    (
        &["become", "become_user", "become_method", "sudo", "remote_user"],
        "configure `connect: { sudo: … }` in the inventory",
    ),
    (&["template"], "use `file` with `template`: `file: { path: …, template: files/NAME }`"),
    (&["copy"], "use `file` with `source` or `content`: `file: { path: …, source: files/NAME }`"),
    (&["lineinfile", "replace"], "use `line`"),
    (&["blockinfile"], "use `block`"),
    (&["get_url"], "use `artifact`, which needs the file's `sha256`"),
    (&["unarchive"], "use `archive`"),
    (
        &["shell", "raw", "script", "cmd", "run", "exec"],
        "use `command` with a read-only `check` and `apply`: `command: { check: …, apply: … }`",
    ),
    (&["apt", "yum", "dnf", "pip", "apk", "zypper"], "use `package: { names: […] }`"),
    (&["apt_repository_key", "apt_key", "yum_repository"], "use `repository`, which also installs the key"),
    (&["systemd", "systemd_service", "systemctl"], "use `service`, or `unit` for the unit's file"),
    (&["modprobe"], "use `kernel_module`"),
    (&["authorized_key"], "use `ssh_authorized_key`"),
    (&["k8s", "kubectl"], "use `manifest`"),
    (&["helm"], "use `helm_release`"),
    (&["register", "set_fact"], "use `export`, which other steps read as `exports[\"RECIPE\"].NAME`"),
    (
        &["delegate_to", "run_once", "local_action"],
        "apply the recipe to that host in `apply`; other hosts read its `export`",
    ),
    (
        &["ignore_errors", "failed_when", "any_errors_fatal", "rescue", "always"],
        "a failed step stops only its own host: use `retries`, or `when` for optional resources",
    ),
    (&["changed_when", "creates"], "use `command` with a read-only `check`, which exits 0 when no change is needed"),
    (&["until", "delay", "wait_for_connection", "pause"], "use `wait_for`, or `retries`"),
    (&["vars", "vars_files", "environment"], "variables belong to hosts and groups of the inventory, or to `params`"),
    (&["debug", "fail", "assert"], "use `verify` of the recipe, or `rules` for its parameters"),
    (
        &["block", "include_tasks", "import_tasks", "include_role", "import_role", "roles", "include", "import"],
        "to share steps, write a recipe that `uses` other recipes",
    ),
    (&["hosts"], "select hosts with `on` in the recipe's entry of `apply`"),
    (&["handlers", "handler"], "set `restart_on: [STEP]` on the `service` that must restart"),
    (&["async", "poll"], "use `long: true` for a `command` that outlives the connection"),
    (&["args"], "write fields inside the resource, indented below it"),
];

/// Returns a hint for a key that belongs in another place or has another name in forge.
fn hint_foreign_key(what: &str, typed: &str, known: &[&str]) -> Option<String> {
    let of_kind = what.starts_with('`');
    if what == "a step" {
        // Ansible's modules have long names too: `ansible.builtin.copy`.
        let short = typed.rsplit('.').next().unwrap_or(typed);
        let found = FOREIGN_STEP_KEYS.iter().find(|(words, _)| words.contains(&short) && !known.contains(&typed));
        return match found {
            Some((_, hint)) => Some((*hint).to_owned()),
            None if short != typed && known.contains(&short) => Some(format!("did you mean `{short}`?")),
            None => None,
        };
    }
    Some(match (what, typed) {
        ("a parameter", "min" | "max" | "range" | "minimum" | "maximum" | "pattern" | "regex" | "validate") => {
            "use a rule: `rules: [{ require: params.port >= 1024, else: … }]`".to_owned()
        }
        ("a parameter", "required" | "optional") => "a parameter without `default` is required".to_owned(),
        ("a parameter", "choices" | "options" | "enum") => "write `type: enum` and `values: […]`".to_owned(),
        ("a parameter", "description") => "did you mean `doc`?".to_owned(),
        ("a recipe", "when" | "on" | "hosts") => {
            "select hosts with `on` in the recipe's entry of `apply`; in a stack, set `when` next to the used recipe"
                .to_owned()
        }
        ("a recipe", "tasks") => "did you mean `steps`?".to_owned(),
        ("a recipe", "vars" | "defaults") => "did you mean `params`?".to_owned(),
        ("a host", "ansible_host" | "ip" | "host" | "hostname") => "did you mean `address`?".to_owned(),
        ("a host" | "a group" | "an inventory", _) if super::inventory::CONNECT_KEYS.contains(&typed) => {
            format!("connection settings belong in `connect`: `connect: {{ {typed}: … }}`")
        }
        (_, "ensure") if of_kind => {
            "to remove it, set `ensure: absent` in `apply`, or `when` with `otherwise: absent` on the step".to_owned()
        }
        (_, "state") if of_kind && !known.contains(&"state") => {
            "to remove it, set `ensure: absent` in `apply`, or `when` with `otherwise: absent` on the step".to_owned()
        }
        _ if of_kind && !matches!(typed, "name" | "key") && super::recipe::STEP_KEYS.contains(&typed) => {
            format!("move `{typed}` next to {what}")
        }
        _ => return None,
    })
}

/// Returns a hint for a `state` of another tool that does not remove the resource.
fn hint_foreign_state(what: &str, key: &YamlKey, value: &YamlNode, known: &[&str]) -> Option<String> {
    let YamlData::Scalar { text, .. } = &value.data else { return None };
    if !what.starts_with('`') || !["ensure", "state"].contains(&&*key.text) || known.contains(&&*key.text) {
        return None;
    }
    match text.as_str() {
        "latest" if known.contains(&"version") => {
            Some("declare the `version`: forge never upgrades to what happens to be the latest".to_owned())
        }
        "present" | "installed" => Some(format!("remove `{}`: what a step declares is present", key.text)),
        _ => None,
    }
}

/// Detects unquoted text with a comma inside braces: YAML ends a plain value at the first comma and reads the rest as a
/// key without a value.
fn hint_cut_value(key: &YamlKey, value: &YamlNode) -> Option<String> {
    let prose = key.text.contains(' ') && matches!(value.data, YamlData::Null);
    prose.then(|| "inside braces a comma ends a value: quote the whole text".to_owned())
}
