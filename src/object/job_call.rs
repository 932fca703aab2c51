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
    /// How the workload must end, or that it must not start.
    pub aim: JobGoal,
    /// What its logs must contain, and must not contain.
    pub logs: JobLogRules,
}

/// The expected outcome.
#[derive(Clone, Debug, PartialEq)]
pub enum JobGoal {
    /// It ends, within this many seconds.
    Ends {
        /// How success and failure are recognized.
        signs: JobEndPredicates,
        /// The longest run time in seconds; a workload that runs longer has failed.
        within_s: u64,
    },
    /// No pod of it starts for this many seconds, and the cluster reports why.
    StaysPending {
        /// How long the workload must stay pending, in seconds.
        for_s: u64,
        /// How success and failure are recognized: a workload that ended did not stay pending.
        signs: JobEndPredicates,
    },
}

/// Regular expressions that the logs of its pods must match, or must not match.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct JobLogRules {
    /// The expressions that must each match; empty if nothing is expected.
    pub expect: Vec<String>,
    /// The expressions of which none may match.
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
