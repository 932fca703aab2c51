//! What holds for every step of a kind, whatever the step declares. The recipe reader, the planner and the engine decide
//! by these traits and never by the name of a kind.

use crate::probe::{Probe, ProbeReading};

/// The traits of a kind. [`DEFAULT`](Self::DEFAULT) is a kind that runs on hosts and compares by itself.
#[derive(Clone, Copy, Debug)]
pub struct KindTraits {
    /// Steps run through the cluster's API instead of on a host.
    pub in_cluster: bool,
    /// Steps support `restart_on`.
    pub has_restart_inputs: bool,
    /// An action that runs longer than its limit is ended: it is declared to be idempotent. What changes packages or
    /// the boot is not interrupted.
    pub stops_at_limit: bool,
    /// Steps support `long`.
    pub may_be_long: bool,
    /// If not empty, a step needs one of these fields or `restart_on`: otherwise nothing triggers it.
    pub trigger_fields: &'static [&'static str],
    /// If not empty, a step needs one of these fields, which show whether a change is needed.
    pub check_fields: &'static [&'static str],
    /// The field with the commands of the change. A step without it only verifies, so it may have scope `fleet`.
    pub change_field: Option<&'static str>,
    /// The controller downloads what a step declares.
    pub downloads: bool,
    /// The lock file has the digest of what a step downloads.
    pub has_locked_digest: bool,
    /// The resource stops or is unloaded while the recipes in its recipe's `during` change, so a step follows them.
    pub stops_during: bool,
    /// A change restarts a running process, if its inputs changed.
    pub may_restart: bool,
    /// A step waits and changes nothing.
    pub only_waits: bool,
    /// A step removes its resource, also without `ensure: absent`.
    pub only_removes: bool,
    /// A change or removal may remove more than the resource: a home directory, unpacked files.
    pub removes_more: bool,
    /// A change may write or remove files that the step does not name: those of an archive, of an installer.
    pub unpacks_files: bool,
    /// A failed change may be half done, so the report includes the state after it.
    pub fails_halfway: bool,
    /// The kind refuses secrets in all its text with its own reason.
    pub explains_secrets: bool,
    /// What a guard can restore.
    pub guard: GuardSupport,
    /// How far the effects of a change reach.
    pub reach: EffectReach,
    /// Whether a change installs or upgrades packages.
    pub packages: PackageListing,
    /// What an earlier package or command of the plan can change of the resource.
    pub exposure: PackageExposure,
    /// Builds the probe that shows whether a resource of this name still exists, for the claims in records.
    pub claim_probe: Option<fn(&str) -> Option<Probe>>,
    /// Reports whether the reading of that probe shows that the resource of this name is gone, for kinds of which the
    /// reading shows more than one resource.
    pub claim_is_gone: Option<fn(&str, &ProbeReading) -> bool>,
}

/// How far the effects of a change reach.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EffectReach {
    /// Only to the resource.
    Resource,
    /// Also to the state of the host that depends on the resource.
    Host,
    /// Not declared: files, units and accounts may appear, change or disappear.
    Unknown,
}

/// What a guard can restore after a change of a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GuardSupport {
    /// Nothing: steps do not support `guard`.
    None,
    /// The state before the change.
    Own,
    /// Only what the steps in its `restart_on` changed; then the step runs again.
    Inputs,
}

/// Whether a change installs or upgrades packages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PackageListing {
    /// Never.
    None,
    /// The changes of the step list the versions.
    Listed,
    /// The changes of the step do not show which packages are new and which are upgraded.
    Unlisted,
}

/// What an earlier package or command of the plan can change of a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PackageExposure {
    /// Nothing.
    None,
    /// Anything.
    Unknown,
    /// Its files, if they are in directories of packages or may be created with them.
    Files,
    /// As `Files`; packages may bring back what the step removes.
    Removal,
    /// A directory, which may be created.
    Directory,
    /// A process, which is started when its package is installed and restarted when it is upgraded.
    Process,
}

impl KindTraits {
    /// A kind that runs on hosts and compares by itself, and whose changes may reach the host's state.
    pub const DEFAULT: Self = Self {
        in_cluster: false,
        has_restart_inputs: false,
        stops_at_limit: false,
        may_be_long: false,
        trigger_fields: &[],
        check_fields: &[],
        change_field: None,
        downloads: false,
        has_locked_digest: false,
        stops_during: false,
        may_restart: false,
        only_waits: false,
        only_removes: false,
        removes_more: false,
        unpacks_files: false,
        fails_halfway: false,
        explains_secrets: false,
        guard: GuardSupport::None,
        reach: EffectReach::Host,
        packages: PackageListing::None,
        exposure: PackageExposure::None,
        claim_probe: None,
        claim_is_gone: None,
    };

    /// A kind whose steps write files and do nothing else.
    pub const WRITES_FILES: Self = Self {
        guard: GuardSupport::Own,
        reach: EffectReach::Resource,
        exposure: PackageExposure::Files,
        ..Self::DEFAULT
    };

    /// A kind of objects of the cluster's API.
    pub const IN_CLUSTER: Self = Self { in_cluster: true, ..Self::DEFAULT };

    /// Reports whether a change may write or remove files that the step does not name.
    pub fn may_touch_other_files(&self) -> bool {
        self.unpacks_files || self.reach == EffectReach::Unknown
    }

    /// Reports whether a change may remove things that cannot be predicted.
    pub fn may_remove_more(&self) -> bool {
        self.removes_more || self.reach == EffectReach::Unknown
    }
}
