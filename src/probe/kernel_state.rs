//! Typed answers about settings and modules of the running kernel.

use super::conf_line::ConfLine;
use crate::model::UntrustedText;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// One kernel setting.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SysctlState {
    /// The value in the running kernel.
    pub value: SysctlValue,
    /// All lines of all `sysctl.d` snippets that are not masked.
    pub lines: Vec<ConfLine>,
    /// Whether `systemd-sysctl.service`, which applies them at boot, is masked.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_masked: bool,
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
    /// Whether the running kernel has an index of its modules, and it lists neither the module nor an alias of this name.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_missing: bool,
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
    /// Whether `systemd-modules-load.service`, which reads `modules-load.d` at boot, is masked.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_load_masked: bool,
    /// The kernel's command line.
    pub cmdline: UntrustedText,
}
