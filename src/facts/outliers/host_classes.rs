//! Groups similar hosts into classes.

use super::report::{HostClass, MIN_CLASS_SIZE, OutlierCandidate, UnknownHostFact};
use crate::facts::unknown_part::unknown_reason;
use crate::model::{UntrustedText, Value};
use indexmap::IndexMap;
use std::collections::BTreeSet;

/// Hosts by class.
pub struct HostClasses<'c, 'a> {
    /// Classes with enough hosts.
    pub classes: Vec<(HostClass, Vec<&'c OutlierCandidate<'a>>)>,
    pub alone: Vec<HostClass>,
    /// Hosts whose hardware is unknown.
    pub unknown: Vec<UnknownHostFact>,
}

/// Sorts hosts into classes, in the order of their first hosts.
pub fn classify_hosts<'c, 'a>(hosts: &'c [OutlierCandidate<'a>]) -> HostClasses<'c, 'a> {
    let mut alike: IndexMap<(String, &str), Vec<&OutlierCandidate<'_>>> = IndexMap::new();
    let mut unknown: IndexMap<(String, String), UnknownHostFact> = IndexMap::new();
    for host in hosts {
        match describe_hardware(host) {
            Ok(hardware) => alike.entry((hardware, &host.declared)).or_default().push(host),
            Err((path, why)) => {
                let untold =
                    UnknownHostFact { class: None, path: path.into(), why: why.as_str().into(), hosts: Vec::new() };
                unknown.entry((path.to_owned(), why)).or_insert(untold).hosts.push(host.host.clone());
            }
        }
    }
    let (enough, few): (Vec<_>, Vec<_>) = alike.into_iter().partition(|(_, members)| members.len() >= MIN_CLASS_SIZE);
    let named =
        |((hardware, _), members): &((String, &str), Vec<&OutlierCandidate<'_>>)| build_class(hardware, members);
    HostClasses {
        alone: few.iter().map(named).collect(),
        classes: enough.into_iter().map(|entry| (named(&entry), entry.1)).collect(),
        unknown: unknown.into_values().collect(),
    }
}

fn build_class(hardware: &str, members: &[&OutlierCandidate<'_>]) -> HostClass {
    let shared = |group: &&String| members.iter().all(|member| member.groups.contains(group));
    let groups = members.first().map(|first| first.groups.iter().filter(shared).cloned().collect());
    HostClass {
        hardware: UntrustedText::new(hardware),
        groups: groups.unwrap_or_default(),
        hosts: members.iter().map(|member| member.host.clone()).collect(),
    }
}

/// Returns the hardware of a host: its make, and its GPU models. The number of GPUs is compared but not part of the
/// class: a host that lost one is still similar to the others.
fn describe_hardware(host: &OutlierCandidate<'_>) -> Result<String, (&'static str, String)> {
    let fact = |name: &'static str| match host.facts.0.get(name) {
        Some(Ok(value)) => Ok(value),
        Some(Err(unknown)) => Err((name, unknown.why.clone())),
        None => Err((name, "was not observed".to_owned())),
    };
    let (machine, gpus) = (fact("machine")?, fact("gpus")?);
    let make = ["vendor", "product", "board"].iter().filter_map(|field| machine[*field].as_str());
    let models: BTreeSet<String> = gpus.as_array().into_iter().flatten().map(gpu_model_name).collect();
    let parts: Vec<String> = make.map(str::to_owned).chain(models).collect();
    Ok(if parts.is_empty() { "unnamed hardware".to_owned() } else { parts.join(", ") })
}

/// Returns the model of a GPU by its device id, which is known even without a driver.
fn gpu_model_name(gpu: &Value) -> String {
    match &gpu["product"] {
        Value::String(product) => product.clone(),
        product => match (unknown_reason(product), gpu["device"].as_str()) {
            (_, Some(device)) => format!("GPU {device}"),
            _ => "GPU".to_owned(),
        },
    }
}
