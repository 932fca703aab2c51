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
    Path(PathState),
    Package(Box<PackageState>),
    PackageFamily(Box<PackageFamilyState>),
    PackageManager(PackageManagerState),
    Unit(Box<UnitState>),
    User(UserState),
    Account(ScriptAccount),
    AuthorizedKeys(AuthorizedKeysState),
    Group(GroupState),
    PackageFile(Box<PackageFileState>),
    AptSources(Vec<AptEntry>),
    DnfSources(Vec<DnfEntry>),
    Key(KeyFileState),
    Records(Box<RecordsState>),
    Sysctl(SysctlState),
    Module(Box<ModuleState>),
    Mount(Box<MountState>),
    Cmdline(Box<CmdlineState>),
    Initramfs(Box<InitramfsState>),
    Evidence(Box<EvidenceState>),
    Object(ObjectState),
    Contents(NamespaceContents),
    Proof(Box<ProofState>),
    /// The current objects; `None` if the API does not serve the kind.
    Objects(Option<Vec<serde_json::Value>>),
    /// A cluster API's raw answer for a fact.
    ClusterFact(serde_json::Value),
    Release(Box<ReleaseState>),
    /// Output of a check or a fact.
    Output(ProbeOutput),
}

/// The file at a path.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PathState {
    Absent,
    Present(Box<PathInfo>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PathType {
    File,
    Directory,
    Symlink,
    Other,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PathInfo {
    pub kind: PathType,
    /// Owner by name, or by number if the host has no name for it.
    pub owner: UntrustedText,
    pub group: UntrustedText,
    /// Permission bits, with setuid, setgid and sticky: at most 0o7777.
    pub mode: u32,
    /// Bytes.
    pub size: u64,
    /// Seconds since the epoch; ctime decides restarts, since packages restore mtime.
    pub mtime: f64,
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
    pub fn root_file() -> Self {
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
    NoAccount,
    Account(Box<AuthorizedKeysInfo>),
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AuthorizedKeysInfo {
    /// The account's home directory, and the state of its path.
    pub home: String,
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
    pub fn is_dpkg(&self) -> bool {
        *self == Self::Dpkg
    }
}

/// The state of one package.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PackageState {
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
    #[serde(default, skip_serializing_if = "PackageManagerKind::is_dpkg")]
    pub manager: PackageManagerKind,
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
    pub version: String,
    /// All versions that apt offers, newest first; empty if they were not needed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub available: Vec<String>,
}

/// The state of the package manager as a whole.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PackageManagerState {
    #[serde(default, skip_serializing_if = "PackageManagerKind::is_dpkg")]
    pub kind: PackageManagerKind,
    /// Current holder of dpkg's lock: pid and command line.
    pub lock_holder: Option<(u32, UntrustedText)>,
    /// Packages that are not fully installed: name and dpkg status word.
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
    /// `FragmentPath` and `DropInPaths`.
    pub fragment: String,
    pub drop_ins: Vec<String>,
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
    pub remain_after_exit: bool,
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
    Absent,
    Present(Box<UserInfo>),
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct UserInfo {
    pub uid: u32,
    pub gid: u32,
    /// Name of the primary group, or its number.
    pub group: String,
    pub gecos: UntrustedText,
    pub home: String,
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

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct GroupInfo {
    pub gid: u32,
    /// Accounts listed as members, sorted. Accounts with this primary group are not included.
    pub members: Vec<String>,
}

/// The file at the path of a package file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PackageFileState {
    Absent,
    /// Not a package, with the package manager's message.
    Bad(UntrustedText),
    Present(PackageFileInfo),
}

/// The metadata of a package file.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PackageFileInfo {
    pub name: String,
    pub version: String,
    pub architecture: String,
    /// The installed state of that package; apt's offers are not queried.
    pub installed: PackageState,
}

/// One enabled entry of apt's sources.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct AptEntry {
    /// The file that contains it.
    pub file: String,
    pub uris: Vec<String>,
    pub suites: Vec<String>,
    /// A path, fingerprints or an armored key; empty if there is none.
    pub signed_by: String,
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
    Absent,
    /// Not a regular file, or larger than any key.
    Unfit,
    Present(Vec<u8>),
}

/// Every applied record of a host, by file name, as JSON text, and the key for digests of secrets.
#[derive(Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct RecordsState {
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
    pub stdout: UntrustedText,
    pub stderr: UntrustedText,
    /// Whether output was cut off at the cap.
    pub truncated: bool,
}

/// One kernel setting.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SysctlState {
    pub value: SysctlValue,
    /// All lines of all `sysctl.d` snippets that are not masked.
    pub lines: Vec<ConfLine>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SysctlValue {
    /// The kernel does not have this key at the moment.
    #[default]
    Absent,
    /// The value cannot be read. `fixed` as below.
    Unread { fixed: bool },
    /// `fixed`: not even root can write it here.
    Set { value: String, fixed: bool },
}

/// The current state of a kernel module.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ModulePresence {
    #[default]
    NotLoaded,
    Loaded,
    Builtin,
    /// Being loaded or unloaded.
    Changing,
    /// Not visible on the host, as in most containers.
    Hidden,
}

/// One kernel module and the configuration of modules.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ModuleState {
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
    /// All lines of `modprobe.d` and of `modules-load.d`.
    pub modprobe: Vec<ConfLine>,
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
    pub source: String,
    /// The device behind `source` if that is a link.
    pub device: Option<String>,
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
