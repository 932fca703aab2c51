//! `drift.notify` as it is meant: who is told of what drift found, and how they are reached.

use camino::Utf8PathBuf;

/// The program that mail is handed to where nothing is declared.
pub const SENDMAIL: &str = "/usr/sbin/sendmail";

/// Somebody who is told.
#[derive(Clone, Debug)]
pub struct Recipient {
    /// Unique; that of the service where nothing is declared.
    pub name: String,
    pub service: Service,
}

/// How somebody is reached.
#[derive(Clone, Debug)]
pub enum Service {
    Webhook { url: LateSecret, token: Option<LateSecret> },
    Slack { url: LateSecret },
    Feishu { url: LateSecret, secret: Option<LateSecret> },
    DingTalk { url: LateSecret, secret: Option<LateSecret> },
    WeCom { url: LateSecret },
    Email { to: Vec<String>, from: Option<String>, sendmail: Utf8PathBuf },
}

/// A secret that only sending needs: where it is not there, everything else works all the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LateSecret {
    /// What stands for it in a dry run: `env SLACK_URL`.
    pub label: String,
    /// Its placeholder, or why there is none.
    pub value: Result<String, String>,
}

impl Service {
    /// Returns the key that it is declared by.
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
