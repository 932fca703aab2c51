//! `hardware_errors`: hardware faults in the kernel log of this boot.

use super::fact::{Fact, FactShape};
use super::snippet_output::text_or_null;
use crate::model::Value;
use crate::probe::{FactSnippet, ProbeOutput, UnansweredReason};
use serde_json::json;
use std::collections::BTreeMap;

/// The journal keeps lines that the kernel's ring buffer has dropped. If it has no kernel lines, it is not readable or
/// belongs to a container: then the ring buffer is read. At most 200 lines per source are read, so that a flood of one
/// does not hide another.
const SNIPPET: &str = r#"need awk; need timeout
forge_log() {
{ timeout -k 2 "$@" 2>/dev/null </dev/null; printf '\nforge-end %s\n' "$?"; } | awk '
/^forge-end / { printf "\036log\t%s\t%s\n", $2, n + 0; next }
NF { n++ }
/NVRM: loading NVIDIA UNIX/ { print substr($0, 1, 300) }
/NVRM: Xid/ && x++ < 200 { print substr($0, 1, 300) }
/SXid \(/ && s++ < 200 { print substr($0, 1, 300) }
/AER: .*Uncorrect/ && a++ < 200 { print substr($0, 1, 300) }
/mce: \[Hardware Error\]/ && m++ < 200 { print substr($0, 1, 300) }
/EDAC .* [0-9]+ [CU]E / && e++ < 200 { print substr($0, 1, 300) }'
}
t=$(printf '\t')
o=$(forge_log 20 journalctl -k -b -q --no-pager -o short-iso)
case $o in *log"$t"0"$t"[1-9]*) ;; *) o=$(forge_log 10 dmesg) ;; esac
printf '%s\n' "$o""#;

pub(super) const FACT: Fact = Fact {
    name: "hardware_errors",
    doc: "Hardware faults in the kernel log of this boot, from `journalctl -k -b`, else `dmesg`, which may have dropped old \
          lines. Errors of GPUs and NVSwitches count since the driver was last loaded. At most 200 lines per source are read.",
    shape: FactShape::Map,
    fields: &[
        (
            "faults",
            "number of events per source that require action: `xid` (a GPU), `sxid` (an NVSwitch), `aer` (a PCI device), `mce` (the \
             processor), `edac` (memory)",
        ),
        (
            "events",
            "list by source, code and address: `source`, `code` (of an Xid or SXid, else null), `bdf` (null if none is logged), `class` (the \
             required action: `none` for application faults and corrected errors, `inspect`, `link`, `reset`, `drain`, `reboot`, `power-cycle`), \
             `meaning` (of a known Xid: `fell off the bus`), `count`, `last` (the last line, starting at its source)",
        ),
    ],
    reads: &["journalctl -k -b", "dmesg"],
    alike: &[],
    snippet: FactSnippet {
        name: "hardware_errors",
        snippet: SNIPPET,
        timeout_s: 45,
        device: false,
        quick: false,
        builtin: false,
    },
    parse,
};

/// Xids with their meaning and required action, according to NVIDIA's documentation.
const XIDS: [(&[u64], &str, &str); 12] = [
    (&[13, 31, 43, 45, 69], "an application's fault", "none"),
    (&[94], "an uncorrectable error of memory, contained: its application was ended", "none"),
    (&[63], "a row is remapped", "none"),
    (&[92], "many single-bit errors", "none"),
    (&[64], "a row could not be remapped", "reset"),
    (&[48, 95], "an uncorrectable error of memory", "drain"),
    (&[62, 109, 110, 136, 140, 143, 155, 156, 158], "an internal fault", "reset"),
    (&[74, 144, 145, 146, 147, 148, 149, 150], "a fault of NVLink", "link"),
    (&[79], "fell off the bus", "power-cycle"),
    (&[119, 120], "the system processor (GSP) does not answer or reports an error", "reset"),
    (&[154], "another way of recovery is asked for", "inspect"),
    (&[], "", "inspect"),
];

/// The actions that an Xid 154 requests, by number: their words differ between branches (`0x1 (GPU Reset Required)`,
/// `0x1 (PF FLR)`).
const RECOVERIES: [(&str, &str, &str); 5] = [
    ("0x0", "the driver requests no recovery any more", "none"),
    ("0x1", "the driver requests a reset of the GPU", "reset"),
    ("0x2", "the driver requests a reboot", "reboot"),
    ("0x3", "the driver requests a drain of traffic between GPUs", "drain"),
    ("0x4", "the driver requests a drain and a reset", "drain"),
];

const SOURCES: [&str; 5] = ["xid", "sxid", "aer", "mce", "edac"];

/// One line of the log.
struct HardwareEvent<'a> {
    source: &'static str,
    code: Option<u64>,
    bdf: Option<String>,
    class: &'static str,
    meaning: Option<&'static str>,
    text: &'a str,
}

fn parse(output: &ProbeOutput) -> Result<Value, UnansweredReason> {
    let unread = || {
        UnansweredReason::new(
            "the kernel log could not be read: neither `journalctl -k` nor `dmesg` shows a line of it",
        )
    };
    let (text, end) = super::snippet_output::require_success(output)?.rsplit_once('\u{1e}').ok_or_else(unread)?;
    let mut fields = end.lines().next().unwrap_or_default().split('\t').skip(1);
    if fields.next() != Some("0")
        || fields.next().and_then(|count| count.parse::<u64>().ok()).is_none_or(|lines| lines == 0)
    {
        return Err(unread());
    }
    let mut events: Vec<HardwareEvent<'_>> = Vec::new();
    for line in text.lines() {
        if line.contains("NVRM: loading NVIDIA UNIX") {
            events.retain(|event| !matches!(event.source, "xid" | "sxid"));
        }
        let Some(event) = parse_event(line) else { continue };
        if event.code == Some(154) && event.class == "none" {
            events.retain(|earlier| earlier.code != Some(154) || earlier.bdf != event.bdf);
        }
        events.push(event);
    }
    let faults = |source: &str| events.iter().filter(|event| event.source == source && event.class != "none").count();
    let faults: BTreeMap<&str, usize> = SOURCES.iter().map(|source| (*source, faults(source))).collect();
    Ok(json!({ "faults": faults, "events": group_events(&events) }))
}

/// The key by which events are counted: source, code, address and class.
type HardwareEventKey<'e> = (&'e str, Option<u64>, Option<&'e str>, &'e str);

fn group_events(events: &[HardwareEvent<'_>]) -> Vec<Value> {
    let mut groups: BTreeMap<HardwareEventKey<'_>, (u64, &HardwareEvent<'_>)> = BTreeMap::new();
    for event in events {
        let group = groups.entry((event.source, event.code, event.bdf.as_deref(), event.class)).or_insert((0, event));
        *group = (group.0 + 1, event);
    }
    let told = |(count, event): (u64, &HardwareEvent<'_>)| {
        json!({ "source": event.source, "code": event.code, "bdf": event.bdf, "class": event.class, "meaning": event.meaning,
                "count": count, "last": text_or_null(Some(event.text)) })
    };
    groups.into_values().map(told).collect()
}

fn parse_event(line: &str) -> Option<HardwareEvent<'_>> {
    parse_sxid(line)
        .or_else(|| parse_xid(line))
        .or_else(|| parse_aer(line))
        .or_else(|| parse_mce(line))
        .or_else(|| parse_edac(line))
}

/// Parses address and number after `start`: `(PCI:0000:9b:00): 119, …`.
fn parse_numbered<'a>(line: &'a str, start: &str) -> Option<(&'a str, String, u64, &'a str)> {
    let text = &line[line.find(start)?..];
    let (address, rest) = text[start.len()..].split_once(')')?;
    let rest = rest.trim_start_matches(':').trim_start();
    let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    Some((
        text,
        normalize_bdf(address),
        rest[..digits].parse().ok()?,
        rest[digits..].trim_start_matches(',').trim_start(),
    ))
}

/// Returns an address in the form of the PCI bus: a log line may omit the function, and name an instance of the GPU
/// after the address (`PCI:0000:01:00 GPU-I:05`).
fn normalize_bdf(text: &str) -> String {
    let text = text.trim_start_matches("PCI:").split_whitespace().next().unwrap_or_default().to_ascii_lowercase();
    if text.contains('.') { text } else { text + ".0" }
}

fn parse_xid(line: &str) -> Option<HardwareEvent<'_>> {
    let (text, bdf, code, rest) = parse_numbered(line, "NVRM: Xid (")?;
    let (_, meaning, class) = XIDS.iter().find(|(codes, ..)| codes.is_empty() || codes.contains(&code))?;
    let asked = (code == 154).then(|| rest.rsplit(" to ").next()?.split_whitespace().next()).flatten();
    let asked = RECOVERIES.iter().find(|(number, ..)| Some(*number) == asked);
    let (meaning, class) = asked.map_or((*meaning, *class), |(_, meaning, class)| (*meaning, *class));
    let meaning = Some(meaning).filter(|meaning| !meaning.is_empty());
    Some(HardwareEvent { source: "xid", code: Some(code), bdf: Some(bdf), class, meaning, text })
}

/// Parses the line of an SXid that says whether it is fatal. The driver logs the raw data of the same error in further
/// lines, which start with `Severity` and `Data`.
fn parse_sxid(line: &str) -> Option<HardwareEvent<'_>> {
    let (text, bdf, code, rest) = parse_numbered(line, "SXid (")?;
    let word = rest.split(|c: char| !c.is_ascii_alphabetic() && c != '-').next().unwrap_or_default();
    let class = match word.to_ascii_lowercase().as_str() {
        "severity" | "data" => return None,
        "non-fatal" => "none",
        "fatal" => "drain",
        _ => "inspect",
    };
    Some(HardwareEvent { source: "sxid", code: Some(code), bdf: Some(bdf), class, meaning: None, text })
}

/// Parses an AER line. The device with the error is named after the marker; otherwise it is the reporting device.
fn parse_aer(line: &str) -> Option<HardwareEvent<'_>> {
    let at = line.find("AER: ").filter(|at| line[*at..].contains("Uncorrect"))?;
    let address = |word: &str| {
        let word = word.trim_end_matches(':');
        (word.split(':').count() == 3 && word.contains('.')).then(|| normalize_bdf(word))
    };
    let behind = line[at..].split_whitespace().rev().find_map(address);
    let bdf = behind.or_else(|| line[..at].split_whitespace().rev().find_map(address));
    Some(HardwareEvent { source: "aer", code: None, bdf, class: "inspect", meaning: None, text: &line[at..] })
}

/// Parses a machine check. The line that events were logged elsewhere also appears for corrected errors.
fn parse_mce(line: &str) -> Option<HardwareEvent<'_>> {
    let at = line.find("mce: [Hardware Error]")?;
    let text = &line[at..];
    let is_one = text.contains("Machine Check") && !text.contains("events logged");
    is_one.then_some(HardwareEvent { source: "mce", code: None, bdf: None, class: "inspect", meaning: None, text })
}

fn parse_edac(line: &str) -> Option<HardwareEvent<'_>> {
    let text = &line[line.find("EDAC ")?..];
    let class = if text.contains(" UE ") { "inspect" } else { "none" };
    let counted = text.contains(" UE ") || text.contains(" CE ");
    counted.then_some(HardwareEvent { source: "edac", code: None, bdf: None, class, meaning: None, text })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::snippet_output::testing::{expand_separators, expect_unknown, parse_stdout};

    fn parse_lines(lines: &[&str]) -> Vec<Value> {
        let text = expand_separators(&format!("{}\n@@log\t0\t{}\n", lines.join("\n"), lines.len() + 1));
        parse_stdout(&FACT, &text).expect("is known")["events"].as_array().expect("a list").clone()
    }

    fn parse_one_line(line: &str) -> (Value, Value, Value, Value) {
        let [event] = parse_lines(&[line]).try_into().expect("one");
        (event["source"].clone(), event["code"].clone(), event["bdf"].clone(), event["class"].clone())
    }

    #[test]
    fn errors_of_every_source_are_parsed() {
        // origin: the Xid and the SXid from leptonai/gpud, Xid 63 from huggingface's log of a training, 154
        // reconstructed, AER from a report to linux-pci, machine check and memory from the kernel's format strings
        let table = [
            (
                "2026-11-21T09:48:48+0000 gpu02 kernel: NVRM: Xid (PCI:0000:9B:00): 119, pid=1, name=x, Timeout after 6s of waiting for RPC response from GPU4 GSP!",
                json!(["xid", 119, "0000:9b:00.0", "reset"]),
            ),
            ("[1.0] NVRM: Xid (0000:03:00): 14, Channel 00000001", json!(["xid", 14, "0000:03:00.0", "inspect"])),
            (
                "NVRM: Xid (PCI:0000:05:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.",
                json!(["xid", 79, "0000:05:00.0", "power-cycle"]),
            ),
            (
                "NVRM: Xid (PCI:0000:10:1c): 63, pid=1850, Row Remapper: New row marked for remapping, reset gpu to activate",
                json!(["xid", 63, "0000:10:1c.0", "none"]),
            ),
            (
                "NVRM: Xid (PCI:0000:01:00): 154, GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)",
                json!(["xid", 154, "0000:01:00.0", "reset"]),
            ),
            (
                "NVRM: Xid (PCI:0000:01:00): 154, GPU recovery action changed from 0x1 (GPU Reset Required) to 0x0 (None)",
                json!(["xid", 154, "0000:01:00.0", "none"]),
            ),
            (
                "nvidia-nvswitch3: SXid (PCI:0000:05:00.0): 12028, Non-fatal, Link 32 egress non-posted PRIV error",
                json!(["sxid", 12028, "0000:05:00.0", "none"]),
            ),
            (
                "nvidia-nvswitch0: SXid (PCI:0000:05:00.0): 20034, Fatal, Link 30",
                json!(["sxid", 20034, "0000:05:00.0", "drain"]),
            ),
            (
                "pcieport 0000:00:01.0: AER: Uncorrected (Fatal) error received: 0000:01:00.0",
                json!(["aer", null, "0000:01:00.0", "inspect"]),
            ),
            (
                "pcieport 0000:00:1c.4: AER: Uncorrected (Fatal) error received: id=00e4",
                json!(["aer", null, "0000:00:1c.4", "inspect"]),
            ),
            (
                "mce: [Hardware Error]: CPU 3: Machine Check Exception: 5 Bank 7: be00000000800400",
                json!(["mce", null, null, "inspect"]),
            ),
            (
                "EDAC MC0: 1 UE memory read error on CPU_SrcID#0_MC#0_Chan#0_DIMM#0",
                json!(["edac", null, null, "inspect"]),
            ),
            ("EDAC MC0: 3 CE memory read error on CPU_SrcID#0_MC#0_Chan#0_DIMM#0", json!(["edac", null, null, "none"])),
        ];
        for (line, expected) in table {
            let told = parse_one_line(line);
            assert_eq!(json!([told.0, told.1, told.2, told.3]), expected, "{line}");
        }
    }

    #[test]
    fn lines_without_an_error_are_ignored() {
        let lines = [
            "mce: [Hardware Error]: Machine check events logged",
            "EDAC MC: Ver: 3.0.0",
            "NVRM: Xid (PCI:0000:9b:00) without a number",
            "kernel: all is well",
        ];
        assert_eq!(parse_lines(&lines), Vec::<Value>::new());
    }

    #[test]
    fn repeats_are_counted_and_errors_before_driver_load_dropped() {
        let loading = "NVRM: loading NVIDIA UNIX x86_64 Kernel Module  560.35.03  Fri Aug 16 21:39:15 UTC 2024";
        let (old, new) = ("NVRM: Xid (PCI:0000:9b:00): 48, pid=1", "NVRM: Xid (PCI:0000:9b:00): 79, pid=2");
        let aer = "pcieport 0000:00:01.0: AER: Uncorrected (Fatal) error received: 0000:01:00.0";
        let told: Vec<Value> = parse_lines(&[old, aer, loading, new, new]);
        let told: Vec<_> = told.iter().map(|event| (&event["source"], &event["code"], &event["count"])).collect();
        assert_eq!(told, [(&json!("aer"), &Value::Null, &json!(1)), (&json!("xid"), &json!(79), &json!(2))]);
    }

    /// origin: field, an H100 VM of NVIDIA/nvtrust issue 124, and the example of NVIDIA's fabric manager guide
    #[test]
    fn non_fatal_sxid_with_its_raw_data_is_no_fault() {
        let lines = [
            "[   38.175561] nvidia-nvswitch3: SXid (PCI:0000:04:00.0): 22013, Data {0x0000002b, 0x0000002b, 0x00000000, 0x0000002b, 0x80005302, 0x00000000, 0x00000000, 0x00000000, 0x00000000}",
            "[   38.178720] nvidia-nvswitch3: SXid (PCI:0000:04:00.0): 22013, Non-fatal, Link 44 Minion Link DLREQ interrupt",
            "[   38.180708] nvidia-nvswitch3: SXid (PCI:0000:04:00.0): 22013, Severity 0 Engine instance 44 Sub-engine instance 00",
        ];
        let [event] = parse_lines(&lines).try_into().expect("one");
        assert_eq!((&event["code"], &event["class"], &event["count"]), (&json!(22013), &json!("none"), &json!(1)));
        let fact = parse_stdout(&FACT, &expand_separators(&format!("{}\n@@log\t0\t4\n", lines.join("\n"))));
        assert_eq!(fact.expect("is known")["faults"]["sxid"], 0);
        let written =
            "nvidia-nvswitch3: SXid (PCI:0000:c1:00.0): 28006, Non-Fatal, Link 46 MC TS crumbstore MCTO (First)";
        assert_eq!(parse_one_line(written).3, "none", "the guide writes it with a capital");
    }

    /// origin: field, an H100 host with driver 550.90.07 in a public handbook; with an instance: NVIDIA's guide to memory
    /// errors of A100
    #[test]
    fn contained_memory_error_is_not_called_an_application_fault() {
        let line =
            "NVRM: Xid (PCI:0000:52:00): 94, pid='<unknown>', name=<unknown>, Contained: SM (0x1). RST: No, D-RST: No";
        let [event] = parse_lines(&[line]).try_into().expect("one");
        let meaning = json!("an uncorrectable error of memory, contained: its application was ended");
        assert_eq!((&event["meaning"], &event["class"]), (&meaning, &json!("none")));
        let instance =
            "NVRM: Xid (PCI:0000:01:00 GPU-I:05): 94, pid=7194, Contained: CE User Channel (0x9). RST: No, D-RST: No";
        assert_eq!(parse_one_line(instance).2, "0000:01:00.0");
    }

    /// origin: field, lines of Xid 154 in tests of leptonai/gpud (GB200), a public log of driver 610 (`PF FLR`); numbers:
    /// `ctrl2080gpu.h` of NVIDIA/open-gpu-kernel-modules 595
    #[test]
    fn requested_recovery_is_the_class_of_an_xid_154() {
        let class = |to: &str| {
            let line = format!(
                "[171167.621162] NVRM: Xid (PCI:0009:01:00): 154, GPU recovery action changed from 0x0 (None) to {to}"
            );
            parse_one_line(&line).3
        };
        let table = [
            ("0x1 (GPU Reset Required)", "reset"),
            ("0x1 (PF FLR)", "reset"),
            ("0x2 (Node Reboot Required)", "reboot"),
            ("0x2 (OS Reboot)", "reboot"),
            ("0x3 (Drain P2P)", "drain"),
            ("0x4 (Drain and Reset)", "drain"),
            ("0x9 (Later Branch)", "inspect"),
        ];
        for (to, expected) in table {
            assert_eq!(class(to), expected, "{to}");
        }
    }

    #[test]
    fn recovery_that_is_no_longer_requested_ends_the_earlier_request() {
        let changed = |from: &str, to: &str| {
            format!("NVRM: Xid (PCI:0000:01:00): 154, GPU recovery action changed from {from} to {to}")
        };
        let (asked, done) =
            (changed("0x0 (None)", "0x1 (GPU Reset Required)"), changed("0x1 (GPU Reset Required)", "0x0 (None)"));
        let classes =
            |lines: &[&str]| parse_lines(lines).iter().map(|event| event["class"].clone()).collect::<Vec<_>>();
        assert_eq!(classes(&[&asked, &done]), [json!("none")]);
        assert_eq!(classes(&[&asked, &done, &asked]), [json!("none"), json!("reset")]);
    }

    #[test]
    fn only_errors_that_require_action_are_faults() {
        let lines = [
            "NVRM: Xid (PCI:0000:9b:00): 31, x",
            "NVRM: Xid (PCI:0000:9b:00): 79, x",
            "EDAC MC0: 3 CE memory read error",
        ];
        let text = expand_separators(&format!("{}\n@@log\t0\t4\n", lines.join("\n")));
        let faults = parse_stdout(&FACT, &text).expect("is known")["faults"].clone();
        assert_eq!(faults, json!({ "xid": 1, "sxid": 0, "aer": 0, "mce": 0, "edac": 0 }));
    }

    /// An unreadable log does not mean that there are no errors.
    #[test]
    fn empty_kernel_log_makes_fact_unknown() {
        let expected = "the kernel log could not be read: neither `journalctl -k` nor `dmesg` shows a line of it";
        for text in ["@@log\t0\t0\n", "@@log\t1\t0\n", "@@log\t124\t9\n", ""] {
            assert_eq!(expect_unknown(&FACT, 0, &expand_separators(text)), expected, "{text}");
        }
    }
}
