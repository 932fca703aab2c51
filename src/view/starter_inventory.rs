//! The YAML text of the initial inventory that `forge init` writes.
//!
//! The comments and the layout are of this file, names and values are written by a library.

use super::escape::{escape_line, is_hidden_char};
use super::fold::fold_names;
use crate::config::{StarterConnect, StarterGroup, StarterHost, StarterInventory};
use crate::model::{Value, render_yaml_block};
use indexmap::IndexMap;
use std::fmt::Write as _;

/// The starter recipe next to a new inventory.
pub const STARTER_RECIPE: &str = include_str!("starter_inventory/hello.yaml");

/// Returns the text of an inventory. `from` is the file it is created from.
pub fn render_inventory(starting: &StarterInventory, from: Option<&str>) -> String {
    let mut out = header_comment(from);
    push_entry(&mut out, 0, "cluster", &starting.cluster.as_str().into());
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
        Some(from) => format!("# Created from {} by `forge init --from-ansible`.\n", escape_line(from)),
        None => "# Created by `forge init`. `forge validate` checks it without contacting a host.\n".to_owned(),
    }
}

const CONNECT_EXAMPLE: &str = "
# Connection settings. Groups and hosts can override them. `~/.ssh/config` applies too.
# connect: { user: root, identity: ~/.ssh/id_ed25519 }
# connect: { user: admin, sudo: true }
";

const APPLY_SECTION: &str = "
# Recipes to apply, and their hosts. A file in recipes/ declares each, as `recipe: NAME`.
apply:
  - { recipe: hello, on: all }
";

const APPLY_EXAMPLE: &str = "
# Recipes to apply, and their hosts. A file in recipes/ declares each, as `recipe: NAME`.
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
    push_name(out, pattern, *host == StarterHost::default());
    if let Some(address) = &host.address {
        push_entry(out, 4, "address", &address.as_str().into());
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
        push_name(out, name, *group == StarterGroup::default());
        push_list(out, "hosts", fold_patterns(&group.hosts));
        push_list(out, "groups", group.groups.clone());
        push_connect(out, &group.connect);
        push_vars(out, &group.vars);
    }
}

fn fold_patterns(names: &[String]) -> Vec<String> {
    let text = fold_names(names.iter().map(String::as_str));
    text.split(',').filter(|name| !name.is_empty()).map(str::to_owned).collect()
}

fn push_list(out: &mut String, name: &str, items: Vec<String>) {
    if !items.is_empty() {
        push_entry(out, 4, name, &items.into());
    }
}

fn push_connect(out: &mut String, settings: &StarterConnect) {
    if !settings.is_empty() {
        let settings = settings.iter().map(|(key, value)| ((*key).to_owned(), value.clone()));
        push_entry(out, 4, "connect", &Value::Object(settings.collect()));
    }
}

fn push_vars(out: &mut String, vars: &IndexMap<String, Value>) {
    if !vars.is_empty() {
        push_line(out, 4, "vars:");
        vars.iter().for_each(|(name, value)| push_entry(out, 6, name, value));
    }
}

/// Writes the name of a host or group, whose settings follow unless it `is_empty`. The library quotes the brackets and
/// the colon of a range, which need no quotes in a key of block style.
fn push_name(out: &mut String, name: &str, is_empty: bool) {
    let range = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-' | '[' | ']' | ':');
    let starts = name.starts_with(|c: char| c.is_ascii_alphabetic());
    let entry = match starts && name.contains('[') && name.chars().all(range) && !name.ends_with(':') {
        true => format!("{name}: {{}}"),
        false => render_entry(name, &Value::Object(serde_json::Map::new())),
    };
    let entry = entry.trim_end();
    push_line(out, 2, if is_empty { entry } else { entry.strip_suffix(" {}").unwrap_or(entry) });
}

/// Writes `name: value`, in block style.
fn push_entry(out: &mut String, indent: usize, name: &str, value: &Value) {
    for line in render_entry(name, value).split_terminator('\n') {
        push_line(out, if line.is_empty() { 0 } else { indent }, line);
    }
}

/// Returns `name: value`. Two kinds of text are quoted that the library leaves unquoted: with hidden characters, which
/// it does not escape (U+202E), and ending in blank lines, to which blank lines of the inventory would add.
fn render_entry(name: &str, value: &Value) -> String {
    let entry = render_yaml_block(&Value::Object([(name.to_owned(), value.clone())].into_iter().collect()));
    match entry.contains(is_hidden_char) || entry.ends_with("\n\n") {
        true => format!("{}: {}\n", quote_json(&name.into()), quote_json(value)),
        false => entry,
    }
}

/// Returns a value as JSON, which is YAML too, with hidden characters escaped.
fn quote_json(value: &Value) -> String {
    let mut out = String::new();
    for c in value.to_string().chars() {
        // Writing to a `String` cannot fail.
        let _ = match is_hidden_char(c) {
            true => write!(out, "\\U{:08x}", u32::from(c)),
            false => write!(out, "{c}"),
        };
    }
    out
}

#[cfg(test)]
mod tests;
