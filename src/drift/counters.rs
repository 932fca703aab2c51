//! Hardware counters, which are compared within one boot only.

use crate::model::HostName;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Version of the file.
const COUNTERS_VERSION: u32 = 1;

/// Values by part and counter.
pub type CounterValues = BTreeMap<(String, String), u64>;
/// The increase of each counter, and since when (RFC 3339, UTC).
pub type CounterGrowth = BTreeMap<(String, String), (u64, String)>;

/// The last counter values of hosts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HardwareCounters {
    /// Format version of the file; 0 in a file without one, which counts as empty.
    #[serde(default)]
    pub version: u32,
    /// The counters of each host when it was last read.
    pub hosts: BTreeMap<HostName, HostCounters>,
}

/// The counter values of one host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HostCounters {
    /// The boot ID: counters restart at boot.
    pub boot: String,
    /// RFC 3339, UTC.
    pub time: String,
    /// By part, then by name.
    pub parts: BTreeMap<String, BTreeMap<String, u64>>,
}

impl HardwareCounters {
    /// Parses the file of an earlier run. An invalid file counts as empty: then there are no increases.
    pub fn parse(text: &str) -> Self {
        let read: Option<Self> = serde_json::from_str(text).ok();
        read.filter(|counters| counters.version == COUNTERS_VERSION).unwrap_or_default()
    }

    /// Stores the current values of a host, and returns the increases. There are none if the host was rebooted since,
    /// or a counter was reset.
    pub fn update_host(&mut self, host: &HostName, boot: &str, time: &str, now: &CounterValues) -> CounterGrowth {
        self.version = COUNTERS_VERSION;
        let mut parts: BTreeMap<String, BTreeMap<String, u64>> = BTreeMap::new();
        for ((part, name), value) in now {
            parts.entry(part.clone()).or_default().insert(name.clone(), *value);
        }
        let read = HostCounters { boot: boot.to_owned(), time: time.to_owned(), parts };
        match self.hosts.insert(host.clone(), read) {
            Some(before) if before.boot == boot => compute_growth(&before, now),
            _ => CounterGrowth::new(),
        }
    }
}

fn compute_growth(before: &HostCounters, now: &CounterValues) -> CounterGrowth {
    let since = |key: &(String, String)| before.parts.get(&key.0)?.get(&key.1).copied();
    let rose = |(key, value): (&(String, String), &u64)| {
        let grown = value.checked_sub(since(key)?).filter(|grown| *grown > 0)?;
        Some((key.clone(), (grown, before.time.clone())))
    };
    now.iter().filter_map(rose).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ports(value: u64) -> CounterValues {
        CounterValues::from([(("mlx5_0/1".to_owned(), "link_downed".to_owned()), value)])
    }

    #[test]
    fn counter_growth_is_reported_only_within_one_boot() {
        // boot and value before, boot and value now, increase
        let table = [
            (("a", 3), ("a", 3), None),
            (("a", 3), ("a", 5), Some(2)),
            // The host was rebooted: the counter restarted at zero.
            (("a", 3), ("b", 5), None),
            // The counter was reset.
            (("a", 3), ("a", 1), None),
        ];
        for ((boot, value), (later, now), expected) in table {
            let (host, mut counters) = (HostName::new("h"), HardwareCounters::default());
            assert_eq!(
                counters.update_host(&host, boot, "t1", &ports(value)),
                CounterGrowth::new(),
                "the first read has no increase"
            );
            let grown = counters.update_host(&host, later, "t2", &ports(now));
            let found = grown.into_values().next();
            assert_eq!(found, expected.map(|grown| (grown, "t1".to_owned())), "{boot} {value} {later} {now}");
        }
    }

    #[test]
    fn new_port_reports_no_counter_growth() {
        let (host, mut counters) = (HostName::new("h"), HardwareCounters::default());
        counters.update_host(&host, "a", "t1", &CounterValues::new());
        assert_eq!(counters.update_host(&host, "a", "t2", &ports(9)), CounterGrowth::new());
    }

    #[test]
    fn counters_round_trip_and_corrupt_files_parse_as_empty() {
        let mut counters = HardwareCounters::default();
        counters.update_host(&HostName::new("h"), "a", "t1", &ports(4));
        assert_eq!(HardwareCounters::parse(&serde_json::to_string(&counters).unwrap()), counters);
        assert_eq!(HardwareCounters::parse("{\"version\": 1, \"ho"), HardwareCounters::default());
        assert_eq!(HardwareCounters::parse("{\"version\": 2, \"hosts\": {}}"), HardwareCounters::default());
    }
}
