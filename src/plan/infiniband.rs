//! InfiniBand ports that have a link but no subnet manager. Whether the cause is the fabric or the host shows only in
//! the comparison of all hosts.

use super::ObservedHost;
use super::model::{HostPlan, HostWarning};
use crate::facts::Facts;
use crate::model::Value;

const START_MANAGER_HINT: &str =
    "start one: on the managed switch, in UFM, or `opensm` on the hosts that `subnet-manager` names";
const CHECK_CABLE_HINT: &str = "check the cable and the switch port, swap one with those of an ACTIVE port; a port on a separate fabric needs \
                         a subnet manager on that fabric";
const MORE_HOSTS_HINT: &str = "observe other hosts of the fabric too: run without `--on`";

/// Adds a warning to the plan of each host with such ports.
pub(super) fn add_port_warnings(seen: &[ObservedHost], plans: &mut [HostPlan]) {
    let hosts: Vec<InfinibandPorts> = seen.iter().map(|seen| InfinibandPorts::from_facts(&seen.facts)).collect();
    for (plan, own) in plans.iter_mut().zip(&hosts) {
        plan.warnings.extend(explain_silent_ports(own, &hosts));
    }
}

/// The InfiniBand ports of a host that carry traffic.
#[derive(Default)]
struct InfinibandPorts {
    active: usize,
    /// Ports with a link but no subnet manager: `mlx5_0/1`.
    deaf: Vec<String>,
}

impl InfinibandPorts {
    fn from_facts(facts: &Facts) -> Self {
        let mut ports = Self::default();
        let devices = facts.0.get("rdma").and_then(|fact| fact.as_ref().ok()).and_then(Value::as_array);
        for device in devices.into_iter().flatten().filter(|device| device["bridge"] != true) {
            let name = device["name"].as_str().unwrap_or_default();
            for port in device["ports"].as_array().into_iter().flatten().filter(|port| port["class"] == "infiniband") {
                match (port["state"].as_str(), port["sm_lid"].as_u64()) {
                    (Some("ACTIVE"), _) => ports.active += 1,
                    (Some("INIT"), Some(0)) if port["phys_state"] == "LinkUp" => {
                        ports.deaf.push(format!("{name}/{}", port["port"]));
                    }
                    _ => {}
                }
            }
        }
        ports
    }
}

/// Distinguishes a fabric without a subnet manager from a single faulty port.
fn explain_silent_ports(own: &InfinibandPorts, all: &[InfinibandPorts]) -> Option<HostWarning> {
    if own.deaf.is_empty() {
        return None;
    }
    let active: usize = all.iter().map(|ports| ports.active).sum();
    let others = all.iter().filter(|ports| ports.active > 0).count();
    let deaf = all.iter().filter(|ports| !ports.deaf.is_empty()).count();
    let (why, hint) = match (active, deaf) {
        (0, 1) => (
            format!(
                "{} a link but no subnet manager; one host cannot show whether the fabric has one",
                format_port_names(own)
            ),
            MORE_HOSTS_HINT,
        ),
        (0, deaf) => (
            format!("no InfiniBand port of the {deaf} hosts has a subnet manager: the fabric has none"),
            START_MANAGER_HINT,
        ),
        (active, _) => (
            format!(
                "{} a link but no subnet manager, while {active} {} of {others} {} {} one: suspect the port or cable of this host",
                format_port_names(own),
                if active == 1 { "port" } else { "ports" },
                if others == 1 { "host" } else { "hosts" },
                if active == 1 { "has" } else { "have" },
            ),
            CHECK_CABLE_HINT,
        ),
    };
    Some(HostWarning { why: why.into(), hint: Some(hint.to_owned()) })
}

/// `mlx5_0/1 has`, `mlx5_0/1, mlx5_1/1 have`.
fn format_port_names(own: &InfinibandPorts) -> String {
    let names: Vec<String> = own.deaf.iter().map(|name| format!("`{name}`")).collect();
    format!("{} {}", names.join(", "), if names.len() == 1 { "has" } else { "have" })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// State and subnet manager of each port of each host.
    type Hosts<'h> = &'h [&'h [(&'h str, u64)]];

    const DEAF: (&str, u64) = ("INIT", 0);
    const ACTIVE: (&str, u64) = ("ACTIVE", 7);

    fn host(ports: &[(&str, u64)]) -> InfinibandPorts {
        let port = |(state, sm): &(&str, u64)| json!([{ "port": 1, "class": "infiniband", "state": state, "phys_state": "LinkUp", "sm_lid": sm }]);
        let device = |(n, told)| json!({ "name": format!("mlx5_{n}"), "bridge": false, "ports": port(told) });
        let mut devices: Vec<Value> = ports.iter().enumerate().map(device).collect();
        // None of these is evidence about the fabric: no InfiniBand, no traffic, no link.
        let other = |bridge: bool, class: &str, phys: &str| {
            json!({ "name": "x", "bridge": bridge, "ports": [
            { "port": 1, "class": class, "state": "INIT", "phys_state": phys, "sm_lid": 0 }] })
        };
        devices.extend([
            other(false, "roce", "LinkUp"),
            other(true, "infiniband", "LinkUp"),
            other(false, "infiniband", "Polling"),
        ]);
        InfinibandPorts::from_facts(&Facts([("rdma".to_owned(), Ok(devices.into()))].into()))
    }

    /// Returns the warning about the first host.
    fn told(hosts: &[&[(&str, u64)]]) -> Option<(String, String)> {
        let hosts: Vec<InfinibandPorts> = hosts.iter().map(|ports| host(ports)).collect();
        explain_silent_ports(&hosts[0], &hosts).map(|told| (told.why.raw().to_owned(), told.hint.unwrap_or_default()))
    }

    #[test]
    fn missing_subnet_manager_is_blamed_on_fabric_or_port() {
        let said = |why: &str, hint: &str| Some((why.to_owned(), hint.to_owned()));
        let fabric = "no InfiniBand port of the 2 hosts has a subnet manager: the fabric has none";
        let port = "`mlx5_1/1` has a link but no subnet manager, while 3 ports of 2 hosts have one: suspect the port or cable of this host";
        let own = "`mlx5_1/1` has a link but no subnet manager, while 1 port of 1 host has one: suspect the port or cable of this host";
        let rail = "`mlx5_0/1`, `mlx5_1/1` have a link but no subnet manager, while 2 ports of 1 host have one: suspect the port or cable of this host";
        let alone = "`mlx5_0/1` has a link but no subnet manager; one host cannot show whether the fabric has one";
        let table: [(Hosts<'_>, _); 8] = [
            (&[&[ACTIVE, ACTIVE], &[ACTIVE, ACTIVE]], None),
            (&[&[], &[]], None),
            (&[&[ACTIVE, ACTIVE], &[ACTIVE, DEAF]], None),
            (&[&[DEAF, DEAF], &[DEAF, DEAF]], said(fabric, START_MANAGER_HINT)),
            (&[&[ACTIVE, DEAF], &[ACTIVE, ACTIVE]], said(port, CHECK_CABLE_HINT)),
            (&[&[ACTIVE, DEAF]], said(own, CHECK_CABLE_HINT)),
            (&[&[DEAF, DEAF], &[ACTIVE, ACTIVE]], said(rail, CHECK_CABLE_HINT)),
            (&[&[DEAF]], said(alone, MORE_HOSTS_HINT)),
        ];
        for (hosts, expected) in table {
            assert_eq!(told(hosts), expected, "{hosts:?}");
        }
    }
}
