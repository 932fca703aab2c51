//! The declaration of a workload.

use crate::model::Value;
use crate::object::{JobCall, JobGoal, JobLogRules};
use crate::probe::Probe;
use crate::resource::DeclaredResource;
use crate::resource::cluster::object::DeclaredObject;
use crate::resource::shared::support::sha256_hex;

#[derive(Debug)]
pub(super) struct JobResource {
    pub(super) declared: DeclaredObject,
    pub(super) aim: JobGoal,
    pub(super) logs: JobLogRules,
    /// Value of `for`.
    pub(super) about: Value,
    /// Registries and paths of mirrors, each with those of its sources.
    pub(super) mirrors: Vec<(String, String)>,
    pub(super) absent: bool,
}

impl JobResource {
    pub(super) fn probe(&self) -> Probe {
        Probe::Proof { id: Box::new(self.declared.id.clone()) }
    }

    /// Returns the digest of everything that a success proves.
    pub(super) fn proof_digest(&self) -> String {
        format!("sha256:{}", sha256_hex(self.desired_value().to_string().as_bytes()))
    }

    pub(super) fn job_call(&self) -> JobCall {
        JobCall {
            id: self.declared.id.clone(),
            object: self.declared.object.clone(),
            digest: self.proof_digest(),
            aim: self.aim.clone(),
            logs: self.logs.clone(),
        }
    }
}
