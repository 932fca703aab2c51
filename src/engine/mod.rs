//! The engine: observes hosts, carries out a plan, proves it, and says so in events.

mod event;
mod report;

pub use event::{Event, Failure, StepResult, VerifyResult};
pub use report::{HostReport, Report, StepReport, VerifyReport};
