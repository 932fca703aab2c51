//! `simulated`: whether a host's hardware is simulated.

use super::alike::same;
use super::read::{done, text_or_null};
use super::{Fact, FactShape};
use crate::model::Value;
use crate::probe::{FactSnippet, ProbeOutput, UnansweredReason};

const SNIPPET: &str = "[ -e /etc/forge/simulated-hardware ] || exit 0; cat /etc/forge/simulated-hardware";

pub(super) const FACT: Fact = Fact {
    name: "simulated",
    doc: "The name of the hardware profile that simulates this host's hardware, as text, from `/etc/forge/simulated-hardware`: a test \
          that simulates hardware on a host writes it there. Null on every other host. forge labels its output about such a host first.",
    shape: FactShape::Value,
    fields: &[],
    reads: &["/etc/forge/simulated-hardware"],
    alike: &[same("")],
    snippet: FactSnippet { name: "simulated", snippet: SNIPPET, timeout_s: 5, device: false, quick: true },
    parse,
};

fn parse(output: &ProbeOutput) -> Result<Value, UnansweredReason> {
    Ok(text_or_null(Some(done(output)?)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::read::testing::{parsed, why};

    #[test]
    fn the_profile_is_named_and_most_hosts_have_none() {
        assert_eq!(parsed(&FACT, "h100x8-ndr\n"), Ok(Value::from("h100x8-ndr")));
        assert_eq!(parsed(&FACT, ""), Ok(Value::Null));
        assert_eq!(why(&FACT, 1, ""), "its snippet failed with status 1");
    }
}
