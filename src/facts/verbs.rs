//! `verbs`: the RDMA devices visible to programs.

use super::command::ibv_devinfo::{self, VerbsDevice, VerbsPort};
use super::comparison_rules::compare_each;
use super::fact::{Fact, FactShape};
use super::snippet_output::{command_failure, find_guarded_output, guarded, require_success, split_sections};
use crate::model::Value;
use crate::probe::{FactSnippet, ProbeOutput, UnansweredReason};
use serde_json::json;

const SNIPPET: &str =
    guarded!(r"for d in /sys/class/infiniband/*; do [ ! -e $d ] || { guard 15 ibv_devinfo; break; }; done");

pub(super) const FACT: Fact = Fact {
    name: "verbs",
    doc: "RDMA devices that programs see through the verbs library, a list from `ibv_devinfo`: the kernel may have more if the \
          library lacks their provider. Empty if the kernel has none.",
    shape: FactShape::List,
    fields: &[
        ("name", "`mlx5_0`"),
        ("firmware", "`28.43.1014`"),
        ("psid", "`MT_0000000838`"),
        ("ports", "list of `port`, `state` (`ACTIVE`), `max_mtu` and `active_mtu` (bytes), `link_layer`"),
    ],
    reads: &["/sys/class/infiniband/*", "/proc/*/stat", "ibv_devinfo"],
    alike: &[compare_each("", "name", &["ports.*.max_mtu", "ports.*.active_mtu"])],
    snippet: FactSnippet { name: "verbs", snippet: SNIPPET, timeout_s: 25, device: true, quick: false, builtin: false },
    parse,
};

fn parse(output: &ProbeOutput) -> Result<Value, UnansweredReason> {
    let Some(ran) = find_guarded_output(&split_sections(require_success(output)?), "ibv_devinfo")? else {
        return Ok(json!([]));
    };
    let devices = ibv_devinfo::parse_ibv_devinfo(ran.text);
    // It also fails if there is no device.
    if ran.status != 0 && !ran.text.contains("No IB devices found") {
        return Err(command_failure("ibv_devinfo", &ran));
    }
    Ok(devices.iter().map(build_device).collect::<Vec<_>>().into())
}

fn build_device(device: &VerbsDevice) -> Value {
    let port = |port: &VerbsPort| {
        json!({ "port": port.number, "state": port.state, "max_mtu": port.max_mtu,
                "active_mtu": port.active_mtu, "link_layer": port.link_layer })
    };
    let ports: Vec<Value> = device.ports.iter().map(port).collect();
    json!({ "name": device.name, "firmware": device.firmware, "psid": device.board, "ports": ports })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::snippet_output::testing::{expand_separators, expect_unknown, parse_stdout};

    #[test]
    fn verbs_devices_are_listed() {
        let sample = include_str!("../../tests/samples/ibv_devinfo.txt");
        let text = expand_separators(&format!("@@ibv_devinfo\trun\t15\n{sample}\n@@status\t0\n"));
        let expected = json!([{"name": "mlx5_0", "firmware": "28.40.1000", "psid": "MT_0000000834", "ports": [
            {"port": 1, "state": "ACTIVE", "max_mtu": 4096, "active_mtu": 4096, "link_layer": "InfiniBand"}]}]);
        assert_eq!(parse_stdout(&FACT, &text), Ok(expected));
        assert_eq!(parse_stdout(&FACT, ""), Ok(json!([])));
        let none = expand_separators("@@ibv_devinfo\trun\t15\nNo IB devices found\n\n@@status\t255\n");
        assert_eq!(parse_stdout(&FACT, &none), Ok(json!([])), "no provider for the kernel's device");
        assert_eq!(
            expect_unknown(
                &FACT,
                0,
                &expand_separators("@@ibv_devinfo\trun\t15\nFailed to open device\n@@status\t1\n")
            ),
            "`ibv_devinfo` failed with status 1"
        );
    }
}
