//! `boot`: the current boot of the host.

use super::fact::{Fact, FactShape};
use super::snippet_output::{find_field, require_success, unparsed_answer};
use crate::model::Value;
use crate::probe::{FactSnippet, ProbeOutput, UnansweredReason};
use serde_json::json;

pub(super) const FACT: Fact = Fact {
    name: "boot",
    doc: "The current boot. A different id, read over a new session, proves a reboot.",
    shape: FactShape::Map,
    fields: &[
        ("id", "`/proc/sys/kernel/random/boot_id`"),
        ("btime", "start time of the kernel, in whole seconds since the epoch, from `/proc/stat`"),
    ],
    reads: &["/proc/sys/kernel/random/boot_id", "/proc/stat"],
    alike: &[],
    snippet: FactSnippet {
        name: "boot",
        snippet: "read -r i </proc/sys/kernel/random/boot_id || exit; printf 'id\\t%s\\n' \"$i\"\n\
                  exec grep '^btime ' /proc/stat",
        timeout_s: 5,
        device: false,
        quick: true,
        builtin: false,
    },
    parse,
};

fn parse(output: &ProbeOutput) -> Result<Value, UnansweredReason> {
    let text = require_success(output)?;
    let id =
        find_field(text, "id").filter(|id| !id.is_empty()).ok_or_else(|| unparsed_answer("the boot id", output))?;
    let btime = text.lines().find_map(|line| line.strip_prefix("btime ")?.trim().parse::<u64>().ok());
    Ok(json!({ "id": id, "btime": btime.ok_or_else(|| unparsed_answer("`btime`", output))? }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::snippet_output::testing::{expect_unknown, parse_stdout};

    #[test]
    fn boot_id_and_time_are_parsed() {
        // origin: field, Debian 12
        let text = "id\t1f0ed2f4-8fc8-41a4-b97f-d5a8a0f37a7c\nbtime 1795253207\n";
        let expected = json!({"id": "1f0ed2f4-8fc8-41a4-b97f-d5a8a0f37a7c", "btime": 1_795_253_207});
        assert_eq!(parse_stdout(&FACT, text), Ok(expected));
        assert_eq!(expect_unknown(&FACT, 0, "id\tx\n"), "`btime` is not in the answer");
        assert_eq!(expect_unknown(&FACT, 1, "id\t"), "its snippet failed with status 1");
    }
}
