//! Converts Ansible inventories to forge inventories, with Ansible's parsing and precedence rules.
//!
//! Architecture Invariant: the rules are those of ansible-core 2.19, even where they surprise. The effective variables
//! of each host are computed first; their distribution over groups and hosts follows from them. A value that cannot be
//! converted is listed, never dropped silently. Only `files` reads files; every other module maps text to values.

mod convert;
mod files;
mod host_patterns;
mod ini;
mod inventory;
mod layers;
mod python_literal;
mod settings;
mod shlex;
mod sources;
mod ssh_args;
mod template;
#[cfg(test)]
mod tests;
mod var_meaning;
mod yaml;
mod yaml11_scalar;

pub use inventory::AnsibleDifference;

use super::starter_inventory::StarterInventory;
use crate::diag::{DiagList, SourceMap};

use camino::Utf8Path;
use inventory::AnsibleImportLog;

/// Result of converting an Ansible inventory.
#[derive(Debug)]
pub struct AnsibleConversion {
    /// `None` if there are errors.
    pub starting: Option<StarterInventory>,
    /// What the conversion changed or left out, each difference once, in the order found.
    pub differences: Vec<AnsibleDifference>,
    /// Errors and warnings about the Ansible files.
    pub diags: DiagList,
    /// The Ansible files that were read, for the excerpts of diagnostics.
    pub sources: SourceMap,
}

/// Converts the inventory at `path`, a file or a folder, with the `group_vars` and `host_vars` next to it. `cluster` is
/// the cluster name of the result.
pub fn convert_ansible_inventory(path: &Utf8Path, cluster: &str) -> AnsibleConversion {
    let mut reading = AnsibleImportLog::default();
    let files = files::read_ansible_files(path, &mut reading);
    let inventory = sources::read_ansible_inventory(&files, &mut reading);
    let starting = match reading.diags.has_errors() {
        true => None,
        false => Some(convert::convert_inventory(&inventory, cluster, &mut reading)),
    };
    AnsibleConversion { starting, differences: reading.differences, diags: reading.diags, sources: reading.sources }
}
