//! `dkms`: modules that are built on the host.

use super::command::dkms;
use super::comparison_rules::compare_counts;
use super::fact::{Fact, FactShape};
use super::snippet_output::require_success;
use crate::model::Value;
use crate::probe::{FactSnippet, ProbeOutput, UnansweredReason};
use serde_json::json;

pub(super) const FACT: Fact = Fact {
    name: "dkms",
    doc: "Kernel modules that are built on the host, a list from `dkms status`. Empty if dkms is not installed.",
    shape: FactShape::List,
    fields: &[
        ("module", "`nvidia`, `mlnx-ofed-kernel`"),
        ("version", "version of its source"),
        ("kernel", "kernel release for which it was built, null while it is only added"),
        ("arch", "`x86_64`"),
        ("state", "`added`, `built`, `installed`"),
        ("note", "warning of dkms, null without one"),
    ],
    reads: &["dkms status"],
    alike: &[compare_counts("", &["module", "version", "kernel", "state"])],
    snippet: FactSnippet {
        name: "dkms",
        snippet: "command -v dkms >/dev/null 2>&1 || exit 0; LC_ALL=C dkms status",
        timeout_s: 30,
        device: false,
        quick: false,
        builtin: false,
    },
    parse,
};

fn parse(output: &ProbeOutput) -> Result<Value, UnansweredReason> {
    let mut entries = Vec::new();
    for line in require_success(output)?.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let entry = dkms::parse_dkms_line(line)
            .ok_or_else(|| UnansweredReason::new("`dkms status` has an unexpected format").with_message(line))?;
        entries.push(json!({
            "module": entry.module, "version": entry.version, "kernel": entry.kernel,
            "arch": entry.arch, "state": entry.state, "note": entry.note,
        }));
    }
    Ok(entries.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::snippet_output::testing::{expect_unknown, parse_stdout};

    #[test]
    fn entries_are_listed() {
        // origin: source, dkms 3's status
        let expected = json!([{"module": "nvidia", "version": "560.35.03", "kernel": "5.15.0-130-generic", "arch": "x86_64", "state": "installed", "note": null}]);
        assert_eq!(parse_stdout(&FACT, "nvidia/560.35.03, 5.15.0-130-generic, x86_64: installed\n"), Ok(expected));
        assert_eq!(parse_stdout(&FACT, ""), Ok(json!([])));
        assert_eq!(expect_unknown(&FACT, 0, "odd\n"), "`dkms status` has an unexpected format");
    }
}
