//! Workloads that prove something: made under a name of their own, watched to their end, and always taken away.

mod logs;
mod run;
mod shape;
mod sign;
mod store;
#[cfg(test)]
mod tests;
mod why;

pub use run::Stopped;
pub use sign::{Sign, Signs};

use crate::model::Value;
use crate::probe::ObjectId;

/// A workload, and what it has to come to.
#[derive(Clone, Debug, PartialEq)]
pub struct JobCall {
    /// Its declared name, to which each run adds something of its own.
    pub id: ObjectId,
    /// As it is made but for name and labels. Placeholders stand in it for secrets.
    pub object: Value,
    /// Digest of what is declared: what is kept of a success.
    pub digest: String,
    pub aim: Aim,
    pub logs: Logs,
}

/// What it has to come to.
#[derive(Clone, Debug, PartialEq)]
pub enum Aim {
    /// An end, within so many seconds.
    Ends { signs: Signs, within_s: u64 },
    /// None: for so many seconds no pod of it may run, and somebody has to say why.
    StaysPending { for_s: u64, signs: Signs },
}

/// What has to stand in its pods' logs, and what may not: regular expressions.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Logs {
    pub expect: Vec<String>,
    pub deny: Vec<String>,
    /// Whether each pod has to say it, or one is enough.
    pub each: bool,
    /// How many of the last lines are shown after a failure.
    pub tail: usize,
}

impl JobCall {
    /// Returns what it does, for people.
    pub fn told(&self) -> String {
        match &self.aim {
            Aim::Ends { within_s, .. } => format!("run {}, at most {within_s} s, and take it away", self.id),
            Aim::StaysPending { for_s, .. } => {
                format!("make {}, see that it stays pending for {for_s} s, and take it away", self.id)
            }
        }
    }
}
