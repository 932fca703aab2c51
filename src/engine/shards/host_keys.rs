//! The keys of hosts for digests of secrets. A recording leaves them out, as people share recordings; a worker tells them
//! to its coordinator next to the recording.

use crate::model::HostName;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

/// The key of each host that has one.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct HostKeys(BTreeMap<HostName, String>);

impl HostKeys {
    /// Returns the key of a host.
    pub fn find_key(&self, host: &HostName) -> Option<&str> {
        self.0.get(host).map(String::as_str)
    }

    /// Adds the keys of other hosts.
    pub fn add_keys(&mut self, other: Self) {
        self.0.extend(other.0);
    }
}

impl FromIterator<(HostName, String)> for HostKeys {
    fn from_iter<I: IntoIterator<Item = (HostName, String)>>(keys: I) -> Self {
        Self(keys.into_iter().collect())
    }
}

impl fmt::Debug for HostKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the keys of {} hosts", self.0.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_in_the_json_only() {
        let keys: HostKeys = [(HostName::new("a"), "8f3c".to_owned())].into_iter().collect();
        assert_eq!(format!("{keys:?}"), "the keys of 1 hosts");
        let json = serde_json::to_string(&keys).unwrap();
        assert_eq!(json, r#"{"a":"8f3c"}"#);
        assert_eq!(serde_json::from_str::<HostKeys>(&json).unwrap(), keys);
    }
}
