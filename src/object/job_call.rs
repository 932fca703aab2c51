//! A workload to run as a proof, and its expected outcome, as data.

use super::{JobEndPredicates, ObjectId};
use crate::model::Value;

/// A workload, and the expected outcome.
#[derive(Clone, Debug, PartialEq)]
pub struct JobCall {
    /// Its declared name; each run appends a suffix.
    pub id: ObjectId,
    /// The object as it is created, except name and labels. Placeholders stand for secrets.
    pub object: Value,
    /// Digest of the declaration, recorded with a success.
    pub digest: String,
    pub aim: JobGoal,
    pub logs: JobLogRules,
}

/// The expected outcome.
#[derive(Clone, Debug, PartialEq)]
pub enum JobGoal {
    /// It ends, within this many seconds.
    Ends { signs: JobEndPredicates, within_s: u64 },
    /// No pod of it starts for this many seconds, and the cluster reports why.
    StaysPending { for_s: u64, signs: JobEndPredicates },
}

/// Regular expressions that the logs of its pods must match, or must not match.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct JobLogRules {
    pub expect: Vec<String>,
    pub deny: Vec<String>,
    /// Whether the log of each pod must match, or one is enough.
    pub each: bool,
    /// Number of last lines that a failure shows.
    pub tail: usize,
}

impl JobCall {
    /// Returns a description of the call, for people.
    pub fn describe_job(&self) -> String {
        match &self.aim {
            JobGoal::Ends { within_s, .. } => format!("run {}, at most {within_s} s, and delete it", self.id),
            JobGoal::StaysPending { for_s, .. } => {
                format!("create {}, check that it stays pending for {for_s} s, and delete it", self.id)
            }
        }
    }
}
