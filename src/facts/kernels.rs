//! `kernels`: the installed kernels, and for which of them modules can be built.

use super::comparison_rules::{compare_counts, compare_value};
use super::fact::{Fact, FactShape};
use super::snippet_output::{find_field, require_success, unparsed_answer};
use crate::model::Value;
use crate::probe::{FactSnippet, ProbeOutput, UnansweredReason};
use serde_json::json;

/// A link to headers that are not installed dangles, so the target file is checked.
const SNIPPET: &str = r#"k=$(uname -r) || exit
printf 'running\t%s\n' "$k"
for d in /lib/modules/*; do
[ -d "$d" ] || continue
r=${d##*/} h=no i=no
[ ! -r "$d/build/Makefile" ] || h=yes
[ ! -e "/boot/vmlinuz-$r" ] || i=yes
printf 'kernel\t%s\t%s\t%s\n' "$r" "$i" "$h"
done
:"#;

pub(super) const FACT: Fact = Fact {
    name: "kernels",
    doc: "Installed kernels, from `/lib/modules` and `/boot`.",
    shape: FactShape::Map,
    fields: &[
        ("running", "release of the running kernel"),
        ("headers", "whether modules can be built for the running kernel"),
        (
            "installed",
            "list of `release`, `image` (whether `/boot` has it) and `headers` (whether modules can be built for it)",
        ),
    ],
    reads: &["uname -r", "/lib/modules/*", "/lib/modules/*/build/Makefile", "/boot/vmlinuz-*"],
    alike: &[compare_value("headers"), compare_counts("installed", &["release"])],
    snippet: FactSnippet {
        name: "kernels",
        snippet: SNIPPET,
        timeout_s: 5,
        device: false,
        quick: true,
        builtin: false,
    },
    parse,
};

fn parse(output: &ProbeOutput) -> Result<Value, UnansweredReason> {
    let text = require_success(output)?;
    let running = find_field(text, "running").ok_or_else(|| unparsed_answer("the running kernel", output))?;
    let rows = text.lines().filter_map(|line| {
        let fields: Vec<&str> = line.strip_prefix("kernel\t")?.split('\t').collect();
        let [release, image, headers] = fields[..] else { return None };
        Some((release, image == "yes", headers == "yes"))
    });
    let rows: Vec<(&str, bool, bool)> = rows.collect();
    let entry = |(release, image, headers): &(&str, bool, bool)| json!({ "release": release, "image": image, "headers": headers });
    Ok(json!({
        "running": running,
        "headers": rows.iter().any(|(release, _, headers)| *release == running && *headers),
        "installed": rows.iter().map(entry).collect::<Vec<_>>(),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::snippet_output::testing::{expect_unknown, parse_stdout};

    #[test]
    fn header_presence_is_reported_per_kernel() {
        // origin: reconstructed after Ubuntu 22.04
        let text =
            "running\t5.15.0-130-generic\nkernel\t5.15.0-130-generic\tyes\tyes\nkernel\t5.15.0-131-generic\tyes\tno\n";
        let expected = json!({"running": "5.15.0-130-generic", "headers": true, "installed": [
            {"release": "5.15.0-130-generic", "image": true, "headers": true},
            {"release": "5.15.0-131-generic", "image": true, "headers": false},
        ]});
        assert_eq!(parse_stdout(&FACT, text), Ok(expected));
        assert_eq!(expect_unknown(&FACT, 0, ""), "the running kernel is not in the answer");
    }
}
