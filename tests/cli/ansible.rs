//! `init --from-ansible` agrees with `ansible-inventory --list` of Ansible itself.
//!
//! Each folder below `tests/ansible` is one inventory. Ansible is installed from PyPI into
//! `target/ansible-core-VERSION`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

const VERSION: &str = "ansible-core==2.19.14";

/// Returns the folder of Ansible's programs, or the reason why it cannot be installed.
fn ansible() -> Result<PathBuf, String> {
    super::pypi::install_package(VERSION, "ansible-inventory")
}

/// An inventory as read by Ansible or by forge: hosts, members of groups, groups inside groups, variables of hosts.
#[derive(Debug, Default, PartialEq)]
struct Truth {
    hosts: BTreeSet<String>,
    groups: BTreeMap<String, BTreeSet<String>>,
    children: BTreeMap<String, BTreeSet<String>>,
    vars: BTreeMap<String, BTreeMap<String, Value>>,
}

fn texts(value: &Value) -> BTreeSet<String> {
    value.as_array().into_iter().flatten().filter_map(|item| item.as_str().map(str::to_owned)).collect()
}

fn by_ansible(bin: &Path, inventory: &Path) -> Truth {
    let output = Command::new(bin.join("ansible-inventory"))
        .args(["--list", "-i"])
        .arg(inventory)
        .current_dir(inventory.parent().unwrap())
        .env("ANSIBLE_CONFIG", concat!(env!("CARGO_MANIFEST_DIR"), "/tests/ansible/ansible.cfg"))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let listed: Value = serde_json::from_slice(&output.stdout).unwrap();
    let mut truth = Truth::default();
    for (name, group) in listed.as_object().unwrap().iter().filter(|(name, _)| *name != "_meta") {
        truth.groups.insert(name.clone(), texts(&group["hosts"]));
        truth.children.insert(name.clone(), texts(&group["children"]));
        truth.hosts.extend(texts(&group["hosts"]));
    }
    for (host, vars) in listed["_meta"]["hostvars"].as_object().unwrap() {
        let vars = vars.as_object().unwrap().iter().map(|(name, value)| (name.clone(), value.clone())).collect();
        truth.vars.insert(host.clone(), vars);
    }
    truth
}

/// Returns the rendered value of a variable for a host: `ansible-inventory` prints templates unrendered.
fn render_by_ansible(bin: &Path, inventory: &Path, host: &str, name: &str) -> Value {
    let output = Command::new(bin.join("ansible"))
        .args([host, "-m", "debug", "-a", &format!("var={name}"), "-i"])
        .arg(inventory)
        .current_dir(inventory.parent().unwrap())
        .env("ANSIBLE_CONFIG", concat!(env!("CARGO_MANIFEST_DIR"), "/tests/ansible/ansible.cfg"))
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let (_, json) = text.split_once(" => ").unwrap_or_else(|| panic!("{text}"));
    serde_json::from_str::<Value>(json).unwrap()[name].clone()
}

/// Loads the inventory that forge wrote with forge's own reader, and uses Ansible's names of settings.
fn by_forge(path: &Path) -> Truth {
    use forge::config::{LoadOptions, SudoMode, TransportKind};
    let path = camino::Utf8Path::from_path(path).unwrap();
    let (project, diags, _) = forge::config::load_project(
        path,
        &LoadOptions { trust: false, embedded: &[], env: &|_| None, programs: forge::config::SecretPrograms::Skip },
    );
    let project = project.unwrap_or_else(|| panic!("{diags:?}"));
    let mut truth = Truth::default();
    for (name, host) in &project.hosts {
        let name = name.to_string();
        truth.hosts.insert(name.clone());
        let mut vars: BTreeMap<String, Value> =
            host.vars.iter().map(|(name, var)| (name.clone(), var.value.clone())).collect();
        let connect = &host.connect;
        let mut put = |name: &str, value: Option<Value>| drop(value.map(|value| vars.insert(name.into(), value)));
        put("ansible_host", (connect.address != name).then(|| connect.address.clone().into()));
        put("ansible_user", connect.user.clone().map(Value::from));
        put("ansible_port", connect.port.map(Value::from));
        put("ansible_ssh_private_key_file", connect.identity.as_ref().map(|path| Value::from(path.as_str())));
        put("ansible_become", (connect.sudo == SudoMode::NoPassword).then_some(Value::from(true)));
        put("ansible_connection", (connect.transport == TransportKind::Local).then(|| "local".into()));
        truth.vars.insert(name, vars);
    }
    for (name, members) in &project.groups {
        truth.groups.insert(name.clone(), members.iter().map(ToString::to_string).collect());
    }
    truth
}

/// Converts Ansible's result to forge's terms, and removes the differences that forge listed.
fn settle(ansible: Truth, differences: &[Value]) -> Truth {
    let mut ansible = renamed(ansible, differences);
    let whats: Vec<&str> = differences.iter().filter_map(|d| d["what"].as_str()).collect();
    let listed = |name: &str| whats.iter().any(|what| what.starts_with(&format!("`{name}`")));
    let left_out = |host: &str| {
        let mut named = differences.iter().filter(|d| d["what"].as_str().unwrap().starts_with("is skipped"));
        named.any(|d| texts(&d["at"]).contains(&format!("host {host}")))
    };
    ansible.hosts.retain(|host| !left_out(host));
    ansible.vars.retain(|host, _| !left_out(host));
    for vars in ansible.vars.values_mut() {
        if let Some(user) = vars.remove("ansible_ssh_user") {
            vars.entry("ansible_user".into()).or_insert(user);
        }
        if let Some(host) = vars.remove("ansible_ssh_host") {
            vars.entry("ansible_host".into()).or_insert(host);
        }
        if let Some(port) = vars.get_mut("ansible_port").filter(|port| port.is_string()) {
            *port = port.as_str().unwrap().parse::<u64>().unwrap().into();
        }
        if let Some(become_root) = vars.remove("ansible_become").filter(|value| *value != false && *value != "no") {
            assert!(become_root == true || become_root == "yes" || become_root == "true", "{become_root}");
            vars.insert("ansible_become".into(), true.into());
        }
        vars.retain(|name, value| match name.as_str() {
            "ansible_connection" => value == "local",
            "ansible_become_method" => value != "sudo",
            "ansible_become_user" => value != "root",
            _ => true,
        });
        vars.values_mut().for_each(unwrap_unsafe);
        for (name, value) in vars.iter_mut() {
            if listed(name) && is_told(whats.as_slice(), name) {
                soften(value);
            }
        }
        vars.retain(|name, value| !is_lost(&whats, name, value));
    }
    ansible
}

/// Renames hosts and groups as listed in forge's differences.
fn renamed(mut ansible: Truth, differences: &[Value]) -> Truth {
    for difference in differences {
        let what = difference["what"].as_str().unwrap();
        let Some(new) = what.strip_prefix("is renamed to `").and_then(|rest| rest.split('`').next()) else { continue };
        for at in texts(&difference["at"]) {
            if let Some(old) = at.strip_prefix("host ") {
                ansible.rename_host(old, new);
            } else if let Some(old) = at.strip_prefix("group ") {
                ansible.rename_group(old, new);
            }
        }
    }
    ansible
}

fn swap(names: &mut BTreeSet<String>, old: &str, new: &str) {
    if names.remove(old) {
        names.insert(new.to_owned());
    }
}

impl Truth {
    /// Renames a host. A name that was also the address stays as the address.
    fn rename_host(&mut self, old: &str, new: &str) {
        swap(&mut self.hosts, old, new);
        self.groups.values_mut().for_each(|members| swap(members, old, new));
        let mut vars = self.vars.remove(old).unwrap_or_default();
        vars.entry("ansible_host".into()).or_insert(old.into());
        self.vars.insert(new.into(), vars);
    }

    fn rename_group(&mut self, old: &str, new: &str) {
        self.children.values_mut().for_each(|inner| swap(inner, old, new));
        for map in [&mut self.groups, &mut self.children] {
            if let Some(entry) = map.remove(old) {
                map.insert(new.into(), entry);
            }
        }
    }
}

/// Reports whether a listed difference says that this value of the variable is not converted. The value of another host
/// may be converted.
fn is_lost(whats: &[&str], name: &str, value: &Value) -> bool {
    let text = value.to_string();
    whats.iter().filter(|what| what.starts_with(&format!("`{name}` "))).any(|what| match what {
        what if what.contains("is set on each host") => false,
        what if what.contains("a template") => text.contains("{{"),
        what if what.contains("Ansible Vault") => text.contains("__ansible_vault"),
        _ => true,
    })
}

fn is_told(whats: &[&str], name: &str) -> bool {
    whats.iter().any(|what| what.starts_with(&format!("`{name}`: ")) && what.contains("is a fraction"))
}

/// Unwraps `!unsafe`, which keeps Ansible from rendering a text. forge renders no variables.
fn unwrap_unsafe(value: &mut Value) {
    if let Some(text) = value.get("__ansible_unsafe").cloned() {
        *value = text;
    }
}

/// Marks fractions for the comparison. They are text in forge and are compared as numbers.
fn soften(value: &mut Value) {
    match value {
        Value::Number(number) if number.is_f64() => *value = format!("fraction {number}").into(),
        Value::Array(items) => items.iter_mut().for_each(soften),
        Value::Object(map) => map.values_mut().for_each(soften),
        _ => {}
    }
}

fn soften_text(value: &mut Value) {
    match value {
        Value::String(text) if text.contains(['.', 'e']) => {
            if let Ok(number) = text.replace('_', "").parse::<f64>() {
                *value = format!("fraction {}", Value::from(number)).into();
            }
        }
        Value::Array(items) => items.iter_mut().for_each(soften_text),
        Value::Object(map) => map.values_mut().for_each(soften_text),
        _ => {}
    }
}

fn inventories() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/ansible");
    let mut folders: Vec<PathBuf> = std::fs::read_dir(root).unwrap().map(|entry| entry.unwrap().path()).collect();
    folders.sort();
    folders.retain(|folder| folder.is_dir());
    folders
}

fn source(folder: &Path) -> PathBuf {
    let names = ["hosts", "hosts.ini", "hosts.yml", "inventory"];
    names.iter().map(|name| folder.join(name)).find(|path| path.exists()).expect("an inventory")
}

#[test]
fn converted_inventory_matches_ansible() {
    let bin = match ansible() {
        Ok(bin) => bin,
        Err(why) => return eprintln!("skipped: {why}"),
    };
    let all = inventories();
    assert!(all.len() >= 6, "{all:?}");
    for folder in all {
        agrees(&bin, &folder);
    }
}

fn agrees(bin: &Path, folder: &Path) {
    let name = folder.file_name().unwrap().to_string_lossy().into_owned();
    let place = tempfile::tempdir().unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_forge"))
        .args(["init", "--cluster", "c", "--format", "json", "--from-ansible"])
        .arg(source(folder))
        .current_dir(place.path())
        .env_clear()
        .output()
        .unwrap();
    assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    let differences = document["init"]["differences"].as_array().unwrap();
    let mut ansible = settle(by_ansible(bin, &source(folder)), differences);
    let mut forge = by_forge(&place.path().join("inventory.yaml"));
    for (host, vars) in &mut ansible.vars {
        let resolved = |name: &str| forge.vars.get(host).is_some_and(|vars| vars.contains_key(name));
        let templates = vars.iter_mut().filter(|(name, value)| value.to_string().contains("{{") && resolved(name));
        templates.for_each(|(name, value)| *value = render_by_ansible(bin, &source(folder), host, name));
    }
    for (host, vars) in &mut forge.vars {
        for (name, value) in vars.iter_mut() {
            if ansible
                .vars
                .get(host)
                .and_then(|vars| vars.get(name))
                .is_some_and(|other| other.to_string().contains("fraction "))
            {
                soften_text(value);
            }
        }
    }
    assert_eq!(forge.hosts, ansible.hosts, "{name}: hosts");
    for (host, vars) in &ansible.vars {
        assert_eq!(forge.vars.get(host), Some(vars), "{name}: variables of {host}\n{differences:#?}");
    }
    let bare: Vec<_> =
        forge.vars.iter().filter(|(host, vars)| !ansible.vars.contains_key(*host) && !vars.is_empty()).collect();
    assert!(bare.is_empty(), "{name}: {bare:?}");
    groups_agree(&name, &forge, &ansible);
    let written = std::fs::read_to_string(place.path().join("inventory.yaml")).unwrap();
    let nested = |children: &BTreeSet<String>| !children.is_empty();
    let children: BTreeMap<_, _> =
        ansible.children.into_iter().filter(|(group, inner)| group != "all" && nested(inner)).collect();
    assert_eq!(children_of(&written), children, "{name}: groups in groups");
    insta::with_settings!({ snapshot_suffix => name, omit_expression => true }, {
        let listed: Vec<String> = differences.iter().map(|d| {
            let at: Vec<String> = texts(&d["at"]).iter().map(|at| at.replace(&format!("{}/", folder.display()), "")).collect();
            format!("{}: {}", at.join(", "), d["what"].as_str().unwrap())
        }).collect();
        insta::assert_snapshot!(listed.join("\n"));
    });
}

/// Returns the groups inside each group, as written in the file.
fn children_of(written: &str) -> BTreeMap<String, BTreeSet<String>> {
    let document: Value = serde_saphyr::from_str(written).unwrap();
    let groups = document["groups"].as_object().into_iter().flatten();
    groups.filter_map(|(name, group)| Some((name.clone(), texts(group.get("groups")?)))).collect()
}

/// Compares the members of groups. Ansible lists direct members, forge lists all: for Ansible, the members of the
/// groups in a group are added.
fn groups_agree(name: &str, forge: &Truth, ansible: &Truth) {
    fn members(group: &str, truth: &Truth) -> BTreeSet<String> {
        let own = truth.groups.get(group).into_iter().flatten().cloned();
        let inner = truth.children.get(group).into_iter().flatten().flat_map(|child| members(child, truth));
        own.chain(inner).filter(|host| truth.hosts.contains(host)).collect()
    }
    for group in ansible.groups.keys() {
        let in_ansible = members(group, ansible);
        let in_forge = forge.groups.get(group).cloned().unwrap_or_default();
        assert_eq!(in_forge, in_ansible, "{name}: members of {group}");
    }
}
