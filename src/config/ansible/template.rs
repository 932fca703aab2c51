//! Templates of variables whose parts are all known: resolved as Ansible would, and left alone in every other case.

use crate::config::inventory::is_identifier;
use crate::config::scalar;
use crate::model::Value;

/// Why a template is not carried that cannot be resolved: it follows the variable's name.
pub(super) const NOT_CARRIED: &str = "holds a template, and variables are literal in forge";

/// Names that mean something of Ansible's own or of Jinja's, whatever the inventory says.
const RESERVED: [&str; 18] = [
    "false",
    "False",
    "true",
    "True",
    "none",
    "None",
    "inventory_hostname",
    "inventory_hostname_short",
    "inventory_dir",
    "inventory_file",
    "group_names",
    "groups",
    "hostvars",
    "omit",
    "play_hosts",
    "playbook_dir",
    "role_path",
    "vars",
];

/// Returns whether a template stands anywhere in a value.
pub(super) fn is_in(value: &Value) -> bool {
    match value {
        Value::String(text) => scalar::is_template(text),
        Value::Array(items) => items.iter().any(is_in),
        Value::Object(map) => map.values().any(is_in),
        _ => false,
    }
}

/// Returns a value with its templates resolved, where each of them only names variables that `find` knows.
pub(super) fn resolve(value: &Value, find: &dyn Fn(&str) -> Option<Value>) -> Option<Value> {
    match value {
        Value::String(text) if scalar::is_template(text) => resolve_text(text, find),
        Value::Array(items) => items.iter().map(|item| resolve(item, find)).collect::<Option<_>>().map(Value::Array),
        Value::Object(map) => {
            let pairs = map.iter().map(|(key, value)| Some((key.clone(), resolve(value, find)?)));
            pairs.collect::<Option<_>>().map(Value::Object)
        }
        plain => Some(plain.clone()),
    }
}

/// A text that is one template has the type of its variable; between other text, text and whole numbers are written out.
fn resolve_text(text: &str, find: &dyn Fn(&str) -> Option<Value>) -> Option<Value> {
    let parts = parse(text)?;
    if let [TemplatePart::Name(name)] = parts.as_slice() {
        return find(name);
    }
    let mut out = String::new();
    for part in parts {
        match part {
            TemplatePart::Text(text) => out.push_str(text),
            TemplatePart::Name(name) => match find(name)? {
                Value::String(text) => out.push_str(&text),
                Value::Number(number) if number.is_i64() => out.push_str(&number.to_string()),
                _ => return None,
            },
        }
    }
    // Ansible renders no result again; forge would refuse it as a template.
    Some(out).filter(|out| !scalar::is_template(out)).map(Value::from)
}

enum TemplatePart<'t> {
    Text(&'t str),
    Name(&'t str),
}

/// Splits a text at `{{ name }}`. Filters, expressions, statements and comments are left to Ansible.
fn parse(text: &str) -> Option<Vec<TemplatePart<'_>>> {
    let mut parts = Vec::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("{{") {
        let (inside, behind) = after.split_once("}}")?;
        let name = inside.trim_matches(' ');
        if !is_identifier(name) || RESERVED.contains(&name) {
            return None;
        }
        parts.extend((!before.is_empty()).then_some(TemplatePart::Text(before)));
        parts.push(TemplatePart::Name(name));
        rest = behind;
    }
    parts.extend((!rest.is_empty()).then_some(TemplatePart::Text(rest)));
    let is_plain = |part: &TemplatePart<'_>| match part {
        TemplatePart::Text(text) => !["{%", "{#", "}}"].iter().any(|mark| text.contains(mark)),
        TemplatePart::Name(_) => true,
    };
    parts.iter().all(is_plain).then_some(parts)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn only_names_that_are_known_are_resolved() {
        let find = |name: &str| match name {
            "a" => Some(json!("/srv")),
            "n" => Some(json!(80)),
            "on" => Some(json!(true)),
            "l" => Some(json!([1])),
            // Whatever an inventory says, Ansible's own wins.
            "inventory_hostname" => Some(json!("x")),
            _ => None,
        };
        for (text, resolved) in [
            (json!("{{ a }}/x"), Some(json!("/srv/x"))),
            (json!("{{a}}:{{ n }}"), Some(json!("/srv:80"))),
            (json!("{{ n }}"), Some(json!(80))),
            (json!("{{ on }}"), Some(json!(true))),
            (json!(["{{ a }}", 1, { "k": "{{ l }}" }]), Some(json!(["/srv", 1, { "k": [1] }]))),
            // How these are written out is a matter of Python's.
            (json!("x{{ on }}"), None),
            (json!("x{{ l }}"), None),
            (json!("{{ b }}/x"), None),
            (json!("{{ a | upper }}"), None),
            (json!("{{ a.b }}"), None),
            (json!("{{- a }}"), None),
            (json!("{{ a }}{% if a %}{% endif %}"), None),
            (json!("{{ a }}{# c #}"), None),
            (json!("{{ a"), None),
            (json!("{{ 'a' }}"), None),
            (json!("{{ inventory_hostname }}"), None),
        ] {
            assert_eq!(resolve(&text, &find), resolved, "{text}");
        }
    }
}
