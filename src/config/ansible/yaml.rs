//! Parses YAML inventories and variables files, as Ansible's `yaml` plugin does.

use super::files::AnsibleFile;
use super::inventory::{AnsibleImportLog, AnsibleInventory, AnsibleValue, AnsibleVar, AnsibleVars};
use super::{host_patterns, template, yaml11_scalar};
use crate::config::{YamlData, YamlKey, YamlNode};
use crate::diag::{Diag, DiagCode, Span};
use crate::model::Value;
use std::collections::HashMap;

/// A document with its tags, which forge's own parser rejects: here they determine how a value is read.
pub(super) struct TaggedDocument {
    pub node: YamlNode,
    tags: HashMap<Span, String>,
}

/// Parses the text of a file. Pushes errors to `diags`.
pub(super) fn parse_document(text: &AnsibleFile, diags: &mut Vec<Diag>) -> Option<TaggedDocument> {
    let mut found = Vec::new();
    let (node, tags) = crate::config::yaml::parse_with_tags(text.file, &text.text, &mut found);
    // A forbidden character is listed later as a difference of the value that contains it.
    diags.extend(found.into_iter().filter(|diag| diag.code != DiagCode::ForbiddenCharacter));
    Some(TaggedDocument { node: node?, tags: tags.into_iter().collect() })
}

/// Parses a document into `inventory`.
pub(super) fn read_yaml_inventory(
    document: &TaggedDocument,
    inventory: &mut AnsibleInventory,
    reading: &mut AnsibleImportLog,
) {
    let mut reader = YamlInventoryReader { document, inventory, reading };
    let node = &document.node;
    let YamlData::Map(entries) = &node.data else {
        return reader.report_error(node.span, "an inventory must be a map of groups");
    };
    if let Some((key, _)) = entries.iter().find(|(key, _)| key.text == "plugin") {
        return reader
            .report_error(key.span, "this file configures an Ansible plugin that queries another system for hosts");
    }
    for (key, node) in entries {
        reader.read_group(key, node);
    }
}

/// Returns the variables of a file of `group_vars` or `host_vars`.
pub(super) fn read_vars(document: &TaggedDocument, reading: &mut AnsibleImportLog) -> AnsibleVars {
    match &document.node.data {
        YamlData::Null => AnsibleVars::new(),
        YamlData::Map(entries) => convert_vars(entries, document, reading),
        _ => {
            reading.push_diag(
                Diag::error(DiagCode::WrongType, "a variables file must be a map").with_span(document.node.span),
            );
            AnsibleVars::new()
        }
    }
}

struct YamlInventoryReader<'r> {
    document: &'r TaggedDocument,
    inventory: &'r mut AnsibleInventory,
    reading: &'r mut AnsibleImportLog,
}

impl YamlInventoryReader<'_> {
    fn report_error(&mut self, span: Span, message: impl Into<String>) {
        self.reading.push_diag(Diag::error(DiagCode::WrongType, message).with_span(span));
    }

    /// Lists an entry that Ansible ignores with a warning.
    fn record_skipped(&mut self, key: &YamlKey, why: &str) {
        let place = self.reading.format_location(key.span);
        self.reading.record_difference(format!("`{}` {why}", key.text), place);
    }

    /// Adds a group. Returns false if the entry is not a group.
    fn read_group(&mut self, key: &YamlKey, node: &YamlNode) -> bool {
        let entries: &[(YamlKey, YamlNode)] = match &node.data {
            YamlData::Null => &[],
            YamlData::Map(entries) => entries,
            _ => {
                self.record_skipped(key, "is not a group: Ansible ignores it too");
                return false;
            }
        };
        self.inventory.add_group(&key.text);
        for (part, node) in entries {
            self.read_group_entry(&key.text, part, node);
        }
        true
    }

    fn read_group_entry(&mut self, group: &str, part: &YamlKey, node: &YamlNode) {
        match (part.text.as_str(), &node.data) {
            (_, YamlData::Null) => {}
            ("vars", YamlData::Map(entries)) => {
                for (key, var) in convert_vars(entries, self.document, self.reading) {
                    self.inventory.set_var(group, &key, var);
                }
            }
            ("children", YamlData::Map(entries)) => {
                entries.iter().for_each(|(key, node)| self.read_child(group, key, node))
            }
            ("hosts", YamlData::Map(entries)) => {
                entries.iter().for_each(|(key, node)| self.read_host(group, key, node))
            }
            ("children" | "hosts", YamlData::Scalar { text, .. }) => {
                let (key, node) = (
                    YamlKey { text: text.clone(), span: node.span },
                    YamlNode { data: YamlData::Null, ..node.clone() },
                );
                match part.text.as_str() {
                    "children" => self.read_child(group, &key, &node),
                    _ => self.read_host(group, &key, &node),
                }
            }
            ("vars" | "children" | "hosts", _) => {
                self.report_error(node.span, format!("`{}` must be a map", part.text))
            }
            _ => self.record_skipped(part, "is not a key of a group: Ansible ignores it too"),
        }
    }

    fn read_child(&mut self, group: &str, key: &YamlKey, node: &YamlNode) {
        if self.read_group(key, node) && !self.inventory.add_child(group, &key.text) {
            let message = format!("groups `{group}` and `{}` contain each other", key.text);
            self.reading.push_diag(Diag::error(DiagCode::GroupCycle, message).with_span(key.span));
        }
    }

    fn read_host(&mut self, group: &str, key: &YamlKey, node: &YamlNode) {
        let vars = match &node.data {
            YamlData::Null => AnsibleVars::new(),
            YamlData::Map(entries) => convert_vars(entries, self.document, self.reading),
            _ => return self.report_error(node.span, format!("host `{}` must be a map of its variables", key.text)),
        };
        match host_patterns::expand_pattern(&key.text) {
            Ok((names, port)) => self.inventory.add_hosts(&names, port, &vars, group, key.span),
            Err(why) => {
                let message = format!("host `{}`: {why}", key.text);
                self.reading.push_diag(Diag::error(DiagCode::BadRange, message).with_span(key.span));
            }
        }
    }
}

fn convert_vars(
    entries: &[(YamlKey, YamlNode)],
    document: &TaggedDocument,
    reading: &mut AnsibleImportLog,
) -> AnsibleVars {
    entries.iter().map(|(key, node)| (key.text.clone(), convert_var(key, node, document, reading))).collect()
}

fn convert_var(
    key: &YamlKey,
    node: &YamlNode,
    document: &TaggedDocument,
    reading: &mut AnsibleImportLog,
) -> AnsibleVar {
    let mut notes = Vec::new();
    let value = match convert_value(node, document, &mut notes) {
        Ok(value) => AnsibleValue::from_value(value),
        Err(why) => AnsibleValue::Lost(why),
    };
    let place = reading.format_location(key.span);
    notes.into_iter().for_each(|note| reading.record_difference(format!("`{}`: {note}", key.text), place.clone()));
    AnsibleVar { value, span: key.span }
}

fn convert_value(node: &YamlNode, document: &TaggedDocument, notes: &mut Vec<String>) -> Result<Value, String> {
    let tag = document.tags.get(&node.span).map(String::as_str);
    match tag {
        Some("!vault" | "!vault-encrypted") => {
            return Err("is encrypted with Ansible Vault; forge reads secrets as `{ env: NAME }` or `{ file: PATH }`"
                .to_owned());
        }
        // Ansible does not render it, but forge could not distinguish it from a template.
        Some("!unsafe") => {
            let value = convert_untagged(node, document, notes)?;
            return if template::has_template(&value) { Err(template::NOT_CARRIED.to_owned()) } else { Ok(value) };
        }
        None => {}
        Some(other) => return Err(format!("has the tag `{other}`, which forge does not support")),
    }
    convert_untagged(node, document, notes)
}

fn convert_untagged(node: &YamlNode, document: &TaggedDocument, notes: &mut Vec<String>) -> Result<Value, String> {
    match &node.data {
        YamlData::Null | YamlData::Unknown(_) => Ok(Value::Null),
        YamlData::Scalar { text, quoted: true } => Ok(Value::from(text.as_str())),
        YamlData::Scalar { text, quoted: false } => {
            let (value, note) = yaml11_scalar::resolve_plain_scalar(text);
            notes.extend(note);
            Ok(value)
        }
        YamlData::Seq(items) => items.iter().map(|item| convert_value(item, document, notes)).collect(),
        YamlData::Map(entries) => {
            let map: Result<serde_json::Map<_, _>, String> = entries
                .iter()
                .map(|(key, node)| Ok((key.text.clone(), convert_value(node, document, notes)?)))
                .collect();
            Ok(Value::Object(map?))
        }
    }
}
