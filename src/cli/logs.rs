//! Tracing to stderr for `-vv` and `-vvv`.

use super::settings::CliSettings;
use tracing_subscriber::EnvFilter;

/// Starts logging if the verbosity asks for it. Logs never contain secrets or text of hosts: spans name hosts and
/// steps.
pub fn start_logging(settings: &CliSettings, colour: bool) {
    let level = match settings.verbose {
        0 | 1 => return,
        2 => "forge=debug",
        _ => "forge=trace",
    };
    let log = tracing_subscriber::fmt().with_env_filter(EnvFilter::new(level)).with_ansi(colour);
    // A second start in one process (in tests) keeps the first subscriber.
    let _ = log.with_writer(std::io::stderr).with_target(false).try_init();
}
