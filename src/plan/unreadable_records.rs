//! Records of a host that cannot be read: a full disk or an edit left half a file. What only they list is not compared.

use super::model::HostWarning;
use super::observed_host::ObservedHost;
use crate::model::{UntrustedText, record_file_prefix};
use crate::probe::{Probe, ProbeReading};
use serde_json::Value;

/// The folder of the records.
const FOLDER: &str = "/var/lib/forge/applied";
/// How many files a warning names.
const MAX_NAMED: usize = 3;

/// Returns the names of the record files of a cluster that are not JSON objects, or do not name their step.
pub fn list_unreadable_records<'s>(seen: &'s ObservedHost, cluster: &str) -> Vec<&'s str> {
    let Ok(ProbeReading::Records(state)) = seen.observation.get(&Probe::Records) else { return Vec::new() };
    let listed: usize = seen.records.values().map(Vec::len).sum();
    if listed == state.records.len() {
        return Vec::new();
    }
    let prefix = record_file_prefix(cluster);
    let own = state.records.iter().filter_map(|(file, text)| Some((file, file.strip_prefix(&prefix)?, text)));
    // Findings and passed tests are stored next to the records, under names that no step has.
    let is_record = |step: &str, value: &Value| step.starts_with('@') || value.get("step").is_some();
    let is_readable = |step: &str, text: &UntrustedText| {
        serde_json::from_str::<Value>(text.raw()).is_ok_and(|value| value.is_object() && is_record(step, &value))
    };
    own.filter(|(_, step, text)| !is_readable(step, text)).map(|(file, ..)| file.as_str()).collect()
}

/// Warns of records that cannot be read.
pub(super) fn warn_unreadable_records(seen: &ObservedHost, cluster: &str) -> Option<HostWarning> {
    let files = list_unreadable_records(seen, cluster);
    let mut named: Vec<String> = files.iter().take(MAX_NAMED).map(|file| format!("`{FOLDER}/{file}`")).collect();
    let rest = files.len().saturating_sub(MAX_NAMED);
    if rest > 0 {
        named.push(format!("{rest} more"));
    }
    let (one, them) = if files.len() == 1 { ("is", "it") } else { ("are", "them") };
    let why = format!("{} {one} not readable as a record: what only {them} lists is not compared", named.join(", "));
    (!files.is_empty()).then(|| HostWarning {
        why: why.into(),
        hint: Some(format!("delete {them}: an apply writes the records of declared steps again")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::HostName;
    use crate::probe::{Observation, RecordsState};

    fn observe(records: &[(&str, &str)]) -> ObservedHost {
        let records = records.iter().map(|(file, text)| ((*file).to_owned(), (*text).into())).collect();
        let mut seen = Observation::default();
        let state = RecordsState { records, ..RecordsState::default() };
        seen.insert(Probe::Records, Ok(ProbeReading::Records(Box::new(state))));
        ObservedHost::from_observation(&HostName::new("a"), seen, 1)
    }

    #[test]
    fn half_a_record_is_named_and_files_of_others_are_not() {
        let good = r#"{"step":"r/a","cluster":"lab"}"#;
        let seen = observe(&[("lab@r%2Fa.json", good), ("lab@@findings.json", "{}"), ("other@r%2Fa.json", "")]);
        assert_eq!(warn_unreadable_records(&seen, "lab"), None);
        let seen = observe(&[("lab@r%2Fa.json", good), ("lab@r%2Fb.json", ""), ("lab@@findings.json", "{")]);
        assert_eq!(list_unreadable_records(&seen, "lab"), ["lab@@findings.json", "lab@r%2Fb.json"]);
        let warning = warn_unreadable_records(&observe(&[("lab@r%2Fb.json", "{\"step\":")]), "lab").unwrap();
        assert_eq!(
            warning.why.raw(),
            "`/var/lib/forge/applied/lab@r%2Fb.json` is not readable as a record: what only it lists is not compared"
        );
    }
}
