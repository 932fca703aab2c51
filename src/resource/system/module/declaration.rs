//! The declaration of a kernel module.

use super::module_diff::{MODPROBE, MODULES_LOAD};
use crate::probe::Probe;
use crate::resource::shared::file_target::FileTarget;
use std::collections::BTreeMap;

#[derive(Debug)]
pub(super) struct KernelModuleResource {
    /// With underscores.
    pub(super) name: String,
    pub(super) loaded: Option<bool>,
    pub(super) at_boot: Option<bool>,
    pub(super) blacklisted: bool,
    pub(super) options: BTreeMap<String, String>,
    pub(super) hidden: Vec<String>,
    pub(super) denied: BTreeMap<String, String>,
    pub(super) modprobe: FileTarget,
    pub(super) modules_load: FileTarget,
    pub(super) absent: bool,
}

impl KernelModuleResource {
    pub(super) fn probe(&self) -> Probe {
        Probe::Module { name: self.name.clone() }
    }

    fn needs_modprobe_conf(&self) -> bool {
        !self.absent && (self.blacklisted || !self.options.is_empty())
    }

    fn needs_modules_load_conf(&self) -> bool {
        !self.absent && self.at_boot == Some(true)
    }

    pub(super) fn conf_files(&self) -> [(&'static str, &FileTarget, bool); 2] {
        [
            (MODPROBE, &self.modprobe, self.needs_modprobe_conf()),
            (MODULES_LOAD, &self.modules_load, self.needs_modules_load_conf()),
        ]
    }
}
