//! Keys that are not known: what people mean by them, as far as that can be told.

use super::{Data, Key, Node};
use crate::diag::{Code, Diag, did_you_mean};

/// Words of Ansible and its like, and what they are called here. The first of them that a kind has is meant.
const WORDS: &[(&str, &[&str])] = &[
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

/// Returns which of `known` is meant by a key that is none of them.
pub(super) fn meant<'k>(typed: &str, known: &[&'k str]) -> Option<&'k str> {
    let words = WORDS.iter().find(|(word, _)| *word == typed).map(|(_, words)| *words).unwrap_or_default();
    let word = words.iter().find_map(|word| known.iter().find(|known| *known == word));
    word.copied().or_else(|| did_you_mean(typed, known.iter().copied()))
}

/// The message for a key that `what` does not have.
pub(super) fn key(key: &Key, value: &Node, what: &str, known: &[&str]) -> Diag {
    let diag = Diag::error(Code::UnknownKey, format!("unknown key `{}` in {what}", key.text)).at(key.span);
    if let Some(hint) = elsewhere(what, &key.text, known).or_else(|| cut(key, value)) {
        return diag.hint(hint);
    }
    match meant(&key.text, known) {
        Some(meant) => diag.hint(format!("did you mean `{meant}`?")),
        None => diag.suggest(&key.text, known.iter().copied()),
    }
}

/// Modules and task keywords of Ansible, and how forge says the same.
const OF_STEPS: &[(&[&str], &str)] = &[
    (&["ensure", "state"], "removal is said at the entry of `apply`, or here by `when` and `otherwise: absent`"),
    (&["notify", "listen"], "state it at the `service` that is to restart: `restart_on: [STEP]`"),
    (&["loop", "for_each", "with_items", "with_dict", "with_list", "with_nested"], "did you mean `each`?"),
    (&["if"], "did you mean `when`?"),
    (&["tags"], "steps are picked by their names: `--step` and `--skip`"),
    (
        &["become", "become_user", "become_method", "sudo", "remote_user"],
        "how a host's root is reached is said by `connect: { sudo: … }` in the inventory",
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
    (&["apt_repository_key", "apt_key", "yum_repository"], "use `apt_repository`, which takes the key as well"),
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
        "a failed step stops its own host only: use `retries`, or `when` for what may be missing",
    ),
    (&["changed_when", "creates"], "use `command` with a read-only `check`, which exits 0 when nothing is left to do"),
    (&["until", "delay", "wait_for_connection", "pause"], "use `wait_for`, or `retries`"),
    (&["vars", "vars_files", "environment"], "variables belong to hosts and groups of the inventory, or to `params`"),
    (&["debug", "fail", "assert"], "use `verify` of the recipe, or `rules` for its parameters"),
    (
        &["block", "include_tasks", "import_tasks", "include_role", "import_role", "roles", "include", "import"],
        "a recipe that `uses` others is how steps are shared",
    ),
    (&["hosts"], "which hosts it is for is said by `on` of its entry in `apply`"),
    (&["handlers", "handler"], "state it at the `service` that is to restart: `restart_on: [STEP]`"),
    (&["async", "poll"], "use `long: true` for a `command` that outlives the connection"),
    (&["args"], "fields belong inside the resource, indented below it"),
];

/// What is said in another place, or in another way.
fn elsewhere(what: &str, typed: &str, known: &[&str]) -> Option<String> {
    let of_kind = what.starts_with('`');
    if what == "a step" {
        // Ansible's modules have long names too: `ansible.builtin.copy`.
        let short = typed.rsplit('.').next().unwrap_or(typed);
        let found = OF_STEPS.iter().find(|(words, _)| words.contains(&short) && !known.contains(&typed));
        return match found {
            Some((_, hint)) => Some((*hint).to_owned()),
            None if short != typed && known.contains(&short) => Some(format!("did you mean `{short}`?")),
            None => None,
        };
    }
    Some(match (what, typed) {
        ("a parameter", "min" | "max" | "range" | "minimum" | "maximum" | "pattern" | "regex" | "validate") => {
            "a rule does that: `rules: [{ require: params.port >= 1024, else: … }]`".to_owned()
        }
        ("a parameter", "required" | "optional") => "a parameter without `default` has to be given".to_owned(),
        ("a parameter", "choices" | "options" | "enum") => "write `type: enum` and `values: […]`".to_owned(),
        ("a parameter", "description") => "did you mean `doc`?".to_owned(),
        ("a recipe", "when" | "on" | "hosts") => {
            "which hosts it is for is said by `on` of its entry in `apply`; a stack says `when` beside a recipe it uses"
                .to_owned()
        }
        ("a recipe", "tasks") => "did you mean `steps`?".to_owned(),
        ("a recipe", "vars" | "defaults") => "did you mean `params`?".to_owned(),
        ("a host", "ansible_host" | "ip" | "host" | "hostname") => "did you mean `address`?".to_owned(),
        ("a host" | "a group" | "an inventory", _) if super::inventory::CONNECT_KEYS.contains(&typed) => {
            format!("it says how hosts are reached: `connect: {{ {typed}: … }}`")
        }
        (_, "ensure") if of_kind => {
            "removal is said at the entry of `apply`, or at the step by `when` and `otherwise: absent`".to_owned()
        }
        (_, "state") if of_kind && !known.contains(&"state") => {
            "removal is said at the entry of `apply`, or at the step by `when` and `otherwise: absent`".to_owned()
        }
        _ if of_kind && !matches!(typed, "name" | "key") && super::recipe::COMMON.contains(&typed) => {
            format!("`{typed}` belongs beside {what}, not inside")
        }
        _ => return None,
    })
}

/// In braces a plain value ends at its first comma: what follows reads as a key without a value.
fn cut(key: &Key, value: &Node) -> Option<String> {
    let prose = key.text.contains(' ') && matches!(value.data, Data::Null);
    prose.then(|| "in braces a comma ends a value: quote the text that this is a part of".to_owned())
}
