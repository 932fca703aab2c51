//! Resolves templates of variables as Ansible would if all their parts are known. Other templates are not converted.

use crate::config::identifier::is_identifier;
use crate::config::scalar;
use crate::model::Value;

/// Reason for a template that cannot be resolved; it follows the variable's name.
pub(super) const NOT_CARRIED: &str = "is not converted: it contains a template, and variables are literal in forge";

/// Names that Ansible or Jinja reserve, even if the inventory sets them.
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

/// Reports whether a value contains a template.
pub(super) fn has_template(value: &Value) -> bool {
    match value {
        Value::String(text) => scalar::is_template(text),
        Value::Array(items) => items.iter().any(has_template),
        Value::Object(map) => map.values().any(has_template),
        _ => false,
    }
}

/// Reasons for a template whose value grows too large or nests too deeply, or that exceeds the total of the inventory.
pub(super) const TOO_LARGE: &str = "is not converted: its template expands to more than 1 MiB";
pub(super) const TOO_DEEP: &str = "is not converted: its template expands to more than 56 levels";
pub(super) const TOO_MUCH: &str = "is not converted: the inventory's templates expand to more than 64 MiB in total";

/// Limit of the growth of one value over its source, in bytes.
const MAX_VALUE_GROWTH: usize = 1 << 20;
/// Limit of the growth of all values, in bytes. Ten thousand hosts with hundreds of templates each stay far below.
const MAX_INVENTORY_GROWTH: usize = 64 << 20;
/// Limit of nesting levels of a value. A forge inventory may have 64, including the levels around the value.
const MAX_VALUE_LEVELS: usize = 56;
/// Bytes of a value in addition to its text.
const NODE_BYTES: usize = 32;

/// Remaining growth for the templates of an inventory: forty lines that each repeat the previous one twice exceed the
/// memory of any machine. Source text does not count, because the size of the files bounds it.
pub(super) struct TemplateBudget {
    left: usize,
}

impl TemplateBudget {
    pub fn for_inventory() -> Self {
        Self { left: MAX_INVENTORY_GROWTH }
    }
}

/// Remaining growth for one value.
struct ValueBudget<'b> {
    /// Bytes of source text not yet used up.
    written: usize,
    growth: usize,
    budget: &'b mut TemplateBudget,
}

impl ValueBudget<'_> {
    /// Reserves bytes before they are allocated. A value that fails does not return its bytes: the attempt costs time.
    fn take_bytes(&mut self, bytes: usize) -> Result<(), &'static str> {
        let more = bytes.saturating_sub(self.written);
        self.written = self.written.saturating_sub(bytes);
        self.growth = self.growth.checked_sub(more).ok_or(TOO_LARGE)?;
        self.budget.left = self.budget.left.checked_sub(more).ok_or(TOO_MUCH)?;
        Ok(())
    }

    /// Reserves the bytes of a copy of a value at a nesting level.
    fn take_value(&mut self, value: &Value, level: usize) -> Result<(), &'static str> {
        check_level(level)?;
        self.take_bytes(count_own_bytes(value))?;
        match value {
            Value::Array(items) => items.iter().try_for_each(|item| self.take_value(item, level + 1)),
            Value::Object(map) => map.iter().try_for_each(|(key, value)| {
                self.take_bytes(key.len())?;
                self.take_value(value, level + 1)
            }),
            _ => Ok(()),
        }
    }
}

fn check_level(level: usize) -> Result<(), &'static str> {
    if level > MAX_VALUE_LEVELS { Err(TOO_DEEP) } else { Ok(()) }
}

/// Returns the bytes of a value without nested values.
fn count_own_bytes(value: &Value) -> usize {
    NODE_BYTES + value.as_str().map_or(0, str::len)
}

/// Returns the bytes of a value with nested values.
fn count_written_bytes(value: &Value) -> usize {
    let inner: usize = match value {
        Value::Array(items) => items.iter().map(count_written_bytes).sum(),
        Value::Object(map) => map.iter().map(|(key, value)| key.len() + count_written_bytes(value)).sum(),
        _ => 0,
    };
    count_own_bytes(value) + inner
}

/// Collects the names that the templates of a value read, with duplicates.
pub(super) fn collect_names<'v>(value: &'v Value, into: &mut Vec<&'v str>) {
    match value {
        Value::String(text) if scalar::is_template(text) => {
            let names = parse_segments(text).into_iter().flatten().filter_map(|part| match part {
                TemplateSegment::Name(name) => Some(name),
                TemplateSegment::Text(_) => None,
            });
            into.extend(names);
        }
        Value::Array(items) => items.iter().for_each(|item| collect_names(item, into)),
        Value::Object(map) => map.values().for_each(|value| collect_names(value, into)),
        _ => {}
    }
}

/// Resolves the templates of a value if they read only variables that `find` returns.
///
/// # Errors
/// Why the value cannot be converted; the text follows the variable's name.
pub(super) fn resolve_templates<'v>(
    value: &Value,
    find: &dyn Fn(&str) -> Option<&'v Value>,
    budget: &mut TemplateBudget,
) -> Result<Value, &'static str> {
    let mut room = ValueBudget { written: count_written_bytes(value), growth: MAX_VALUE_GROWTH, budget };
    resolve_value(value, 1, find, &mut room)
}

fn resolve_value<'v>(
    value: &Value,
    level: usize,
    find: &dyn Fn(&str) -> Option<&'v Value>,
    room: &mut ValueBudget<'_>,
) -> Result<Value, &'static str> {
    match value {
        Value::String(text) if scalar::is_template(text) => resolve_text(text, level, find, room),
        Value::Array(items) => {
            check_level(level)?;
            room.take_bytes(count_own_bytes(value))?;
            items
                .iter()
                .map(|item| resolve_value(item, level + 1, find, room))
                .collect::<Result<_, _>>()
                .map(Value::Array)
        }
        Value::Object(map) => {
            check_level(level)?;
            room.take_bytes(count_own_bytes(value))?;
            let mut pairs = serde_json::Map::new();
            for (key, value) in map {
                room.take_bytes(key.len())?;
                pairs.insert(key.clone(), resolve_value(value, level + 1, find, room)?);
            }
            Ok(Value::Object(pairs))
        }
        plain => {
            room.take_value(plain, level)?;
            Ok(plain.clone())
        }
    }
}

/// Resolves a text. A text that is a single template keeps the type of its variable; inside other text, only strings
/// and integers are supported.
fn resolve_text<'v>(
    text: &str,
    level: usize,
    find: &dyn Fn(&str) -> Option<&'v Value>,
    room: &mut ValueBudget<'_>,
) -> Result<Value, &'static str> {
    let parts = parse_segments(text).ok_or(NOT_CARRIED)?;
    if let [TemplateSegment::Name(name)] = parts.as_slice() {
        let value = find(name).ok_or(NOT_CARRIED)?;
        room.take_value(value, level)?;
        return Ok(value.clone());
    }
    room.take_bytes(NODE_BYTES)?;
    let mut out = String::new();
    let mut push = |text: &str| room.take_bytes(text.len()).map(|()| out.push_str(text));
    for part in parts {
        match part {
            TemplateSegment::Text(text) => push(text)?,
            TemplateSegment::Name(name) => match find(name).ok_or(NOT_CARRIED)? {
                Value::String(text) => push(text)?,
                Value::Number(number) if number.is_i64() => push(&number.to_string())?,
                _ => return Err(NOT_CARRIED),
            },
        }
    }
    // Ansible does not render a result again, but forge would reject it as a template.
    if scalar::is_template(&out) { Err(NOT_CARRIED) } else { Ok(Value::from(out)) }
}

enum TemplateSegment<'t> {
    Text(&'t str),
    Name(&'t str),
}

/// Splits a text at `{{ name }}`. Returns `None` for filters, expressions, statements and comments.
fn parse_segments(text: &str) -> Option<Vec<TemplateSegment<'_>>> {
    let mut parts = Vec::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("{{") {
        let (inside, behind) = after.split_once("}}")?;
        let name = inside.trim_matches(' ');
        if !is_identifier(name) || RESERVED.contains(&name) {
            return None;
        }
        parts.extend((!before.is_empty()).then_some(TemplateSegment::Text(before)));
        parts.push(TemplateSegment::Name(name));
        rest = behind;
    }
    parts.extend((!rest.is_empty()).then_some(TemplateSegment::Text(rest)));
    let is_plain = |part: &TemplateSegment<'_>| match part {
        TemplateSegment::Text(text) => !["{%", "{#", "}}"].iter().any(|mark| text.contains(mark)),
        TemplateSegment::Name(_) => true,
    };
    parts.iter().all(is_plain).then_some(parts)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn only_known_names_are_resolved() {
        // Reserved names of Ansible override the inventory.
        let known = json!({ "a": "/srv", "n": 80, "on": true, "l": [1], "inventory_hostname": "x" });
        let find = |name: &str| known.get(name);
        for (text, resolved) in [
            (json!("{{ a }}/x"), Some(json!("/srv/x"))),
            (json!("{{a}}:{{ n }}"), Some(json!("/srv:80"))),
            (json!("{{ n }}"), Some(json!(80))),
            (json!("{{ on }}"), Some(json!(true))),
            (json!(["{{ a }}", 1, { "k": "{{ l }}" }]), Some(json!(["/srv", 1, { "k": [1] }]))),
            // Python's formatting of these values is not reproduced.
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
            let found = resolve_templates(&text, &find, &mut TemplateBudget::for_inventory());
            assert_eq!(found, resolved.ok_or(NOT_CARRIED), "{text}");
        }
    }

    #[test]
    fn template_expansion_has_size_and_depth_limits() {
        let nested = (0..50).fold(json!("x"), |inner, _| json!([inner]));
        let known = json!({ "text": "x".repeat(1000), "list": vec!["x"; 100], "nested": nested });
        let find = |name: &str| known.get(name);
        let mut budget = TemplateBudget::for_inventory();
        let mut made =
            |value: &Value| resolve_templates(value, &find, &mut budget).map(|value| count_written_bytes(&value));
        assert_eq!(made(&Value::from("{{ text }}".repeat(1000))), Ok(NODE_BYTES + 1_000_000));
        assert_eq!(made(&Value::from("{{ text }}".repeat(1100))), Err(TOO_LARGE));
        assert_eq!(made(&json!(vec!["{{ list }}"; 1000])), Err(TOO_LARGE));
        assert_eq!(made(&json!({ "a": vec!["{{ list }}"; 1000] })), Err(TOO_LARGE));
        assert!(made(&json!([[[["{{ nested }}"]]]])).is_ok());
        assert_eq!(made(&json!([[[[[["{{ nested }}"]]]]]])), Err(TOO_DEEP));
        // Source text does not count, however large it is.
        let long = json!(["y".repeat(3 << 20), "{{ text }}"]);
        assert!((0..100).all(|_| made(&long).is_ok()));
        let all = (0..100).map(|_| made(&Value::from("{{ text }}".repeat(1000)))).collect::<Vec<_>>();
        assert_eq!((all[0].is_ok(), &all[99]), (true, &Err(TOO_MUCH)));
        assert_eq!(made(&json!("{{ text }}{{ text }}")), Err(TOO_MUCH));
        assert!(made(&json!("{{ nested }} is no text")).is_err_and(|why| why == NOT_CARRIED));
    }
}
