//! What is asked of a Helm release, and what was seen of it.
//!
//! Secrets do not travel: a field that holds one is marked, and both its values are left out.

use crate::model::Untrusted;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A release as it is declared: what it is compared with.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
pub struct ReleaseAsked {
    pub name: String,
    pub namespace: String,
    /// `None` where it is to be gone.
    pub chart: Option<ChartAsked>,
    /// Its own values as a JSON object, secrets as placeholders.
    pub values: String,
}

/// A chart, and where it comes from.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
pub struct ChartAsked {
    pub from: ChartFrom,
    /// Exact, as the chart says it of itself.
    pub version: String,
    /// Lowercase hex SHA-256 of the packed chart.
    pub sha256: Option<String>,
}

/// Where a chart comes from.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ChartFrom {
    /// A repository's URL and the chart's name in it.
    Repository { url: String, name: String },
    /// `oci://…`, the chart's name with it.
    Oci(String),
    /// A folder or a packed chart on this machine.
    Path(String),
    /// One that ships with forge, by its name.
    BuiltIn(String),
}

impl ChartFrom {
    /// Returns the chart's name in its repository, its `oci://…` address or its path.
    pub fn name(&self) -> &str {
        match self {
            Self::Repository { name, .. } | Self::Oci(name) | Self::Path(name) | Self::BuiltIn(name) => name,
        }
    }
}

/// What was seen of a release.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ReleaseState {
    /// The release, `None` when there is none of that name in that namespace.
    pub release: Option<ReleaseInfo>,
    /// The chart that is declared, as it says itself; `None` where the release is to be gone.
    pub chart: Option<ChartInfo>,
    /// What differs between the release's own values and those that are declared.
    pub values: Vec<FieldChange>,
    /// What differs between the release's manifest and the one that is rendered now.
    pub manifest: Vec<ObjectChange>,
    /// Whether the chart renders another manifest each time: `manifest` says nothing then.
    pub random: bool,
    /// What differs between the release's manifest and the live objects.
    pub live: Vec<LiveObject>,
    /// Fields of other owners that an upgrade would have to take from them.
    pub conflicts: Vec<Conflict>,
    /// Releases of the same chart that forge did not install, elsewhere.
    pub foreign: Vec<ForeignRelease>,
}

/// A release as Helm has noted it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ReleaseInfo {
    pub revision: u64,
    pub status: ReleaseStatus,
    /// The chart's name and its version.
    pub chart: String,
    pub version: String,
    /// Seconds since its last revision began.
    pub age_s: u64,
    /// What Helm says of the last revision.
    pub description: Untrusted,
    /// Whether a revision before this one was once deployed: there is something to roll back to.
    pub earlier: bool,
    /// Whether forge installed it, or took it over.
    pub ours: bool,
    /// Whether objects are applied by the server, so that owners of fields are heeded.
    pub server_side: bool,
}

/// The status of a release's last revision.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ReleaseStatus {
    #[default]
    Unknown,
    Deployed,
    Failed,
    PendingInstall,
    PendingUpgrade,
    PendingRollback,
    Superseded,
    Uninstalling,
    Uninstalled,
}

impl ReleaseStatus {
    /// Returns the status of that name; one that is not known is `Unknown`.
    pub fn of(name: &str) -> Self {
        match name {
            "deployed" => Self::Deployed,
            "failed" => Self::Failed,
            "pending-install" => Self::PendingInstall,
            "pending-upgrade" => Self::PendingUpgrade,
            "pending-rollback" => Self::PendingRollback,
            "superseded" => Self::Superseded,
            "uninstalling" => Self::Uninstalling,
            "uninstalled" => Self::Uninstalled,
            _ => Self::Unknown,
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::Deployed => "deployed",
            Self::Failed => "failed",
            Self::PendingInstall => "pending-install",
            Self::PendingUpgrade => "pending-upgrade",
            Self::PendingRollback => "pending-rollback",
            Self::Superseded => "superseded",
            Self::Uninstalling => "uninstalling",
            Self::Uninstalled => "uninstalled",
        }
    }

    /// Returns whether a helm is at work, or was killed at it.
    pub fn is_pending(self) -> bool {
        matches!(self, Self::PendingInstall | Self::PendingUpgrade | Self::PendingRollback | Self::Uninstalling)
    }
}

/// A chart as it says itself.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ChartInfo {
    pub name: String,
    pub version: String,
    /// Of its folder `crds`: names, and how each stands in the cluster. Helm installs them once and never looks again.
    pub crds: Vec<Crd>,
    /// Jobs and others that run beside an install or an upgrade.
    pub hooks: Vec<Hook>,
    /// Every image of its manifest and hooks, sorted.
    pub images: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Crd {
    pub name: String,
    pub present: bool,
}

/// What runs beside an install or an upgrade.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Hook {
    /// `Job volcano-admission-init`.
    pub object: String,
    /// `pre-install`, `post-upgrade` …
    pub events: Vec<String>,
}

/// One field that differs. Both values are left out where it is secret.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FieldChange {
    /// `spec.template.spec.containers[name=main].image`.
    pub path: String,
    /// What was seen, as JSON; `None` when it is not there.
    pub from: Option<Untrusted>,
    /// What is to be, as JSON; `None` when it is to go.
    pub to: Option<Untrusted>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub secret: bool,
    /// Who set it last, and when (RFC 3339): the manager that the API noted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<FieldOwner>,
}

/// Who owns a field, as the API noted it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FieldOwner {
    pub name: Untrusted,
    /// RFC 3339.
    pub time: Option<String>,
}

/// One object that differs between two manifests.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ObjectChange {
    /// `Deployment tiny`, with its namespace before it where that is not the release's.
    pub object: String,
    pub what: ObjectMove,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ObjectMove {
    Added,
    Removed,
    Changed(Vec<FieldChange>),
}

/// One live object that is not as the release's manifest says.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LiveObject {
    pub object: String,
    pub missing: bool,
    /// Fields of the manifest with another value: `from` is live.
    pub changed: Vec<FieldChange>,
    /// Fields that somebody added, and that the manifest does not speak of. No upgrade takes them away.
    pub added: Vec<FieldChange>,
}

/// A field that an upgrade would set, and that somebody else owns.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Conflict {
    pub object: String,
    pub field: String,
    pub by: Untrusted,
}

/// A release that forge did not install.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ForeignRelease {
    pub name: String,
    pub namespace: String,
    pub version: String,
    pub status: String,
}
