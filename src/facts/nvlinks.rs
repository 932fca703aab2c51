//! `nvlinks`: the NVLinks of each GPU, and how many its product has.

use super::command::nvidia_nvlink::{self, GpuLinks};
use super::comparison_rules::compare_each;
use super::fact::{Fact, FactShape};
use super::gpu_table::{self, ProductLinks};
use super::snippet_output::{
    OutputSection, command_failure, find_guarded_output, guarded, require_success, split_sections, unknown_part,
};
use crate::model::Value;
use crate::probe::{FactSnippet, ProbeOutput, UnansweredReason};
use serde_json::json;

/// The program names a GPU by its UUID; the driver's files have UUID and address. No other program is started.
const SNIPPET: &str = guarded!(
    r#"[ -e /proc/driver/nvidia/version ] || exit 0
for f in /proc/driver/nvidia/gpus/*/information; do
[ -r "$f" ] || continue
b=${f%/information} b=${b##*/} d= u=
[ ! -r "/sys/bus/pci/devices/$b/device" ] || read -r d <"/sys/bus/pci/devices/$b/device"
while read -r k w v _; do [ "$k $w" != 'GPU UUID:' ] || u=$v; done <"$f"
printf '\n\036gpu\t%s\t%s\t%s\n' "$b" "$d" "$u"
done
[ ! -r /proc/driver/nvidia/params ] || while read -r k v; do [ "$k" != NvLinkDisable: ] || printf '\n\036disabled\t%s\n' "$v"; done </proc/driver/nvidia/params
guard 30 nvidia-smi nvlink -s"#
);

pub(super) const FACT: Fact = Fact {
    name: "nvlinks",
    doc: "The NVLinks of each GPU that the driver manages, a list ordered by address, from `nvidia-smi nvlink -s` and forge's \
          table of device ids. Empty if no driver is loaded.",
    shape: FactShape::List,
    fields: &[
        ("bdf", "PCI address as in `gpus`: `0000:18:00.0`"),
        (
            "disabled",
            "whether the driver was loaded with `NVreg_NvLinkDisable=1`. It then lists no links, and none is active",
        ),
        ("active", "number of active links"),
        ("inactive", "number of inactive links. 0 if the driver does not list them because all are inactive"),
        ("speed", "GB/s of the slowest active link in one direction: `26.562`; null without an active link"),
        ("max_speed", "GB/s of the fastest active link; null without an active link"),
        (
            "expected",
            "number of links that its product uses: 18 for an H100 SXM, 12 for an A100 SXM and for a bridged H100 NVL; unknown if \
             the table has no number",
        ),
        (
            "missing",
            "number of links of its product that are not active; 0 for a card whose links need a bridge and that has none. Unknown \
             like `expected`",
        ),
    ],
    reads: &[
        "/proc/driver/nvidia/{version,params}",
        "/proc/driver/nvidia/gpus/*/information",
        "/sys/bus/pci/devices/*/device",
        "/proc/*/stat",
        "nvidia-smi nvlink -s",
    ],
    alike: &[compare_each("", "bdf", &["active", "inactive", "speed"])],
    snippet: FactSnippet {
        name: "nvlinks",
        snippet: SNIPPET,
        timeout_s: 45,
        device: true,
        quick: false,
        builtin: false,
    },
    parse,
};

fn parse(output: &ProbeOutput) -> Result<Value, UnansweredReason> {
    let parts = split_sections(require_success(output)?);
    let Some(ran) = find_guarded_output(&parts, "nvidia-smi")? else { return Ok(json!([])) };
    if ran.status != 0 {
        return Err(command_failure("nvidia-smi", &ran));
    }
    let links = nvidia_nvlink::parse_nvlink_status(ran.text);
    let disabled = parts.iter().any(|part| part.name() == "disabled" && part.field_at(1) == "1");
    let mut gpus: Vec<&OutputSection<'_>> = parts.iter().filter(|part| part.name() == "gpu").collect();
    gpus.sort_by_key(|gpu| gpu.field_at(1));
    Ok(gpus.iter().map(|gpu| build_gpu_links(gpu, &links, disabled)).collect::<Vec<_>>().into())
}

/// `disabled` is whether a driver option switches NVLink off.
fn build_gpu_links(gpu: &OutputSection<'_>, links: &[GpuLinks], disabled: bool) -> Value {
    let (bdf, device, uuid) = (gpu.field_at(1), gpu.field_at(2), gpu.field_at(3));
    let own = links.iter().find(|links| !uuid.is_empty() && links.uuid == uuid);
    let counted = match own {
        None if disabled => Ok([].as_slice()),
        None => Err("`nvidia-smi nvlink -s` does not list this GPU".to_owned()),
        Some(GpuLinks { odd: Some(line), .. }) => Err(format!("`nvidia-smi nvlink -s` reports `{line}`")),
        Some(own) => Ok(own.links.as_slice()),
    };
    let told = |read: &dyn Fn(&[Option<f64>]) -> Value| match &counted {
        Ok(links) => read(links),
        Err(why) => unknown_part(why),
    };
    let speeds = |links: &[Option<f64>]| links.iter().flatten().copied().collect::<Vec<f64>>();
    let product = gpu_table::find_gpu_model(device);
    let product = product.and_then(|product| product.nvlinks);
    let unlisted = || unknown_part(format!("forge's table has no number of links for the device id `{device}`"));
    json!({
        "bdf": bdf,
        "disabled": disabled,
        "active": told(&|links| speeds(links).len().into()),
        "inactive": told(&|links| links.iter().filter(|link| link.is_none()).count().into()),
        "speed": told(&|links| speeds(links).into_iter().reduce(f64::min).into()),
        "max_speed": told(&|links| speeds(links).into_iter().reduce(f64::max).into()),
        "expected": product.map_or_else(unlisted, |links| links.count.into()),
        "missing": product.map_or_else(unlisted, |product| told(&|links| count_missing(product, speeds(links).len()))),
    })
}

fn count_missing(product: ProductLinks, active: usize) -> Value {
    let is_unbridged = product.by_bridge && active == 0;
    if is_unbridged { 0.into() } else { product.count.saturating_sub(active as u64).into() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::snippet_output::testing::{expand_separators, expect_unknown, parse_stdout, run_snippet};

    const SAMPLE: &str = include_str!("../../tests/samples/nvlink-h100-nvl.txt");
    const GPUS: &str = "\n@@gpu\t0000:ae:00.0\t0x2321\tGPU-db6d02a2-1413-eccf-8a17-d99eac29d365\n\
                        \n@@gpu\t0000:ad:00.0\t0x2321\tGPU-806f8ea2-6428-1096-a076-bb687fb45fb0\n";

    fn links_of(gpus: &str, listing: &str) -> Value {
        let text = format!("{gpus}\n@@nvidia-smi\trun\t30\n{listing}\n@@status\t0\n");
        parse_stdout(&FACT, &expand_separators(&text)).expect("is known")
    }

    #[test]
    fn active_links_are_counted_against_those_of_the_product() {
        let links = links_of(GPUS, SAMPLE);
        let expected = json!({
            "bdf": "0000:ad:00.0", "disabled": false, "active": 12, "inactive": 6, "speed": 26.562, "max_speed": 26.562, "expected": 12,
            "missing": 0,
        });
        assert_eq!(links[0], expected);
        assert_eq!((links.as_array().map(Vec::len), &links[1]["bdf"]), (Some(2), &json!("0000:ae:00.0")));
        let sxm = links_of(&GPUS.replace("0x2321", "0x2330"), SAMPLE);
        assert_eq!((&sxm[0]["expected"], &sxm[0]["missing"]), (&json!(18), &json!(6)));
    }

    /// origin: field, an H200 with driver and links as in a public health check's sample
    #[test]
    fn slowest_and_fastest_link_are_reported() {
        let slow = SAMPLE.replacen("Link 2: 26.562 GB/s", "Link 2: 1.0 GB/s", 1);
        let links = links_of(GPUS, &slow);
        assert_eq!((&links[0]["speed"], &links[0]["max_speed"]), (&json!(1.0), &json!(26.562)));
        let none = links_of(GPUS, &SAMPLE.replace("26.562 GB/s", "<inactive>"));
        assert_eq!(
            (&none[0]["active"], &none[0]["inactive"], &none[0]["speed"]),
            (&json!(0), &json!(18), &Value::Null)
        );
    }

    /// origin: field, one H100 SXM of a virtual machine, driver 580.159.04 with `NVreg_NvLinkDisable=1`: the program prints
    /// nothing and exits with 0
    #[test]
    fn links_that_the_driver_switches_off_are_not_active() {
        let gpu = "\n@@gpu\t0000:00:06.0\t0x2330\tGPU-720c94af-e2a7-3760-8a63-3a1f68e0ae68\n";
        let expected = json!([{
            "bdf": "0000:00:06.0", "disabled": true, "active": 0, "inactive": 0, "speed": null, "max_speed": null,
            "expected": 18, "missing": 18,
        }]);
        assert_eq!(links_of(&format!("{gpu}\n@@disabled\t1\n"), ""), expected);
        assert!(links_of(&format!("{gpu}\n@@disabled\t0\n"), "")[0]["active"]["unknown"].is_string());
    }

    #[test]
    fn unlisted_gpu_and_unexpected_line_are_unknown() {
        let links = links_of("\n@@gpu\t0000:01:00.0\t0x4242\tGPU-x\n", SAMPLE);
        assert_eq!(links[0]["active"]["unknown"], "`nvidia-smi nvlink -s` does not list this GPU");
        let why = "forge's table has no number of links for the device id `0x4242`";
        assert_eq!(links[0]["expected"]["unknown"], why);
        let odd = links_of(GPUS, &SAMPLE.replacen("Link 0: 26.562 GB/s", "Link 0: ERR!", 1));
        assert_eq!(odd[0]["active"]["unknown"], "`nvidia-smi nvlink -s` reports `Link 0: ERR!`");
        assert_eq!(odd[1]["active"], 12);
        assert_eq!(
            expect_unknown(&FACT, 0, &expand_separators("\n@@nvidia-smi\trun\t30\n\n@@status\t9\n")),
            "`nvidia-smi` failed with status 9"
        );
    }

    #[test]
    fn nvidia_smi_is_not_started_without_a_driver() {
        let text = run_snippet("nvidia-smi() { echo started; }", &FACT);
        assert_eq!(parse_stdout(&FACT, &text), Ok(json!([])), "{text}");
    }
}
