//! Delivers messages to notification services: HTTP POST, a local mail program, SMTP. Independent of their content.
//!
//! Architecture Invariants: addresses and request contents are secrets and never appear in program arguments or error
//! messages. Redirects are not followed. Attempts are limited in number and time.

mod attempt;
mod http;
mod mail;
mod response;
mod signature;
mod smtp;
#[cfg(test)]
mod tests;

pub use http::HttpMessage;
pub use mail::MailMessage;
pub use response::ResponseFormat;
pub use signature::{sign_dingtalk_url, sign_feishu_body};
pub use smtp::{SmtpMessage, complete_mail_headers};

use attempt::{DeliveryAttemptError, RetryAdvice};
use backon::{BackoffBuilder, ExponentialBuilder};
use std::time::Duration;

/// A message to deliver.
pub enum NotifyDelivery {
    /// By an HTTP POST.
    Post(HttpMessage),
    /// By the mail program of this machine.
    Mail(MailMessage),
    /// By SMTP to a mail server.
    Smtp(SmtpMessage),
}

/// The retry policy of a message.
#[derive(Clone, Copy, Debug)]
pub struct DeliveryRetryPolicy {
    /// Maximum number of retries.
    pub again: usize,
    /// Delay before the first retry, doubled for each later one.
    pub first: Duration,
    /// Timeout of one attempt.
    pub limit: Duration,
    /// Maximum `Retry-After` of a service. If a service asks for more, delivery is left to the next run.
    pub wait: Duration,
}

impl Default for DeliveryRetryPolicy {
    fn default() -> Self {
        let seconds = Duration::from_secs;
        Self { again: 2, first: seconds(1), limit: seconds(10), wait: seconds(30) }
    }
}

/// The reason why a message was not delivered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeliveryError {
    /// A lowercase fragment, without secrets.
    pub why: String,
    /// Number of attempts, at least 1.
    pub tries: usize,
}

/// Sends a message and retries if that may help. Returns the number of attempts.
///
/// If the response of a service is lost, the message may be delivered twice.
///
/// # Errors
/// The message was not delivered; contains the reason.
pub async fn send_delivery(delivery: &NotifyDelivery, patience: &DeliveryRetryPolicy) -> Result<usize, DeliveryError> {
    let delays = ExponentialBuilder::default().with_min_delay(patience.first).with_max_times(patience.again);
    let mut delays = delays.with_jitter().build();
    let mut tries = 0;
    loop {
        tries += 1;
        let failed = match try_deliver(delivery, patience).await {
            Ok(()) => return Ok(tries),
            Err(failed) => failed,
        };
        let wait = match (failed.again, delays.next()) {
            (RetryAdvice::Soon, Some(delay)) => delay,
            (RetryAdvice::After(asked), Some(delay)) if asked <= patience.wait => asked.max(delay),
            _ => return Err(DeliveryError { why: failed.why, tries }),
        };
        tokio::time::sleep(wait).await;
    }
}

async fn try_deliver(delivery: &NotifyDelivery, patience: &DeliveryRetryPolicy) -> Result<(), DeliveryAttemptError> {
    match delivery {
        NotifyDelivery::Post(post) => post.try_deliver(patience.limit).await,
        NotifyDelivery::Mail(mail) => mail.try_deliver(patience.limit).await,
        NotifyDelivery::Smtp(mail) => mail.try_deliver(patience.limit).await,
    }
}
