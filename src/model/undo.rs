//! How a change can be undone: the paths that are copied before it, and declarations of the state before it.

use super::Value;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How the change of one step can be undone. A kind derives it from its differences.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct UndoEffect {
    /// Files and links that are copied before the change and restored by the undo; those that do not exist yet are
    /// removed by it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub paths: Vec<String>,
    /// Declarations of the state before the change.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<UndoDeclaration>,
    /// Files that the change made and that `steps` remove: one that was changed after the run is not removed. They are
    /// among `boot.paths`, so the journal has their state after the change.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub removes: Vec<String>,
    /// What the undo leaves unchanged: lowercase fragments.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remains: Vec<String>,
    /// What the undo cannot restore although it restores the rest: a lowercase fragment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lost: Option<String>,
    /// Why the change cannot be undone, if it cannot: a lowercase fragment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub irreversible: Option<String>,
    /// What else decides how the host boots: the guard of a reboot restores it together with `paths`.
    #[serde(default, skip_serializing_if = "BootUndo::is_empty")]
    pub boot: BootUndo,
}

/// What a change did to the next boot besides its files. The host restores it without forge if that boot does not finish.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BootUndo {
    /// Files and links that only the guard of a reboot restores: an undo declares the former state instead, or does not
    /// undo the change.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub paths: Vec<String>,
    /// Units that started at boot, or did not.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub units: Vec<UnitAtBoot>,
    /// Initramfs images that were built again. The copy from before is next to each: `IMAGE.forge-RUN`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub images: Vec<String>,
    /// How the boot loader's menu gets its former arguments.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub menu: Option<BootMenuUndo>,
}

/// Whether a unit started at boot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct UnitAtBoot {
    /// The name with its type: `nginx.service`.
    pub name: String,
    /// Whether it was enabled.
    pub enabled: bool,
}

/// How the boot loader's menu gets its former arguments.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum BootMenuUndo {
    /// `update-grub` generates it from the restored files.
    UpdateGrub,
    /// `grubby` changes every entry.
    Grubby {
        /// The names of arguments that are removed.
        remove: Vec<String>,
        /// The arguments that are added after that.
        add: Vec<String>,
    },
}

impl BootUndo {
    /// Reports whether the change concerns the next boot only through its files.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// A resource in the state before a change, as a step declares it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct UndoDeclaration {
    /// The kind of resource: `package`, `service` …
    pub kind: String,
    /// Whether the resource did not exist.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub absent: bool,
    /// The fields of the kind.
    pub fields: Value,
    /// Whether its process uses what other steps of the same run changed, so that it has to restart once these are
    /// undone.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub restarts: bool,
    /// Whether it is about another resource, which changed together with that of the step, and is declared once all
    /// others are undone.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub follows: bool,
}

/// How long a host keeps what an undo needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UndoRetention {
    /// The number of runs that changed the host.
    pub runs: u32,
    /// The age of a run in days; `None` for any age.
    pub days: Option<u32>,
}

impl Default for UndoRetention {
    fn default() -> Self {
        Self { runs: 20, days: None }
    }
}

impl UndoEffect {
    /// Returns the effect of a change that concerns only files and links.
    pub fn restore_paths(paths: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self { paths: paths.into_iter().map(Into::into).collect(), ..Self::default() }
    }

    /// Returns the effect of a change after which a resource has to be declared as it was.
    pub fn declare(steps: Vec<UndoDeclaration>) -> Self {
        Self { steps, ..Self::default() }
    }

    /// Returns the effect of a change that cannot be undone.
    pub fn irreversible(why: &str) -> Self {
        Self { irreversible: Some(why.to_owned()), ..Self::default() }
    }

    /// Reports whether the change left nothing to undo.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Returns the effect of a change that an undo does not take back, with all that the guard of a reboot restores.
    pub fn keep_for_boot(self, irreversible: &str) -> Self {
        let paths = self.paths.into_iter().chain(self.boot.paths).collect();
        Self { boot: BootUndo { paths, ..self.boot }, ..Self::irreversible(irreversible) }
    }

    /// Returns all paths that are copied before the change.
    pub fn list_copied_paths(&self) -> impl Iterator<Item = &str> {
        self.paths.iter().chain(&self.boot.paths).map(String::as_str)
    }

    /// Adds what the guard of a reboot restores besides files.
    pub fn with_boot(self, boot: BootUndo) -> Self {
        Self { boot, ..self }
    }

    /// Adds files that the change made and that the declared steps remove.
    pub fn removing(self, removes: Vec<String>) -> Self {
        Self { removes, ..self }
    }

    /// Adds what the undo leaves unchanged.
    pub fn leaving(mut self, what: impl Into<String>) -> Self {
        self.remains.push(what.into());
        self
    }
}

impl UndoDeclaration {
    /// Returns the declaration of a resource that existed.
    pub fn present(kind: &str, fields: Value) -> Self {
        Self { kind: kind.to_owned(), absent: false, fields, restarts: false, follows: false }
    }

    /// Whether it is declared once all others are undone.
    pub fn is_last(&self) -> bool {
        self.restarts || self.follows
    }

    /// Returns the declaration of a resource that did not exist.
    pub fn absent(kind: &str, fields: Value) -> Self {
        Self { absent: true, ..Self::present(kind, fields) }
    }
}
