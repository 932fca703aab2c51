//! Kinds with a command of the recipe: what no other kind covers.

pub(in crate::resource) mod command;
pub(in crate::resource) mod unproven_command;
pub(in crate::resource) mod wait_for;
