//! Determines the notifications after a drift run: from the history, relative to each recipient's last notification.

use crate::config::{DeferredSecret, MailTransport, NotifyRecipient, NotifyService, Project, SmtpServer};
use crate::drift::{self, DriftHistoryEntry, DriftNotice, DriftReport, NoticeDecision};
use crate::model::SecretStore;
use crate::notify::{self, HttpMessage, MailMessage, NotifyDelivery, ResponseFormat, SmtpMessage};
use crate::state::{DriftLog, NotifyLock, StoreError};
use jiff::Timestamp;
use schemars::JsonSchema;
use secrecy::SecretString;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The format version of the file with each recipient's last notification. Compatible additions keep it; any other
/// change increments it.
const NOTIFIED_VERSION: u32 = 1;

/// The last run that each recipient was notified of.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
struct NotifiedRuns {
    version: u32,
    /// The run by the recipient's name; empty if there is none yet.
    runs: BTreeMap<String, String>,
}

impl NotifiedRuns {
    /// Parses the file. Ignoring an invalid file would report every finding again, or lose pending notifications.
    fn parse_file(text: &str) -> Result<Self, String> {
        let told: Self = serde_json::from_str(text).map_err(|error| {
            format!(
                "`told.json` in the history is invalid ({error}): remove it to notify recipients of the next run only"
            )
        })?;
        match told.version {
            ..=NOTIFIED_VERSION => Ok(told),
            newer => Err(format!(
                "`told.json` in the history has version {newer}; this forge supports version {NOTIFIED_VERSION}"
            )),
        }
    }
}

/// The pending notifications. While this value exists, no other run sends any.
pub struct NoticeQueue {
    telling: NotifyLock,
    told: NotifiedRuns,
    last: String,
    /// One entry per declared recipient, in the order of the inventory.
    pub list: Vec<QueuedNotice>,
}

/// The notification of one recipient; `None` inside if there is no relevant change.
pub struct QueuedNotice {
    /// The recipient, as declared.
    pub recipient: NotifyRecipient,
    /// The changes to report to this recipient; `None` if there are none.
    pub notice: Option<DriftNotice>,
}

/// Returns the notifications of all declared recipients after a run. New recipients are recorded at the same time, so
/// that a notification that is not sent now, for whatever reason, is sent later.
///
/// # Errors
/// The history cannot be read or written: then every finding would look new.
pub fn queue_notices(project: &Project, drift: &DriftReport, log: &DriftLog) -> Result<NoticeQueue, String> {
    if let Some(why) = &drift.no_history {
        return Err(format!("no history is kept, so every finding would look new: {why}"));
    }
    let plain = |error: StoreError| error.to_string();
    let telling = log.lock_for_notify().map_err(plain)?;
    let mut told = log
        .read_notified()
        .map_err(plain)?
        .map_or_else(|| Ok(NotifiedRuns::default()), |text| NotifiedRuns::parse_file(&text))?;
    let entries = log.read_lines(None).map_err(plain)?;
    let entries = drift::parse_history_entries(entries.iter().map(String::as_str));
    let Some(last) = entries.last() else { return Err("the history contains no run".to_owned()) };
    let list = project
        .drift
        .notify
        .iter()
        .map(|recipient| build_queued_notice(recipient, &entries, drift, &mut told))
        .collect();
    let declared = |name: &String| project.drift.notify.iter().any(|recipient| recipient.name == *name);
    told.version = NOTIFIED_VERSION;
    told.runs.retain(|name, _| declared(name));
    let errands = NoticeQueue { telling, told, last: last.run.clone(), list };
    errands.save_notified()?;
    Ok(errands)
}

fn build_queued_notice(
    recipient: &NotifyRecipient,
    entries: &[DriftHistoryEntry],
    drift: &DriftReport,
    told: &mut NotifiedRuns,
) -> QueuedNotice {
    let last = entries.last().map(|entry| entry.run.clone()).unwrap_or_default();
    // A new recipient is notified of this run's changes, but not of older findings.
    let before = entries.iter().rev().nth(1).map(|entry| entry.run.clone()).unwrap_or_default();
    let run = told.runs.entry(recipient.name.clone()).or_insert(before);
    let notice = match drift::build_notice(entries, run, drift) {
        NoticeDecision::Tell(notice) => Some(*notice),
        NoticeDecision::Waiting => None,
        NoticeDecision::Nothing => {
            *run = last;
            None
        }
    };
    QueuedNotice { recipient: recipient.clone(), notice }
}

impl NoticeQueue {
    /// Records that a recipient was notified.
    ///
    /// # Errors
    /// Returns the reason if that cannot be recorded. The recipient is then notified again.
    pub fn mark_notified(&mut self, name: &str) -> Result<(), String> {
        self.told.runs.insert(name.to_owned(), self.last.clone());
        self.save_notified()
    }

    fn save_notified(&self) -> Result<(), String> {
        self.telling.save_notified(&self.told).map_err(|error| error.to_string())
    }
}

/// Returns the message to a recipient, with its secrets filled in.
///
/// # Errors
/// Returns the reason if a secret is missing.
pub fn build_delivery(
    service: &NotifyService,
    body: String,
    secrets: &SecretStore,
    now: Timestamp,
) -> Result<NotifyDelivery, String> {
    let reveal =
        |secret: &DeferredSecret| secret.value.clone().map(|placeholder| secrets.reveal_placeholders(&placeholder));
    let optional = |secret: &Option<DeferredSecret>| secret.as_ref().map(reveal).transpose();
    let post = |url: SecretString, body: String, manner: ResponseFormat| HttpMessage {
        url,
        token: None,
        body,
        manner,
        open: false,
    };
    Ok(NotifyDelivery::Post(match service {
        NotifyService::Email { transport: MailTransport::Sendmail(program), .. } => {
            return Ok(NotifyDelivery::Mail(MailMessage { program: program.clone(), text: body }));
        }
        NotifyService::Email { to, from, transport: MailTransport::Smtp(server) } => {
            let from = from.clone().ok_or("`from` is not set")?;
            let login = server.login.as_ref();
            let login =
                login.map(|login| Ok::<_, String>((login.user.clone(), reveal(&login.password)?))).transpose()?;
            let SmtpServer { host, port, tls, .. } = server.clone();
            let text = notify::complete_mail_headers(&body, &from, now);
            return Ok(NotifyDelivery::Smtp(SmtpMessage { host, port, tls, login, from, to: to.clone(), text }));
        }
        NotifyService::Webhook { url, token } => {
            let token = optional(token)?;
            HttpMessage { open: token.is_none(), token, ..post(reveal(url)?, body, ResponseFormat::Status) }
        }
        NotifyService::Slack { url } => post(reveal(url)?, body, ResponseFormat::Ok),
        NotifyService::WeCom { url } => post(reveal(url)?, body, ResponseFormat::Errcode),
        NotifyService::Feishu { url, secret } => {
            let body = optional(secret)?.map_or_else(|| body.clone(), |key| notify::sign_feishu_body(&body, &key, now));
            post(reveal(url)?, body, ResponseFormat::Code)
        }
        NotifyService::DingTalk { url, secret } => {
            let (url, key) = (reveal(url)?, optional(secret)?);
            let url = key.map_or_else(|| url.clone(), |key| notify::sign_dingtalk_url(&url, &key, now));
            post(url, body, ResponseFormat::Errcode)
        }
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_or_newer_notified_runs_file_is_rejected() {
        let told = NotifiedRuns::parse_file(r#"{"version": 1, "runs": {"ops": "r1"}}"#).unwrap();
        assert_eq!(told.runs["ops"], "r1");
        let broken = NotifiedRuns::parse_file("{\"version\": 1, \"runs\"").unwrap_err();
        assert!(broken.starts_with("`told.json` in the history is invalid (EOF while parsing"), "{broken}");
        let newer = NotifiedRuns::parse_file(r#"{"version": 2, "runs": {}}"#).unwrap_err();
        assert_eq!(newer, "`told.json` in the history has version 2; this forge supports version 1");
    }
}
