//! `virtualization`: the virtual machine or container in which the host runs.

use super::comparison_rules::compare_value;
use super::fact::{Fact, FactShape};
use super::snippet_output::unparsed_answer;
use crate::model::Value;
use crate::probe::{FactSnippet, ProbeOutput, UnansweredReason};

/// A processor that reports a hypervisor is a virtual one. One that reports none may hide it, so that proves nothing.
const SNIPPET: &str = r"if ! command -v systemd-detect-virt >/dev/null 2>&1 && grep -qw hypervisor /proc/cpuinfo 2>/dev/null; then
echo vm-other
else need systemd-detect-virt; systemd-detect-virt
fi";

pub(super) const FACT: Fact = Fact {
    name: "virtualization",
    doc: "The virtual machine or container in which the host runs, as text, from `systemd-detect-virt`: `none` on bare metal, `kvm`, `vmware`, `docker`, `systemd-nspawn` …; `vm-other` without that program if the processor reports a hypervisor",
    shape: FactShape::Value,
    fields: &[],
    reads: &["systemd-detect-virt", "/proc/cpuinfo"],
    alike: &[compare_value("")],
    snippet: FactSnippet {
        name: "virtualization",
        snippet: SNIPPET,
        timeout_s: 10,
        device: false,
        quick: true,
        builtin: false,
    },
    parse,
};

/// On bare metal the program prints `none` and exits with 1, so the output decides, not the status.
fn parse(output: &ProbeOutput) -> Result<Value, UnansweredReason> {
    let word = output.stdout.raw().trim();
    let is_word = !word.is_empty() && word.chars().all(|c| c.is_ascii_alphanumeric() || c == '-');
    match output.status {
        0 | 1 if is_word => Ok(Value::from(word)),
        _ => Err(unparsed_answer("the type of virtualization", output)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::snippet_output::testing::{expect_unknown, parse_stdout};

    #[test]
    fn none_is_valid_despite_nonzero_exit_code() {
        let bare = ProbeOutput { status: 1, stdout: "none\n".into(), ..ProbeOutput::default() };
        assert_eq!(parse(&bare), Ok(Value::from("none")));
        // origin: field, Debian 12
        assert_eq!(parse_stdout(&FACT, "systemd-nspawn\n"), Ok(Value::from("systemd-nspawn")));
        assert_eq!(expect_unknown(&FACT, 1, ""), "the type of virtualization is not in the answer");
    }
}
