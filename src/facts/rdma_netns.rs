//! `rdma_netns`: whether RDMA devices are shared between network namespaces.

use super::comparison_rules::compare_value;
use super::fact::{Fact, FactShape};
use super::snippet_output::{require_success, unparsed_answer};
use crate::model::Value;
use crate::probe::{FactSnippet, ProbeOutput, UnansweredReason};

/// `rdma system show` would load the module that it queries.
const SNIPPET: &str = r#"[ -d /sys/module ] || { printf '/sys/module is not there\n' >&2; exit 1; }
[ -d /sys/module/ib_core ] || { printf 'none\n'; exit 0; }
cat /sys/module/ib_core/parameters/netns_mode"#;

pub(super) const FACT: Fact = Fact {
    name: "rdma_netns",
    doc: "Whether RDMA devices are `shared` between network namespaces or `exclusive` to one, as text, from the parameter of `ib_core`, \
          which reflects `rdma system set`. Null while that module is not loaded.",
    shape: FactShape::Value,
    fields: &[],
    reads: &["/sys/module/ib_core/parameters/netns_mode"],
    alike: &[compare_value("")],
    snippet: FactSnippet {
        name: "rdma_netns",
        snippet: SNIPPET,
        timeout_s: 5,
        device: false,
        quick: true,
        builtin: false,
    },
    parse,
};

fn parse(output: &ProbeOutput) -> Result<Value, UnansweredReason> {
    match require_success(output)?.trim() {
        "none" => Ok(Value::Null),
        "Y" | "1" => Ok("shared".into()),
        "N" | "0" => Ok("exclusive".into()),
        _ => Err(unparsed_answer("the mode", output)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::snippet_output::testing::{expect_unknown, parse_stdout};

    #[test]
    fn mode_is_shared_or_exclusive() {
        // origin: source, the kernel's drivers/infiniband/core/device.c
        assert_eq!(
            (parse_stdout(&FACT, "Y\n"), parse_stdout(&FACT, "N\n")),
            (Ok("shared".into()), Ok("exclusive".into()))
        );
        assert_eq!(parse_stdout(&FACT, "none\n"), Ok(Value::Null));
        assert_eq!(expect_unknown(&FACT, 1, ""), "its snippet failed with status 1");
        assert_eq!(expect_unknown(&FACT, 0, "odd\n"), "the mode is not in the answer");
    }
}
