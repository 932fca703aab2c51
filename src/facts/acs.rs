//! `acs`: PCI bridges that redirect traffic between devices to the root complex.

use super::command::lspci_acs::{self, AcsBridge};
use super::comparison_rules::{compare_each, compare_value};
use super::fact::{Fact, FactShape};
use super::snippet_output::{command_failure, find_guarded_output, guarded, require_success, split_sections};
use crate::model::Value;
use crate::probe::{FactSnippet, ProbeOutput, UnansweredReason};
use serde_json::json;

/// A host without a PCI bus has no bridges to query. Only bridges are queried: GPUs and adapters answer slowly.
const SNIPPET: &str =
    guarded!(r"for d in /sys/bus/pci/devices/*; do [ ! -e $d ] || { guard 20 lspci -D -vvv -d ::0604; break; }; done");

pub(super) const FACT: Fact = Fact {
    name: "acs",
    doc: "PCI bridges whose Access Control Services redirect traffic between GPUs and adapters to the root complex, from `lspci -D -vvv -d ::0604`. \
          Unknown without root.",
    shape: FactShape::Map,
    fields: &[
        ("bridges", "number of PCI bridges"),
        ("redirecting", "list of bridges that redirect: `bdf` and `flags`, the enabled controls"),
    ],
    reads: &["/sys/bus/pci/devices/*", "/proc/*/stat", "lspci -D -vvv -d ::0604"],
    alike: &[compare_value("bridges"), compare_each("redirecting", "bdf", &["flags"])],
    snippet: FactSnippet { name: "acs", snippet: SNIPPET, timeout_s: 30, device: true, quick: false, builtin: false },
    parse,
};

fn parse(output: &ProbeOutput) -> Result<Value, UnansweredReason> {
    let Some(ran) = find_guarded_output(&split_sections(require_success(output)?), "lspci")? else {
        return Ok(json!({ "bridges": 0, "redirecting": [] }));
    };
    let listing = lspci_acs::parse_lspci_acs(ran.text);
    match (ran.status, listing.denied) {
        (0, false) => {}
        (0, true) => return Err(UnansweredReason::new("`lspci` shows capabilities only to root")),
        _ => return Err(command_failure("lspci", &ran)),
    }
    let redirecting = listing.with_acs.iter().filter(|bridge| bridge.is_redirecting());
    let one = |bridge: &AcsBridge| json!({ "bdf": bridge.bdf, "flags": bridge.on });
    Ok(json!({ "bridges": listing.bridges, "redirecting": redirecting.map(one).collect::<Vec<_>>() }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::snippet_output::testing::{expand_separators, expect_unknown, parse_stdout};

    #[test]
    fn bridges_that_redirect_are_listed() {
        let sample = include_str!("../../tests/samples/lspci-acs.txt");
        let expected = json!({"bridges": 3, "redirecting": [{"bdf": "0000:15:01.0", "flags": ["SrcValid", "ReqRedir", "CmpltRedir", "UpstreamFwd"]}]});
        assert_eq!(
            parse_stdout(&FACT, &expand_separators(&format!("@@lspci\trun\t20\n{sample}\n@@status\t0\n"))),
            Ok(expected)
        );
        let denied = "@@lspci\trun\t20\n00:01.0 PCI bridge: x\n\tCapabilities: <access denied>\n@@status\t0\n";
        assert_eq!(expect_unknown(&FACT, 0, &expand_separators(denied)), "`lspci` shows capabilities only to root");
        assert_eq!(expect_unknown(&FACT, 0, &expand_separators("@@lspci\tmissing\n")), "`lspci` is missing");
        assert_eq!(parse_stdout(&FACT, ""), Ok(json!({"bridges": 0, "redirecting": []})));
    }
}
