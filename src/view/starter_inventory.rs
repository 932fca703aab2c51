//! The YAML text of the initial inventory that `forge init` writes.
//!
//! The text parses to the original values: strings that look like a number, a boolean or another type are quoted.

use super::fold::fold_names;
use crate::config::{StarterConnect, StarterGroup, StarterHost, StarterInventory};
use crate::model::Value;
use indexmap::IndexMap;
use std::fmt::Write as _;

/// The starter recipe next to a new inventory.
pub const STARTER_RECIPE: &str = include_str!("starter_inventory/hello.yaml");

/// Returns the text of an inventory. `from` is the file it is created from.
pub fn render_inventory(starting: &StarterInventory, from: Option<&str>) -> String {
    let mut out = header_comment(from);
    push_line(&mut out, 0, &format!("cluster: {}", yaml_scalar(&starting.cluster)));
    out.push_str(CONNECT_EXAMPLE);
    out.push_str("\nhosts:\n");
    push_hosts(&mut out, &starting.hosts);
    push_groups(&mut out, &starting.groups);
    out.push_str(if from.is_some() { APPLY_EXAMPLE } else { APPLY_SECTION });
    out
}

fn header_comment(from: Option<&str>) -> String {
    match from {
        // A line break in a file name must not end the comment.
        Some(from) => format!("# Created from {} by `forge init --from-ansible`.\n", yaml_scalar(from)),
        None => "# Created by `forge init`. `forge validate` checks it without contacting a host.\n".to_owned(),
    }
}

const CONNECT_EXAMPLE: &str = "
# Connection settings. Groups and hosts can override them. `~/.ssh/config` applies too.
# connect: { user: root, identity: ~/.ssh/id_ed25519 }
# connect: { user: admin, sudo: true }
";

const APPLY_SECTION: &str = "
# Recipes to apply, and their hosts. The recipe `NAME` is the file recipes/NAME.yaml.
apply:
  - { recipe: hello, on: all }
";

const APPLY_EXAMPLE: &str = "
# Recipes to apply, and their hosts. The recipe `NAME` is the file recipes/NAME.yaml.
# apply:
#   - { recipe: hello, on: all }
";

fn push_line(out: &mut String, indent: usize, text: &str) {
    // Writing to a `String` cannot fail.
    let _ = writeln!(out, "{:indent$}{text}", "");
}

/// Writes hosts. Consecutive hosts with equal settings share a line. Hosts with an address and ranges have their own.
fn push_hosts(out: &mut String, hosts: &IndexMap<String, StarterHost>) {
    let mut runs: Vec<(Vec<&str>, &StarterHost)> = Vec::new();
    for (name, host) in hosts {
        let joins = |names: &[&str], last: &StarterHost| {
            last == host
                && host.address.is_none()
                && !name.contains('[')
                && !names.iter().any(|name| name.contains('['))
        };
        match runs.last_mut().filter(|(names, last)| joins(names, last)) {
            Some((names, _)) => names.push(name),
            None => runs.push((vec![name], host)),
        }
    }
    for (names, host) in runs {
        if let [range] = names.as_slice() {
            push_host(out, range, host);
            continue;
        }
        fold_names(names).split(',').for_each(|pattern| push_host(out, pattern, host));
    }
}

fn push_host(out: &mut String, pattern: &str, host: &StarterHost) {
    if *host == StarterHost::default() {
        return push_line(out, 2, &format!("{}: {{}}", block_key(pattern)));
    }
    push_line(out, 2, &format!("{}:", block_key(pattern)));
    if let Some(address) = &host.address {
        push_line(out, 4, &format!("address: {}", yaml_scalar(address)));
    }
    push_connect(out, &host.connect);
    push_vars(out, &host.vars);
}

fn push_groups(out: &mut String, groups: &IndexMap<String, StarterGroup>) {
    if groups.is_empty() {
        out.push_str("\n# groups:\n#   gpu: { hosts: [\"gpu*\"], vars: { rack: a } }\n");
        return;
    }
    out.push_str("\ngroups:\n");
    for (name, group) in groups {
        if *group == StarterGroup::default() {
            push_line(out, 2, &format!("{}: {{}}", block_key(name)));
            continue;
        }
        push_line(out, 2, &format!("{}:", block_key(name)));
        push_list(out, "hosts", &fold_patterns(&group.hosts));
        push_list(out, "groups", &group.groups);
        push_connect(out, &group.connect);
        push_vars(out, &group.vars);
    }
}

fn fold_patterns(names: &[String]) -> Vec<String> {
    let text = fold_names(names.iter().map(String::as_str));
    text.split(',').filter(|name| !name.is_empty()).map(str::to_owned).collect()
}

fn push_list(out: &mut String, name: &str, items: &[String]) {
    if !items.is_empty() {
        let items: Vec<String> = items.iter().map(|item| yaml_scalar(item)).collect();
        push_line(out, 4, &format!("{name}: [{}]", items.join(", ")));
    }
}

fn push_connect(out: &mut String, settings: &StarterConnect) {
    if settings.is_empty() {
        return;
    }
    let settings: Vec<String> = settings.iter().map(|(key, value)| format!("{key}: {}", flow_value(value))).collect();
    push_line(out, 4, &format!("connect: {{ {} }}", settings.join(", ")));
}

fn push_vars(out: &mut String, vars: &IndexMap<String, Value>) {
    if vars.is_empty() {
        return;
    }
    push_line(out, 4, "vars:");
    vars.iter().for_each(|(name, value)| push_value(out, 6, &format!("{}:", block_key(name)), value));
}

/// Writes `lead` and a value after or below it.
fn push_value(out: &mut String, indent: usize, lead: &str, value: &Value) {
    match value {
        Value::Object(map) if !map.is_empty() => {
            push_line(out, indent, lead);
            map.iter().for_each(|(name, value)| push_value(out, indent + 2, &format!("{}:", block_key(name)), value));
        }
        Value::Array(items) if items.iter().any(|item| item.is_object() || item.is_array()) => {
            push_line(out, indent, lead);
            items.iter().for_each(|item| push_line(out, indent + 2, &format!("- {}", flow_value(item))));
        }
        value => push_line(out, indent, &format!("{lead} {}", flow_value(value))),
    }
}

/// Returns a value as one line of YAML.
fn flow_value(value: &Value) -> String {
    match value {
        Value::String(text) => yaml_scalar(text),
        Value::Array(items) => format!("[{}]", items.iter().map(flow_value).collect::<Vec<_>>().join(", ")),
        Value::Object(map) if map.is_empty() => "{}".to_owned(),
        Value::Object(map) => {
            let entries: Vec<String> =
                map.iter().map(|(name, value)| format!("{}: {}", yaml_scalar(name), flow_value(value))).collect();
            format!("{{ {} }}", entries.join(", "))
        }
        other => other.to_string(),
    }
}

/// Returns a key of a block mapping. Ranges need no quotes there.
fn block_key(text: &str) -> String {
    let range = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-' | '[' | ']' | ':');
    let starts = text.starts_with(|c: char| c.is_ascii_alphabetic());
    match starts && text.contains('[') && text.chars().all(range) && !text.ends_with(':') {
        true => text.to_owned(),
        false => yaml_scalar(text),
    }
}

/// Returns text as a scalar, quoted unless every YAML reader parses it as the same string.
fn yaml_scalar(text: &str) -> String {
    let inner = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-' | '/' | '@' | '+' | ' ');
    let first = text.starts_with(|c: char| c.is_ascii_alphabetic() || matches!(c, '/' | '_')) || text.starts_with("~/");
    let rest = text.strip_prefix('~').unwrap_or(text);
    match first && rest.chars().all(inner) && !text.ends_with(' ') && !is_reserved_word(text) {
        true => text.to_owned(),
        false => quote_scalar(text),
    }
}

/// Reports whether some YAML reader parses a word as a boolean or null.
fn is_reserved_word(text: &str) -> bool {
    const WORDS: [&str; 9] = ["true", "false", "yes", "no", "on", "off", "y", "n", "null"];
    WORDS.contains(&text.to_ascii_lowercase().as_str())
}

fn quote_scalar(text: &str) -> String {
    let mut out = String::from('"');
    for c in text.chars() {
        // Writing to a `String` cannot fail.
        let _ = match c {
            '"' | '\\' => write!(out, "\\{c}"),
            '\n' => write!(out, "\\n"),
            '\t' => write!(out, "\\t"),
            c if super::escape::is_hidden_char(c) => write!(out, "\\U{:08x}", u32::from(c)),
            c => write!(out, "{c}"),
        };
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests;
