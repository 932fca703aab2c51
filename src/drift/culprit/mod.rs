//! Who did it: what a host's own logs say of a change behind forge's back.
//!
//! Architecture Invariant: a guess is never told as a fact. Evidence that speaks of the very thing *names* somebody; what
//! only happened at the same time is told as *near*; what cannot be read is unknown, which is not the same as nobody.

mod model;

pub use model::{Culprit, Sure};
