//! Kinds that run through the cluster's API.

pub(in crate::resource) mod helm_release;
pub(in crate::resource) mod job;
pub(in crate::resource) mod manifest;
pub(in crate::resource) mod namespace;
pub(in crate::resource) mod node;
pub(in crate::resource) mod object;
pub(in crate::resource) mod restore_object;
#[cfg(test)]
mod same_masking;
pub(in crate::resource) mod secret;
