//! The planner: desired state, facts and policy in, an immutable plan out.
//!
//! Architecture Invariant: planning is a pure function: no I/O, no clock, deterministic order.

mod basis;
mod model;
mod seen;

pub use basis::{canonical, digest};
pub use model::{Counts, Envelope, HostPlan, Plan, StepPlan, VerifyPlan};
pub use seen::{HostSeen, Reach, Unreachable};
