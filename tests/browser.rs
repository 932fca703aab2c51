//! What reports of drift are to other programs: the HTML page in a headless browser, the text file, the rules and the dashboard
//! by promtool. `scripts/test` runs it in a stage of its own, which installs Debian's `chromium` and `prometheus`.

#![allow(
    clippy::disallowed_methods,
    clippy::expect_used,
    clippy::print_stderr,
    clippy::unwrap_used,
    reason = "a test looks from outside, and one that panics has failed"
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
