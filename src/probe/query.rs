//! Queries to a host: the closed set of probes.

use super::objects_query::ObjectsQuery;
use crate::object::{ObjectId, ReleaseQuery};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One read-only query to a host. Ordered and hashable: equal probes of different steps are sent once.
// Ten thousand hosts have half a million of them: what makes one large is boxed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Probe {
    /// The file at a path: type, owner, group, mode, size, times, digest of a regular file. With `want`, also the body
    /// if its digest differs and it is at most `BODY_CAP` bytes of text (for the diff). Never for secret bodies.
    Path {
        /// Absolute, normalized.
        path: String,
        /// Lowercase hex SHA-256 of the desired body; a text that no digest equals always requests the body.
        want: Option<String>,
    },
    /// The state of one package of dpkg or, if dpkg has no packages, of rpm; its holds, and apt's offers if needed.
    Package {
        /// The package's name, for dpkg also with `:ARCH`.
        name: String,
        /// When apt is asked for its offers.
        offers: AptOfferPolicy,
    },
    /// All installed packages whose names match a pattern with `*`, and apt's offers of those that are not of `upstream`.
    PackageFamily {
        /// Names of packages, in which `*` matches any text.
        patterns: Vec<String>,
        /// The upstream version, without epoch and revision, of packages that need no offers. Without one, apt is not
        /// asked.
        upstream: Option<String>,
    },
    /// State of the package manager itself: lock holder, half-configured packages, running apt.
    PackageManager,
    /// State of one systemd unit, with deleted executables or libraries of its main process.
    Unit {
        /// With or without a suffix: `nginx`, `nginx.service`.
        name: String,
    },
    /// One account and its groups.
    User {
        /// The account's name.
        name: String,
    },
    /// The account that scripts run as: root, or one without write access.
    Account,
    /// One kernel setting, by its path under `/proc/sys`: `net/ipv4/ip_forward`; with all lines of `sysctl.d`.
    Sysctl {
        /// The path with slashes.
        key: String,
    },
    /// One kernel module, its name with underscores; with all lines of `modprobe.d` and `modules-load.d`.
    Module {
        /// The name with underscores: `nvidia_uvm`.
        name: String,
    },
    /// The kernel's command line, and that of the next boot.
    Cmdline,
    /// The content of initramfs images.
    Initramfs {
        /// Paths on the host, each looked up inside the images.
        files: Vec<String>,
        /// Names of kernel modules with underscores, each looked up inside the images.
        modules: Vec<String>,
        /// Whether to read the images of all installed kernels, not only of the running and the next one.
        all: bool,
    },
    /// The mounts at a path and its fstab entries; `source` is looked up among devices and mounts.
    Mount {
        /// The mount point, absolute and normalized.
        path: String,
        /// As in fstab: a device, a tag such as `UUID=…`, `SERVER:/PATH`, a directory for a bind mount.
        source: String,
    },
    /// The `authorized_keys` of one account, wherever its home is.
    AuthorizedKeys {
        /// The account's name.
        user: String,
    },
    /// One group, and which group has the declared number.
    Group {
        /// The group's name.
        name: String,
        /// The declared number, if any.
        gid: Option<u32>,
    },
    /// The content of a package file on the host, and the installed state of that package.
    PackageFile {
        /// Absolute, normalized. `.rpm` at its end decides which package manager reads it.
        path: String,
    },
    /// All entries of apt's source files.
    AptSources,
    /// All sections of dnf's repository files.
    DnfSources,
    /// The bytes of a key on the host.
    Key {
        /// Absolute, normalized.
        path: String,
    },
    /// The record that the last verified apply wrote for a step (`record` is its file name). All records are read
    /// together.
    Records,
    /// A recipe's own read-only command.
    Check(Box<CheckProbe>),
    /// Evidence of changes in logs, journal and files.
    Evidence {
        /// Earlier evidence is not read. Seconds since the epoch.
        since: u64,
        /// Units whose starts and stops are read.
        units: Vec<String>,
        /// Paths whose owners and times are read.
        paths: Vec<String>,
    },
    /// One object of a cluster's API.
    Object {
        /// The object, by kind, namespace and name.
        id: Box<ObjectId>,
        /// The desired object, as JSON text with placeholders for secrets: the answer then includes the predicted result
        /// of applying it.
        want: Option<String>,
    },
    /// Whether a proof workload succeeded, and which objects of its runs are left.
    Proof {
        /// The workload.
        id: Box<ObjectId>,
    },
    /// The objects in a namespace of a cluster.
    Contents {
        /// The namespace's name.
        namespace: String,
    },
    /// Current objects of a cluster, with their status and without secret values: one, or all of a kind.
    Objects(Box<ObjectsQuery>),
    /// A fact about the cluster itself, from its API.
    ClusterFact {
        /// The fact's name under `facts.`.
        name: String,
    },
    /// A release of a cluster, and its differences from the declaration.
    Release(Box<ReleaseQuery>),
    /// One fact's snippet. The snippet's text is defined with the fact.
    Fact {
        /// The fact's name under `facts.`.
        name: String,
    },
}

/// A recipe's own read-only command.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
pub struct CheckProbe {
    /// Names it in messages.
    pub id: String,
    /// POSIX shell code.
    pub script: String,
    /// The account that runs it; without one, the account that scripts run as.
    pub user: Option<String>,
    /// Its working directory; `/` without one.
    pub cwd: Option<String>,
    /// Environment variables that it gets in addition.
    pub env: Vec<(String, String)>,
    /// Its own limit. Without one, the run's limit applies, or else 60 seconds.
    pub timeout_s: Option<u64>,
}

/// When to query apt for its offers of a package. Reading apt's lists takes a host longer than all other probes
/// together, and a package that matches its declaration does not depend on them.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AptOfferPolicy {
    /// Never.
    Unneeded,
    /// If no version is fully installed.
    UnlessInstalled,
    /// If this exact version is not fully installed.
    UnlessVersion(String),
    /// If no revision of this upstream version is fully installed.
    UnlessUpstream(String),
}

/// Timeout in seconds of a check if neither it nor the run sets one.
pub(super) const CHECK_LIMIT_S: u64 = 60;

/// Maximum size in bytes of bodies that are sent with an observation for a diff.
pub(crate) const BODY_CAP: u64 = 65_536;

/// The snippet of a fact, passed to [`compile_probes`](super::compile_probes) by the caller, since facts are a layer above probes.
#[derive(Clone, Copy, Debug)]
pub struct FactSnippet {
    /// The fact's name under `facts.`.
    pub name: &'static str,
    /// POSIX shell; the fact's parser reads its stdout.
    pub snippet: &'static str,
    /// After this many seconds the snippet is stopped and the fact is unknown. Snippets that share a section have the
    /// longest limit of all of them.
    pub timeout_s: u64,
    /// Whether it touches a device or a network mount: such probes run on a second channel.
    pub device: bool,
    /// Whether it is short and not known to hang: such snippets share one section, and one that hangs costs the answers
    /// of those after it.
    pub quick: bool,
    /// Whether a quick snippet runs in the shell of all facts: it starts no program, never exits, and assigns no
    /// variable without doing so before it reads it.
    pub builtin: bool,
}

impl Probe {
    /// Reports whether the probe goes to a cluster's API instead of a host.
    pub fn is_api_probe(&self) -> bool {
        use Probe::{ClusterFact, Contents, Object, Objects, Proof, Release};
        matches!(self, Object { .. } | Objects(_) | ClusterFact { .. } | Contents { .. } | Proof { .. } | Release(_))
    }
}

impl ObjectId {
    /// Returns the probe for its current state.
    pub fn to_probe(&self) -> Probe {
        Probe::Object { id: Box::new(self.clone()), want: None }
    }
}
