//! Drift reports in other programs: the HTML page in a headless browser; the text file, the rules and the dashboard in
//! promtool. `scripts/test` runs it in its own stage, which installs Debian's `chromium` and `prometheus`.

#![allow(
    clippy::disallowed_methods,
    clippy::expect_used,
    clippy::print_stderr,
    clippy::unwrap_used,
    reason = "a test checks from outside, and a panic is a failed test"
)]

#[path = "browser/chrome.rs"]
mod chrome;
#[path = "browser/hostile.rs"]
mod hostile;
#[path = "browser/page.rs"]
mod page;
#[path = "browser/promtool.rs"]
mod promtool;
#[path = "browser/sample.rs"]
mod sample;
#[path = "browser/thousand.rs"]
mod thousand;
