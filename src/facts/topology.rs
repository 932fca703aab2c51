//! `topology`: how GPUs and adapters are connected.

use super::command::nvidia_topo;
use super::comparison_rules::compare_entries;
use super::fact::{Fact, FactShape};
use super::snippet_output::{
    command_failure, find_guarded_output, guarded, require_success, split_sections, unparsed_answer,
};
use crate::model::Value;
use crate::probe::{FactSnippet, ProbeOutput, UnansweredReason};
use serde_json::json;

const SNIPPET: &str = guarded!(
    r"[ -e /proc/driver/nvidia/version ] || exit 0
guard 30 nvidia-smi topo -m"
);

pub(super) const FACT: Fact = Fact {
    name: "topology",
    doc: "How GPUs and RDMA adapters are connected, from `nvidia-smi topo -m`. Null if no driver is loaded.",
    shape: FactShape::Map,
    fields: &[
        ("columns", "the devices in order: `GPU0` … `NIC0` …"),
        (
            "links",
            "map from row and column to `X`, `NV18` (NVLinks), `PIX`, `PXB`, `PHB`, `NODE`, `SYS`, best to worst",
        ),
        ("nics", "map from `NIC0` to the device that it denotes: `mlx5_0`"),
        ("cpus", "map from GPU to its processors: `0-47,96-143`; without GPUs that have none"),
        (
            "between_gpus",
            "map from a connection to the number of pairs of GPUs that have it: `{NV18: 28}`; empty with one GPU",
        ),
        ("near", "pairs of a GPU and an RDMA device below one PCIe switch (`PIX`, `PXB`): `GPU0=mlx5_0`"),
    ],
    reads: &["/proc/driver/nvidia/version", "/proc/*/stat", "nvidia-smi topo -m"],
    alike: &[compare_entries("links"), compare_entries("nics"), compare_entries("cpus")],
    snippet: FactSnippet {
        name: "topology",
        snippet: SNIPPET,
        timeout_s: 45,
        device: true,
        quick: false,
        builtin: false,
    },
    parse,
};

fn parse(output: &ProbeOutput) -> Result<Value, UnansweredReason> {
    let Some(ran) = find_guarded_output(&split_sections(require_success(output)?), "nvidia-smi")? else {
        return Ok(Value::Null);
    };
    if ran.status != 0 {
        return Err(command_failure("nvidia-smi", &ran));
    }
    let topology = nvidia_topo::parse_nvidia_topo(ran.text).ok_or_else(|| unparsed_answer("the matrix", output))?;
    Ok(json!({
        "columns": topology.columns, "links": topology.links, "nics": topology.nics, "cpus": topology.cpus,
        "between_gpus": topology.count_gpu_connections(), "near": topology.list_near_pairs(),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::snippet_output::testing::{expand_separators, expect_unknown, parse_stdout};

    #[test]
    fn links_are_indexed_by_row_and_column() {
        let sample = include_str!("../../tests/samples/topo-a100x8.txt");
        let topology =
            parse_stdout(&FACT, &expand_separators(&format!("@@nvidia-smi\trun\t30\n{sample}\n@@status\t0\n")))
                .expect("is known");
        assert_eq!(topology["links"]["GPU0"]["NIC0"], "PXB");
        assert_eq!(topology["nics"]["NIC0"], "mlx5_0");
        assert_eq!(topology["between_gpus"], json!({ "NV12": 28 }));
        let near: Vec<&str> = topology["near"].as_array().expect("a list").iter().filter_map(Value::as_str).collect();
        assert!(near.contains(&"GPU0=mlx5_0") && !near.contains(&"GPU0=mlx5_9"), "{near:?}");
        assert_eq!(parse_stdout(&FACT, ""), Ok(Value::Null));
        assert_eq!(
            expect_unknown(&FACT, 0, &expand_separators("@@nvidia-smi\trun\t30\nodd\n@@status\t0\n")),
            "the matrix is not in the answer"
        );
    }
}
