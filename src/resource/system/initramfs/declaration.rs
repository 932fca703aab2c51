//! The declaration of the content of the initramfs images.

use crate::probe::Probe;

#[derive(Debug)]
pub(super) struct InitramfsResource {
    pub(super) files: Vec<String>,
    pub(super) lacks: Vec<String>,
    /// Files that are in the image if, and as, they are on the host.
    pub(super) as_host: Vec<String>,
    pub(super) modules: Vec<String>,
    pub(super) lacks_modules: Vec<String>,
    pub(super) current_modules: Vec<String>,
    pub(super) all: bool,
    pub(super) booted: bool,
    pub(super) image: Option<String>,
    pub(super) absent: bool,
}

impl InitramfsResource {
    pub(super) fn probe(&self) -> Probe {
        let files = self.declared_files().cloned().collect();
        Probe::Initramfs { files, modules: self.declared_modules().cloned().collect(), all: self.all }
    }

    /// Returns the paths of all declared files.
    pub(super) fn declared_files(&self) -> impl Iterator<Item = &String> {
        self.files.iter().chain(&self.lacks).chain(&self.as_host)
    }

    /// Returns the names of all declared modules.
    pub(super) fn declared_modules(&self) -> impl Iterator<Item = &String> {
        self.modules.iter().chain(&self.lacks_modules).chain(&self.current_modules)
    }
}
