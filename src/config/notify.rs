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
    /// Where and how the notifications are sent.
    pub service: NotifyService,
}

/// The service that delivers notifications.
#[derive(Clone, Debug)]
pub enum NotifyService {
    /// Posts the notification as JSON (`schemas/drift-notice.json`).
    Webhook {
        /// The address that receives the request; a secret, like those of the chat services.
        url: DeferredSecret,
        /// Sent as `Authorization: Bearer`; `None` to post without a login.
        token: Option<DeferredSecret>,
    },
    /// Posts to an incoming webhook of Slack.
    Slack {
        /// The address of the webhook, which allows anyone who has it to post.
        url: DeferredSecret,
    },
    /// Posts to a custom bot of Feishu.
    Feishu {
        /// The address of the bot, which allows anyone who has it to post.
        url: DeferredSecret,
        /// Key that signs the messages; `None` if the bot requires no signature.
        secret: Option<DeferredSecret>,
    },
    /// Posts to a custom robot of DingTalk.
    DingTalk {
        /// The address of the robot, which allows anyone who has it to post.
        url: DeferredSecret,
        /// Key that signs the requests; `None` if the robot requires no signature.
        secret: Option<DeferredSecret>,
    },
    /// Posts to a group robot of WeCom.
    WeCom {
        /// The address of the robot, which allows anyone who has it to post.
        url: DeferredSecret,
    },
    /// Sends a mail.
    Email {
        /// Addresses of the recipients, at least one, without display names.
        to: Vec<String>,
        /// Address of the sender; required for a mail server. `None` leaves it to the program.
        from: Option<String>,
        /// How the mail leaves this machine.
        transport: MailTransport,
    },
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
    /// TCP port; by default that of the encryption: 587, 465 or 25.
    pub port: u16,
    /// How the connection is encrypted.
    pub tls: SmtpEncryption,
    /// The login; `None` to send without one.
    pub login: Option<SmtpLogin>,
}

/// Credentials for a mail server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SmtpLogin {
    /// User name at the mail server.
    pub user: String,
    /// Password of the user; only sent encrypted, or to a server on this machine.
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
    /// Returns the secrets of the service.
    pub(super) fn list_secrets_mut(&mut self) -> Vec<&mut DeferredSecret> {
        match self {
            Self::Webhook { url, token: secret } | Self::Feishu { url, secret } | Self::DingTalk { url, secret } => {
                std::iter::once(url).chain(secret).collect()
            }
            Self::Slack { url } | Self::WeCom { url } => vec![url],
            Self::Email { transport: MailTransport::Smtp(server), .. } => {
                server.login.iter_mut().map(|login| &mut login.password).collect()
            }
            Self::Email { transport: MailTransport::Sendmail(_), .. } => Vec::new(),
        }
    }

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
