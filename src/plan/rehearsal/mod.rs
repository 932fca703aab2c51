//! Rehearsals: what running a plan in a view of a host showed, and what of it the plan does not say.
//!
//! Everything here is pure: `changes` parses what the host printed, `declared` lists what the steps declare, and
//! `classify` compares both.

mod accounts;
mod changes;
mod classify;
mod declared;
mod fold;
mod model;
#[cfg(test)]
mod tests;
mod view_space;

pub use changes::ViewChanges;
pub use classify::find_undeclared_effects;
pub use declared::{DeclaredEffects, collect_declared_effects};
pub use model::{
    AccountChange, AccountEffect, FileChange, FileEffect, HostRehearsal, InstalledFiles, PackageEffect,
    REHEARSAL_VERSION, RehearsalReport, RehearsalSummary, RehearsedResult, RehearsedStep, RehearsedVerification,
    UndeclaredEffects, UnitAction, UnitEffect,
};
pub use view_space::ViewSpace;
