//! The typed answer to any probe.

use super::account_state::{GroupState, ScriptAccount, UserState};
use super::kernel_state::{ModuleState, SysctlState};
use super::mount_state::MountState;
use super::package_state::{
    AptEntry, DnfSources, PackageFamilyState, PackageFileState, PackageManagerState, PackageState,
};
use super::path_state::{AuthorizedKeysState, KeyFileState, PathState};
use super::records_state::RecordsState;
use super::unanswered::UnansweredReason;
use super::unit_state::UnitState;
use super::{CmdlineState, EvidenceState, InitramfsState};
use crate::model::UntrustedText;
use crate::object::{NamespaceContents, ObjectState, ProofState, ReleaseState};
use serde::{Deserialize, Serialize};

/// The answer to one probe. Ten thousand hosts have half a million of them: large ones are boxed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProbeReading {
    /// From `stat`, `sha256sum` and, for a body, the file itself.
    Path(PathState),
    /// From `dpkg-query` and `apt-cache policy`, or from `rpm -q` and dnf's versionlock.
    Package(Box<PackageState>),
    /// From `dpkg-query` and `apt-cache policy`, or from `rpm -qa`.
    PackageFamily(Box<PackageFamilyState>),
    /// From the lock files of apt and dpkg and from `dpkg-query`, or from the lock files of dnf and rpm.
    PackageManager(PackageManagerState),
    /// From `systemctl show` and `/proc/PID/maps`.
    Unit(Box<UnitState>),
    /// From `getent passwd`, `getent shadow` and `id`.
    User(UserState),
    /// From `/proc/self/status` and `id`.
    Account(ScriptAccount),
    /// From `getent passwd`, and then as for a path.
    AuthorizedKeys(AuthorizedKeysState),
    /// From `getent group`.
    Group(GroupState),
    /// From `dpkg-deb` and `dpkg-query`, or from `rpm`.
    PackageFile(Box<PackageFileState>),
    /// From `/etc/apt/sources.list` and `/etc/apt/sources.list.d`, in the order of the files.
    AptSources(Vec<AptEntry>),
    /// From the files of `/etc/yum.repos.d`.
    DnfSources(DnfSources),
    /// From the file itself.
    Key(KeyFileState),
    /// From `/var/lib/forge` and `systemctl show`.
    Records(Box<RecordsState>),
    /// From `/proc/sys` and the folders of `sysctl.d`.
    Sysctl(SysctlState),
    /// From `/sys/module`, `/lib/modules`, and the folders of `modprobe.d` and `modules-load.d`.
    Module(Box<ModuleState>),
    /// From `/proc/self/mountinfo` and `/etc/fstab`.
    Mount(Box<MountState>),
    /// From `/proc/cmdline` and the boot loader's files.
    Cmdline(Box<CmdlineState>),
    /// From `/boot`, with the programs of initramfs-tools or of dracut, and `modinfo`.
    Initramfs(Box<InitramfsState>),
    /// From the logs of package managers, the journal and `stat`.
    Evidence(Box<EvidenceState>),
    /// One object, from the cluster's API.
    Object(ObjectState),
    /// The objects in a namespace, from the cluster's API.
    Contents(NamespaceContents),
    /// A workload that proves something about the cluster, and its remains, from the cluster's API.
    Proof(Box<ProofState>),
    /// The current objects; `None` if the API does not serve the kind.
    Objects(Option<Vec<serde_json::Value>>),
    /// A cluster API's raw answer for a fact.
    ClusterFact(serde_json::Value),
    /// From `helm` and the cluster's API.
    Release(Box<ReleaseState>),
    /// Output of a check or a fact.
    Output(ProbeOutput),
}

/// The answer of a host to a probe, or why it is unknown.
pub(super) type ProbeAnswer = Result<ProbeReading, UnansweredReason>;

/// The output of a command.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ProbeOutput {
    /// Exit status; 128 + n for signal n.
    pub status: i32,
    /// Standard output up to a cap; invalid UTF-8 is replaced.
    pub stdout: UntrustedText,
    /// Standard error up to a cap; invalid UTF-8 is replaced.
    pub stderr: UntrustedText,
    /// Whether output was cut off at the cap.
    pub truncated: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readings_are_small() {
        assert!(size_of::<ProbeReading>() <= 72, "{} bytes", size_of::<ProbeReading>());
    }
}
