//! Elapsed and estimated times as short text.

use std::time::Duration;

/// Formats an elapsed time: `8s`, `2m 05s`, `1h 07m`.
pub fn format_elapsed(time: Duration) -> String {
    match time.as_secs() {
        seconds @ ..60 => format!("{seconds}s"),
        seconds @ ..3600 => format!("{}m {:02}s", seconds / 60, seconds % 60),
        seconds => format!("{}h {:02}m", seconds / 3600, seconds % 3600 / 60),
    }
}

/// Formats an estimated time, rounded up: `20s`, `4m`, `1h 10m`.
pub fn format_estimate(time: Duration) -> String {
    let seconds = time.as_secs_f64().ceil() as u64;
    let minutes = seconds.div_ceil(60);
    match seconds {
        ..=50 => format!("{}s", seconds.div_ceil(10) * 10),
        51..=3540 => format!("{minutes}m"),
        _ => format_elapsed(Duration::from_secs(minutes.div_ceil(10) * 600)),
    }
}
