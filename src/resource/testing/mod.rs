//! Hosts for tests: recorded observations, programs that print recorded output, actions run for real.

pub(in crate::resource) mod recorded_cases;
pub(in crate::resource) mod stubs;
pub(in crate::resource) mod trial;
