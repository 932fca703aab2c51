//! The typed meaning of a change. The label of a change is for people; code decides by its mark.

use std::hash::{Hash, Hasher};

/// What a change is about. The kind sets it together with the label, so changes of a step that are shown alike have the
/// same mark: it adds nothing to a comparison, and documents do not contain it.
#[derive(Clone, Debug, Default)]
pub struct ChangeMark {
    /// What differs.
    pub aspect: ChangeAspect,
    /// The part of the resource that differs.
    pub part: ChangedPart,
    /// The package or path that differs, if the step declares several.
    pub member: Option<Box<str>>,
    /// Where records have its value.
    pub recorded: RecordedValue,
}

impl PartialEq for ChangeMark {
    fn eq(&self, _other: &Self) -> bool {
        true
    }
}

impl Eq for ChangeMark {}

impl Hash for ChangeMark {
    fn hash<H: Hasher>(&self, _state: &mut H) {}
}

/// Where a recorded declaration has the value of an attribute, in the words of the observation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RecordedValue {
    /// Under the name of the attribute, if at all.
    #[default]
    Named,
    /// At this JSON pointer.
    At(&'static str),
    /// Not literally: two declarations that are equal at these JSON pointers declare the same value.
    ImpliedBy(&'static [&'static str]),
}

/// What differs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ChangeAspect {
    /// Anything else.
    #[default]
    Other,
    /// The step as a whole: it differs, and no single attribute of it does.
    Whole,
    /// Whether the object exists.
    Existence,
    /// The content of a file or a part of it, or the target of a link.
    Content,
    /// The owner of a path.
    Owner,
    /// The group of a path, and its permission bits.
    Permissions,
    /// The version of a package, or whether it is installed.
    Version,
    /// Whether a package is held.
    Hold,
    /// Whether a unit starts at boot, or is masked.
    Enablement,
    /// Whether a unit runs.
    RunState,
    /// A value or a module in the running kernel.
    Loaded,
    /// Whether a file system is mounted.
    Mounted,
}

impl ChangeAspect {
    /// Returns whether its values may be content of the object, which can be secret.
    pub(super) fn tells_content(self) -> bool {
        matches!(self, Self::Other | Self::Whole | Self::Existence | Self::Content)
    }
}

/// A part of a resource that consists of several.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ChangedPart {
    /// The resource itself.
    #[default]
    Main,
    /// The file that configures it.
    File,
    /// The file of a timer's service.
    ServiceFile,
    /// The file of a timer.
    TimerFile,
    /// A module's file in `modprobe.d`.
    ModprobeFile,
    /// A module's file in `modules-load.d`.
    LoadFile,
    /// A line of `/etc/fstab`.
    FstabEntry,
    /// The unit that systemd makes of that line.
    MountUnit,
}

/// The object that a change concerns, as a host's logs name it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ChangedObject {
    /// Packages, by name.
    Packages(Vec<String>),
    /// An absolute path.
    Path(String),
    /// A systemd unit, with its suffix.
    Unit(String),
    /// A kernel setting, with dots.
    Sysctl(String),
    /// An account or a group.
    Account(String),
    /// A kernel module.
    Module(String),
    /// A mount point.
    Mount(String),
    /// The kernel version or its boot parameters.
    Kernel,
    /// An object that logs do not name.
    #[default]
    Nameless,
}
