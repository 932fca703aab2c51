//! `limits`: the amount of memory that processes may lock.

use super::comparison_rules::{compare_each, compare_value};
use super::fact::{Fact, FactShape};
use super::snippet_output::{find_section, require_success, split_sections, unknown_part, unparsed_answer};
use crate::model::Value;
use crate::probe::{FactSnippet, ProbeOutput, UnansweredReason};
use serde_json::{Map, json};

/// This runs as a child of the login session, with the limits of a login.
const SNIPPET: &str = r#"printf '\036self\n'; grep '^Max locked memory' /proc/self/limits || exit
command -v systemctl >/dev/null 2>&1 || { printf '\n\036lacks\n'; exit 0; }
systemctl show -p Id,MainPID containerd.service kubelet.service slurmd.service 2>/dev/null | {
u= p=
while IFS== read -r k v; do
case $k in Id) u=${v%.service} ;; MainPID) p=$v ;; *) u= p= ;; esac
[ -n "$u" ] && [ -n "$p" ] || continue
[ "$p" = 0 ] || [ ! -r "/proc/$p/limits" ] || { printf '\n\036service\t%s\n' "$u"; grep '^Max locked memory' "/proc/$p/limits"; }
u= p=
done
}
:"#;

pub(super) const FACT: Fact = Fact {
    name: "limits",
    doc: "The amount of memory that processes may lock, which RDMA needs for its buffers, from `/proc/PID/limits`: for the login that forge \
          uses, and for running services that start jobs. A change applies to logins and services that start after it.",
    shape: FactShape::Map,
    fields: &[
        ("memlock", "`soft` and `hard` limit of the login: bytes, or `unlimited`"),
        (
            "services",
            "map from running service to the same two limits: `containerd`, `kubelet`, `slurmd`; unknown without `systemctl`",
        ),
    ],
    reads: &["/proc/self/limits", "systemctl show -p Id,MainPID UNIT…", "/proc/PID/limits"],
    alike: &[
        compare_value("memlock.soft"),
        compare_value("memlock.hard"),
        compare_each("services", "", &["soft", "hard"]),
    ],
    snippet: FactSnippet {
        name: "limits",
        snippet: SNIPPET,
        timeout_s: 10,
        device: false,
        quick: false,
        builtin: false,
    },
    parse,
};

fn parse(output: &ProbeOutput) -> Result<Value, UnansweredReason> {
    let parts = split_sections(require_success(output)?);
    let own = parts.iter().find(|part| part.name() == "self").and_then(|part| parse_memlock(part.body));
    let services = parts.iter().filter(|part| part.name() == "service");
    let services: Map<String, Value> =
        services.filter_map(|part| Some((part.field_at(1).to_owned(), parse_memlock(part.body)?))).collect();
    let services = match find_section(&parts, "lacks") {
        Some(_) => unknown_part("`systemctl` is missing"),
        None => services.into(),
    };
    Ok(
        json!({ "memlock": own.ok_or_else(|| unparsed_answer("the limit of locked memory", output))?, "services": services }),
    )
}

fn parse_memlock(text: &str) -> Option<Value> {
    let mut words = text.lines().find_map(|line| line.strip_prefix("Max locked memory"))?.split_whitespace();
    let mut limit = || match words.next()? {
        "unlimited" => Some(Value::from("unlimited")),
        bytes => bytes.parse::<u64>().ok().map(Value::from),
    };
    Some(json!({ "soft": limit()?, "hard": limit()? }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::snippet_output::testing::{expand_separators, expect_unknown, parse_stdout};

    #[test]
    fn limits_are_bytes_or_unlimited() {
        // origin: field, Debian 12; the service is reconstructed
        let text = expand_separators(
            "@@self\nMax locked memory         8388608              unlimited            bytes     \n\
             @@service\tcontainerd\nMax locked memory         unlimited            unlimited            bytes     \n",
        );
        let expected = json!({"memlock": {"soft": 8_388_608, "hard": "unlimited"},
                              "services": {"containerd": {"soft": "unlimited", "hard": "unlimited"}}});
        assert_eq!(parse_stdout(&FACT, &text), Ok(expected));
        // origin: field, a virtual machine with Ubuntu 24.04 without systemd
        let bare = expand_separators(
            "@@self\nMax locked memory         unlimited            unlimited            bytes     \n\n@@lacks\n",
        );
        let bare = parse_stdout(&FACT, &bare).unwrap();
        assert_eq!(bare["services"], json!({"unknown": "`systemctl` is missing"}));
        assert_eq!(
            expect_unknown(&FACT, 0, &expand_separators("@@self\nodd\n")),
            "the limit of locked memory is not in the answer"
        );
    }
}
