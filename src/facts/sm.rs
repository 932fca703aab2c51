//! `sm`: the subnet manager that this host uses.

use super::command::sminfo;
use super::comparison_rules::compare_value;
use super::fact::{Fact, FactShape};
use super::snippet_output::{command_failure, find_guarded_output, guarded, require_success, split_sections};
use crate::model::Value;
use crate::probe::{FactSnippet, ProbeOutput, UnansweredReason};
use serde_json::json;

/// A port that is down has no subnet manager.
const SNIPPET: &str = guarded!(
    r"for p in /sys/class/infiniband/*/ports/*; do
[ -e $p/link_layer ] || continue
read -r l <$p/link_layer; read -r s <$p/state
case $l,$s in InfiniBand,*DOWN*) ;; InfiniBand,*) guard 15 sminfo; break ;; esac
done"
);

pub(super) const FACT: Fact = Fact {
    name: "sm",
    doc: "The subnet manager of the host's first InfiniBand port, from `sminfo`. Null if no InfiniBand port has a link.",
    shape: FactShape::Map,
    fields: &[
        ("lid", "its local id"),
        ("guid", "its port GUID: `0x248a0703009c0196`"),
        ("priority", "the manager with the higher priority is master"),
        ("state", "`master`, `standby`, `discovering`, `not-active`"),
        ("activity", "a counter that increases while it runs"),
    ],
    reads: &["/sys/class/infiniband/*/ports/*/{link_layer,state}", "/proc/*/stat", "sminfo"],
    alike: &[compare_value("guid")],
    snippet: FactSnippet { name: "sm", snippet: SNIPPET, timeout_s: 25, device: true, quick: false, builtin: false },
    parse,
};

fn parse(output: &ProbeOutput) -> Result<Value, UnansweredReason> {
    let Some(ran) = find_guarded_output(&split_sections(require_success(output)?), "sminfo")? else {
        return Ok(Value::Null);
    };
    let manager =
        sminfo::parse_sminfo(ran.text).filter(|_| ran.status == 0).ok_or_else(|| command_failure("sminfo", &ran))?;
    Ok(
        json!({ "lid": manager.lid, "guid": manager.guid, "priority": manager.priority, "state": manager.state, "activity": manager.activity }),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::snippet_output::testing::{expand_separators, expect_unknown, parse_stdout};

    #[test]
    fn subnet_manager_is_reported() {
        let sample = include_str!("../../tests/samples/sminfo.txt");
        let expected =
            json!({"lid": 3, "guid": "0x248a0703009c0196", "priority": 15, "state": "master", "activity": 38526});
        assert_eq!(
            parse_stdout(&FACT, &expand_separators(&format!("@@sminfo\trun\t15\n{sample}\n@@status\t0\n"))),
            Ok(expected)
        );
        assert_eq!(parse_stdout(&FACT, ""), Ok(Value::Null));
        let failed = expand_separators("@@sminfo\trun\t15\nsminfo: iberror: failed: query\n\n@@status\t255\n");
        assert_eq!(expect_unknown(&FACT, 0, &failed), "`sminfo` failed with status 255");
    }
}
