//! What a record on a host names: the objects that a step owned, and the start of a service.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The identity of a step, independent of its declared values.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RecordIdentity {
    /// Kind and name of each object: `["path", "/etc/motd"]`. Empty for the results of a command, which are not known.
    pub claims: Vec<(String, String)>,
    /// Objects of which this was one part among others; the owner of such an object as a whole also owns this part.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub part_of: Vec<(String, String)>,
}

/// A former identity of a step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FormerIdentity {
    /// The kind of resource at that time: `file`, `package` …
    pub kind: String,
    /// The object at that time: `/etc/motd`, `nginx`.
    pub title: String,
    /// The objects that the step owned at that time.
    pub identity: RecordIdentity,
    /// When it was last observed to match. RFC 3339, UTC.
    pub time: String,
}

/// A declaration of a step that an earlier apply had.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct EarlierDeclaration {
    /// Digest of the declaration, as in the record of that apply.
    pub digest: String,
    /// The ID of the run that applied it.
    pub run: String,
}

/// The start of a service observed by a verified apply.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RecordedStart {
    /// systemd's `InvocationID`.
    pub invocation: String,
    /// The inputs (`restart_on`) that the start is proven to use: JSON text with the digest of the declaration per
    /// step, and the ctime of each path. `Resource::started` writes it and the judge of a service reads it; older
    /// versions wrote only the digest.
    pub inputs: String,
}
