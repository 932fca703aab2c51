//! `units`: failed units and unit counts.

use super::comparison_rules::compare_value;
use super::fact::{Fact, FactShape};
use super::snippet_output::require_success;
use crate::model::Value;
use crate::probe::{FactSnippet, ProbeOutput, UnansweredReason};
use serde_json::{Map, json};
use std::collections::BTreeMap;

pub(super) const FACT: Fact = Fact {
    name: "units",
    doc: "systemd's units, from `systemctl list-units --all`.",
    shape: FactShape::Map,
    fields: &[
        ("failed", "names of failed units, each with its sub-state"),
        ("counts", "number of units by active state: `active`, `inactive`, `failed`, `activating` …"),
    ],
    reads: &["systemctl list-units --all --plain --full --no-legend --no-pager"],
    alike: &[compare_value("failed")],
    snippet: FactSnippet {
        name: "units",
        snippet: "need systemctl; systemctl list-units --all --plain --full --no-legend --no-pager",
        timeout_s: 15,
        device: false,
        quick: false,
        builtin: false,
    },
    parse,
};

/// Parses lines of name, load state, active state, sub-state and description.
fn parse(output: &ProbeOutput) -> Result<Value, UnansweredReason> {
    let mut failed = Map::new();
    let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
    for line in require_success(output)?.lines() {
        let words: Vec<&str> = line.trim_start_matches("● ").split_whitespace().take(4).collect();
        let [name, _, active, sub] = words[..] else { continue };
        *counts.entry(active).or_default() += 1;
        if active == "failed" {
            failed.insert(name.to_owned(), Value::from(sub));
        }
    }
    if counts.is_empty() {
        return Err(UnansweredReason::new("no unit is in the answer").with_message(output.stderr.clone()));
    }
    Ok(json!({ "failed": failed, "counts": counts }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::snippet_output::testing::{expect_unknown, parse_stdout};

    #[test]
    fn failed_units_are_listed_and_all_units_counted() {
        // origin: field, Debian 12, shortened
        let text = "proc-sys-fs-binfmt_misc.automount  loaded    inactive dead      Arbitrary Executable File Formats\n\
                    -.mount                            loaded    active   mounted   Root Mount\n\
                    ssh.service                        loaded    failed   failed    OpenBSD Secure Shell server\n\
                    home.mount                         not-found inactive dead      home.mount\n";
        let expected =
            json!({"failed": {"ssh.service": "failed"}, "counts": {"active": 1, "failed": 1, "inactive": 2}});
        assert_eq!(parse_stdout(&FACT, text), Ok(expected));
    }

    #[test]
    fn host_without_running_systemd_is_unknown() {
        assert_eq!(expect_unknown(&FACT, 1, ""), "its snippet failed with status 1");
        assert_eq!(expect_unknown(&FACT, 0, ""), "no unit is in the answer");
    }
}
