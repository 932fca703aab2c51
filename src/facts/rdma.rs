//! `rdma`: RDMA devices, their ports and addresses.

use super::command::port_rate::{self, PortRate};
use super::comparison_rules::{compare_by_key, compare_each};
use super::fact::{Fact, FactShape};
use super::snippet_output::{
    OutputSection, find_section, require_success, split_sections, text_or_null, unknown_part, value_or_unknown,
};
use crate::model::Value;
use crate::probe::{FactSnippet, ProbeOutput, UnansweredReason};
use core::net::Ipv4Addr;
use serde_json::{Value as Json, json};
use std::collections::{BTreeMap, BTreeSet};

/// One `grep` prints every file with its name. An empty slot of the address table cannot be read; this is not an error.
const SNIPPET: &str = r#"[ -d /sys/class ] || { printf '/sys is not mounted\n' >&2; exit 1; }
need grep
cd /sys/class/infiniband 2>/dev/null || exit 0
g= s=
for d in /sys/bus/pci/devices/*; do
[ -e "$d/vendor" ] || continue
read -r v <"$d/vendor"; read -r c <"$d/class"
case $v,$c in 0x10de,0x0680*) s=1 ;; 0x10de,0x0300*|0x10de,0x0302*) g=1 ;; esac
done
for d in *; do
[ -e "$d/node_guid" ] || continue
e= n= b=no
p=$(cd -P "$d/device" 2>/dev/null && pwd)
r=$(cd -P "$d/device/driver" 2>/dev/null && pwd)
[ ! -r "$d/device/device" ] || read -r e <"$d/device/device" || :
[ ! -r "$d/device/numa_node" ] || read -r n <"$d/device/numa_node" || :
c=; [ ! -r "$d/device/class" ] || read -r c <"$d/device/class"
if [ -n "$g" ] && [ -z "$s" ] && [ "$c" != "${c#0x0207}" ] && [ -e "$d/device/vpd" ]; then
grep -aqs SW_MNG "$d/device/vpd"
case $? in 0) b=yes ;; 1) ;; *) b=hidden ;; esac
fi
printf '\036device\t%s\t%s\t%s\t%s\t%s\t%s\n' "$d" "${p##*/}" "$e" "$n" "${r##*/}" "$b"
for i in "$d"/device/net/*; do
[ ! -e "$i" ] || printf '%s\n' "${i##*/}"
[ ! -e "$i/master" ] || { p=$(cd -P "$i/master" && pwd); printf '\t%s\n' "${p##*/}"; }
done
done
printf '\036files\n'
grep -aHs '' */node_guid */fw_ver */board_id */device/current_link_width */device/max_link_width */device/max_link_speed */ports/*/state */ports/*/phys_state */ports/*/rate */ports/*/link_layer \
  */ports/*/lid */ports/*/sm_lid */ports/*/cap_mask */ports/*/gid_attrs/types/* */ports/*/gid_attrs/ndevs/*
grep -aHsv '^0000:0000:0000:0000:0000:0000:0000:0000$' */ports/*/gids/*
:"#;

pub(super) const FACT: Fact = Fact {
    name: "rdma",
    doc: "RDMA devices, a list ordered by PCI address, from `/sys/class/infiniband`. Empty if there are none. Identify a device by \
          address or GUID: names depend on the stack and on probe order. Counters are in `rdma_counters`.",
    shape: FactShape::List,
    fields: &[
        ("bdf", "PCI address, null for a device without one (soft RoCE)"),
        ("name", "current name: `mlx5_0`, `ibp24s0`"),
        ("guid", "node GUID: `c470:bd03:00cf:4964`"),
        ("device", "PCI device id: `0x1021`"),
        ("firmware", "`28.43.1014`"),
        ("psid", "`board_id`: `MT_0000000838`"),
        ("numa", "number of the NUMA node, null if the firmware reports none"),
        ("driver", "`mlx5_core`"),
        ("pcie", "`width` and `max_width` in lanes, `max_speed` (`32.0 GT/s PCIe`), of its slot"),
        ("netdevs", "network interfaces of the same function"),
        (
            "bridge",
            "whether it manages NVSwitches: then it is not an adapter for traffic. Unknown on a host with GPUs if the product data is \
             not readable",
        ),
        (
            "ports",
            "list of `port` (number), `class` (`infiniband` or `roce`, by the link layer alone), `link_layer`, `state` (`ACTIVE`, `INIT`, \
             `DOWN`, `ARMED`), `phys_state` (`LinkUp`, `Polling`), `rate` (Gb/s), `width` (lanes), `speed` (`NDR`) and `lanes` (`full`, \
             `split`, `lost`), which are null on Ethernet and without a link, `lid` and `sm_lid` (0 if no subnet manager configured the port), `is_sm`, `guid`, \
             `netdev`, `gids` (list of `index`, `gid`, `type`, `netdev`, `ipv4`) and `roce_gid_index` (the first RoCE v2 address with an \
             IPv4 address on an interface of the device or a bond of it, null on InfiniBand)",
        ),
    ],
    reads: &[
        "/sys/class/infiniband/*/{node_guid,fw_ver,board_id}",
        "/sys/class/infiniband/*/device (a link to the PCI device)",
        "/sys/class/infiniband/*/device/{class,device,numa_node,driver,vpd,current_link_width,max_link_width,max_link_speed}",
        "/sys/class/infiniband/*/device/net/*",
        "/sys/class/infiniband/*/device/net/*/master (a link to the bond)",
        "/sys/class/infiniband/*/ports/*/{state,phys_state,rate,link_layer,lid,sm_lid,cap_mask}",
        "/sys/class/infiniband/*/ports/*/gids/*",
        "/sys/class/infiniband/*/ports/*/gid_attrs/{types,ndevs}/*",
        "/sys/bus/pci/devices/*/{vendor,class}",
    ],
    alike: &[
        compare_each(
            "",
            "bdf",
            &[
                "name",
                "device",
                "psid",
                "numa",
                "driver",
                "pcie.width",
                "pcie.max_width",
                "pcie.max_speed",
                "bridge",
                "ports.*.class",
                "ports.*.state",
                "ports.*.phys_state",
                "ports.*.rate",
                "ports.*.width",
                "ports.*.speed",
                "ports.*.lanes",
                "ports.*.gids.*.type",
                "ports.*.roce_gid_index",
            ],
        ),
        compare_by_key("", "psid", "firmware"),
    ],
    snippet: FactSnippet { name: "rdma", snippet: SNIPPET, timeout_s: 20, device: true, quick: false, builtin: false },
    parse,
};

/// Files by path relative to `/sys/class/infiniband`.
type SysfsFiles<'a> = BTreeMap<&'a str, &'a str>;

fn parse(output: &ProbeOutput) -> Result<Value, UnansweredReason> {
    let parts = split_sections(require_success(output)?);
    let files = find_section(&parts, "files").map(|part| parse_files(part.body)).unwrap_or_default();
    let devices = parts.iter().filter(|part| part.name() == "device");
    let mut devices: Vec<Json> = devices.map(|part| build_device(part, &files)).collect();
    let key = |device: &Json| (device["bdf"].as_str().map(str::to_owned), device["name"].as_str().map(str::to_owned));
    devices.sort_by_key(key);
    Ok(devices.into())
}

/// Parses lines of path and content, separated by the first colon: no path here contains one.
pub(super) fn parse_files(body: &str) -> SysfsFiles<'_> {
    body.lines().filter_map(|line| line.split_once(':')).map(|(path, value)| (path, value.trim())).collect()
}

fn build_device(part: &OutputSection<'_>, files: &SysfsFiles<'_>) -> Json {
    let name = part.field_at(1);
    let file = |leaf: &str| files.get(format!("{name}/{leaf}").as_str()).copied();
    let bdf = Some(part.field_at(2)).filter(|bdf| bdf.contains(':'));
    let lanes = |leaf: &str| file(leaf).and_then(|text| text.parse::<u64>().ok());
    let ports = list_port_numbers(name, files);
    let netdevs = DeviceInterfaces::from_section(part.body, ports.len());
    json!({
        "bdf": bdf,
        "name": name,
        "guid": text_or_null(file("node_guid")),
        "device": text_or_null(Some(part.field_at(3))),
        "firmware": text_or_null(file("fw_ver")),
        "psid": text_or_null(file("board_id")),
        "numa": part.field_at(4).parse::<i64>().ok().filter(|node| *node >= 0),
        "driver": text_or_null(Some(part.field_at(5))),
        "bridge": match part.field_at(6) {
            "hidden" => unknown_part("its product data cannot be read"),
            word => (word == "yes").into(),
        },
        "pcie": {
            "width": lanes("device/current_link_width"),
            "max_width": lanes("device/max_link_width"),
            "max_speed": text_or_null(file("device/max_link_speed")),
        },
        "ports": ports.into_iter().map(|port| self::build_port(name, port, &netdevs, files)).collect::<Vec<_>>(),
        "netdevs": netdevs.own,
    })
}

/// Network interfaces of a function.
struct DeviceInterfaces<'a> {
    own: Vec<&'a str>,
    /// The bonds that contain its own interfaces.
    masters: Vec<&'a str>,
    /// Whether they belong to a single port: a function with two ports shares its interfaces between both.
    alone: bool,
}

impl<'a> DeviceInterfaces<'a> {
    fn from_section(body: &'a str, ports: usize) -> Self {
        let names = body.lines().filter(|line| !line.is_empty());
        let (masters, own): (Vec<&str>, Vec<&str>) = names.partition(|line| line.starts_with('\t'));
        let masters = masters.into_iter().map(str::trim_start).collect();
        Self { own, masters, alone: ports == 1 }
    }

    fn has_interface(&self, name: &str) -> bool {
        self.own.contains(&name) || self.masters.contains(&name)
    }

    /// Returns the interface of a port, if it is unambiguous.
    fn sole_interface(&self) -> Option<&'a str> {
        self.own.first().copied().filter(|_| self.alone)
    }
}

/// Returns the numbers of a device's ports.
fn list_port_numbers(name: &str, files: &SysfsFiles<'_>) -> BTreeSet<u64> {
    let port = |path: &&str| path.strip_prefix(name)?.strip_prefix("/ports/")?.split('/').next()?.parse().ok();
    files.keys().filter_map(port).collect()
}

/// Returns the class of a port by its link layer, never by the name of its rate.
fn port_class(layer: &str) -> Option<&'static str> {
    match layer {
        "InfiniBand" => Some("infiniband"),
        "Ethernet" => Some("roce"),
        _ => None,
    }
}

fn build_port(name: &str, port: u64, netdevs: &DeviceInterfaces<'_>, files: &SysfsFiles<'_>) -> Json {
    let prefix = format!("{name}/ports/{port}/");
    let file = |leaf: &str| files.get(format!("{prefix}{leaf}").as_str()).copied();
    let missing = |leaf: &str| format!("`{leaf}` of port {port} cannot be read");
    let word = |leaf: &str| {
        value_or_unknown(file(leaf).and_then(|text| text.split_once(": ")).map(|(_, word)| word.trim()), || {
            missing(leaf)
        })
    };
    let hex = |leaf: &str| value_or_unknown(file(leaf).and_then(super::command::parse_number), || missing(leaf));
    let layer = file("link_layer");
    let class = layer.and_then(port_class);
    let rate = file("rate").and_then(port_rate::parse_port_rate);
    let linked = file("phys_state").is_some_and(|state| state.ends_with("LinkUp"));
    // The name of a rate and its width are meaningful only on InfiniBand, and only on a port with a link.
    let lane = rate.as_ref().filter(|_| class == Some("infiniband") && linked);
    let gids = list_gids(&prefix, files);
    let sm = file("cap_mask").and_then(super::command::parse_number).map(|mask| mask & 2 != 0);
    json!({
        "port": port,
        "class": value_or_unknown(class, || layer.map_or_else(|| missing("link_layer"), |layer| format!("its link layer is `{layer}`"))),
        "link_layer": value_or_unknown(layer, || missing("link_layer")),
        "state": word("state"),
        "phys_state": word("phys_state"),
        "rate": value_or_unknown(rate.as_ref().map(|rate| rate.gbps), || missing("rate")),
        "width": lane.and_then(|rate| rate.width),
        "speed": lane.and_then(|rate| rate.speed.as_deref()),
        "lanes": lane.and_then(PortRate::lane_state),
        "lid": hex("lid"),
        "sm_lid": hex("sm_lid"),
        "is_sm": value_or_unknown(sm, || missing("cap_mask")),
        "guid": gids.first().filter(|gid| gid["index"] == 0).and_then(|gid| gid["gid"].as_str()?.get(20..).map(str::to_owned)),
        "netdev": gids.iter().find_map(|gid| gid["netdev"].as_str()).or(netdevs.sole_interface()),
        "roce_gid_index": (class == Some("roce")).then(|| find_roce_index(&gids, netdevs)).flatten(),
        "gids": gids,
    })
}

fn list_gids(prefix: &str, files: &SysfsFiles<'_>) -> Vec<Json> {
    let root = format!("{prefix}gids/");
    let index = |path: &str| path.strip_prefix(root.as_str())?.parse::<u64>().ok();
    let all = files.iter().filter_map(|(path, gid)| Some((index(path)?, *gid)));
    let mut gids: Vec<(u64, &str)> = all.filter(|(_, gid)| gid.contains(|c| c != '0' && c != ':')).collect();
    gids.sort_unstable();
    let attribute = |kind: &str, index: u64| files.get(format!("{prefix}gid_attrs/{kind}/{index}").as_str()).copied();
    let entry = |(index, gid): (u64, &str)| {
        json!({ "index": index, "gid": gid, "type": text_or_null(attribute("types", index)),
                "netdev": text_or_null(attribute("ndevs", index)), "ipv4": gid_to_ipv4(gid) })
    };
    gids.into_iter().map(entry).collect()
}

/// Returns the IPv4 address that a GID encodes.
fn gid_to_ipv4(gid: &str) -> Option<String> {
    let rest = gid.strip_prefix("0000:0000:0000:0000:0000:ffff:")?;
    let bits = u32::from_str_radix(&rest.replace(':', ""), 16).ok()?;
    Some(Ipv4Addr::from(bits).to_string())
}

fn find_roce_index(gids: &[Json], netdevs: &DeviceInterfaces<'_>) -> Option<u64> {
    let fits = |gid: &&Json| {
        gid["type"] == "RoCE v2"
            && gid["ipv4"].is_string()
            && gid["netdev"].as_str().is_some_and(|name| netdevs.has_interface(name))
    };
    gids.iter().find(fits)?["index"].as_u64()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::snippet_output::testing::{expand_separators, expect_unknown, parse_stdout};

    fn parse_host(port: &str) -> Json {
        let text = format!(
            "@@device\tmlx5_0\t0000:18:00.0\t0x1021\t0\tmlx5_core\tno\nibs11\n@@files\n\
             mlx5_0/node_guid:c470:bd03:00cf:4964\nmlx5_0/fw_ver:28.43.1014\nmlx5_0/board_id:MT_0000000838\n\
             mlx5_0/device/current_link_width:16\nmlx5_0/device/max_link_width:16\nmlx5_0/device/max_link_speed:32.0 GT/s PCIe\n{port}"
        );
        parse_stdout(&FACT, &expand_separators(&text)).expect("is known")[0].clone()
    }

    fn files(state: &str, rate: &str, layer: &str, sm_lid: &str) -> String {
        let phys = "5: LinkUp";
        [
            ("state", state),
            ("phys_state", phys),
            ("rate", rate),
            ("link_layer", layer),
            ("lid", "0x1"),
            ("sm_lid", sm_lid),
            ("cap_mask", "0xa751e848"),
        ]
        .map(|(leaf, value)| format!("mlx5_0/ports/1/{leaf}:{value}\n"))
        .concat()
    }

    #[test]
    fn device_is_parsed_with_address_and_guid() {
        // origin: field, a node with ConnectX-7 at NDR; GUID and GID from the sample of `ibstatus`
        let gid = "mlx5_0/ports/1/gids/0:fe80:0000:0000:0000:c470:bd03:00cf:4964\nmlx5_0/ports/1/gids/1:0000:0000:0000:0000:0000:0000:0000:0000\n";
        let device = parse_host(&(files("4: ACTIVE", "400 Gb/sec (4X NDR)", "InfiniBand", "0x7") + gid));
        let expected = json!({
            "bdf": "0000:18:00.0", "name": "mlx5_0", "guid": "c470:bd03:00cf:4964", "device": "0x1021", "firmware": "28.43.1014",
            "psid": "MT_0000000838", "numa": 0, "driver": "mlx5_core", "bridge": false, "netdevs": ["ibs11"],
            "pcie": { "width": 16, "max_width": 16, "max_speed": "32.0 GT/s PCIe" },
            "ports": [{
                "port": 1, "class": "infiniband", "link_layer": "InfiniBand", "state": "ACTIVE", "phys_state": "LinkUp",
                "rate": 400.0, "width": 4, "speed": "NDR", "lanes": "full", "lid": 1, "sm_lid": 7, "is_sm": false,
                "guid": "c470:bd03:00cf:4964", "netdev": "ibs11", "roce_gid_index": null,
                "gids": [{"index": 0, "gid": "fe80:0000:0000:0000:c470:bd03:00cf:4964", "type": null, "netdev": null, "ipv4": null}],
            }],
        });
        assert_eq!(device, expected);
    }

    #[test]
    fn ethernet_port_with_infiniband_rate_is_roce() {
        let gids = "mlx5_0/ports/1/gids/3:0000:0000:0000:0000:0000:ffff:0a00:0e1f\nmlx5_0/ports/1/gids/2:0000:0000:0000:0000:0000:ffff:0a00:0e1f\n\
                    mlx5_0/ports/1/gid_attrs/types/2:IB/RoCE v1\nmlx5_0/ports/1/gid_attrs/types/3:RoCE v2\n\
                    mlx5_0/ports/1/gid_attrs/ndevs/2:ibs11\nmlx5_0/ports/1/gid_attrs/ndevs/3:ibs11\n";
        let device = parse_host(&(files("4: ACTIVE", "200 Gb/sec (4X HDR)", "Ethernet", "0x0") + gids));
        let port = &device["ports"][0];
        assert_eq!((&port["class"], &port["rate"]), (&json!("roce"), &json!(200.0)));
        assert_eq!((&port["speed"], &port["width"], &port["lanes"]), (&Json::Null, &Json::Null, &Json::Null));
        assert_eq!((&port["roce_gid_index"], &port["gids"][1]["ipv4"]), (&json!(3), &json!("10.0.14.31")));
    }

    #[test]
    fn lost_lanes_and_missing_subnet_manager_are_detected() {
        let lost = parse_host(&files("4: ACTIVE", "100 Gb/sec (1X NDR)", "InfiniBand", "0x7"));
        assert_eq!(lost["ports"][0]["lanes"], "lost");
        let down = files("1: DOWN", "2.5 Gb/sec (1X SDR)", "InfiniBand", "0x0").replace("5: LinkUp", "2: Polling");
        assert_eq!(parse_host(&down)["ports"][0]["lanes"], Json::Null, "without a link no lane is lost");
        let init = parse_host(&files("2: INIT", "400 Gb/sec (4X NDR)", "InfiniBand", "0x0"));
        assert_eq!((&init["ports"][0]["state"], &init["ports"][0]["sm_lid"]), (&json!("INIT"), &json!(0)));
    }

    #[test]
    fn unreadable_field_is_unknown_and_others_stay_known() {
        let device = parse_host("mlx5_0/ports/1/link_layer:InfiniBand\n");
        assert_eq!(device["ports"][0]["state"]["unknown"], "`state` of port 1 cannot be read");
        assert_eq!(device["ports"][0]["class"], "infiniband");
        let odd = parse_host("mlx5_0/ports/1/link_layer:Unspecified\n");
        assert_eq!(odd["ports"][0]["class"]["unknown"], "its link layer is `Unspecified`");
        let hidden = expand_separators("@@device\tmlx5_0\t0000:18:00.0\t0x1021\t0\tmlx5_core\thidden\n@@files\n");
        assert_eq!(
            parse_stdout(&FACT, &hidden).expect("is known")[0]["bridge"]["unknown"],
            "its product data cannot be read"
        );
    }

    #[test]
    fn port_without_guid_and_interface_reports_null() {
        let two = "mlx5_0/ports/1/state:4: ACTIVE\nmlx5_0/ports/1/gids/3:0000:0000:0000:0000:0000:ffff:0a00:0e1f\nmlx5_0/ports/2/state:1: DOWN\n";
        let device = parse_host(two);
        assert_eq!((&device["ports"][0]["guid"], &device["ports"][0]["netdev"]), (&Json::Null, &Json::Null));
        assert_eq!(device["ports"].as_array().map(Vec::len), Some(2));
    }

    #[test]
    fn host_without_rdma_devices_has_an_empty_list() {
        assert_eq!(parse_stdout(&FACT, ""), Ok(json!([])));
        assert_eq!(expect_unknown(&FACT, 1, ""), "its snippet failed with status 1");
    }
}
