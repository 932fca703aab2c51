//! `gpu_state`: the state of each GPU as reported by `nvidia-smi -q -x`.

use super::command::{nvidia_smi, nvidia_smi_xml};
use super::comparison_rules::compare_each;
use super::fact::{Fact, FactShape};
use super::gpu_readings::build_gpu_state;
use super::snippet_output::{
    command_failure, find_guarded_output, guarded, require_success, split_sections, unparsed_answer,
};
use crate::model::Value;
use crate::probe::{FactSnippet, ProbeOutput, UnansweredReason};
use serde_json::json;

/// Without a loaded driver `nvidia-smi` is not started: its helper would load one. The lists of supported clocks are most
/// of the listing, and not used.
const SNIPPET: &str = guarded!(
    r"[ -e /proc/driver/nvidia/version ] || exit 0
guard 30 nvidia-smi -q -x | grep -v '<supported_graphics_clock>'"
);

pub(super) const FACT: Fact = Fact {
    name: "gpu_state",
    doc: "The state of each NVIDIA GPU, a list ordered by address, from one `nvidia-smi -q -x`. Empty if no driver is loaded. \
          `nvidia-smi` may hang: then this fact is unknown, but `gpus` is not.",
    shape: FactShape::List,
    fields: &[
        ("bdf", "PCI address as in `gpus`: `0000:18:00.0`"),
        ("uuid", "`GPU-806f8ea2-…`"),
        ("model", "`NVIDIA H100 80GB HBM3`"),
        ("vbios", "VBIOS version"),
        ("persistence", "whether persistence mode is enabled"),
        (
            "ecc",
            "`current` and `pending`: whether error correction is enabled, now and after the next reset; null without it",
        ),
        (
            "ecc_uncorrected",
            "uncorrected errors, `volatile` (since the driver was loaded) and `aggregate`; null without error correction",
        ),
        (
            "sram_threshold_exceeded",
            "whether the uncorrected errors of its SRAM exceed the limit for replacement; null if not reported",
        ),
        ("mig", "`current` and `pending`: whether it is split into instances; null if not supported"),
        (
            "remaps",
            "remapped rows: `correctable` and `uncorrectable` counts, `pending` and `failure` flags; null before Ampere",
        ),
        (
            "fabric",
            "`state` (`Completed`, `In Progress`, `Not Started`), `status` (`Success`), `health` (`Healthy`, `Unhealthy`, \
             `Limited Capacity`; null if not reported) and `conditions` that lower it (`Route Unhealthy: True`); null without NVSwitch",
        ),
        (
            "recovery",
            "recovery action that the driver requests: `None`, `Reset`, `Reboot`, `Drain P2P`, `Drain and Reset`; null if not reported",
        ),
        (
            "reset_required",
            "whether the driver requires a reset of the GPU; null if not reported: later branches report `recovery` only",
        ),
        (
            "gsp_firmware",
            "firmware of the system processor by this second source, null if it reports none; `gpus` is authoritative",
        ),
        (
            "pcie",
            "the PCIe link: `generation` and `max_generation`, `width` and `max_width` in lanes. An idle GPU lowers the generation, \
             never the width",
        ),
        ("power", "limits in watts: `limit` (in effect), `default`, `max`; null if not reported"),
        (
            "temperature",
            "degrees Celsius: `gpu`, `memory`, and `margin` until the GPU slows down; null if not measured",
        ),
        (
            "clock_events",
            "active reasons for lower clocks: `gpu_idle`, `sw_power_cap`, `hw_slowdown`, `hw_thermal_slowdown`, `sw_thermal_slowdown`, \
             `hw_power_brake_slowdown` …; null if not reported",
        ),
        (
            "unreadable",
            "values that the driver could not read from the GPU, with its words: `ecc_mode / current_ecc: Unknown Error`. Empty if \
             there are none",
        ),
    ],
    reads: &["/proc/driver/nvidia/version", "/proc/*/stat", "nvidia-smi -q -x"],
    alike: &[compare_each(
        "",
        "bdf",
        &[
            "persistence",
            "ecc.current",
            "mig.current",
            "fabric.state",
            "fabric.status",
            "fabric.health",
            "recovery",
            "pcie.max_generation",
            "pcie.width",
            "power.limit",
        ],
    )],
    snippet: FactSnippet {
        name: "gpu_state",
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
        return Ok(json!([]));
    };
    // Even with a corrupt infoROM (14) the GPUs are listed.
    if !matches!(ran.status, 0 | 14) {
        let unknown = command_failure("nvidia-smi", &ran);
        let meaning =
            nvidia_smi::describe_exit_status(ran.status).map(|meaning| format!(": {meaning}")).unwrap_or_default();
        return Err(UnansweredReason { why: unknown.why + &meaning, ..unknown });
    }
    let listing = match ran.text.contains("<nvidia_smi_log>") {
        true => nvidia_smi_xml::parse_nvidia_smi_xml(ran.text),
        false => Some(nvidia_smi::parse_nvidia_smi(ran.text)),
    };
    let Some(mut listing) = listing else { return Err(unparsed_answer("the whole listing", output)) };
    if listing.gpus.is_empty() {
        return Err(unparsed_answer("a GPU", output));
    }
    listing.gpus.sort_by(|a, b| a.bdf.cmp(&b.bdf));
    Ok(listing.gpus.iter().map(build_gpu_state).collect::<Vec<_>>().into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::snippet_output::testing::{expand_separators, expect_unknown, parse_stdout, run_snippet};

    fn guarded_answer(body: &str, status: &str) -> String {
        expand_separators(&format!("\n@@nvidia-smi\trun\t30\n{body}\n@@status\t{status}\n"))
    }

    const H100: &str = include_str!("../../tests/samples/nvidia-smi-q-h100-nvl.txt");
    const B200: &str = include_str!("../../tests/samples/nvidia-smi-qx-b200.xml");

    /// Returns the state of the first GPU of a listing in which one value is replaced.
    fn state_with(listing: &str, from: &str, to: &str) -> Value {
        assert!(listing.contains(from), "{from}");
        parse_stdout(&FACT, &guarded_answer(&listing.replacen(from, to, 1), "0")).expect("is known")[0].clone()
    }

    #[test]
    fn xml_listing_reports_links_limits_and_health() {
        let state = parse_stdout(&FACT, &guarded_answer(B200, "0")).expect("is known");
        let expected = json!({
            "bdf": "0000:8f:00.0", "uuid": "GPU-00000000-0000-0000-0000-000000000000", "model": "NVIDIA B200",
            "vbios": "97.00.FA.00.09", "persistence": false,
            "ecc": {"current": true, "pending": true}, "ecc_uncorrected": {"volatile": 0, "aggregate": 0},
            "sram_threshold_exceeded": false, "mig": {"current": false, "pending": false},
            "remaps": {"correctable": 0, "uncorrectable": 0, "pending": false, "failure": false},
            "fabric": {"state": "Completed", "status": "Success", "health": "Healthy", "conditions": []},
            "recovery": "None", "reset_required": null, "gsp_firmware": "580.105.08",
            "pcie": {"generation": 5, "max_generation": 5, "width": 16, "max_width": 16},
            "power": {"limit": 1000.0, "default": 1000.0, "max": 1000.0},
            "temperature": {"gpu": 39, "memory": 39, "margin": 49}, "clock_events": ["gpu_idle"], "unreadable": [],
        });
        assert_eq!(state, json!([expected]));
        let cut = &B200[..B200.len() - 30];
        assert_eq!(
            expect_unknown(&FACT, 0, &guarded_answer(&format!("{cut}</nvidia_smi_log>"), "0")),
            "the whole listing is not in the answer"
        );
    }

    /// origin: source, tests of NVIDIA/k8s-test-infra (`qx-gb200-fabric-degraded.xml`, from its mock of the library)
    #[test]
    fn unhealthy_fabric_is_reported_although_its_state_is_completed() {
        let unhealthy = state_with(B200, "<summary>Healthy</summary>", "<summary>Unhealthy</summary>");
        assert_eq!(unhealthy["fabric"]["health"], "Unhealthy");
        let route = state_with(B200, "<route_unhealthy>N/A<", "<route_unhealthy>True<");
        assert_eq!(route["fabric"]["conditions"], json!(["Route Unhealthy: True"]));
    }

    /// origin: field, an H100 host with driver 550.90.07 in a public handbook: the mode is `Unknown Error`, each count `N/A`
    #[test]
    fn ecc_mode_that_cannot_be_read_is_not_a_gpu_without_error_correction() {
        let (start, end) =
            (H100.find("    ECC Mode").expect("is there"), H100.find("    Retired Pages").expect("is there"));
        let block = "    ECC Mode
        Current                           : Unknown Error
        Pending                           : Unknown Error
    ECC Errors
        Volatile
            SRAM Uncorrectable Parity     : N/A
            DRAM Uncorrectable            : N/A
        Aggregate
            SRAM Uncorrectable Parity     : N/A
            SRAM Threshold Exceeded       : N/A
";
        let text = format!("{}{block}{}", &H100[..start], &H100[end..]);
        let state = parse_stdout(&FACT, &guarded_answer(&text, "0")).expect("is known")[0].clone();
        let why = "`nvidia-smi` reports `Unknown Error` for `ECC Mode / Current`";
        assert_eq!(state["ecc_uncorrected"], json!({ "unknown": why }));
        assert_eq!(state["ecc"]["current"], json!({ "unknown": why }));
        let cells = json!(["ECC Mode / Current: Unknown Error", "ECC Mode / Pending: Unknown Error"]);
        assert_eq!(state["unreadable"], cells);
    }

    #[test]
    fn slow_clocks_and_required_resets_are_reported() {
        let hot = "<clocks_event_reason_hw_thermal_slowdown>";
        let hot = state_with(B200, &format!("{hot}Not Active"), &format!("{hot}Active"));
        assert_eq!(hot["clock_events"], json!(["gpu_idle", "hw_thermal_slowdown"]));
        let text =
            state_with(H100, "HW Thermal Slowdown           : Not Active", "HW Thermal Slowdown           : Active");
        assert_eq!(text["clock_events"], json!(["gpu_idle", "hw_thermal_slowdown"]));
        let reset =
            state_with(H100, "Reset Required                    : No", "Reset Required                    : Yes");
        assert_eq!(reset["reset_required"], true);
        // origin: field, an A100 with driver 570.148.08 in tests of NVIDIA/k8s-test-infra
        let replaced = "<gpu_reset_status><reset_required>Requested functionality has been deprecated</reset_required></gpu_reset_status><uuid>";
        let later = state_with(B200, "<uuid>", replaced);
        assert_eq!((&later["reset_required"], &later["unreadable"]), (&Value::Null, &json!([])));
        let sram = state_with(B200, "exceeded>No<", "exceeded>Yes<");
        assert_eq!(sram["sram_threshold_exceeded"], true);
    }

    /// origin: source, the element names of branches before 535 in samples of influxdata/telegraf's input `nvidia_smi`
    #[test]
    fn values_of_older_branches_are_found() {
        let old = B200
            .replace("gpu_power_readings", "power_readings")
            .replace("current_power_limit", "enforced_power_limit")
            .replace("clocks_event_reason", "clocks_throttle_reason");
        let state = parse_stdout(&FACT, &guarded_answer(&old, "0")).expect("is known")[0].clone();
        assert_eq!((&state["power"]["limit"], &state["clock_events"]), (&json!(1000.0), &json!(["gpu_idle"])));
    }

    #[test]
    fn measure_without_a_number_is_unknown_and_a_missing_one_null() {
        let odd = state_with(B200, "<gpu_temp>39 C", "<gpu_temp>ERR!");
        assert_eq!(odd["temperature"]["gpu"]["unknown"], "`nvidia-smi` reports `ERR!` for `temperature / gpu_temp`");
        let none = state_with(B200, "<memory_temp>39 C", "<memory_temp>N/A");
        assert_eq!(none["temperature"]["memory"], Value::Null);
        let width = state_with(B200, "<current_link_width>16x", "<current_link_width>N/A");
        assert_eq!(width["pcie"]["width"], Value::Null);
    }

    #[test]
    fn each_gpu_reports_its_own_state() {
        let expected = json!({
            "bdf": "0000:ad:00.0", "uuid": "GPU-806f8ea2-6428-1096-a076-bb687fb45fb0", "model": "NVIDIA H100 NVL",
            "vbios": "96.00.74.00.11", "persistence": true,
            "ecc": {"current": true, "pending": true}, "ecc_uncorrected": {"volatile": 0, "aggregate": 0},
            "sram_threshold_exceeded": false, "mig": {"current": false, "pending": false},
            "remaps": {"correctable": 0, "uncorrectable": 0, "pending": false, "failure": false},
            "fabric": null, "recovery": null, "reset_required": false, "gsp_firmware": "550.54.14",
            "pcie": {"generation": null, "max_generation": null, "width": null, "max_width": null},
            "power": {"limit": null, "default": null, "max": null},
            "temperature": {"gpu": null, "memory": null, "margin": null}, "clock_events": ["gpu_idle"], "unreadable": [],
        });
        let state = parse_stdout(&FACT, &guarded_answer(H100, "0")).expect("is known");
        assert_eq!(state[0], expected);
        assert_eq!(state[1]["bdf"], "0000:ae:00.0");
        assert_eq!(
            parse_stdout(&FACT, &guarded_answer(H100, "14")),
            Ok(state),
            "a corrupt infoROM leaves the GPUs usable"
        );
    }

    #[test]
    fn fabric_in_progress_is_not_completed() {
        // origin: field, H100 80GB HBM3 with 570.195.03
        let block = "    Fabric\n        State                             : In Progress\n        Status                            : N/A\n";
        let text = H100.replacen("    Fabric\n        State                             : N/A\n        Status                            : N/A\n", block, 1);
        let state = parse_stdout(&FACT, &guarded_answer(&text, "0")).expect("is known");
        let fabric = json!({"state": "In Progress", "status": null, "health": null, "conditions": []});
        assert_eq!(state[0]["fabric"], fabric);
    }

    #[test]
    fn malformed_cell_is_unknown_not_zero() {
        let text =
            H100.replacen("Uncorrectable Error               : 0", "Uncorrectable Error               : ERR!", 1);
        let state = parse_stdout(&FACT, &guarded_answer(&text, "0")).expect("is known");
        let expected = "`nvidia-smi` reports `ERR!` for `Remapped Rows / Uncorrectable Error`";
        assert_eq!(state[0]["remaps"]["uncorrectable"]["unknown"], expected);
        assert_eq!(state[0]["remaps"]["correctable"], 0);
    }

    #[test]
    fn failed_query_is_unknown_and_unsupported_feature_is_null() {
        let with = |from: &str, to: &str| {
            assert!(H100.contains(from), "{from}");
            parse_stdout(&FACT, &guarded_answer(&H100.replacen(from, to, 1), "0")).expect("is known")[0].clone()
        };
        let lost = with(
            "    Fabric\n        State                             : N/A",
            "    Fabric\n        State                             : Unknown Error",
        );
        assert_eq!(lost["fabric"]["unknown"], "`nvidia-smi` reports `Unknown Error` for `Fabric / State`");
        let old = with("    Fabric\n        State                             : N/A\n", "");
        assert_eq!(old["fabric"]["unknown"], "`nvidia-smi` does not report `Fabric / State`");
        let ecc = "    ECC Mode\n        Current                           : Enabled\n";
        let none = with(ecc, &ecc.replace("Enabled", "N/A"));
        assert_eq!((&none["ecc"], &none["ecc_uncorrected"]), (&Value::Null, &Value::Null));
        let odd = with(ecc, &ecc.replace("Enabled", "[Unknown Error]"));
        assert_eq!(odd["ecc"]["current"]["unknown"], "`nvidia-smi` reports `Unknown Error` for `ECC Mode / Current`");
        assert_eq!(odd["ecc"]["pending"], true);
        let sum = with("SRAM Uncorrectable Parity     : 0", "SRAM Uncorrectable Parity     : ERR!");
        assert_eq!(
            sum["ecc_uncorrected"]["volatile"]["unknown"],
            "`nvidia-smi` reports `ERR!` for `ECC Errors / Volatile`"
        );
        assert_eq!(sum["ecc_uncorrected"]["aggregate"], 0);
    }

    #[test]
    fn exit_code_gives_the_reason_for_unknown() {
        let lost = "Unable to determine the device handle for GPU0000:9B:00.0: GPU is lost.  Reboot the system to recover this GPU\n";
        assert_eq!(
            expect_unknown(&FACT, 0, &guarded_answer(lost, "15")),
            "`nvidia-smi` failed with status 15: a GPU fell off the bus"
        );
        let mismatch = "Failed to initialize NVML: Driver/library version mismatch\n";
        assert_eq!(expect_unknown(&FACT, 0, &guarded_answer(mismatch, "18")), "`nvidia-smi` failed with status 18");
        assert_eq!(
            expect_unknown(&FACT, 0, &guarded_answer("", "9")),
            "`nvidia-smi` failed with status 9: the driver is not loaded"
        );
        assert_eq!(expect_unknown(&FACT, 0, &guarded_answer("", "124")), "`nvidia-smi` timed out after 30 s");
        assert_eq!(
            expect_unknown(&FACT, 0, &expand_separators("@@nvidia-smi\trun\t30\n")),
            "`nvidia-smi` timed out after 30 s"
        );
        assert_eq!(expect_unknown(&FACT, 0, &guarded_answer("no list", "0")), "a GPU is not in the answer");
    }

    #[test]
    fn nvidia_smi_is_not_started_without_a_driver() {
        let text = run_snippet("nvidia-smi() { echo started; }", &FACT);
        assert_eq!(parse_stdout(&FACT, &text), Ok(json!([])), "{text}");
    }
}
