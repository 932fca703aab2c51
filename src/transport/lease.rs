//! The lease of what a channel keeps on a host: the writer lock, and the view of a rehearsal.

/// Heartbeat timeout of a holder in seconds: a controller that lost its power closes nothing.
pub(super) const LEASE_S: u64 = 90;
