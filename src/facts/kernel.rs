//! `kernel`: the running kernel.

use super::comparison_rules::{self, compare_normalized, compare_value};
use super::fact::{Fact, FactShape};
use super::snippet_output::{require_success, unparsed_answer};
use crate::model::Value;
use crate::probe::{FactSnippet, ProbeOutput, UnansweredReason};
use serde_json::json;

pub(super) const FACT: Fact = Fact {
    name: "kernel",
    doc: "The running kernel, from `uname` and `/proc/cmdline`.",
    shape: FactShape::Map,
    fields: &[
        ("release", "`uname -r`: `5.15.0-130-generic`"),
        ("arch", "`uname -m`: `x86_64`, `aarch64`"),
        ("cmdline", "its boot command line, as text"),
    ],
    reads: &["uname -r -m", "/proc/cmdline"],
    alike: &[
        compare_value("release"),
        compare_value("arch"),
        compare_normalized("cmdline", comparison_rules::normalize_cmdline),
    ],
    snippet: FactSnippet {
        name: "kernel",
        snippet: "uname -r -m && read -r c </proc/cmdline && printf '%s\\n' \"$c\"",
        timeout_s: 5,
        device: false,
        quick: true,
        builtin: false,
    },
    parse,
};

fn parse(output: &ProbeOutput) -> Result<Value, UnansweredReason> {
    let (names, cmdline) = require_success(output)?.split_once('\n').unwrap_or((output.stdout.raw(), ""));
    let (release, arch) = names.trim().split_once(' ').ok_or_else(|| unparsed_answer("`uname`", output))?;
    Ok(json!({ "release": release, "arch": arch, "cmdline": cmdline.trim() }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::snippet_output::testing::{expect_unknown, parse_stdout};

    #[test]
    fn release_architecture_and_command_line_are_parsed() {
        // origin: reconstructed after Ubuntu 22.04
        let text = "5.15.0-130-generic x86_64\nBOOT_IMAGE=/vmlinuz root=/dev/md0 ro iommu=pt\n";
        let expected = json!({"release": "5.15.0-130-generic", "arch": "x86_64", "cmdline": "BOOT_IMAGE=/vmlinuz root=/dev/md0 ro iommu=pt"});
        assert_eq!(parse_stdout(&FACT, text), Ok(expected));
        assert_eq!(expect_unknown(&FACT, 0, ""), "`uname` is not in the answer");
    }
}
