//! Values of an adapter in the programs of a test: `{adapter_address}`, `{own_address}` and `{gid_index}`.

use super::gpu_memory::read_fact;
use super::test_host::TestHost;
use crate::config::{TestPrograms, find_placeholders};
use crate::facts::Facts;
use crate::model::Value;
use std::collections::{BTreeMap, BTreeSet};

/// The address of the server's adapter.
const SERVER_ADDRESS: &str = "adapter_address";
/// The address of the adapter of the host that runs the program.
const OWN_ADDRESS: &str = "own_address";
/// The index of the adapter's RoCE address; -1 on InfiniBand, where programs use local identifiers.
const GID_INDEX: &str = "gid_index";

/// Returns the facts that these values are read from.
pub(super) fn list_value_facts(programs: &TestPrograms) -> Vec<&'static str> {
    let names = list_names(programs.list_programs().into_iter().flatten());
    let has_address = [SERVER_ADDRESS, OWN_ADDRESS].iter().any(|name| names.contains(name));
    if has_address { vec!["rdma", "network"] } else { Vec::new() }
}

/// Returns the values that the program of a host uses, of hosts that are the server and its own; a declared parameter of
/// that name takes precedence.
///
/// # Errors
/// The adapter has no such value, or it is not known: the host and the reason.
pub(super) fn read_adapter_values(
    words: &[String],
    declared: &BTreeMap<String, String>,
    (server, own): (&TestHost<'_>, &TestHost<'_>),
    rail: Option<&str>,
) -> Result<BTreeMap<String, String>, String> {
    let mut values = BTreeMap::new();
    for name in list_names(words.iter()).into_iter().filter(|name| !declared.contains_key(*name)) {
        let host = if name == SERVER_ADDRESS { server } else { own };
        let read = if name == GID_INDEX { read_gid_index } else { read_address };
        let value = rail.ok_or_else(|| "the test names no adapter".to_owned());
        let value = value.and_then(|rail| read(host.facts(), rail)).map_err(|why| format!("{}: {why}", host.name))?;
        values.insert(name.to_owned(), value);
    }
    Ok(values)
}

fn list_names<'w>(words: impl Iterator<Item = &'w String>) -> BTreeSet<&'w str> {
    let is_own = |name: &&str| [SERVER_ADDRESS, OWN_ADDRESS, GID_INDEX].contains(name);
    words.flat_map(|word| find_placeholders(word)).map(|(_, name)| name).filter(is_own).collect()
}

/// Returns the first active port of an adapter, as the rails of a test.
fn find_port<'f>(facts: &'f Facts, rail: &str) -> Result<&'f Value, String> {
    let devices = read_fact(facts, "rdma")?.as_array().map(Vec::as_slice).unwrap_or_default();
    let is_rail = |device: &&Value| device.get("name").and_then(Value::as_str) == Some(rail);
    let device = devices.iter().find(is_rail).ok_or_else(|| format!("adapter `{rail}` not found"))?;
    let ports = device.get("ports").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let active = ports.iter().find(|port| port.get("state").and_then(Value::as_str) == Some("ACTIVE"));
    active.ok_or_else(|| format!("adapter `{rail}` has no active port"))
}

fn read_gid_index(facts: &Facts, rail: &str) -> Result<String, String> {
    let port = find_port(facts, rail)?;
    match port.get("class").and_then(Value::as_str) {
        Some("infiniband") => Ok("-1".to_owned()),
        _ => find_roce_gid(port).map(|(index, _)| index.to_string()).ok_or_else(|| {
            format!("adapter `{rail}` has no RoCE v2 address with an IPv4 address (fact `rdma`, `roce_gid_index`)")
        }),
    }
}

fn read_address(facts: &Facts, rail: &str) -> Result<String, String> {
    let port = find_port(facts, rail)?;
    if let Some((_, address)) = find_roce_gid(port) {
        return Ok(address.to_owned());
    }
    let interfaces = read_fact(facts, "network")?.as_array().map(Vec::as_slice).unwrap_or_default();
    let name = port.get("netdev").and_then(Value::as_str);
    let own = interfaces.iter().find(|one| name.is_some() && one.get("name").and_then(Value::as_str) == name);
    let listed = own.and_then(|own| own.get("addresses")?.as_array()).map(Vec::as_slice).unwrap_or_default();
    let addresses = listed.iter().filter_map(|address| address.as_str()?.split('/').next());
    addresses
        .map(str::to_owned)
        .find(|address| address.parse::<core::net::Ipv4Addr>().is_ok())
        .ok_or_else(|| format!("adapter `{rail}` has no network interface with an IPv4 address"))
}

fn find_roce_gid(port: &Value) -> Option<(u64, &str)> {
    let index = port.get("roce_gid_index")?.as_u64()?;
    let gids = port.get("gids")?.as_array()?;
    let gid = gids.iter().find(|gid| gid.get("index").and_then(Value::as_u64) == Some(index))?;
    Some((index, gid.get("ipv4")?.as_str()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn facts() -> Facts {
        let gids = json!([{ "index": 0, "ipv4": null }, { "index": 3, "type": "RoCE v2", "ipv4": "10.9.0.1" }]);
        let port = |class: &str, netdev: &str, index: Value, gids: Value| json!([{ "state": "ACTIVE", "class": class, "netdev": netdev, "roce_gid_index": index, "gids": gids }]);
        let rdma = json!([
            { "name": "mlx5_0", "ports": port("infiniband", "ibs1", Value::Null, json!([])) },
            { "name": "mlx5_1", "ports": port("roce", "ens1", json!(3), gids) },
            { "name": "mlx5_2", "ports": port("roce", "ens2", Value::Null, json!([])) },
            { "name": "mlx5_3", "ports": port("infiniband", "ibs3", Value::Null, json!([])) },
        ]);
        let network = json!([
            { "name": "ibs1", "addresses": ["fe80::1/64", "10.8.0.1/16"] },
            { "name": "ens2", "addresses": ["fe80::2/64"] },
        ]);
        Facts([("rdma".to_owned(), Ok(rdma)), ("network".to_owned(), Ok(network))].into())
    }

    #[test]
    fn address_is_that_of_the_adapter_and_not_of_the_host() {
        let read = |rail: &str| read_address(&facts(), rail);
        assert_eq!(read("mlx5_0"), Ok("10.8.0.1".to_owned()), "IPoIB");
        assert_eq!(read("mlx5_1"), Ok("10.9.0.1".to_owned()), "RoCE");
        for rail in ["mlx5_2", "mlx5_3"] {
            let why = format!("adapter `{rail}` has no network interface with an IPv4 address");
            assert_eq!(read(rail), Err(why));
        }
        assert_eq!(read("mlx5_9"), Err("adapter `mlx5_9` not found".to_owned()));
    }

    #[test]
    fn infiniband_needs_no_address_and_roce_has_an_index() {
        let read = |rail: &str| read_gid_index(&facts(), rail);
        assert_eq!((read("mlx5_0"), read("mlx5_1")), (Ok("-1".to_owned()), Ok("3".to_owned())));
        assert!(read("mlx5_2").is_err_and(|why| why.starts_with("adapter `mlx5_2` has no RoCE v2 address")));
    }

    #[test]
    fn only_tests_with_addresses_need_more_facts() {
        let needed = |word: &str| list_value_facts(&TestPrograms::Host(vec!["x".into(), word.into()]));
        assert_eq!(needed("{own_address}:{port}"), ["rdma", "network"]);
        assert_eq!(needed("{gid_index}"), [""; 0], "every test reads the fact `rdma`");
    }
}
