//! Keys of a step.

/// Keys that every step supports in addition to its resource.
pub(in crate::config) const STEP_KEYS: [&str; 21] = [
    "name",
    "when",
    "otherwise",
    "each",
    "key",
    "needs",
    "after",
    "effective",
    "during",
    "restart_on",
    "provides",
    "export",
    "disruption",
    "scope",
    "level",
    "timeout",
    "retries",
    "at_once",
    "guard",
    "long",
    "keep",
];
