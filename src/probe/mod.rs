//! What forge asks a host: a closed set of read-only questions, merged into one script, and their answers.
//!
//! Architecture Invariants: a probe never changes a host. Like probes are merged (one `dpkg-query`, one
//! `systemctl show`, one `stat`), and quick ones share a process, in which each has its own status, words and
//! output cap. Each section is framed with a random token, its length and exit status, and has its own time
//! limit. A question whose answer did not come is `Unknown` with the reason; a missing end frame is a lost
//! link, for the whole script.

mod apt;
mod apt_source;
mod boot;
mod check;
mod cmdline;
mod confd;
mod evidence;
mod exchange;
mod fact;
mod frame;
mod group;
mod initramfs;
mod key;
mod keys;
mod manager;
mod module;
mod mount;
mod object;
mod objects;
mod observation;
mod package;
mod package_file;
mod path;
mod reading;
mod recall;
mod records;
mod release;
mod rpm;
mod section;
mod sections;
mod shell;
mod sysctl;
mod unit;
mod unix_group;
mod user;

pub use boot::*;
pub use check::Checks;
pub use evidence::{EvidenceState, JOURNAL_CAP, JOURNAL_ENTRIES, LOG_CAP, Part};
pub use exchange::{Answer, Bytes, Ended, Exchange, KEY_LEFT_OUT, Printed, replay};
pub use frame::{Compiled, FrameError, compile, parse};
pub(crate) use initramfs::NEXT as NEXT_KERNEL;
pub use object::{Added, Condition, Contents, Dry, FieldManager, Held, ObjectId, ObjectInfo, ObjectState};
pub use objects::ObjectsAsked;
pub use observation::{Observation, Unknown};
pub use reading::*;
pub use recall::{recall, without_script};
pub use release::*;
pub use rpm::compare as compare_rpm;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One read-only question to a host. Ordered and hashable: equal questions of different steps are asked once.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Probe {
    /// What stands at a path: type, owner, group, mode, size, times, digest of a regular file.
    /// With `want`, the body too if its digest is another one and it is at most `BODY_CAP` bytes of text
    /// (for the diff). Never for secret bodies.
    Path { path: String, want: Option<String> },
    /// The state of one package of dpkg or, where dpkg has none, of rpm; its holds, and what apt offers where that is
    /// needed.
    Package { name: String, offers: Offers },
    /// State of the package manager itself: lock holder, half-configured packages, running apt.
    PackageManager,
    /// State of one systemd unit, with its main process's deleted executable or libraries.
    Unit { name: String },
    /// One account and its groups.
    User { name: String },
    /// The account that scripts run as: root, or one that may change nothing.
    Account,
    /// One kernel setting, by its place under `/proc/sys`: `net/ipv4/ip_forward`; with every line of `sysctl.d`.
    Sysctl { key: String },
    /// One kernel module, its name with underscores; with every line of `modprobe.d` and `modules-load.d`.
    Module { name: String },
    /// The kernel's command line, and that of the next boot.
    Cmdline,
    /// What is inside the images that kernels begin with: of the running kernel and the next one, or of `all` that are
    /// installed. `files` are paths on the host, `modules` names with underscores.
    Initramfs { files: Vec<String>, modules: Vec<String>, all: bool },
    /// What is mounted at a path and what fstab says of it; `source` is looked up among devices and mounts.
    Mount { path: String, source: String },
    /// The `authorized_keys` of one account, wherever its home is.
    AuthorizedKeys { user: String },
    /// One group, and who has the number that it is to have.
    Group { name: String, gid: Option<u32> },
    /// What a package file on the host holds, and what is installed of that package.
    PackageFile { path: String },
    /// What all of apt's source files declare.
    AptSources,
    /// The bytes of a key on the host.
    Key { path: String },
    /// The record that the last verified apply left for a step (`record` is its file name).
    /// All records are read together.
    Records,
    /// A recipe's own read-only command. `id` names it in messages.
    Check {
        id: String,
        script: String,
        user: Option<String>,
        cwd: Option<String>,
        env: Vec<(String, String)>,
        /// Its own limit; without one that of the whole run holds, else [`CHECK_LIMIT_S`].
        timeout_s: Option<u64>,
    },
    /// What logs, journal and files say of changes `since` then (seconds since the epoch), of these units and paths in particular.
    Evidence { since: u64, units: Vec<String>, paths: Vec<String> },
    /// One object of a cluster's API; with `want`, what would become of it if that, JSON with placeholders for secrets, were
    /// applied.
    Object { id: ObjectId, want: Option<String> },
    /// What stands in a namespace of a cluster.
    Contents { namespace: String },
    /// Objects of a cluster as they are, with their status and without what is secret in them: one, or all of a kind.
    Objects(Box<ObjectsAsked>),
    /// What a cluster's API tells of the cluster itself, by the name of the fact that it is.
    ClusterFact { name: String },
    /// A release of a cluster, and what differs between it and what is declared.
    Release(Box<ReleaseAsked>),
    /// One fact's snippet, by the fact's name. The text of it lives with the fact.
    Fact { name: String },
}

/// When apt is asked what it offers of a package. Reading apt's lists takes a host longer than all other
/// questions together, and what is as declared does not depend on them.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Offers {
    Unneeded,
    /// When no version is fully installed.
    UnlessInstalled,
    /// When not this very version is fully installed.
    UnlessVersion(String),
}

/// The limit of a check when neither it nor the run names one. Seconds.
pub const CHECK_LIMIT_S: u64 = 60;

/// Bodies up to this size travel with an observation for a diff. Bytes.
pub const BODY_CAP: u64 = 65_536;

/// The snippet behind a fact, given to [`compile`] by the caller, since facts live above probes.
#[derive(Clone, Copy, Debug)]
pub struct FactSnippet {
    pub name: &'static str,
    /// POSIX shell; its stdout is what the fact's parser reads.
    pub snippet: &'static str,
    pub timeout_s: u64,
    /// Whether it touches a device or a network mount: such probes run on a second channel.
    pub device: bool,
    /// Whether it is short and not known to hang: such snippets share one section, and one that does hang
    /// costs those after it.
    pub quick: bool,
}
