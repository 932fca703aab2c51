//! `machine`: vendor, product and firmware of the host.

use super::comparison_rules::compare_value;
use super::fact::{Fact, FactShape};
use super::snippet_output::{find_field, require_success, text_or_null, unparsed_answer};
use crate::model::Value;
use crate::probe::{FactSnippet, ProbeOutput, UnansweredReason};
use serde_json::{Map, Value as Json};

const SNIPPET: &str = r#"[ -d /sys/class ] || { printf '/sys is not mounted\n' >&2; exit 1; }
for p in vendor=sys_vendor product=product_name board=board_name bios=bios_version bios_date=bios_date; do
v=; [ ! -r "/sys/class/dmi/id/${p#*=}" ] || read -r v <"/sys/class/dmi/id/${p#*=}" || :
printf '%s\t%s\n' "${p%%=*}" "$v"
done"#;

pub(super) const FACT: Fact = Fact {
    name: "machine",
    doc: "Vendor, product and firmware of the host, from `/sys/class/dmi/id`. All fields are null if the kernel has no such table \
          (most Arm hosts, some virtual machines).",
    shape: FactShape::Map,
    fields: &[
        ("vendor", "`Supermicro`, `Dell Inc.`"),
        ("product", "`SYS-821GE-TNHR`"),
        ("board", "the mainboard: `X13DEG-OAD`"),
        ("bios", "firmware version, in the vendor's format: `2.1.V1`"),
        ("bios_date", "build date of that firmware: `05/17/2024`"),
    ],
    reads: &["/sys/class/dmi/id/{sys_vendor,product_name,board_name,bios_version,bios_date}"],
    alike: &[
        compare_value("vendor"),
        compare_value("product"),
        compare_value("board"),
        compare_value("bios"),
        compare_value("bios_date"),
    ],
    snippet: FactSnippet {
        name: "machine",
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
    let told = |(name, _): &(&str, &str)| {
        let value = find_field(text, name).ok_or_else(|| unparsed_answer(&format!("`{name}`"), output))?;
        Ok(((*name).to_owned(), text_or_null(Some(value.trim()))))
    };
    FACT.fields.iter().map(told).collect::<Result<Map<String, Json>, UnansweredReason>>().map(Value::Object)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::snippet_output::testing::{expect_unknown, parse_stdout};
    use serde_json::json;

    #[test]
    fn vendor_and_product_are_null_without_dmi_table() {
        // origin: reconstructed: one line a file, as `drivers/firmware/dmi-id.c` prints it
        let text =
            "vendor\tSupermicro\nproduct\tSYS-821GE-TNHR  \nboard\tX13DEG-OAD\nbios\t2.1.V1\nbios_date\t05/17/2024\n";
        let expected = json!({"vendor": "Supermicro", "product": "SYS-821GE-TNHR", "board": "X13DEG-OAD", "bios": "2.1.V1", "bios_date": "05/17/2024"});
        assert_eq!(parse_stdout(&FACT, text), Ok(expected));
        let none = json!({"vendor": null, "product": null, "board": null, "bios": null, "bios_date": null});
        assert_eq!(parse_stdout(&FACT, "vendor\t\nproduct\t\nboard\t\nbios\t\nbios_date\t\n"), Ok(none));
        assert_eq!(expect_unknown(&FACT, 0, "vendor\tx\n"), "`product` is not in the answer");
    }
}
