//! `gpu_state`: the state of each GPU as reported by `nvidia-smi -q`.

use super::command::nvidia_smi::{self, SmiCell, SmiGpu};
use super::comparison_rules::compare_each;
use super::fact::{Fact, FactShape};
use super::snippet_output::{
    command_failure, find_guarded_output, guarded, require_success, split_sections, unknown_part, unparsed_answer,
};
use crate::model::Value;
use crate::probe::{FactSnippet, ProbeOutput, UnansweredReason};
use serde_json::json;

/// Without a loaded driver `nvidia-smi` is not started: its helper would load one.
const SNIPPET: &str = guarded!(
    r"[ -e /proc/driver/nvidia/version ] || exit 0
guard 30 nvidia-smi -q"
);

pub(super) const FACT: Fact = Fact {
    name: "gpu_state",
    doc: "The state of each NVIDIA GPU, a list ordered by address, from one `nvidia-smi -q`. Empty if no driver is loaded. \
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
        ("mig", "`current` and `pending`: whether it is split into instances; null if not supported"),
        (
            "remaps",
            "remapped rows: `correctable` and `uncorrectable` counts, `pending` and `failure` flags; null before Ampere",
        ),
        (
            "fabric",
            "`state` (`Completed`, `In Progress`, `Not Started`) and `status` (`Success`); null without NVSwitch",
        ),
        (
            "recovery",
            "recovery action that the driver requests: `None`, `Reset`, `Reboot`, `Drain P2P`, `Drain and Reset`; null if not reported",
        ),
        (
            "gsp_firmware",
            "firmware of the system processor by this second source, null if it reports none; `gpus` is authoritative",
        ),
    ],
    reads: &["/proc/driver/nvidia/version", "/proc/*/stat", "nvidia-smi -q"],
    alike: &[compare_each(
        "",
        "bdf",
        &["persistence", "ecc.current", "mig.current", "fabric.state", "fabric.status", "recovery"],
    )],
    snippet: FactSnippet { name: "gpu_state", snippet: SNIPPET, timeout_s: 45, device: true, quick: false },
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
    let mut listing = nvidia_smi::parse_nvidia_smi(ran.text);
    if listing.gpus.is_empty() {
        return Err(unparsed_answer("a GPU", output));
    }
    listing.gpus.sort_by(|a, b| a.bdf.cmp(&b.bdf));
    Ok(listing.gpus.iter().map(build_gpu_state).collect::<Vec<_>>().into())
}

fn build_gpu_state(gpu: &SmiGpu) -> Value {
    json!({
        "bdf": gpu.bdf,
        "uuid": read_text(gpu, "GPU UUID"),
        "model": read_text(gpu, "Product Name"),
        "vbios": read_text(gpu, "VBIOS Version"),
        "persistence": read_flag(gpu, "Persistence Mode"),
        "ecc": read_modes(gpu, "ECC Mode"),
        "ecc_uncorrected": read_uncorrected(gpu),
        "mig": read_modes(gpu, "MIG Mode"),
        "remaps": read_remaps(gpu),
        "fabric": read_fabric(gpu),
        "recovery": read_text(gpu, "GPU Recovery Action"),
        "gsp_firmware": read_text(gpu, "GSP Firmware Version"),
    })
}

/// Marks a field of the listing that has no value, with the reason.
fn unknown_cell(path: &str, cell: SmiCell<'_>) -> Value {
    unknown_part(match cell {
        SmiCell::Missing => format!("`nvidia-smi` does not report `{path}`"),
        SmiCell::Absent => format!("`nvidia-smi` reports `{path}` as not available"),
        SmiCell::Failed(said) | SmiCell::Value(said) => format!("`nvidia-smi` reports `{said}` for `{path}`"),
    })
}

/// Reads text; a value that the GPU does not have or the branch does not report is null.
fn read_text(gpu: &SmiGpu, path: &str) -> Value {
    match gpu.cell_at(path) {
        SmiCell::Value(text) => text.into(),
        SmiCell::Absent | SmiCell::Missing => Value::Null,
        cell @ SmiCell::Failed(_) => unknown_cell(path, cell),
    }
}

/// Reads a flag; a value that is neither yes nor no is unknown, never false.
fn read_flag(gpu: &SmiGpu, path: &str) -> Value {
    match gpu.cell_at(path) {
        SmiCell::Value("Enabled" | "Yes") => true.into(),
        SmiCell::Value("Disabled" | "No") => false.into(),
        cell => unknown_cell(path, cell),
    }
}

fn read_count(gpu: &SmiGpu, path: &str) -> Value {
    let cell = gpu.cell_at(path);
    parse_count(cell).map_or_else(|| unknown_cell(path, cell), Value::from)
}

fn parse_count(cell: SmiCell<'_>) -> Option<u64> {
    match cell {
        SmiCell::Value(text) => text.parse().ok(),
        _ => None,
    }
}

/// Returns the two modes of a feature, null if the GPU does not have it.
fn read_modes(gpu: &SmiGpu, block: &str) -> Value {
    let path = |name: &str| format!("{block} / {name}");
    match gpu.cell_at(&path("Current")) {
        SmiCell::Absent => Value::Null,
        _ => json!({ "current": read_flag(gpu, &path("Current")), "pending": read_flag(gpu, &path("Pending")) }),
    }
}

fn read_remaps(gpu: &SmiGpu) -> Value {
    let path = |name: &str| format!("Remapped Rows / {name}");
    match gpu.cell_at("Remapped Rows") {
        SmiCell::Absent => Value::Null,
        _ => json!({
            "correctable": read_count(gpu, &path("Correctable Error")),
            "uncorrectable": read_count(gpu, &path("Uncorrectable Error")),
            "pending": read_flag(gpu, &path("Pending")),
            "failure": read_flag(gpu, &path("Remapping Failure Occurred")),
        }),
    }
}

/// Returns the state of the fabric. `In Progress` has no status yet.
fn read_fabric(gpu: &SmiGpu) -> Value {
    match gpu.cell_at("Fabric / State") {
        SmiCell::Absent => Value::Null,
        SmiCell::Value(state) => json!({ "state": state, "status": read_text(gpu, "Fabric / Status") }),
        cell => unknown_cell("Fabric / State", cell),
    }
}

/// Sums uncorrected errors by kind, null if the GPU does not count them.
fn read_uncorrected(gpu: &SmiGpu) -> Value {
    if gpu.cell_at("ECC Mode / Current") == SmiCell::Absent {
        return Value::Null;
    }
    match (sum_uncorrected(gpu, "ECC Errors / Volatile"), sum_uncorrected(gpu, "ECC Errors / Aggregate")) {
        (Value::Null, Value::Null) => Value::Null,
        (volatile, aggregate) => json!({ "volatile": volatile, "aggregate": aggregate }),
    }
}

/// Sums the uncorrectable counts below a path: their names differ between branches.
fn sum_uncorrected(gpu: &SmiGpu, path: &str) -> Value {
    let cells: Vec<SmiCell<'_>> =
        gpu.cells_below(path).filter(|(name, _)| name.contains("Uncorrectable")).map(|(_, cell)| cell).collect();
    let counted: Vec<&SmiCell<'_>> = cells.iter().filter(|cell| **cell != SmiCell::Absent).collect();
    match counted.iter().try_fold(0u64, |sum, cell| sum.checked_add(parse_count(**cell)?)) {
        _ if cells.is_empty() => unknown_cell(path, SmiCell::Missing),
        _ if counted.is_empty() => Value::Null,
        Some(sum) => sum.into(),
        None => {
            let odd = counted.iter().find(|cell| parse_count(***cell).is_none());
            unknown_cell(path, odd.map_or(SmiCell::Missing, |cell| **cell))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::snippet_output::testing::{expand_separators, expect_unknown, parse_stdout, run_snippet};

    fn guarded_answer(body: &str, status: &str) -> String {
        expand_separators(&format!("\n@@nvidia-smi\trun\t30\n{body}\n@@status\t{status}\n"))
    }

    const H100: &str = include_str!("../../tests/samples/nvidia-smi-q-h100-nvl.txt");

    #[test]
    fn each_gpu_reports_its_own_state() {
        let expected = json!({
            "bdf": "0000:ad:00.0", "uuid": "GPU-806f8ea2-6428-1096-a076-bb687fb45fb0", "model": "NVIDIA H100 NVL",
            "vbios": "96.00.74.00.11", "persistence": true,
            "ecc": {"current": true, "pending": true}, "ecc_uncorrected": {"volatile": 0, "aggregate": 0},
            "mig": {"current": false, "pending": false},
            "remaps": {"correctable": 0, "uncorrectable": 0, "pending": false, "failure": false},
            "fabric": null, "recovery": null, "gsp_firmware": "550.54.14",
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
        assert_eq!(state[0]["fabric"], json!({"state": "In Progress", "status": null}));
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
