//! `roce`: the settings that prevent drops of RDMA traffic over Ethernet.

use super::command::mlnx_qos;
use super::comparison_rules::compare_each;
use super::fact::{Fact, FactShape};
use super::snippet_output::{
    OutputSection, find_guarded_output, guarded, require_success, split_sections, text_or_null, unknown_part,
};
use crate::model::Value;
use crate::probe::{FactSnippet, ProbeOutput, UnansweredReason};
use serde_json::json;

/// The folder of `rdma_cm` in configfs is read only if it exists: creating it loads a module. The settings are those of
/// the function's own interface, not of a bond or VLAN on it; if a function has several, the one of the port's
/// addresses. In a bond only the first function has an RDMA device: the other interfaces of the bond whose function has
/// none belong to the same device.
const SNIPPET: &str = guarded!(
    r#"v() { [ ! -r "$2" ] || { x=; read -r x <"$2" || :; printf '%s\t%s\n' "$1" "$x"; }; }
t() {
printf '\n\036port\t%s\t%s\t%s\t%s\n' "$h" "$u" "$1" "${2##*/}"
c=/sys/kernel/config/rdma_cm/$h/ports/$u
v mode "$c/default_roce_mode"; v tos "$c/default_roce_tos"
[ -n "$1" ] || return 0
e=/sys/class/net/$1
v link "$e/operstate"; { v speed "$e/speed"; } 2>/dev/null; v mtu "$e/mtu"
e=$e/ecn
v dscp "$e/roce_np/cnp_dscp"; v prio "$e/roce_np/cnp_802p_prio"
for y in np rp; do for q in 0 1 2 3 4 5 6 7; do v "$y$q" "$e/roce_$y/enable/$q"; done; done
guard 15 mlnx_qos -i "$1"
guard 5 ethtool -a "$1"
}
for p in /sys/class/infiniband/*/ports/*; do
[ -e "$p/link_layer" ] || continue
read -r l <"$p/link_layer"; [ "$l" = Ethernet ] || continue
u=${p##*/} h=${p#/sys/class/infiniband/}; h=${h%%/*}
i= k=0
for d in "/sys/class/infiniband/$h/device/net"/*; do [ ! -e "$d" ] || { i=${d##*/}; k=$((k + 1)); }; done
if [ "$k" -gt 1 ]; then
i=
for f in "$p"/gid_attrs/ndevs/*; do { read -r i <"$f"; } 2>/dev/null && [ -n "$i" ] && break; done
fi
t "$i" "$(cd -P "/sys/class/infiniband/$h/device" 2>/dev/null && pwd)"
[ -n "$i" ] || continue
for o in "/sys/class/net/$i/master"/lower_*; do
[ -d "$o/device" ] && [ "${o##*/lower_}" != "$i" ] && [ ! -d "$o/device/infiniband" ] || continue
t "${o##*/lower_}" "$(cd -P "$o/device" && pwd)"
done
done
:"#
);

pub(super) const FACT: Fact = Fact {
    name: "roce",
    doc: "The settings that prevent drops of RDMA traffic over Ethernet, a list by RDMA port with Ethernet as its link layer, from `mlnx_qos`, \
          `ethtool -a`, `/sys/class/net/*/ecn` and configfs. Each function of a bond (`mlx5_bond_0`) has its own entry. None of the settings \
          survives a reboot or a restart of the stack.",
    shape: FactShape::List,
    fields: &[
        ("hca", "RDMA device: `mlx5_2`; of all functions of a bond the same"),
        ("bdf", "PCI address of the function, null for a device without one (soft RoCE)"),
        ("port", "number of its port"),
        ("netdev", "network interface, null without one"),
        ("link", "state of the interface: `up`, `down`"),
        ("rate", "Gb/s of the interface, null without a link"),
        ("mtu", "bytes"),
        (
            "dcbx",
            "controller of the settings: `OS controlled`, `Firmware controlled`; null if the tool does not report it",
        ),
        ("trust", "source of the priority: `dscp`, `pcp`"),
        ("pfc", "list of eight: whether a priority is paused rather than dropped"),
        (
            "ecn",
            "`np` and `rp`: list of eight, whether congestion is notified and reacted to; null if the driver has no such files",
        ),
        ("cnp_dscp", "DSCP of congestion notifications, null if the driver has no such file"),
        ("cnp_802p", "their priority, null if the driver has no such file"),
        ("pause", "`rx` and `tx`: whether whole-link pause frames are enabled"),
        ("cma_mode", "default mode of connections: `RoCE v2`; null if its folder in configfs does not exist"),
        ("cma_tos", "default type of service of connections, null likewise"),
    ],
    reads: &[
        "/sys/class/infiniband/*/ports/*/link_layer",
        "/sys/class/infiniband/*/ports/*/gid_attrs/ndevs/*",
        "/sys/class/infiniband/*/device/net/*",
        "/sys/class/net/*/{operstate,speed,mtu}",
        "/sys/class/net/*/master/lower_* (links to the interfaces of a bond)",
        "/sys/class/net/*/device/infiniband",
        "/sys/class/net/*/ecn/{roce_np,roce_rp}/enable/*",
        "/sys/class/net/*/ecn/roce_np/{cnp_dscp,cnp_802p_prio}",
        "/sys/kernel/config/rdma_cm/*/ports/*/{default_roce_mode,default_roce_tos}",
        "/proc/*/stat",
        "mlnx_qos -i IF",
        "ethtool -a IF",
    ],
    alike: &[compare_each(
        "",
        "bdf",
        &[
            "hca", "link", "rate", "mtu", "dcbx", "trust", "pfc", "ecn", "cnp_dscp", "cnp_802p", "pause", "cma_mode",
            "cma_tos",
        ],
    )],
    snippet: FactSnippet { name: "roce", snippet: SNIPPET, timeout_s: 60, device: true, quick: false, builtin: false },
    parse,
};

fn parse(output: &ProbeOutput) -> Result<Value, UnansweredReason> {
    let parts = split_sections(require_success(output)?);
    let starts: Vec<usize> = (0..parts.len()).filter(|at| parts[*at].name() == "port").collect();
    let end = |n: usize| starts.get(n + 1).copied().unwrap_or(parts.len());
    let ports = starts.iter().enumerate().map(|(n, start)| build_port(&parts[*start..end(n)]));
    Ok(ports.collect::<Vec<_>>().into())
}

/// Parses one port: its own part, then those of the two commands.
fn build_port(parts: &[OutputSection<'_>]) -> Value {
    let own = parts[0];
    let file = |key: &str| super::snippet_output::find_field(own.body, key);
    let number = |key: &str| file(key).and_then(|text| text.trim().parse::<u64>().ok());
    let flags = |side: &str| -> Option<Vec<bool>> {
        (0..8).map(|q| Some(file(&format!("{side}{q}"))?.trim() == "1")).collect()
    };
    let (np, rp) = (flags("np"), flags("rp"));
    let ecn = (np.is_some() || rp.is_some()).then(|| json!({ "np": np, "rp": rp }));
    let (dcbx, trust, pfc) = qos_values(parts);
    json!({
        "hca": own.field_at(1),
        "port": own.field_at(2).parse::<u64>().ok(),
        "netdev": text_or_null(Some(own.field_at(3))),
        "bdf": own.field_at(4).contains('.').then(|| own.field_at(4)),
        "link": text_or_null(file("link")),
        "rate": file("speed").and_then(rate_of_speed),
        "mtu": number("mtu"),
        "dcbx": dcbx,
        "trust": trust,
        "pfc": pfc,
        "ecn": ecn,
        "cnp_dscp": number("dscp"),
        "cnp_802p": number("prio"),
        "pause": pause_value(parts),
        "cma_mode": text_or_null(file("mode")),
        "cma_tos": number("tos"),
    })
}

/// Returns Gb/s of a file in Mb/s, which has -1 if the rate is unknown.
fn rate_of_speed(text: &str) -> Option<u64> {
    text.trim().parse::<u64>().ok().filter(|speed| *speed < u64::from(u32::MAX)).map(|speed| speed / 1000)
}

/// Returns the controller, the source of the priority and the paused priorities.
fn qos_values(parts: &[OutputSection<'_>]) -> (Value, Value, Value) {
    let told = match find_guarded_output(parts, "mlnx_qos") {
        Ok(None) => Err("the port has no network interface".to_owned()),
        Ok(Some(ran)) if ran.status != 0 => Err(format!("`mlnx_qos` failed with status {}", ran.status)),
        Ok(Some(ran)) => Ok(mlnx_qos::parse_mlnx_qos(ran.text)),
        Err(unknown) => Err(unknown.why),
    };
    match told {
        Err(why) => (unknown_part(why.clone()), unknown_part(why.clone()), unknown_part(why)),
        Ok(qos) => {
            let silent = || unknown_part("`mlnx_qos` does not report it");
            let trust = qos.trust.map_or_else(silent, Value::from);
            (qos.dcbx.into(), trust, qos.pfc.map_or_else(silent, Value::from))
        }
    }
}

fn pause_value(parts: &[OutputSection<'_>]) -> Value {
    match find_guarded_output(parts, "ethtool") {
        Ok(Some(ran)) if ran.status == 0 => mlnx_qos::parse_pause(ran.text).map_or_else(
            || unknown_part("`ethtool -a` does not report it"),
            |pause| json!({ "rx": pause.rx, "tx": pause.tx }),
        ),
        Ok(Some(ran)) => unknown_part(format!("`ethtool` failed with status {}", ran.status)),
        Ok(None) => unknown_part("the port has no network interface"),
        Err(unknown) => unknown_part(unknown.why),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::snippet_output::testing::{expand_separators, parse_stdout};

    #[test]
    fn roce_settings_of_a_port_are_parsed() {
        // origin: reconstructed, with the samples of the two commands
        let qos = include_str!("../../tests/samples/mlnx_qos-dscp.txt");
        let ecn: String =
            ["np", "rp"].iter().flat_map(|s| (0..8).map(move |q| format!("{s}{q}\t{}\n", u8::from(q == 3)))).collect();
        let text = expand_separators(&format!(
            "@@port\tmlx5_2\t1\tens9np0\t0000:18:00.0\nmode\tRoCE v2\ntos\t106\nlink\tup\nspeed\t200000\nmtu\t9000\ndscp\t48\nprio\t6\n{ecn}\n@@mlnx_qos\trun\t15\n{qos}\n@@status\t0\n\
             @@ethtool\trun\t5\nPause parameters for ens9np0:\nAutonegotiate:\toff\nRX:\t\toff\nTX:\t\toff\n\n@@status\t0\n"
        ));
        let third = [false, false, false, true, false, false, false, false];
        let expected = json!([{
            "hca": "mlx5_2", "port": 1, "netdev": "ens9np0", "bdf": "0000:18:00.0", "link": "up", "rate": 200, "mtu": 9000, "dcbx": "OS controlled", "trust": "dscp", "pfc": third,
            "ecn": {"np": third, "rp": third}, "cnp_dscp": 48, "cnp_802p": 6, "pause": {"rx": false, "tx": false},
            "cma_mode": "RoCE v2", "cma_tos": 106,
        }]);
        assert_eq!(parse_stdout(&FACT, &text), Ok(expected));
    }

    #[test]
    fn missing_tool_leaves_other_settings_known() {
        let text = expand_separators(
            "@@port\tmlx5_2\t1\tens9np0\nmtu\t9000\n@@mlnx_qos\tmissing\n@@ethtool\trun\t5\n@@status\t124\n",
        );
        let ports = parse_stdout(&FACT, &text).expect("is known");
        assert_eq!((&ports[0]["trust"]["unknown"], &ports[0]["mtu"]), (&json!("`mlnx_qos` is missing"), &json!(9000)));
        assert_eq!(ports[0]["pause"]["unknown"], "`ethtool` timed out after 5 s");
        assert_eq!((&ports[0]["ecn"], &ports[0]["cma_mode"]), (&Value::Null, &Value::Null));
        assert_eq!(parse_stdout(&FACT, ""), Ok(json!([])));
    }

    #[test]
    fn interface_without_link_has_no_rate() {
        // origin: source, the kernel's net/core/net-sysfs.c: -1 is printed as a signed or unsigned number by version
        for speed in ["-1", "4294967295", ""] {
            let text = format!("@@port\tmlx5_2\t1\tens9np0\t0000:18:00.0\nlink\tdown\nspeed\t{speed}\n");
            let port = parse_stdout(&FACT, &expand_separators(&text)).expect("is known")[0].clone();
            assert_eq!((&port["link"], &port["rate"]), (&json!("down"), &Value::Null), "{speed}");
        }
    }
}
