//! Selects the parser of each file, and reads `group_vars` and `host_vars`.

use super::files::{AnsibleFile, AnsibleFileSet};
use super::inventory::{AnsibleImportLog, AnsibleInventory, AnsibleVars};
use super::{ini, yaml};
use crate::config::YamlData;
use crate::diag::{Diag, DiagCode};
use indexmap::IndexMap;

/// Parses all files of an inventory.
pub(super) fn read_ansible_inventory(files: &AnsibleFileSet, reading: &mut AnsibleImportLog) -> AnsibleInventory {
    let mut inventory = AnsibleInventory::new();
    files.inventories.iter().for_each(|text| read_inventory_file(text, &mut inventory, reading));
    inventory.complete_groups();
    inventory.group_files =
        read_vars_files(&files.group_vars, |name| inventory.groups.contains_key(name), "group", reading);
    inventory.host_files =
        read_vars_files(&files.host_vars, |name| inventory.hosts.contains_key(name), "host", reading);
    inventory
}

/// Parses one inventory file. A file without an extension is YAML if it parses as a map, else INI.
fn read_inventory_file(text: &AnsibleFile, inventory: &mut AnsibleInventory, reading: &mut AnsibleImportLog) {
    let mut diags = Vec::new();
    match text.path.extension() {
        Some("yml" | "yaml" | "json") => {
            let document = yaml::parse_document(text, &mut diags);
            reading.diags.0.extend(diags);
            document.iter().for_each(|document| yaml::read_yaml_inventory(document, inventory, reading));
        }
        Some("toml") => reading.push_diag(
            Diag::error(DiagCode::BadValue, format!("`{}` is TOML, which forge does not support", text.path)).hint(
                format!("convert it first: `ansible-inventory -i {} --list --yaml --export > hosts.yaml`", text.path),
            ),
        ),
        None => {
            match yaml::parse_document(text, &mut diags)
                .filter(|d| diags.is_empty() && matches!(d.node.data, YamlData::Map(_)))
            {
                Some(document) => yaml::read_yaml_inventory(&document, inventory, reading),
                None => ini::read_ini_inventory(text, inventory, reading),
            }
        }
        Some(_) => ini::read_ini_inventory(text, inventory, reading),
    }
}

fn read_vars_files(
    files: &[(String, AnsibleFile)],
    is_known: impl Fn(&str) -> bool,
    what: &str,
    reading: &mut AnsibleImportLog,
) -> IndexMap<String, AnsibleVars> {
    let mut all: IndexMap<String, AnsibleVars> = IndexMap::new();
    for (name, text) in files {
        if !is_known(name) {
            let variables = format!("variables of {what} `{name}`, which is not in the inventory");
            reading.record_difference(variables, text.path.as_str());
        } else {
            all.entry(name.clone()).or_default().extend(read_vars_file(text, reading));
        }
    }
    all
}

fn read_vars_file(text: &AnsibleFile, reading: &mut AnsibleImportLog) -> AnsibleVars {
    if text.text.starts_with("$ANSIBLE_VAULT;") {
        reading
            .record_difference("is not converted: the whole file is encrypted with Ansible Vault", text.path.as_str());
        return AnsibleVars::new();
    }
    let mut diags = Vec::new();
    let document = yaml::parse_document(text, &mut diags);
    reading.diags.0.extend(diags);
    document.map(|document| yaml::read_vars(&document, reading)).unwrap_or_default()
}
