//! Keys of `connect`.

/// Keys of `connect`.
pub(in crate::config) const KEYS: [&str; 14] = [
    "user",
    "identity",
    "port",
    "config",
    "known_hosts",
    "jump",
    "host_key",
    "sudo",
    "transport",
    "command",
    "hardware",
    "timeout",
    "keep",
    "address",
];
