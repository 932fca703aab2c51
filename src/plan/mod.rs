//! The planner: takes desired state, facts and policy, and returns an immutable plan.
//!
//! Architecture Invariant: planning is a pure function: no I/O, no clock, deterministic order.

mod advice;
mod basis;
mod case;
mod demand;
mod fabric;
mod identity;
mod images;
mod judge;
mod memory;
mod model;
mod outside;
mod packages;
mod planner;
mod relied;
mod rollout;
mod scope;
mod seen;
mod span;
mod spread;
mod stale;
mod undeclared;
mod verify;
mod walk;
mod window;

pub use basis::{canonical, digest, digest_of};
pub use case::{Case, Chosen, Ground, Turn};
pub use demand::{demand, export_probes, is_input, of_turn, trace, verify_probes};
pub use images::Images;
pub use judge::{Ahead, Ruling, check_status, context, desired_digest, inputs, inputs_that_hold, judge};
pub use memory::{identity, left};
pub use model::{
    CheckRun, Counts, Envelope, Foresight, HostPlan, LeftBehind, Plan, Policy, StepPlan, VerifyPlan, Warning,
};
pub use planner::{Inputs, hosts_of, plan};
pub use relied::{Relied, moved, relied};
pub use rollout::{Progress, Quorum, Rollout, Turn as WindowTurn, Waited};
pub use scope::{Published, choose, exported, published, read_turn};
pub use seen::{HostSeen, NodeSeen, Reach, Refused, Stale, Unreachable};
pub use span::{Spans, StepTable, Wait, above};
pub use stale::{difference, moved_since};
pub use verify::{check_run, despite, unproven, verification};
pub use walk::{provided, resource_of, rule, title};
pub use window::{MARK as WINDOW_MARK, Reboot, Stage, Stop, Window, class, futile, left_open, runs_unit};
