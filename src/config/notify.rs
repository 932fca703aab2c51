//! The `drift.notify` settings: recipients of drift notifications and the services that reach them.

use camino::Utf8PathBuf;

/// Default program that sends mail.
pub const SENDMAIL: &str = "/usr/sbin/sendmail";

/// A recipient of notifications.
#[derive(Clone, Debug)]
pub struct Recipient {
    /// Unique name; defaults to the name of the service.
    pub name: String,
    pub service: Service,
}

/// The service that delivers notifications.
#[derive(Clone, Debug)]
pub enum Service {
    Webhook { url: LateSecret, token: Option<LateSecret> },
    Slack { url: LateSecret },
    Feishu { url: LateSecret, secret: Option<LateSecret> },
    DingTalk { url: LateSecret, secret: Option<LateSecret> },
    WeCom { url: LateSecret },
    Email { to: Vec<String>, from: Option<String>, sendmail: Utf8PathBuf },
}

/// A secret that is needed only to send notifications. If it is missing, everything else still works.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LateSecret {
    /// Its label in a dry run: `env SLACK_URL`.
    pub label: String,
    /// Its placeholder, or why it could not be read.
    pub value: Result<String, String>,
}

impl Service {
    /// Returns the key that declares the service.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Webhook { .. } => "webhook",
            Self::Slack { .. } => "slack",
            Self::Feishu { .. } => "feishu",
            Self::DingTalk { .. } => "dingtalk",
            Self::WeCom { .. } => "wecom",
            Self::Email { .. } => "email",
        }
    }
}
