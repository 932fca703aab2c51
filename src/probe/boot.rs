//! Typed answers about how a host boots: the kernel's command line, and the images that it boots with.

use crate::model::Untrusted;
use crate::probe::ConfLine;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The command line of the running kernel, and what the boot loader is going to give the next one.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CmdlineState {
    /// `/proc/cmdline`.
    pub loaded: Untrusted,
    /// What the host is a container of: `systemd-nspawn`, `docker`. Empty for none.
    pub container: String,
    pub loader: Loader,
}

/// What configures the next boot.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Loader {
    /// None that forge can configure; `found` are the files of others that were looked for and are there.
    Other { found: Vec<String> },
    /// GRUB as Debian and Ubuntu set it up: `update-grub` makes the menu from `/etc/default/grub` and its `.d`.
    UpdateGrub {
        /// Every line of these files that names `GRUB_CMDLINE_LINUX`, in the order in which they are read.
        lines: Vec<ConfLine>,
        /// The menu's entries of Linux.
        entries: Vec<BootEntry>,
    },
    /// The entries that `grubby` keeps.
    Grubby { entries: Vec<BootEntry> },
}

impl Default for Loader {
    fn default() -> Self {
        Self::Other { found: Vec::new() }
    }
}

/// One entry of a boot menu.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct BootEntry {
    pub title: Untrusted,
    /// What the kernel is given.
    pub args: Untrusted,
    /// Whether it is there for repairs: its arguments are its own.
    pub rescue: bool,
}

/// The program that makes early images.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Maker {
    /// Neither is installed.
    #[default]
    Unknown,
    InitramfsTools,
    Dracut,
}

/// The images that kernels begin with, of the kernels that this host may boot.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct InitramfsState {
    pub maker: Maker,
    /// As in [`CmdlineState`].
    pub container: String,
    /// The release of the running kernel.
    pub running: String,
    /// When it was booted, in seconds since the epoch.
    pub booted: f64,
    /// The running kernel first, if it is in `/boot`, then the one that is booted next.
    pub images: Vec<EarlyImage>,
    /// The digests of the asked files on the host; `None` for no regular file.
    pub files: BTreeMap<String, Option<String>>,
}

/// The image of one kernel.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct EarlyImage {
    /// Its release.
    pub kernel: String,
    /// Where the image is, or would be.
    pub path: String,
    /// Its ctime, in seconds since the epoch; `None` where there is none.
    pub made: Option<f64>,
    /// Why it could not be read; empty when it was.
    pub trouble: Untrusted,
    /// Digests of the asked files inside it.
    pub files: BTreeMap<String, Option<String>>,
    /// What is known of the asked modules.
    pub modules: BTreeMap<String, ModuleInside>,
}

/// One module, in an image and in the folder of its kernel.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ModuleInside {
    /// Whether this kernel has it built in.
    pub builtin: bool,
    /// The digest of its source as `modinfo` tells it, empty where it has none; `None` if this kernel has no such
    /// module.
    pub host: Option<String>,
    /// The same of the module inside the image; `None` if none is inside.
    pub inside: Option<String>,
}
