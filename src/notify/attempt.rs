//! The result of one attempt to deliver a message.

use std::time::Duration;

/// A failed attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct DeliveryAttemptError {
    pub(super) why: String,
    pub(super) again: RetryAdvice,
}

/// Whether a retry may succeed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RetryAdvice {
    Never,
    Soon,
    After(Duration),
}

impl DeliveryAttemptError {
    pub(super) fn permanent(why: impl Into<String>) -> Self {
        Self { why: why.into(), again: RetryAdvice::Never }
    }

    pub(super) fn retryable(why: impl Into<String>) -> Self {
        Self { why: why.into(), again: RetryAdvice::Soon }
    }
}
