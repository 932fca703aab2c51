//! Keeps the secrets in forge's memory out of core dumps.

use rustix::process::{DumpableBehavior, Resource, Rlimit, set_dumpable_behavior, setrlimit};

/// Forbids core dumps of this process, also those that the kernel pipes to a program such as systemd-coredump, for which
/// the limit does not count (core(5)). Programs that forge starts inherit the limit only.
pub fn forbid_core_dumps() {
    // Neither can fail for the process itself; without them forge works all the same.
    let _ = setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) });
    let _ = set_dumpable_behavior(DumpableBehavior::NotDumpable);
}
