//! The state of a host that the result of an acceptance test rests on, read from its facts, and what moved since.

use super::verdict::format_number;
use crate::facts::Facts;
use crate::model::{UntrustedText, Value};
use crate::probe::UnansweredReason;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// Something that a result rests on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum BasisSource {
    /// The release of the running kernel.
    Kernel,
    /// The NVIDIA driver: the loaded module and the library.
    Driver,
    /// The GPUs: which they are, and their firmware.
    Gpus,
    /// The RDMA stack.
    Ofed,
    /// The RDMA adapters: which they are, their firmware, and the rate of each port.
    Adapters,
    /// The versions of packages that the test names.
    Packages,
}

impl BasisSource {
    /// Those that a test can name as a whole.
    pub const NAMED: [Self; 5] = [Self::Kernel, Self::Driver, Self::Gpus, Self::Ofed, Self::Adapters];

    /// Returns the name in files of tests.
    pub fn name(self) -> &'static str {
        match self {
            Self::Kernel => "kernel",
            Self::Driver => "driver",
            Self::Gpus => "gpus",
            Self::Ofed => "ofed",
            Self::Adapters => "adapters",
            Self::Packages => "packages",
        }
    }

    /// Returns the fact that shows it.
    pub fn fact_name(self) -> &'static str {
        match self {
            Self::Adapters => "rdma",
            other => other.name(),
        }
    }
}

/// What the results of a test rest on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct DeclaredBasis {
    /// What is read from the host.
    pub sources: BTreeSet<BasisSource>,
    /// The packages, if [`BasisSource::Packages`] is among the sources.
    pub packages: BTreeSet<String>,
}

impl DeclaredBasis {
    /// Returns the names of the facts that show it.
    pub fn fact_names(&self) -> impl Iterator<Item = &'static str> {
        self.sources.iter().map(|source| source.fact_name())
    }
}

/// The values of a source by what they are about: `firmware of adapter 0000:18:00.0`. `None` if one could not be read.
type LabelledValues = BTreeMap<String, Option<UntrustedText>>;

/// The values of a host that a result rests on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ProofBasis(BTreeMap<BasisSource, LabelledValues>);

/// What a host shows now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ObservedBasis {
    /// The values of the sources that were read.
    pub basis: ProofBasis,
    /// Sources that could not be read, with the reasons.
    unread: BTreeMap<BasisSource, String>,
}

impl ObservedBasis {
    /// Reads what is declared from the facts of a host.
    pub fn read(declared: &DeclaredBasis, facts: &Facts) -> Self {
        let mut seen = Self::default();
        for source in &declared.sources {
            match facts.0.get(source.fact_name()) {
                Some(Ok(value)) => {
                    seen.basis.0.insert(*source, read_source(*source, value, &declared.packages));
                }
                Some(Err(why)) => drop(seen.unread.insert(*source, describe_unread(*source, why))),
                None => drop(seen.unread.insert(*source, format!("`{}` was not read", source.fact_name()))),
            }
        }
        seen
    }
}

fn describe_unread(source: BasisSource, why: &UnansweredReason) -> String {
    format!("`{}` could not be read: {}", source.fact_name(), why.why)
}

/// What moved since a result, and what could not be compared.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BasisComparison {
    /// `driver 560.35.03 -> 565.57.01`.
    pub moved: Vec<String>,
    /// Why something could not be compared.
    pub unread: Vec<String>,
}

impl ProofBasis {
    /// Compares what a result rested on with what the host shows now. What was unknown then cannot have moved.
    pub fn compare_with(&self, now: &ObservedBasis) -> BasisComparison {
        let mut comparison = BasisComparison::default();
        for (source, before) in &self.0 {
            match (now.basis.0.get(source), now.unread.get(source)) {
                (Some(after), _) => compare_values(before, after, &mut comparison),
                (None, Some(why)) => comparison.unread.push(why.clone()),
                (None, None) => {}
            }
        }
        comparison
    }
}

fn compare_values(before: &LabelledValues, after: &LabelledValues, comparison: &mut BasisComparison) {
    let labels: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
    for label in labels {
        // A part that is not listed is not there.
        let of = |values: &LabelledValues| values.get(label).cloned().unwrap_or_else(|| Some(NOTHING.into()));
        match (of(before), of(after)) {
            (Some(before), Some(after)) if before != after => {
                comparison.moved.push(format!("{label} {} -> {}", before.raw(), after.raw()));
            }
            (Some(_), None) => comparison.unread.push(format!("{label} could not be read")),
            _ => {}
        }
    }
}

const NOTHING: &str = "none";

fn read_source(source: BasisSource, fact: &Value, packages: &BTreeSet<String>) -> LabelledValues {
    match source {
        BasisSource::Kernel => read_fields(fact, &[("kernel", "release")], ""),
        BasisSource::Driver => {
            read_fields(fact, &[("driver", "loaded"), ("driver flavor", "flavor"), ("driver library", "userspace")], "")
        }
        BasisSource::Ofed => read_fields(fact, &[("OFED", "version"), ("mlx5_core", "loaded_version")], ""),
        BasisSource::Gpus => {
            read_parts(fact, |gpu, place| read_fields(gpu, &[("GPU", "uuid"), ("VBIOS of GPU", "vbios")], place))
        }
        BasisSource::Adapters => read_parts(fact, read_adapter),
        BasisSource::Packages => packages
            .iter()
            .map(|name| {
                (format!("package {name}"), read_text(fact.pointer("/installed").and_then(|map| map.get(name))))
            })
            .collect(),
    }
}

/// Reads fields of a fact under their labels. `place` is the part of the host that they belong to.
fn read_fields(fact: &Value, fields: &[(&str, &str)], place: &str) -> LabelledValues {
    let label = |label: &str| if place.is_empty() { label.to_owned() } else { format!("{label} {place}") };
    fields.iter().map(|(name, field)| (label(name), read_text(fact.get(field)))).collect()
}

/// Reads every entry of a list. Names of devices depend on the stack and the order of probing, and slots do not.
fn read_parts(fact: &Value, read: impl Fn(&Value, &str) -> LabelledValues) -> LabelledValues {
    let parts = fact.as_array().map(Vec::as_slice).unwrap_or_default();
    let place = |part: &Value| ["bdf", "name"].iter().find_map(|key| Some(part.get(key)?.as_str()?.to_owned()));
    parts.iter().filter_map(|part| Some(read(part, &place(part)?))).flatten().collect()
}

/// Adapters that manage NVSwitches carry no traffic.
fn read_adapter(device: &Value, place: &str) -> LabelledValues {
    if device.get("bridge").and_then(Value::as_bool) == Some(true) {
        return LabelledValues::new();
    }
    let mut values = read_fields(device, &[("adapter", "guid"), ("firmware of adapter", "firmware")], place);
    let ports = device.get("ports").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    for port in ports {
        let number = read_text(port.get("port")).unwrap_or_default();
        values.insert(format!("rate of adapter {place} port {}", number.raw()), read_text(port.get("rate")));
    }
    values
}

/// Returns a value as text, `none` if there is none, and `None` if it could not be read.
fn read_text(value: Option<&Value>) -> Option<UntrustedText> {
    match value {
        None | Some(Value::Null) => Some(NOTHING.into()),
        Some(Value::String(text)) => Some(text.as_str().into()),
        Some(Value::Number(number)) => number.as_f64().map(|number| format_number(number).into()),
        Some(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn facts_of(entries: &[(&str, Value)]) -> Facts {
        Facts(entries.iter().map(|(name, value)| ((*name).to_owned(), Ok(value.clone()))).collect())
    }

    fn declared(sources: &[BasisSource], packages: &[&str]) -> DeclaredBasis {
        DeclaredBasis {
            sources: sources.iter().copied().collect(),
            packages: packages.iter().map(|name| (*name).to_owned()).collect(),
        }
    }

    fn host_facts() -> Vec<(&'static str, Value)> {
        vec![
            ("kernel", json!({"release": "5.15.0-130-generic"})),
            ("driver", json!({"loaded": "560.35.03", "flavor": "open", "userspace": "560.35.03"})),
            ("gpus", json!([{"bdf": "0000:17:00.0", "uuid": "GPU-1", "vbios": "96.00.89.00.01"}])),
            ("ofed", json!({"version": "24.10-0.7.0.0", "loaded_version": "24.10-0.7.0"})),
            (
                "rdma",
                json!([
                    {"bdf": "0000:18:00.0", "name": "mlx5_0", "guid": "c470:bd03:00cf:4964", "firmware": "28.39.1002",
                     "bridge": false, "ports": [{"port": 1, "rate": 400.0}]},
                    {"bdf": "0000:05:00.0", "name": "mlx5_9", "guid": "1", "firmware": "2", "bridge": true, "ports": []},
                ]),
            ),
            ("packages", json!({"manager": "apt", "installed": {"libnccl2": "2.21.5-1+cuda12.4"}})),
        ]
    }

    /// Every row: the fact, the place in it, its new value, and what moved.
    #[test]
    fn moved_part_is_named_with_both_values() {
        let all =
            declared(&[BasisSource::NAMED.as_slice(), &[BasisSource::Packages]].concat(), &["libnccl2", "nccl-tests"]);
        let before = ObservedBasis::read(&all, &facts_of(&host_facts())).basis;
        let rows: [(&str, &str, Value, &[&str]); 12] = [
            ("kernel", "/release", json!("6.8.0-1"), &["kernel 5.15.0-130-generic -> 6.8.0-1"]),
            ("driver", "/loaded", json!("565.57.01"), &["driver 560.35.03 -> 565.57.01"]),
            ("driver", "/loaded", Value::Null, &["driver 560.35.03 -> none"]),
            ("driver", "/flavor", json!("proprietary"), &["driver flavor open -> proprietary"]),
            ("driver", "/userspace", json!("565.57.01"), &["driver library 560.35.03 -> 565.57.01"]),
            ("gpus", "/0/uuid", json!("GPU-2"), &["GPU 0000:17:00.0 GPU-1 -> GPU-2"]),
            ("ofed", "/version", json!("25.01-0.6.0.0"), &["OFED 24.10-0.7.0.0 -> 25.01-0.6.0.0"]),
            (
                "rdma",
                "/0/firmware",
                json!("28.43.1014"),
                &["firmware of adapter 0000:18:00.0 28.39.1002 -> 28.43.1014"],
            ),
            ("rdma", "/0/ports/0/rate", json!(200.0), &["rate of adapter 0000:18:00.0 port 1 400 -> 200"]),
            ("rdma", "/0/name", json!("ibp24s0"), &[]),
            ("rdma", "/1/guid", json!("7"), &[]),
            ("packages", "/installed/libnccl2", json!("2.23.4-1"), &["package libnccl2 2.21.5-1+cuda12.4 -> 2.23.4-1"]),
        ];
        for (fact, place, value, expected) in rows {
            let mut facts = host_facts();
            let of = facts.iter_mut().find(|(name, _)| *name == fact).unwrap();
            *of.1.pointer_mut(place).unwrap() = value;
            let found = before.compare_with(&ObservedBasis::read(&all, &facts_of(&facts)));
            assert_eq!(found.moved, expected, "{fact}{place}");
            assert_eq!(found.unread, Vec::<String>::new());
        }
    }

    #[test]
    fn replaced_and_missing_adapters_have_moved() {
        let adapters = declared(&[BasisSource::Adapters], &[]);
        let before = ObservedBasis::read(&adapters, &facts_of(&host_facts())).basis;
        let now =
            |value: Value| before.compare_with(&ObservedBasis::read(&adapters, &facts_of(&[("rdma", value)]))).moved;
        assert_eq!(
            now(json!([])),
            [
                "adapter 0000:18:00.0 c470:bd03:00cf:4964 -> none",
                "firmware of adapter 0000:18:00.0 28.39.1002 -> none",
                "rate of adapter 0000:18:00.0 port 1 400 -> none",
            ]
        );
        let other = json!([{"bdf": "0000:18:00.0", "guid": "a", "firmware": "28.39.1002", "ports": [{"port": 1, "rate": 400}]}]);
        assert_eq!(now(other), ["adapter 0000:18:00.0 c470:bd03:00cf:4964 -> a"]);
    }

    #[test]
    fn unread_value_neither_moved_nor_stayed() {
        let all = declared(&[BasisSource::Kernel, BasisSource::Driver], &[]);
        let before = ObservedBasis::read(&all, &facts_of(&host_facts())).basis;
        let mut facts = facts_of(&host_facts());
        facts.0.insert("driver", Err(UnansweredReason::new("its snippet failed with status 1")));
        let failed = before.compare_with(&ObservedBasis::read(&all, &facts));
        assert_eq!(failed.unread, ["`driver` could not be read: its snippet failed with status 1"]);
        let part = json!({"loaded": {"unknown": "odd"}, "flavor": "open", "userspace": "560.35.03"});
        facts.0.insert("driver", Ok(part));
        let now = ObservedBasis::read(&all, &facts);
        let partly = before.compare_with(&now);
        assert_eq!((partly.moved.len(), partly.unread), (0, vec!["driver could not be read".to_owned()]));
        // What was unknown at the test has no value that could move.
        let later = now.basis.compare_with(&ObservedBasis::read(&all, &facts_of(&host_facts())));
        assert_eq!(later, BasisComparison::default());
    }
}
