//! The table of GPUs: from a PCI device id to generation, allowed flavors and driver branches.

use std::sync::LazyLock;

/// Rows with their source and date.
const TABLE_TEXT: &str = include_str!("data/gpus.tsv");

static TABLE: LazyLock<Vec<GpuModel>> = LazyLock::new(|| parse_table(TABLE_TEXT));

/// The known properties of one GPU model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GpuModel {
    /// PCI device id as four lowercase hex digits.
    pub device: &'static str,
    pub product: &'static str,
    pub generation: &'static str,
    /// The kernel module flavors that drive it, the older first.
    pub flavors: &'static [&'static str],
    /// How several of them are connected: `nvswitch`, `nvlink5`, `imex`; `depends` if that depends on the server.
    pub fabric: Option<&'static str>,
    /// Its NVLinks, if the table has their number.
    pub nvlinks: Option<ProductLinks>,
    /// The first and the last driver branch that support it, if there is such a limit.
    pub branches: (Option<u64>, Option<u64>),
    /// Whether it has a system processor with its own firmware.
    pub has_gsp: bool,
}

/// The NVLinks of a product.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProductLinks {
    pub count: u64,
    /// Whether it uses them only if a bridge connects it to its neighbour.
    pub by_bridge: bool,
}

impl GpuModel {
    /// Returns whether the firmware of its system processor can be disabled.
    pub fn is_gsp_optional(&self) -> bool {
        self.has_gsp && self.flavors.contains(&"proprietary")
    }
}

/// Returns the row of a device id as sysfs prints it (`0x2330`).
pub fn find_gpu_model(device: &str) -> Option<&'static GpuModel> {
    let device = device.trim_start_matches("0x").to_ascii_lowercase();
    TABLE.iter().find(|gpu| gpu.device == device)
}

fn parse_table(text: &'static str) -> Vec<GpuModel> {
    let rows: Vec<Vec<&'static str>> =
        text.lines().filter(|line| !line.starts_with('#')).map(|line| line.split('\t').collect()).collect();
    rows.iter().filter_map(|row| parse_model(row, &rows)).collect()
}

fn parse_model(row: &[&'static str], rows: &[Vec<&'static str>]) -> Option<GpuModel> {
    let ["gpu", device, product, generation, flavors, fabric, nvlinks] = row[..] else { return None };
    let of = |row: &&Vec<&str>| row[0] == "generation" && row.get(1) == Some(&generation);
    let [_, _, first, last, gsp] = rows.iter().find(of)?[..] else { return None };
    Some(GpuModel {
        device,
        product,
        generation,
        flavors: self::parse_flavors(flavors)?,
        fabric: (fabric != "-").then_some(fabric),
        nvlinks: parse_product_links(nvlinks),
        branches: (first.parse().ok(), last.parse().ok()),
        has_gsp: gsp == "yes",
    })
}

/// Parses a number of links; `?` after it stands for links by a bridge.
fn parse_product_links(text: &str) -> Option<ProductLinks> {
    let count = text.trim_end_matches('?').parse().ok()?;
    Some(ProductLinks { count, by_bridge: text.ends_with('?') })
}

fn parse_flavors(word: &str) -> Option<&'static [&'static str]> {
    match word {
        "both" => Some(&["proprietary", "open"]),
        "proprietary" => Some(&["proprietary"]),
        "open" => Some(&["open"]),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_is_parsed_and_table_names_its_source() {
        let rows = TABLE_TEXT.lines().filter(|line| line.starts_with("gpu\t")).count();
        assert_eq!(TABLE.len(), rows);
        let ids: std::collections::BTreeSet<_> = TABLE.iter().map(|gpu| gpu.device).collect();
        assert_eq!(ids.len(), rows, "no duplicate ids");
        assert!(TABLE_TEXT.contains("# source: ") && TABLE_TEXT.contains("# date: 20"));
    }

    #[test]
    fn device_id_determines_driver_flavors() {
        let of = |id| find_gpu_model(id).map(|gpu| (gpu.generation, gpu.flavors, gpu.is_gsp_optional(), gpu.branches));
        assert_eq!(of("0x2330"), Some(("hopper", &["proprietary", "open"][..], true, (None, None))));
        assert_eq!(of("0x2901"), Some(("blackwell", &["open"][..], false, (Some(570), None))));
        assert_eq!(of("0x2342"), Some(("hopper", &["open"][..], false, (None, None))), "GH200");
        assert_eq!(of("0x1DB1"), Some(("volta", &["proprietary"][..], false, (None, Some(580)))));
        assert_eq!(of("0xffff"), None);
    }

    /// origin: source, the table of supported GPUs in NVIDIA/open-gpu-kernel-modules 595.45.04; V100-SXM3: its `osinit.c`
    #[test]
    fn boards_of_clusters_are_in_the_table() {
        let of = |id| find_gpu_model(id).map(|gpu| (gpu.product, gpu.generation));
        let table = [
            ("0x2235", "A40", "ampere"),
            ("0x2230", "RTX A6000", "ampere"),
            ("0x25b6", "A2, A16", "ampere"),
            ("0x20b3", "A100", "ampere"),
            ("0x20b1", "A100", "ampere"),
            ("0x26b1", "RTX 6000 Ada", "ada"),
            ("0x1db8", "V100", "volta"),
            ("0x232c", "H20", "hopper"),
        ];
        for (id, product, generation) in table {
            assert_eq!(of(id), Some((product, generation)), "{id}");
        }
    }

    #[test]
    fn number_of_nvlinks_follows_from_the_product() {
        let of = |id| find_gpu_model(id)?.nvlinks.map(|links| (links.count, links.by_bridge));
        assert_eq!(of("0x2330"), Some((18, false)), "H100 SXM");
        assert_eq!(of("0x2321"), Some((12, true)), "H100 NVL has 12 of 18");
        assert_eq!(of("0x20b2"), Some((12, false)), "A100 SXM");
        assert_eq!(of("0x26b9"), Some((0, false)), "L40S");
        assert_eq!(of("0x2342"), None, "GH200: depends on the server");
    }
}
