//! `identity`: the values that identify a host.

use super::fact::{Fact, FactShape};
use super::snippet_output::{find_field, require_success, text_or_null, unparsed_answer};
use crate::model::Value;
use crate::probe::{FactSnippet, ProbeOutput, UnansweredReason};
use serde_json::json;

const SNIPPET: &str = r#"for p in machine_id=/etc/machine-id product_uuid=/sys/class/dmi/id/product_uuid hostname=/proc/sys/kernel/hostname; do
v=; [ ! -r "${p#*=}" ] || read -r v <"${p#*=}" || :
printf '%s\t%s\n' "${p%%=*}" "$v"
done"#;

pub(super) const FACT: Fact = Fact {
    name: "identity",
    doc: "The values that identify a host. The same machine id or product UUID on two hosts breaks clusters.",
    shape: FactShape::Map,
    fields: &[
        ("machine_id", "`/etc/machine-id`, null if it is empty or missing"),
        ("product_uuid", "`/sys/class/dmi/id/product_uuid`, null if it is missing or not readable"),
        ("hostname", "the kernel's host name"),
    ],
    reads: &["/etc/machine-id", "/sys/class/dmi/id/product_uuid", "/proc/sys/kernel/hostname"],
    alike: &[],
    snippet: FactSnippet {
        name: "identity",
        snippet: SNIPPET,
        timeout_s: 5,
        device: false,
        quick: true,
        builtin: true,
    },
    parse,
};

fn parse(output: &ProbeOutput) -> Result<Value, UnansweredReason> {
    let text = require_success(output)?;
    let hostname = find_field(text, "hostname").ok_or_else(|| unparsed_answer("the host name", output))?;
    Ok(json!({
        "machine_id": text_or_null(find_field(text, "machine_id")),
        "product_uuid": text_or_null(find_field(text, "product_uuid").map(str::to_lowercase).as_deref()),
        "hostname": hostname,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::snippet_output::testing::{expect_unknown, parse_stdout};

    #[test]
    fn unreadable_product_uuid_is_null() {
        // origin: field, Debian 12
        let text = "machine_id\t3d1219c7c4c5404aaa1f6d2a48adfda4\nproduct_uuid\t\nhostname\tnode-01\n";
        let expected =
            json!({"machine_id": "3d1219c7c4c5404aaa1f6d2a48adfda4", "product_uuid": null, "hostname": "node-01"});
        assert_eq!(parse_stdout(&FACT, text), Ok(expected));
        assert_eq!(expect_unknown(&FACT, 0, ""), "the host name is not in the answer");
    }
}
