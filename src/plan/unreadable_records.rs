//! Records of a host that cannot be read: a full disk or an edit left half a file. Objects that only they list are not
//! compared.

use super::model::HostWarning;
use super::observed_host::ObservedHost;
use crate::model::record_file_prefix;

/// The folder of the records.
const FOLDER: &str = "/var/lib/forge/applied";
/// How many files a warning names.
const MAX_NAMED: usize = 3;

/// Returns the record files that cannot be read and concern a cluster. Older ones do not name one: each concerns all.
pub fn list_unreadable_records<'s>(seen: &'s ObservedHost, cluster: &str) -> Vec<&'s str> {
    let prefix = record_file_prefix(cluster);
    let concerns = |file: &&str| file.starts_with(&prefix) || !file.contains('@');
    seen.unreadable.iter().map(String::as_str).filter(concerns).collect()
}

/// Warns of a host whose records could not be read at all: forge has no root there.
pub(super) fn warn_unread_host_records(seen: &ObservedHost) -> Option<HostWarning> {
    let why = seen.records_failure().filter(|_| !seen.host.is_cluster() && seen.is_observed())?.why;
    let why = format!(
        "forge's records on the host could not be read: {why}. Resources that are not declared any more, a hold, other runs \
         and the causes of changes were not seen"
    );
    let hint = seen.refusal_reason().map(|refused| refused.hint.raw().to_owned());
    Some(HostWarning { why: why.into(), hint })
}

/// Warns of records that cannot be read.
pub(super) fn warn_unreadable_records(seen: &ObservedHost, cluster: &str) -> Option<HostWarning> {
    let files = list_unreadable_records(seen, cluster);
    let in_cluster = seen.host.is_cluster();
    let name = |file: &&str| if in_cluster { format!("`{file}`") } else { format!("`{FOLDER}/{file}`") };
    let mut named: Vec<String> = files.iter().take(MAX_NAMED).map(name).collect();
    let rest = files.len().saturating_sub(MAX_NAMED);
    if rest > 0 {
        named.push(format!("{rest} more"));
    }
    let (record, this, it) = match files.len() {
        0 => return None,
        1 => ("the record", "this record lists", "it"),
        _ => ("the records", "these records list", "them"),
    };
    let place = if in_cluster { " in forge's ConfigMap `forge-applied-…`" } else { "" };
    let why = format!("{record} {}{place} cannot be read: objects that only {this} are not compared", named.join(", "));
    let hint = match in_cluster {
        true => format!("remove {it} from its `data`: an apply writes the records of declared steps again"),
        false => format!("delete {it}: an apply writes the records of declared steps again"),
    };
    Some(HostWarning { why: why.into(), hint: Some(hint) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::HostName;
    use crate::probe::{Observation, Probe, ProbeReading, RecordsState};

    fn observe(records: &[(&str, &str)]) -> ObservedHost {
        let records = records.iter().map(|(file, text)| ((*file).to_owned(), (*text).into())).collect();
        let mut seen = Observation::default();
        let state = RecordsState { records, ..RecordsState::default() };
        seen.insert(Probe::Records, Ok(ProbeReading::Records(Box::new(state))));
        ObservedHost::from_observation(&HostName::new("a"), seen, 1)
    }

    #[test]
    fn records_of_the_cluster_are_keys_of_a_config_map() {
        let mut seen = observe(&[("lab_r_2Fa.0123456789ab.json", "{bro")]);
        seen.host = HostName::cluster_api();
        let warning = warn_unreadable_records(&seen, "lab").unwrap();
        assert_eq!(
            warning.why.raw(),
            "the record `lab_r_2Fa.0123456789ab.json` in forge's ConfigMap `forge-applied-…` cannot be read: objects that \
             only this record lists are not compared"
        );
        assert!(warning.hint.unwrap().starts_with("remove it from its `data`"));
    }

    #[test]
    fn half_a_record_is_named_and_files_of_others_are_not() {
        let good = r#"{"step":"r/a","cluster":"lab"}"#;
        let others = [("lab@r%2Fa.json", good), ("lab@@findings.json", "{"), ("other@r%2Fa.json", "")];
        assert_eq!(warn_unreadable_records(&observe(&others), "lab"), None);
        let broken = [("lab@r%2Fa.json", "{}"), ("lab@r%2Fb.json", "{\"step\":"), ("r%2Fc.json", "")];
        assert_eq!(
            list_unreadable_records(&observe(&broken), "lab"),
            ["lab@r%2Fa.json", "lab@r%2Fb.json", "r%2Fc.json"]
        );
        assert_eq!(list_unreadable_records(&observe(&[("lab@r%2Fa.json", "{\"step\":5}")]), "lab").len(), 1);
        let warning = warn_unreadable_records(&observe(&broken[1..2]), "lab").unwrap();
        assert_eq!(
            warning.why.raw(),
            "the record `/var/lib/forge/applied/lab@r%2Fb.json` cannot be read: objects that only this record lists are \
             not compared"
        );
    }
}
