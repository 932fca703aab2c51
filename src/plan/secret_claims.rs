//! What the records of a host say about secrets: a file keeps a secret after the inventory has stopped to declare it.

use super::record_identity::read_record_identity;
use crate::model::Value;
use crate::probe::Observation;
use std::collections::{BTreeMap, BTreeSet};

/// Returns what the records of declarations with a secret claim, whatever cluster they belong to.
pub(super) fn list_secret_claims(records: &BTreeMap<String, Vec<Value>>) -> BTreeSet<(String, String)> {
    let identities = records.values().flatten().filter(|record| is_keyed(record)).filter_map(read_record_identity);
    identities.flat_map(|identity| identity.claims.into_iter().chain(identity.part_of)).collect()
}

/// Returns whether the record is that of a declaration with a secret: its digest is keyed with the host's key.
pub(super) fn is_keyed(record: &Value) -> bool {
    record.get("digest").and_then(Value::as_str).is_some_and(|digest| digest.starts_with("keyed:"))
}

/// Removes the bodies of the files that such claims name.
pub(super) fn withhold_bodies(observation: &mut Observation, claims: &BTreeSet<(String, String)>) {
    if !claims.is_empty() {
        observation.withhold_bodies(|path| claims.contains(&("path".to_owned(), path.to_owned())));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn records_with_a_keyed_digest_name_what_may_be_secret() {
        let record = |digest: &str, path: &str| json!({ "digest": digest, "kind": "file", "title": path, "identity": { "claims": [["path", path]] } });
        let records = BTreeMap::from([
            ("a/one".to_owned(), vec![record("keyed:1", "/etc/a"), record("sha256:1", "/etc/b")]),
            ("a/two".to_owned(), vec![record("sha256:2", "/etc/c")]),
            ("a/old".to_owned(), vec![json!({ "digest": "keyed:3", "title": "/etc/d" })]),
        ]);
        let paths = ["/etc/a", "/etc/d"].map(|path| ("path".to_owned(), path.to_owned()));
        assert_eq!(list_secret_claims(&records), paths.into());
    }
}
