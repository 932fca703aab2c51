//! What `fetch` came to: each artifact and chart, with those who need it.

use crate::model::{ExitCode, HostName, StepId, Untrusted};
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeSet;

/// What became of an artifact.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case", tag = "state")]
pub enum Had {
    /// Was in the cache, or is a file of the inventory's tree.
    Here { sha256: String, bytes: u64 },
    /// Was fetched just now.
    New { sha256: String, bytes: u64 },
    /// Cannot be had, or is not what is declared.
    Failed { why: Untrusted, hint: Option<Untrusted> },
}

/// One artifact, with those who need it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ArtifactLine {
    /// Its URL, or its path.
    pub name: String,
    pub steps: Vec<StepId>,
    pub hosts: Vec<HostName>,
    #[serde(flatten)]
    pub had: Had,
    /// The digest that nobody declared, computed from what came.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub computed: Option<ComputedDigest>,
}

/// A digest that says what was downloaded, and not that it is what the publisher made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ComputedDigest {
    /// The line to paste: `sha256: "…"`.
    pub line: String,
    /// Where it belongs, `file:line:col`: the values that say where the artifact comes from.
    pub places: Vec<String>,
    /// The URL that the bytes came from, after every redirect and without its query, which may hold a signature;
    /// nothing for a file of the inventory's tree.
    #[serde(rename = "over")]
    pub source_url: Option<String>,
    /// Whether nobody on the way could change it: TLS, this machine itself or a file of it. False where that is not known.
    pub protected: bool,
    /// Whether the step runs without it too: that of a chart may be left out.
    pub optional: bool,
}

/// What `fetch` came to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct FetchReport {
    pub cluster: String,
    /// The folder of the cache.
    pub cache: String,
    pub artifacts: Vec<ArtifactLine>,
    /// Steps whose artifact depends on what only hosts can tell: it is fetched by `apply`.
    pub open: Vec<StepId>,
    /// The lock file, where digests were written into it.
    pub lock: Option<String>,
}

impl FetchReport {
    /// Returns the exit code that the printed report means.
    pub fn exit_code(&self) -> ExitCode {
        match (self.failed().next(), self.undeclared().next()) {
            (Some(_), _) => ExitCode::Artifact,
            // What has no digest is not applied: it is the inventory that lacks something.
            (None, Some(_)) => ExitCode::Input,
            (None, None) => ExitCode::Done,
        }
    }

    /// Returns the artifacts whose digest stands neither in a step nor in the lock file.
    pub fn undeclared(&self) -> impl Iterator<Item = &ArtifactLine> {
        let is_needed = |line: &&ArtifactLine| line.computed.as_ref().is_some_and(|computed| !computed.optional);
        self.artifacts.iter().filter(move |line| self.lock.is_none() && is_needed(line))
    }

    /// Returns what could not be had.
    pub fn failed(&self) -> impl Iterator<Item = &ArtifactLine> {
        self.artifacts.iter().filter(|line| matches!(line.had, Had::Failed { .. }))
    }
}

/// Who needs an artifact or a chart.
#[derive(Default)]
pub(super) struct Users {
    pub steps: BTreeSet<StepId>,
    pub hosts: BTreeSet<HostName>,
    /// Where its source is written, if its digest is not.
    pub places: BTreeSet<String>,
}
