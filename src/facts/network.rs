//! `network`: interfaces and their addresses.

use super::comparison_rules::compare_by_key;
use super::fact::{Fact, FactShape};
use super::snippet_output::{require_success, text_or_null, unparsed_answer};
use crate::model::Value;
use crate::probe::{FactSnippet, ProbeOutput, UnansweredReason};
use serde_json::json;
use std::collections::BTreeMap;

const SNIPPET: &str = r#"need ip
ip -json addr show || exit
printf '\n'
for d in /sys/class/net/*/device/driver; do
[ -e "$d" ] || continue
i=${d#/sys/class/net/}
cd -P "$d" && printf '%s\t%s\n' "${i%%/*}" "${PWD##*/}"
done"#;

pub(super) const FACT: Fact = Fact {
    name: "network",
    doc: "Network interfaces, a list in the kernel's order, from `ip -json addr` and `/sys/class/net`.",
    shape: FactShape::List,
    fields: &[
        ("name", "`eth0`, `ens1f0np0`, `ib0`"),
        ("mac", "hardware address, null without one"),
        ("mtu", "bytes"),
        ("state", "operational state: `up`, `down`, `unknown` (loopback and some tunnels)"),
        ("driver", "driver of its device, null for virtual interfaces"),
        ("addresses", "list of `ADDRESS/PREFIX`, IPv4 and IPv6"),
    ],
    reads: &["ip -json addr show", "/sys/class/net/*/device/driver"],
    alike: &[compare_by_key("", "driver", "mtu"), compare_by_key("", "driver", "state")],
    snippet: FactSnippet {
        name: "network",
        snippet: SNIPPET,
        timeout_s: 10,
        device: false,
        quick: true,
        builtin: false,
    },
    parse,
};

fn parse(output: &ProbeOutput) -> Result<Value, UnansweredReason> {
    let (links, drivers) = require_success(output)?.split_once('\n').unwrap_or((output.stdout.raw(), ""));
    let links: Vec<Value> = serde_json::from_str(links).map_err(|_| unparsed_answer("JSON of `ip`", output))?;
    let drivers: BTreeMap<&str, &str> = drivers.lines().filter_map(|line| line.split_once('\t')).collect();
    let links: Option<Vec<Value>> = links.iter().map(|link| build_interface(link, &drivers)).collect();
    links.map(Value::from).ok_or_else(|| unparsed_answer("an interface's name", output))
}

fn build_interface(link: &Value, drivers: &BTreeMap<&str, &str>) -> Option<Value> {
    let text = |key: &str| link.get(key).and_then(Value::as_str);
    let name = text("ifname")?;
    let addresses = link.get("addr_info").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let addresses: Vec<String> = addresses.iter().filter_map(format_address).collect();
    Some(json!({
        "name": name,
        "mac": text_or_null(text("address")),
        "mtu": link.get("mtu"),
        "state": text("operstate").map(str::to_lowercase),
        "driver": text_or_null(drivers.get(name).copied()),
        "addresses": addresses,
    }))
}

fn format_address(info: &Value) -> Option<String> {
    Some(format!("{}/{}", info.get("local")?.as_str()?, info.get("prefixlen")?.as_u64()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::snippet_output::testing::{expect_unknown, parse_stdout};

    #[test]
    fn interfaces_are_parsed_with_driver_and_addresses() {
        // origin: field, Debian 12, shortened; the driver's line is reconstructed
        let text = r#"[{"ifindex":1,"ifname":"lo","flags":["LOOPBACK","UP"],"mtu":65536,"operstate":"UNKNOWN","link_type":"loopback","address":"00:00:00:00:00:00","addr_info":[{"family":"inet","local":"127.0.0.1","prefixlen":8},{"family":"inet6","local":"::1","prefixlen":128}]},{"ifindex":2,"ifname":"eth0","mtu":1500,"operstate":"UP","address":"02:fc:00:00:00:01","addr_info":[]}]"#;
        let text = format!("{text}\neth0\tvirtio_net\n");
        let expected = json!([
            {"name": "lo", "mac": "00:00:00:00:00:00", "mtu": 65536, "state": "unknown", "driver": null, "addresses": ["127.0.0.1/8", "::1/128"]},
            {"name": "eth0", "mac": "02:fc:00:00:00:01", "mtu": 1500, "state": "up", "driver": "virtio_net", "addresses": []},
        ]);
        assert_eq!(parse_stdout(&FACT, &text), Ok(expected));
    }

    #[test]
    fn unexpected_output_makes_fact_unknown() {
        assert_eq!(expect_unknown(&FACT, 0, "1: lo: <LOOPBACK>"), "JSON of `ip` is not in the answer");
        assert_eq!(expect_unknown(&FACT, 0, "[{}]"), "an interface's name is not in the answer");
    }
}
