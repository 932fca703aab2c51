//! Which reader reads which file, and what is in `group_vars` and `host_vars`.

use super::files::{Files, Text};
use super::{Inventory, Reading, Vars, ini, yaml};
use crate::config::Data;
use crate::diag::{Code, Diag};
use indexmap::IndexMap;

/// Reads everything.
pub(super) fn read(files: &Files, reading: &mut Reading) -> Inventory {
    let mut inventory = Inventory::new();
    files.inventories.iter().for_each(|text| one(text, &mut inventory, reading));
    inventory.settle();
    inventory.group_files = vars(&files.group_vars, |name| inventory.groups.contains_key(name), "group", reading);
    inventory.host_files = vars(&files.host_vars, |name| inventory.hosts.contains_key(name), "host", reading);
    inventory
}

/// A file without an ending may be either: it is YAML if it reads as a map.
fn one(text: &Text, inventory: &mut Inventory, reading: &mut Reading) {
    let mut diags = Vec::new();
    match text.path.extension() {
        Some("yml" | "yaml" | "json") => {
            let document = yaml::document(text, &mut diags);
            reading.diags.0.extend(diags);
            document.iter().for_each(|document| yaml::read(document, inventory, reading));
        }
        Some("toml") => reading.wrong(
            Diag::error(Code::BadValue, format!("`{}` is TOML, which forge does not read", text.path)).hint(format!(
                "give what Ansible makes of it: `ansible-inventory -i {} --list --yaml --export > hosts.yaml`",
                text.path
            )),
        ),
        None => {
            match yaml::document(text, &mut diags).filter(|d| diags.is_empty() && matches!(d.node.data, Data::Map(_))) {
                Some(document) => yaml::read(&document, inventory, reading),
                None => ini::read(text, inventory, reading),
            }
        }
        Some(_) => ini::read(text, inventory, reading),
    }
}

fn vars(
    files: &[(String, Text)],
    is_known: impl Fn(&str) -> bool,
    what: &str,
    reading: &mut Reading,
) -> IndexMap<String, Vars> {
    let mut all: IndexMap<String, Vars> = IndexMap::new();
    for (name, text) in files {
        if !is_known(name) {
            let variables = format!("variables of the {what} `{name}`, which the inventory does not have");
            reading.differs(variables, text.path.as_str());
        } else {
            all.entry(name.clone()).or_default().extend(of_file(text, reading));
        }
    }
    all
}

fn of_file(text: &Text, reading: &mut Reading) -> Vars {
    if text.text.starts_with("$ANSIBLE_VAULT;") {
        reading
            .differs("is encrypted with Ansible Vault as a whole: its variables are not carried", text.path.as_str());
        return Vars::new();
    }
    let mut diags = Vec::new();
    let document = yaml::document(text, &mut diags);
    reading.diags.0.extend(diags);
    document.map(|document| yaml::vars(&document, reading)).unwrap_or_default()
}
