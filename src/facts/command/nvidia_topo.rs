//! `nvidia-smi topo -m`: how GPUs and network adapters are connected.

use std::collections::BTreeMap;

/// The matrix.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GpuTopology {
    /// Names of the device columns, in order: `GPU0` … `NIC0` …
    pub columns: Vec<String>,
    /// From row and column to `X`, `NV18`, `PIX`, `PXB`, `PHB`, `NODE`, `SYS`.
    pub links: BTreeMap<String, BTreeMap<String, String>>,
    /// From `NIC0` to the RDMA device that it denotes: `mlx5_0`.
    pub nics: BTreeMap<String, String>,
    /// From a GPU to its processors, `0-47,96-143`, if the row contains them.
    pub cpus: BTreeMap<String, String>,
}

/// Parses the matrix; `None` if there is no header or a row has fewer cells than the header.
pub fn parse_nvidia_topo(text: &str) -> Option<GpuTopology> {
    let text = strip_escapes(text);
    let mut lines = text.lines();
    let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let is_header = |line: &&str| {
        let mut words = line.split_whitespace();
        words.next() == Some("GPU0") && words.next() != Some("X")
    };
    let header = lines.find(is_header)?;
    let columns: Vec<String> =
        words(header).into_iter().take_while(|word| !matches!(word.as_str(), "CPU" | "NUMA")).collect();
    let mut topology = GpuTopology { columns, ..GpuTopology::default() };
    for line in lines {
        match &words(line)[..] {
            [name, cells @ ..] if topology.columns.contains(name) => {
                topology.add_row(name, cells)?;
                if let Some(cpus) = find_affinity(header, line, topology.columns.len()) {
                    topology.cpus.insert(name.clone(), cpus.to_owned());
                }
            }
            [name, device] if name.starts_with("NIC") && name.ends_with(':') => {
                topology.nics.insert(name.trim_end_matches(':').to_owned(), device.clone());
            }
            _ => {}
        }
    }
    (topology.links.len() == topology.columns.len()).then_some(topology)
}

impl GpuTopology {
    /// Returns the number of pairs of GPUs by their connection. Both directions of a pair count as one.
    pub fn count_gpu_connections(&self) -> BTreeMap<String, u64> {
        let gpus: Vec<&String> = self.columns.iter().filter(|name| is_gpu(name)).collect();
        let mut counts = BTreeMap::new();
        for (at, row) in gpus.iter().enumerate() {
            let others = gpus[at + 1..].iter().filter_map(|column| self.links.get(*row)?.get(*column));
            others.for_each(|link| *counts.entry(link.clone()).or_insert(0) += 1);
        }
        counts
    }

    /// Returns the pairs of a GPU and an RDMA device whose traffic passes no host bridge, as `GPU0=mlx5_0`.
    pub fn list_near_pairs(&self) -> Vec<String> {
        let gpus = self.links.iter().filter(|(name, _)| is_gpu(name));
        let pairs = gpus.flat_map(|(gpu, row)| {
            let near = row.iter().filter(|(column, link)| !is_gpu(column) && matches!(link.as_str(), "PIX" | "PXB"));
            near.map(move |(column, _)| format!("{gpu}={}", self.nics.get(column).unwrap_or(column)))
        });
        pairs.collect()
    }

    fn add_row(&mut self, name: &str, cells: &[String]) -> Option<()> {
        let own = cells.get(..self.columns.len())?;
        let links = self.columns.iter().cloned().zip(own.iter().cloned()).collect();
        self.links.insert(name.to_owned(), links);
        Some(())
    }
}

fn is_gpu(name: &str) -> bool {
    name.strip_prefix("GPU").is_some_and(|rest| rest.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Returns the processors of a row. The column may be empty, so its position decides: the tab after the devices, or the
/// place below its title if the tabs were lost.
fn find_affinity<'a>(header: &str, line: &'a str, devices: usize) -> Option<&'a str> {
    let cell = if line.contains('\t') {
        line.split('\t').nth(devices + 1)
    } else {
        let start = header.find("CPU Affinity")?;
        let end = header.find("NUMA Affinity").unwrap_or(usize::MAX).min(line.len());
        line.get(start..end)
    };
    cell.map(str::trim).filter(|cell| cell.starts_with(|c: char| c.is_ascii_digit()))
}

/// Removes escape sequences: the header is underlined.
fn strip_escapes(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut pieces = text.split("\u{1b}[");
    out.push_str(pieces.next().unwrap_or(""));
    for piece in pieces {
        let end = piece.find(|c: char| c.is_ascii_alphabetic()).map_or(piece.len(), |at| at + 1);
        out.push_str(&piece[end..]);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    const A100: &str = include_str!("../../../tests/samples/topo-a100x8.txt");

    #[test]
    fn matrix_is_parsed_with_its_legend() {
        let topology = parse_nvidia_topo(A100).expect("is a matrix");
        assert_eq!(topology.columns.len(), 18);
        assert_eq!(topology.links["GPU0"]["GPU7"], "NV12");
        assert_eq!(topology.links["GPU2"]["NIC3"], "PXB");
        assert_eq!(topology.links["NIC8"]["NIC9"], "PIX");
        assert_eq!(topology.nics["NIC9"], "mlx5_9");
        assert_eq!(topology.cpus["GPU0"], "48-63,176-191");
        assert!(!topology.cpus.contains_key("NIC0"));
    }

    #[test]
    fn underlines_are_ignored_and_truncated_matrix_is_rejected() {
        let underlined =
            A100.replacen("GPU0", "\u{1b}[4mGPU0", 1).replacen("NUMA Affinity\n", "NUMA Affinity\u{1b}[0m\n", 1);
        assert_eq!(parse_nvidia_topo(&underlined), parse_nvidia_topo(A100));
        assert_eq!(parse_nvidia_topo("Failed to initialize NVML\n"), None);
        let cut: String = A100.lines().take(5).map(|line| format!("{line}\n")).collect();
        assert_eq!(parse_nvidia_topo(&cut), None);
    }

    /// origin: reconstructed, after rows of a virtual machine whose cells are separated as the tool does it
    #[test]
    fn empty_affinity_is_not_read_from_the_next_column() {
        let text = "\tGPU0\tGPU1\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\nGPU0\t X \tNV18\t\t0\t\tN/A\n\
                    GPU1\tNV18\t X \t48-95\t1\t\tN/A\n";
        let topology = parse_nvidia_topo(text).expect("is a matrix");
        assert_eq!(topology.cpus, BTreeMap::from([("GPU1".to_owned(), "48-95".to_owned())]));
        let spaced = "        GPU0    GPU1    CPU Affinity    NUMA Affinity   GPU NUMA ID\n\
                      GPU0     X      NV18                    0               N/A\n\
                      GPU1    NV18     X      48-95           1               N/A\n";
        assert_eq!(parse_nvidia_topo(spaced).expect("is a matrix").cpus, topology.cpus);
    }

    #[test]
    fn adapter_names_in_older_matrices_are_parsed() {
        // origin: reconstructed after drivers before 515, with an adapter named by its location
        let text = "\tGPU0\tibp24s0\tmlx5_bond_0\tCPU Affinity\tNUMA Affinity\nGPU0\t X \tPIX\tSYS\t0-47\t0\n\
                    ibp24s0\tPIX\t X \tSYS\nmlx5_bond_0\tSYS\tSYS\t X \n";
        let topology = parse_nvidia_topo(text).expect("is a matrix");
        assert_eq!(topology.columns, ["GPU0", "ibp24s0", "mlx5_bond_0"]);
        assert_eq!((topology.links["GPU0"]["ibp24s0"].as_str(), topology.cpus["GPU0"].as_str()), ("PIX", "0-47"));
    }
}
