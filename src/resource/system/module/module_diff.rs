//! What differs between a declared module and a host.

use crate::resource::shared::composite::render_part;
use crate::resource::shared::file_target::FileDiff;
use crate::resource::{AttributeChange, ChangeAspect, ChangedPart, ResourceDiff};
use serde::Serialize;

pub(super) const MODPROBE: &str = "modprobe.d";
pub(super) const MODULES_LOAD: &str = "modules-load.d";

/// How a kernel module differs.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(super) struct ModuleDiff {
    /// The step's own file in `modprobe.d`.
    pub modprobe: Option<FileDiff>,
    /// The step's own file in `modules-load.d`.
    pub modules_load: Option<FileDiff>,
    pub others: Option<OverrideDiff>,
    pub loaded: Option<LoadedDiff>,
}

impl ResourceDiff for ModuleDiff {
    fn render_changes(&self) -> Vec<AttributeChange> {
        let modprobe = render_part(MODPROBE, ChangedPart::ModprobeFile, self.modprobe.as_ref());
        let modules_load = render_part(MODULES_LOAD, ChangedPart::LoadFile, self.modules_load.as_ref());
        let others = render_part("others", ChangedPart::Main, self.others.as_ref());
        let loaded = render_part("loaded", ChangedPart::Main, self.loaded.as_ref());
        [modprobe, modules_load, others, loaded].concat()
    }
}

/// Another source overrides the step's own files, or the running kernel has no such module, and an earlier step may change
/// that. This step has no commands for it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct OverrideDiff {
    /// `file:line`, the kernel command line, or what the kernel lacks.
    pub place: String,
}

impl ResourceDiff for OverrideDiff {
    fn render_changes(&self) -> Vec<AttributeChange> {
        vec![AttributeChange::new("others", Some(&self.place), None)]
    }
}

/// How the state in the kernel differs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(super) enum LoadedDiff {
    /// The module is not loaded.
    Load,
    /// The module is loaded.
    Unload,
}

impl ResourceDiff for LoadedDiff {
    fn render_changes(&self) -> Vec<AttributeChange> {
        let (from, to) = match self {
            Self::Load => ("not loaded", "loaded"),
            Self::Unload => ("loaded", "not loaded"),
        };
        vec![AttributeChange::new("loaded", Some(from), Some(to)).with_aspect(ChangeAspect::Loaded)]
    }
}
