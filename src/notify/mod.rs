//! Sends messages to services that people watch: a POST, or mail by a program of this machine. Knows nothing of what they say.
//!
//! Architecture Invariants: an address is a secret, and so is what a request carries; neither stands in an argument of a
//! program or in a message of failure. Nothing is followed to another address. Tries are bounded, in number and time.

mod answer;
mod http;
mod mail;
mod sign;
#[cfg(test)]
mod tests;

pub use answer::Manner;
pub use http::Post;
pub use mail::Mail;
pub use sign::{dingtalk, feishu};

use backon::{BackoffBuilder, ExponentialBuilder};
use std::time::Duration;

/// A message on its way.
pub enum Delivery {
    Post(Post),
    Mail(Mail),
}

/// How long a message is tried.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// Tries after the first.
    pub again: usize,
    /// Before the second try; doubled for each later one.
    pub first: Duration,
    /// Of one try.
    pub limit: Duration,
    /// The longest wait that a service may ask for: what asks for more is left to the next run.
    pub wait: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        let seconds = Duration::from_secs;
        Self { again: 2, first: seconds(1), limit: seconds(10), wait: seconds(30) }
    }
}

/// Why a message was not taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Undelivered {
    /// A lowercase fragment, without secrets.
    pub why: String,
    pub tries: usize,
}

/// A try that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Failed {
    why: String,
    again: Again,
}

/// Whether the same may be taken a little later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Again {
    Never,
    Soon,
    After(Duration),
}

impl Failed {
    fn never(why: impl Into<String>) -> Self {
        Self { why: why.into(), again: Again::Never }
    }

    fn soon(why: impl Into<String>) -> Self {
        Self { why: why.into(), again: Again::Soon }
    }
}

/// Sends a message, and tries again where that may help. Returns how many tries it took.
///
/// A service whose answer was lost may have taken it: then it comes twice.
///
/// # Errors
/// It was not taken: why.
pub async fn send(delivery: &Delivery, patience: &Patience) -> Result<usize, Undelivered> {
    let delays = ExponentialBuilder::default().with_min_delay(patience.first).with_max_times(patience.again);
    let mut delays = delays.with_jitter().build();
    let mut tries = 0;
    loop {
        tries += 1;
        let failed = match attempt(delivery, patience).await {
            Ok(()) => return Ok(tries),
            Err(failed) => failed,
        };
        let wait = match (failed.again, delays.next()) {
            (Again::Soon, Some(delay)) => delay,
            (Again::After(asked), Some(delay)) if asked <= patience.wait => asked.max(delay),
            _ => return Err(Undelivered { why: failed.why, tries }),
        };
        tokio::time::sleep(wait).await;
    }
}

async fn attempt(delivery: &Delivery, patience: &Patience) -> Result<(), Failed> {
    match delivery {
        Delivery::Post(post) => post.attempt(patience.limit).await,
        Delivery::Mail(mail) => mail.attempt(patience.limit).await,
    }
}
