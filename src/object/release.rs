//! The query for a Helm release, and its observed state.
//!
//! Secrets are not transmitted: a field that contains one is marked, and both its values are omitted.

use crate::model::UntrustedText;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A declared release, to compare with the installed one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
pub struct ReleaseQuery {
    /// The name of the release, unique within its namespace.
    pub name: String,
    /// The namespace of the release, in which its record is and by default its objects are.
    pub namespace: String,
    /// A release that is to be removed may have none.
    pub chart: Option<ChartQuery>,
    /// Its own values as a JSON object, secrets as placeholders.
    pub values: String,
    /// Its own values without those of a mirror, if it has one: the images that they render are the mirror's sources.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub upstream: Option<String>,
    /// Whether it is to be removed, also if its chart is declared.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub absent: bool,
    /// An earlier revision, with which the installed one is compared instead of the chart.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<u64>,
}

/// A chart and its source.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
pub struct ChartQuery {
    /// Where the chart is fetched from.
    pub from: ChartQuerySource,
    /// Exact version, from the chart's metadata.
    pub version: String,
    /// Lowercase hex SHA-256 of the packed chart.
    pub sha256: Option<String>,
}

/// The source of a chart.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ChartQuerySource {
    /// A repository's URL and the chart's name in it.
    Repository {
        /// The URL of the repository.
        url: String,
        /// The name of the chart in the repository.
        name: String,
    },
    /// `oci://…`, including the chart's name.
    Oci(String),
    /// A folder or a packed chart on this machine.
    Path(String),
    /// A built-in chart, by its name.
    BuiltIn(String),
}

impl ChartQuerySource {
    /// Returns the chart's name in its repository, its `oci://…` address or its path.
    pub fn name(&self) -> &str {
        match self {
            Self::Repository { name, .. } | Self::Oci(name) | Self::Path(name) | Self::BuiltIn(name) => name,
        }
    }
}

/// The observed state of a release.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ReleaseState {
    /// The release; `None` if there is none of that name in that namespace.
    pub release: Option<ReleaseInfo>,
    /// Metadata of the declared chart; `None` if none is declared, and for a removal if the release does not exist or
    /// the chart cannot be read.
    pub chart: Option<ChartInfo>,
    /// The hooks of a release that is to be removed. Helm runs those of the installed revision.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hooks: Vec<ChartHook>,
    /// Why the chart of a release that is to be removed cannot be read, for example for a newer server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unrendered: Option<UntrustedText>,
    /// Differences between the release's own values and the declared ones.
    pub values: Vec<FieldChange>,
    /// Differences between the release's manifest and a new rendering.
    pub manifest: Vec<ObjectChange>,
    /// Whether the chart renders a different manifest each time: `manifest` is then meaningless.
    pub random: bool,
    /// Differences between the release's manifest and the live objects.
    pub live: Vec<LiveObject>,
    /// Fields of other owners that an upgrade would have to take over.
    pub conflicts: Vec<ReleaseFieldConflict>,
    /// Releases of the same chart elsewhere that forge did not install. Only read for a first install.
    pub foreign: Vec<ForeignRelease>,
    /// CRDs of the release that the declared action deletes, with all their objects.
    #[serde(default)]
    pub doomed: Vec<DoomedDefinition>,
    /// CRDs in the templates of the chart that exist, but not as part of this release.
    #[serde(default)]
    pub unowned: Vec<UnownedDefinition>,
    /// Objects of the release that an uninstall keeps, by title: the chart annotates them.
    #[serde(default)]
    pub kept: Vec<String>,
    /// Live objects that were compared without a dry run, by title, because the account may not ask for one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub computed: Vec<String>,
}

/// A CRD that an uninstall or an upgrade deletes, because it is an ordinary object of the release.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DoomedDefinition {
    /// The name of the CRD: plural and group.
    pub name: String,
    /// The number of its objects in the cluster.
    pub objects: u64,
}

/// A CRD that a release needs and does not own: helm refuses to change it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnownedDefinition {
    /// The name of the CRD: plural and group.
    pub name: String,
    /// The release that owns it, `NAMESPACE/NAME`; `None` if none does.
    pub owner: Option<UntrustedText>,
}

/// A release as recorded by Helm.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ReleaseInfo {
    /// The number of its last revision, from 1.
    pub revision: u64,
    /// The status of its last revision.
    pub status: ReleaseStatus,
    /// The chart's name and its version.
    pub chart: String,
    /// The version of the installed chart.
    pub version: String,
    /// Seconds since its last revision began.
    pub age_s: u64,
    /// Helm's description of the last revision.
    pub description: UntrustedText,
    /// Whether an earlier revision was once deployed: there is something to roll back to.
    pub earlier: bool,
    /// Whether forge installed it or took it over.
    pub ours: bool,
    /// Whether objects are applied on the server side, so that field owners are respected.
    pub server_side: bool,
}

/// The status of a release's last revision.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ReleaseStatus {
    /// Helm does not know the state, or reports one that forge does not know.
    #[default]
    Unknown,
    /// The revision is installed and is the current one.
    Deployed,
    /// The install, upgrade or rollback failed.
    Failed,
    /// The first install is in progress, or helm was killed during it.
    PendingInstall,
    /// An upgrade is in progress, or helm was killed during it.
    PendingUpgrade,
    /// A rollback is in progress, or helm was killed during it.
    PendingRollback,
    /// A later revision replaced it.
    Superseded,
    /// The removal is in progress, or helm was killed during it.
    Uninstalling,
    /// The release was removed, and its history was kept.
    Uninstalled,
}

impl ReleaseStatus {
    /// Returns the status with that name; an unrecognized one is `Unknown`.
    pub fn from_name(name: &str) -> Self {
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

    /// Returns the name that Helm uses.
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

    /// Reports whether a helm process is running, or was killed while running.
    pub fn is_pending(self) -> bool {
        matches!(self, Self::PendingInstall | Self::PendingUpgrade | Self::PendingRollback | Self::Uninstalling)
    }
}

/// A chart's metadata.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ChartInfo {
    /// The name in the chart's `Chart.yaml`.
    pub name: String,
    /// The version in the chart's `Chart.yaml`.
    pub version: String,
    /// CRDs in its folder `crds`: names, and the state of each in the cluster. Helm installs them once and never
    /// updates them.
    pub crds: Vec<ChartCrd>,
    /// Jobs and other objects that run during an install, an upgrade or a removal.
    pub hooks: Vec<ChartHook>,
    /// All images of its manifest and hooks, sorted.
    pub images: Vec<String>,
    /// For images in a mirror, the images that they are copies of.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub sources: BTreeMap<String, String>,
}

/// A CRD that a chart brings.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ChartCrd {
    /// The name of the CRD: plural and group, such as `jobs.batch.volcano.sh`.
    pub name: String,
    /// Whether the cluster has a CRD of that name, in whatever version.
    pub present: bool,
    /// Whether it is another than the chart's. Compared only if the release needs an upgrade, or if objects of the release
    /// have fields that it lacks: a chart's upgrade leaves what the chart does not change.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub outdated: bool,
}

/// An object that runs during an install, an upgrade or a removal.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ChartHook {
    /// `Job volcano-admission-init`.
    pub object: String,
    /// `pre-install`, `post-upgrade` …
    pub events: Vec<String>,
}

/// One field that differs. Both values are omitted if it is secret.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FieldChange {
    /// `spec.template.spec.containers[name=main].image`.
    pub path: String,
    /// The observed value, as JSON; `None` if it does not exist.
    pub from: Option<UntrustedText>,
    /// The wanted value, as JSON; `None` if it is to be removed.
    pub to: Option<UntrustedText>,
    /// Whether the value contains a secret: then `from` and `to` are omitted.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub secret: bool,
    /// The manager that set it last and the time (RFC 3339), as recorded by the API.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<FieldOwner>,
}

/// The owner of a field, as recorded by the API.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FieldOwner {
    /// The name of the field manager, such as `kubectl-edit`.
    pub name: UntrustedText,
    /// RFC 3339.
    pub time: Option<String>,
}

/// One object that differs between two manifests.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ObjectChange {
    /// `Deployment tiny`, prefixed with its namespace if that is not the release's.
    pub object: String,
    /// How the object differs.
    pub what: ObjectChangeKind,
}

/// How an object differs between two manifests.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ObjectChangeKind {
    /// The object is only in the new manifest.
    Added,
    /// The object is only in the old manifest.
    Removed,
    /// The object is in both: the fields that differ.
    Changed(Vec<FieldChange>),
}

/// One live object that differs from the release's manifest.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LiveObject {
    /// `Deployment tiny`, prefixed with its namespace if that is not the release's.
    pub object: String,
    /// Whether the object does not exist: then no fields are listed.
    pub missing: bool,
    /// Fields of the manifest with another value: `from` is live.
    pub changed: Vec<FieldChange>,
    /// Fields that are not in the manifest and were added to the live object. An upgrade does not remove them.
    pub added: Vec<FieldChange>,
}

/// A field that an upgrade would set, and that another manager owns.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReleaseFieldConflict {
    /// `Deployment tiny`, prefixed with its namespace if that is not the release's.
    pub object: String,
    /// The path of the field in the object, as the API reports it.
    pub field: String,
    /// The field manager that owns the field.
    pub by: UntrustedText,
}

/// A release that forge did not install.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ForeignRelease {
    /// The name of the release.
    pub name: String,
    /// The namespace of the release.
    pub namespace: String,
    /// The version of its chart.
    pub version: String,
    /// Its status, as Helm reports it: `deployed`, `failed` …
    pub status: String,
}
