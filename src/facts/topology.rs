//! `topology`: how GPUs and adapters are connected.

use super::alike::entries;
use super::command::nvidia_topo;
use super::read::{done, failed, guarded, parts, ran, unread};
use super::{Fact, FactShape};
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
    ],
    reads: &["/proc/driver/nvidia/version", "/proc/*/stat", "nvidia-smi topo -m"],
    alike: &[entries("links"), entries("nics"), entries("cpus")],
    snippet: FactSnippet { name: "topology", snippet: SNIPPET, timeout_s: 45, device: true, quick: false },
    parse,
};

fn parse(output: &ProbeOutput) -> Result<Value, UnansweredReason> {
    let Some(ran) = ran(&parts(done(output)?), "nvidia-smi")? else { return Ok(Value::Null) };
    if ran.status != 0 {
        return Err(failed("nvidia-smi", &ran));
    }
    let topology = nvidia_topo::parse(ran.text).ok_or_else(|| unread("the matrix", output))?;
    Ok(json!({ "columns": topology.columns, "links": topology.links, "nics": topology.nics, "cpus": topology.cpus }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::read::testing::{parsed, printed, why};

    #[test]
    fn links_are_told_by_row_and_column() {
        let sample = include_str!("../../tests/samples/topo-a100x8.txt");
        let topology =
            parsed(&FACT, &printed(&format!("@@nvidia-smi\trun\t30\n{sample}\n@@status\t0\n"))).expect("is known");
        assert_eq!(topology["links"]["GPU0"]["NIC0"], "PXB");
        assert_eq!(topology["nics"]["NIC0"], "mlx5_0");
        assert_eq!(parsed(&FACT, ""), Ok(Value::Null));
        assert_eq!(
            why(&FACT, 0, &printed("@@nvidia-smi\trun\t30\nodd\n@@status\t0\n")),
            "the matrix is not in the answer"
        );
    }
}
