//! The command line: the real binary, its output and its exit codes.

#![allow(
    clippy::disallowed_methods,
    clippy::expect_used,
    clippy::print_stderr,
    clippy::unwrap_used,
    reason = "tests may start programs, and a panic fails the test"
)]

#[path = "cli/ansible.rs"]
mod ansible;
#[path = "cli/ci.rs"]
mod ci;
#[path = "cli/completions.rs"]
mod completions;
#[path = "cli/drift.rs"]
mod drift;
#[path = "cli/examples.rs"]
mod examples;
#[path = "cli/exit_codes.rs"]
mod exit_codes;
#[path = "cli/fetch.rs"]
mod fetch;
#[path = "cli/help.rs"]
mod help;
#[path = "cli/hostile.rs"]
mod hostile;
#[path = "cli/images.rs"]
mod images;
#[path = "cli/init.rs"]
mod init;
#[path = "cli/manual.rs"]
mod manual;
#[path = "cli/notify.rs"]
mod notify;
#[path = "cli/offline.rs"]
mod offline;
#[path = "cli/past.rs"]
mod past;
#[path = "cli/pypi.rs"]
mod pypi;
#[path = "cli/recordings.rs"]
mod recordings;
#[path = "cli/saved.rs"]
mod saved;
#[path = "cli/secrets.rs"]
mod secrets;
#[path = "common/server.rs"]
mod server;
#[path = "common/smtp_server.rs"]
mod smtp_server;
#[path = "cli/support.rs"]
mod support;
#[path = "cli/surroundings.rs"]
mod surroundings;
#[path = "cli/test.rs"]
mod test;
#[path = "cli/test_launch.rs"]
mod test_launch;
#[path = "cli/toolchain.rs"]
mod toolchain;
#[path = "cli/usage.rs"]
mod usage;
#[path = "cli/validate.rs"]
mod validate;
