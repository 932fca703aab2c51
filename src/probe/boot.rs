//! Typed answers about how a host boots: the kernel's command line, and its initramfs images.

use crate::model::UntrustedText;
use crate::probe::ConfLine;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The command line of the running kernel, and that of the next boot according to the boot loader.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CmdlineState {
    /// `/proc/cmdline`.
    pub loaded: UntrustedText,
    /// The type of container that the host is: `systemd-nspawn`, `docker`. Empty if it is not a container.
    pub container: String,
    /// The boot loader, with its configuration of the next boot.
    pub loader: BootLoader,
}

/// The configuration of the next boot.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BootLoader {
    /// No boot loader that forge can configure.
    Other {
        /// Paths of existing files of other known boot loaders.
        found: Vec<String>,
    },
    /// GRUB as set up by Debian and Ubuntu: `update-grub` generates the menu from `/etc/default/grub` and its `.d`.
    UpdateGrub {
        /// All lines of these files that contain `GRUB_CMDLINE_LINUX`, in the order in which they are read.
        lines: Vec<ConfLine>,
        /// The menu's entries for Linux.
        entries: Vec<BootEntry>,
    },
    /// The entries that `grubby` keeps, as in RHEL and its derivatives.
    Grubby {
        /// All entries, from `grubby --info=ALL`.
        entries: Vec<BootEntry>,
    },
}

impl Default for BootLoader {
    fn default() -> Self {
        Self::Other { found: Vec::new() }
    }
}

/// One entry of a boot menu.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct BootEntry {
    /// The entry's title in the menu.
    pub title: UntrustedText,
    /// The kernel's arguments.
    pub args: UntrustedText,
    /// Whether it is a rescue entry, which has its own arguments.
    pub rescue: bool,
}

/// The program that creates initramfs images.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum InitramfsMaker {
    /// Neither is installed.
    #[default]
    Unknown,
    /// initramfs-tools: `update-initramfs`, as in Debian and Ubuntu.
    InitramfsTools,
    /// `dracut`, as in RHEL and its derivatives.
    Dracut,
}

/// The initramfs images of the kernels that this host may boot.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct InitramfsState {
    /// The program that creates the images of this host.
    pub maker: InitramfsMaker,
    /// As in [`CmdlineState`].
    pub container: String,
    /// The release of the running kernel.
    pub running: String,
    /// When it was booted, in seconds since the epoch.
    pub booted: f64,
    /// The running kernel first, if it is in `/boot`, then the next one to boot.
    pub images: Vec<EarlyImage>,
    /// The digests of the requested files on the host; `None` if not a regular file.
    pub files: BTreeMap<String, Option<String>>,
}

/// The image of one kernel.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct EarlyImage {
    /// Its release.
    pub kernel: String,
    /// The image's path, whether or not it exists.
    pub path: String,
    /// Its ctime, in seconds since the epoch; `None` if it does not exist.
    pub made: Option<f64>,
    /// Why it could not be read; empty if it was read.
    pub trouble: UntrustedText,
    /// Digests of the requested files inside it.
    pub files: BTreeMap<String, Option<String>>,
    /// State of the requested modules.
    pub modules: BTreeMap<String, ModuleInside>,
}

/// One module, in an image and in the folder of its kernel.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ModuleInside {
    /// Whether it is built into this kernel.
    pub builtin: bool,
    /// The digest of its source from `modinfo`, empty if it has none; `None` if this kernel has no such module.
    pub host: Option<String>,
    /// The same for the module inside the image; `None` if the image does not contain it.
    pub inside: Option<String>,
}
