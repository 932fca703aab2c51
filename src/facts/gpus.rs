//! `gpus`: the GPUs of a host, from the PCI bus and the driver's files.

use super::comparison_rules::compare_each;
use super::fact::{Fact, FactShape};
use super::gpu_table;
use super::snippet_output::{
    find_section, require_success, split_sections, text_or_null, unknown_part, value_or_unknown,
};
use crate::facts::command::nvidia_information::{self, GpuInformation};
use crate::model::Value;
use crate::probe::{FactSnippet, ProbeOutput, UnansweredReason};
use serde_json::{Map, json};
use std::collections::BTreeMap;

/// Does not run `nvidia-smi`, which may load the driver. The first bytes of a device that fell off the bus are all
/// ones.
const SNIPPET: &str = r#"[ -d /sys/bus ] || { printf '/sys is not mounted\n' >&2; exit 1; }
g() { v=; [ ! -r "$d/$1" ] || read -r v <"$d/$1" || :; printf '\t%s' "$v"; }
[ ! -e /proc/driver/nvidia/version ] || { printf '\036driver\n'; cat /proc/driver/nvidia/version; }
for d in /sys/bus/pci/devices/*; do
[ -e "$d/vendor" ] || continue
read -r v <"$d/vendor"; read -r c <"$d/class"
case $v,$c in 0x10de,0x0300*|0x10de,0x0302*) ;; *) continue ;; esac
r=; [ ! -e "$d/driver" ] || { r=$(cd -P "$d/driver" && pwd); r=${r##*/}; }
b=; [ ! -r "$d/config" ] || b=$(od -An -tx1 -N2 "$d/config" 2>/dev/null)
printf '\n\036gpu\t%s\t%s\t%s' "${d##*/}" "$r" "$b"
g device; g numa_node; g current_link_width; g max_link_width; g max_link_speed
printf '\n'
done
for f in /proc/driver/nvidia/gpus/*/information; do
[ -e "$f" ] || continue
n=${f%/information}
printf '\n\036information\t%s\n' "${n##*/}"; cat "$f"
done
:"#;

pub(super) const FACT: Fact = Fact {
    name: "gpus",
    doc: "NVIDIA GPUs, a list ordered by address, from `/sys/bus/pci/devices`, `/proc/driver/nvidia/gpus` and forge's table of \
          device ids. Empty if there are none. The output of `nvidia-smi` is in `gpu_state`.",
    shape: FactShape::List,
    fields: &[
        ("bdf", "PCI address: `0000:18:00.0`"),
        ("device", "device id: `0x2330`"),
        ("product", "`H100 SXM`; unknown, like generation, flavors and branches, for an id that is not in the table"),
        ("generation", "`turing`, `ampere`, `ada`, `hopper`, `blackwell`"),
        ("flavors", "the kernel module flavors that drive it: `proprietary`, `open`"),
        ("gsp_optional", "whether the firmware of its system processor can be disabled; null if it has none"),
        ("branch_min", "the first driver branch that supports it, null if every branch in use does"),
        ("branch_max", "the last driver branch that supports it, null if support has not ended"),
        (
            "fabric",
            "how products of its type are connected: `nvswitch`, `nvlink5`, `imex`, null; unknown if that depends on the server. The \
             fact `nvswitch` shows the switches of this host",
        ),
        ("driver", "the bound kernel driver: `nvidia`, `nouveau`, `vfio-pci`, null"),
        ("numa", "number of the NUMA node, null if the firmware reports none"),
        ("pcie", "`width` and `max_width` in lanes, `max_speed` (`32.0 GT/s PCIe`); unknown if it does not answer"),
        ("answers", "false if its PCI configuration reads as all ones: it fell off the bus"),
        ("model", "the driver's name for it, null while the driver has none"),
        ("uuid", "null while the driver does not know it"),
        ("vbios", "null while the driver does not know it"),
        (
            "gsp",
            "whether its system processor runs firmware, `on` or `off`, from the driver's file of this GPU: the requested setting \
             does not show that. Unknown while no driver manages it, null for GPUs without such a processor",
        ),
        ("gsp_firmware", "the version of that firmware, null if it is off"),
    ],
    reads: &[
        "/sys/bus/pci/devices/*/{vendor,class,device,numa_node,driver,config}",
        "/sys/bus/pci/devices/*/{current_link_width,max_link_width,max_link_speed}",
        "/proc/driver/nvidia/version",
        "/proc/driver/nvidia/gpus/*/information",
    ],
    alike: &[compare_each(
        "",
        "bdf",
        &[
            "device",
            "driver",
            "numa",
            "pcie.width",
            "pcie.max_width",
            "pcie.max_speed",
            "answers",
            "model",
            "vbios",
            "gsp",
            "gsp_firmware",
        ],
    )],
    snippet: FactSnippet { name: "gpus", snippet: SNIPPET, timeout_s: 15, device: true, quick: false, builtin: false },
    parse,
};

fn parse(output: &ProbeOutput) -> Result<Value, UnansweredReason> {
    let parts = split_sections(require_success(output)?);
    let open = find_section(&parts, "driver").map(|part| part.body.contains("Open Kernel Module"));
    let known: BTreeMap<&str, GpuInformation> = parts
        .iter()
        .filter(|part| part.name() == "information")
        .map(|part| (part.field_at(1), nvidia_information::parse_gpu_information(part.body)))
        .collect();
    let gpus = parts.iter().filter(|part| part.name() == "gpu");
    let one = |part: &super::snippet_output::OutputSection<'_>| {
        let row: Vec<&str> = (1..9).map(|at| part.field_at(at)).collect();
        build_gpu(&row, known.get(row[0]), open)
    };
    Ok(gpus.map(one).collect::<Vec<_>>().into())
}

fn build_gpu(row: &[&str], information: Option<&GpuInformation>, open: Option<bool>) -> Value {
    let mut gpu = bus_fields(row);
    gpu.extend(model_fields(row[3]));
    let text = |of: fn(&GpuInformation) -> Option<&str>| text_or_null(information.and_then(of));
    gpu.insert("model".into(), text(|i| i.model.as_deref()));
    gpu.insert("uuid".into(), text(|i| i.uuid.as_deref()));
    gpu.insert("vbios".into(), text(|i| i.vbios.as_deref()));
    let (gsp, firmware) = gsp_values(row[3], information, open);
    gpu.insert("gsp".into(), gsp);
    gpu.insert("gsp_firmware".into(), firmware);
    Value::Object(gpu)
}

fn bus_fields(row: &[&str]) -> Map<String, Value> {
    let number = |text: &str| text.trim().parse::<i64>().ok().filter(|number| *number >= 0);
    let bytes = row[2].split_whitespace().collect::<String>();
    let answers = match bytes.as_str() {
        "" => unknown_part("its PCI configuration cannot be read"),
        bytes => Value::from(bytes != "ffff"),
    };
    // All ones would be read as 63 lanes.
    let pcie = match bytes.as_str() {
        "ffff" => unknown_part("it does not answer"),
        _ => json!({ "width": number(row[5]), "max_width": number(row[6]), "max_speed": text_or_null(Some(row[7])) }),
    };
    let fields = [
        ("bdf", row[0].into()),
        ("device", row[3].into()),
        ("driver", text_or_null(Some(row[1]))),
        ("numa", json!(number(row[4]))),
        ("pcie", pcie),
        ("answers", answers),
    ];
    fields.map(|(name, value)| (name.to_owned(), value)).into_iter().collect()
}

/// Returns the table's fields for a device id.
fn model_fields(device: &str) -> Map<String, Value> {
    let gpu = gpu_table::find_gpu_model(device);
    let told = |value: &dyn Fn(&gpu_table::GpuModel) -> Value| {
        gpu.map_or_else(|| unknown_part(format!("forge's table has no GPU with the device id `{device}`")), value)
    };
    let gsp_optional = |gpu: &gpu_table::GpuModel| gpu.has_gsp.then(|| gpu.is_gsp_optional()).into();
    let fabric = |gpu: &gpu_table::GpuModel| match gpu.fabric {
        Some("depends") => unknown_part("it depends on the server"),
        fabric => fabric.into(),
    };
    let fields = [
        ("product", told(&|gpu| gpu.product.into())),
        ("generation", told(&|gpu| gpu.generation.into())),
        ("flavors", told(&|gpu| gpu.flavors.into())),
        ("gsp_optional", told(&gsp_optional)),
        ("branch_min", told(&|gpu| gpu.branches.0.into())),
        ("branch_max", told(&|gpu| gpu.branches.1.into())),
        ("fabric", told(&fabric)),
    ];
    fields.map(|(name, value)| (name.to_owned(), value)).into_iter().collect()
}

/// Returns state and version of one GPU's firmware. A version means on; `N/A` means off if the driver has initialized
/// the GPU and its flavor can run without firmware.
fn gsp_values(device: &str, information: Option<&GpuInformation>, open: Option<bool>) -> (Value, Value) {
    if gpu_table::find_gpu_model(device).is_some_and(|gpu| !gpu.has_gsp) {
        return (Value::Null, Value::Null);
    }
    let both = |why: &str| (unknown_part(why), unknown_part(why));
    let Some(information) = information else {
        return both(if open.is_some() {
            "the loaded driver does not manage this GPU"
        } else {
            "no NVIDIA driver is loaded"
        });
    };
    match information.firmware.as_deref() {
        None => both("the driver's file of this GPU contains no firmware version"),
        Some("N/A") if information.uuid.is_none() => both("the driver has not initialized this GPU"),
        Some("N/A") if open == Some(true) => {
            both("an open kernel module reports that it runs no firmware, which is not possible")
        }
        Some("N/A") => ("off".into(), Value::Null),
        Some(version) => {
            let is_version = version.starts_with(|c: char| c.is_ascii_digit());
            let known = |text: &str| {
                value_or_unknown(is_version.then(|| text.to_owned()), || {
                    format!("the driver's file contains `{version}`")
                })
            };
            (known("on"), known(version))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::snippet_output::testing::{expand_separators, parse_stdout};

    const BUS: &str = "@@gpu\t0000:18:00.0\tnvidia\t de 10\t0x2330\t0\t16\t16\t32.0 GT/s PCIe\n";
    // origin: domain, a field node with 560.35.03
    const PROPRIETARY: &str =
        "@@driver\nNVRM version: NVIDIA UNIX x86_64 Kernel Module  560.35.03  Fri Aug 16 21:39:15 UTC 2024\n";
    const OPEN: &str =
        "@@driver\nNVRM version: NVIDIA UNIX Open Kernel Module for x86_64  560.35.03  Release Build  (x)\n";

    fn information_section(firmware: &str) -> String {
        let sample = include_str!("../../tests/samples/information-gsp-off.txt");
        format!("\n@@information\t0000:18:00.0\n{}", sample.replace("N/A", firmware))
    }

    fn parse_gsp(text: &str) -> Value {
        parse_stdout(&FACT, &expand_separators(text)).expect("is known")[0]["gsp"].clone()
    }

    #[test]
    fn gpu_reports_address_model_and_firmware() {
        let text = expand_separators(&format!("{PROPRIETARY}{BUS}{}", information_section("N/A")));
        let expected = json!([{
            "bdf": "0000:18:00.0", "device": "0x2330", "driver": "nvidia", "numa": 0,
            "pcie": {"width": 16, "max_width": 16, "max_speed": "32.0 GT/s PCIe"}, "answers": true,
            "product": "H100 SXM", "generation": "hopper", "flavors": ["proprietary", "open"], "gsp_optional": true,
            "branch_min": null, "branch_max": null, "fabric": "nvswitch",
            "model": "Quadro RTX 8000", "uuid": "GPU-97e0449e-f914-403f-3976-34c746092b9c", "vbios": "90.02.30.00.01",
            "gsp": "off", "gsp_firmware": null,
        }]);
        assert_eq!(parse_stdout(&FACT, &text), Ok(expected));
    }

    #[test]
    fn gsp_state_comes_from_driver_file_not_from_parameters() {
        assert_eq!(parse_gsp(&format!("{PROPRIETARY}{BUS}{}", information_section("560.35.03"))), "on");
        assert_eq!(
            parse_gsp(&format!("{OPEN}{BUS}{}", information_section("560.35.03"))),
            "on",
            "although params say 0"
        );
        let unknown = |text: &str| parse_gsp(text)["unknown"].clone();
        assert_eq!(
            unknown(&format!("{OPEN}{BUS}{}", information_section("N/A"))),
            "an open kernel module reports that it runs no firmware, which is not possible"
        );
        assert_eq!(unknown(BUS), "no NVIDIA driver is loaded");
        assert_eq!(unknown(&format!("{PROPRIETARY}{BUS}")), "the loaded driver does not manage this GPU");
        assert_eq!(
            unknown(&format!("{PROPRIETARY}{BUS}{}", information_section("??"))),
            "the driver's file contains `??`"
        );
        let cold = information_section("N/A")
            .replace("97e0449e-f914-403f-3976-34c746092b9c", "????????-????-????-????-????????????");
        assert_eq!(unknown(&format!("{PROPRIETARY}{BUS}{cold}")), "the driver has not initialized this GPU");
        let volta = BUS.replace("0x2330", "0x1db1");
        assert_eq!(parse_gsp(&format!("{PROPRIETARY}{volta}")), Value::Null);
    }

    #[test]
    fn unlisted_device_id_leaves_other_fields_known() {
        let facts = parse_stdout(&FACT, &expand_separators(&BUS.replace("0x2330", "0x4242").replace("de 10", "ff ff")))
            .expect("is known");
        assert_eq!(facts[0]["flavors"]["unknown"], "forge's table has no GPU with the device id `0x4242`");
        assert_eq!((&facts[0]["numa"], &facts[0]["answers"]), (&json!(0), &json!(false)), "it fell off the bus");
        assert_eq!(facts[0]["pcie"]["unknown"], "it does not answer");
    }

    #[test]
    fn fabric_of_server_dependent_gpu_is_unknown() {
        let facts = parse_stdout(&FACT, &expand_separators(&BUS.replace("0x2330", "0x2342"))).expect("is known");
        assert_eq!(facts[0]["fabric"]["unknown"], "it depends on the server");
        assert_eq!((&facts[0]["flavors"], &facts[0]["gsp_optional"]), (&json!(["open"]), &json!(false)), "GH200");
    }

    #[test]
    fn host_without_gpus_has_an_empty_list() {
        assert_eq!(parse_stdout(&FACT, ""), Ok(json!([])));
    }
}
