//! The `drift.notify` settings: recipients of drift notifications and the services that reach them.

use crate::model::SmtpEncryption;
use camino::Utf8PathBuf;

/// Default program that sends mail.
pub const SENDMAIL: &str = "/usr/sbin/sendmail";

/// A recipient of notifications.
#[derive(Clone, Debug)]
pub struct NotifyRecipient {
    /// Unique name; defaults to the name of the service.
    pub name: String,
    pub service: NotifyService,
}

/// The service that delivers notifications.
#[derive(Clone, Debug)]
pub enum NotifyService {
    Webhook { url: DeferredSecret, token: Option<DeferredSecret> },
    Slack { url: DeferredSecret },
    Feishu { url: DeferredSecret, secret: Option<DeferredSecret> },
    DingTalk { url: DeferredSecret, secret: Option<DeferredSecret> },
    WeCom { url: DeferredSecret },
    Email { to: Vec<String>, from: Option<String>, transport: MailTransport },
}

/// The way of a mail.
#[derive(Clone, Debug)]
pub enum MailTransport {
    /// A program on this machine.
    Sendmail(Utf8PathBuf),
    /// A mail server.
    Smtp(SmtpServer),
}

/// A mail server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SmtpServer {
    /// A name or an IP address.
    pub host: String,
    pub port: u16,
    pub tls: SmtpEncryption,
    pub login: Option<SmtpLogin>,
}

/// Credentials for a mail server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SmtpLogin {
    pub user: String,
    pub password: DeferredSecret,
}

/// A secret that is needed only to send notifications. If it is missing, everything else still works.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeferredSecret {
    /// Its label in a dry run: `env SLACK_URL`.
    pub label: String,
    /// Its placeholder, or why it could not be read.
    pub value: Result<String, String>,
}

impl NotifyService {
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
