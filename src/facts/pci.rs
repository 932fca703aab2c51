//! `pci`: devices on the PCI bus.

use super::comparison_rules::compare_counts;
use super::fact::{Fact, FactShape};
use super::snippet_output::{require_success, text_or_null};
use crate::model::Value;
use crate::probe::{FactSnippet, ProbeOutput, UnansweredReason};
use serde_json::json;

/// Reads kernel memory through sysfs and does not access the devices. Starts no process per device.
const SNIPPET: &str = r#"[ -d /sys/bus ] || { printf '/sys is not mounted\n' >&2; exit 1; }
for d in /sys/bus/pci/devices/*; do
[ -e "$d/vendor" ] || continue
read -r v <"$d/vendor"; read -r e <"$d/device"; read -r c <"$d/class"
n=; [ ! -r "$d/numa_node" ] || read -r n <"$d/numa_node"
r=; [ ! -e "$d/driver" ] || { cd -P "$d/driver" && r=${PWD##*/}; }
printf '%s\t%s\t%s\t%s\t%s\t%s\n' "${d##*/}" "$v" "$e" "$c" "$n" "$r"
done"#;

pub(super) const FACT: Fact = Fact {
    name: "pci",
    doc: "Devices on the PCI bus, a list ordered by address, from `/sys/bus/pci/devices`. Empty if the kernel shows no PCI bus.",
    shape: FactShape::List,
    fields: &[
        ("bdf", "address: `0000:18:00.0`"),
        ("vendor", "vendor id as sysfs prints it: `0x10de`"),
        ("device", "device id: `0x2330`"),
        ("class", "class, subclass and interface: `0x030200`"),
        ("driver", "name of the bound driver, null without one"),
        ("numa", "number of the NUMA node, null if the firmware reports none"),
    ],
    reads: &["/sys/bus/pci/devices/*/{vendor,device,class,numa_node,driver}"],
    alike: &[compare_counts("", &["vendor", "device", "driver"])],
    snippet: FactSnippet { name: "pci", snippet: SNIPPET, timeout_s: 10, device: false, quick: true, builtin: false },
    parse,
};

fn parse(output: &ProbeOutput) -> Result<Value, UnansweredReason> {
    require_success(output)?.lines().map(parse_device).collect::<Option<Vec<_>>>().map(Value::from).ok_or_else(|| {
        UnansweredReason::new("a line of the answer is not a device")
            .with_message(output.stdout.raw().chars().take(200).collect::<String>())
    })
}

fn parse_device(line: &str) -> Option<Value> {
    let fields: Vec<&str> = line.split('\t').collect();
    let [bdf, vendor, device, class, numa, driver] = fields[..] else { return None };
    let numa = numa.parse::<i64>().ok().filter(|node| *node >= 0);
    Some(json!({
        "bdf": bdf, "vendor": vendor, "device": device, "class": class,
        "driver": text_or_null(Some(driver)), "numa": numa,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::snippet_output::testing::{expect_unknown, parse_stdout};

    #[test]
    fn devices_are_parsed_with_driver_and_numa_node() {
        // origin: reconstructed after an H100 host; ids from the PCI id list
        let text = "0000:18:00.0\t0x10de\t0x2330\t0x030200\t0\tnvidia\n0000:1a:00.0\t0x15b3\t0x1021\t0x020700\t-1\t\n";
        let expected = json!([
            {"bdf": "0000:18:00.0", "vendor": "0x10de", "device": "0x2330", "class": "0x030200", "driver": "nvidia", "numa": 0},
            {"bdf": "0000:1a:00.0", "vendor": "0x15b3", "device": "0x1021", "class": "0x020700", "driver": null, "numa": null},
        ]);
        assert_eq!(parse_stdout(&FACT, text), Ok(expected));
    }

    #[test]
    fn missing_bus_is_an_empty_list_and_missing_sysfs_is_unknown() {
        assert_eq!(parse_stdout(&FACT, ""), Ok(json!([])));
        assert_eq!(expect_unknown(&FACT, 1, ""), "its snippet failed with status 1");
        assert_eq!(expect_unknown(&FACT, 0, "x\n"), "a line of the answer is not a device");
    }
}
