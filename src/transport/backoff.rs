//! Delays between retries.

use backon::ExponentialBuilder;
use std::time::Duration;

/// Returns delays like [`retry_backoff`], for a total of `total`.
pub(super) fn backoff_within(total: Duration) -> ExponentialBuilder {
    retry_backoff(usize::MAX).with_total_delay(Some(total))
}

/// Returns delays of about 0.5 s, 1 s … with jitter, so that many hosts do not come back at once.
pub(super) fn retry_backoff(times: usize) -> ExponentialBuilder {
    ExponentialBuilder::default()
        .with_min_delay(Duration::from_millis(500))
        .with_max_delay(Duration::from_secs(15))
        .with_max_times(times)
        .with_jitter()
}
