//! Notifications and their results.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The result of notifying one recipient of `drift.notify`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DriftNotification {
    /// The recipient's name in `drift.notify`.
    pub name: String,
    /// `slack`, `email` …
    pub service: String,
    /// Whether the recipient received a message.
    pub state: NotificationState,
    /// Why the notification failed. The next run includes its changes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// Number of new, changed and resolved findings, and how many of them did not fit.
    #[serde(default, skip_serializing_if = "super::model::is_zero")]
    pub items: usize,
    /// How many of the findings did not fit into the message.
    #[serde(default, skip_serializing_if = "super::model::is_zero")]
    pub left_out: usize,
}

/// The state of a notification.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum NotificationState {
    /// The recipient's service accepted the message.
    Told,
    /// There was no news.
    Quiet,
    /// The message was not delivered.
    Failed,
}
