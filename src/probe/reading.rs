//! Typed answers.

use super::conf_line::ConfLine;
use super::{CmdlineState, EvidenceState, InitramfsState};
use crate::model::UntrustedText;
use crate::object::{NamespaceContents, ObjectState, ProofState, ReleaseState};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

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
    DnfSources(Vec<DnfEntry>),
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

/// The file at a path.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PathState {
    /// Nothing exists at the path, or one of its parents is not a directory.
    Absent,
    /// Something exists; a symbolic link is not followed.
    Present(Box<PathInfo>),
}

/// What a path names, from the mode that `stat` prints.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PathType {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link, with or without a target that exists.
    Symlink,
    /// A device, a pipe or a socket.
    Other,
}

/// What `stat` prints about a path, and the digest or body of a file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PathInfo {
    /// The type of the path itself, not of a link's target.
    pub kind: PathType,
    /// Owner by name, or by number if the host has no name for it.
    pub owner: UntrustedText,
    /// Group by name, or by number if the host has no name for it.
    pub group: UntrustedText,
    /// Permission bits, with setuid, setgid and sticky: at most 0o7777.
    pub mode: u32,
    /// Bytes.
    pub size: u64,
    /// When the content last changed, in seconds since the epoch, with the fraction that the file system stores.
    /// Packages restore the time of their files.
    pub mtime: f64,
    /// When content, owner or mode last changed, in the same form. It decides restarts: no program can set it.
    pub ctime: f64,
    /// Lowercase hex SHA-256 of a regular file. `None` for other types, or when it could not be read.
    pub sha256: Option<String>,
    /// The body, if it was requested, differs, is small and is UTF-8 without NUL.
    pub body: Option<UntrustedText>,
    /// The target of a symbolic link.
    pub target: Option<UntrustedText>,
}

impl PathInfo {
    /// Builds an empty file of root.
    pub(crate) fn root_file() -> Self {
        Self {
            kind: PathType::File,
            owner: "root".into(),
            group: "root".into(),
            mode: 0o644,
            size: 0,
            mtime: 0.0,
            ctime: 0.0,
            sha256: None,
            body: None,
            target: None,
        }
    }
}

/// The `authorized_keys` of an account, with the folders above it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AuthorizedKeysState {
    /// The host has no such account.
    NoAccount,
    /// The account exists, with or without a home and keys.
    Account(Box<AuthorizedKeysInfo>),
}

/// The paths from an account's home to its keys.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AuthorizedKeysInfo {
    /// The account's home directory, from `getent passwd`.
    pub home: String,
    /// The state of that path.
    pub home_at: PathState,
    /// `.ssh` in it.
    pub folder: PathState,
    /// `.ssh/authorized_keys`, with its body if it is small and is text.
    pub file: PathState,
}

/// The package database that a package is in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PackageManagerKind {
    /// dpkg, with apt.
    #[default]
    Dpkg,
    /// rpm, with dnf.
    Rpm,
}

impl PackageManagerKind {
    /// Reports whether it is dpkg.
    pub(crate) fn is_dpkg(&self) -> bool {
        *self == Self::Dpkg
    }
}

/// The state of one package.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PackageState {
    /// The database that answered. rpm answers only if dpkg has no packages.
    #[serde(default, skip_serializing_if = "PackageManagerKind::is_dpkg")]
    pub manager: PackageManagerKind,
    /// Installed version; `None` if no version is unpacked.
    pub version: Option<String>,
    /// The third word of dpkg's status: `installed`, `half-configured`, `config-files`, `not-installed` …
    pub status: String,
    /// Whether dpkg's selection is `hold`, or dnf's versionlock names it.
    pub held: bool,
    /// Why the package manager does not support holds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cannot_hold: Option<String>,
    /// The version that apt would install; `None` if apt offers none. Read from apt's lists, not the network.
    pub candidate: Option<String>,
    /// All versions apt offers, newest first.
    pub available: Vec<String>,
    /// Why apt's offers were not read: an error, or they were not needed. `candidate` and `available` are then
    /// meaningless.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offers_unknown: Option<String>,
}

/// The installed packages of a family, in the order of their names.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PackageFamilyState {
    /// The database that answered.
    #[serde(default, skip_serializing_if = "PackageManagerKind::is_dpkg")]
    pub manager: PackageManagerKind,
    /// The packages whose names match a pattern, also partly installed ones.
    pub members: Vec<FamilyMember>,
    /// Why apt's offers of the members could not be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offers_unknown: Option<String>,
}

/// One installed package of a family.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FamilyMember {
    /// The name, with its architecture if that is a foreign one.
    pub name: String,
    /// The installed version with epoch and revision, as dpkg or rpm print it.
    pub version: String,
    /// All versions that apt offers, newest first; empty if they were not needed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub available: Vec<String>,
}

/// The state of the package manager as a whole.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PackageManagerState {
    /// The package manager that the host uses.
    #[serde(default, skip_serializing_if = "PackageManagerKind::is_dpkg")]
    pub kind: PackageManagerKind,
    /// Current holder of a lock of the package manager: pid and command line. `None` if no process holds one.
    pub lock_holder: Option<(u32, UntrustedText)>,
    /// Packages that are not fully installed: name and dpkg status word. Always empty for rpm.
    pub broken: BTreeMap<String, String>,
}

/// The state of one systemd unit, from `systemctl show`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct UnitState {
    /// `LoadState`: `loaded`, `not-found`, `masked`, `error` …
    pub load: String,
    /// `ActiveState`: `active`, `inactive`, `failed`, `activating` …
    pub active: String,
    /// `SubState`.
    pub sub: String,
    /// `UnitFileState`: `enabled`, `disabled`, `static`, `masked`, … empty if there is none.
    pub file_state: String,
    /// `NeedDaemonReload`.
    pub need_daemon_reload: bool,
    /// `InvocationID`, empty if the unit was never started.
    pub invocation: String,
    /// `FragmentPath`, the file that defines the unit; empty if there is none.
    pub fragment: String,
    /// `DropInPaths`, in the order in which systemd reads them.
    pub drop_ins: Vec<String>,
    /// `MainPID`; 0 if no main process runs.
    pub main_pid: u32,
    /// When the unit became active, seconds since the epoch; 0 if never.
    pub active_since: f64,
    /// When the main process started, seconds since the epoch; 0 if there is none.
    pub main_started: f64,
    /// Whether these times are whole seconds, rounded down (systemd before 248): events within the same second may have
    /// happened before or after.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub coarse_times: bool,
    /// Executable or mapped libraries of the main process that are deleted on disk.
    pub deleted: Vec<UntrustedText>,
    /// Whether the mapped files of the main process could not be read: `deleted` is then meaningless.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub maps_unread: bool,
    /// `Result`, `success` if there was no failure.
    pub result: String,
    /// `Type`: `simple`, `oneshot`, …
    pub service_type: String,
    /// `RemainAfterExit`: the unit stays active after its processes have ended.
    pub remain_after_exit: bool,
    /// `CanReload`: the unit can read its configuration again without a restart.
    pub can_reload: bool,
    /// Next elapse time of a timer by the clock, seconds since the epoch; 0 if it has none.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub next_elapse: f64,
}

fn is_zero(value: &f64) -> bool {
    *value == 0.0
}

/// One account.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UserState {
    /// `getent` knows no such account.
    Absent,
    /// The account exists, locally or in a directory service.
    Present(Box<UserInfo>),
}

/// One account: its line of `passwd`, its groups, and whether it has a password.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct UserInfo {
    /// The number of the account.
    pub uid: u32,
    /// The number of its primary group.
    pub gid: u32,
    /// Name of the primary group, or its number.
    pub group: String,
    /// The comment field, by custom the full name.
    pub gecos: UntrustedText,
    /// The home directory, whether or not it exists.
    pub home: String,
    /// The login shell; empty for `/bin/sh`.
    pub shell: String,
    /// Supplementary groups, sorted, without the primary one.
    pub groups: Vec<String>,
    /// Whether the password is locked (`!` or `*`); `None` if shadow could not be read.
    pub locked: Option<bool>,
}

/// The account that scripts run as.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ScriptAccount {
    /// The effective user is 0.
    Root,
    /// By name, or by number if the host has no name for it.
    Other(UntrustedText),
}

/// One group, and which other group has the requested number.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct GroupState {
    /// `None` if the group does not exist.
    pub group: Option<GroupInfo>,
    /// Another group with the declared number.
    pub gid_of: Option<String>,
}

/// One group: its line of `group`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct GroupInfo {
    /// The number of the group.
    pub gid: u32,
    /// Accounts listed as members, sorted. Accounts with this primary group are not included.
    pub members: Vec<String>,
}

/// The file at the path of a package file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PackageFileState {
    /// Nothing exists at the path.
    Absent,
    /// Not a package, with the package manager's message.
    Bad(UntrustedText),
    /// A package, by its own metadata: signatures and digests are not verified.
    Present(PackageFileInfo),
}

/// The metadata of a package file.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PackageFileInfo {
    /// The name of the package in the file.
    pub name: String,
    /// Its version with epoch and revision.
    pub version: String,
    /// Its architecture in the words of the package manager: `amd64`, `all`, `x86_64`, `noarch`.
    pub architecture: String,
    /// The installed state of that package; apt's offers are not queried.
    pub installed: PackageState,
}

/// One enabled entry of apt's sources.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct AptEntry {
    /// The file that contains it.
    pub file: String,
    /// Addresses of repositories, as written; one in the one-line style.
    pub uris: Vec<String>,
    /// Suites, or paths that end in `/`; one in the one-line style.
    pub suites: Vec<String>,
    /// `Signed-By`: a path, fingerprints or an armored key; empty if there is none.
    pub signed_by: String,
    /// `Trusted` as written, for example `yes`; empty if there is none. apt then accepts an unsigned repository.
    pub trusted: String,
}

/// One section of dnf's repository files.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DnfEntry {
    /// The file that contains it.
    pub file: String,
    /// The repository's id.
    pub id: String,
}

/// The file at the path of a key.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KeyFileState {
    /// Nothing exists at the path.
    Absent,
    /// Not a regular file, or larger than any key.
    Unfit,
    /// The bytes of the file: at most 256 KiB, and not necessarily a key.
    Present(Vec<u8>),
}

/// Every applied record of a host, by file name, as JSON text, and the key for digests of secrets.
#[derive(Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct RecordsState {
    /// The JSON text of each record, by its file name in `/var/lib/forge/applied`. May be malformed.
    pub records: BTreeMap<String, UntrustedText>,
    /// Hex of the host's 32-byte key; never recorded or shown.
    #[serde(skip)]
    pub key: Option<String>,
    /// Running `forge-*` units: name and start time.
    pub running: Vec<(String, UntrustedText)>,
    /// The record of an open window, as it was written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window: Option<UntrustedText>,
}

/// Omits the key.
impl std::fmt::Debug for RecordsState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RecordsState")
            .field("records", &self.records)
            .field("running", &self.running)
            .field("window", &self.window)
            .finish_non_exhaustive()
    }
}

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

/// One kernel setting.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SysctlState {
    /// The value in the running kernel.
    pub value: SysctlValue,
    /// All lines of all `sysctl.d` snippets that are not masked.
    pub lines: Vec<ConfLine>,
}

/// The value of a kernel setting, from its file in `/proc/sys`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SysctlValue {
    /// The kernel does not have this key at the moment.
    #[default]
    Absent,
    /// The key exists, but its value cannot be read.
    Unread {
        /// Whether not even root can write the value here.
        fixed: bool,
    },
    /// The key exists and has a value.
    Set {
        /// The text of the file, without the last line break: numbers may be separated by tabs.
        value: String,
        /// Whether not even root can write the value here.
        fixed: bool,
    },
}

/// The current state of a kernel module.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ModulePresence {
    /// Neither loaded nor built in.
    #[default]
    NotLoaded,
    /// Loaded and in use or ready for use.
    Loaded,
    /// Part of the kernel itself: it cannot be unloaded.
    Builtin,
    /// Being loaded or unloaded.
    Changing,
    /// Not visible on the host, as in most containers.
    Hidden,
}

/// One kernel module and the configuration of modules.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ModuleState {
    /// Whether the running kernel has the module now.
    pub presence: ModulePresence,
    /// Whether the running kernel's index lists a file of it.
    pub available: bool,
    /// Whether the running kernel supports loadable modules.
    pub loadable: bool,
    /// Its use count; `None` if it is not loaded or the kernel cannot unload modules.
    pub refcount: Option<u64>,
    /// Modules that use it.
    pub holders: Vec<String>,
    /// Readable effective parameters.
    pub parameters: BTreeMap<String, UntrustedText>,
    /// All lines of `modprobe.d`, for any module; continued lines are joined.
    pub modprobe: Vec<ConfLine>,
    /// All lines of `modules-load.d`, for any module.
    pub modules_load: Vec<ConfLine>,
    /// The kernel's command line.
    pub cmdline: UntrustedText,
}

/// The mounts at a path, and its fstab entries.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MountState {
    /// From the bottom up: the last one is visible at the path.
    pub mounts: Vec<ObservedMount>,
    /// Paths of mounts below it.
    pub below: Vec<String>,
    /// The lines of fstab for it.
    pub fstab: Vec<FstabLine>,
    /// The device that the requested source names (a tag or a link); `None` if it names none here.
    pub device: Option<String>,
    /// The root that a bind mount of the requested source would have, with its file system's number: `8:1 /srv/a`.
    pub bind: Option<String>,
}

/// One mount, from `/proc/self/mountinfo`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ObservedMount {
    /// The source as it was mounted: a device, `SERVER:/PATH`, or a word such as `tmpfs`.
    pub source: String,
    /// The device behind `source`, links followed; `None` if it names no device here.
    pub device: Option<String>,
    /// The type of the file system: `ext4`, `nfs4`.
    pub fstype: String,
    /// Options of the mount and of its file system.
    pub options: Vec<String>,
    /// Number of the file system and the path in it: `8:1 /srv/a`.
    pub root: String,
}

/// One entry of fstab.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FstabLine {
    /// Counted from 1.
    pub line: u64,
    /// The line's original text.
    pub text: UntrustedText,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readings_are_small() {
        assert!(size_of::<ProbeReading>() <= 72, "{} bytes", size_of::<ProbeReading>());
    }
}
