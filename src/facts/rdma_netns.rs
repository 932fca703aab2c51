//! `rdma_netns`: whether RDMA devices are shared between network namespaces.

use super::alike::same;
use super::read::{done, unread};
use super::{Fact, FactShape};
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
    alike: &[same("")],
    snippet: FactSnippet { name: "rdma_netns", snippet: SNIPPET, timeout_s: 5, device: false, quick: true },
    parse,
};

fn parse(output: &ProbeOutput) -> Result<Value, UnansweredReason> {
    match done(output)?.trim() {
        "none" => Ok(Value::Null),
        "Y" | "1" => Ok("shared".into()),
        "N" | "0" => Ok("exclusive".into()),
        _ => Err(unread("the mode", output)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::read::testing::{parsed, why};

    #[test]
    fn the_mode_is_a_word() {
        // origin: source, the kernel's drivers/infiniband/core/device.c
        assert_eq!((parsed(&FACT, "Y\n"), parsed(&FACT, "N\n")), (Ok("shared".into()), Ok("exclusive".into())));
        assert_eq!(parsed(&FACT, "none\n"), Ok(Value::Null));
        assert_eq!(why(&FACT, 1, ""), "its snippet failed with status 1");
        assert_eq!(why(&FACT, 0, "odd\n"), "the mode is not in the answer");
    }
}
