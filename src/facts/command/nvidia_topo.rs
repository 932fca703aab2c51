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
    let mut lines = text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let columns: Vec<String> = lines
        .by_ref()
        .find(|words| words.first() == Some(&"GPU0") && words.get(1) != Some(&"X"))?
        .into_iter()
        .take_while(|word| !matches!(*word, "CPU" | "NUMA"))
        .map(str::to_owned)
        .collect();
    let mut topology = GpuTopology { columns, ..GpuTopology::default() };
    for words in lines {
        match words.split_first() {
            Some((name, cells)) if topology.columns.iter().any(|column| column == name) => {
                topology.add_row(name, cells)?
            }
            Some((name, [device])) if name.starts_with("NIC") && name.ends_with(':') => {
                topology.nics.insert(name.trim_end_matches(':').to_owned(), (*device).to_owned());
            }
            _ => {}
        }
    }
    (topology.links.len() == topology.columns.len()).then_some(topology)
}

impl GpuTopology {
    fn add_row(&mut self, name: &str, cells: &[&str]) -> Option<()> {
        let own = cells.get(..self.columns.len())?;
        let links = self.columns.iter().cloned().zip(own.iter().map(|cell| (*cell).to_owned())).collect();
        self.links.insert(name.to_owned(), links);
        if let Some(cpus) = cells.get(self.columns.len()).filter(|cell| cell.starts_with(|c: char| c.is_ascii_digit()))
        {
            self.cpus.insert(name.to_owned(), (*cpus).to_owned());
        }
        Some(())
    }
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
