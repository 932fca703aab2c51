//! `nvswitch`: whether switches connect the GPUs, and what must manage them.

use super::comparison_rules::compare_value;
use super::fact::{Fact, FactShape};
use super::gpu_table;
use super::snippet_output::{find_field, require_success, unknown_part};
use crate::model::Value;
use crate::probe::{FactSnippet, ProbeOutput, UnansweredReason};
use serde_json::json;

/// NVLink 5 switches are not PCI devices: the network functions that manage them carry a mark in their product data. It
/// is read only if there are GPUs and no switch on the bus, because devices answer slowly. Only root can read it.
const SNIPPET: &str = r#"[ -d /sys/bus ] || { printf '/sys is not mounted\n' >&2; exit 1; }
g= s=
for d in /sys/bus/pci/devices/*; do
[ -e "$d/vendor" ] || continue
read -r v <"$d/vendor"; read -r c <"$d/class"
case $v,$c in
0x10de,0x0680*) s=1; printf 'switch\t%s\n' "${d##*/}" ;;
0x10de,0x0300*|0x10de,0x0302*) g=1; read -r e <"$d/device"; printf 'gpu\t%s\n' "$e" ;;
esac
done
n=0
for d in /proc/driver/nvidia-nvswitch/devices/*; do [ ! -e "$d" ] || n=$((n + 1)); done
printf 'devices\t%s\n' "$n"
[ -n "$g" ] && [ -z "$s" ] || exit 0
for d in /sys/bus/pci/devices/*; do
[ -e "$d/vendor" ] || continue
read -r v <"$d/vendor"; read -r c <"$d/class"
case $v,$c in 0x15b3,0x0207*) ;; *) continue ;; esac
[ -e "$d/vpd" ] || continue
grep -aqs SW_MNG "$d/vpd"
case $? in 0) printf 'bridge\t%s\n' "${d##*/}" ;; 1) ;; *) printf 'hidden\t%s\n' "${d##*/}" ;; esac
done
:"#;

/// On boards with four GPUs, NVLinks connect the same GPUs directly. Boards with more have switches; a board with eight
/// shows fewer if one is lost.
const DIRECT_GPUS: usize = 4;

pub(super) const FACT: Fact = Fact {
    name: "nvswitch",
    doc: "Whether NVSwitches connect the GPUs, from `/sys/bus/pci/devices`, the switch driver's files and the product data of \
          adapters that manage switches.",
    shape: FactShape::Map,
    fields: &[
        ("count", "number of switches on the PCI bus; NVLink 5 switches are not on it"),
        ("devices", "their addresses"),
        ("driver_devices", "number of switches that the driver manages"),
        (
            "bridges",
            "addresses of the network functions that manage NVLink 5 switches: they are not adapters for traffic. Unknown, like \
             `required`, if the GPUs use NVLink 5 and the product data is not readable",
        ),
        ("required", "whether a fabric manager must run on this host"),
        (
            "expected",
            "whether forge's table of GPUs says that switches connect them: more than four GPUs of a board with switches, whether \
             or not a switch is visible",
        ),
        (
            "imex",
            "whether the host belongs to a multi-node NVLink domain (GB200, GB300): its fabric manager runs on another machine",
        ),
    ],
    reads: &["/sys/bus/pci/devices/*/{vendor,class,device,vpd}", "/proc/driver/nvidia-nvswitch/devices/*"],
    alike: &[compare_value("count"), compare_value("driver_devices"), compare_value("required"), compare_value("imex")],
    snippet: FactSnippet {
        name: "nvswitch",
        snippet: SNIPPET,
        timeout_s: 20,
        device: true,
        quick: false,
        builtin: false,
    },
    parse,
};

fn parse(output: &ProbeOutput) -> Result<Value, UnansweredReason> {
    let text = require_success(output)?;
    let all = |key: &str| -> Vec<&str> {
        text.lines().filter_map(|line| line.strip_prefix(key)?.strip_prefix('\t')).collect()
    };
    let (switches, bridges) = (all("switch"), all("bridge"));
    let driver: u64 = find_field(text, "devices").and_then(|n| n.parse().ok()).unwrap_or(0);
    let joined =
        |by: &str| all("gpu").iter().any(|id| gpu_table::find_gpu_model(id).is_some_and(|gpu| gpu.fabric == Some(by)));
    let imex = joined("imex");
    let on_board = |id: &&&str| {
        gpu_table::find_gpu_model(id).is_some_and(|gpu| matches!(gpu.fabric, Some("nvswitch" | "nvlink5")))
    };
    let expected = all("gpu").iter().filter(on_board).count() > DIRECT_GPUS;
    let any = !switches.is_empty() || driver > 0 || !bridges.is_empty();
    let hidden = (joined("nvlink5") && !any).then(|| all("hidden").first().copied()).flatten();
    let told =
        |value: Value| hidden.map_or(value, |bdf| unknown_part(format!("product data of `{bdf}` cannot be read")));
    Ok(json!({
        "count": switches.len(), "devices": switches, "driver_devices": driver, "bridges": told(bridges.into()),
        "required": told((any && !imex).into()), "expected": expected, "imex": imex,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::snippet_output::testing::parse_stdout;

    fn parse_text(text: &str) -> (Value, Value, Value) {
        let fact = parse_stdout(&FACT, text).expect("is known");
        (fact["count"].clone(), fact["required"].clone(), fact["imex"].clone())
    }

    #[test]
    fn fabric_manager_is_required_on_hosts_with_nvswitches() {
        let gpus = "gpu\t0x2330\n".repeat(8);
        assert_eq!(
            parse_text(&format!("{gpus}{}devices\t0\n", "switch\t0000:05:00.0\n".repeat(4))),
            (json!(4), json!(true), json!(false))
        );
        assert_eq!(parse_text("gpu\t0x2331\ndevices\t0\n"), (json!(0), json!(false), json!(false)), "PCIe cards");
        assert_eq!(
            parse_text("gpu\t0x2901\ndevices\t0\nbridge\t0000:05:00.0\n"),
            (json!(0), json!(true), json!(false)),
            "B200"
        );
        let hidden = parse_stdout(&FACT, "gpu\t0x2901\ndevices\t0\nhidden\t0000:05:00.0\n").expect("is known");
        let why = json!("product data of `0000:05:00.0` cannot be read");
        assert_eq!((&hidden["required"]["unknown"], &hidden["bridges"]["unknown"]), (&why, &why));
        assert_eq!(
            parse_text("gpu\t0x2331\ndevices\t0\nhidden\t0000:05:00.0\n").1,
            json!(false),
            "cards have no such switch"
        );
        assert_eq!(parse_text("gpu\t0x2941\ndevices\t0\n"), (json!(0), json!(false), json!(true)), "GB200");
        assert_eq!(parse_text("devices\t0\n"), (json!(0), json!(false), json!(false)), "no GPU at all");
    }

    #[test]
    fn switches_are_expected_on_boards_with_more_than_four_gpus() {
        let expected = |id: &str, count: usize| {
            let text = format!("{}devices\t0\n", format!("gpu\t{id}\n").repeat(count));
            parse_stdout(&FACT, &text).expect("is known")["expected"].clone()
        };
        assert_eq!(expected("0x2330", 8), json!(true), "H100 SXM");
        assert_eq!(expected("0x2330", 7), json!(true), "a board of eight that has lost a GPU");
        assert_eq!(expected("0x2330", 4), json!(false), "a board of four has no switch");
        assert_eq!(expected("0x2901", 8), json!(true), "B200");
        assert_eq!(expected("0x2331", 8), json!(false), "PCIe cards");
        assert_eq!(expected("0x2342", 8), json!(false), "GH200: depends on the server");
        assert_eq!(expected("0x2941", 4), json!(false), "GB200: its switches are in other trays");
    }
}
