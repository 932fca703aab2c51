//! The description of a fact of the cluster.

use crate::facts::UnansweredReason;
use crate::facts::fact::FactShape;
use crate::model::Value;

/// A fact of the cluster, as registered.
pub struct ClusterFact {
    /// The name under `facts.`.
    pub name: &'static str,
    /// One sentence: meaning and source.
    pub doc: &'static str,
    /// The part that has the `fields`.
    pub shape: FactShape,
    /// Meaning of each field.
    pub fields: &'static [(&'static str, &'static str)],
    /// The API path that is queried.
    pub path: &'static str,
    /// Parses the answer of the API. Never invents a value.
    pub parse: fn(&Value) -> Result<Value, UnansweredReason>,
}
