//! What differs between declared kernel arguments and the configuration of the next boot.

use super::grub::GrubOverride;
use super::kernel_arguments::{ArgumentMismatch, KernelArgument, join_arguments};
use crate::model::BootMenuUndo;
use crate::resource::shared::composite::render_part;
use crate::resource::shared::file_target::FileDiff;
use crate::resource::{AttributeChange, ChangedPart, ResourceDiff};
use serde::Serialize;
use std::collections::BTreeSet;

/// The part that covers the arguments which the boot loader passes to the next kernel.
pub(super) const NEXT_BOOT: &str = "next boot";

/// How the next boot differs, and the program that configures it. Loaded arguments are no difference: only a reboot
/// changes them.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) enum CmdlineDiff {
    /// `update-grub` generates the menu anew, from the step's own file and others.
    UpdateGrub { file: Option<Box<FileDiff>>, next_boot: Option<NextBootDiff> },
    /// `grubby` changes the entries of the menu.
    Grubby(NextBootDiff),
    /// There is no known boot loader yet; an earlier step may install one, so its entries are not known.
    NoLoader,
}

impl ResourceDiff for CmdlineDiff {
    fn render_changes(&self) -> Vec<AttributeChange> {
        match self {
            Self::UpdateGrub { file, next_boot } => {
                let next_boot = render_part(NEXT_BOOT, ChangedPart::Main, next_boot.as_ref());
                render_part("file", ChangedPart::File, file.as_deref()).into_iter().chain(next_boot).collect()
            }
            Self::Grubby(next_boot) => render_part(NEXT_BOOT, ChangedPart::Main, Some(next_boot)),
            Self::NoLoader => vec![AttributeChange::new(NEXT_BOOT, None, None)],
        }
    }
}

/// How the menu of the boot loader differs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) enum NextBootDiff {
    /// Entries have other arguments.
    Arguments {
        /// The differences of the first such entry; for a removal, those of all entries together.
        mismatches: Vec<ArgumentMismatch>,
        /// The arguments that any entry has and none may have, sorted.
        remove: Vec<String>,
        /// Whether all entries differ in the same way.
        uniform: bool,
    },
    /// A line that GRUB reads after the step's own file, and that an earlier step may remove.
    Overridden(GrubOverride),
}

impl CmdlineDiff {
    /// Returns how the menu gets its former arguments; `None` if they are not known.
    pub fn undo_boot_menu(&self) -> Option<BootMenuUndo> {
        match self {
            Self::UpdateGrub { file: Some(_), .. } => Some(BootMenuUndo::UpdateGrub),
            Self::Grubby(next_boot) => {
                let (add, new) = next_boot.former_arguments()?;
                let mut remove = next_boot.list_wanted_names();
                remove.extend(new);
                Some(BootMenuUndo::Grubby { remove: remove.into_iter().collect(), add })
            }
            Self::UpdateGrub { file: None, .. } | Self::NoLoader => None,
        }
    }
}

impl NextBootDiff {
    pub fn new<'a>(
        mismatches: Vec<ArgumentMismatch>,
        remove: impl Iterator<Item = &'a KernelArgument>,
        uniform: bool,
    ) -> Self {
        let mut remove: Vec<String> = remove.map(|word| word.text.clone()).collect();
        remove.sort_unstable();
        remove.dedup();
        Self::Arguments { mismatches, remove, uniform }
    }

    /// Returns the former arguments of the names that change, and the names that had none. `None` if entries differ
    /// from one another.
    pub fn former_arguments(&self) -> Option<(Vec<String>, Vec<String>)> {
        let Self::Arguments { mismatches, uniform: true, .. } = self else { return None };
        let had = mismatches.iter().flat_map(|mismatch| &mismatch.have).map(|word| word.text.clone());
        let new = mismatches.iter().filter(|mismatch| mismatch.have.is_empty()).flat_map(|mismatch| &mismatch.want);
        let mut new: Vec<String> = new.map(|word| word.name.clone()).collect();
        new.dedup();
        Some((had.collect(), new))
    }

    /// Returns the names of the arguments that the change sets.
    fn list_wanted_names(&self) -> BTreeSet<String> {
        let Self::Arguments { mismatches, .. } = self else { return BTreeSet::new() };
        mismatches.iter().flat_map(|mismatch| &mismatch.want).map(|word| word.name.clone()).collect()
    }

    /// Returns the arguments that a change removes from the entries.
    pub fn arguments_to_remove(&self) -> &[String] {
        match self {
            Self::Arguments { remove, .. } => remove,
            Self::Overridden(_) => &[],
        }
    }
}

impl ResourceDiff for NextBootDiff {
    fn render_changes(&self) -> Vec<AttributeChange> {
        let change = match self {
            Self::Arguments { mismatches, .. } => {
                let have = join_sides(mismatches.iter().map(|mismatch| &mismatch.have));
                let want = join_sides(mismatches.iter().map(|mismatch| &mismatch.want));
                AttributeChange::new(NEXT_BOOT, have.as_deref(), want.as_deref())
            }
            Self::Overridden(over) => AttributeChange::new(NEXT_BOOT, Some(&over.place), None),
        };
        vec![change]
    }
}

fn join_sides<'a>(sides: impl Iterator<Item = &'a Vec<KernelArgument>>) -> Option<String> {
    let texts: Vec<String> = sides.map(|side| join_arguments(side)).filter(|text| !text.is_empty()).collect();
    (!texts.is_empty()).then(|| texts.join(" "))
}
