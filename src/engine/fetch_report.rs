//! The result of `fetch`: each artifact and chart with its users.

use crate::model::{ExitCode, HostName, StepId, UntrustedText};
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeSet;

/// The state of an artifact after a fetch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case", tag = "state")]
pub enum ArtifactFetchState {
    /// Already in the cache, or a file of the inventory's tree.
    Here {
        /// SHA-256 of the content, in hex.
        sha256: String,
        /// Size in bytes.
        bytes: u64,
    },
    /// Fetched by this run.
    New {
        /// SHA-256 of the content, in hex.
        sha256: String,
        /// Size in bytes.
        bytes: u64,
    },
    /// Not available, or does not match its declaration.
    Failed {
        /// The error, a lowercase fragment.
        why: UntrustedText,
        /// How to fix it, if forge knows.
        hint: Option<UntrustedText>,
    },
}

/// One artifact with its users.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ArtifactReport {
    /// Its URL, or its path.
    pub name: String,
    /// The steps that use it.
    pub steps: Vec<StepId>,
    /// The hosts that these steps belong to.
    pub hosts: Vec<HostName>,
    /// Whether it is available. In JSON its fields are fields of this object.
    #[serde(flatten)]
    pub had: ArtifactFetchState,
    /// An undeclared digest, computed from the download.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub computed: Option<ComputedDigest>,
}

/// A digest that identifies the download but does not prove its publisher.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ComputedDigest {
    /// The line to paste: `sha256: "…"`.
    pub line: String,
    /// Where the line belongs, `file:line:col`: the fields with the artifact's source.
    pub places: Vec<String>,
    /// The URL of the download after all redirects, without its query, which may contain a signature; `None` for a file
    /// of the inventory's tree.
    #[serde(rename = "over")]
    pub source_url: Option<String>,
    /// Whether the download was protected against changes in transit: TLS, the local machine or a local file. False if
    /// unknown.
    pub protected: bool,
    /// Whether the digest is optional: that of a chart may be omitted.
    pub optional: bool,
}

/// The result of `fetch`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct FetchReport {
    /// The name of the cluster, from the inventory.
    pub cluster: String,
    /// The folder of the cache.
    pub cache: String,
    /// Every artifact and chart that the steps declare: first the artifacts, then the charts.
    pub artifacts: Vec<ArtifactReport>,
    /// Steps whose artifact depends on facts of hosts: `apply` fetches it.
    pub open: Vec<StepId>,
    /// The lock file, if digests were written into it.
    pub lock: Option<String>,
}

impl FetchReport {
    /// Returns the exit code for the report.
    pub fn exit_code(&self) -> ExitCode {
        match (self.list_failed().next(), self.list_undeclared().next()) {
            (Some(_), _) => ExitCode::Artifact,
            // An artifact without a digest is not applied: the inventory is incomplete.
            (None, Some(_)) => ExitCode::Input,
            (None, None) => ExitCode::Done,
        }
    }

    /// Returns the artifacts whose digest is neither in a step nor in the lock file.
    pub fn list_undeclared(&self) -> impl Iterator<Item = &ArtifactReport> {
        let is_needed = |line: &&ArtifactReport| line.computed.as_ref().is_some_and(|computed| !computed.optional);
        self.artifacts.iter().filter(move |line| self.lock.is_none() && is_needed(line))
    }

    /// Returns the artifacts that are not available.
    pub fn list_failed(&self) -> impl Iterator<Item = &ArtifactReport> {
        self.artifacts.iter().filter(|line| matches!(line.had, ArtifactFetchState::Failed { .. }))
    }
}

/// The steps that use an artifact or a chart.
#[derive(Default)]
pub(super) struct ArtifactUsers {
    pub steps: BTreeSet<StepId>,
    pub hosts: BTreeSet<HostName>,
    /// Where its source is declared, if its digest is not.
    pub places: BTreeSet<String>,
}
