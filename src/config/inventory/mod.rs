//! The inventory: hosts, groups, variables, connections and what is applied where.

pub(crate) mod range;
pub(crate) mod selector;
