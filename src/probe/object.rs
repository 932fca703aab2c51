//! Probes of objects of a cluster's API.
//!
//! These queries go to an API and not to a host: no script sends them.

use super::Probe;
use crate::object::ObjectId;

impl ObjectId {
    /// Returns the probe for its current state.
    pub fn to_probe(&self) -> Probe {
        Probe::Object { id: self.clone(), want: None }
    }
}
