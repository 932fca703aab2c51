//! An initial inventory as a value, which `forge init` creates from host names or from an Ansible inventory.

use super::identifier::is_label;
use super::inventory::is_address;
use super::inventory::range::RangePattern;
use super::scalar;
use crate::model::{HostName, Value};
use indexmap::IndexMap;
use std::collections::{BTreeMap, HashSet};

/// Settings of `connect`, by key.
pub type StarterConnect = BTreeMap<&'static str, Value>;

/// Hosts and groups to write to the inventory.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StarterInventory {
    /// The name to write as `cluster`.
    pub cluster: String,
    /// Hosts by name or by pattern.
    pub hosts: IndexMap<String, StarterHost>,
    /// Groups by name. `all` has settings only: it contains every host anyway.
    pub groups: IndexMap<String, StarterGroup>,
}

/// The settings of one host, or of the hosts of one pattern.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StarterHost {
    /// The address, with ranges if the name has ranges.
    pub address: Option<String>,
    /// Connection settings of its own; empty if it has none.
    pub connect: StarterConnect,
    /// Variables of its own, by name.
    pub vars: IndexMap<String, Value>,
}

/// The members and settings of one group.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StarterGroup {
    /// Names or patterns of its hosts.
    pub hosts: Vec<String>,
    /// Names of the groups inside it.
    pub groups: Vec<String>,
    /// Connection settings of its hosts; empty if it has none.
    pub connect: StarterConnect,
    /// Variables of its hosts, by name.
    pub vars: IndexMap<String, Value>,
}

/// Converts `text` to a cluster name: replaces invalid characters with `-`.
pub fn sanitize_cluster_name(text: &str) -> String {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    let name: String = text.chars().map(|c| if fits(c) { c } else { '-' }).collect();
    let name = name.trim_start_matches(['.', '_', '-']).chars().take(128).collect::<String>();
    if name.is_empty() { "cluster".to_owned() } else { name }
}

impl StarterInventory {
    /// Parses host arguments: `gpu01`, `gpu[01:08]`, `admin@gpu01:2222`, `gpu[1:4]=10.0.0.[11:14]`.
    ///
    /// # Errors
    /// Why an argument is invalid, as a lowercase fragment.
    pub fn from_typed_hosts(cluster: String, typed: &[String]) -> Result<Self, String> {
        let mut starting = Self { cluster, ..Self::default() };
        let mut all = HashSet::new();
        for text in typed {
            let (pattern, names, host) = parse_typed_hosts(text).map_err(|why| format!("`{text}`: {why}"))?;
            for name in names {
                if name == HostName::CLUSTER {
                    return Err(format!("host name `{name}` is reserved for the cluster's API"));
                }
                if let Some(name) = all.replace(name) {
                    return Err(format!("host `{name}` is named twice"));
                }
            }
            starting.hosts.insert(pattern, host);
        }
        Ok(starting)
    }

    /// Returns the number of hosts, after ranges are expanded.
    pub fn count_hosts(&self) -> usize {
        let names = |pattern: &String| RangePattern::parse(pattern).map_or(1, |pattern| pattern.expand().len());
        self.hosts.keys().map(names).sum()
    }
}

/// Parses one argument. Returns the names as typed, the expanded names, and the settings of the hosts.
fn parse_typed_hosts(text: &str) -> Result<(String, Vec<String>, StarterHost), String> {
    let (user, rest) = match text.split_once('@') {
        Some((user, _)) if !scalar::is_name(user) => return Err(format!("`{user}` is not a valid user name")),
        Some((user, rest)) => (Some(user), rest),
        None => (None, text),
    };
    let (names, address) = match rest.split_once('=') {
        Some((names, address)) => (names, Some(address)),
        None => (rest, None),
    };
    let (last, port) = split_port(address.unwrap_or(names))?;
    let (names, address) = if address.is_some() { (names, Some(last)) } else { (last, None) };
    let mut connect = StarterConnect::new();
    connect.extend(user.map(|user| ("user", Value::from(user))));
    connect.extend(port.map(|port| ("port", Value::from(port))));
    let all = RangePattern::parse(names)?.expand();
    let addresses = address.map(|text| RangePattern::parse(text).map(|p| p.expand())).transpose()?;
    check_hosts(&all, addresses.as_deref())?;
    Ok((names.to_owned(), all, StarterHost { address: address.map(str::to_owned), connect, vars: IndexMap::new() }))
}

/// Splits `host:22`. A colon inside a range does not start a port, and several colons outside are an IPv6 address.
fn split_port(text: &str) -> Result<(&str, Option<u16>), String> {
    let after_ranges = text.rfind(']').map_or(0, |at| at + 1);
    match text[after_ranges..].split_once(':') {
        None => Ok((text, None)),
        Some((_, port)) if port.contains(':') => Ok((text, None)),
        Some((before, port)) => match port.parse::<u16>() {
            Ok(number) if number > 0 => Ok((&text[..after_ranges + before.len()], Some(number))),
            _ => Err(format!("`{port}` is not a valid port")),
        },
    }
}

fn check_hosts(names: &[String], addresses: Option<&[String]>) -> Result<(), String> {
    if let Some(bad) = names.iter().find(|name| !is_label(name) || *name == "all") {
        return Err(format!("`{bad}` is not a valid host name; write a name and the address: `gpu01={bad}`"));
    }
    let Some(addresses) = addresses else { return Ok(()) };
    if addresses.len() != names.len() {
        return Err(format!("{} hosts but {} addresses", names.len(), addresses.len()));
    }
    match addresses.iter().find(|address| !is_address(address)) {
        Some(bad) => Err(format!("`{bad}` is not a valid address")),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expand_typed_hosts(typed: &[&str]) -> Result<Vec<String>, String> {
        let typed: Vec<String> = typed.iter().map(|text| (*text).to_owned()).collect();
        let starting = StarterInventory::from_typed_hosts("c".into(), &typed)?;
        let show = |(name, host): (&String, &StarterHost)| {
            let connect: Vec<String> = host.connect.iter().map(|(key, value)| format!("{key}={value}")).collect();
            format!("{name} {} {}", host.address.as_deref().unwrap_or("-"), connect.join(" ")).trim_end().to_owned()
        };
        Ok(starting.hosts.iter().map(show).collect())
    }

    #[test]
    fn typed_hosts_are_parsed() {
        assert_eq!(expand_typed_hosts(&["gpu[1:2]", "login"]).unwrap(), ["gpu[1:2] -", "login -"]);
        assert_eq!(expand_typed_hosts(&["admin@gpu1:2222"]).unwrap(), ["gpu1 - port=2222 user=\"admin\""]);
        assert_eq!(expand_typed_hosts(&["gpu[1:2]:22"]).unwrap(), ["gpu[1:2] - port=22"]);
        assert_eq!(expand_typed_hosts(&["g[1:2]=10.0.0.[8:9]"]).unwrap(), ["g[1:2] 10.0.0.[8:9]"]);
        assert_eq!(expand_typed_hosts(&["g1=fe80::1"]).unwrap(), ["g1 fe80::1"]);
    }

    #[test]
    fn invalid_hosts_are_rejected_with_a_reason() {
        let why = |text: &str| expand_typed_hosts(&[text]).unwrap_err();
        assert_eq!(why("a:b"), "`a:b`: `b` is not a valid port");
        assert_eq!(why("a b"), "`a b`: `a b` is not a valid host name; write a name and the address: `gpu01=a b`");
        assert_eq!(why("n[3:1]"), "`n[3:1]`: `[3:1]` runs backwards");
        assert_eq!(why("n[1:3]=10.0.0.[1:2]"), "`n[1:3]=10.0.0.[1:2]`: 3 hosts but 2 addresses");
        assert_eq!(why("-x@a"), "`-x@a`: `-x` is not a valid user name");
        assert_eq!(expand_typed_hosts(&["a", "a"]).unwrap_err(), "host `a` is named twice");
        assert_eq!(expand_typed_hosts(&["a2", "a[1:3]"]).unwrap_err(), "host `a2` is named twice");
    }

    #[test]
    fn any_text_becomes_a_valid_cluster_name() {
        assert_eq!(sanitize_cluster_name("my cluster"), "my-cluster");
        assert_eq!(sanitize_cluster_name("..."), "cluster");
    }
}
