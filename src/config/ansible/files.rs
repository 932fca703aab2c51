//! Reads the files of an Ansible inventory: the inventory itself, `group_vars` and `host_vars`.

use super::inventory::AnsibleImportLog;
use crate::config::file_access::{build_unreadable_diag, describe_io_error, read_text_file};
use crate::diag::{Diag, DiagCode, FileId};
use camino::{Utf8Path, Utf8PathBuf};

/// One file that was read.
#[derive(Debug)]
pub(super) struct AnsibleFile {
    pub file: FileId,
    pub path: Utf8PathBuf,
    pub text: String,
}

/// Everything that belongs to an inventory.
#[derive(Debug, Default)]
pub(super) struct AnsibleFileSet {
    pub inventories: Vec<AnsibleFile>,
    /// Files by group name; later files take precedence.
    pub group_vars: Vec<(String, AnsibleFile)>,
    pub host_vars: Vec<(String, AnsibleFile)>,
}

/// Reads a file, or all files in a folder that Ansible treats as inventories.
pub(super) fn read_ansible_files(path: &Utf8Path, reading: &mut AnsibleImportLog) -> AnsibleFileSet {
    let is_folder = path.is_dir();
    let beside = match is_folder {
        true => path.to_owned(),
        false => path.parent().unwrap_or(Utf8Path::new("")).to_owned(),
    };
    let mut files = AnsibleFileSet::default();
    match is_folder {
        true => read_folder(path, 0, &mut files.inventories, reading),
        false => files.inventories.extend(read_file(path, reading)),
    }
    files.group_vars = read_vars_folder(&beside.join("group_vars"), reading);
    files.host_vars = read_vars_folder(&beside.join("host_vars"), reading);
    files
}

/// Limit of nested folders.
const MAX_FOLDER_DEPTH: usize = 16;

/// Extensions that Ansible ignores in an inventory folder: `INVENTORY_IGNORE_EXTS` of ansible-core 2.19. Earlier
/// versions also ignored `.ini`.
const IGNORED_EXTENSIONS: [&str; 11] = ["pyc", "pyo", "swp", "bak", "rpm", "md", "txt", "rst", "orig", "cfg", "retry"];

/// Extensions of programs and libraries. Ansible warns that no inventory plugin can read them.
const BINARY_EXTENSIONS: [&str; 6] = ["pyd", "so", "dll", "exe", "o", "a"];

fn read_folder(path: &Utf8Path, depth: usize, into: &mut Vec<AnsibleFile>, reading: &mut AnsibleImportLog) {
    for entry in list_entries(path, reading) {
        let name = entry.file_name().unwrap_or_default();
        let ending = entry.extension().unwrap_or_default();
        if name.starts_with('.') || name.ends_with('~') || matches!(name, "group_vars" | "host_vars" | "vars_plugins") {
            continue;
        }
        if IGNORED_EXTENSIONS.contains(&ending) {
            let what = format!("is skipped: Ansible ignores `.{ending}` files in an inventory folder");
            reading.record_difference(what, entry.as_str());
        } else if BINARY_EXTENSIONS.contains(&ending) {
            reading.record_difference("is skipped: it is a program or a library, not an inventory", entry.as_str());
        } else if entry.is_dir() && depth < MAX_FOLDER_DEPTH {
            read_folder(&entry, depth + 1, into, reading);
        } else {
            into.extend(read_file(&entry, reading));
        }
    }
}

/// Returns the sorted entries of a folder.
fn list_entries(path: &Utf8Path, reading: &mut AnsibleImportLog) -> Vec<Utf8PathBuf> {
    let listed = path.read_dir_utf8().and_then(Iterator::collect::<std::io::Result<Vec<_>>>);
    match listed {
        Ok(entries) => {
            let mut paths: Vec<Utf8PathBuf> = entries.iter().map(|entry| entry.path().to_owned()).collect();
            paths.sort();
            paths
        }
        Err(error) => {
            reading.push_diag(build_unreadable_diag(path.as_str(), &describe_io_error(&error), None));
            Vec::new()
        }
    }
}

/// Reads files of variables: `NAME`, `NAME.yml`, `NAME.yaml`, `NAME.json`, or a folder `NAME` of such files.
fn read_vars_folder(path: &Utf8Path, reading: &mut AnsibleImportLog) -> Vec<(String, AnsibleFile)> {
    if !path.is_dir() {
        return Vec::new();
    }
    let mut found = Vec::new();
    for entry in list_entries(path, reading) {
        let is_vars = matches!(entry.extension(), None | Some("yml" | "yaml" | "json"));
        let name = entry.file_name().unwrap_or_default().to_owned();
        if entry.is_dir() {
            read_vars_subfolder(&name, &entry, 0, &mut found, reading);
        } else if is_vars && !is_hidden(&name) {
            let stem = [".yml", ".yaml", ".json"].iter().find_map(|ending| name.strip_suffix(ending));
            let of = stem.unwrap_or(&name).to_owned();
            found.extend(read_file(&entry, reading).map(|text| (of, text)));
        } else if entry.extension().is_some() && !is_hidden(&name) {
            // `group_vars/web.example`: the dot is part of the name.
            found.extend(read_file(&entry, reading).map(|text| (name, text)));
        }
    }
    found
}

fn is_hidden(name: &str) -> bool {
    name.starts_with('.') || name.ends_with('~')
}

fn read_vars_subfolder(
    name: &str,
    path: &Utf8Path,
    depth: usize,
    found: &mut Vec<(String, AnsibleFile)>,
    reading: &mut AnsibleImportLog,
) {
    for entry in list_entries(path, reading) {
        let file = entry.file_name().unwrap_or_default();
        if is_hidden(file) {
            continue;
        }
        match entry.is_dir() {
            true if depth < MAX_FOLDER_DEPTH => read_vars_subfolder(name, &entry, depth + 1, found, reading),
            true => {}
            false if matches!(entry.extension(), None | Some("yml" | "yaml" | "json")) => {
                found.extend(read_file(&entry, reading).map(|text| (name.to_owned(), text)));
            }
            false => {}
        }
    }
}

fn read_file(path: &Utf8Path, reading: &mut AnsibleImportLog) -> Option<AnsibleFile> {
    match read_text_file(path) {
        Ok(text) if text.starts_with("#!") => {
            reading.push_diag(build_program_diag(path));
            None
        }
        Ok(text) => {
            Some(AnsibleFile { file: reading.sources.add_file(path, text.as_str()), path: path.to_owned(), text })
        }
        Err(why) => {
            reading.push_diag(build_unreadable_diag(path.as_str(), &why, None));
            None
        }
    }
}

fn build_program_diag(path: &Utf8Path) -> Diag {
    Diag::error(DiagCode::BadValue, format!("`{path}` is a program; forge does not run inventory programs"))
        .hint(format!("save its output first: `ansible-inventory -i {path} --list --yaml --export > hosts.yaml`"))
}
