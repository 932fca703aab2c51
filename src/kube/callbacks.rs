//! The functions that the caller of a cluster call supplies.

/// Receives progress messages of a call.
pub type ClusterProgressFn<'s> = &'s (dyn Fn(&str) + Send + Sync);

/// Reports whether the user wants to stop.
pub type CallStopFn<'s> = &'s (dyn Fn() -> bool + Send + Sync);
