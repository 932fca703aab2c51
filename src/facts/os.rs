//! `os`: the distribution.

use super::comparison_rules::compare_value;
use super::fact::{Fact, FactShape};
use super::snippet_output::{require_success, text_or_null, unparsed_answer};
use crate::model::Value;
use crate::probe::{FactSnippet, ProbeOutput, UnansweredReason};
use serde_json::json;

pub(super) const FACT: Fact = Fact {
    name: "os",
    doc: "The distribution, from `/etc/os-release`.",
    shape: FactShape::Map,
    fields: &[
        ("id", "`ID`: `debian`, `ubuntu`, `rhel` …"),
        ("version_id", "`VERSION_ID` as text: `12`, `22.04`; null if the distribution has none"),
        ("codename", "`VERSION_CODENAME`: `bookworm`; null if it has none"),
        ("id_like", "`ID_LIKE`: the distributions from which it derives, as a list"),
        ("pretty_name", "`PRETTY_NAME`, for people"),
    ],
    reads: &["/etc/os-release", "/usr/lib/os-release"],
    alike: &[compare_value("id"), compare_value("version_id")],
    snippet: FactSnippet {
        name: "os",
        snippet: "cat /etc/os-release 2>/dev/null || cat /usr/lib/os-release",
        timeout_s: 5,
        device: false,
        quick: true,
        builtin: false,
    },
    parse,
};

fn parse(output: &ProbeOutput) -> Result<Value, UnansweredReason> {
    let text = require_success(output)?;
    let value = |key: &str| {
        let raw = text.lines().rev().find_map(|line| line.trim().strip_prefix(key)?.strip_prefix('='))?;
        Some(shlex::split(raw)?.concat())
    };
    let id = value("ID").filter(|id| !id.is_empty()).ok_or_else(|| unparsed_answer("`ID`", output))?;
    let like = value("ID_LIKE").unwrap_or_default();
    Ok(json!({
        "id": id,
        "version_id": text_or_null(value("VERSION_ID").as_deref()),
        "codename": text_or_null(value("VERSION_CODENAME").as_deref()),
        "id_like": like.split_whitespace().collect::<Vec<_>>(),
        "pretty_name": text_or_null(value("PRETTY_NAME").as_deref()),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::snippet_output::testing::{expect_unknown, parse_stdout};

    #[test]
    fn os_release_fields_are_parsed() {
        // origin: field, Debian 12
        let debian = "PRETTY_NAME=\"Debian GNU/Linux 12 (bookworm)\"\nNAME=\"Debian GNU/Linux\"\nVERSION_ID=\"12\"\n\
                      VERSION=\"12 (bookworm)\"\nVERSION_CODENAME=bookworm\nID=debian\n";
        let expected = json!({"id": "debian", "version_id": "12", "codename": "bookworm", "id_like": [],
                              "pretty_name": "Debian GNU/Linux 12 (bookworm)"});
        assert_eq!(parse_stdout(&FACT, debian), Ok(expected));
        // origin: reconstructed after RHEL 9
        let rhel = "ID=\"rhel\"\nID_LIKE=\"fedora centos\"\nVERSION_ID=\"9.10\"\n";
        let expected = json!({"id": "rhel", "version_id": "9.10", "codename": null, "id_like": ["fedora", "centos"], "pretty_name": null});
        assert_eq!(parse_stdout(&FACT, rhel), Ok(expected));
    }

    #[test]
    fn missing_os_id_makes_fact_unknown() {
        assert_eq!(expect_unknown(&FACT, 0, "NAME=x\n"), "`ID` is not in the answer");
        assert_eq!(expect_unknown(&FACT, 1, ""), "its snippet failed with status 1");
    }
}
