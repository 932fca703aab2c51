//! Built-in files: recipes that every inventory can use, and compatibility tables that rules read.

use super::template::build_tree;
use super::{YamlData, YamlNode, scalar};
use crate::diag::FileId;
use crate::model::Value;
use std::collections::BTreeMap;
use std::sync::LazyLock;

/// Embeds files of the repository by name without extension.
macro_rules! files {
    ($folder:literal: $($name:literal),* $(,)?) => {
        &[$(($name, include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/", $folder, "/", $name, ".yaml")))),*]
    };
}

/// Every built-in recipe and stack: name and text.
pub const BUILTIN_RECIPES: &[(&str, &str)] = files!("recipes":
    "base-assert",
    "base-freeze",
    "base-hold",
    "beegfs-client",
    "calico",
    "calico-check",
    "cilium",
    "container-toolkit",
    "containerd",
    "cuda-nccl",
    "dcgm",
    "dcgm-monitoring",
    "doca-ofed",
    "gdrcopy",
    "gds",
    "gpu-kubernetes",
    "gpu-operator",
    "gpu-topology",
    "h100-node",
    "host-tuning",
    "ib-ports",
    "ibacm-off",
    "ipoib",
    "kernel-cmdline",
    "kernel-headers",
    "kubeadm",
    "kubernetes-prereq",
    "mig",
    "mlnx-ofed",
    "network-operator",
    "nfd",
    "nic-firmware",
    "nouveau",
    "nvidia-driver",
    "nvidia-fabricmanager",
    "nvidia-gsp",
    "nvidia-imex",
    "nvidia-peermem",
    "nvidia-persistenced",
    "nvlink5-node",
    "openibd",
    "openmpi",
    "pcie-acs",
    "perftest",
    "pytorch-job",
    "rdma-cni",
    "rdma-firewall",
    "rdma-modules",
    "rdma-naming",
    "rdma-netns",
    "rdma-pod",
    "rdma-shared-device-plugin",
    "roce",
    "roce-node",
    "spare-nodes",
    "ssh-mesh",
    "subnet-manager",
    "time-sync",
    "trainer",
    "training-operator",
    "volcano",
    "volcano-job",
);

/// Every built-in table: name and text.
const BUILTIN_TABLES: &[(&str, &str)] = files!("recipes/data":
    "acceptance-floors",
    "driver-branches",
    "driver-companions",
    "driver-installer",
    "driver-packages",
    "gpu-operator",
    "gpudirect",
    "kubeadm-images",
    "kubernetes",
    "mig-profiles",
    "network-operator",
    "ofed-lines",
    "slow-causes",
    "trainer",
    "volcano",
);

/// Every built-in acceptance test, and the built-in sets: name and text.
const BUILTIN_TESTS: &[(&str, &str)] = files!("recipes/tests":
    "dcgm-diag",
    "fio-read",
    "gpu-clocks",
    "ib-atomic-bw",
    "ib-atomic-lat",
    "ib-read-bw",
    "ib-send-lat",
    "ib-write-bw",
    "ib-write-bw-gpu",
    "ib-write-bw-loopback",
    "ib-write-lat",
    "ibv-rc-pingpong",
    "memory-read",
    "nccl-all-gather",
    "nccl-all-gather-hosts",
    "nccl-all-reduce",
    "nccl-all-reduce-hosts",
    "nccl-alltoall",
    "nccl-alltoall-hosts",
    "nccl-reduce-scatter",
    "nccl-reduce-scatter-hosts",
    "nccl-sendrecv",
    "nccl-sendrecv-hosts",
    "nvbandwidth",
    "rping",
    "sets",
    "ucx-bandwidth",
);

/// Returns the names of the built-in tests, with `sets`.
pub(super) fn builtin_test_names() -> impl Iterator<Item = &'static str> {
    BUILTIN_TESTS.iter().map(|(name, _)| *name)
}

/// Returns the text of a built-in test.
pub(super) fn find_builtin_test(name: &str) -> Option<&'static str> {
    BUILTIN_TESTS.iter().find(|(own, _)| *own == name).map(|(_, text)| *text)
}

/// A built-in table.
#[derive(Clone, Debug, PartialEq)]
pub struct CompatibilityTable {
    /// The name that expressions use: `table("driver-branches")`; its file is `recipes/data/NAME.yaml`.
    pub name: &'static str,
    /// Description of the table.
    pub about: String,
    /// Source of its rows.
    pub source: String,
    /// Date of the last comparison with the source, `2026-11-21`.
    pub date: String,
    /// A map by the key that an expression looks up, such as a driver branch; never empty.
    pub rows: Value,
}

static PARSED_TABLES: LazyLock<Vec<CompatibilityTable>> =
    LazyLock::new(|| BUILTIN_TABLES.iter().map(|(name, text)| parse_table(name, text)).collect());

/// The rows as template values.
static TEMPLATE_TABLES: LazyLock<BTreeMap<&'static str, minijinja::Value>> = LazyLock::new(|| {
    PARSED_TABLES
        .iter()
        .map(|table| (table.name, build_tree(&format!("table(\"{}\")", table.name), &table.rows)))
        .collect()
});

/// Returns every table.
pub fn builtin_tables() -> &'static [CompatibilityTable] {
    &PARSED_TABLES
}

/// Returns the rows of a table as a template value. Unknown keys are errors, as in any other tree.
pub(super) fn find_table_rows(name: &str) -> Option<minijinja::Value> {
    TEMPLATE_TABLES.get(name).cloned()
}

/// Reads a table. A table that cannot be read is empty; a test ensures that none is.
fn parse_table(name: &'static str, text: &str) -> CompatibilityTable {
    let node = super::yaml::parse(FileId(0), text, &mut Vec::new());
    let of = |key: &str| node.as_ref().and_then(|node| find_map_entry(node, key));
    let words =
        |key: &str| of(key).map(to_plain_value).and_then(|value| value.as_str().map(str::to_owned)).unwrap_or_default();
    CompatibilityTable {
        name,
        about: words("about"),
        source: words("source"),
        date: words("date"),
        rows: of("rows").map(to_plain_value).unwrap_or_default(),
    }
}

fn find_map_entry<'n>(node: &'n YamlNode, key: &str) -> Option<&'n YamlNode> {
    match &node.data {
        YamlData::Map(entries) => entries.iter().find(|(own, _)| own.text == key).map(|(_, node)| node),
        _ => None,
    }
}

fn to_plain_value(node: &YamlNode) -> Value {
    scalar::node_to_value(node)
}

/// Reports whether a built-in recipe has that name.
pub fn is_builtin_recipe(name: &str) -> bool {
    BUILTIN_RECIPES.iter().any(|(known, _)| *known == name)
}

/// The folder of built-in recipes in messages.
pub(super) const BUILTIN_PATH: &str = "<built in>";

#[cfg(test)]
mod tests {
    use super::*;

    fn list_file_names(folder: &str) -> Vec<String> {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
        let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        let yaml = files.filter(|path| path.extension().is_some_and(|ending| ending == "yaml"));
        let mut names: Vec<String> = yaml.map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned()).collect();
        names.sort();
        names
    }

    #[test]
    fn builtin_lists_match_the_files_in_order() {
        assert_eq!(list_file_names("recipes"), BUILTIN_RECIPES.iter().map(|(name, _)| *name).collect::<Vec<_>>());
        assert_eq!(list_file_names("recipes/data"), BUILTIN_TABLES.iter().map(|(name, _)| *name).collect::<Vec<_>>());
        assert_eq!(list_file_names("recipes/tests"), builtin_test_names().collect::<Vec<_>>());
    }

    #[test]
    fn every_published_floor_can_be_read() {
        let table = builtin_tables().iter().find(|table| table.name == "acceptance-floors").unwrap();
        let floors = crate::acceptance::parse_floors(&table.rows).unwrap();
        let mut names: Vec<&str> = floors.iter().map(|floor| floor.name.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), floors.len(), "names are unique");
        assert!(floors.iter().all(|floor| floor.source.contains('/')), "each has a repository");
    }

    #[test]
    fn every_table_has_a_source_a_date_and_rows() {
        for table in builtin_tables() {
            assert!(!table.about.is_empty() && !table.source.is_empty(), "{}", table.name);
            assert!(table.date.starts_with("20") && table.date.len() == 10, "{}", table.name);
            assert!(table.rows.as_object().is_some_and(|rows| !rows.is_empty()), "{}", table.name);
        }
    }
}
