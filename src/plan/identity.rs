//! Hosts whose identity contradicts the inventory: two names for one machine, or a host that reports another host's
//! name.

use super::{HostWarning, ObservedHost};
use crate::config::Project;
use crate::model::{BlockClass, HostName, Value};
use crate::resource::Assessment;
use std::collections::{BTreeMap, BTreeSet};

/// The values that identify a machine: machine id, boot id and hostname. Clones share the first, the containers of one
/// kernel share the second; all three together identify one machine.
type MachineIdentity<'a> = [&'a str; 3];

/// Compares the identity that hosts report with the inventory.
pub(super) struct HostIdentities<'a> {
    project: &'a Project,
    /// Machines that are reached under several names, by each name.
    twins: BTreeMap<&'a HostName, (MachineIdentity<'a>, BTreeSet<&'a HostName>)>,
}

impl<'a> HostIdentities<'a> {
    pub fn new(project: &'a Project, seen: &'a [ObservedHost]) -> Self {
        let mut machines: BTreeMap<MachineIdentity<'a>, BTreeSet<&HostName>> = BTreeMap::new();
        for (machine, seen) in seen.iter().filter_map(|seen| Some((read_machine_identity(seen)?, seen))) {
            machines.entry(machine).or_default().insert(&seen.host);
        }
        let several = machines.into_iter().filter(|(_, names)| names.len() > 1);
        let twins =
            several.flat_map(|(machine, names)| names.clone().into_iter().map(move |n| (n, (machine, names.clone()))));
        Self { project, twins: twins.collect() }
    }

    /// Returns the judgement of every step of a host that is also reached under another name. If forge changed it under
    /// both, it would alternately apply and revert whatever only one name declares.
    pub fn assess_duplicate(&self, host: &HostName) -> Option<Assessment> {
        let ([machine, boot, _], names) = self.twins.get(host)?;
        let others = names.iter().filter(|name| **name != host).map(|name| self.describe_host(name));
        let reason = format!(
            "{} is the same machine as {}: machine id {machine}, boot {boot}",
            self.describe_host(host),
            others.collect::<Vec<_>>().join(", ")
        );
        let hint = "correct the `address` of one of them, or remove one from the inventory";
        Some(Assessment::blocked(BlockClass::Declaration, reason, Value::Null).host_hint(hint))
    }

    fn find_machine(&self, name: &str) -> Option<&'a HostName> {
        let found = self.project.hosts.get_key_value(&HostName::new(name));
        found.map(|(host, _)| host).filter(|host| !host.is_cluster())
    }

    fn describe_host(&self, host: &HostName) -> String {
        let address = self.project.hosts.get(host).map_or("", |host| host.connect.address.as_str());
        match address == host.as_str() || address.is_empty() {
            true => format!("`{host}`"),
            false => format!("`{host}` (`{address}`)"),
        }
    }

    /// Returns a warning if a host may not be the intended one: it reports the name of another host of the inventory. A
    /// hostname that differs from the inventory but belongs to no other host is fine.
    pub fn check_hostname(&self, seen: &ObservedHost) -> Option<HostWarning> {
        let own = fact_text(seen, "identity", "hostname")?;
        let host = seen.host.as_str();
        if host == own || shorten_hostname(host) == shorten_hostname(own) {
            return None;
        }
        let other = self.find_machine(own).or_else(|| self.find_machine(shorten_hostname(own)))?;
        Some(HostWarning {
            why: format!(
                "reports the host name `{own}`, but {} is another host of the inventory",
                self.describe_host(other)
            )
            .into(),
            hint: Some(
                "their `address` values may be swapped; `forge facts` shows the identity that each reports".to_owned(),
            ),
        })
    }
}

fn shorten_hostname(name: &str) -> &str {
    name.split('.').next().unwrap_or(name)
}

fn read_machine_identity(seen: &ObservedHost) -> Option<MachineIdentity<'_>> {
    let all = [
        fact_text(seen, "identity", "machine_id")?,
        fact_text(seen, "boot", "id")?,
        fact_text(seen, "identity", "hostname")?,
    ];
    seen.is_observed().then_some(all)
}

fn fact_text<'a>(seen: &'a ObservedHost, fact: &str, field: &str) -> Option<&'a str> {
    let value = seen.facts.0.get(fact)?.as_ref().ok()?.get(field)?.as_str()?;
    (!value.is_empty()).then_some(value)
}
